"""What the forms for GitHub promise: comment and summary fit and hold whole markdown, annotations and badge say the verdict."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

import forms_content
from builders import TODAY, case, make_issue, make_record, make_run
from harness import reports
from harness.judge import judge
from harness.merged import Merged
from harness.merging import merge, one
from harness.report_parts.fitting import Part, fit, short
from harness.report_parts.parts import plain
from harness.reports import badge, pull_request, summary
from test_reports import ANY, NASTY, nasty_run

form_of_annotations = reports.get("annotations")  # the package's own `annotations` is the future's
FITTED = {"pull_request": (pull_request, 65_536), "summary": (summary, 1_048_576)}
OWN_HTML = re.compile(
    r"<!-- harness-report: report -->|<details><summary>[\w ]+( \(\d+\))?</summary>|</details>"
)
LIVE = {"link_open", "image", "em_open", "strong_open", "s_open", "code_inline", "html_inline"}


def tokens(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def check_markdown(text: str) -> list[Token]:
    """Read by a markdown parser, only what the form itself wrote is markup; its tokens."""
    found = tokens(text)
    opened = 0
    for token in found:
        if token.type == "html_block":
            for line in token.content.strip().splitlines():
                assert OWN_HTML.fullmatch(line), line
                opened += line.startswith("<details>") - (line == "</details>")
                assert opened in (0, 1, 2)
        elif token.type == "inline":
            live = [c for c in token.children or [] if c.type in LIVE]
            assert {c.type for c in live} <= {"strong_open", "code_inline"}, token.content
            assert all(c.content == "harness report RUN --format markdown" for c in live if c.content)
    assert opened == 0
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    return found


def check_tables(text: str) -> None:
    """Each row of a table has as many cells as its head; no row stands outside a table."""
    count, fence = None, None
    for line in text.split("\n"):
        if fence is not None:
            fence = None if line.strip() == fence else fence
        elif opened := re.match(r" *(`{3,})text$", line):
            fence, count = opened[1], None
        elif line.startswith("|"):
            cells = re.sub(r"\\.", "", line).count("|")
            assert count in (None, cells), line
            count = cells
        else:
            count = None
    assert fence is None


@pytest.mark.parametrize("form", FITTED)
@pytest.mark.parametrize("name", ["case", "ünïcode_\U0001f600", "&&&&"])
def test_it_fits(form: str, name: str) -> None:
    """Hundreds of failures fit GitHub's limit, in characters and in bytes; rows are whole, and what was cut is said."""
    module, limit = FITTED[form]
    merged = forms_content.many_merged(600, name)
    text = module.render(merged)
    assert limit * 0.85 < len(text.encode()) <= limit
    check_markdown(text)
    check_tables(text)
    for title in ("Needs a person (600)", "Skipped (600)"):
        assert title in text
    assert len(re.findall(r"^And \d+ more, left out for size: ", text, re.M)) == 2
    shown = len(re.findall(r"^### failing: ", text, re.M))
    assert f"And {600 - shown} more, left out for size" in text
    assert 3 <= shown < 600
    rows = len(re.findall(r"^\| suites/decoder/test\\_frames\.py::test\\_.*skipped \|", text, re.M))
    assert f"And {600 - rows} more, left out for size" in text
    assert rows >= 10, "a long section does not push out the next"
    assert "| decoder | holds | 1201 |" in text


@pytest.mark.parametrize("form", FITTED)
def test_a_monstrous_text_fits(form: str) -> None:
    """One text of millions of characters, wherever it stands, is cut: headline, runs and the failure are still told."""
    module, limit = FITTED[form]
    run, _ = nasty_run("&" * 2_000_000)
    text = module.render(one(run, judge(run, None, today=TODAY)))
    assert len(text.encode()) <= limit
    check_markdown(text)
    for words in ("**RED: ", "## Runs (1)", "### failing: ", "Suites (1)"):
        assert words in text


@pytest.mark.parametrize("form", FITTED)
def test_nothing_is_said_to_be_cut_when_all_fits(form: str) -> None:
    """A report that fits is whole."""
    text = FITTED[form][0].render(forms_content.every_merged())
    assert "left out for size" not in text
    check_markdown(text)
    check_tables(text)


def test_the_comment_says_what_matters_first() -> None:
    """Marker, verdict, runs, what needs a person, differences and regressions come first and open; the rest is folded."""
    text = pull_request.render(forms_content.every_merged())
    assert text.startswith("<!-- harness-report: report -->\n\n**PARTIAL RED: ")
    words = ["## Runs", "## Needs a person", "## Differ between runs", "## Metrics that need a person"]
    words += ["<summary>Suites", "<summary>Known issues", "<summary>Skipped", "<summary>Where"]
    places = [text.index(w) for w in words]
    assert places == sorted(places)
    assert "DID NOT REPORT" in text
    assert "no machine of that kind" in text
    folded = summary.render(forms_content.every_merged())
    assert "<details>" not in folded
    for part in ("## Suites", "## Metrics that are only shown", "test\\_shown"):
        assert part in folded


