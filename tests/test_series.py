"""What is said of one metric over time: trends within a process, and a step at the end of many runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from harness.series import SHUFFLES, Tail, judge_trend, tail_test

BAD = [0.0, -1.0, math.nan, math.inf, -math.inf]
samples = st.lists(st.integers(900, 1100).map(lambda v: v / 1000), min_size=8, max_size=40)


def test_short_or_bad_samples_have_no_trend() -> None:
    """Below 8 samples, or with one that is not positive and finite, nothing is said."""
    assert judge_trend([]) is None
    assert judge_trend([float(n) for n in range(1, 8)]) is None
    assert judge_trend([float(n) for n in range(1, 9)]) is not None
    for bad in BAD:
        assert judge_trend([1.0] * 5 + [bad] + [1.0] * 5) is None


@pytest.mark.parametrize("count", [20, 60, 1000])
def test_a_slope_is_found(count: int) -> None:
    """Samples that rise or fall by 10 % under 1 % of noise trend, by about that much."""
    rng = np.random.default_rng(1)
    for way in (0.1, -0.1):
        found = judge_trend(list(np.linspace(1, 1 + way, count) * np.exp(rng.normal(0, 0.01, count))))
        assert found is not None
        assert found.trending
        assert found.change == pytest.approx(way, abs=0.025)


def test_what_is_steady_does_not_trend() -> None:
    """Of 400 series without a trend next to none trends, however noisy; a certain but small slope does not either."""
    rng = np.random.default_rng(2)
    found = [judge_trend(list(np.exp(rng.normal(0, 0.1, 20)))) for _ in range(400)]
    assert sum(f.trending for f in found if f is not None) <= 3
    assert 0.02 < np.mean([f.p < 0.05 for f in found if f is not None]) < 0.07
    small = judge_trend(list(np.linspace(1, 1.02, 50)))
    assert small is not None
    assert small.p < 1e-9
    assert not small.trending


def test_no_change_at_all_is_no_trend() -> None:
    """Equal samples, as of memory, have no trend and no slope."""
    found = judge_trend([5.0] * 30)
    assert found is not None
    assert (found.change, found.p, found.trending) == (0.0, 1.0, False)


@given(samples, st.floats(1e-6, 1e6))
def test_a_trend_reads_both_ways(values: list[float], factor: float) -> None:
    """Read backwards the change has the other sign and the same chance; another unit changes nothing."""
    there, back = judge_trend(values), judge_trend(values[::-1])
    scaled = judge_trend([factor * v for v in values])
    assert there is not None
    assert back is not None
    assert scaled is not None
    assert (back.change, back.p) == (pytest.approx(-there.change, abs=1e-12), there.p)
    assert scaled.change == pytest.approx(there.change, abs=1e-9)


@given(samples)
def test_the_line_is_theil_and_sen_s(values: list[float]) -> None:
    """The slope is scipy's, and the chance that of Kendall's tau but for the correction for its steps."""
    found = judge_trend(values)
    assert found is not None
    slope = float(scipy_stats.theilslopes(values)[0])
    assert found.change == pytest.approx(slope * (len(values) - 1) / float(np.median(values)), abs=1e-12)
    if len(set(values)) > 1:
        tau = scipy_stats.kendalltau(range(len(values)), values, method="asymptotic")
        assert found.p == pytest.approx(tau.pvalue, abs=0.13)
        assert found.p >= tau.pvalue - 1e-9


def test_mann_and_kendall_by_hand() -> None:
    """Eight rising values: 28 pairs in order, variance 8*7*21/18 = 65.33, z = 27 / 8.083, p = 0.00084."""
    found = judge_trend([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7])
    assert found is not None
    assert found.p == pytest.approx(0.000837, abs=2e-6)
    assert found.change == pytest.approx(0.7 / 1.35)
    assert found.trending


def test_a_short_or_bad_history_has_no_tail() -> None:
    """Below 10 values, or with one that is not positive and finite, nothing is said."""
    assert tail_test([]) is None
    assert tail_test([1.0] * 7 + [2.0] * 2) is None
    assert tail_test([1.0] * 8 + [2.0] * 2) is not None
    for bad in BAD:
        assert tail_test([1.0] * 8 + [bad] + [1.0] * 8) is None


def test_tails_of_nothing_raise_few_alarms() -> None:
    """Without a step, p is below 5 % in about 5 of 100 histories, and below 1 % in no more than 1."""
    rng = np.random.default_rng(3)
    ps = [
        t.p for _ in range(200) for t in [tail_test(list(np.exp(rng.normal(0, 0.03, 20))))] if t is not None
    ]
    assert len(ps) == 200
    assert scipy_stats.binomtest(sum(p < 0.01 for p in ps), 200, 0.01, alternative="greater").pvalue > 0.01
    assert scipy_stats.binomtest(sum(p < 0.05 for p in ps), 200, 0.05).pvalue > 0.01


@pytest.mark.parametrize("way", [4, -4])
def test_a_step_is_found_soon(way: int) -> None:
    """A step of four standard deviations is found by its second point, at 1 %, in more than 9 of 10 histories."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(60):
        logs = rng.normal(0, 0.01, 30)
        logs[-2:] += 0.01 * way
        tail = tail_test(list(np.exp(logs)))
        assert tail is not None
        found.append(tail)
    assert scipy_stats.binomtest(sum(t.p < 0.01 for t in found), 60, 0.8, alternative="greater").pvalue < 0.05
    assert np.mean([t.p < 0.01 for t in found]) > 0.9
    assert np.median([t.points for t in found]) == 2
    assert np.mean([t.change for t in found]) == pytest.approx(math.expm1(0.01 * way), abs=0.01)


@pytest.mark.parametrize("points", range(2, 9))
def test_a_step_is_dated(points: int) -> None:
    """Of a plain step the number of points since, its size and the least possible p are told."""
    rng = np.random.default_rng(5)
    logs = rng.normal(0, 0.001, 40)
    logs[-points:] += 0.2
    tail = tail_test(list(np.exp(logs)))
    assert tail is not None
    assert tail.points == points
    assert tail.change == pytest.approx(math.expm1(0.2), abs=0.005)
    # Two of 40 values are the last two by chance in 1 of 780 orders.
    assert tail.p < 0.004
    assert points < 4 or tail.p == 1 / (SHUFFLES + 1)


def test_equal_values_have_no_step() -> None:
    """Values that are all alike leave everything to chance, and one odd value long ago is no step at the end."""
    for value, count in ((3.0, 20), (0.1, 10), (1e9 / 3, 33), (1e-300, 100)):
        assert tail_test([value] * count) == Tail(2, 0.0, 1.0)
    odd = tail_test([3.0] * 5 + [4.0] + [3.0] * 14)
    assert odd is not None
    assert odd.p > 0.05


@settings(max_examples=25)
@given(
    st.lists(st.integers(900, 1100).map(lambda v: v / 1000), min_size=10, max_size=20), st.floats(1e-6, 1e6)
)
def test_a_tail_knows_neither_unit_nor_direction(values: list[float], factor: float) -> None:
    """Another unit changes nothing, as a rate it is the same step, and the same call says the same."""
    tail = tail_test(values)
    assert tail is not None
    assert tail == tail_test(list(values))
    for other in (tail_test([factor * v for v in values]), tail_test([1 / v for v in values])):
        assert other is not None
        assert other.p == pytest.approx(tail.p, abs=2 / (SHUFFLES + 1))
    assert tail.p >= 1 / (SHUFFLES + 1)
    assert 2 <= tail.points <= min(8, len(values) - 5)
