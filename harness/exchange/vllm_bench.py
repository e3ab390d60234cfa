"""Results of vLLM's serving benchmark (`vllm bench serve`, before it `benchmarks/benchmark_serving.py`), of its versions.

One JSON object a run of the tool; `--append-result` writes one object a line. They differ thus: 2024 had `best_of`, no
`burstiness` and no `max_concurrency`, always the lists of single requests, and its mean and median of `e2el` stood in
each other's place; then came `burstiness`, `max_concurrency` and `--save-detailed`; then `endpoint_type`, `label`,
`failed` and peaks; then `latencies`, `rtfx` and a `tokenizer_id` that may be null. Pooling models have no output tokens.
No version names the device, their number or the data set.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness.exchange.imported import SUITE, Imported, ImportFault, checked, need, text_or_none
from harness.exchange.vllm_numbers import finite, lists, near, summaries
from harness.records import Metric, Record, RunnerInfo

TOOL = "vllm-bench"
SERVE = "serve_s"
"""The metric whose sample is one run of the tool, from the first request to the last answer."""
NEEDED = ("model_id", "num_prompts", "duration", "completed", "total_input_tokens", "request_throughput")


@dataclass(frozen=True)
class Told:
    """What no file says and the user may: the runner and its device, how many served, and the data set. `devices` None is
    unknown."""

    runner: str = "imported"
    device: str = "unknown"
    devices: int | None = None
    dataset: str | None = None
    emulated: bool = False


def is_mine(value: Any) -> bool:
    """Whether a JSON value has the shape of this tool's results."""
    return isinstance(value, dict) and all(
        k in value for k in ("model_id", "num_prompts", "total_input_tokens")
    )


