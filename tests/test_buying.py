"""The arithmetic of a buyer's page: costs, order, the price at which it flips, and what is never compared."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from buy_made import (
    BF16,
    FP32,
    LOSS,
    PRICES,
    TWO,
    cheap,
    dear,
    failing,
    loss,
    make_offer,
    spread,
    step,
    turns,
)
from harness import stats
from harness.buy_page import make_page
from harness.buying import Cell, Flip, Line, Offer, Page
from harness.cost import Price, Prices
from harness.errors import UsageError
from harness.estimates import estimate, percentile, ratio
from harness.records import Metric

times = st.lists(st.floats(1e-4, 1e3), min_size=3, max_size=12)


def line(page: Page, test: str = FP32) -> Line:
    """The row of a test."""
    return next(found for found in page.lines if found.test == test)


def cell(page: Page, name: str, test: str = FP32) -> Cell:
    """What a machine has in a row."""
    names = [m.name for m in page.machines]
    return line(page, test).cells[next(n for n, own in enumerate(names) if own.startswith(name))]


def figure(found: Cell, name: str) -> float:
    """A number of a cell."""
    (estimated,) = [f.estimate for f in found.figures if f.name == name]
    assert estimated is not None
    return estimated.value


def cost(found: Cell, name: str = "million samples") -> float | None:
    """A cost of a cell."""
    (estimated,) = [f.estimate for f in found.costs if f.name == name]
    return None if estimated is None else estimated.value


def flip(page: Page, unit: str = "million samples", test: str = FP32) -> Flip:
    """The only price of a row and unit at which an order flips."""
    (found,) = [f for f in page.flips if (f.unit, f.test) == (unit, test)]
    return found


# Estimates.


@given(times)
def test_an_interval_is_that_of_the_statistics(values: list[float]) -> None:
    """The place and the 95 % interval of the values are those of the method by which metrics are judged, one-sided here."""
    found = estimate(values)
    assert found is not None
    place, squares, factor = stats._locate(np.log([values]))
    n = len(values)
    width = scipy_stats.t.ppf(0.975, n - 1) * math.sqrt(squares[0] / (n - 1) * factor)
    assert found.value == pytest.approx(math.exp(place[0]))
    assert found.low == pytest.approx(math.exp(place[0] - width))
    assert found.high == pytest.approx(math.exp(place[0] + width))
    assert found.processes == n


@pytest.mark.parametrize("values", [[], [1.0, 0.0, 1.0], [1.0, math.nan, 2.0], [math.inf], [-1.0, 1.0, 1.0]])
def test_what_is_no_number_has_no_place(values: list[float]) -> None:
    """No values, and one that is not positive and finite, are unknown: no number is made of them."""
    assert estimate(values) is None
    assert ratio(values, [1.0, 1.0, 1.0]) is None


@pytest.mark.parametrize("count", [1, 2])
def test_few_processes_have_no_interval(count: int) -> None:
    """Below three processes there is a number and no interval, and why."""
    found = estimate([2.0] * count)
    assert found is not None
    assert (found.value, found.low, found.high) == (pytest.approx(2.0), None, None)
    assert "an interval takes 3" in found.why
    beside = ratio([2.0] * count, [1.0, 1.0, 1.1])
    assert beside is not None
    assert beside.low is None


@given(times, times)
def test_a_ratio_is_that_of_the_places(a: list[float], b: list[float]) -> None:
    """The ratio of two machines is the ratio of the numbers shown for each, whichever way it is asked."""
    x, y, forth, back = estimate(a), estimate(b), ratio(a, b), ratio(b, a)
    assert x is not None
    assert y is not None
    assert forth is not None
    assert back is not None
    assert forth.value == pytest.approx(x.value / y.value)
    assert forth.value * back.value == pytest.approx(1)
    if forth.low is not None and back.high is not None:
        assert forth.low * back.high == pytest.approx(1, rel=1e-4)


@given(times, st.floats(0.01, 100))
def test_a_rate_keeps_its_interval_in_order(values: list[float], amount: float) -> None:
    """A rate out of a time, and a time in another unit, keep the interval around the number."""
    found = estimate(values)
    assert found is not None
    for other in (found.under(amount), found.times(amount)):
        assert other.low is not None
        assert other.high is not None
        assert other.low <= other.value * (1 + 1e-12)
        assert other.value <= other.high * (1 + 1e-12)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=150), st.sampled_from([0.5, 0.95, 0.99]))
def test_percentiles_need_samples(samples: list[float], share: float) -> None:
    """A percentile is numpy's of the samples, and unknown where none of so few could lie above it."""
    found = percentile(samples, share)
    if share > 0.5 and len(samples) < {0.95: 20, 0.99: 100}[share]:
        assert found is None
    else:
        assert found == pytest.approx(float(np.percentile(samples, 100 * share)))


