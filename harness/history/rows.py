"""A run as rows, one a sample: the schema of the store's Parquet files; pure.

The schema is part of the harness's promise to other readers: docs/history.md. Unknown is null, never 0.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from harness.errors import RunFolderError
from harness.records import OUTCOMES, Header, Metric, Record, Run

SCHEMA = 1
"""Version of the columns; columns are added, never removed or given another meaning."""

COLUMNS: dict[str, str] = {
    "test": "string",
    "metric": "string",
    "started": "timestamp",
    "run_id": "string",
    "repeat": "int32",
    "index": "int32",
    "warmup": "bool",
    "value": "double",
    "unit": "string",
    "work": "string",
    "suite": "string",
    "outcome": "string",
    "target": "string",
    "target_commit": "string",
    "target_dirty": "bool",
    "patches": "string",
    "defect": "string",
    "configuration": "string",
    "harness_commit": "string",
    "emulated": "bool",
    "stand_in": "bool",
    "host": "string",
    "processor": "string",
    "software": "string",
}
"""Columns in the order of the file, with their types; rows are ordered by the first six."""

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")


@dataclass(frozen=True)
class Rows:
    """A run for the store: by column one value a row; `digest`: 16 hex digits over all of it."""

    run_id: str
    runner: str
    digest: str
    started: datetime
    columns: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(self.columns["test"])


def rows_of(run: Run) -> Rows:
    """The rows of a run: one a sample; a metric without samples, or a test without metrics, leaves one without value.

    RunFolderError when the run's id or start cannot stand in the store.
    """
    header = run.header
    if not RUN_ID.fullmatch(header.run_id):
        raise RunFolderError(
            f"run.json: run_id {header.run_id!r:.200} is no name; the file is not of this harness"
        )
    started = read_time(header.started)
    same = {
        "started": started,
        "run_id": header.run_id,
        "target": header.target.name,
        "target_commit": header.target.commit,
        "target_dirty": header.target.dirty,
        "patches": json.dumps(list(header.target.patches)),
        "defect": header.defect,
        "configuration": header.configuration_digest,
        "harness_commit": header.harness_commit,
        "emulated": header.runner.emulated,
        "stand_in": header.runner.stand_in,
        "host": _text(header.machine.get("host")),
        "processor": _text(header.machine.get("processor")),
        "software": _canonical(dict(header.software)),
    }
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for own in sorted(_samples(run), key=_order):
        for name in COLUMNS:
            columns[name].append(own[name] if name in own else same[name])
    return Rows(header.run_id, header.runner.key, _digest(header, columns), started, columns)


def read_time(text: str) -> datetime:
    """A moment in UTC from ISO text, which is taken for UTC when it has no zone; RunFolderError for anything else."""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        utc = found.replace(tzinfo=timezone.utc) if found.tzinfo is None else found.astimezone(timezone.utc)
        if utc.year < 1970:
            raise ValueError
    except (ValueError, OverflowError):
        raise RunFolderError(
            f"run.json: started {text!r:.60} is no ISO time; the file is not of this harness"
        ) from None
    return utc


def _samples(run: Run) -> Iterator[dict[str, Any]]:
    for record in _worst(run):
        common = {
            "test": record.test,
            "suite": record.suite,
            "outcome": record.outcome,
            "repeat": record.repeat,
        }
        for metric in record.metrics:
            yield from ({**common, **own} for own in _of_metric(metric))
        if not record.metrics:
            nothing = ("metric", "unit", "index", "warmup", "value", "work")
            yield {**common, **dict.fromkeys(nothing)}


def _of_metric(metric: Metric) -> Iterator[dict[str, Any]]:
    work = _canonical(dict(metric.work)) if metric.work else None
    common = {"metric": metric.name, "unit": metric.unit, "work": work}
    for index, value in enumerate(metric.samples):
        yield {**common, "index": index, "warmup": index < metric.warmup, "value": value}
    if not metric.samples:
        yield {**common, "index": None, "warmup": None, "value": None}


def _worst(run: Run) -> list[Record]:
    """One record a test and repeat: of several, which a retried worker leaves, the worst."""
    kept: dict[tuple[str, int | None], Record] = {}
    for record in run.records:
        key = (record.test, record.repeat)
        if key not in kept or _badness(record) >= _badness(kept[key]):
            kept[key] = record
    return list(kept.values())


def _badness(record: Record) -> int:
    order = ("passed", "skipped", "failed", "error")
    assert set(order) == set(OUTCOMES)
    return order.index(record.outcome)


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    keys = (row["test"], row["metric"], row["repeat"], row["index"])
    return tuple((key is not None, key or 0) if not isinstance(key, str) else (True, key) for key in keys)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(header: Header, columns: dict[str, list[Any]]) -> str:
    text = json.dumps(
        [SCHEMA, header.runner.key, columns],
        sort_keys=True,
        separators=(",", ":"),
        default=lambda d: d.isoformat(),
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]
