"""What the JUnit form promises: read by junitparser, nothing that is not green is a pass, and every text arrives."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Properties, Skipped, TestCase, TestSuite

import forms_content
import runs
from builders import TODAY, case, make_record, make_run
from harness import ROOT
from harness.commands.report import judged
from harness.judge import judge
from harness.merged import Merged
from harness.merging import merge, one
from harness.report_parts.junit_cases import result_of
from harness.report_parts.parts import plain
from harness.reports import junit
from harness.verdicts import GREEN, RED, VERDICTS
from test_reports import ANY, nasty_run

RESULTS: dict[type[Any], str] = {Failure: "failure", Error: "error", Skipped: "skipped"}


def parsed(merged: Merged) -> JUnitXml:
    return JUnitXml.fromstring(junit.render(merged).encode())


def suites_of(xml: JUnitXml) -> list[TestSuite]:
    found = list(xml)
    assert all(isinstance(s, TestSuite) for s in found)
    return found


def cases_of(xml: JUnitXml) -> dict[tuple[str, str], TestCase]:
    """Test cases by group and name; no two may share both."""
    found = [c for s in suites_of(xml) for c in s]
    named = {(str(c.classname), str(c.name)): c for c in found}
    assert len(named) == len(found)
    return named


def result(c: TestCase) -> str:
    """How junitparser says that a case ended."""
    told = [RESULTS[type(r)] for r in c.result]
    assert len(told) <= 1
    assert c.is_passed == (not told)
    return told[0] if told else "passed"


def facts(c: TestCase | TestSuite) -> dict[str, str]:
    element = c.child(Properties)
    return {} if element is None else {str(p.name): str(p.value) for p in element}


def check_counts(xml: JUnitXml) -> None:
    """The counts that the file states are those of its cases, in each suite and in all."""
    whole: Counter[str] = Counter()
    for s in suites_of(xml):
        count = Counter(result(c) for c in s)
        assert (s.tests, s.failures, s.errors, s.skipped) == (
            len(list(s)),
            count["failure"],
            count["error"],
            count["skipped"],
        )
        whole += count
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == (
        sum(whole.values()),
        whole["failure"],
        whole["error"],
        whole["skipped"],
    )


def test_what_is_not_green_is_never_a_pass() -> None:
    """Of all verdicts those that are red fail, those without a verdict are errors, and only real passes pass."""
    xml = parsed(forms_content.every_single())
    check_counts(xml)
    found: dict[str, set[str]] = {}
    for c in cases_of(xml).values():
        if c.classname.startswith("suites."):
            found.setdefault(facts(c)["verdict"], set()).add(result(c))
    assert set(found) == set(VERDICTS)
    for verdict, results in found.items():
        if verdict in RED:
            assert results == {"failure"}, verdict
        elif verdict not in GREEN:
            assert results == {"error"}, verdict
        else:
            want = "skipped" if verdict in ("known", "skipped", "lacking") else "passed"
            assert results == {want}, verdict
    assert result_of("a verdict of a later day") == "error"


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (forms_content.every_single, "red"),
        (forms_content.every_merged, "red"),
        (forms_content.green_single, "green"),
        (forms_content.no_verdict_single, "no_verdict"),
    ],
)
def test_green_if_and_only_if_nothing_failed(make: Any, status: str) -> None:
    """A consumer that counts failures and errors comes to the report's own verdict."""
    merged = make()
    xml = parsed(merged)
    check_counts(xml)
    assert merged.status == status
    assert (xml.failures + xml.errors == 0) == (status == "green")
    assert (xml.failures > 0) == (status == "red")


def test_a_reason_of_its_own_is_an_error() -> None:
    """What keeps a run from a verdict and is no test's is an error case `verdict`, without what tests tell already."""
    found = cases_of(parsed(forms_content.no_verdict_single()))["run", "verdict"]
    assert result(found) == "error"
    assert found.result[0].message == "pytest did not end by itself"
    every = cases_of(parsed(forms_content.every_single()))["run", "verdict"].result[0].message
    assert "a reason of its own" in every
    assert "suite decoder is inconclusive" in every
    for words in ("1 lost", "metric", "1 error", "traces"):
        assert words not in every