# Numbers of one machine.


def test_costs_are_seconds_devices_and_price() -> None:
    """A step costs its seconds, on its devices, at the price of an hour; a million samples and an epoch their share."""
    seconds = [0.1] * 5
    page = make_page([dear(records=step(seconds, samples=4, devices=2), runner={"device_count": 2})], PRICES)
    found = cell(page, "dear")
    each = 0.1 * 2 * 6 / 3600
    assert cost(found, "step") == pytest.approx(each)
    assert cost(found, "million samples") == pytest.approx(each * 1e6 / 4)
    assert cost(found, "epoch") == pytest.approx(each * 1000 / 4)
    assert figure(found, "samples/s") == pytest.approx(40)
    assert figure(found, "samples/s and device") == pytest.approx(20)
    assert found.processes == 5


def test_warm_up_is_in_no_number() -> None:
    """The samples before the warm-up ended, ten times as slow here, change nothing."""
    assert figure(cell(make_page([dear()], None), "dear"), "time per step") == pytest.approx(0.1, rel=0.02)


def test_ranks_that_share_a_device_occupy_one() -> None:
    """Of two ranks on a machine of one device one device is paid for."""
    page = make_page([dear(records=step([0.1] * 5, devices=2))], PRICES)
    assert cell(page, "dear").devices == 1


def test_mfu_is_of_the_peak_or_unknown_with_why() -> None:
    """MFU is operations over seconds and peak at the test's precision; without a known peak it is unknown, never 0."""
    page = make_page([dear(records=step([0.1] * 5), peaks={"fp32": 100.0})], None)
    assert figure(cell(page, "dear"), "MFU") == pytest.approx(1e12 / (0.1 * 100e12))
    for peaks, words in ((None, "not known"), ({"bf16": 100.0}, "for fp32 is not known")):
        found = cell(make_page([dear(peaks=peaks)], None), "dear")
        (mfu,) = [f for f in found.figures if f.name == "MFU"]
        assert mfu.estimate is None
        assert words in mfu.why
    bare = [Metric("step_s", "s", (0.1,), work={"samples": 4.0})]
    records = [dataclasses.replace(r, metrics=tuple(bare)) for r in step([0.1] * 5)]
    (mfu,) = [f for f in cell(make_page([dear(records=records)], None), "dear").figures if f.name == "MFU"]
    assert mfu.why == "the operations of a step were not counted"


def test_actions_come_from_turns_and_percentiles_from_calls() -> None:
    """Actions a second are those of a turn, though calls overlap; p50 and p95 are those of single calls, not a mean."""
    page = make_page([dear(records=turns([0.8] * 5, callers=2, tail=5.0))], PRICES)
    found = cell(page, "dear", TWO)
    assert figure(found, "actions/s") == pytest.approx(64 / 0.8)
    assert figure(found, "p50") == pytest.approx(0.2)
    assert figure(found, "p95") == pytest.approx(1.0)
    mean = statistics.fmean([0.2] * 7 + [1.0])
    assert figure(found, "p95") != pytest.approx(mean, rel=0.1)
    assert cost(found, "million action chunks") == pytest.approx(0.8 * 1e6 / 8 * 6 / 3600)


def test_few_calls_have_no_tail() -> None:
    """Of fewer than 20 calls of a process there is no 95th percentile, and the page says so."""
    records = [
        dataclasses.replace(
            r,
            metrics=(
                r.metrics[0],
                dataclasses.replace(r.metrics[1], samples=r.metrics[1].samples[:19], warmup=0),
            ),
        )
        for r in turns([0.8] * 5)
    ]
    (p95,) = [
        f for f in cell(make_page([dear(records=records)], None), "dear", TWO).figures if f.name == "p95"
    ]
    assert p95.estimate is None
    assert "no 95th percentile" in p95.why


