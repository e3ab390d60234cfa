"""Where a series of one value a run changed its level, and whether its last runs did; pure, on logarithms.

PELT (ruptures) proposes change points, and only those stay whose neighboring segments differ beyond chance by a t with
n - 1 in its variances. (Otava's t takes n there, and so cries wolf on short segments.) Change points describe a
history; they never gate.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.series import Tail, tail_test

SHORTEST = 4
"""No segment has fewer runs: one or two are told by the tail test, and may be outliers."""
PENALTY = 4.0
"""PELT adds a change point when it takes more than this, times log(n), variances off the squares."""
LEVEL = 0.0005
"""A change point stays when its t has a smaller p."""
WINSOR = 3.0
"""Values are drawn in to so many standard deviations of noise around the median of their neighbors."""
TAIL_LEVEL = 0.01


@dataclass(frozen=True)
class Change:
    """From the value at `index` on the level is another: `ratio` is the new median over the old; `p` of its t."""

    index: int
    ratio: float
    p: float


@dataclass(frozen=True)
class Segments:
    """The changes of a series in order, and its tail since the last of them; `tail` None: too few values."""

    changes: tuple[Change, ...]
    tail: Tail | None

    @property
    def tail_changed(self) -> bool:
        return self.tail is not None and self.tail.p < TAIL_LEVEL


def find_segments(values: Sequence[float]) -> Segments:
    """Changes and tail of a series in the order of time; all values positive and finite, else there are none."""
    if not all(math.isfinite(v) and v > 0 for v in values):
        return Segments((), None)
    changes = _find_changes(values)
    return Segments(changes, tail_test(values[changes[-1].index if changes else 0 :]))


def _find_changes(values: Sequence[float]) -> tuple[Change, ...]:
    if len(values) < 2 * SHORTEST:
        return ()
    import numpy as np
    import ruptures

    logs = np.log(np.asarray(values, float))
    noise = _noise(logs)
    if noise == 0:
        noise = max(1e-9, float(np.ptp(logs)) * 1e-6)
    drawn = _winsorized(logs, noise)
    algorithm = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST, jump=1).fit((drawn / noise)[:, None])
    ends = [0, *algorithm.predict(pen=PENALTY * math.log(len(values)))]
    while len(ends) > 2:
        found = [
            _t_p(drawn[a:b], drawn[b:c], noise) for a, b, c in zip(ends, ends[1:], ends[2:], strict=False)
        ]
        weakest = max(range(len(found)), key=found.__getitem__)
        if found[weakest] < LEVEL:
            break
        del ends[weakest + 1]
    else:
        return ()
    return tuple(
        Change(b, statistics.median(values[b:c]) / statistics.median(values[a:b]), p)
        for a, b, c, p in zip(ends, ends[1:], ends[2:], found, strict=False)
    )


def _noise(logs: Any) -> float:
    """Standard deviation from the steps between neighbors, which a few changes of level hardly touch."""
    import numpy as np

    steps = np.abs(np.diff(logs))
    return float(np.median(steps)) / (0.6745 * math.sqrt(2))


def _winsorized(logs: Any, noise: float) -> Any:
    """Single outliers drawn in towards the median of the five values around each; a step stays."""
    import numpy as np

    padded = np.pad(logs, 2, mode="reflect")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    return np.clip(logs, middle - WINSOR * noise, middle + WINSOR * noise)


def _t_p(a: Any, b: Any, noise: float) -> float:
    """Two-sided p of the pooled t of two segments, n - 1 in their variances, which are at least a quarter of the noise's."""
    from scipy import special

    degrees = len(a) + len(b) - 2
    squares = float(a.var(ddof=1)) * (len(a) - 1) + float(b.var(ddof=1)) * (len(b) - 1)
    variance = max(squares / degrees, noise * noise / 4)
    t = abs(float(a.mean() - b.mean())) / math.sqrt(variance * (1 / len(a) + 1 / len(b)))
    return float(2 * special.stdtr(degrees, -t))
