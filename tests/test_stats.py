"""What the statistics of a change promise: symmetries, rates, and agreement with scipy's and statsmodels' own."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from harness import shrinkage, stats
from harness.stats import Finding, Series, compare, compare_pairs, screen, screening

Compare = Callable[[Sequence[Series]], list[Finding]]
BOTH = pytest.mark.parametrize("judge", [compare, compare_pairs])
FEWER = settings(max_examples=30)
MIRROR = {"regressed": "improved", "improved": "regressed"}
NUMBERS = [f.name for f in dataclasses.fields(Finding) if f.name not in ("verdict", "why")]


@st.composite
def metrics(draw: Any, least: int = 3) -> Series:
    """A metric of as many values on either side: grains of a thousandth, so that ties and no noise at all occur."""
    count = draw(st.integers(least, 12))
    spread = draw(st.sampled_from([0, 2, 20, 200]))
    grains = st.lists(st.integers(1000 - spread, 1000 + spread), min_size=count, max_size=count)
    shift = draw(st.sampled_from([1.0, 1.0, 1.01, 1.03, 1.1, 1.5, 0.99, 0.9, 0.5]))
    scale = draw(st.sampled_from([1e-3, 1.0, 1e9]))
    return Series(
        tuple(scale * v / 1000 for v in draw(grains)),
        tuple(scale * shift * v / 1000 for v in draw(grains)),
        draw(st.sampled_from([0.02, 0.05])),
        draw(st.booleans()),
        draw(st.booleans()),
    )


families = st.lists(metrics(), min_size=1, max_size=6)


def swapped(s: Series) -> Series:
    """The same metric with base and head exchanged."""
    return dataclasses.replace(s, base=s.head, head=s.base)


def scaled(s: Series, base: float, head: float) -> Series:
    """The same metric with each side multiplied."""
    return dataclasses.replace(s, base=tuple(base * v for v in s.base), head=tuple(head * v for v in s.head))


def close(a: float | None, b: float | None) -> bool:
    """Equal to rounding; unknown only to unknown."""
    return (a is None and b is None) or b == pytest.approx(a, rel=1e-6, abs=1e-9)


def unlike(a: Finding, b: Finding) -> list[str]:
    """In what two findings differ beyond rounding."""
    numbers = [n for n in NUMBERS if not close(getattr(a, n), getattr(b, n))]
    return [n for n in ("verdict", "why") if getattr(a, n) != getattr(b, n)] + numbers


def inverse(change: float | None) -> float:
    """The change seen from the other side."""
    assert change is not None
    return 1 / (1 + change) - 1


@BOTH
@FEWER
@given(families)
def test_swapping_the_sides_mirrors(judge: Compare, family: list[Series]) -> None:
    """With base and head exchanged, regressed is improved, and change and interval are mirrored; all else stays."""
    for a, b in zip(judge(family), judge([swapped(s) for s in family]), strict=True):
        assert b.verdict == MIRROR.get(a.verdict, a.verdict)
        assert close(b.change, inverse(a.change))
        assert close(b.low, inverse(a.high))
        assert close(b.high, inverse(a.low))
        assert close(b.p_worse, a.p_better)
        assert close(b.p_better, a.p_worse)
        assert all(close(getattr(a, n), getattr(b, n)) for n in ("detectable", "noise", "degrees"))


@BOTH
@FEWER
@given(families, st.lists(st.floats(1e-6, 1e6), min_size=6, max_size=6))
def test_scaling_both_sides_changes_nothing(
    judge: Compare, family: list[Series], factors: list[float]
) -> None:
    """In other units, each metric in its own, the same findings come out."""
    moved = [scaled(s, f, f) for s, f in zip(family, factors, strict=False)]
    for a, b in zip(judge(family), judge(moved), strict=True):
        assert unlike(a, b) == []


@BOTH
@FEWER
@given(families, st.randoms(use_true_random=False))
def test_order_does_not_matter(judge: Compare, family: list[Series], rng: random.Random) -> None:
    """The order of the metrics, and that of the values (of the pairs where they are pairs), changes nothing."""
    places = list(range(len(family)))
    rng.shuffle(places)
    mixed = []
    for n in places:
        s = family[n]
        base = rng.sample(range(len(s.base)), len(s.base))
        head = base if judge is compare_pairs else rng.sample(range(len(s.head)), len(s.head))
        mixed.append(
            dataclasses.replace(s, base=tuple(s.base[i] for i in base), head=tuple(s.head[i] for i in head))
        )
    before = judge(family)
    for n, found in zip(places, judge(mixed), strict=True):
        assert unlike(before[n], found) == []


@BOTH
@FEWER
@given(families, st.integers(1, 40), st.booleans())
def test_noise_free_metrics_accuse_nobody(
    judge: Compare, family: list[Series], count: int, gate: bool
) -> None:
    """More metrics that are the same to the last digit only make the others' verdicts more careful."""
    calm = Series((5.0,) * 8, (5.0,) * 8, gate=gate)
    after = judge(family + [calm] * count)
    for a, b in zip(judge(family), after[: len(family)], strict=True):
        assert b.verdict != "regressed" or a.verdict == "regressed"
        assert b.p_gate is None or b.p_gate >= a.p_gate - 1e-12  # type: ignore[operator]
    assert {f.verdict for f in after[len(family) :]} <= {"equivalent", "inconclusive"}


