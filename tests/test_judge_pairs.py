"""What the judge says of a run that was compared with a base: never green for what was not seen on both sides."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import TODAY, make_header, make_record
from harness.judge import judge
from harness.looks import LOOKS, SIDES, order
from harness.pairs import Pairs, Process, pairs_from_json, pairs_to_json
from harness.policy import Rule
from harness.records import Metric, Record, Run, Selection
from harness.verdicts import Judgement, MetricVerdict

T, U = (f"suites/throughput/test_x.py::test_{n}" for n in "tu")
CONTROL = "suites/throughput/test_x.py::test_control"
RULES = (Rule("*_s", True, 0.05, True, ("median",)),)


def build(
    value: Callable[[str, str, int], float | None],
    *,
    flagged: Sequence[str] | None = (),
    pairs: int = 0,
    ended: bool = True,
    unit: Callable[[str], str] = lambda side: "s",
    tests: Sequence[str] = (CONTROL, T, U),
    paired: Sequence[str] = (CONTROL, T),
) -> Run:
    """A compared run: `value(side, test, number)` is what a process gave; None: its record is lost."""
    processes = [
        Process(s, n, None, tuple(tests), 0, 5.0, "")
        for s, k in (("base", 4), ("head", 2))
        for n in range(1, k + 1)
    ]
    for pair in range(1, pairs + 1):
        for side, before in (("base", 4), ("head", 2)):
            processes.append(Process(side, before + pair, pair, tuple(paired), 0, 1.0, ""))
    records: dict[str, list[Record]] = {"base": [], "head": []}
    for p in processes:
        for test in p.tests:
            found = 1.0 if test == CONTROL else value(p.side, test, p.number)
            if found is not None:
                metric = Metric("wait" if test == CONTROL else "decode_s", unit(p.side), (found,))
                records[p.side].append(
                    make_record(test, metrics=(metric,), repeat=p.number, control=test == CONTROL)
                )
    controls = (CONTROL,) if CONTROL in tests else ()
    header = make_header(
        planned=tuple(tests), controls=controls, repeats=2, selection=Selection(("throughput",))
    )
    base = Run(dataclasses.replace(header, repeats=4), tuple(records["base"]))
    plan = Pairs(
        asked="HEAD~1",
        seed=1,
        level=0.10,
        screen=("base",) * 4 + ("head",) * 2,
        order=tuple(order(random.Random(1), LOOKS[-1])),
        looks=LOOKS,
        tests=tuple(tests),
        head_spec="{}",
        base_spec="{}",
        options={},
        processes=tuple(processes),
        flagged=None if flagged is None else tuple(flagged),
        ended=ended,
        base=base,
    )
    return Run(header, tuple(records["head"]), pairs=plan)


def jitter(side: str, test: str, number: int) -> float:
    """Noise of half a percent that is the same each time."""
    return random.Random(f"{side}{test}{number}").gauss(1, 0.005)


def steady(side: str, test: str, number: int) -> float:
    return jitter(side, test, number)


def slower(share: float) -> Callable[[str, str, int], float]:
    """The head's test T is slower by that share."""
    return lambda side, test, number: (
        jitter(side, test, number) * (1 + share * (side == "head" and test == T))
    )


def lost(
    side: str, test: str, number: int, before: Callable[[str, str, int], float] = steady
) -> Callable[..., float | None]:
    return lambda s, t, n: None if (s, t, n) == (side, test, number) else before(s, t, n)


def judged(run: Run) -> tuple[Judgement, dict[str, MetricVerdict]]:
    found = judge(run, None, today=TODAY, rules=RULES)
    return found, {m.test: m for m in found.metrics}


KEY = f"{T}::decode_s"


def test_unflagged_is_green_and_tells_its_reach() -> None:
    """Nothing flagged: green, and each metric says what would have been seen."""
    found, metrics = judged(build(steady))
    assert found.status == "green", found.headline
    assert metrics[T].verdict == metrics[U].verdict == "unflagged"
    assert metrics[T].detectable is not None
    assert 0.05 < metrics[T].detectable < 0.10
    assert (metrics[T].processes, metrics[T].baseline_processes) == (2, 4)


@pytest.mark.parametrize(
    ("share", "verdict", "status"),
    [
        (0.2, "regressed", "red"),
        (-0.2, "improved", "green"),
        (0.0, "equivalent", "green"),
        (0.05, "inconclusive", "no_verdict"),
    ],
)
def test_flagged_metrics_are_judged_by_their_pairs(share: float, verdict: str, status: str) -> None:
    """What pairs show is the verdict: worse is red, better and equal are green, neither is no verdict."""
    found, metrics = judged(build(slower(share), flagged=[KEY], pairs=10))
    assert metrics[T].verdict == verdict
    assert metrics[U].verdict == "unflagged"
    assert found.status == status
    assert metrics[T].processes == (10 if verdict == "inconclusive" else 4)
    assert f"after {metrics[T].processes} pairs" in metrics[T].why


