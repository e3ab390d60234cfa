"""The values of a run's metrics as other tools take them: one list a test and metric; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from harness.records import Record, Run

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
    found: dict[tuple[str, str, str], dict[int | None, tuple[float, ...]]] = {}
    for record in _passed(run):
        for metric in record.metrics:
            key = (record.test, metric.name, metric.unit)
            found.setdefault(key, {})[record.repeat] = metric.samples[metric.warmup :]
    return [_measured(*key, by_repeat) for key, by_repeat in sorted(found.items())]


def _measured(
    test: str, metric: str, unit: str, by_repeat: Mapping[int | None, tuple[float, ...]]
) -> Measured:
    if set(by_repeat) == {None}:
        return Measured(test, metric, unit, by_repeat[None], "sample")
    repeats = [by_repeat[r] for r in sorted(by_repeat, key=lambda r: r or 0) if by_repeat[r]]
    return Measured(test, metric, unit, tuple(_median(r) for r in repeats), "median of a fresh process")


def _median(samples: tuple[float, ...]) -> float:
    return statistics.median(samples) if all(map(math.isfinite, samples)) else math.nan


def _passed(run: Run) -> list[Record]:
    """Records of tests that passed in every process that ran them."""
    failed = {r.test for r in run.records if r.outcome != "passed"}
    return [r for r in run.records if r.test not in failed]
