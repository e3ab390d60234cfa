"""Where the values of fresh processes lie, with a 95 % interval, and the ratio of two such places; pure.

By `harness.stats`: everything on logarithms, the median below 8 values, the winsorised mean from there on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

LEVEL = 0.975
"""Of t at each end: the interval is one of 95 %."""


@dataclass(frozen=True)
class Estimate:
    """A positive number in any unit, with the ends of its 95 % interval; None where there is none, and `why` says why.

    `processes`: how many fresh processes gave a value; of a ratio, the fewer of the two.
    """

    value: float
    low: float | None
    high: float | None
    processes: int
    why: str = ""

    def times(self, factor: float) -> Estimate:
        """The same in another unit, or of so much of it."""
        low, high = self.low, self.high
        return replace(
            self,
            value=self.value * factor,
            low=None if low is None else low * factor,
            high=None if high is None else high * factor,
        )

    def under(self, amount: float) -> Estimate:
        """`amount` over it: a rate out of a time, with the ends of the interval in their places."""
        low, high = self.low, self.high
        return replace(
            self,
            value=amount / self.value,
            low=None if high is None else amount / high,
            high=None if low is None else amount / low,
        )


def estimate(values: Sequence[float]) -> Estimate | None:
    """Where these values lie, one a process; None without any, or when one is not positive and finite."""
    count = len(values)
    if not count or not all(math.isfinite(v) and v > 0 for v in values):
        return None
    from harness import stats  # numpy and scipy: only where there is something to judge

    if count < stats.MIN_VALUES:
        middle = math.exp(math.fsum(map(math.log, values)) / count)
        return Estimate(middle, None, None, count, _few(count))
    # A base of ones, which has no noise of its own, leaves the place of the values themselves, and in the pooled
    # noise their squares alone.
    size = _size(values)
    near_one = tuple(v / size for v in values)
    found = stats.compare([stats.Series((1.0,) * stats.MIN_VALUES, near_one)])[0]
    if found.change is None or found.noise is None:
        return None
    from scipy import special

    squares = found.noise**2 * (stats.MIN_VALUES + count - 2)
    factor = (1.0 if count >= stats.MEAN_FROM else stats.MEDIAN_FACTOR) / count
    width = float(special.stdtrit(count - 1, LEVEL)) * math.sqrt(squares / (count - 1) * factor)
    place = size * (1 + found.change)
    return Estimate(place, place * math.exp(-width), place * math.exp(width), count)


def ratio(above: Sequence[float], below: Sequence[float]) -> Estimate | None:
    """How many times the values of one machine are those of another; None where either has no place."""
    a, b = estimate(above), estimate(below)
    if a is None or b is None:
        return None
    from harness import stats

    fewer = min(a.processes, b.processes)
    if fewer < stats.MIN_VALUES:
        return Estimate(a.value / b.value, None, None, fewer, _few(fewer))
    x, y = _size(above), _size(below)
    found = stats.compare([stats.Series(tuple(v / y for v in below), tuple(v / x for v in above))])[0]
    if found.change is None or found.low is None or found.high is None:
        return Estimate(a.value / b.value, None, None, fewer, "its interval has no end")
    return Estimate(1 + found.change, 1 + found.low, 1 + found.high, fewer).times(x / y)


def percentile(samples: Sequence[float], share: float) -> float | None:
    """The value below which that share of the samples lies, between the two nearest; None of fewer samples than it takes
    for one to lie above (20 for 0.95), and when one is not finite."""
    least = round(1 / (1 - share)) if 0.5 < share < 1 else 1
    if len(samples) < least or not all(map(math.isfinite, samples)):
        return None
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def _size(values: Sequence[float]) -> float:
    """What to divide by so that a change, told as a difference from 1, keeps its digits."""
    return sorted(values)[len(values) // 2]


def _few(count: int) -> str:
    return f"{count} process{'es' * (count != 1)}: an interval takes 3; repeat it more often"
