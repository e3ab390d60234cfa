"""What is said of each metric of a run beside its baseline, and what it leaves of the run's verdict."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import CONTROL, TODAY, case, make_record, make_run
from harness.judge import judge
from harness.judge_metrics import collect, judge_metrics
from harness.policy import Rule, key_of
from harness.records import Metric, Run
from harness.verdicts import METRIC_VERDICTS, Baseline, BaselineMetric, MetricVerdict

TEST = case("a")
RULES = (
    Rule("step_s", True, 0.03, True, ("median", "first")),
    Rule("aside_s", True, 0.03, False, ("median",)),
    Rule("*_rate", False, 0.03, True, ("median",)),
    Rule("*_s", True, 0.05, True, ("median",)),
)
CALM = (1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 1.001, 0.999)
MACHINE = {"processor": "a processor", "cpu_usable": 2}


def row(name: str, values: Iterable[float] = CALM, unit: str = "s", statistic: str = "median") -> Any:
    """One row of a baseline, by its key."""
    key = key_of(TEST, name, statistic)
    return {key: BaselineMetric(unit, tuple(values), (TEST, name, statistic))}


def baseline(*rows: Mapping[str, BaselineMetric], **changes: Any) -> Baseline:
    """A baseline of these rows, measured on the builders' machine."""
    metrics = {key: metric for one in rows for key, metric in one.items()}
    values: dict[str, Any] = {"measured": (MACHINE,), "provenance": ({"run": "r"},)}
    return Baseline({}, {TEST: "passed", CONTROL: "passed"}, metrics, reason="first", **{**values, **changes})


def metric(name: str, *samples: float, unit: str = "s", **more: Any) -> Metric:
    """Samples of one process."""
    return Metric(name, unit, samples, **more)


def run_of(processes: Iterable[Iterable[Metric]], repeats: int | None = None, **header: Any) -> Run:
    """A run of one repeated test, whose K-th process kept the K-th metrics."""
    kept = [tuple(p) for p in processes]
    records = [make_record(TEST, metrics=metrics, repeat=n) for n, metrics in enumerate(kept, 1)]
    return make_run(records, repeats=repeats or len(kept), **header)


def times(values: Iterable[float], name: str = "load_s", **more: Any) -> Run:
    """A run whose processes gave one sample each of one metric."""
    return run_of([[metric(name, v, **more)] for v in values])


def verdicts(run: Run, base: Baseline | None) -> dict[str, MetricVerdict]:
    """What is said of each row, by `metric` or `metric@statistic`."""
    found = judge_metrics(run, base, RULES)
    named = {key_of("", m.metric, m.statistic)[2:]: m for m in found}
    assert len(named) == len(found)
    assert {m.verdict for m in found} <= set(METRIC_VERDICTS)
    return named


def one(run: Run, base: Baseline | None, key: str = "load_s") -> MetricVerdict:
    """What is said of one row."""
    return verdicts(run, base)[key]


@pytest.mark.parametrize(
    ("values", "verdict", "status"),
    [
        ((1.0, 1.001, 0.999), "equivalent", "green"),
        ((1.2, 1.201, 1.199), "regressed", "red"),
        ((0.8, 0.801, 0.799), "improved", "green"),
        ((1.0, 1.3, 0.8), "inconclusive", "no_verdict"),
        ((1.2, 1.2), "inconclusive", "no_verdict"),
        ((1.2,), "inconclusive", "no_verdict"),
    ],
)
def test_a_verdict_and_what_the_gate_makes_of_it(
    values: tuple[float, ...], verdict: str, status: str
) -> None:
    """Each verdict of the statistics reaches its row, and decides the run as it must."""
    run, base = times(values), baseline(row("load_s"))
    found = one(run, base)
    assert found.verdict == verdict
    assert found.gate
    assert found.processes == len(values)
    assert found.baseline_processes == len(CALM)
    assert judge(run, base, today=TODAY, rules=RULES).status == status


