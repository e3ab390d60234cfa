"""What the judge promises: an exit status that is green only for what was seen to be right."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import CONTROL, TODAY, case, make_issue, make_record, make_run
from harness.judge import judge
from harness.policy import Rule
from harness.records import Metric, Record, Run, Selection
from harness.verdicts import GREEN, RED, VERDICTS, Baseline, BaselineMetric, Judgement, TestVerdict

A, B = case("a"), case("b")
ISSUE_A = make_issue(tests=(A,))


def make_baseline(tests: dict[str, str], **changes: Any) -> Baseline:
    """An accepted baseline that also has the positive control."""
    values: dict[str, Any] = {"key": {}, "metrics": {}, "provenance": (), "reason": "first good run"}
    return Baseline(**{**values, "tests": {CONTROL: "passed", **tests}, **changes})


def verdict_of(run: Run, test: str = A, baseline: Baseline | None = None) -> TestVerdict:
    """What the judge says of one test."""
    found = judge(run, baseline, today=TODAY)
    return next(t for t in found.tests if t.test == test)


def one(
    outcome: str, base: str | None = None, issues: tuple[Any, ...] = (), **record: Any
) -> tuple[str, Judgement]:
    """Verdict and judgement of a run whose one test, A, ended so; `base` is what the baseline has of it."""
    run = make_run([make_record(A, outcome, **record)], known_issues=issues)
    judgement = judge(run, make_baseline({} if base is None else {A: base}), today=TODAY)
    return next(t.verdict for t in judgement.tests if t.test == A), judgement


@pytest.mark.parametrize(
    ("outcome", "base", "verdict", "status"),
    [
        ("passed", "passed", "same", "green"),
        ("passed", "failed", "fixed", "green"),
        ("passed", "skipped", "new", "green"),
        ("passed", None, "new", "green"),
        ("failed", "passed", "newly_failing", "red"),
        ("failed", "failed", "failing", "red"),
        ("failed", "skipped", "failing", "red"),
        ("failed", None, "failing", "red"),
        ("error", "passed", "error", "no_verdict"),
        ("error", "failed", "error", "no_verdict"),
        ("skipped", "passed", "skip_unaccepted", "no_verdict"),
    ],
)
def test_outcome_against_baseline(outcome: str, base: str | None, verdict: str, status: str) -> None:
    """The verdict of a test follows from its outcome and the baseline's, and the run's from it."""
    found, judgement = one(outcome, base)
    assert (found, judgement.status) == (verdict, status)


@pytest.mark.parametrize("base", [None, "passed", "failed"])
def test_known_issue_covers_a_failure(base: str | None) -> None:
    """A failure that a valid known issue names is `known`, whatever the baseline says, and green."""
    verdict, judgement = one("failed", base, (ISSUE_A,))
    assert (verdict, judgement.status) == ("known", "green")


def test_known_issue_past_its_day() -> None:
    """A known issue whose last day is over fails the run and says which entry."""
    issue = dataclasses.replace(ISSUE_A, last_day="2027-01-14")
    verdict, judgement = one("failed", "failed", (issue,))
    assert (verdict, judgement.status) == ("known_expired", "red")
    assert "decoder-threads" in judgement.needs_person[0].why
    assert one("failed", None, (dataclasses.replace(ISSUE_A, last_day=TODAY.isoformat()),))[0] == "known"


def test_known_issue_that_passes() -> None:
    """A pass under a known issue fails the run until the entry is removed."""
    verdict, judgement = one("passed", "failed", (ISSUE_A,))
    assert (verdict, judgement.status) == ("known_fixed", "red")
    assert "remove the entry 'decoder-threads'" in judgement.needs_person[0].why


def test_known_issue_of_another_kind() -> None:
    """A failure of a kind that the entry does not list is not covered by it."""
    issue = dataclasses.replace(ISSUE_A, kinds=("hang", "exception"))
    assert one("failed", "passed", (issue,), kind="exception")[0] == "known"
    assert one("failed", "passed", (issue,), kind="wrong_frame")[0] == "newly_failing"


def test_several_known_issues_for_one_test() -> None:
    """Of several entries for a test, one that covers the kind and still holds counts, in any order."""
    other = dataclasses.replace(ISSUE_A, id="other", kinds=("hang",))
    over = dataclasses.replace(ISSUE_A, id="over", last_day="2026-01-01")
    for issues in ((other, over, ISSUE_A), (ISSUE_A, over, other)):
        verdict, judgement = one("failed", None, issues)
        assert verdict == "known"
        assert next(t.issue for t in judgement.tests if t.test == A) == ISSUE_A


@pytest.mark.parametrize(
    "limit", [{"runners": ("rocm",)}, {"targets": ("reference",)}, {"unless_patches": ("decoder-fix",)}]
)
def test_known_issue_that_does_not_hold_here(limit: dict[str, tuple[str, ...]]) -> None:
    """An entry for another runner or target, or undone by a patch in force, covers nothing."""
    issue = dataclasses.replace(ISSUE_A, **limit)
    run = make_run([make_record(A, "failed")], known_issues=(issue,), target={"patches": ("decoder-fix",)})
    assert verdict_of(run).verdict == "failing"
    passing = make_run([make_record(A)], known_issues=(issue,), target={"patches": ("decoder-fix",)})
    assert verdict_of(passing).verdict == "new"


@pytest.mark.parametrize(
    ("outcome", "kind"), [("error", "harness"), ("error", "crash"), ("failed", "harness")]
)
def test_error_is_never_a_verdict(outcome: str, kind: str) -> None:
    """What broke in the harness is neither a failure of the target nor covered by a known issue."""
    verdict, judgement = one(outcome, "passed", (ISSUE_A,), kind=kind)
    assert (verdict, judgement.exit_status) == ("error", 3)


def test_known_issue_is_off_while_a_defect_is_planted() -> None:
    """Known issues speak of the target as it is, so a planted defect is seen; the headline names it."""
    run = make_run([make_record(A, "failed")], known_issues=(ISSUE_A,), defect="drop-last")
    judgement = judge(run, None, today=TODAY)
    assert judgement.status == "red"
    assert "defect drop-last planted" in judgement.headline.lower()


@pytest.mark.parametrize(
    ("reason", "last_day", "accepted"),
    [
        ("no device", "2027-01-15", True),
        ("no device", "2027-01-14", False),
        ("no device", None, False),
        ("no device", "soon", False),
        (None, "2027-03-31", False),
        ("  ", "2027-03-31", False),
    ],
)
def test_skips(reason: str | None, last_day: str | None, accepted: bool) -> None:
    """A skip is accepted with a reason and a day that still holds, and is never counted as passed."""
    verdict, judgement = one("skipped", None, reason=reason, last_day=last_day)
    assert verdict == ("skipped" if accepted else "skip_unaccepted")
    assert judgement.status == ("green" if accepted else "no_verdict")
    assert "1 passed" in judgement.headline  # the control alone


def test_skip_without_a_day_says_so() -> None:
    """A skip that gives no last day is told as that, not as one whose day is over."""
    run = make_run([make_record(A, "skipped", reason="no device")])
    assert verdict_of(run).why == "no device (last day: none)"


def test_lost() -> None:
    """What was planned and left no record is lost, never green; it is said if it was running."""
    run = make_run([make_record(A)], planned=[A, B])
    assert verdict_of(run, B).verdict == "lost"
    assert judge(run, None, today=TODAY).exit_status == 3
    running = make_run([make_record(A)], planned=[A, B], running=(B,))
    assert "running when its process ended" in verdict_of(running, B).why


def test_missing() -> None:
    """What the baseline has and a whole run did not plan is missing; a partial run may leave it out."""
    baseline = make_baseline({A: "passed", B: "passed"})
    run = make_run([make_record(A)])
    judgement = judge(run, baseline, today=TODAY)
    assert [(t.test, t.verdict) for t in judgement.needs_person] == [(B, "missing")]
    assert judgement.exit_status == 3
    partial = make_run([make_record(A)], selection=Selection(("decoder",), keyword="a and not b"))
    judgement = judge(partial, baseline, today=TODAY)
    assert judgement.exit_status == 0
    assert "partial: only -k 'a and not b'" in judgement.headline


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"collected": False}, "before the tests were collected"),
        ({"finished": None}, "did not end by itself"),
    ],
)
def test_unfinished(header: dict[str, Any], words: str) -> None:
    """A run that did not collect or did not end has no verdict, although all its records passed."""
    judgement = judge(make_run([make_record(A)], **header), None, today=TODAY)
    assert judgement.exit_status == 3
    assert words in judgement.headline


def test_nothing_planned() -> None:
    """A run that selected no test has no verdict."""
    judgement = judge(make_run([], control=False), None, today=TODAY)
    assert judgement.exit_status == 3
    assert "nothing ran: no test was selected" in judgement.headline


def test_nothing_recorded() -> None:
    """A run that planned tests and recorded none has no verdict."""
    judgement = judge(make_run([], planned=[A], control=False), None, today=TODAY)
    assert judgement.exit_status == 3
    assert "nothing ran" in judgement.headline


def test_damaged_run_folder() -> None:
    """Files that could not be read may have held failures: no verdict."""
    run = make_run([make_record(A)], problems=("records-gw0.jsonl: line 3: unreadable, skipped",))
    judgement = judge(run, None, today=TODAY)
    assert judgement.exit_status == 3
    assert "records-gw0.jsonl" in judgement.headline


def test_incomparable() -> None:
    """A run that no accepted baseline may be compared with has no verdict and names what differs."""
    differs = {"device architecture": ("gfx942", "gfx950")}
    judgement = judge(make_run([make_record(A)]), None, today=TODAY, incomparable=differs)
    assert judgement.exit_status == 3
    assert "device architecture (gfx942 here, gfx950 there)" in judgement.headline


def test_suite_without_control() -> None:
    """A suite in which no positive control ran is inconclusive."""
    judgement = judge(make_run([make_record(A)], control=False), None, today=TODAY)
    assert judgement.exit_status == 3
    assert judgement.suites[0].inconclusive is not None


@pytest.mark.parametrize("outcome", ["failed", "error", "skipped"])
@pytest.mark.parametrize("marked", [True, False])
def test_control_that_does_not_hold(outcome: str, marked: bool) -> None:
    """A control that did not pass makes its suite inconclusive; no known issue covers it."""
    control = make_record(CONTROL, outcome, control=marked, last_day="2027-03-31", reason="why")
    run = make_run(
        [make_record(A), control],
        control=False,
        controls=(CONTROL,),
        known_issues=(make_issue(tests=(CONTROL,)),),
    )
    judgement = judge(run, None, today=TODAY)
    assert judgement.exit_status == 3
    assert judgement.suites[0].inconclusive is not None
    expected = {"failed": "control_failed", "error": "error", "skipped": "skipped"}[outcome]
    assert verdict_of(run, CONTROL).verdict == expected


def test_lost_control() -> None:
    """A control that left no record makes its suite inconclusive."""
    run = make_run([make_record(A)], planned=[A, CONTROL], control=False, controls=(CONTROL,))
    judgement = judge(run, None, today=TODAY)
    assert judgement.exit_status == 3
    assert judgement.suites[0].inconclusive is not None


def test_each_suite_needs_its_own_control() -> None:
    """The control of one suite says nothing of another."""
    run = make_run([make_record(A), make_record(case("a", "failfast"))])
    suites = {s.suite: s.inconclusive for s in judge(run, None, today=TODAY).suites}
    assert suites["decoder"] is None
    assert suites["failfast"] is not None


def test_red_wins_and_says_both() -> None:
    """A failure in a run that also lost tests and did not end is red, and the headline tells of all."""
    run = make_run([make_record(A, "failed")], planned=[A, B], finished=None)
    judgement = judge(run, None, today=TODAY)
    assert "did not end by itself" in judgement.headline
    assert judgement.exit_status == 1
    assert "1 failing" in judgement.headline
    assert "1 lost" in judgement.headline


def test_emulated_is_the_first_word() -> None:
    """An emulated run says so before anything else."""
    judgement = judge(make_run([make_record(A)], runner={"emulated": True}), None, today=TODAY)
    assert judgement.headline.startswith("EMULATED")


def test_worst_first() -> None:
    """What needs a person is ordered: new failures, then failures, then what was lost."""
    c, d = case("c"), case("d")
    run = make_run([make_record(B, "failed"), make_record(c, "failed"), make_record(d)], planned=[A, B, c, d])
    judgement = judge(run, make_baseline({B: "failed", c: "passed"}), today=TODAY)
    assert [(t.test, t.verdict) for t in judgement.needs_person] == [
        (c, "newly_failing"),
        (B, "failing"),
        (A, "lost"),
    ]


def test_worst_record_of_a_test_counts() -> None:
    """A test that failed once and passed once failed."""
    run = make_run([make_record(A, "failed"), make_record(A)])
    assert verdict_of(run).verdict == "failing"


def test_no_record_hides_a_worse_one() -> None:
    """Of several records that ended alike the worst verdict counts, in any order."""
    known = make_record(A, "failed", kind="hang")
    unknown = make_record(A, "failed", kind="wrong_frame")
    issues = (dataclasses.replace(ISSUE_A, kinds=("hang",)),)
    skips = [make_record(B, "skipped", reason="why", last_day=day) for day in (None, "2027-03-31")]
    crashed = make_run([known, make_record(A, "error")], known_issues=issues)
    assert verdict_of(crashed).verdict == "error"
    flaky = make_run([known, make_record(A)], known_issues=issues)
    assert verdict_of(flaky).verdict == "known"
    for records in ([known, unknown, *skips], [unknown, known, *reversed(skips)]):
        run = make_run(records, known_issues=issues)
        assert verdict_of(run, A).verdict == "failing"
        assert verdict_of(run, B).verdict == "skip_unaccepted"


def test_no_baseline_note() -> None:
    """Without a baseline the report says how to accept one."""
    notes = judge(make_run([make_record(A)]), None, today=TODAY).notes
    assert any("harness baseline accept RUN --reason TEXT" in n for n in notes)


def test_what_may_differ_is_a_note() -> None:
    """Software, target commit, patches and host that differ from any of the baseline's runs are notes only."""
    same = {"target_commit": "c68b65e" + "0" * 33, "patches": [], "host": "box", "processor": "a processor"}
    other = {"target_commit": "f" * 40, "patches": ["decoder-fix"], "host": "crate"}
    provenance = (
        {**other, "software": {"python": "3.11.9", "torch": "2.12.0", "decord": "0.6.0"}},
        {**same, "software": {"python": "3.11.9", "torch": "2.13.0", "decord": None}},
    )
    judgement = judge(
        make_run([make_record(A)]), make_baseline({A: "passed"}, provenance=provenance), today=TODAY
    )
    assert judgement.status == "green"
    text = "\n".join(judgement.notes)
    for words in (
        "target commit",
        "decoder-fix",
        "crate",
        "torch: 2.13.0, was 2.12.0",
        "decord: None, was 0.6.0",
    ):
        assert words in text
    assert "python" not in text
    assert "processor" not in text