def test_a_test_that_failed_anywhere_has_no_number() -> None:
    """A test that failed in one process has no number, but why; one that was not run, or skipped, likewise."""
    page = make_page([dear(records=[*step(spread(0.1)), failing(FP32)]), cheap()], PRICES)
    assert not cell(page, "dear").there
    assert cell(page, "dear").why == "failed here: it broke"
    assert line(page).cheapest == {}
    skipped = dataclasses.replace(failing(FP32), outcome="skipped", repeat=None, reason="no bf16 here")
    page = make_page([dear(records=[skipped]), cheap()], PRICES)
    assert cell(page, "dear").why == "did not run here: no bf16 here"
    assert cell(make_page([dear(), cheap(records=[])], None), "cheap").why == "not run here"


def test_processes_that_gave_no_value_are_told() -> None:
    """Fewer values than the run has repeats are a note beside the number."""
    page = make_page([dear(records=step(spread(0.1, 3)))], None)
    assert cell(page, "dear").note == "3 of 5 processes gave a value"


def test_processes_of_different_work_have_no_number() -> None:
    """A run whose own processes did different work is mixed: no number is made of it."""
    mixed = [*step(spread(0.1, 3)), *[dataclasses.replace(r, repeat=4) for r in step([0.1], samples=8)]]
    found = cell(make_page([dear(records=mixed)], None), "dear")
    assert not found.there
    assert found.why == "its processes did different work: samples 4 and 8"


def test_calls_of_some_processes_are_no_tail_of_all() -> None:
    """Single calls that a process did not keep leave the percentiles unknown: they would be of other processes than the
    rate beside them."""
    records = turns([0.8] * 5)
    records[2] = dataclasses.replace(records[2], metrics=records[2].metrics[:1])
    found = cell(make_page([dear(records=records)], None), "dear", TWO)
    assert figure(found, "actions/s") == pytest.approx(80)
    assert [f.estimate for f in found.figures if f.name in ("p50", "p95")] == [None, None]


def test_a_serving_that_gave_no_tokens_has_no_cost_of_them() -> None:
    """One of three processes without output tokens: there is no cost of output, and still one of input."""
    records = [
        dataclasses.replace(
            failing(FP32),
            test="vllm-bench::serve[x]",
            outcome="passed",
            repeat=n,
            metrics=(
                Metric(
                    "serve_s",
                    "s",
                    (20.0,),
                    work={
                        "requests": 9,
                        "input_tokens": 90,
                        "output_tokens": tokens,
                        "tokens": 90,
                        "devices": 1,
                    },
                ),
            ),
        )
        for n, tokens in enumerate((30.0, 0.0, 30.0), 1)
    ]
    found = cell(make_page([dear(records=records)], PRICES), "dear", "vllm-bench::serve[x]")
    assert cost(found, "million output tokens") is None
    assert cost(found, "million input tokens") == pytest.approx(20 * 6 / 3600 * 1e6 / 90)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -1.0, 0.0])
def test_work_that_is_no_number_is_unknown(odd: float) -> None:
    """A folder from elsewhere may tell any work: what is not positive and finite counts as not told, and costs nothing."""
    page = make_page([dear(records=[*step([0.1] * 5, samples=odd, devices=odd), *turns([0.1] * 5)])], PRICES)
    found = cell(page, "dear")
    assert cost(found) is None
    assert found.devices == 1
    assert figure(found, "time per step") == pytest.approx(0.1)


# Order, and the price at which it flips.


def page_at(own: float, other: float, times: Sequence[Sequence[float]]) -> Page:
    """Two machines with these prices and times a step."""
    prices = Prices(
        (Price("a-*", own, "USD", "invented", "2026-12-01"), Price("b-*", other, "USD", "x", "2026-12-01"))
    )
    offers = [make_offer(n, *step(t)) for n, t in zip("ab", times, strict=True)]
    return make_page(offers, prices)


@settings(max_examples=25)
@given(st.floats(0.1, 50), st.floats(0.1, 50), times, times, st.floats(1e-6, 0.5))
def test_the_order_flips_at_its_price(
    own: float, other: float, a: list[float], b: list[float], step_: float
) -> None:
    """At the price told the second machine costs what the first does; a little below it less, a little above it more."""
    found = flip(page_at(own, other, [a, b]))
    assert (found.first, found.second) == ("a-x-1", "b-x-1")
    assert found.price is not None
    at = found.price.value
    for price, sign in ((at * (1 - step_), -1), (at, 0), (at * (1 + step_), 1)):
        page = page_at(own, price, [a, b])
        here, there = cost(cell(page, "a")), cost(cell(page, "b"))
        assert here is not None
        assert there is not None
        if sign == 0:
            assert there == pytest.approx(here)
        else:
            assert (there - here) * sign > 0
        again = flip(page).price
        assert again is not None
        assert again.value == pytest.approx(at), "it does not hang on the second machine's own price"