def test_a_case_says_all() -> None:
    """A failure has its file and line, why, kind, text, causes, log tail, and the command that reruns it."""
    found = cases_of(parsed(forms_content.every_single()))
    c = found["suites.decoder.test_frames", "test_frames[newly_failing]"]
    assert (c._elem.get("file"), c._elem.get("line")) == (
        "suites/decoder/test_frames.py",
        str(forms_content.LINE),
    )
    told = c.result[0]
    assert (told.message, told.type) == ("drift: it broke", "drift")
    assert told.text == "first: the loss left\nthe envelope"
    assert "the log's last line" in c.system_out
    assert facts(c)["rerun"].startswith("python -m nox -s cpu -- ")
    skip = found["suites.decoder.test_frames", "test_frames[skipped]"]
    assert skip.result[0].message == "too long here (until 2027-03-31)"
    known = found["suites.decoder.test_frames", "test_frames[known]"]
    assert (known.result[0].message, facts(known)["known_issue"]) == ("superframes fail", "decoder-threads")


def test_repeats_and_retries_are_one_case() -> None:
    """A test of three processes, and one that was tried twice, are one case each, with how each ended."""
    found = cases_of(parsed(forms_content.every_single()))
    repeated = found["suites.decoder.test_frames", "test_frames[repeated]"]
    assert (facts(repeated)["processes"], facts(repeated)["outcomes"]) == ("3", "3 passed")
    assert repeated.time == pytest.approx(1.5)
    retried = found["suites.decoder.test_frames", "test_frames[retried]"]
    assert (result(retried), facts(retried)["attempts"], facts(retried)["outcomes"]) == (
        "failure",
        "2",
        "1 failed, 1 passed",
    )
    assert "processes" not in facts(found["suites.decoder.test_frames", "test_frames[new]"])


def test_metrics_are_cases_of_their_own() -> None:
    """A gate that regressed fails, one without an answer is an error; what is no gate fails nothing and passes nothing."""
    found = {
        n: result(c) for (g, n), c in cases_of(parsed(forms_content.every_single())).items() if g == "metrics"
    }
    at = "suites/throughput/test_speed.py::test_"
    want = {"regressed": "failure", "missing": "error", "incomparable": "error", "inconclusive": "error"}
    want |= {"improved": "passed", "equivalent": "passed", "unflagged": "passed"}
    assert {n.removeprefix(at).removesuffix("::step_s"): r for n, r in found.items() if "step_s" in n} == want
    loose = {n.removeprefix(at).removesuffix("::load_s"): r for n, r in found.items() if "load_s" in n}
    assert loose == want | {"regressed": "skipped", "inconclusive": "skipped"}


def test_traces_are_cases_of_their_own() -> None:
    """A trace that differs from another runner's fails, one that is inconclusive is an error, one that agrees passes."""
    xml = parsed(forms_content.every_single())
    found = {n: result(c) for (g, n), c in cases_of(xml).items() if g == "traces"}
    at = f"{forms_content.LOSS}::{{}} beside other-arch-8"
    assert found == {at.format("a"): "failure", at.format("b"): "error", at.format("c"): "passed"}


def test_several_runs() -> None:
    """Each run and suite is a test suite, under its run's name; an absent runner is an error, a traced difference fails."""
    merged = forms_content.every_merged()
    xml = parsed(merged)
    names = [s.name for s in suites_of(xml)]
    for column in merged.columns:
        assert {f"{column.name} {s.suite}" for s in column.judgement.suites} <= set(names)
    found = cases_of(xml)
    assert result(found["absent-runner", "run"]) == "error"
    assert result(found["idle", "run"]) == "skipped"
    assert "no machine of that kind" in found["idle", "run"].result[0].message
    between = [c for (g, _), c in found.items() if g.startswith("between ")]
    assert [result(c) for c in between] == ["failure"]
    bundles = [result(c) for (g, _), c in found.items() if g.endswith(".bundles")]
    assert sorted(bundles) == ["failure", "passed"]
    (emulated,) = [s for s in suites_of(xml) if "mirage" in s.name]
    assert facts(emulated)["emulated"] == "true"


