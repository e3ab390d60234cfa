"""JSON of pytest-benchmark, of every version that wrote any (3.0 of 2015 and later): read, and written for its `compare`.

Versions differ thus: before 3.1 no `ops`, `total`, `extra_info`, `params` and no project in `commit_info`; in 3.0 not
even `param`; `data` (the raw rounds) only with `--benchmark-json` or `--benchmark-save-data`; `datetime` without a zone
is UTC; `cpu` is an object of changing keys, from 3.1 on.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness.exchange.imported import SUITE, Imported, ImportFault, checked, need, text_or_none
from harness.exchange.values import SECONDS, Measured
from harness.records import Header, Metric, Record

TOOL = "pytest-benchmark"
METRIC = "time_s"
LAYOUT = "5.1.0"
"""The version whose layout is written."""


def is_mine(value: Any) -> bool:
    """Whether a JSON value has the shape of this tool's files."""
    return (
        isinstance(value, dict)
        and "benchmarks" in value
        and ("machine_info" in value or "commit_info" in value)
    )


def read(value: Any, path: Path) -> Imported:
    """The results of one file; ImportFault names what is wrong with it."""
    where = str(path)
    machine = need(value, "machine_info", dict, where) if "machine_info" in value else {}
    commit = need(value, "commit_info", dict, where) if "commit_info" in value else {}
    records, without = [], 0
    for number, one in enumerate(need(value, "benchmarks", list, where)):
        record, raw = _record(one, f"{where}: benchmarks[{number}]")
        records.append(record)
        without += not raw
    if not records:
        raise ImportFault(f"{where}: benchmarks is empty; nothing was measured")
    cpu = machine["cpu"] if isinstance(machine.get("cpu"), dict) else {}
    processor = text_or_none(cpu, "brand_raw", "brand") or text_or_none(machine, "processor")
    python = text_or_none(machine, "python_version", "python_implementation_version")
    notes = (f"{without} tests without raw rounds: their median stands for them",) if without else ()
    return Imported(
        tool=TOOL,
        started=_time(need(value, "datetime", str, where), where),
        arch=text_or_none(machine, "machine"),
        project=text_or_none(commit, "project"),
        commit=_commit(commit),
        dirty=commit.get("dirty") if isinstance(commit.get("dirty"), bool) else None,
        configuration={"processor": processor, "python": python and ".".join(python.split(".")[:2])},
        machine={"host": text_or_none(machine, "node"), "processor": processor, "system": _system(machine)},
        software={"python": python, TOOL: text_or_none(value, "version")},
        records=tuple(records),
        notes=notes,
    )


def _record(one: Any, where: str) -> tuple[Record, bool]:
    """A benchmark as a record, and whether its raw rounds are there."""
    test = one.get("fullname") if isinstance(one, dict) else None
    test = checked(test, str, f"{where}: fullname") if test is not None else need(one, "name", str, where)
    stats = need(one, "stats", dict, where)
    where = f"{where}: stats"
    if "data" in stats:
        data = need(stats, "data", list, where)
        samples = tuple(checked(v, float, f"{where}: data[{n}]") for n, v in enumerate(data))
        raw = bool(samples)
    else:
        samples, raw = (), False
    if not raw:
        samples = (need(stats, "median", float, where),)
    duration_s = math.fsum(samples)
    if not raw and "mean" in stats and "rounds" in stats:
        duration_s = need(stats, "mean", float, where) * need(stats, "rounds", float, where)
    metric = Metric(METRIC, "s", samples)
    return Record(
        test, SUITE, "passed", duration_s if math.isfinite(duration_s) else 0.0, metrics=(metric,)
    ), raw


def _time(text: str, where: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return found.replace(tzinfo=timezone.utc) if found.tzinfo is None else found.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise ImportFault(f"{where}: datetime {text!r:.60} is no ISO time") from None


def _commit(commit: dict[str, Any]) -> str | None:
    found = text_or_none(commit, "id")
    return None if found in ("unversioned", "unknown") else found


def _system(machine: dict[str, Any]) -> str | None:
    words = [machine[k] for k in ("system", "release") if isinstance(machine.get(k), str)]
    return " ".join(words) or None


def render(header: Header, measured: Sequence[Measured]) -> tuple[str, list[str]]:
    """A file for `pytest-benchmark compare`, and what could not go in, in words: metrics that are no time."""
    left, benchmarks = [], []
    for one in measured:
        factor = SECONDS.get(one.unit)
        values = [v * factor for v in one.values] if factor else []
        if not factor:
            left.append(f"{one.test}: {one.metric} is in {one.unit}, and {TOOL} knows only seconds")
        elif not values or not all(math.isfinite(v) and v > 0 for v in values):
            left.append(f"{one.test}: {one.metric} has no value, or one that is no positive number")
        else:
            benchmarks.append(_benchmark(one, values))
    machine, software = header.machine, header.software
    value = {
        "machine_info": {
            "node": machine.get("host") or "",
            "processor": machine.get("processor") or "",
            "machine": header.runner.device_arch,
            "python_implementation": "",
            "python_version": software.get("python") or "",
            "system": machine.get("system") or "",
            "cpu": {"brand_raw": machine.get("processor") or ""},
            "runner": header.runner.key,
            "emulated": header.runner.emulated,
        },
        "commit_info": {
            "id": header.target.commit or "unversioned",
            "dirty": bool(header.target.dirty),
            "project": header.target.name,
            "time": None,
            "author_time": None,
            "branch": "(unknown)",
        },
        "benchmarks": benchmarks,
        "datetime": header.started,
        "version": LAYOUT,
    }
    return json.dumps(value, indent=4) + "\n", left


def _benchmark(one: Measured, values: Sequence[float]) -> dict[str, Any]:
    end = "" if one.metric == METRIC else f"::{one.metric}"
    return {
        "group": None,
        "name": one.test.rpartition("::")[2] + end,
        "fullname": one.test + end,
        "params": None,
        "param": None,
        "extra_info": {"metric": one.metric, "unit": one.unit, "round": one.what},
        "options": {},
        "stats": {**_stats(values), "data": list(values), "iterations": 1},
    }


def _stats(values: Sequence[float]) -> dict[str, Any]:
    """The statistics that the tool's table shows, by its own definitions."""
    ordered = sorted(values)
    mean, middle = statistics.fmean(ordered), statistics.median(ordered)
    end = len(ordered) - 1
    place = max(
        0.0, (len(ordered) - 2) / 4
    )  # methods 2 and 3 of Wikipedia's "Quartile" for even and odd counts
    q1, q3 = _between(ordered, place), _between(ordered, end - place)
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    deviation = statistics.stdev(ordered) if len(ordered) > 1 else 0.0
    far = sum(v < low or v > high for v in ordered)
    beyond = sum(abs(v - mean) > deviation for v in ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": deviation,
        "rounds": len(ordered),
        "median": middle,
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": far,
        "stddev_outliers": beyond,
        "outliers": f"{beyond};{far}",
        "ld15iqr": next(v for v in ordered if v >= low),
        "hd15iqr": next(v for v in reversed(ordered) if v <= high),
        "ops": 1 / mean,
        "total": math.fsum(ordered),
    }


def _between(ordered: Sequence[float], place: float) -> float:
    """The value at a place between two of them, counted from 0."""
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (place - math.floor(place)) * (above - below)
