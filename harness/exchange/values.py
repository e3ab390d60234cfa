"""The values of a run's metrics as other tools take them: one list a test and metric; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.policy import summary
from harness.records import Metric, Record, Run

SECONDS: Mapping[str, float] = {"s": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""Units of time, in seconds."""


@dataclass(frozen=True)
class Measured:
    """One metric of one test that passed. `values`: medians of the repeats when there are any, else the samples after
    warm-up; `what` says which."""

    test: str
    metric: str
    unit: str
    values: tuple[float, ...]
    what: str


def measured(run: Run) -> list[Measured]:
    """What was measured by the tests that passed, in order of test and metric."""
    found: dict[tuple[str, str, str], dict[int | None, Metric]] = {}
    for record in _passed(run):
        for metric in record.metrics:
            key = (record.test, metric.name, metric.unit)
            found.setdefault(key, {})[record.repeat] = metric
    return [_measured(*key, by_repeat) for key, by_repeat in sorted(found.items())]


def _measured(test: str, metric: str, unit: str, by_repeat: Mapping[int | None, Metric]) -> Measured:
    taken = {repeat: m.samples[m.warmup :] for repeat, m in by_repeat.items()}
    if set(by_repeat) == {None}:
        return Measured(test, metric, unit, taken[None], "sample")
    medians = (summary(by_repeat[r]) for r in sorted(taken, key=lambda r: r or 0) if taken[r])
    values = tuple(math.nan if m is None else m for m in medians)
    return Measured(test, metric, unit, values, "median of a fresh process")


def _passed(run: Run) -> list[Record]:
    """Records of tests that passed in every process that ran them."""
    failed = {r.test for r in run.records if r.outcome != "passed"}
    return [r for r in run.records if r.test not in failed]