RULES = (Rule("rate", lower_is_better=False, minimum=0.02, gate=True, statistics=("median",)),)


def _base(unit: str, values: tuple[float, ...]) -> BaselineMetric:
    return BaselineMetric(unit, values, (A, "rate", "median"))


def _metric(samples: tuple[float, ...], base: BaselineMetric | None) -> tuple[Any, Judgement]:
    run = make_run([make_record(A, metrics=(Metric("rate", "frames/s", samples),), repeat=1)])
    metrics = {} if base is None else {f"{A}::rate": base}
    baseline = make_baseline({A: "passed"}, metrics=metrics, measured=(run.header.machine,))
    judgement = judge(run, baseline, today=TODAY, rules=RULES)
    return judgement.metrics[0], judgement


def test_metric_ratio() -> None:
    """Of one process a metric shows its median, the baseline's and their ratio; it has no verdict, nor has the run."""
    found, judgement = _metric((1.0, 30.0, 3.0), _base("frames/s", (5.0, 6.0, 7.0)))
    assert (found.median, found.baseline_median, found.ratio) == (3.0, 6.0, 0.5)
    assert (found.verdict, judgement.status) == ("inconclusive", "no_verdict")


@pytest.mark.parametrize(
    ("samples", "base"),
    [
        ((), _base("frames/s", (5.0,))),
        ((1.0,), _base("frames/s", (0.0,))),
        ((1.0,), _base("frames/s", ())),
        ((1.0,), _base("s", (5.0,))),
        ((1e308,), _base("frames/s", (5e-324,))),
        ((1.0,), _base("frames/s", (float("nan"),))),
        ((1.0,), None),
    ],
)
def test_metric_without_ratio(samples: tuple[float, ...], base: BaselineMetric | None) -> None:
    """Where no ratio can be had it is unknown: no samples, a zero, another unit, too large, no baseline."""
    assert _metric(samples, base)[0].ratio is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_samples_that_are_not_finite_are_told(bad: float) -> None:
    """A sample that is no finite number leaves the median unknown, and the notes say so."""
    found, judgement = _metric((1.0, bad), _base("frames/s", (5.0,)))
    assert (found.median, found.ratio) == (None, None)
    assert any("1 of 2 samples not finite" in n for n in judgement.notes)