def read_objects(data: bytes, path: Path) -> list[Any]:
    """The JSON values of a file, one after the other; ImportFault names the line where it is none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ImportFault(f"{path}: no text; name a JSON file") from None
    found, at, decoder = [], 0, json.JSONDecoder()
    try:
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            value, at = decoder.raw_decode(text, at)
            found.append(value)
    except json.JSONDecodeError as error:
        raise ImportFault(
            f"{path}: line {error.lineno}: {error.msg}; the file is no JSON or damaged"
        ) from None
    except RecursionError:
        raise ImportFault(f"{path}: nested too deep; the file is not of a benchmark tool") from None
    if not found:
        raise ImportFault(f"{path}: is empty; name a file that {TOOL} saved")
    return found


def read(files: Sequence[tuple[Path, Sequence[Any]]], told: Told) -> Imported:
    """The results of one machine: objects of one workload are repeats of one test; ImportFault names what is wrong."""
    notes: list[str] = []
    taken: dict[str, list[_Served]] = {}
    for path, values in files:
        for number, value in enumerate(values, 1):
            where = str(path) if len(values) == 1 else f"{path}: object {number}"
            if value in values[: number - 1]:
                raise ImportFault(f"{where}: the same as one before it; keep one, or it would count twice")
            one = _served(value, where, told, notes)
            taken.setdefault(one.test, []).append(one)
    records = []
    for test, members in taken.items():
        for m in members:
            _same_requests(members[0], m)
        for number, m in enumerate(sorted(members, key=lambda m: m.started), 1):
            records.append(_record(test, m, number if len(members) > 1 else None))
    if told.devices is None:
        notes.append("how many devices served is not told, so there will be no cost: import with --devices N")
    if told.dataset is None:
        notes.append("no version of the tool names its data set: runs are told apart by their tokens alone")
    first = next(iter(taken.values()))[0]
    return Imported(
        tool=TOOL,
        started=min(m.started for members in taken.values() for m in members),
        arch=None,
        project=TOOL,
        commit=None,
        dirty=None,
        configuration={"workloads": {t: m[0].workload for t, m in taken.items()}},
        machine={"devices_told": told.devices is not None, "backend": first.backend},
        software={},
        records=tuple(records),
        notes=tuple(dict.fromkeys(notes)),
        runner=RunnerInfo(told.runner, told.device, told.devices or 1, told.emulated),
        repeats=max(len(m) for m in taken.values()),
    )


@dataclass(frozen=True)
class _Served:
    """One object of a file."""

    where: str
    test: str
    started: datetime
    backend: str | None
    workload: Mapping[str, Any]
    """What must be equal before two such runs may be compared."""
    duration_s: float
    metrics: tuple[Metric, ...]
    asked: int
    completed: int
    errors: tuple[str, ...]


def _served(value: Any, where: str, told: Told, notes: list[str]) -> _Served:
    for key in NEEDED:
        need(value, key, object, where)
    if not isinstance(value["model_id"], str) or not value["model_id"].strip():
        raise ImportFault(f"{where}: model_id must be text, not {value['model_id']!r:.60}")
    duration = _above(value, "duration", where)
    asked, completed = _count(value, "num_prompts", where), _count(value, "completed", where)
    failed = _count(value, "failed", where) if value.get("failed") is not None else 0
    if completed + failed > asked:
        raise ImportFault(f"{where}: completed is {completed} and failed {failed}, of num_prompts {asked}")
    tokens = {"input_tokens": _count(value, "total_input_tokens", where)}
    if value.get("total_output_tokens") is not None:
        tokens["output_tokens"] = _count(value, "total_output_tokens", where)
        tokens["tokens"] = tokens["input_tokens"] + tokens["output_tokens"]
    rate = value.get("request_rate")
    workload = {
        "model_id": value["model_id"],
        "dataset": told.dataset,
        "num_prompts": asked,
        # Only numbers are finite in JSON: the tool writes "inf" for all requests at once.
        "request_rate": None
        if rate is None
        else rate
        if rate == "inf"
        else _above(value, "request_rate", where),
        "burstiness": None if value.get("burstiness") is None else _above(value, "burstiness", where),
        "max_concurrency": None
        if value.get("max_concurrency") is None
        else _count(value, "max_concurrency", where),
        "ramp_up": None
        if value.get("ramp_up_strategy") is None
        else " ".join(str(value.get(f"ramp_up_{k}")) for k in ("strategy", "start_rps", "end_rps")),
    }
    for key, count in (("output_throughput", "output_tokens"), ("total_token_throughput", "tokens")):
        said = value.get(key)
        if (
            isinstance(said, int | float)
            and count in tokens
            and not near(float(said), tokens[count] / duration)
        ):
            notes.append(
                f"{where}: {key} is {said:.6g}, but its tokens and duration give {tokens[count] / duration:.6g}"
            )
    work = {"requests": float(completed), **{k: float(v) for k, v in tokens.items()}}
    if told.devices is not None:
        work["devices"] = float(told.devices)
    held, errors = lists(value, where, completed, notes)
    metrics = [Metric(SERVE, "s", (duration,), work=work)]
    metrics += [Metric(f"{name}_s", "s", samples) for name, samples in held.items() if samples]
    metrics += summaries(value, where, held, notes)
    if completed < asked:
        notes.append(f"{where}: {asked - completed} of {asked} requests gave no answer: the run is not green")
    return _Served(
        where,
        _name(workload),
        _time(need(value, "date", str, where), where),
        text_or_none(value, "backend", "endpoint_type"),
        workload,
        duration,
        tuple(metrics),
        asked,
        completed,
        errors,
    )


def _same_requests(first: _Served, other: _Served) -> None:
    """ImportFault for a repeat that is none: other settings, or other prompts by the number of their tokens."""
    for key, value in first.workload.items():
        if other.workload[key] != value:
            raise ImportFault(
                f"{other.where}: {key} is {other.workload[key]}, and {value} in {first.where}: not the same requests "
                "again; import them apart"
            )
    here, there = (m.metrics[0].work["input_tokens"] for m in (other, first))
    if other.completed == first.completed and not near(here, there):
        raise ImportFault(
            f"{other.where}: total_input_tokens is {here:.0f}, and {there:.0f} in {first.where}: not the same requests "
            "again; import them apart"
        )


def _name(workload: Mapping[str, Any]) -> str:
    """The test's id: what was asked for, not what came of it."""
    parts = [workload["model_id"], f"rate-{workload['request_rate'] or 'unknown'}"]
    parts += [f"concurrency-{workload['max_concurrency'] or 'open'}", f"prompts-{workload['num_prompts']}"]
    if workload["dataset"]:
        parts.append(f"data-{workload['dataset']}")
    return f"{TOOL}::serve[{'-'.join(str(p) for p in parts)}]"


def _record(test: str, m: _Served, repeat: int | None) -> Record:
    if m.completed == m.asked:
        return Record(test, SUITE, "passed", m.duration_s, metrics=m.metrics, repeat=repeat)
    reason = f"{m.asked - m.completed} of {m.asked} requests gave no answer"
    detail = "\n".join(m.errors) or None
    return Record(
        test,
        SUITE,
        "failed",
        m.duration_s,
        kind="exception",
        reason=reason,
        detail=detail,
        metrics=m.metrics,
        repeat=repeat,
    )


def _above(value: Mapping[str, Any], key: str, where: str) -> float:
    number = finite(value[key], f"{where}: {key}")
    if number == 0:
        raise ImportFault(f"{where}: {key} must be above 0")
    return number


def _count(value: Mapping[str, Any], key: str, where: str) -> int:
    number = checked(need(value, key, object, where), float, f"{where}: {key}")
    if not math.isfinite(number) or number < 0 or number != int(number):
        raise ImportFault(f"{where}: {key} must be a whole number from 0 up, not {value[key]!r:.60}")
    return int(number)


def _time(text: str, where: str) -> datetime:
    """The tool's own clock, without a zone: taken as UTC."""
    try:
        return datetime.strptime(text, "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc)
    except ValueError:
        raise ImportFault(f"{where}: date {text!r:.60} is no time as 20270131-235959") from None