@settings(max_examples=25)
@given(st.floats(0.1, 50), st.floats(0.1, 50), times, times)
def test_cheaper_is_told_only_when_shown(own: float, other: float, a: list[float], b: list[float]) -> None:
    """A machine is called cheaper just when its price lies outside of the interval of the price at which the order flips."""
    found = flip(page_at(own, other, [a, b]))
    assert found.price is not None
    assume(found.price.low is not None and found.price.high is not None)
    assert found.price.low is not None
    assert found.price.high is not None
    assume(all(abs(end / other - 1) > 1e-9 for end in (found.price.low, found.price.high)))
    expected = found.second if other < found.price.low else found.first if other > found.price.high else None
    assert found.cheaper == expected
    assert (found.why == "") is (expected is not None)


@settings(max_examples=25)
@given(st.floats(0.01, 100))
def test_another_unit_of_money_changes_no_order(factor: float) -> None:
    """All prices times a factor change costs by it, and neither order nor who is cheapest."""
    prices = Prices(
        tuple(dataclasses.replace(p, per_device_hour=p.per_device_hour * factor) for p in PRICES.prices),
        1000.0,
    )
    one, other = make_page([cheap(), dear()], PRICES), make_page([cheap(), dear()], prices)
    assert [x.cheapest for x in one.lines] == [x.cheapest for x in other.lines]
    assert [f.cheaper for f in one.flips] == [f.cheaper for f in other.flips]
    a, b = cost(cell(one, "cheap")), cost(cell(other, "cheap"))
    assert a is not None
    assert b == pytest.approx(a * factor)


@settings(max_examples=25)
@given(st.permutations(["a", "b", "c"]))
def test_the_order_of_runs_changes_no_number(order: list[str]) -> None:
    """Named in another order, every machine has the same numbers, costs and rivals; only the reference is another."""
    offers = {n: make_offer(n, *step(spread(0.1 * k, seed=k))) for k, n in enumerate("abc", 1)}
    prices = Prices(tuple(Price(f"{n}-*", 1.0 + k, "USD", "x", "2026-12-01") for k, n in enumerate("abc")))
    first, other = (make_page([offers[n] for n in names], prices) for names in ("abc", order))
    for n in "abc":
        assert cell(first, n).figures == cell(other, n).figures
        assert cell(first, n).costs == cell(other, n).costs
    assert line(first).cheapest == line(other).cheapest
    assert {frozenset((f.first, f.second, f.cheaper)) for f in first.flips} == {
        frozenset((f.first, f.second, f.cheaper)) for f in other.flips
    }
    assert other.reference == f"{order[0]}-x-1"


def test_the_faster_may_be_the_dearer() -> None:
    """Twice as fast at three times the price: the slow machine is the cheapest, until the fast one costs 4 USD."""
    page = make_page([cheap(), dear()], PRICES)
    assert line(page).cheapest == {"million samples": "cheap-x-1"}
    found = flip(page)
    assert found.price is not None
    assert found.price.value == pytest.approx(4, rel=0.03)
    assert found.price.low is not None
    assert found.price.high is not None
    assert found.price.low < 4 < found.price.high
    assert (found.own, found.currency, found.cheaper) == (6.0, "USD", "cheap-x-1")
    assert page.exit_status == 0


def test_noise_hides_an_order() -> None:
    """Two machines that cost nearly the same and scatter much have no order: it says so, and gives the price."""
    records = [step(spread(0.1, noise=0.4, seed=k)) for k in (1, 2)]
    prices = Prices((Price("*", 3.0, "USD", "invented", "2026-12-01"),))
    page = make_page([make_offer(n, *r) for n, r in zip("ab", records, strict=True)], prices)
    found = flip(page)
    assert found.cheaper is None
    assert found.why == "no difference in cost is shown"
    assert line(page).cheapest == {}


def test_too_few_processes_have_no_order() -> None:
    """With one process a machine there are costs and a price, without interval; nobody is cheaper."""
    page = make_page([cheap(records=step([0.2])), dear(records=step([0.1]))], PRICES)
    found = flip(page)
    assert found.price is not None
    assert found.price.low is None
    assert found.cheaper is None
    assert "an interval takes 3" in found.why
    assert line(page).cheapest == {}


