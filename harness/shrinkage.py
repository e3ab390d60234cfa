"""Variances of many metrics drawn towards what is usual among them (Smyth 2004); pure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

ENDLESS = 1e7
"""Degrees of freedom that stand for infinitely many."""


def shrink(spread: Any, nu: Any) -> tuple[Any, Any]:
    """Variances drawn towards what is usual over all metrics, with their degrees of freedom (Smyth 2004, section 6.2).

    `spread`: variance by metric, `nu`: its degrees. Metrics without any noise say nothing of what is usual.
    """
    spread, nu = np.asarray(spread, float), np.asarray(nu, float)
    noisy = (spread > 0) & (nu > 0)
    if noisy.sum() < 3:
        return spread.copy(), np.maximum(nu, 1e-9)
    half = nu[noisy] / 2
    e = np.log(spread[noisy]) - special.digamma(half) + np.log(half)
    excess = float(e.var(ddof=1) - special.polygamma(1, half).mean())
    if excess > 0:
        d0 = min(2 * trigamma_inverse(excess), ENDLESS)
        usual = math.exp(float(e.mean()) + float(special.digamma(d0 / 2)) - math.log(d0 / 2))
    else:
        d0, usual = ENDLESS, math.exp(float(e.mean()))
    # No variance rests on more than all values give (so does limma, the reference implementation).
    return (d0 * usual + nu * spread) / (d0 + nu), np.minimum(d0 + nu, nu[noisy].sum())


def trigamma_inverse(value: float) -> float:
    """x with trigamma(x) = value, by Newton's method on 1 / trigamma, which is nearly a line."""
    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        tri = float(special.polygamma(1, x))
        step = tri * (1 - tri / value) / float(special.polygamma(2, x))
        x += step
        if -step / x < 1e-10:
            break
    return x