def test_a_row_says_what_it_rests_on() -> None:
    """Numbers of a judged row are those of its own processes and of its rule."""
    found = one(times([1.2, 1.21, 1.19]), baseline(row("load_s")))
    assert (found.median, found.baseline_median, found.minimum) == (1.2, 1.0, 0.05)
    assert found.ratio == pytest.approx(1.2)
    assert found.change == pytest.approx(0.2, abs=0.002)
    assert found.low is not None
    assert found.high is not None
    assert 0.1 < found.low < 0.2 < found.high < 0.3
    assert found.p is not None
    assert found.p < 0.05
    assert found.detectable is not None
    assert found.detectable > 0.05
    assert found.why.startswith("worse by more than 0.05")


def test_direction_comes_from_the_rule() -> None:
    """The same samples are regressed as a time, and improved as a rate."""
    base = baseline(row("load_s"), row("load_rate", unit="1/s"))
    both = [[metric("load_s", v), metric("load_rate", v, unit="1/s")] for v in (1.2, 1.201, 1.199)]
    found = verdicts(run_of(both), base)
    assert {k: m.verdict for k, m in found.items()} == {"load_s": "regressed", "load_rate": "improved"}


def test_outside_the_gate_nothing_is_red() -> None:
    """A row outside the gate is judged and shown, and neither fails the run nor keeps it from green."""
    for values, verdict in (((1.2, 1.201, 1.199), "regressed"), ((1.0, 1.3, 0.8), "inconclusive")):
        run, base = times(values, "aside_s"), baseline(row("aside_s"))
        found = one(run, base, "aside_s")
        assert (found.verdict, found.gate, found.p) == (verdict, False, None)
        assert not found.red
        assert not found.unsettled
        assert judge(run, base, today=TODAY, rules=RULES).status == "green"


def test_a_row_that_is_not_there_is_missing() -> None:
    """What the baseline has of a planned test, and the run did not give, is missing; of any other test it is not."""
    base = baseline(row("load_s"), row("save_s"))
    found = verdicts(times([1.0, 1.001, 0.999]), base)
    assert (found["load_s"].verdict, found["save_s"].verdict) == ("equivalent", "missing")
    assert found["save_s"].unsettled
    assert found["save_s"].median is None
    run = times([1.0, 1.001, 0.999])
    assert judge(run, base, today=TODAY, rules=RULES).status == "no_verdict"
    unplanned = dataclasses.replace(run, header=dataclasses.replace(run.header, planned=()))
    assert "save_s" not in verdicts(unplanned, base)


def test_a_statistic_that_is_not_there_is_missing() -> None:
    """Rows are told apart by statistic; one that no rule asks for any more is not missed."""
    base = baseline(row("step_s"), row("step_s", statistic="first"), row("step_s", statistic="p95"))
    run = run_of([metric("step_s", *(1.2, 1.0, 1.0), warmup=1)] for _ in range(3))
    found = verdicts(run, base)
    assert {k: m.verdict for k, m in found.items()} == {"step_s": "equivalent", "step_s@first": "regressed"}


def test_too_few_processes_are_missing() -> None:
    """Where a process of the run gave no value, the row is missing and says how many gave one."""
    run = run_of([[metric("load_s", 1.0)], [metric("load_s", 1.0)], []])
    found = one(run, baseline(row("load_s")))
    assert found.verdict == "missing"
    assert found.unsettled
    assert "2 processes, 3 were to" in found.why
    late = run_of([[metric("load_s", v)] for v in (1.0, 1.001, 0.999)], repeats=4)
    assert one(late, baseline(row("load_s"))).verdict == "missing"
    new = one(run, baseline())
    assert (new.verdict, new.unsettled) == ("missing", True), "not new: a process gave nothing"


def test_a_value_more_does_not_hide_a_process_without() -> None:
    """Processes are counted, not values: one that gave two leaves another's loss to be seen."""
    run = run_of([[metric("load_s", 1.0), metric("load_s", 1.001)], [metric("load_s", 1.0)], []])
    assert one(run, baseline(row("load_s"))).verdict == "missing"
    twice = run_of([[metric("load_s", 1.0), metric("load_s", 1.001)], *[[metric("load_s", 1.0)]] * 2])
    assert one(twice, baseline(row("load_s"))).verdict == "missing", "four values are not of three processes"


def test_times_of_an_unknown_machine_are_incomparable() -> None:
    """A baseline that does not say where its times were taken is compared with none."""
    run = run_of([metric("load_s", 1.0)] for _ in range(3))
    unknown = dataclasses.replace(baseline(row("load_s")), measured=())
    assert one(run, unknown).verdict == "incomparable"