@BOTH
@FEWER
@given(families, st.integers(1, 20))
def test_copies_of_what_is_there_are_no_change(judge: Compare, family: list[Series], times: int) -> None:
    """A head that repeats the base's values, however often, is never regressed and never improved."""
    same = [dataclasses.replace(s, base=s.base * times, head=s.base * times) for s in family]
    for found in judge(same):
        assert found.verdict in ("equivalent", "inconclusive")
        assert found.change == pytest.approx(0, abs=1e-12)


@BOTH
@FEWER
@given(families, st.floats(-0.019, 0.019), st.integers(3, 200))
def test_more_values_without_noise_accuse_nobody(
    judge: Compare, family: list[Series], change: float, times: int
) -> None:
    """A change within the minimum, without noise, is not regressed by having been measured more often."""
    calm = Series((7.0,) * times, (7.0 * (1 + change),) * times)
    assert judge([calm])[0].verdict == "equivalent"
    assert judge([*family, calm])[-1].verdict in ("equivalent", "inconclusive")


@BOTH
@FEWER
@given(families, st.sampled_from([0.0, -0.0, -1.0, math.nan, math.inf, -math.inf]), st.data())
def test_a_bad_value_is_no_answer(judge: Compare, family: list[Series], bad: float, data: Any) -> None:
    """A value without a ratio leaves its metric inconclusive, with the reason, and the others as they are."""
    n = data.draw(st.integers(0, len(family) - 1))
    side = data.draw(st.sampled_from(["base", "head"]))
    values = list(getattr(family[n], side))
    values[data.draw(st.integers(0, len(values) - 1))] = bad
    found = judge([*family[:n], dataclasses.replace(family[n], **{side: tuple(values)}), *family[n + 1 :]])
    assert found[n].verdict == "inconclusive"
    assert repr(bad) in found[n].why
    assert side in found[n].why
    assert all(getattr(found[n], name) is None for name in NUMBERS)
    for a, b in zip(judge(family[:n] + family[n + 1 :]), found[:n] + found[n + 1 :], strict=True):
        assert unlike(a, b) == []