NAMES = [case(n) for n in "abcdef"]
ISSUES = st.builds(
    lambda number, tests, kinds, day: make_issue(id=str(number), tests=tests, kinds=kinds, last_day=day),
    st.integers(0, 99),
    st.lists(st.sampled_from([*NAMES, "*", "suites/decoder/*[a]"]), min_size=1, max_size=2).map(tuple),
    st.sampled_from([(), ("exception",), ("hang",)]),
    st.sampled_from(["2027-01-14", "2027-01-15"]),
)
RECORDS = st.builds(
    lambda test, outcome, day, kind: make_record(
        test,
        outcome,
        **({"reason": "why", "last_day": day} if outcome == "skipped" else {}),
        **({"kind": kind} if outcome == "failed" else {}),
    ),
    st.sampled_from(NAMES),
    st.sampled_from(["passed", "passed", "passed", "failed", "error", "skipped"]),
    st.sampled_from([None, "2027-01-14", "2027-01-15"]),
    st.sampled_from(["exception", "hang", "harness"]),
)
RUNS = st.builds(
    lambda records, planned, issues, control: make_run(
        records,
        planned=planned if planned is not None else sorted({r.test for r in records}),
        known_issues=tuple(issues),
        control=control,
    ),
    st.lists(RECORDS, max_size=6),
    st.none() | st.lists(st.sampled_from(NAMES), max_size=6),
    st.lists(ISSUES, max_size=2),
    st.sampled_from([True, True, True, False]),
)
BASELINES = st.none() | st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(["passed", "failed", "skipped"]), max_size=3
).map(make_baseline)