def test_the_cheapest_beats_every_other() -> None:
    """With a third machine that is not shown to cost more, nobody is the cheapest."""
    third = make_offer("cheap too", *step(spread(0.2, noise=0.3, seed=9)))
    page = make_page([cheap(), dear(), third], PRICES)
    assert len([f for f in page.flips if f.unit == "million samples"]) == 3
    assert line(page).cheapest == {}


def test_the_cheapest_of_a_part_is_not_the_cheapest() -> None:
    """Two pairs of machines with two batches have no cheapest among them, though each pair has an order."""
    offers = [
        make_offer(f"m{k}", *step(spread(0.1 * k, seed=k), samples=4 if k < 3 else 8)) for k in (1, 2, 3, 4)
    ]
    page = make_page(offers, Prices((Price("*", 1.0, "USD", "invented", "2026-12-01"),)))
    assert sorted(f.cheaper or "" for f in page.flips) == ["m1-x-1", "m3-x-1"]
    assert line(page).cheapest == {}


# What is never compared.


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: dear(records=step(spread(0.1), samples=8)), "another global batch: 8, not 4"),
        (lambda: dear(target={"name": "reference"}), "another target: reference, not vitra"),
        (lambda: dear(target={"commit": "e" * 40}), "another target commit"),
        (lambda: dear(target={"patches": ("decoder-fix",)}), "another patches: decoder-fix, not none"),
        (lambda: dear(configuration={"seed": 2}), "another configuration"),
    ],
)
def test_other_work_is_not_compared(other: Any, words: str) -> None:
    """Another batch, target, commit, patch or configuration: each has its numbers, none is compared, and the page says why."""
    page = make_page([cheap(), other()], PRICES)
    found = cell(page, "dear")
    assert found.there
    assert words in found.apart
    assert [f for f in page.flips if f.test == FP32] == []
    assert line(page).cheapest == {}
    assert any(words in said for said in page.apart)


def test_another_concurrency_is_not_compared() -> None:
    """Turns of other numbers of callers under one name are never compared."""
    page = make_page([cheap(records=turns(spread(0.2))), dear(records=turns(spread(0.1), callers=4))], PRICES)
    assert cell(page, "dear", TWO).apart == "another concurrency: 4, not 2"
    assert page.exit_status == 3


def test_emulated_has_no_place() -> None:
    """An emulated run has neither number nor cost, though it measured; it is no reference, and the page says why."""
    for stand_in in (False, True):
        emulated = dear(runner={"emulated": True, "stand_in": stand_in})
        page = make_page([emulated, cheap()], PRICES)
        found = cell(page, "dear")
        assert not found.there
        assert "says nothing" in found.why or "say nothing" in found.why
        assert found.costs == ()
        assert page.machines[0].price is None
        assert page.reference == "cheap-x-1"
        assert page.flips == ()
        assert page.exit_status == 3
        assert "no place beside measured machines" in page.apart[0]


def test_other_numbers_of_devices_are_told() -> None:
    """Two devices beside one are compared by device and by cost, not by time, and the page says so."""
    two = dear(records=step(spread(0.1), devices=2), runner={"device_count": 2})
    page = make_page([cheap(), two], PRICES)
    found = cell(page, "dear")
    assert found.apart == ""
    assert "2 devices, 1 of cheap-x-1: compare by device and by cost" in found.uneven
    assert any(found.uneven in said for said in page.apart)
    assert flip(page).price is not None
    assert flip(page).price.value == pytest.approx(2, rel=0.03)  # type: ignore[union-attr]


def test_other_precisions_are_other_rows() -> None:
    """bf16 on one machine and fp32 on the other stand in rows of their own, and the page says that they are not compared."""
    page = make_page([cheap(), dear(records=step(spread(0.1), BF16))], PRICES)
    assert [x.test for x in page.lines if x.kind == "training"] == sorted([FP32, BF16])
    assert not any(f.kind == "training" for f in page.flips)
    said = " ".join(page.apart)
    assert "training: only dear-x-1 ran in bf16" in said
    assert "have no test in common" in said


