"""Whether a metric changed: a shrunk t with a minimum effect, equivalence, pairs, tails and trends; pure.

Values are what fresh processes gave, one number each, positive, in any one unit. Everything is done on logarithms, so
that a change is a ratio. Method and evidence: docs/verdicts.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from harness.shrinkage import shrink

MIN_VALUES = 3
"""Fewer processes on a side than this have no verdict: one that was slow by chance would pass for a change."""
MEAN_FROM = 8
"""From so many values on the winsorised mean is taken for a side, below it the median."""
MEDIAN_FACTOR = 1.57
"""Variance of a median over that of a mean, of normal values (pi / 2)."""
WINSOR_MADS = 3.0
POWER = 0.8
EQUIVALENCE_LEVEL = 0.05


@dataclass(frozen=True)
class Series:
    """One metric: a value a process, of the base and of the head. `minimum`: the relative change that matters.

    Where higher is better, a change for the worse by 0.05 is one to 1 / 1.05: a rate is judged as its time is. Only rows of
    one `kind` tell of each other's noise: that of memory says nothing of that of times.
    """

    base: tuple[float, ...]
    head: tuple[float, ...]
    minimum: float = 0.02
    lower_is_better: bool = True
    gate: bool = True
    kind: str = ""


@dataclass(frozen=True)
class Finding:
    """What the values of one metric say. Changes are relative (0.05: head is 5 % above base); unknown is None.

    `low`, `high`: 95 % interval of the change. `p_worse`, `p_better`: one-sided, that the change beyond the minimum is
    chance; `p_gate` is p_worse after Holm over the gate's metrics, `q` the Benjamini-Hochberg value over all.
    `detectable`: the smallest change for the worse that would have been found with a chance of 0.8. `noise`: relative
    standard deviation of one process, `degrees` what it rests on.
    """

    verdict: str
    why: str
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p_worse: float | None = None
    p_better: float | None = None
    p_gate: float | None = None
    q: float | None = None
    detectable: float | None = None
    noise: float | None = None
    degrees: float | None = None


@dataclass(frozen=True)
class _Measured:
    """By metric: difference of logarithms towards worse, its standard error, degrees, noise."""

    worse: Any
    error: Any
    degrees: Any
    noise: Any


def compare(series: Sequence[Series], *, alpha: float = 0.05) -> list[Finding]:
    """Head against base, metric by metric, as one family: `alpha` is the chance of any false alarm in the gate."""
    return _judge(series, _measure, alpha, EQUIVALENCE_LEVEL)


def compare_pairs(
    series: Sequence[Series], *, alpha: float = 0.05, equivalence: float = EQUIVALENCE_LEVEL
) -> list[Finding]:
    """As `compare`, of values that belong in pairs: base[i] and head[i] ran one after the other."""
    for s in series:
        if len(s.base) != len(s.head):
            raise ValueError(f"{len(s.base)} values of the base, {len(s.head)} of the head: no pairs")
    return _judge(series, _measure_pairs, alpha, equivalence)


def screen(series: Sequence[Series], *, level: float = 0.10) -> list[bool]:
    """Which metrics to look at again: a change beyond the minimum, either way, at `level` without correction.

    A metric whose values allow no test is always among them.
    """
    return [f.verdict == "flagged" for f in screening(series, level=level)]


def screening(series: Sequence[Series], *, level: float = 0.10) -> list[Finding]:
    """As `screen`, with the numbers: the verdicts are `flagged` and `unflagged`, `detectable` is the change for the worse
    that is flagged with a chance of 0.8. No value is corrected for the number of metrics."""
    # One new value is enough to be suspicious of, never to judge by.
    refused = [_refusal(s, 1) for s in series]
    findings = [Finding("flagged", why or "") for why in refused]
    usable = [n for n, why in enumerate(refused) if why is None]
    if usable:
        chosen = [series[n] for n in usable]
        gates = max(1, sum(s.gate for s in chosen))
        for n, found in zip(usable, _findings(chosen, _measure(chosen), level * gates, 0.0), strict=True):
            flagged = any(p is not None and p < level for p in (found.p_worse, found.p_better))
            verdict, why = (
                ("flagged", "signs of a change") if flagged else ("unflagged", "no sign of a change")
            )
            findings[n] = replace(found, verdict=verdict, why=why, p_gate=None, q=None)
    return findings


def _judge(
    series: Sequence[Series], measure: Callable[..., _Measured], alpha: float, equivalence: float
) -> list[Finding]:
    refused = [_refusal(s) for s in series]
    findings = [Finding("inconclusive", why or "") for why in refused]
    usable = [n for n, why in enumerate(refused) if why is None]
    if usable:
        chosen = [series[n] for n in usable]
        for n, finding in zip(usable, _findings(chosen, measure(chosen), alpha, equivalence), strict=True):
            findings[n] = finding
    return findings


def _refusal(s: Series, least_head: int = MIN_VALUES) -> str | None:
    """Why there is no test; None when there is one."""
    for name, values, least in (("base", s.base, MIN_VALUES), ("head", s.head, least_head)):
        bad = [v for v in values if not math.isfinite(v) or v <= 0]
        if bad:
            return f"{bad[0]!r} in the {name}: only positive, finite values have a ratio"
        if len(values) < least:
            return f"{len(values)} values of the {name}, at least {least} are needed: repeat it more often"
    return None


def _measure(series: Sequence[Series]) -> _Measured:
    count = len(series)
    worse, spread, nu, factor = (np.zeros(count) for _ in range(4))
    shapes: dict[tuple[int, int], list[int]] = {}
    for n, s in enumerate(series):
        shapes.setdefault((len(s.base), len(s.head)), []).append(n)
    for (k, m), members in shapes.items():
        base, base_squares, base_factor = _locate(np.log([series[n].base for n in members]))
        head, head_squares, head_factor = _locate(np.log([series[n].head for n in members]))
        worse[members] = head - base
        nu[members] = k + m - 2
        spread[members] = (base_squares + head_squares) / max(1, k + m - 2)
        factor[members] = base_factor + head_factor
    worse *= np.array([1.0 if s.lower_is_better else -1.0 for s in series])
    variance, degrees = np.zeros(count), np.zeros(count)
    kinds = np.array([s.kind for s in series])
    for kind in sorted(set(kinds)):
        variance[kinds == kind], degrees[kinds == kind] = shrink(spread[kinds == kind], nu[kinds == kind])
    return _Measured(worse, np.sqrt(variance * factor), degrees, np.sqrt(variance))


def _measure_pairs(series: Sequence[Series]) -> _Measured:
    count = len(series)
    worse, error, degrees, noise = (np.zeros(count) for _ in range(4))
    for n, s in enumerate(series):
        # In one order, so that the order of the pairs changes no last digit.
        steps = np.sort(np.log(s.head) - np.log(s.base)) * (1.0 if s.lower_is_better else -1.0)
        sd = float(steps.std(ddof=1))
        sd = 0.0 if sd < 1e-12 else sd  # what rounding leaves of alike steps is no noise
        worse[n], error[n], degrees[n] = float(steps.mean()), sd / math.sqrt(len(steps)), len(steps) - 1
        noise[n] = sd / math.sqrt(2)
    return _Measured(worse, error, degrees, noise)


def _locate(rows: Any) -> tuple[Any, Any, float]:
    """Of each row: where it lies, the sum of squares around its mean, and the variance factor of the place."""
    rows = np.sort(rows, axis=1)
    n = rows.shape[1]
    if n < MEAN_FROM:
        place = np.median(rows, axis=1)
        factor = (MEDIAN_FACTOR if n >= MIN_VALUES else 1.0) / n
    else:
        middle = np.median(rows, axis=1, keepdims=True)
        reach = WINSOR_MADS * 1.4826 * np.median(np.abs(rows - middle), axis=1, keepdims=True)
        # More than half alike: the deviation says nothing of the rest.
        reach = np.where(reach > 0, reach, np.inf)
        rows = np.clip(rows, middle - reach, middle + reach)
        place, factor = rows.mean(axis=1), 1.0 / n
    squares = ((rows - rows.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return place, np.where(squares < n * 1e-24, 0.0, squares), factor


def _findings(series: Sequence[Series], m: _Measured, alpha: float, equivalence: float) -> list[Finding]:
    margin = np.array([math.log1p(s.minimum) for s in series])
    gate = np.array([s.gate for s in series])
    sign = np.array([1.0 if s.lower_is_better else -1.0 for s in series])
    worse = _upper(m.degrees, _ratio(m.worse - margin, m.error))
    better = _upper(m.degrees, _ratio(-m.worse - margin, m.error))
    inside = np.maximum(
        _upper(m.degrees, _ratio(margin - m.worse, m.error)),
        _upper(m.degrees, _ratio(margin + m.worse, m.error)),
    )
    holm_worse, holm_better = np.ones(len(series)), np.ones(len(series))
    holm_worse[gate], holm_better[gate] = holm(worse[gate]), holm(better[gate])
    q_worse, q_better = benjamini_hochberg(worse), benjamini_hochberg(better)
    p_worse, p_better = np.where(gate, holm_worse, q_worse), np.where(gate, holm_better, q_better)
    reach = _quantile(m.degrees, 1 - alpha / max(1, int(gate.sum()))) + _quantile(m.degrees, POWER)
    width = _quantile(m.degrees, 0.975) * m.error
    middle = m.worse * sign
    numbers: dict[str, list[Any]] = {
        "change": _relative(middle),
        "low": _relative(middle - width),
        "high": _relative(middle + width),
        "p_worse": worse.tolist(),
        "p_better": better.tolist(),
        "p_gate": [p if s.gate else None for s, p in zip(series, holm_worse.tolist(), strict=True)],
        "q": q_worse.tolist(),
        "detectable": _relative(margin + reach * m.error),
        "noise": m.noise.tolist(),
        "degrees": m.degrees.tolist(),
    }
    found = []
    for n, s in enumerate(series):
        if p_worse[n] < alpha:
            verdict, why = "regressed", f"worse by more than {s.minimum:.3g}"
        elif p_better[n] < alpha:
            verdict, why = "improved", "better than the baseline: accept a new one"
        elif inside[n] < equivalence:
            verdict, why = "equivalent", f"within {s.minimum:.3g} either way"
        else:
            verdict, why = "inconclusive", f"neither a change beyond {s.minimum:.3g} nor its absence is shown"
        found.append(Finding(verdict, why, **{name: values[n] for name, values in numbers.items()}))
    return found


def _ratio(distance: Any, error: Any) -> Any:
    """t; without any noise a distance is certain, either way."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = distance / error
    # A hair's breadth is rounding, no distance.
    return np.where(error > 0, t, np.where(distance > 1e-12, np.inf, -np.inf))


def _relative(logs: Any) -> list[float | None]:
    """Changes of these logarithms; None where no number holds it."""
    with np.errstate(over="ignore"):
        return [float(c) if math.isfinite(c) else None for c in np.expm1(logs)]


def _upper(degrees: Any, t: Any) -> Any:
    """Chance of a greater t."""
    return special.stdtr(degrees, -np.asarray(t, float))


def _quantile(degrees: Any, level: float) -> Any:
    return special.stdtrit(degrees, level)


def holm(p: Any) -> Any:
    """Holm's adjusted p values: the chance of any false one among all is kept."""
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(steps) if len(p) else steps
    return adjusted


def benjamini_hochberg(p: Any) -> Any:
    """Benjamini and Hochberg's adjusted p values: the share of false ones among those named is kept."""
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")[::-1]
    steps = np.minimum(1.0, p[order] * len(p) / np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum.accumulate(steps) if len(p) else steps
    return adjusted