def _fine(records: list[Record], test: str, issues: tuple[Any, ...]) -> bool:
    """Independently of the judge: the worst records of this test passed, are accepted skips, or known today."""
    mine = [r for r in records if r.test == test]

    def named(record: Record) -> bool:
        return any(
            (test in i.tests or "*" in i.tests or (test == A and "suites/decoder/*[a]" in i.tests))
            and i.last_day >= "2027-01-15"
            and (not i.kinds or record.kind in i.kinds)
            for i in issues
        )

    def fine(r: Record) -> bool:
        if r.outcome == "skipped":
            return r.last_day == "2027-01-15"
        return r.outcome == "passed" or (r.outcome == "failed" and r.kind != "harness" and named(r))

    outcomes = {r.outcome for r in mine}
    worst = next((o for o in ("error", "failed", "skipped", "passed") if o in outcomes), None)
    return worst is not None and all(fine(r) for r in mine if r.outcome == worst)


@given(RUNS, BASELINES)
def test_green_only_when_all_planned_is_fine(run: Run, baseline: Baseline | None) -> None:
    """Green only if every planned test has a record that passed, is known or is an accepted skip."""
    judgement = judge(run, baseline, today=TODAY)
    if judgement.status == "green":
        assert run.header.planned
        for test in run.header.planned:
            assert _fine(list(run.records), test, run.header.known_issues)
        assert CONTROL in run.header.planned
        if baseline is not None:
            assert set(baseline.tests) <= set(run.header.planned) | {r.test for r in run.records}


