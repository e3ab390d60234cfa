"""What baselines promise: only a run that was seen to be right is accepted, and it is found again as it was."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import CONTROL, TODAY, case, make_issue, make_record, make_run
from harness import baselines
from harness.errors import BaselineError
from harness.judge import judge
from harness.policy import Rule
from harness.records import Metric, Run, Selection
from harness.verdicts import Judgement

A, B = case("a"), case("b")
RULES = (
    Rule("rate", lower_is_better=False, minimum=0.02, gate=True, statistics=("median",)),
    Rule("m", lower_is_better=True, minimum=0.02, gate=True, statistics=("median",)),
)
REASON = "first good run of the decoder suite"


def judged(run: Run, folder: Path) -> tuple[Run, Judgement]:
    """A run with its judgement against the baselines of a folder."""
    baseline, incomparable = baselines.find(folder, run.header)
    return run, judge(run, baseline, today=TODAY, incomparable=incomparable)


def accept(folder: Path, *runs: Run, reason: str = REASON) -> list[Path]:
    """Accepts these runs."""
    return baselines.accept(folder, [judged(r, folder) for r in runs], reason, RULES)


def good(*tests: str, **header: Any) -> Run:
    """A run in which these tests passed."""
    return make_run([make_record(t) for t in tests or (A, B)], **header)


def test_accept_then_find(tmp_path: Path) -> None:
    """An accepted run is found by a comparable header, with its reason and where it came from."""
    metric = Metric("rate", "frames/s", (1.0, 3.0, 30.0))
    run = make_run([make_record(A, metrics=(metric,), repeat=1), make_record(B)])
    (path,) = accept(tmp_path, run)
    assert path == tmp_path / "cpu-x86_64-1" / "vitra.decoder.json"
    found, incomparable = baselines.find(tmp_path, run.header)
    assert found is not None
    assert incomparable is None
    assert found.key == run.header.comparability
    assert found.tests == {A: "passed", B: "passed", CONTROL: "passed"}
    rate = found.metrics[f"{A}::rate"]
    assert (rate.unit, rate.medians, rate.row) == ("frames/s", (3.0,), (A, "rate", "median"))
    assert found.reason == REASON
    (source,) = found.provenance
    assert source["run_id"] == run.header.run_id
    assert source["target_commit"] == run.header.target.commit
    assert source["harness_commit"] == run.header.harness_commit
    assert source["software"] == run.header.software
    assert source["host"] == "box"


def test_nothing_there(tmp_path: Path) -> None:
    """Without baselines, or without a folder for them, there is neither a baseline nor a difference."""
    assert baselines.find(tmp_path, good().header) == (None, None)
    assert baselines.find(tmp_path / "absent", good().header) == (None, None)


def test_nearest_difference(tmp_path: Path) -> None:
    """Where none is comparable, what differs from the nearest one of the same runner and target is named."""
    accept(tmp_path, good(runner={"device_arch": "arm64", "device_count": 4}, configuration={"seed": 2}))
    accept(tmp_path, good(runner={"device_arch": "arm64"}))
    found, incomparable = baselines.find(tmp_path, good().header)
    assert found is None
    assert incomparable == {"device architecture": ("x86_64", "arm64")}


@pytest.mark.parametrize("other", [{"runner": {"name": "rocm"}}, {"target": {"name": "reference"}}])
def test_other_runner_or_target(tmp_path: Path, other: dict[str, Any]) -> None:
    """Baselines of another runner or target are not this run's business."""
    accept(tmp_path, good(**other))
    assert baselines.find(tmp_path, good().header) == (None, None)


