"""What the reports promise: the verdict first, what needs a person next, and text from tests stays text."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import TODAY, case, make_issue, make_record, make_run
from harness import reports
from harness.judge import judge
from harness.merging import one
from harness.records import KINDS, Metric, Run
from harness.reports import as_json, markdown, terminal
from harness.verdicts import Baseline

A, B = case("a"), case("b")
WIDE = 100_000
TEXTS = [terminal, markdown]
NASTY = "[bold red]x[/] | `a` ```` <img src=x> \x1b[31mred\x1b]0;title\x07 \x9b31m @someone\r\x00 [link](http://x)"


def rendered(module: Any, run: Run, baseline: Baseline | None = None, **options: Any) -> str:
    """The report of a run in one format, wide enough that nothing wraps unless told otherwise."""
    text: str = module.render(one(run, judge(run, baseline, today=TODAY)), **{"width": WIDE, **options})
    return text


def flat(text: str) -> str:
    """The words of a report without markdown's escapes, on one line."""
    return " ".join(re.sub(r"\\(.)", r"\1", text).replace("&lt;", "<").replace("&gt;", ">").split())


def rich_run() -> Run:
    """A run with one of everything that a report shows."""
    c, d, e = case("c"), case("d"), case("e")
    records = [
        make_record(A, "failed", detail="\n".join(f"line {n}" for n in range(40))),
        make_record(B, "failed", kind="hang", reason="no answer in 20 s"),
        make_record(c, "skipped", reason="no device", last_day="2027-03-31"),
        make_record(d, metrics=(Metric("rate", "frames/s", (2.0, 4.0, 6.0)),)),
    ]
    return make_run(
        records,
        planned=[A, B, c, d, e],
        known_issues=(make_issue(tests=(B,)),),
        target={"patches": ("decoder-fix",), "supplies": ("S0 utils3d",), "note": "not the pinned commit"},
    )


def test_formats_are_the_folder() -> None:
    """Each file of the folder is a format under its name."""
    found = reports.formats()
    assert {"terminal", "markdown", "json"} <= set(found)
    assert all(callable(m.render) and name == m.NAME for name, m in found.items())


@pytest.mark.parametrize("module", TEXTS)
def test_order(module: Any) -> None:
    """Verdict, where, what needs a person, known issues, skips, suites, metrics, notes, in this order."""
    text = flat(rendered(module, rich_run()))
    words = [
        "RED: ",
        "vitra at c68b65e",
        "Needs a person",
        "Known issues",
        "Skipped",
        "Suites",
        "Metrics",
        "Notes",
    ]
    places = [text.index(w) for w in words]
    assert places == sorted(places)
    assert re.match(r"[*]*RED: ", text)


@pytest.mark.parametrize("module", TEXTS)
def test_where(module: Any) -> None:
    """The report says what ran where: target, patches, supplies, note, runner, machine, run."""
    text = flat(rendered(module, rich_run()))
    run_id = rich_run().header.run_id
    for words in (
        "decoder-fix",
        "S0 utils3d",
        "not the pinned commit",
        "cpu-x86_64-1",
        "measured",
        "box",
        run_id,
    ):
        assert words in text
    assert "DIRTY" not in text
    dirty = make_run([make_record(A)], target={"dirty": True}, runner={"emulated": True})
    text = flat(rendered(module, dirty))
    assert "DIRTY" in text
    assert "EMULATED" in text.splitlines()[0]


@pytest.mark.parametrize("module", TEXTS)
def test_what_needs_a_person(module: Any) -> None:
    """A failure shows kind, meaning, the decoder's own text in at most 12 lines, and the command to rerun it."""
    text = rendered(module, rich_run())
    assert KINDS["exception"] in flat(text)
    assert "line 0" in text
    assert "line 39" in text
    assert "line 20" not in text
    assert len(re.findall(r"line \d+", text)) <= 12
    command = f"python -m nox -s cpu -- --target vitra --patch decoder-fix {shlex.quote(A)}"
    assert command in text
    assert case("e") in flat(text)  # lost


@pytest.mark.parametrize("module", TEXTS)
def test_known_issue_row(module: Any) -> None:
    """A known issue shows id, count, reason, link and last day."""
    text = flat(rendered(module, rich_run()))
    for words in ("decoder-threads", "superframes fail", "example.org/43", "2027-03-31"):
        assert words in text


@pytest.mark.parametrize("module", TEXTS)
def test_skip_shows_its_reason(module: Any) -> None:
    """A skip is listed with its reason and last day."""
    assert "no device (until 2027-03-31)" in flat(rendered(module, rich_run()))


@pytest.mark.parametrize("module", TEXTS)
def test_alike_failures_are_folded(module: Any) -> None:
    """Many failures of one function and kind are one entry with their number; other kinds stay apart."""
    many = [make_record(case(f"case{n}"), "failed") for n in range(30)]
    text = flat(
        rendered(module, make_run([*many, make_record(A, "failed", kind="hang", reason="no answer")]))
    )
    assert "29 more alike" in text
    assert "case7" not in text
    assert text.count("nox -s cpu") == 2
    few = flat(rendered(module, make_run(many[:3])))
    assert few.count("nox -s cpu") == 3