def test_a_link_to_an_issue_makes_no_noise_there() -> None:
    """An issue that a comment names is not told of the comment."""
    link = "https://github.com/pytorch/pytorch/issues/1"
    records = [make_record(case("a"), "failed", reason=f"see {link} or #12 or @someone")]
    run = make_run(
        [*records, make_record(case("b"), "failed")],
        known_issues=(make_issue(tests=(case("b"),), link=link),),
    )
    text = pull_request.render(one(run, judge(run, None, today=TODAY)))
    outside = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.M | re.S)
    assert "redirect.github.com/pytorch" in outside
    assert not re.search(r"//github\.com|#12|@someone", outside)


@example("<b>x</b> <!-- y --> </details>")
@example("```\n</details>\n# a\n```")
@example("````\n```\n| a |\n")
@example(NASTY)
@given(ANY)
def test_any_text_in_a_comment(text: str) -> None:
    """Whatever text comes from tests, it stays text in comment and summary: a markdown parser finds no markup of its own."""
    run, _ = nasty_run(text)
    merged = one(run, judge(run, None, today=TODAY))
    for form in (pull_request, summary):
        out = form.render(merged)
        check_markdown(out)
        check_tables(out)


LINES = st.lists(st.text("abü😀 ", max_size=30), max_size=3).map(tuple)
PARTS = st.lists(
    st.builds(
        Part,
        st.sampled_from(["one", "two & three", "x" * 200]),
        LINES.map(lambda found: ("HEAD", *found)),
        st.lists(LINES.map(lambda found: ("ITEM", *found)), max_size=30).map(tuple),
        st.just(("TAIL",)),
        st.integers(1, 12),
    ),
    max_size=30,
)


@given(PARTS, st.integers(0, 4000))
def test_fitting(parts: list[Part], room: int) -> None:
    """The text is within its limit; each part is whole or says how many items it lacks; what fits is never cut."""
    limit = 7000 + room
    text = fit(parts, limit, "elsewhere")
    lines = text.split("\n")
    assert len(text.encode()) <= limit
    assert lines.count("HEAD") == lines.count("TAIL")
    marks = [line[:4] for line in lines if re.match("HEAD|ITEM|And ", line)]
    assert ("HEAD", "And ") not in itertools.pairwise(marks), "a part without any of its items"
    total = sum(len(p.items) for p in parts)
    cut = sum(int(n) for n in re.findall(r"^And (\d+) more", text, re.M))
    out = lines.count("HEAD") < len(parts)
    assert out == bool(re.search("^Left out for size: ", text, re.M))
    if not out:
        assert lines.count("ITEM") + cut == total
    whole = "\n".join(line for p in parts for part in (p.head, *p.items, p.tail) for line in part)
    if len(whole.encode()) + 200 * len(parts) < room:
        assert text == whole + "\n"


def test_the_first_items_of_all_come_before_the_rest_of_one() -> None:
    """A long first section leaves room for the first items of those that follow."""
    parts = [Part("a", ("A",), tuple(("x" * 90,) for _ in range(500))), Part("b", ("B",), (("last",),))]
    text = fit(parts, 12_000, "elsewhere")
    assert text.endswith("B\nlast\n")
    assert re.search(r"And \d+ more, left out for size: elsewhere\.\nB", text)


def test_short() -> None:
    """A text is cut with a sign that it was, and only when it is longer."""
    assert [short("abcdef", n) for n in (6, 5)] == ["abcdef", "ab..."]


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Level, properties and message of each command, read as GitHub's runner reads them."""
    found = []
    for line in text.splitlines():
        assert line.startswith("::")
        head, data = line[2:].split("::", 1)
        level, _, rest = head.partition(" ")
        pairs = dict(p.split("=", 1) for p in rest.split(","))
        for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            pairs = {k: v.replace(code, character) for k, v in pairs.items()}
            data = data if code in ("%3A", "%2C") else data.replace(code, character)
        found.append((level, pairs, data))
    return found


def test_annotations() -> None:
    """The verdict is first; red is an error at the test's line, no verdict a warning, what improved a notice."""
    found = commands(form_of_annotations.render(forms_content.every_single()))
    assert found[0][0] == "error"
    assert found[0][1] == {"title": "RED"}
    at = {p["title"]: (level, p.get("file"), p.get("line")) for level, p, _ in found}
    frames = "suites/decoder/test_frames.py"
    assert at["newly failing: test_frames[newly_failing]"] == ("error", frames, str(forms_content.LINE))
    assert at["failing: test_frames[failing]"] == ("error", frames, None)
    assert at["lost: test_frames[lost]"][0] == "warning"
    assert at["metric regressed: test_regressed step_s"][0] == "error"
    assert at["metric improved: test_improved step_s"][0] == "notice"
    assert "metric regressed: test_regressed load_s" not in at, "no gate"
    message = next(m for _, p, m in found if "newly_failing" in p["title"])
    assert message.startswith("drift: it broke\n")
    assert "the envelope" in message
    assert "again: python -m nox -s cpu" in message
    assert not any("known]" in title or "skipped]" in title for title in at)


