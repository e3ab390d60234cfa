"""What a run measured of the three things that a buyer asks for: training, inference, serving; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.cost import STEP
from harness.estimates import percentile
from harness.rates import SECONDS
from harness.records import Metric, Record, Run

KINDS = ("training", "inference", "serving")
TURN, CALL, SERVE = "turn_s", "call_s", "serve_s"
"""Metrics: a turn of several callers, each call of it, and one run of a serving benchmark."""
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Taken:
    """One test of one run. `seconds`: a value a process; `works`: what each did in them. `lags`: seconds by `quantity
    percentile`, a value a process; one that a process lacks is left out of all. `why`: why there is no number at all."""

    kind: str
    test: str
    seconds: tuple[float, ...] = ()
    works: tuple[Mapping[str, float], ...] = ()
    lags: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    why: str = ""
    note: str = ""


def take(run: Run) -> dict[tuple[str, str], Taken]:
    """Everything of the run that a buyer asks for, by kind and test."""
    found: dict[tuple[str, str], Taken] = {}
    for test, every in run.each_by_test.items():
        by_process: dict[int | None, Record] = {}
        for (
            record
        ) in every:  # of a test that was tried again in one process, the worst counts, as in a verdict
            if record.repeat not in by_process or record.outcome != "passed":
                by_process[record.repeat] = record
        records = list(by_process.values())
        held = [(kind, r, m) for r in records for m in r.metrics if (kind := _kind(m)) is not None]
        for kind in dict.fromkeys(kind for kind, _, _ in held):
            mine = [(r, m) for k, r, m in held if k == kind]
            found[kind, test] = _taken(kind, test, mine, records, run.header.repeats)
    return found


def why_not(run: Run, test: str) -> str:
    """Why a run has no number of this test."""
    records = run.each_by_test.get(test)
    if not records:
        planned = test in (run.header.planned or ())
        return "planned, and left no record" if planned else "not run here"
    worst = next((r for r in records if r.outcome != "passed"), None)
    return "measured nothing" if worst is None else _ended(worst)


def _ended(record: Record) -> str:
    what = {"skipped": "did not run here"}.get(record.outcome, f"{record.outcome} here")
    return f"{what}: {record.reason or record.kind or 'no reason told'}"


def _kind(metric: Metric) -> str | None:
    if SECONDS.get(metric.unit) is None:
        return None
    if metric.name == STEP and "samples" in metric.work:
        return "training"
    if metric.name == TURN and {"chunks", "concurrency"} <= set(metric.work):
        return "inference"
    return "serving" if metric.name == SERVE and "requests" in metric.work else None


def _taken(
    kind: str, test: str, mine: Sequence[tuple[Record, Metric]], records: Sequence[Record], repeats: int
) -> Taken:
    bad = next((r for r in records if r.outcome != "passed"), None)
    if bad is not None and kind != "serving":  # there a request may fail, and the others are still numbers
        return Taken(kind, test, why=_ended(bad))
    works = [{k: v for k, v in m.work.items() if math.isfinite(v) and v > 0} for _, m in mine]
    if kind != "serving" and (said := _differing(works)):
        return Taken(kind, test, why=f"its processes did different work: {said}")
    seconds: list[float] = []
    kept: list[Mapping[str, float]] = []
    lags: dict[str, list[float]] = {}
    for (record, metric), work in zip(mine, works, strict=True):
        middle = percentile(metric.samples[metric.warmup :], 0.5)
        if middle is None or middle <= 0:
            return Taken(kind, test, why="a process gave no time that is positive and finite")
        seconds.append(middle * SECONDS[metric.unit])
        kept.append(work)
        for name, lag in _lags(kind, record).items():
            lags.setdefault(name, []).append(lag)
    whole = {name: tuple(v) for name, v in lags.items() if len(v) == len(seconds)}
    due = max(repeats, 1) if any(r.repeat is not None for r in records) else 1
    notes = [f"{len(seconds)} of {due} processes gave a value"] if len(seconds) < due else []
    notes += [] if bad is None else [_ended(bad)]
    return Taken(kind, test, tuple(seconds), tuple(kept), whole, note="; ".join(notes))


def _differing(works: Sequence[Mapping[str, float]]) -> str:
    """In what the works differ, but for counted operations; empty: in nothing."""
    for key in sorted(set().union(*works) - {"flop"}):
        values = list(dict.fromkeys(w.get(key) for w in works))
        if len(values) > 1:
            return f"{key} {' and '.join('unknown' if v is None else f'{v:g}' for v in values)}"
    return ""


def _lags(kind: str, record: Record) -> dict[str, float]:
    """Percentiles of one process in seconds, from samples; only where there are none, what a tool told under its name.

    A mean is no percentile, whatever there is of it.
    """
    by_name = {m.name: m for m in record.metrics}
    if kind == "inference":
        wanted = {"": (CALL, "")}
    elif kind == "serving":
        wanted = {"ttft ": ("ttft_s", "ttft"), "itl ": ("itl_s", "itl")}
    else:
        return {}
    found = {}
    for prefix, (name, own) in wanted.items():
        for word, share in PERCENTILES.items():
            if (value := _lag(by_name, name, own, word, share)) is not None and value > 0:
                found[f"{prefix}{word}"] = value
    return found


def _lag(by_name: Mapping[str, Metric], name: str, own: str, word: str, share: float) -> float | None:
    metric = by_name.get(name)
    if metric is not None and metric.samples:
        value = percentile(metric.samples[metric.warmup :], share)
        return None if value is None else value * SECONDS[metric.unit]
    for told in (f"{word}_{own}_ms", f"median_{own}_ms") if word == "p50" else (f"{word}_{own}_ms",):
        if own and told in by_name and len(by_name[told].samples) == 1:
            return by_name[told].samples[0] * SECONDS[by_name[told].unit]
    return None