@pytest.mark.parametrize(("base", "head"), [(0, 3), (2, 3), (3, 0), (3, 2), (10, 1), (2, 2)])
def test_too_few_values_are_no_answer(base: int, head: int) -> None:
    """With fewer than three processes on a side even a plain change is inconclusive, and says how many are needed."""
    values = ((1.0,) * base, (2.0,) * head)
    (found,) = compare([Series(*values)])
    assert found.verdict == "inconclusive"
    assert "at least 3" in found.why
    if base == head:
        assert compare_pairs([Series(*values)]) == [found]
    assert compare([Series((1.0,) * 3, (2.0,) * 3)])[0].verdict == "regressed"


def test_nothing_to_judge() -> None:
    """No metrics, no findings."""
    assert compare([]) == compare_pairs([]) == screen([]) == []


def test_what_is_no_pair_is_refused() -> None:
    """Sides of different length are no pairs: the caller's mistake, not a verdict."""
    with pytest.raises(ValueError, match="no pairs"):
        compare_pairs([Series((1.0,) * 4, (1.0,) * 3)])


@BOTH
@FEWER
@given(families, st.data(), st.floats(1.0, 10.0))
def test_worse_stays_regressed(judge: Compare, family: list[Series], data: Any, more: float) -> None:
    """A change that is larger still, with the same noise, never leaves regressed."""
    n = data.draw(st.integers(0, len(family) - 1))
    worse = scaled(family[n], 1.0, more if family[n].lower_is_better else 1 / more)
    before, after = judge(family), judge([*family[:n], worse, *family[n + 1 :]])
    assert after[n].p_worse <= before[n].p_worse + 1e-9  # type: ignore[operator]
    assert before[n].verdict != "regressed" or after[n].verdict == "regressed"


@BOTH
@FEWER
@given(families)
def test_higher_is_better_mirrors(judge: Compare, family: list[Series]) -> None:
    """A rate is judged as its time is, and a change read the other way round gets the other verdict."""
    rates = [
        dataclasses.replace(
            s,
            base=tuple(1 / v for v in s.base),
            head=tuple(1 / v for v in s.head),
            lower_is_better=not s.lower_is_better,
        )
        for s in family
    ]
    turned = [dataclasses.replace(s, lower_is_better=not s.lower_is_better) for s in family]
    for a, rate, other in zip(judge(family), judge(rates), judge(turned), strict=True):
        assert rate.verdict == a.verdict
        assert close(rate.change, inverse(a.change))
        assert all(close(getattr(a, n), getattr(rate, n)) for n in NUMBERS[3:])
        assert other.verdict == MIRROR.get(a.verdict, a.verdict)
        assert all(close(getattr(a, n), getattr(other, n)) for n in ("change", "low", "high"))


def test_direction_is_that_of_the_metric() -> None:
    """Half as much again is worse where lower is better, and better where higher is."""
    up = Series((1.0, 1.001, 0.999), (1.5, 1.501, 1.499))
    assert compare([up])[0].verdict == "regressed"
    assert compare([dataclasses.replace(up, lower_is_better=False)])[0].verdict == "improved"


@BOTH
@FEWER
@given(families)
def test_numbers_are_what_they_are_called(judge: Compare, family: list[Series]) -> None:
    """Chances lie in 0 to 1, the change within its interval, and only metrics of the gate have a p of the gate."""
    for s, f in zip(family, judge(family), strict=True):
        chances = [f.p_worse, f.p_better, f.q, *([f.p_gate] if s.gate else [])]
        assert all(p is not None and 0 <= p <= 1 for p in chances)
        assert (f.p_gate is None) == (not s.gate)
        assert f.low <= f.change <= f.high  # type: ignore[operator]
        assert f.detectable >= s.minimum * (1 - 1e-9)  # type: ignore[operator]
        assert f.noise >= 0  # type: ignore[operator]
        assert f.degrees > 0  # type: ignore[operator]


@BOTH
@FEWER
@given(families)
def test_corrections_are_over_their_families(judge: Compare, family: list[Series]) -> None:
    """`p_gate` is Holm's over the metrics of the gate alone, `q` Benjamini and Hochberg's over all."""
    found = judge(family)
    gate = [f for s, f in zip(family, found, strict=True) if s.gate]
    assert [f.p_gate for f in gate] == pytest.approx(list(stats.holm([f.p_worse for f in gate])))
    expected = multipletests([f.p_worse for f in found], method="fdr_bh")[1]
    assert [f.q for f in found] == pytest.approx(list(expected))