def test_a_stale_price_makes_no_order() -> None:
    """A price that was older than a year on the day of the run is told, its costs are marked, and it is in no order."""
    old = Price("dear*", 0.01, "USD", "invented", "2026-01-14")
    page = make_page([cheap(), dear()], Prices((PRICES.prices[0], old)))
    assert [m.stale for m in page.machines] == [False, True]
    assert cost(cell(page, "dear")) is not None
    assert flip(page).cheaper is None
    assert not flip(page).ranked
    assert flip(page).why == "the price of dear-x-1 is stale"
    assert flip(page).price is not None, "the first machine's fresh price still tells it"
    assert line(page).cheapest == {}
    assert any("366 days old" in said for said in page.apart)
    young = Prices((PRICES.prices[0], dataclasses.replace(old, day="2026-01-15")))
    assert line(make_page([cheap(), dear()], young)).cheapest == {"million samples": "dear-x-1"}


def test_a_stale_first_price_is_no_measure() -> None:
    """The price at which an order flips rests on the fresh price of the two; without one there is none."""
    old = Prices(tuple(dataclasses.replace(p, day="2020-01-01") for p in PRICES.prices))
    page = make_page([cheap(), dear()], old)
    assert flip(page).price is None
    half = Prices((dataclasses.replace(PRICES.prices[0], day="2020-01-01"), PRICES.prices[1]))
    found = flip(make_page([cheap(), dear()], half))
    assert (found.first, found.second) == ("dear-x-1", "cheap-x-1")
    assert found.price is not None
    assert found.price.value == pytest.approx(3, rel=0.03)


def test_two_currencies_have_no_order() -> None:
    """Costs in two currencies are shown, and put in no order; the flip is told in the first's."""
    euro = dataclasses.replace(PRICES.prices[1], currency="EUR")
    page = make_page([cheap(), dear()], Prices((PRICES.prices[0], euro)))
    assert flip(page).ratio is None
    assert flip(page).cheaper is None
    assert (flip(page).currency, flip(page).own_currency) == ("USD", "EUR")
    assert line(page).cheapest == {}
    assert any("no order of costs" in said for said in page.apart)


def test_a_price_of_one_tells_that_of_the_other() -> None:
    """Where only one has a price, the price at which the other would cost as much is told all the same."""
    page = make_page([cheap(), dear()], Prices(PRICES.prices[1:]))
    found = flip(page)
    assert (found.first, found.own) == ("dear-x-1", None)
    assert found.price is not None
    assert found.price.value == pytest.approx(3, rel=0.03)
    assert cost(cell(page, "cheap")) is None
    assert cell(page, "cheap").cost_why == "no price fits cheap-x-1"


def test_without_prices_there_is_no_cost() -> None:
    """No price file: no cost anywhere, no order, but all numbers."""
    page = make_page([cheap(), dear()], None)
    assert page.flips == ()
    assert all(f.estimate is None for x in page.lines for c in x.cells for f in c.costs)
    assert page.exit_status == 0


def test_a_run_is_named_once() -> None:
    """The same run twice, and no run at all, are mistakes."""
    with pytest.raises(UsageError, match="name each run once"):
        make_page([cheap(), cheap()], None)
    with pytest.raises(UsageError, match="no run"):
        make_page([], None)


# Quality beside speed.


@pytest.mark.parametrize(
    ("other", "parity", "words"),
    [
        (
            lambda: dear(records=[*step(spread(0.01)), loss(1.01)], traces=False),
            "differ",
            "1 of 1 trace differ from",
        ),
        (
            lambda: dear(records=[*step(spread(0.01)), loss(steps=5)], traces=False),
            "agree",
            "",
        ),
        (
            lambda: dear(records=[*step(spread(0.01)), loss(first=100)], traces=False),
            "inconclusive",
            "parity inconclusive: 1 of 1 trace are inconclusive beside",
        ),
        (lambda: dear(0.01, traces=False), "unknown", "not shown to agree: no trace of a known noise"),
        (lambda: dear(0.01, target={"commit": "e" * 40}), "unknown", "another target commit"),
        (lambda: dear(0.01, status="red", why="2 tests fail"), "agree", "its run is red: 2 tests fail"),
        (lambda: dear(0.01, status="no_verdict"), "agree", "its run is no verdict: no reason told"),
        (lambda: dear(0.01, defect="slow"), "agree", "the defect slow was planted"),
    ],
)
def test_only_what_agrees_may_be_cheapest(other: Any, parity: str, words: str) -> None:
    """A machine that differs, is not shown to agree, is not green or carries a defect is struck, and never the cheapest,
    however fast."""
    page = make_page([cheap(), other()], PRICES)
    machine = page.machines[1]
    assert machine.parity == parity
    if not words:
        assert machine.struck == ()
        return
    assert any(words in reason for reason in machine.struck)
    assert all(name != machine.name for x in page.lines for name in x.cheapest.values())
    assert all(f.struck and not f.ranked and f.cheaper is None for f in page.flips)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.floats(0.001, 10)), min_size=2, max_size=5))