def test_annotations_of_several_runs() -> None:
    """A test that fails alike on two runs is one annotation that names both; an absent runner is an error."""
    records = [make_record(case("a"), "failed")]
    judged = []
    for n, arch in enumerate(("x86_64", "aarch64")):
        run = make_run(records, runner={"device_arch": arch}, run_id=f"20270115-1{n}0000-cpu-abcdef")
        judged.append((run, judge(run, None, today=TODAY), forms_content.Given()))
    text = form_of_annotations.render(merge(judged, expected=("absent",), today=TODAY))
    titles = [p["title"] for _, p, _ in commands(text)]
    assert titles == [
        "RED",
        "absent did not report",
        "failing: test_frames[a] on cpu-aarch64-1, cpu-x86_64-1",
    ]


def test_a_monstrous_annotation_is_cut() -> None:
    """One text of a million characters makes no annotation longer than GitHub takes, and hides none of the others."""
    run, _ = nasty_run("%" * 1_000_000)
    text = form_of_annotations.render(one(run, judge(run, None, today=TODAY)))
    assert all(len(line.encode()) < 1 << 16 for line in text.splitlines())
    assert [level for level, _, _ in commands(text)] == ["error", "error", "warning"]
    assert "again: " not in text, "a command that is cut would run other tests"


@pytest.mark.parametrize("count", [9, 10, 200])
def test_no_more_annotations_than_are_shown(count: int) -> None:
    """At most ten of a level are written; the last then says how many more there are."""
    records = [make_record(f"suites/decoder/test_frames.py::test_{n}", "failed") for n in range(count)]
    run = make_run(records)
    found = commands(form_of_annotations.render(one(run, judge(run, None, today=TODAY))))
    assert len(found) == min(count + 1, 10)
    if count > 9:
        assert found[-1][1] == {"title": f"{count - 8} more errors left out"}
        assert "failing: test_" in found[-1][2]


@given(
    ANY
    | st.sampled_from(
        ["\n::error::x", "##[error]x", "%0A::stop-commands::x", "a,line=7::b", "\u2028::debug::x"]
    )
)
def test_any_text_in_annotations(text: str) -> None:
    """Whatever text comes from tests, each line is one command that the form wrote, with its own properties."""
    run, _ = nasty_run(text)
    out = form_of_annotations.render(one(run, judge(run, None, today=TODAY)))
    assert "##[" not in out
    for line in out.split("\n")[:-1]:
        assert re.match(r"::(error|warning|notice) (file=[^,:]+,)?(line=\d+,)?title=[^,:]*::", line)
    found = commands(out)
    assert {key for _, p, _ in found for key in p} <= {"file", "line", "title"}
    shown = plain(text).strip()
    assert any(
        " ".join(shown.split()).replace("##[", "##\u200b[") in " ".join(m.split()) for _, _, m in found
    )


def badge_of(merged: Merged) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(badge.render(merged))
    assert set(value) == {"schemaVersion", "label", "message", "color", "isError"}
    assert value["schemaVersion"] == 1
    assert all(isinstance(value[k], str) and value[k] for k in ("label", "message", "color"))
    return value


def single(**header: Any) -> Merged:
    run = make_run([make_record(case("a"))], **header)
    return one(run, judge(run, None, today=TODAY))


@pytest.mark.parametrize(
    ("merged", "message", "color"),
    [
        (forms_content.green_single(), "green, 2 passed", "brightgreen"),
        (forms_content.no_verdict_single(), "no verdict, 2 passed", "lightgrey"),
        (forms_content.every_single(), "partial: red, 5 failed, 1 regressed", "red"),
        (forms_content.every_merged(), "partly emulated: partial: red, 1 of 4 runs green", "red"),
        (single(runner={"emulated": True}), "emulated: green, 2 passed", "yellowgreen"),
        (
            single(runner={"emulated": True, "stand_in": True}),
            "stand-in: green, 2 passed",
            "yellowgreen",
        ),
        (single(defect="x"), "defect planted: green, 2 passed", "yellowgreen"),
    ],
)
def test_badge(merged: Merged, message: str, color: str) -> None:
    """The badge is bright green for a green of whole, measured runs alone; it says what was emulated, or partial."""
    value = badge_of(merged)
    assert (value["message"], value["color"], value["isError"]) == (message, color, merged.status != "green")
    assert value["label"] == "vitra"


def test_badge_of_a_part() -> None:
    """A green of a selection is not bright, and says so."""
    run = make_run([make_record(case("a"))])
    header = dataclasses.replace(
        run.header, selection=dataclasses.replace(run.header.selection, keyword="decoder")
    )
    run = dataclasses.replace(run, header=header)
    value = badge_of(one(run, judge(run, None, today=TODAY)))
    assert (value["message"], value["color"]) == ("partial: green, 2 passed", "yellowgreen")