@settings(max_examples=12)  # statsmodels takes 50 ms for Holm's
@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.5, 1.0]), min_size=1, max_size=30))
def test_holm_and_hochberg(p: list[float]) -> None:
    """Both corrections give statsmodels' adjusted values, ties and ends included."""
    assert list(stats.holm(p)) == pytest.approx(list(multipletests(p, method="holm")[1]))
    assert list(stats.benjamini_hochberg(p)) == pytest.approx(list(multipletests(p, method="fdr_bh")[1]))
    assert list(stats.holm([])) == list(stats.benjamini_hochberg([])) == []


@FEWER
@given(metrics())
def test_one_pair_metric_is_scipys_t(s: Series) -> None:
    """A single metric of pairs is scipy's one-sample t of the logarithms against the minimum, and its interval."""
    steps = np.log(s.head) - np.log(s.base)
    steps, margin = steps if s.lower_is_better else -steps, math.log1p(s.minimum)
    (found,) = compare_pairs([s])
    if steps.std() < 1e-9:
        return
    worse = scipy_stats.ttest_1samp(steps, margin, alternative="greater")
    better = scipy_stats.ttest_1samp(steps, -margin, alternative="less")
    assert found.p_worse == pytest.approx(worse.pvalue, rel=1e-6, abs=1e-12)
    assert found.p_better == pytest.approx(better.pvalue, rel=1e-6, abs=1e-12)
    ends = scipy_stats.ttest_1samp(steps, 0.0).confidence_interval(0.95)
    ends = (ends.low, ends.high) if s.lower_is_better else (-ends.high, -ends.low)
    assert (found.low, found.high) == pytest.approx(tuple(np.expm1(ends)), rel=1e-6, abs=1e-12)
    assert found.degrees == len(s.base) - 1


@FEWER
@given(metrics())
def test_equivalent_pairs_are_statsmodels_tost(s: Series) -> None:
    """A single metric of pairs that did not change is equivalent when statsmodels' TOST of the logarithms is below 5 %."""
    (found,) = compare_pairs([s])
    if (np.log(s.head) - np.log(s.base)).std() < 1e-9 or found.verdict in MIRROR:
        return
    margin = math.log1p(s.minimum)
    p = ttost_paired(np.log(s.head), np.log(s.base), -margin, margin)[0]
    assert found.verdict == ("equivalent" if p < 0.05 else "inconclusive")


def unclipped(rng: np.random.Generator, count: int) -> Any:
    """Normal values of which none lies so far out that it would be drawn in."""
    while True:
        values = rng.normal(0, 0.02, count)
        middle = np.median(values)
        if np.abs(values - middle).max() < 3 * scipy_stats.median_abs_deviation(values, scale="normal"):
            return values


@pytest.mark.parametrize("seed", range(30))
def test_one_metric_is_scipys_t_and_statsmodels_tost(seed: int) -> None:
    """A single metric of many values without outliers is the pooled t of scipy, its interval, and statsmodels' TOST."""
    rng = np.random.default_rng(seed)
    base, head = (
        unclipped(rng, rng.integers(8, 30)),
        unclipped(rng, rng.integers(8, 30)) + rng.normal(0, 0.02),
    )
    minimum = 0.03
    margin = math.log1p(minimum)
    (found,) = compare([Series(tuple(np.exp(base)), tuple(np.exp(head)), minimum)])
    worse = scipy_stats.ttest_ind(head - margin, base, alternative="greater").pvalue
    better = scipy_stats.ttest_ind(head + margin, base, alternative="less").pvalue
    assert (found.p_worse, found.p_better) == pytest.approx((worse, better), rel=1e-6)
    ends = scipy_stats.ttest_ind(head, base).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.expm1(ends.low), math.expm1(ends.high)))
    same = ttost_ind(head, base, -margin, margin, usevar="pooled")[0]
    verdicts = [
        (worse < 0.05, "regressed"),
        (better < 0.05, "improved"),
        (same < 0.05, "equivalent"),
        (True, "inconclusive"),
    ]
    assert found.verdict == next(v for holds, v in verdicts if holds)