def test_a_struck_machine_is_never_cheapest(machines: list[tuple[bool, float]]) -> None:
    """Whatever its speed, a machine that is not shown to agree is in no order, and does not hide that of the others."""
    machines[0] = (True, machines[0][1])  # the reference: without its traces nobody is shown to agree
    offers = [
        make_offer(f"m{k}", *step(spread(s, seed=k)), traces=good) for k, (good, s) in enumerate(machines)
    ]
    page = make_page(offers, Prices((Price("*", 1.0, "USD", "invented", "2026-12-01"),)))
    struck = {m.name for m in page.machines if m.struck}
    assert struck == {f"m{k}-x-1" for k, (good, _) in enumerate(machines) if not good}
    assert not struck & set(line(page).cheapest.values())
    sound = make_page([o for o, (good, _) in zip(offers, machines, strict=True) if good], page.prices)
    assert line(page).cheapest == line(sound).cheapest


def test_traces_of_the_reference_are_needed() -> None:
    """A reference without traces holds nobody up, not even itself."""
    page = make_page([cheap(traces=False), dear()], PRICES)
    assert [m.parity for m in page.machines] == ["unknown", "unknown"]
    assert all(m.struck for m in page.machines)


def test_traces_of_a_failed_test_are_no_evidence() -> None:
    """A trace of a test that failed shows no agreement."""
    bad = dataclasses.replace(loss(), outcome="failed", kind="drift", reason="out")
    page = make_page([cheap(), dear(records=[*step(spread(0.1)), bad], traces=False)], PRICES)
    assert page.machines[1].parity == "unknown"


def test_lacking_traces_are_told() -> None:
    """Agreement on some of the reference's traces says how many were not there."""
    more = dataclasses.replace(loss(), test=LOSS.replace("one", "two"))
    page = make_page([cheap(records=[*step(spread(0.2)), more]), dear()], PRICES)
    assert page.machines[1].parity == "agree"
    assert page.machines[1].parity_why == "agrees with cheap-x-1 in 1 trace; 1 other of it not here"


def test_machines_of_one_kind_get_their_own_names() -> None:
    """Two runs of one runner are told apart by their runs, or by the user's names, which prices may fit."""
    a, b = make_offer("x", *step(spread(0.1))), make_offer("x", *step(spread(0.1, seed=2)), run_id="other")
    assert [m.name for m in make_page([a, b], None).machines] == ["x-x-1 run-x", "x-x-1 other"]
    named = [dataclasses.replace(o, name=n) for o, n in ((a, "here"), (b, "there"))]
    prices = Prices(
        (Price("here", 1.0, "USD", "x", "2026-12-01"), Price("x-*", 9.0, "USD", "x", "2026-12-01"))
    )
    page = make_page(named, prices)
    assert [m.price.per_device_hour for m in page.machines if m.price] == [1.0, 9.0]


def test_tests_may_be_chosen() -> None:
    """A pattern keeps the rows that fit."""
    page = make_page([cheap(), dear()], PRICES, tests="*concurren*")
    assert [x.test for x in page.lines] == [TWO]
    assert make_page([cheap(), dear()], PRICES, tests="none").exit_status == 3


def test_the_row_that_stands_for_a_kind_is_the_most_shared() -> None:
    """The three numbers come from the first row that most machines may be compared in."""
    page = make_page([cheap(records=[*step(spread(0.2)), *step(spread(0.3), BF16)]), dear()], PRICES)
    assert page.lines[page.chosen["training"]].test == FP32
    both = [[*step(spread(s)), *step(spread(s), BF16)] for s in (0.2, 0.1)]
    page = make_page([cheap(records=both[0]), dear(records=both[1])], PRICES)
    assert page.lines[page.chosen["training"]].test == min(FP32, BF16)


def test_offers_are_left_as_they_are() -> None:
    """Making a page changes nothing of what it is made from."""
    offers: list[Offer] = [cheap(), dear()]
    before = [dataclasses.replace(o) for o in offers]
    make_page(offers, PRICES)
    assert offers == before
