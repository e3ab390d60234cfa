"""What the looks promise: false alarms no more frequent over all of them than one look would have, and stops when decided."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.looks import LOOKS, SIDES, decide, judge_pairs, order, undecided
from harness.stats import Series, compare_pairs

MIRROR = {"regressed": "improved", "improved": "regressed"}
values = st.lists(st.floats(0.5, 2.0), min_size=20, max_size=20)
families = st.lists(
    st.tuples(values, st.sampled_from([4, 5, 6, 9, 10]), st.booleans(), st.sampled_from([0.01, 0.05, 0.3])),
    min_size=1,
    max_size=4,
)


def made(family: list[tuple[list[float], int, bool, float]], spread: float = 1.0) -> list[Series]:
    """Series of so many pairs, from values of both sides; `spread` draws them together."""
    return [
        Series(
            tuple(v**spread for v in vs[:n]), tuple(v**spread for v in vs[10 : 10 + n]), minimum, lower, True
        )
        for vs, n, lower, minimum in family
    ]


def drawn(rng: np.random.Generator, change: float, minimum: float = 0.02, noise: float = 0.01) -> Series:
    """Ten pairs of a metric that is slower by `change`."""
    base = np.exp(rng.normal(0, noise, LOOKS[-1]))
    head = np.exp(rng.normal(math.log1p(change), noise, LOOKS[-1]))
    return Series(tuple(base.tolist()), tuple(head.tolist()), minimum)


@given(families, st.sampled_from([1.0, 0.1]))
def test_swapping_base_and_head_mirrors(
    family: list[tuple[list[float], int, bool, float]], spread: float
) -> None:
    """What is worse one way is better the other way, after as many pairs."""
    there = decide(made(family, spread))
    # The minimum of a ratio and of its inverse is the same on the scale of logarithms.
    back = decide([Series(s.head, s.base, s.minimum, s.lower_is_better) for s in made(family, spread)])
    assert [(MIRROR.get(d.finding.verdict, d.finding.verdict), d.pairs) for d in there] == [
        (d.finding.verdict, d.pairs) for d in back
    ]


@given(families, st.floats(0.001, 1000.0))
def test_scaling_both_sides_changes_nothing(
    family: list[tuple[list[float], int, bool, float]], unit: float
) -> None:
    """Verdicts do not depend on the unit."""
    series = made(family, 0.1)
    scaled = [
        Series(tuple(b * unit for b in s.base), tuple(h * unit for h in s.head), s.minimum, s.lower_is_better)
        for s in series
    ]
    pairs = zip(decide(series), decide(scaled), strict=True)
    for one, other in pairs:
        p = one.finding.p_gate
        # Rounding may move a value that stands on the very border.
        if p is None or all(abs(p - edge) > 1e-9 for edge in (0.05 / 3, 0.05)):
            assert one.pairs == other.pairs
            assert one.finding.verdict == other.finding.verdict


@given(families, st.randoms())
def test_the_order_of_metrics_changes_nothing(
    family: list[tuple[list[float], int, bool, float]], rng: random.Random
) -> None:
    """A metric's verdict does not depend on its place."""
    series = made(family, 0.1)
    places = list(range(len(series)))
    rng.shuffle(places)
    found, mixed = decide(series), decide([series[n] for n in places])
    assert [found[n].finding.verdict for n in places] == [d.finding.verdict for d in mixed]


@given(families)
def test_only_looks_decide(family: list[tuple[list[float], int, bool, float]]) -> None:
    """A verdict is made after 4, 6 or 10 pairs, from the pairs up to there; later pairs never change it."""
    series = made(family, 0.1)
    for s, d in zip(series, decide(series), strict=True):
        assert d.pairs in LOOKS
        assert d.pairs <= len(s.base)
    longer = [Series((*s.base, 9.0)[:10], (*s.head, 1.0)[:10], s.minimum, s.lower_is_better) for s in series]
    for before, after in zip(decide(series), decide(longer), strict=True):
        if before.finding.verdict != "inconclusive":
            assert after.finding.verdict == before.finding.verdict
            assert after.pairs == before.pairs


def test_a_clear_change_is_decided_at_the_first_look() -> None:
    """Ten times the noise needs no more pairs than the first look has."""
    found = decide([drawn(np.random.default_rng(1), 0.10)])
    assert (found[0].finding.verdict, found[0].pairs) == ("regressed", LOOKS[0])


