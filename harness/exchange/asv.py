"""Results of airspeed velocity (asv): one file a commit and environment, of both forms that it has written.

Form 1 has an object a benchmark (`result`, `params`, `samples`, `stats`; in the oldest the bare number), form 2 a list
a benchmark in the order of `result_columns`, shortened where the end is null. A null is a failure there, a not-a-number
a combination that was skipped. Units stand in `benchmarks.json` beside the machines' folders, when it is there.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness.exchange.imported import SUITE, Imported, ImportFault, checked, need, read_json, text_or_none
from harness.records import Metric, Record

TOOL = "asv"
OTHER_FILES = ("machine.json", "benchmarks.json")
UNITS = {"time": "seconds", "timeraw": "seconds", "mem": "bytes", "peakmem": "bytes"}
"""By the first word of a benchmark's function, where no benchmarks.json tells."""


def is_mine(value: Any) -> bool:
    """Whether a JSON value has the shape of this tool's results."""
    return isinstance(value, dict) and "results" in value and "commit_hash" in value


def find_files(folder: Path) -> list[Path]:
    """The result files below asv's `results` folder or one machine's."""
    return sorted(p for p in folder.rglob("*.json") if p.name not in OTHER_FILES)


def read_units(path: Path) -> dict[str, str]:
    """Units by benchmark, from the benchmarks.json that belongs to a result file; empty when there is none."""
    for folder in path.parents[:2]:
        file = folder / "benchmarks.json"
        if file.is_file():
            _, value = read_json(file)
            known = value.items() if isinstance(value, dict) else ()
            return {n: b["unit"] for n, b in known if isinstance(b, dict) and isinstance(b.get("unit"), str)}
    return {}


def read(value: Any, path: Path, units: Mapping[str, str]) -> Imported:
    """The results of one file; ImportFault names what is wrong with it."""
    where = str(path)
    params = need(value, "params", dict, where)
    results = need(value, "results", dict, where)
    columns = need(value, "result_columns", list, where) if "result_columns" in value else None
    times = value["started_at"] if isinstance(value.get("started_at"), dict) else {}
    durations = value["duration"] if isinstance(value.get("duration"), dict) else {}
    records: list[Record] = []
    started: list[float] = []
    for name, entry in results.items():
        fields = _fields(entry, columns, f"{where}: results: {name}")
        fields.setdefault("started_at", times.get(name))
        fields.setdefault("duration", durations.get(name))
        unit = units.get(name) or UNITS.get(name.rpartition(".")[2].split("_")[0].lower(), "unit")
        records += _records(name, fields, unit, f"{where}: results: {name}")
        if fields["started_at"] is not None:
            started.append(checked(fields["started_at"], float, f"{where}: results: {name}: started_at"))
    if not records:
        raise ImportFault(f"{where}: results is empty; nothing was measured")
    began = min(started) if started else need(value, "date", float, where)
    python = text_or_none(value, "python") or text_or_none(params, "python")
    environment = text_or_none(value, "env_name") or {
        k: params[k] for k in sorted(params) if k not in _OF_MACHINE
    }
    return Imported(
        tool=TOOL,
        started=_time(began, where),
        arch=text_or_none(params, "arch"),
        project=None,
        commit=need(value, "commit_hash", str, where),
        dirty=False,
        configuration={"machine": text_or_none(params, "machine"), "environment": environment},
        machine={
            "host": text_or_none(params, "machine"),
            "processor": text_or_none(params, "cpu"),
            "system": text_or_none(params, "os"),
        },
        software={"python": python},
        records=tuple(records),
        notes=() if started else ("no start times: the commit's date stands for them",),
    )


_OF_MACHINE = ("machine", "arch", "cpu", "num_cpu", "os", "ram", "version")


def _fields(entry: Any, columns: list[Any] | None, where: str) -> dict[str, Any]:
    """One benchmark's entry by name, whatever the form."""
    if columns is not None:
        values = checked(entry, list, where)
        if len(values) > len(columns):
            raise ImportFault(
                f"{where}: has {len(values)} values, but there are {len(columns)} result_columns"
            )
        return dict(zip((str(c) for c in columns), values, strict=False))
    if isinstance(entry, dict):
        if "result" not in entry:
            raise ImportFault(f"{where}: result is missing")
        return dict(entry)
    return {"result": entry}


def _records(name: str, fields: Mapping[str, Any], unit: str, where: str) -> Iterator[Record]:
    """A record a combination of parameters."""
    axes = [
        checked(a, list, f"{where}: params")
        for a in checked(fields.get("params") or [], list, f"{where}: params")
    ]
    combinations = list(itertools.product(*axes))
    results = _each(fields.get("result"), len(combinations), f"{where}: result")
    samples = _each(fields.get("samples"), len(combinations), f"{where}: samples", nested=True)
    total_s = fields.get("duration")
    for words, result, own in zip(combinations, results, samples, strict=True):
        test = f"{name}({', '.join(map(str, words))})" if words else name
        taken = None if own is None else checked(own, list, f"{where}: samples")
        if result is None:
            yield Record(
                test,
                SUITE,
                "failed",
                0.0,
                kind="exception",
                reason="asv has no result of it: it failed there",
            )
            continue
        value = checked(result, float, f"{where}: result")
        if math.isnan(value):
            yield Record(test, SUITE, "skipped", 0.0, reason="skipped by the benchmark itself")
            continue
        values = [checked(v, float, f"{where}: samples") for v in taken] if taken else [value]
        duration_s = total_s / len(combinations) if isinstance(total_s, (int, float)) else math.fsum(values)
        metric = _metric(unit, tuple(values))
        yield Record(test, SUITE, "passed", duration_s if metric.unit == "s" else 0.0, metrics=(metric,))


def _each(value: Any, count: int, where: str, nested: bool = False) -> list[Any]:
    """One value a combination; a null stands for nulls, and the oldest form has a bare value where there is one."""
    if value is None:
        return [None] * count
    if not isinstance(value, list) or (nested and value and not isinstance(value[0], (list, type(None)))):
        value = [value]
    if len(value) != count:
        raise ImportFault(f"{where} has {len(value)} values for {count} combinations of parameters")
    return list(value)


def _metric(unit: str, values: tuple[float, ...]) -> Metric:
    if unit == "seconds":
        return Metric("time_s", "s", values)
    if unit == "bytes":
        return Metric("memory_bytes", "bytes", values)
    return Metric("value", unit, values)


def _time(milliseconds: float, where: str) -> datetime:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise ImportFault(f"{where}: {json.dumps(milliseconds)} is no time in milliseconds") from None