def test_suites_are_merged(tmp_path: Path) -> None:
    """A run of two suites gets both suites' baselines, reasons and sources; a run of one gets its own."""
    fail_a, control = case("a", "failfast"), "suites/failfast/test_frames.py::test_control"
    other = make_run(
        [make_record(fail_a), make_record(control, control=True)],
        control=False,
        controls=(control,),
        run_id="second",
        selection=Selection(("failfast",)),
    )
    accept(tmp_path, good())
    accept(tmp_path, other, reason="failfast was added")
    both, _ = baselines.find(tmp_path, good(selection=Selection(("decoder", "failfast"))).header)
    alone, _ = baselines.find(tmp_path, good().header)
    assert both is not None
    assert alone is not None
    assert set(both.tests) == {A, B, CONTROL, fail_a, control}
    assert {p["run_id"] for p in both.provenance} == {good().header.run_id, "second"}
    assert REASON in both.reason
    assert "failfast was added" in both.reason
    assert set(alone.tests) == {A, B, CONTROL}


def test_file_is_reviewable(tmp_path: Path) -> None:
    """One test a line, sorted, newline at the end: one test more is one line more, whatever the order."""
    (path,) = accept(tmp_path / "one", make_run([make_record(B), make_record(A)]))
    before = path.read_text()
    (path,) = accept(tmp_path / "two", make_run([make_record(A), make_record(B), make_record(case("c"))]))
    after = path.read_text()
    assert before.endswith("}\n")
    assert json.loads(before)["tests"] == {A: "passed", B: "passed", CONTROL: "passed"}
    new = [line for line in after.splitlines() if line not in before.splitlines()]
    assert len(new) <= 2  # the line before it may gain a comma
    assert any("[c]" in line for line in new)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_order_of_naming_does_not_matter(tmp_path: Path) -> None:
    """Several runs are accepted together in the order they started."""
    runs = [
        make_run([make_record(A, metrics=(Metric("rate", "1/s", (x,)),), repeat=1)],
                 run_id=f"run-{x}", started=f"2027-01-1{x:.0f}")
        for x in (1.0, 2.0)
    ]  # fmt: skip
    (one,) = accept(tmp_path / "one", *runs)
    (two,) = accept(tmp_path / "two", *reversed(runs))
    assert one.read_text() == two.read_text()
    found, _ = baselines.find(tmp_path / "one", runs[0].header)
    assert found is not None
    assert found.metrics[f"{A}::rate"].medians == (1.0, 2.0)
    assert len(found.provenance) == 2


def test_outcomes_of_several_runs(tmp_path: Path) -> None:
    """Of several runs a failure counts before a pass, and a pass before a skip."""
    issues = (make_issue(tests=(A,)),)
    skip = make_record(B, "skipped", reason="no device", last_day="2027-03-31")
    first = make_run([make_record(A, "failed"), skip], known_issues=issues, run_id="first")
    second = make_run([skip, make_record(B)], run_id="second")
    second = dataclasses.replace(second, records=tuple(r for r in second.records if r is not skip))
    accept(tmp_path, first, second)
    found, _ = baselines.find(tmp_path, first.header)
    assert found is not None
    assert (found.tests[A], found.tests[B]) == ("failed", "passed")


@pytest.mark.parametrize(
    "reason", ["", "   ", "x", "todo", "TBD", "too few", "placeholder", " Placeholder. "]
)
def test_reason_is_needed(tmp_path: Path, reason: str) -> None:
    """A reason that says nothing is refused, and nothing is written."""
    with pytest.raises(BaselineError, match="--reason"):
        accept(tmp_path, good(), reason=reason)
    assert not list(tmp_path.iterdir())