def test_too_few_pairs_are_no_look() -> None:
    """Three pairs decide nothing, however clear they are."""
    found = decide([Series((1.0, 1.01, 0.99), (2.0, 2.02, 1.97))])
    assert (found[0].finding.verdict, found[0].pairs) == ("inconclusive", 0)


def test_uneven_sides_are_no_pairs() -> None:
    """Values without their other side are refused."""
    with pytest.raises(ValueError, match="no pairs"):
        decide([Series((1.0, 1.0), (1.0,))])


def test_a_settled_metric_stays_in_the_family() -> None:
    """Holm counts at each look all flagged metrics, also one that was settled before."""
    rng = np.random.default_rng(5)
    same, weak = drawn(rng, 0.0, noise=0.001), drawn(rng, 0.04, noise=0.03)
    (alone,), (settled_before, beside) = decide([weak]), decide([same, weak])
    assert (settled_before.finding.verdict, settled_before.pairs) == ("equivalent", LOOKS[0])
    assert (beside.finding.verdict, beside.pairs) == ("inconclusive", LOOKS[-1])
    assert 0 < (alone.finding.p_gate or 0) < 0.5
    assert beside.finding.p_gate == pytest.approx(2 * (alone.finding.p_gate or 0))


def test_each_look_has_its_share_of_the_level() -> None:
    """One look judges at a third of the level, for a change as for equivalence."""
    rng = np.random.default_rng(0)
    series = [drawn(rng, change, noise=0.02) for change in np.linspace(0, 0.08, 200)]
    for s in series:
        look = judge_pairs([s])[0]
        assert look == compare_pairs([s], alpha=0.05 / 3, equivalence=0.05 / 3)[0]
    whole = [compare_pairs([s])[0].verdict for s in series]
    shares = [judge_pairs([s])[0].verdict for s in series]
    assert shares.count("inconclusive") > whole.count("inconclusive")


def test_undecided_goes_on() -> None:
    """Inconclusive metrics need more pairs; the others do not."""
    rng = np.random.default_rng(2)
    findings = judge_pairs([drawn(rng, 0.3), drawn(rng, 0.02, noise=0.03)])
    assert undecided(findings) == [1]
    assert undecided(findings[:1]) == []


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_order_is_of_both_kinds(seed: int) -> None:
    """Each pair has both sides, in an order that the seed alone decides."""
    found = order(random.Random(seed), 10)
    assert all(sorted(pair) == sorted(SIDES) for pair in found)
    assert found == order(random.Random(seed), 10)


def test_order_is_random_in_each_pair() -> None:
    """Over many pairs either side is first about as often, and an order follows either with the same chance."""
    found = order(random.Random(7), 4000)
    first = [pair[0] == "base" for pair in found]
    again = sum(a == b for a, b in itertools.pairwise(first))
    assert abs(sum(first) - 2000) < 200
    assert abs(again - 2000) < 200


def test_false_alarms_over_all_looks() -> None:
    """Five metrics that are slower by the minimum itself, the hardest null: at least one alarm in fewer than 5 % of runs.

    The bound is the level plus three standard errors of the simulation.
    """
    rng, count = np.random.default_rng(11), 800
    alarms = 0
    for _ in range(count):
        found = decide([drawn(rng, 0.02) for _ in range(5)])
        alarms += any(d.finding.verdict == "regressed" for d in found)
    assert alarms / count <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)


def test_false_equivalence_over_all_looks() -> None:
    """A metric that is slower by the minimum is called equivalent in fewer than 5 % of runs."""
    rng, count = np.random.default_rng(12), 1500
    wrong = sum(
        decide([drawn(rng, 0.02, noise=0.004)])[0].finding.verdict == "equivalent" for _ in range(count)
    )
    assert wrong / count <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)


def test_power_at_five_percent() -> None:
    """With noise of 1 % and three metrics in the family a slowdown of 5 % is found nearly always."""
    rng = np.random.default_rng(13)
    found = [decide([drawn(rng, 0.05), drawn(rng, 0.0), drawn(rng, 0.0)])[0] for _ in range(200)]
    assert sum(d.finding.verdict == "regressed" for d in found) >= 190