@pytest.mark.parametrize("outcome", ["failed", "error", "skipped"])
def test_what_did_not_pass_gives_no_value(outcome: str) -> None:
    """Samples of a test that did not pass are of something else: they do not count."""
    run = times([1.0, 1.001, 0.999, 5.0])
    records = [*run.records[:3], dataclasses.replace(run.records[3], outcome=outcome)]  # type: ignore[arg-type]
    found = one(dataclasses.replace(run, records=tuple(records)), baseline(row("load_s")))
    assert (found.verdict, found.processes, found.median) == ("missing", 3, 1.0)


def test_a_changed_unit_is_incomparable() -> None:
    """Another unit than the baseline's, or two within a run, are never compared, and both are named."""
    base = baseline(row("load_s"))
    changed = one(times([1000.0, 1001.0, 999.0], unit="ms"), base)
    mixed = one(
        run_of([[metric("load_s", 1.0)], [metric("load_s", 1.0)], [metric("load_s", 1.0, unit="ms")]]), base
    )
    for found in (changed, mixed):
        assert found.verdict == "incomparable"
        assert found.unsettled
        assert "ms" in found.why
        assert found.ratio is None
        assert found.change is None


@pytest.mark.parametrize(
    ("name", "value"), [("processor", "another"), ("cpu_usable", 4), ("cpu_usable", None)]
)
def test_another_machine_is_incomparable(name: str, value: Any) -> None:
    """Times of another processor, or of other numbers of them, are never compared, and the difference is named."""
    run = run_of([[metric("load_s", v)] for v in (1.0, 1.001, 0.999)], machine={**MACHINE, name: value})
    found = one(run, baseline(row("load_s")))
    assert found.verdict == "incomparable"
    assert name in found.why
    assert judge(run, baseline(row("load_s")), today=TODAY, rules=RULES).status == "no_verdict"
    # One of the baseline's runs is enough.
    two = baseline(row("load_s"), measured=(MACHINE, {**MACHINE, "processor": "third"}))
    assert one(times([1.0, 1.001, 0.999]), two).verdict == "incomparable"


def test_without_a_baseline_a_row_is_new() -> None:
    """What no baseline knows is new, with its median, and keeps nobody from green."""
    run = times([1.0, 1.2, 1.1])
    for base in (None, baseline()):
        found = one(run, base)
        assert (found.verdict, found.median, found.baseline_median) == ("new", 1.1, None)
        assert not found.red
        assert not found.unsettled


def test_what_no_rule_names_is_shown() -> None:
    """A metric without a rule, or of a test that is not repeated, is shown, whatever the baseline has of it."""
    base = baseline(row("odd"), row("load_s"))
    assert one(times([9.0, 9.0, 9.0], "odd"), base, "odd").verdict == "shown"
    single = make_run([make_record(TEST, metrics=(metric("load_s", 9.0),))])
    found = one(single, base)
    assert (found.verdict, found.gate) == ("shown", False)
    assert judge(single, base, today=TODAY, rules=RULES).status == "green"


def test_samples_that_are_not_finite_are_told() -> None:
    """Where no process gave a finite number the row is missing; one such process is told and never enters."""
    base = baseline(row("load_s"))
    none = one(run_of([[metric("load_s", 1.0, math.nan)]] * 3), base)
    assert (none.verdict, none.median, none.unsettled) == ("missing", None, True)
    assert "1 of 2 samples not finite" in none.why
    some = one(run_of([[metric("load_s", v)] for v in (1.0, 1.0, math.inf)]), base)
    assert (some.verdict, some.processes, some.unsettled) == ("missing", 2, True)
    assert "not finite" in some.why
    empty = one(run_of([[metric("load_s")]] * 3), base)
    assert empty.verdict == "missing"
    assert "too few samples" in empty.why


def test_values_without_a_ratio_are_inconclusive() -> None:
    """A zero or a negative value is no answer, on either side, and never green."""
    for values, base in (((0.0, 0.0, 0.0), CALM), ((1.0, -1.0, 1.0), CALM), ((1.0, 1.0, 1.0), (0.0,) * 8)):
        found = one(times(values), baseline(row("load_s", base)))
        assert (found.verdict, found.unsettled) == ("inconclusive", True)
        assert "positive" in found.why
        assert found.change is None