REFUSED: dict[str, tuple[Run, str]] = {
    "dirty target": (good(target={"dirty": True}), "dirty"),
    "target dirty or not unknown": (good(target={"dirty": None}), "dirty"),
    "dirty harness": (good(harness_dirty=True), "harness was dirty"),
    "harness dirty or not unknown": (good(harness_dirty=None), "harness"),
    "no target commit": (good(target={"commit": None}), "no commit"),
    "no harness commit": (good(harness_commit=None), "no harness commit"),
    "dirty reference": (good(target={"name": "reference", "commit": None, "dirty": True}), "dirty"),
    "emulated": (good(runner={"emulated": True}), "emulated"),
    "defect": (good(defect="drop-last"), "drop-last"),
    "partial": (good(selection=Selection(("decoder",), keyword="a")), "partial"),
    "failing": (make_run([make_record(A, "failed")]), "failing"),
    "error": (make_run([make_record(A, "error")]), "error"),
    "known and passing": (good(known_issues=(make_issue(),)), "known_fixed"),
    "known and over": (
        make_run([make_record(A, "failed")], known_issues=(make_issue(last_day="2027-01-01"),)),
        "known_expired",
    ),
    "skip without reason": (make_run([make_record(A, "skipped")]), "skip_unaccepted"),
    "lost": (make_run([make_record(A)], planned=[A, B]), "lost"),
    "unfinished": (good(finished=None), "did not end"),
    "not collected": (good(collected=False), "collected"),
    "no control": (make_run([make_record(A)], control=False), "control"),
    "control failed": (
        make_run([make_record(A), make_record(CONTROL, "failed", control=True)], control=False),
        "control_failed",
    ),
    "nothing planned": (make_run([], control=False), "nothing ran"),
    "damaged": (good(problems=("records-gw0.jsonl: line 1: unreadable",)), "records-gw0"),
    "damaged, in the words of what accepting settles": (good(problems=("x: 3 missing",)), "3 missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    """What was not seen whole, clean and right does not become a baseline; one line says what to do."""
    run, words = REFUSED[name]
    with pytest.raises(BaselineError) as caught:
        accept(tmp_path, run)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_newly_failing_is_refused(tmp_path: Path) -> None:
    """A regression cannot be accepted away."""
    accept(tmp_path, good())
    with pytest.raises(BaselineError, match="newly_failing"):
        accept(tmp_path, make_run([make_record(A, "failed"), make_record(B)]))


def test_reference_needs_no_commit_of_its_own(tmp_path: Path) -> None:
    """The reference target is part of the harness, whose commit counts."""
    assert accept(tmp_path, good(target={"name": "reference", "commit": None, "dirty": None}))


def test_accepting_settles_missing_and_incomparable(tmp_path: Path) -> None:
    """A run may differ from the old baseline: that is what accepting is for."""
    accept(tmp_path, good())
    fewer = good(A)
    assert judged(fewer, tmp_path)[1].status == "no_verdict"
    accept(tmp_path, fewer)
    assert judged(fewer, tmp_path)[1].status == "green"
    changed = good(A, configuration={"seed": 2})
    assert judged(changed, tmp_path)[1].status == "no_verdict"
    accept(tmp_path, changed)
    assert judged(changed, tmp_path)[1].status == "green"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"configuration": {"seed": 2}}, "configuration"),
        ({"runner": {"device_count": 2}}, "device count"),
        ({"target": {"commit": "f" * 40}}, "target commit"),
    ],
)
def test_runs_must_be_alike(tmp_path: Path, other: dict[str, Any], words: str) -> None:
    """Runs that may not be compared, or of different target commits, are not accepted together."""
    with pytest.raises(BaselineError, match=words):
        accept(tmp_path, good(), good(run_id="second", **other))


def test_no_run_and_the_same_run_twice(tmp_path: Path) -> None:
    """No run is no baseline, and a run named twice is one run."""
    with pytest.raises(BaselineError, match="no run"):
        accept(tmp_path)
    with pytest.raises(BaselineError, match="twice"):
        accept(tmp_path, good(), good())


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda t: t[:-20], "line "),
        (lambda t: t.replace('"tests": {', '"tests": {\n<<<<<<< HEAD'), "conflict markers"),
        (lambda t: t.replace('"schema": 1', '"schema": 99'), "schema 99"),
        (lambda t: t.replace('"tests"', '"test"'), "not a baseline"),
        (lambda t: t.replace('"passed"', '"fine"'), "'fine'"),
        (lambda t: "[]", "not a baseline"),
        (lambda t: "", "line 1"),
    ],
)
def test_damaged_file(tmp_path: Path, damage: Any, words: str) -> None:
    """A damaged file, conflict markers or another schema are named with the file, never read as empty."""
    (path,) = accept(tmp_path, good())
    path.write_text(damage(path.read_text()))
    for look in (lambda: baselines.find(tmp_path, good().header), lambda: baselines.listing(tmp_path)):
        with pytest.raises(BaselineError) as caught:
            look()
        assert words in str(caught.value)
        assert "vitra.decoder.json" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_conflict_marker_line(tmp_path: Path) -> None:
    """The line of a conflict marker is named."""
    (path,) = accept(tmp_path, good())
    path.write_text("{\n<<<<<<< HEAD\n" + path.read_text())
    with pytest.raises(BaselineError, match="line 2"):
        baselines.find(tmp_path, good().header)


def test_listing(tmp_path: Path) -> None:
    """The list has one line a file, with its reason; without files it says so."""
    assert "no baselines" in baselines.listing(tmp_path)[0]
    accept(tmp_path, good())
    (line,) = baselines.listing(tmp_path)
    assert "cpu-x86_64-1/vitra.decoder" in line
    assert REASON in line
    assert "3 tests" in line


IDS = st.text(min_size=1, max_size=8).map(lambda t: case(t.replace("/", "")))
SAMPLES = st.lists(st.floats(-1e12, 1e12), max_size=4).map(tuple)


@given(st.dictionaries(IDS, st.tuples(st.sampled_from(["passed", "known", "skipped"]), SAMPLES), max_size=6))
def test_accepted_run_judges_itself_the_same(plan: dict[str, tuple[str, tuple[float, ...]]]) -> None:
    """What was put is found again, and the accepted run judged against itself is green and unchanged."""
    known = tuple(t.replace("*", "?") for t, (how, _) in plan.items() if how == "known")
    passing = [t for t, (how, _) in plan.items() if how == "passed"]
    records = []
    for test, (how, samples) in plan.items():
        outcome = {"known": "failed"}.get(how, how)
        more: dict[str, Any] = {"reason": "no device", "last_day": "2027-03-31"} if how == "skipped" else {}
        records.append(make_record(test, outcome, metrics=(Metric("m", "s", samples),), repeat=1, **more))
    issues = (make_issue(tests=known),) if known else ()
    run = make_run(records, known_issues=issues)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        before = judged(run, folder)[1]
        if before.status != "green":  # a `?` in one id may stand for another test
            with pytest.raises(BaselineError):
                accept(folder, run)
            return
        accept(folder, run)
        found, incomparable = baselines.find(folder, run.header)
        after = judged(run, folder)[1]
    assert found is not None
    assert incomparable is None
    assert found.tests == {r.test: r.outcome for r in run.records}
    assert set(found.metrics) == {
        f"{t}::m" for t, (how, samples) in plan.items() if samples and how == "passed"
    }
    assert after.status == "green"
    assert {t.test: t.verdict for t in after.tests if t.test in passing} == dict.fromkeys(passing, "same")
    assert {t.verdict for t in after.tests} <= {"same", "known", "skipped"}
    assert all(m.ratio is None or m.ratio == pytest.approx(1, rel=1e-4) for m in after.metrics)


def test_a_suite_without_a_comparable_baseline_is_told(tmp_path: Path) -> None:
    """When one suite's baseline is comparable and another's is of other settings, the run has no verdict."""
    run = make_run(
        [
            make_record(case("a")),
            make_record(case("a", "failfast")),
            make_record("suites/failfast/test_x.py::test_control", control=True),
        ],
        selection=Selection(("decoder", "failfast")),
    )
    first = judge(run, None, today=TODAY)
    paths = baselines.accept(tmp_path, [(run, first)], "both suites on this machine")
    other = next(p for p in paths if "failfast" in p.name)
    digest = run.header.configuration_digest
    other.write_text(other.read_text().replace(digest, "0" * 12))
    baseline, incomparable = baselines.find(tmp_path, run.header)
    assert baseline is not None
    assert incomparable == {"configuration": (digest, "0" * 12)}
