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
TREND_STEPS = 4_000_000
"""Differences held at once: what bounds the memory."""
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
    """As `judge_trends`, of one."""
    return judge_trends([samples])[0]


def judge_trends(many: Sequence[Sequence[float]]) -> list[Trend | None]:
    """Of each: whether samples in their order rise or fall (Mann and Kendall's test, Theil and Sen's line); None below
    8 samples or with one that is not positive and finite."""
    found: list[Trend | None] = [None] * len(many)
    by_length: dict[int, list[tuple[int, Any]]] = {}
    for place, samples in enumerate(many):
        if len(samples) < 8 or not all(map(math.isfinite, samples)) or min(samples) <= 0:
            continue
        values = np.asarray(samples, float)
        if len(values) > TREND_MOST:  # medians of equal stretches: the test is quadratic
            values = np.array([np.median(part) for part in np.array_split(values, TREND_MOST)])
        by_length.setdefault(len(values), []).append((place, values))
    for n, members in by_length.items():
        at_once = max(1, TREND_STEPS // (n * n))
        for first in range(0, len(members), at_once):
            part = members[first : first + at_once]
            for (place, _), trend in zip(part, _trends(np.stack([v for _, v in part])), strict=True):
                found[place] = trend
    return found


def _trends(values: Any) -> list[Trend]:
    """Of each row, all of one length."""
    n = values.shape[1]
    rows, columns = np.triu_indices(n, 1)
    steps = values[:, columns] - values[:, rows]
    s = np.sign(steps).sum(axis=1)
    variance = (n * (n - 1) * (2 * n + 5) - _ties(values)) / 18
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.maximum(0.0, np.abs(s) - 1) / np.sqrt(variance)
    p = special.erfc(z / math.sqrt(2))
    change = np.median(steps / (columns - rows), axis=1) * (n - 1) / np.median(values, axis=1)
    return [
        Trend(c, q, q < TREND_LEVEL and abs(c) > TREND_CHANGE) if v > 0 else Trend(0.0, 1.0, trending=False)
        for c, q, v in zip(change.tolist(), p.tolist(), variance.tolist(), strict=True)
    ]


def _ties(values: Any) -> Any:
    """What alike values take from 18 times the variance of Kendall's sum, by row."""
    taken = np.zeros(len(values))
    ordered = np.sort(values, axis=1)
    for row in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):
        _, ties = np.unique(ordered[row], return_counts=True)
        taken[row] = float((ties * (ties - 1) * (2 * ties + 5)).sum())
    return taken


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