def test_the_place_of_a_side() -> None:
    """Up to seven values their median is taken, from eight on the mean with outliers drawn in to three deviations."""

    def change(logs: list[float]) -> float | None:
        (found,) = compare([Series((1.0,) * 3, tuple(np.exp(logs)))])
        return found.change

    assert change([0.0, 0.0, 3.0]) == pytest.approx(0)
    assert change([0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0]) == pytest.approx(0)
    # Median 4, median distance from it 2: the outlier counts as 4 + 3 * 1.4826 * 2.
    grains = [0, 1, 2, 3, 4, 5, 6, 7, 12.8956]
    outlier = [*grains[:-1], 900.0]
    assert change([g / 1000 for g in outlier]) == pytest.approx(math.expm1(sum(grains) / 9000), rel=1e-9)
    # Where more than half are alike, nothing tells what an outlier is.
    assert change([0.0] * 7 + [0.08]) == pytest.approx(math.expm1(0.01))


def test_without_noise_any_distance_is_certain() -> None:
    """Where no value differs from its side, a change beyond the minimum is found and one up to it is not."""
    for change, verdict in (
        (0.021, "regressed"),
        (-0.021, "improved"),
        (0.019, "equivalent"),
        (0, "equivalent"),
    ):
        for judge in (compare, compare_pairs):
            assert judge([Series((50.0,) * 3, (50.0 * (1 + change),) * 3)])[0].verdict == verdict
    # Rounding alone is no noise, whatever the unit and however many values.
    for scale in (1e-300, 1 / 3, 1e300):
        calm = Series((scale,) * 400, (scale * 1.021,) * 400)
        assert compare([calm])[0].verdict == "regressed"
        assert compare([calm])[0].noise == 0


@given(st.lists(st.floats(1e-9, 1e9), min_size=3, max_size=12))
def test_rounding_is_no_noise_of_pairs(base: list[float]) -> None:
    """Pairs that all differ by just the minimum have no noise, and are neither regressed nor equivalent."""
    (found,) = compare_pairs([Series(tuple(base), tuple(1.02 * v for v in base), 0.02)])
    assert (found.noise, found.verdict) == (0, "inconclusive")


def test_a_change_no_number_holds_is_unknown() -> None:
    """Where the ratio overflows there is a verdict and no number for the change."""
    (found,) = compare([Series((1e-300,) * 3, (1e300,) * 3)])
    assert (found.verdict, found.change, found.low) == ("regressed", None, None)


@given(st.floats(-9, 9).map(lambda e: 10**e))
def test_trigamma_inverse_is_the_inverse(value: float) -> None:
    """scipy's trigamma of the inverse is the value again."""
    assert float(special.polygamma(1, shrinkage.trigamma_inverse(value))) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("value", [1e-6, 0.1, 1.0, math.pi**2 / 6, 50.0, 1e6])
def test_trigamma_inverse_is_exact_between_its_ends(value: float) -> None:
    """Between the ends where a formula of the limit is taken, Newton's method has converged; 1 belongs to pi^2 / 6."""
    found = shrinkage.trigamma_inverse(value)
    assert float(special.polygamma(1, found)) == pytest.approx(value, rel=1e-9)
    if value == math.pi**2 / 6:
        assert found == pytest.approx(1, rel=1e-9)


