"""One metric over time: whether samples of one process still trend, and whether the last runs of many differ; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

TREND_LEVEL, TREND_CHANGE = 0.001, 0.03
"""Samples trend when their order is no chance at that level and the line through them changes by so much."""
TREND_MOST = 400
TAIL = range(2, 9)
TAIL_BEFORE = 5
SHUFFLES = 1999


@dataclass(frozen=True)
class Trend:
    """`change`: relative, from the first to the last sample along the line through them; `p`: that the order is chance."""

    change: float
    p: float
    trending: bool


@dataclass(frozen=True)
class Tail:
    """The last `points` values beside those before: relative `change`, and `p` that so large a step is chance."""

    points: int
    change: float
    p: float


def judge_trend(samples: Sequence[float]) -> Trend | None:
    """Whether samples in their order rise or fall (Mann and Kendall's test, Theil and Sen's line); None below 8 samples
    or with one that is not positive and finite."""
    if len(samples) < 8 or not all(math.isfinite(s) and s > 0 for s in samples):
        return None
    values = np.asarray(samples, float)
    if len(values) > TREND_MOST:  # medians of equal stretches: the test is quadratic
        values = np.array([np.median(part) for part in np.array_split(values, TREND_MOST)])
    n = len(values)
    rows, columns = np.triu_indices(n, 1)
    steps = values[columns] - values[rows]
    s = float(np.sign(steps).sum())
    _, ties = np.unique(values, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0:
        return Trend(0.0, 1.0, trending=False)
    z = max(0.0, abs(s) - 1) / math.sqrt(variance)
    p = float(special.erfc(z / math.sqrt(2)))
    slope = float(np.median(steps / (columns - rows)))
    change = slope * (n - 1) / float(np.median(values))
    return Trend(change, p, p < TREND_LEVEL and abs(change) > TREND_CHANGE)


def tail_test(values: Sequence[float], *, seed: int = 0) -> Tail | None:
    """The largest t of the last 2 to 8 values against those before, with a permutation's p; None for fewer than 10
    values or one that is not positive and finite.

    `values`: one a run, in the order of time, since the last accepted change.
    """
    if len(values) < min(TAIL) + 8 or not all(math.isfinite(v) and v > 0 for v in values):
        return None
    logs = np.log(np.asarray(values, float))
    # Equal values must be equal here to the last digit, however their sums are rounded: rounding is no step.
    logs = np.round(logs - np.median(logs), 12)
    largest = [k for k in TAIL if len(logs) - k >= TAIL_BEFORE]
    here = _tail_ts(logs[None, :], largest)[0]
    best = int(np.argmax(here))
    generator = np.random.default_rng(seed)
    shuffled = generator.permuted(np.broadcast_to(logs, (SHUFFLES, len(logs))), axis=1)
    others = _tail_ts(shuffled, largest).max(axis=1)
    p = (1 + int((others >= here[best] * (1 - 1e-9)).sum())) / (SHUFFLES + 1)
    k = largest[best]
    change = math.expm1(float(logs[-k:].mean()) - statistics.median(logs[:-k].tolist()))
    return Tail(k, change, p)


def _tail_ts(rows: Any, ends: Sequence[int]) -> Any:
    """|t| of each row's last k values against the rest, by k."""
    found = []
    for k in ends:
        tail, rest = rows[:, -k:], rows[:, :-k]
        squares = tail.var(axis=1) * k + rest.var(axis=1) * rest.shape[1]
        squares = np.where(squares < 1e-24, 0.0, squares)
        error = np.sqrt(squares / (rows.shape[1] - 2) * (1 / k + 1 / rest.shape[1]))
        gap = np.abs(tail.mean(axis=1) - rest.mean(axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append(np.where(error > 0, gap / error, np.where(gap > 1e-12, np.inf, 0.0)))
    return np.stack(found, axis=1)
