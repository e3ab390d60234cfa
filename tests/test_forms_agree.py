"""What all report forms promise together: one verdict, the same counts, and each told apart by its content."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

import forms_content
from builders import TODAY
from harness import reports
from harness.judge import judge
from harness.merged import WORDS, Merged
from harness.merging import one
from harness.report_parts.junit_cases import result_of
from harness.verdicts import VERDICTS
from test_reports import NASTY, nasty_run

FORMS = ("terminal", "markdown", "json", "junit", "pull_request", "summary", "annotations", "badge")
TEXTS = ("terminal", "markdown", "pull_request", "summary", "annotations")
CONTENTS = {
    "one": forms_content.every_single,
    "several": forms_content.every_merged,
    "green": forms_content.green_single,
    "no verdict": forms_content.no_verdict_single,
}


def rendered(form: str, merged: Merged) -> str:
    text: str = reports.get(form).render(merged, width=100_000)
    return text


def words(text: str) -> str:
    """The text of a form without its escapes, on one line."""
    text = text.replace("%0A", " ").replace("%25", "%").replace("\u200b", "").replace("&lt;", "<")
    return " ".join(re.sub(r"\\(.)", r"\1", text).replace("&gt;", ">").replace("&amp;", "&").split())


def form_of(text: str) -> str:
    """Which form a text is, by its content alone."""
    if text.startswith("<?xml"):
        return "junit"
    if text.startswith("{"):
        return "badge" if "schemaVersion" in json.loads(text) else "json"
    if text.startswith("<!-- harness-report: "):
        return "pull_request"
    if all(line.startswith("::") for line in text.splitlines()):
        return "annotations"
    if text.startswith("**"):
        return "summary" if re.search(r"^## Runs \(\d+\)$", text, re.M) else "markdown"
    return "terminal"


def status_of(form: str, text: str) -> str:
    """The verdict that a form tells, read as its reader would."""
    if form == "json":
        return str(json.loads(text)["status"])
    if form == "junit":
        root = ET.fromstring(text)
        if root.get("failures") == root.get("errors") == "0":
            return "green"
        return "red" if root.get("failures") != "0" else "no_verdict"
    if form == "badge":
        color = json.loads(text)["color"]
        return {"red": "red", "lightgrey": "no_verdict"}.get(color, "green")
    found = re.search("|".join(WORDS.values()), text)
    assert found is not None
    return {word: status for status, word in WORDS.items()}[found[0]]


@pytest.mark.parametrize("name", CONTENTS)
def test_one_verdict_in_all_forms(name: str) -> None:
    """Every form tells the status of the content that it was made of."""
    merged = CONTENTS[name]()
    assert {form: status_of(form, rendered(form, merged)) for form in FORMS} == dict.fromkeys(
        FORMS, merged.status
    )


def test_the_contents_have_everything() -> None:
    """The content that the forms are held against has a test of each verdict, and each kind of difference."""
    merged = forms_content.every_merged()
    (every,) = [c for c in merged.columns if c.judgement.metrics]
    assert {t.verdict for t in every.judgement.tests} == {*VERDICTS}
    assert {b.crossing.verdict for b in merged.between} == {"differ"}
    assert [a.off for a in merged.absent] == [False, True]
    assert any(c.emulated for c in merged.columns)
    assert {line.agreement for line in merged.lines} == {"agree", "differ", "only_one", "none"}


@pytest.mark.parametrize("name", CONTENTS)
def test_the_same_counts_in_all_forms(name: str) -> None:
    """The counts that a form tells are those of the verdicts."""
    merged = CONTENTS[name]()
    for form in TEXTS:
        assert " ".join(merged.headline.split()) in words(rendered(form, merged)), form
    value = json.loads(rendered("json", merged))
    runs = value["runs"] if value.get("merged") else [value]
    root = ET.fromstring(rendered("junit", merged))
    for column, told in zip(merged.columns, runs, strict=True):
        count = Counter(t.verdict for t in column.judgement.tests)
        assert Counter(t["verdict"] for t in told["tests"]) == count
        suites = [f"{column.name} {s.suite}" for s in column.judgement.suites]
        cases = [c for s in root.iter("testsuite") if s.get("name") in suites for c in s.iter("testcase")]
        found = Counter(c.find("properties/property[@name='verdict']").get("value") for c in cases)  # type: ignore[union-attr]
        assert found == count
        for form in ("terminal", "markdown", "pull_request", "summary"):
            text = words(rendered(form, merged))
            for suite in column.judgement.suites:
                assert re.search(rf"{suite.suite}\W+.*?\W{suite.planned}\W", text), (form, suite)
    if merged.single:
        badge = json.loads(rendered("badge", merged))["message"]
        count = Counter(result_of(t.verdict) for t in merged.columns[0].judgement.tests)
        if count["failure"]:
            assert f"{count['failure']} failed" in badge
        else:
            passed = sum(t.record is not None for t in merged.columns[0].judgement.tests)
            assert f"{passed} passed" in badge


@pytest.mark.parametrize("name", CONTENTS)
def test_forms_are_told_apart(name: str) -> None:
    """No form looks like another: the text alone says which it is."""
    merged = CONTENTS[name]()
    assert [form_of(rendered(form, merged)) for form in FORMS] == list(FORMS)


@pytest.mark.parametrize("form", FORMS)
def test_markup_of_a_test_stays_text(form: str) -> None:
    """Markup, escape sequences and commands in a test's text arrive as text, in the form they must have there."""
    run, test = nasty_run(f"{NASTY}\n::error::x\n##[error]y")
    text = rendered(form, one(run, judge(run, None, today=TODAY)))
    assert form_of(text) == form
    assert "\x1b" not in text
    if form == "badge":
        return  # it holds no text of a test
    assert "\x00" not in text
    if form == "json":
        assert test in {t["test"] for t in json.loads(text)["tests"]}
        return
    if form == "junit":
        text = "".join(ET.fromstring(text).itertext())
    for part in ("[bold red]x[/]", "<img src=x>", "someone"):
        assert part in words(text), part