def test_equal_variances_are_pooled() -> None:
    """Where all variances are equal they stay, and each rests on all values together."""
    found, degrees = shrinkage.shrink([4.0] * 20, [5.0] * 20)
    assert list(degrees) == pytest.approx([100.0] * 20)
    # Their common value corrected for what a logarithm of so few values loses.
    bias = math.exp(math.log(2.5) - float(special.digamma(2.5)))
    assert list(found) == pytest.approx([4.0 * bias] * 20, rel=1e-4)


def test_chance_alone_is_pooled_nearly() -> None:
    """Variances that differ by chance only come out alike, and near the true one."""
    rng = np.random.default_rng(5)
    found, degrees = shrinkage.shrink(9.0 * rng.chisquare(6, 500) / 6, [6.0] * 500)
    assert found == pytest.approx(np.full(500, 9.0), rel=0.25)
    assert degrees.min() > 60


def test_very_different_variances_stay() -> None:
    """Where variances differ by orders of magnitude there is nothing usual to be drawn to."""
    variances = np.logspace(-12, 12, 25)
    found, degrees = shrinkage.shrink(variances, [11.0] * 25)
    assert degrees == pytest.approx(np.full(25, 11.0), rel=0.05)
    assert found[12:] == pytest.approx(variances[12:], rel=0.05)


def test_the_prior_is_found_again() -> None:
    """Of variances drawn from a known prior, its degrees and its value come out, and shrinking brings them nearer."""
    rng = np.random.default_rng(6)
    d0, usual, nu = 8.0, 4.0, 11.0
    true = d0 * usual / rng.chisquare(d0, 4000)
    seen = true * rng.chisquare(nu, 4000) / nu
    found, degrees = shrinkage.shrink(seen, np.full(4000, nu))
    assert degrees[0] - nu == pytest.approx(d0, rel=0.15)
    where = seen.argmin()
    assert (found[where] * degrees[0] - nu * seen[where]) / (degrees[0] - nu) == pytest.approx(
        usual, rel=0.05
    )
    assert np.abs(np.log(found / true)).mean() < 0.8 * np.abs(np.log(seen / true)).mean()


def test_few_or_calm_metrics_teach_nothing() -> None:
    """Below three metrics with noise nothing is drawn anywhere; one without noise does not move the others."""
    found, degrees = shrinkage.shrink([1.0, 0.0, 9.0], [4.0, 4.0, 4.0])
    assert (list(found), list(degrees)) == ([1.0, 0.0, 9.0], [4.0, 4.0, 4.0])
    some = [1.0, 2.0, 9.0, 30.0]
    alone, _ = shrinkage.shrink(some, [6.0] * 4)
    beside, _ = shrinkage.shrink([*some, 0.0], [6.0] * 5)
    assert list(beside[:4]) == pytest.approx(list(alone))
    assert 0 < beside[4] < 1


def runs(
    rng: np.random.Generator, shape: tuple[int, int], count: int, minimum: float, shift: float = 0.0
) -> list[Series]:
    """So many metrics with 1 % of noise, of which the first one's head is shifted by a relative change."""
    base, head = (np.exp(rng.normal(0, 0.01, (count, n))) for n in shape)
    head[0] *= 1 + shift
    return [Series(tuple(b), tuple(h), minimum) for b, h in zip(base, head, strict=True)]


def heavy(rng: np.random.Generator, count: int) -> Any:
    """Values of 50 metrics with 1 % of noise and 2 % of processes that were 3 to 8 % slower."""
    slow = np.where(rng.random((50, count)) < 0.02, rng.uniform(1.03, 1.08, (50, count)), 1.0)
    return np.exp(rng.normal(0, 0.01, (50, count))) * slow


def test_reports_of_nothing_raise_few_alarms() -> None:
    """Of 300 reports of 50 metrics that did not change, with outliers, surely fewer than 5 % hold a false alarm."""
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(300):
        base, head = heavy(rng, 10), heavy(rng, 3)
        family = [Series(tuple(b), tuple(h)) for b, h in zip(base, head, strict=True)]
        alarms += any(f.verdict == "regressed" for f in compare(family))
    assert scipy_stats.binomtest(alarms, 300, 0.05, alternative="less").pvalue < 0.05