def test_absent_alone_is_not_green() -> None:
    """A green run beside a runner that did not report is an error somewhere, and no failure."""
    green = forms_content.green_single().columns[0]
    merged = merge([(green.run, green.judgement, green.given)], expected=("another",), today=TODAY)
    xml = parsed(merged)
    assert (merged.status, xml.failures, xml.errors) == ("no_verdict", 0, 1)


def test_a_verdict_that_no_case_shows_is_shown() -> None:
    """Whatever makes a report red or keeps it from a verdict, a file without failure or error is not written."""
    green = forms_content.green_single()
    for status, words in (("red", "failures"), ("no_verdict", "errors")):
        xml = parsed(dataclasses.replace(green, status=status, headline="told elsewhere"))  # type: ignore[arg-type]
        check_counts(xml)
        assert getattr(xml, words) == 1


@given(ANY | st.text(max_size=20))
def test_any_text(text: str) -> None:
    """Whatever text comes from tests, the file parses, its counts are right, and names and reasons arrive as text."""
    run, test = nasty_run(text)
    judgement = judge(run, None, today=TODAY)
    xml = parsed(one(run, judgement))
    check_counts(xml)
    found = [c for s in suites_of(xml) for c in s if c.classname == "suites.decoder.test_frames"]
    assert len(found) == len(judgement.tests)
    by_name = {c.name: c for c in found}
    for t in judgement.tests:
        c = by_name[plain(t.test.partition("::")[2])]
        if result(c) == "passed":
            continue
        assert c.result[0].message == plain(t.why)
        if t.record is not None and result(c) == "failure":
            assert (c.result[0].text or "") == plain(t.record.detail or "")
    assert test.partition("::")[2].isprintable() <= (test.partition("::")[2] in by_name)


@given(st.lists(st.sampled_from(sorted({"passed", "failed", "error", "skipped"})), max_size=12))
def test_any_outcomes(outcomes: list[str]) -> None:
    """Whatever ended how, a test that did not pass is no pass, and the file is green exactly when the run is."""
    records = [make_record(case(str(n)), o) for n, o in enumerate(outcomes)]
    merged = one(make_run(records), judge(make_run(records), None, today=TODAY))
    xml = parsed(merged)
    found = cases_of(xml)
    for n, o in enumerate(outcomes):
        assert (result(found["suites.decoder.test_frames", f"test_frames[{n}]"]) == "passed") == (
            o == "passed"
        )
    assert (xml.failures + xml.errors == 0) == (merged.status == "green")


REAL = """
import os, pathlib
import pytest
HERE = pathlib.Path(__file__).parent
def test_control(): pass
@pytest.mark.parametrize("n", range(4))
def test_many(n): assert n != 2, "two"
@pytest.mark.repeated
def test_repeated(record): record.metric("x", "s", [1.0])
"""


def test_a_real_run(tmp_path: Path) -> None:
    """A run of two xdist workers with a test of two fresh processes: each test is one case, the failure has its line."""
    done = runs.made_up(tmp_path, REAL, "--repeat", "2", "-n", "2")
    run, judgement = judged(done.folder, ROOT / "none")
    assert {r.worker for r in run.records} > {"gw0", "gw1"}, "two workers, and the processes of the repeats"
    xml = parsed(one(run, judgement))
    check_counts(xml)
    found = {name: c for (group, name), c in cases_of(xml).items() if group == "suites.demo.test_demo"}
    assert set(found) == {"test_control", "test_repeated", *(f"test_many[{n}]" for n in range(4))}
    assert facts(found["test_repeated"])["processes"] == "2"
    assert [n for n, c in found.items() if result(c) == "failure"] == ["test_many[2]"]
    line = int(found["test_many[2]"]._elem.get("line") or 0)
    assert REAL.splitlines()[line - 1].startswith("def test_many")