def test_a_thin_baseline_is_inconclusive() -> None:
    """A baseline of fewer than three processes says nothing, and asks for more."""
    found = one(times([1.0, 1.0, 1.0]), baseline(row("load_s", (1.0, 1.0))))
    assert (found.verdict, found.unsettled) == ("inconclusive", True)
    assert "base" in found.why


def test_a_trend_is_told() -> None:
    """Samples that still rise after warm-up are told with how many processes and by how much; steady ones are not."""
    rising = tuple(1 + 0.01 * n for n in range(20))
    run = run_of([[metric("load_s", 9.0, *rising, warmup=1)], [metric("load_s", *[1.0] * 20)]])
    for base in (None, baseline(row("load_s"))):
        assert "trend after warm-up in 1 of 2 processes, by +17" in one(run, base).why
    steady = run_of([[metric("load_s", *[3.0] * 10, *[1.0] * 20, warmup=10)]] * 2)
    assert "trend" not in one(steady, None).why
    memory = run_of([[metric("load_rate", *rising, unit="1/s")]] * 2)
    assert "trend" not in one(memory, None, "load_rate").why


def test_a_process_enters_with_one_number() -> None:
    """A process counts once, with the median after its warm-up, however many samples it took."""
    run = run_of(
        [
            [metric("load_s", 90.0, 1.0, 2.0, 3.0, warmup=1)],
            [metric("load_s", *[4.0] * 100)],
            [metric("load_s", 6.0)],
        ]
    )
    taken = collect(run, RULES)[key_of(TEST, "load_s", "median")]
    assert (taken.values, taken.samples) == ([2.0, 4.0, 6.0], 105)
    found = one(run, None)
    assert (found.median, found.processes, found.samples) == (4.0, 3, 105)


def test_work_is_kept() -> None:
    """What a sample did reaches its row, judged or not, so that rates can be computed from it."""
    run = times([1.0, 1.001, 0.999], work={"samples": 4.0})
    for base in (None, baseline(row("load_s"))):
        assert one(run, base).work == {"samples": 4.0}
    assert one(times([1.0], "odd", work={"flop": 2.0}), None, "odd").work == {"flop": 2.0}


def test_growth_is_a_ratio() -> None:
    """The row of a growth has no unit of time or memory, so that it is compared with ratios alone."""
    rules = (Rule("held_bytes", True, 0.02, True, ("growth",)),)
    run = run_of([[metric("held_bytes", *[1.0] * 3, *[2.0] * 3, unit="bytes")]] * 3)
    (found,) = judge_metrics(run, None, rules)
    assert (found.unit, found.statistic, found.median) == ("ratio", "growth", 2.0)


def test_rows_are_one_family() -> None:
    """The more rows there are in the gate, the more it takes: p is corrected over all of them."""
    names = [f"m{n}_s" for n in range(20)]
    several = run_of([metric(n, v) for n in names] for v in (1.077, 1.083, 1.08))
    noisy = (1.0, 1.02, 0.98, 1.01, 0.99, 1.0, 1.015, 0.985)
    base = baseline(*(row(n, noisy) for n in names))
    alone = one(times((1.077, 1.083, 1.08), "m0_s"), baseline(row("m0_s", noisy)), "m0_s")
    together = one(several, base, "m0_s")
    assert together.p is not None
    assert alone.p is not None
    assert together.q == pytest.approx(together.p / 20)
    assert together.detectable > alone.detectable / 2  # type: ignore[operator]


@given(st.permutations(range(6)), st.lists(st.sampled_from([0.99, 1.0, 1.01, 1.2]), min_size=6, max_size=6))
def test_the_order_of_records_changes_no_verdict(order: list[int], values: list[float]) -> None:
    """Whichever process left its record first, the same is said of every row."""
    run = run_of([metric("load_s", v), metric("save_s", 2 * v)] for v in values)
    mixed = dataclasses.replace(run, records=tuple(run.records[n] for n in order))
    base = baseline(row("load_s"), row("save_s", [2 * v for v in CALM]))
    there, here = verdicts(run, base), verdicts(mixed, base)
    assert {k: (m.verdict, m.median, m.ratio) for k, m in there.items()} == {
        k: (m.verdict, m.median, m.ratio) for k, m in here.items()
    }