@pytest.mark.parametrize("shape", [(10, 3), (10, 10), (3, 3)])
@BOTH
def test_the_level_is_kept_where_it_is_tightest(judge: Compare, shape: tuple[int, int]) -> None:
    """With next to no minimum, where the level is used up, a family's alarms are no more than 5 %, nor next to none."""
    if judge is compare_pairs:
        shape = (shape[1], shape[1])
    rng, alarms = np.random.default_rng(2), 0
    for _ in range(400):
        alarms += any(f.verdict == "regressed" for f in judge(runs(rng, shape, 15, 1e-6)))
    assert scipy_stats.binomtest(alarms, 400, 0.05, alternative="greater").pvalue > 0.01
    assert scipy_stats.binomtest(alarms, 400, 0.012, alternative="less").pvalue > 0.01


@pytest.mark.parametrize("judge", [compare, compare_pairs])
def test_false_equivalence_is_rare(judge: Compare) -> None:
    """A metric that is worse by just the minimum passes for equivalent in no more than 5 of 100 cases."""
    rng, wrong = np.random.default_rng(7), 0
    for _ in range(400):
        wrong += judge(runs(rng, (10, 10), 6, 0.02, 0.02))[0].verdict == "equivalent"
    assert scipy_stats.binomtest(wrong, 400, 0.05, alternative="greater").pvalue > 0.01
    assert wrong > 4


def test_ten_percent_are_found() -> None:
    """A change of 10 % at 1 % of noise is found by three processes in more than 9 of 10 reports of 50 metrics."""
    rng = np.random.default_rng(3)
    found = [compare(runs(rng, (10, 3), 50, 0.02, 0.10))[0].verdict == "regressed" for _ in range(100)]
    assert scipy_stats.binomtest(sum(found), 100, 0.9, alternative="greater").pvalue < 0.05


@pytest.mark.parametrize(
    ("judge", "shape", "most"),
    [(compare, (10, 3), 0.93), (compare, (10, 10), 0.88), (compare_pairs, (10, 10), 0.88)],
)
def test_detectable_is_found_with_its_power(judge: Compare, shape: tuple[int, int], most: float) -> None:
    """A shift of the size that is called detectable is found in about 8 of 10 reports (more where a median is taken)."""
    rng = np.random.default_rng(4)
    sizes = [f.detectable for _ in range(20) for f in judge(runs(rng, shape, 20, 0.02))]
    size = float(np.mean(np.array(sizes, float)))
    found = [judge(runs(rng, shape, 20, 0.02, size))[0].verdict == "regressed" for _ in range(300)]
    assert 0.72 < np.mean(found) < most


@pytest.mark.parametrize(("judge", "shape"), [(compare, (10, 3)), (compare_pairs, (10, 10))])
def test_noise_is_that_of_one_process(judge: Compare, shape: tuple[int, int]) -> None:
    """`noise` is the relative standard deviation of a process, not of a mean or of a difference."""
    rng = np.random.default_rng(8)
    noises = [f.noise for _ in range(40) for f in judge(runs(rng, shape, 20, 0.02))]
    assert math.sqrt(np.mean(np.square(np.array(noises, float)))) == pytest.approx(0.01, rel=0.05)