@given(RUNS, BASELINES)
def test_status_and_verdicts_agree(run: Run, baseline: Baseline | None) -> None:
    """Exit status, status, headline and the tests' verdicts tell the same story; each test is judged once."""
    judgement = judge(run, baseline, today=TODAY)
    assert judgement.exit_status == {"green": 0, "red": 1, "no_verdict": 3}[judgement.status]
    assert (judgement.status == "red") == any(t.verdict in RED for t in judgement.tests)
    assert (judgement.status == "green") == (not judgement.needs_person and not judgement.reasons)
    assert {t.verdict for t in judgement.tests} <= set(VERDICTS)
    assert len({t.test for t in judgement.tests}) == len(judgement.tests)
    assert all(t.why for t in judgement.tests)
    assert set(run.header.planned or ()) <= {t.test for t in judgement.tests}
    word = {"green": "GREEN", "red": "RED", "no_verdict": "NO VERDICT"}[judgement.status]
    assert judgement.headline.startswith(f"{word}: ")


@given(RUNS, BASELINES, st.integers(0, 999))
def test_order_of_records_does_not_matter(run: Run, baseline: Baseline | None, seed: int) -> None:
    """Workers finish in any order: it changes no verdict."""
    records = list(run.records)
    shuffled = records[:]
    random.Random(seed).shuffle(shuffled)
    first, second = (
        judge(dataclasses.replace(run, records=tuple(r)), baseline, today=TODAY) for r in (records, shuffled)
    )
    assert first == second


@given(RUNS, BASELINES)
def test_a_lost_test_is_never_green(run: Run, baseline: Baseline | None) -> None:
    """One more planned test without a record, and no run is green."""
    planned = (*(run.header.planned or ()), case("lost"))
    run = dataclasses.replace(run, header=dataclasses.replace(run.header, planned=planned))
    assert judge(run, baseline, today=TODAY).exit_status in (1, 3)


def test_every_verdict_has_a_meaning() -> None:
    """Green, red and the rest are disjoint, and each has one line of meaning."""
    assert not GREEN & RED
    assert set(VERDICTS) >= GREEN | RED
    assert all(text and "\n" not in text for text in VERDICTS.values())