def test_rerun_is_a_shell_command() -> None:
    """The rerun command survives a shell, whatever the test's name holds."""
    test = case("it's $HOME; rm `x` *")
    value = json.loads(rendered(as_json, make_run([make_record(test, "failed")])))
    found = next(t for t in value["tests"] if t["test"] == test)
    assert shlex.split(found["rerun"])[-1] == test


def test_json_is_strict() -> None:
    """The JSON is one object without NaN, with the verdicts and their exit status."""
    run = make_run([make_record(A, duration_s=float("nan"), metrics=(Metric("m", "s", (float("inf"),)),))])

    def refuse(text: str) -> None:
        raise AssertionError(text)

    value = json.loads(rendered(as_json, run), parse_constant=refuse)
    assert (value["status"], value["exit_status"], value["run_id"]) == ("green", 0, run.header.run_id)
    assert value["metrics"][0]["median"] is None
    assert "1 of 1 samples not finite" in value["metrics"][0]["why"]
    assert {t["test"]: t["verdict"] for t in value["tests"]}[A] == "new"


def test_terminal_color_and_width() -> None:
    """Escape codes appear only when colour is asked for, and lines keep to the width, commands apart."""
    run = make_run([make_record(A, "failed", reason="word " * 100)])
    assert "\x1b[" in rendered(terminal, run, color=True)
    plain = rendered(terminal, run, width=60, color=False)
    assert "\x1b" not in plain
    assert all(len(line) <= 60 for line in plain.splitlines() if "again: " not in line)
    assert f"again: python -m nox -s cpu -- --target vitra {shlex.quote(A)}" in [
        line.strip() for line in plain.splitlines()
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("- a", "\\- a"),
        ("=== a", "\\=== a"),
        ("12. a", "12\\. a"),
        ("1.5 s", "1.5 s"),
        ("2027-01-15", "2027-01-15"),
    ],
)
def test_no_line_begins_a_block(value: str, expected: str) -> None:
    """Text at the start of a line makes no list, rule or heading; numbers and days stay readable."""
    assert markdown.text(value) == expected


def nasty_run(text: str) -> tuple[Run, str]:
    """A run that carries one text everywhere a test, a log or a list can put it, and the test's id."""
    test = case("x" + text)
    records = [
        make_record(test, "failed", reason=text, detail=text),
        make_record(A, "skipped", reason=text, last_day="2027-03-31"),
        make_record(B, "failed", reason=text, detail=text, metrics=(Metric("m" + text, text, (1.0,)),)),
    ]
    issue = make_issue(tests=(B,), reason=text, link=text)
    run = make_run(
        records,
        known_issues=(issue,),
        problems=(text,),
        target={"note": text, "supplies": (text,)},
        machine={"host": text},
        software={"torch": text},
    )
    return run, test


ANY = st.text(st.characters(codec="utf-8"), max_size=30) | st.lists(
    st.sampled_from([*"[]|`~<>&@*_#\\\n\r\x00\x07\x1b\x9b ab", "```", "\x1b[31m", "\x1b]0;t\x07", "[/]", "[bold]"]),
    max_size=12,
).map("".join)  # fmt: skip


@given(ANY)
def test_any_text_in_the_terminal(text: str) -> None:
    """Whatever text comes from tests, the report is made, names the test, and holds no control characters."""
    run, _ = nasty_run(text)
    for width in (40, WIDE):
        out = rendered(terminal, run, width=width)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)
    assert "suites/decoder/test_frames.py::test_frames[x" in out


@given(ANY)
def test_any_text_in_markdown(text: str) -> None:
    """Whatever text comes from tests, it opens no markup, breaks no table and closes no fence."""
    run, _ = nasty_run(text)
    out = rendered(markdown, run)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", out)
    assert "suites/decoder/test_frames.py::test_frames[x" in out.replace("\\", "")
    fence, columns = None, None
    for line in out.split("\n"):
        if fence is not None:
            fence = None if re.fullmatch(rf" {{0,3}}{fence}`*\s*", line) else fence
            continue
        if opened := re.match(r"(`{3,})text$", line):
            fence, columns = opened[1], None
            continue
        bare = re.sub(r"\\.", "", line)
        assert not re.match(r"(=|-(?! )|\d+[.)](\s|$))", bare)
        assert "<" not in bare
        assert "`" not in bare
        if line.startswith("| "):
            assert columns in (None, bare.count("|"))
            columns = bare.count("|")
        else:
            columns = None if not line.startswith("|---") else columns
            assert "|" not in bare or line.startswith("|---")
    assert fence is None


@given(ANY)
def test_any_text_in_json(text: str) -> None:
    """Whatever text comes from tests arrives in the JSON unchanged."""
    run, test = nasty_run(text)
    out = rendered(as_json, run)
    assert "\x1b" not in out
    assert test in {t["test"] for t in json.loads(out)["tests"]}


@pytest.mark.parametrize("module", TEXTS)
def test_markup_of_a_test_is_shown_as_it_is(module: Any) -> None:
    """Rich markup, pipes and fences of a test's text are shown, not obeyed; escape sequences are gone."""
    run, _ = nasty_run(NASTY)
    text = flat(rendered(module, run))
    for words in ("[bold red]x[/]", "````", "<img src=x>"):
        assert words in text
    assert "\x1b" not in text
    assert "title" not in text