def test_the_gate_pays_for_its_own_metrics_only() -> None:
    """Metrics outside the gate neither raise the gate's p, nor are held to its family's level."""
    rng = np.random.default_rng(9)
    family = runs(rng, (10, 10), 12, 0.02, 0.04)
    rest = [dataclasses.replace(s, gate=False) for s in family[1:]]
    alone = compare_pairs(family[:1])[0]
    assert compare_pairs([family[0], *rest])[0].p_gate == pytest.approx(alone.p_worse)
    assert compare_pairs(family)[0].p_gate == pytest.approx(min(1.0, 12 * (alone.p_worse or 0)))
    # All of a table changed a little: what the discovery rate names, the family's level would not.
    slow = [dataclasses.replace(s, head=tuple(1.032 * v for v in s.head)) for s in family[1:]]
    named = [
        sum(f.verdict == "regressed" for f in compare_pairs([dataclasses.replace(s, gate=g) for s in slow]))
        for g in (True, False)
    ]
    assert named[0] < named[1]


def test_alpha_is_the_caller_s() -> None:
    """The level that a caller asks for decides, and so does that of equivalence."""
    s = runs(np.random.default_rng(10), (6, 6), 1, 0.02, 0.05)
    (found,) = compare_pairs(s)
    p = found.p_worse
    assert p is not None
    for judge in (compare_pairs, compare):
        (found,) = judge(s)
        p = found.p_worse or 0.0
        assert judge(s, alpha=p * 1.01)[0].verdict == "regressed"
        assert judge(s, alpha=p * 0.99)[0].verdict != "regressed"
        assert (judge(s, alpha=p / 9)[0].detectable or 0) > (found.detectable or 0)
    calm = runs(np.random.default_rng(10), (10, 10), 1, 0.02)
    assert compare_pairs(calm)[0].verdict == "equivalent"
    assert compare_pairs(calm, equivalence=1e-9)[0].verdict == "inconclusive"


@FEWER
@given(families, st.floats(1e-3, 1e3))
def test_screen_looks_either_way(family: list[Series], factor: float) -> None:
    """The screen flags a change in whichever direction, in any unit, and agrees with its numbers."""
    flagged = screen(family)
    assert screen([swapped(s) for s in family]) == flagged
    assert screen([scaled(s, factor, factor) for s in family]) == flagged
    assert screen([dataclasses.replace(s, lower_is_better=not s.lower_is_better) for s in family]) == flagged
    assert [f.verdict == "flagged" for f in screening(family)] == flagged


def test_screen_asks_for_one_process() -> None:
    """One value of the head is enough to be suspicious; where there can be no test, a metric is flagged."""
    base = (1.0, 1.01, 0.99, 1.0, 1.01)
    heads = {(1.2,): True, (0.8,): True, (1.001,): False, (): True, (math.nan,): True, (0.0,): True}
    assert screen([Series(base, head) for head in heads]) == list(heads.values())
    assert screen([Series(base[:2], (1.0,))]) == [True]


def test_screen_has_its_level() -> None:
    """Without a change and with next to no minimum, the screen flags about twice its level: it looks either way."""
    rng = np.random.default_rng(11)
    flags = [f for _ in range(60) for f in screen(runs(rng, (10, 1), 20, 1e-6))]
    assert 0.16 < np.mean(flags) < 0.24
    assert np.mean(screen(runs(rng, (10, 1), 400, 1e-6), level=0.01)) < 0.05


def test_kinds_tell_nothing_of_each_other() -> None:
    """Rows of another kind, however calm, change neither noise nor degrees of a row; of its own kind they do."""
    generator = np.random.default_rng(5)

    def rows(noise: float, kind: str) -> list[Series]:
        drawn = [np.exp(generator.normal(0, noise, 13)) for _ in range(20)]
        return [Series(tuple(d[:10]), tuple(d[10:]), 0.03, kind=kind) for d in drawn]

    times, memory = rows(0.1, "s"), rows(0.0005, "bytes")
    alone, beside = compare(times), compare(times + memory)[:20]
    assert [(f.noise, f.degrees) for f in alone] == [(f.noise, f.degrees) for f in beside]
    mixed = compare([*times, *(dataclasses.replace(m, kind="s") for m in memory)])[:20]
    assert all((m.degrees or 0) + 5 < (a.degrees or 0) for m, a in zip(mixed, alone, strict=True))