def test_the_screen_does_not_enter_the_pairs() -> None:
    """A metric that was slow by chance at the screen, and is not in the pairs, is no regression."""

    def chance(side: str, test: str, number: int) -> float:
        return jitter(side, test, number) * (1.5 if side == "head" and number <= 2 else 1)

    _, metrics = judged(build(chance, flagged=[KEY], pairs=4))
    assert metrics[T].verdict == "equivalent"
    assert metrics[T].change == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("side", SIDES)
def test_a_value_lost_at_the_screen_is_missing(side: str) -> None:
    """A process without a value leaves its metric without a verdict, on either side; the run is not green."""
    found, metrics = judged(build(lost(side, T, 1)))
    assert metrics[T].verdict == "missing"
    assert f"of the {side} gave a value" in metrics[T].why
    assert found.status == "no_verdict"


@pytest.mark.parametrize("side", SIDES)
def test_a_value_lost_in_a_pair_is_missing(side: str) -> None:
    """The same for a process of a pair before anything was decided."""
    first = 4 if side == "base" else 2
    found, metrics = judged(build(lost(side, T, first + 3), flagged=[KEY], pairs=10))
    assert metrics[T].verdict == "missing"
    assert "in pair 3" in metrics[T].why
    assert found.status == "no_verdict"


def test_a_regression_stays_when_a_later_pair_is_lost() -> None:
    """What a look has decided is not hidden by a process that was lost after it."""
    found, metrics = judged(build(lost("head", T, 2 + 6, slower(0.3)), flagged=[KEY], pairs=10))
    assert metrics[T].verdict == "regressed"
    assert found.status == "red"


def test_a_failed_base_is_missing() -> None:
    """A test that the base never passed has no comparison: it is not new and green."""
    found, metrics = judged(build(lambda s, t, n: None if s == "base" and t == T else jitter(s, t, n)))
    assert metrics[T].verdict == "missing"
    assert "0 of 4 processes of the base" in metrics[T].why
    assert found.status == "no_verdict"


def test_units_that_differ_are_incomparable() -> None:
    """Seconds on one side and milliseconds on the other are not compared."""
    found, metrics = judged(build(steady, unit=lambda side: "ms" if side == "head" else "s"))
    assert metrics[T].verdict == "incomparable"
    assert found.status == "no_verdict"


def test_an_interrupted_comparison_is_not_green() -> None:
    """What has not ended has no verdict, before the screen's end and after it."""
    for flagged, pairs in ((None, 0), ([KEY], 2)):
        found, metrics = judged(build(slower(0.05), flagged=flagged, pairs=pairs, ended=False))
        assert metrics[T].verdict in ("missing", "inconclusive")
        assert found.status == "no_verdict"
        assert "harness resume" in found.headline


def test_a_control_that_fails_in_the_base_is_not_green() -> None:
    """The base's values count only beside a control that held there."""
    run = build(steady)
    assert run.pairs is not None
    assert run.pairs.base is not None
    records = tuple(r for r in run.pairs.base.records if (r.test, r.repeat) != (CONTROL, 2))
    base = dataclasses.replace(run.pairs.base, records=records)
    found, _ = judged(dataclasses.replace(run, pairs=dataclasses.replace(run.pairs, base=base)))
    assert found.status == "no_verdict"
    assert "did not hold in 1 of 4 processes of the base" in found.headline


def test_dropped_processes_do_not_count() -> None:
    """The lonely side of an interrupted pair enters nothing, but its seconds were spent."""
    run = build(slower(0.2), flagged=[KEY], pairs=4)
    assert run.pairs is not None
    extra = Process("base", 99, 1, (CONTROL, T), 0, 7.0, "", dropped=True)
    more = dataclasses.replace(run.pairs, processes=(*run.pairs.processes, extra))
    assert judged(dataclasses.replace(run, pairs=more))[1] == judged(run)[1]
    assert more.seconds() == run.pairs.seconds() + 7.0


def test_no_metric_at_all_is_not_green() -> None:
    """A comparison in which nothing gave a judged value leaves no verdict."""
    found, _ = judged(build(steady, tests=(CONTROL,)))
    assert found.status == "no_verdict"
    assert "nothing was compared" in found.headline


@given(st.lists(st.booleans(), min_size=8, max_size=8), st.booleans(), st.integers(0, 2**31))
def test_pairs_survive_json(drops: list[bool], ended: bool, seed: int) -> None:
    """A plan read back from its JSON form is the same."""
    run = build(steady, flagged=[KEY], pairs=1, ended=ended)
    assert run.pairs is not None
    processes = tuple(
        dataclasses.replace(p, dropped=d) for p, d in zip(run.pairs.processes, drops, strict=True)
    )
    pairs = dataclasses.replace(run.pairs, processes=processes, seed=seed)
    assert pairs_from_json(pairs_to_json(pairs)) == pairs
