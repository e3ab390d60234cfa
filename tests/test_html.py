"""What the HTML report promises, read as text: all is in it, nothing in it is alive but its own scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import html_made
from builders import TODAY, make_record, make_run
from harness import vega_bundle
from harness.merged import Merged
from harness.merging import merge, one
from harness.report_parts import html_samples, html_stories, html_text, html_traces, parts
from harness.report_parts.html_charts import Figure
from harness.reports import html
from harness.verdicts import VERDICTS


class Page(HTMLParser):
    """What a parser sees: elements in order with their attributes, the text of each element, scripts and styles."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.inside = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = tag
        if tag in self.raw:
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in self.raw:
            self.raw[self.inside][-1] += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All text that is no script, its white space as one blank."""
        return " ".join(" ".join(self.words).split())

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Elements and the names of their attributes; links to web addresses, which text may hold, left out."""
        return [
            (tag, tuple(attrs))
            for tag, attrs in self.elements
            if not (tag == "a" and re.match("https?://", attrs.get("href") or ""))
        ]

    def policy(self) -> str:
        return next(str(a["content"]) for t, a in self.elements if t == "meta" and "http-equiv" in a)


def page(merged: Merged) -> Page:
    """The report, parsed."""
    return Page(html.render(merged))


@pytest.fixture(autouse=True)
def short_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short text stands for the drawing library, whose making takes seconds; the browser's tests use the real one."""
    monkeypatch.setattr(vega_bundle, "read", lambda: "window.vegaEmbed = 0;")


def test_everything_is_there() -> None:
    """The report holds its sections in their order, first the verdict, and of each what there is to say."""
    source = html.render(html_made.everything())
    found = Page(source)
    titles = [
        "Where and why",
        "Needs a person (9)",
        "Tests (10)",
        "Metrics",
        "Metrics side by side",
        "Traces between runs",
        "Traces beside accepted ones",
        "Metrics over time",
        "Checkpoint bundles carried across",
        "Known issues",
        "Skipped",
        "Notes",
        "Runs in detail",
    ]
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", source) == titles
    assert source.index("<h1") < source.index("PARTIAL RED</strong>") < source.index("<h2")
    for words in (
        "cuda did not report",
        "DID NOT REPORT",
        "SWITCHED OFF",
        "tpu switched off until 2027-02-28: the lease ended",
        "EMULATED BY A STAND-IN",
        "no code for this GPU in the build",
        "exception: the target raised where it should have answered",
        "log line 59",
        "... 28 lines left out ...",
        "python -m nox -s cpu -- --target vitra 'suites/decoder/test_decoder.py::test_it[broken]'",
        "harness doctor --runner cuda",
        "step 24",
        "2 of 12 tensors differ",
        "superframes hang",
        "no device (until 2027-03-31)",
        "one device, two are needed",
        "regressed",
        "112.2 ms",
    ):
        assert words in found.text, words
    assert "log line 19" not in found.text.split()  # the tail, not the log


def cells(found: Page, source: str, test: str) -> list[str]:
    """Classes of the cells of a test's row in the matrix."""
    row = re.search(rf"<tr role=row id={html_text.anchor('t', test)}>(.*?)(?=<tr role=row|</tbody>)", source)
    assert row is not None
    return re.findall(r"<td role=cell class=(\w+)>", row[1])


def test_the_matrix_says_what_each_run_says() -> None:
    """Each test has one row, each run and each missing runner one cell in it, and then whether runs agree."""
    merged = html_made.everything()
    source = html.render(merged)
    found = Page(source)
    for line in merged.lines:
        assert cells(found, source, line.test) == [*line.cells, "absent", "off", line.agreement]
    assert len(re.findall("<tr role=row id=t", source)) == len(merged.lines)


def test_every_verdict_has_a_look_and_a_meaning() -> None:
    """No verdict of a test is without a rule in the style, so that none looks like a pass by chance."""
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", html._asset("page.css"))
    passing = {"same", "fixed", "new"}
    for verdict in {*VERDICTS, "not_run", "absent", "off", "differ", "only_one", "none"} - passing:
        mine = [body for heads, body in rules if re.search(rf"[(,]\.{verdict}[,)]", heads)]
        assert any(re.search(r"(^|;)color:", body) for body in mine), verdict
        assert any("content:" in body for body in mine), verdict


def test_emulated_columns_are_marked_and_never_timed() -> None:
    """The emulated column is hatched, says so in each cell, and its times are in no figure."""
    merged = html_made.everything()
    source = html.render(merged)
    assert ".m td:nth-child(4){background-image:var(--hatch)}" in source
    assert source.count("<i>emulated</i>") == sum(line.cells[2] != "not_run" for line in merged.lines)
    drawn = [h.words for f in html_traces.figures_between(merged) for h in f.heads]
    assert "rocm-gfx942-8" in drawn
    assert not [words for words in drawn if "mirage" in words]
    timed = html_made.stand_in()
    timed = make_run([*html_made.of_processes(0.2)], runner=vars(timed.header.runner), run_id="emulated")
    both = merge([html_made.judged(html_made.cpu()), html_made.judged(timed)])
    rows = [row for f in html_samples.figures_of_samples(both) for row in f.rows]
    assert rows
    assert all(row[0].startswith("cpu") for row in rows)


def test_only_its_own_scripts_may_run() -> None:
    """The policy allows nothing but the scripts and the style of this page, by their digests."""
    found = page(html_made.nasty())
    policy = dict(p.strip().partition(" ")[::2] for p in found.policy().split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["base-uri"] == policy["form-action"] == "'none'"
    kinds = [a.get("type") for t, a in found.elements if t == "script"]
    live = [s for s, kind in zip(found.raw["script"], kinds, strict=True) if kind in (None, "text/plain")]
    for source, name in ((live, "script-src"), (found.raw["style"], "style-src")):
        digests = {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in source}
        assert set(policy[name].split()) == {f"'sha256-{d}'" for d in digests}
    assert "unsafe" not in found.policy()


def test_nothing_is_fetched() -> None:
    """No element names anything outside of the page but links that a person follows."""
    for merged in (html_made.everything(), html_made.nasty()):
        for tag, attrs in page(merged).elements:
            assert "style" not in attrs
            assert not [a for a in attrs if a.startswith("on")]
            assert tag not in ("img", "iframe", "object", "embed", "base", "video", "audio")
            assert "src" not in attrs
            address = attrs.get("href") or "#"
            outside = address.startswith(("http://", "https://"))
            assert (
                address.startswith("#") or (tag == "a" and outside) or (tag == "link" and address == "data:,")
            )


def test_links_lead_somewhere() -> None:
    """Every id is there once, and every link inside the page has a target."""
    for merged in (html_made.everything(), html_made.nasty(), html_made.paired()):
        found = page(merged)
        ids = Counter(a["id"] for _, a in found.elements if a.get("id"))
        assert max(ids.values()) == 1
        targets = [
            str(a["href"])[1:] for t, a in found.elements if t == "a" and str(a["href"]).startswith("#")
        ]
        assert set(targets) <= set(ids)


def test_a_row_keeps_its_link() -> None:
    """The link to a test's row is the same in another report, whatever else is in it."""
    test = html_made.case("same")
    link = f"id={html_text.anchor('t', test)}>"
    for run in (html_made.cpu(), make_run([make_record(test)])):
        assert link in html.render(one(*html_made.judged(run)))


def text_run(name: str, reason: str, log: str) -> Merged:
    """A report in which these texts stand in every place."""
    records = [
        make_record(html_made.case(f"a{name}"), "failed", reason=reason, detail=log),
        make_record(html_made.case(f"b{name}"), "skipped", reason=reason, last_day="2027-03-31"),
        make_record(html_made.case(f"c{name}"), traces=(html_made.trace("loss"),)),
    ]
    run = make_run(records, target={"note": reason}, software={"python": name})
    tails = {records[0].test: {"logs/x": log}}
    second = make_run(
        [make_record(records[2].test, traces=(html_made.trace("loss", off_from=3),))], run_id="other"
    )
    return merge([html_made.judged(run, tails=tails), html_made.judged(second)], today=TODAY)


PIECES = st.sampled_from(
    [
        "<",
        ">",
        "&",
        '"',
        "'",
        "</script>",
        "<!--",
        "-->",
        "<script>",
        "]]>",
        "\x1b[1m",
        "\0",
        "\u2028",
        "&lt;",
        "é",
        "\n",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=4), min_size=1, max_size=6).map("".join)


@settings(max_examples=60)
@given(name=TEXTS, reason=TEXTS, log=TEXTS)
def test_text_stays_text(name: str, reason: str, log: str) -> None:
    """Whatever stands in names, reasons and logs, a parser sees the elements of a harmless report, and the text itself."""
    # A letter that no other text has keeps the order of rows and what is told in groups.
    name, reason, log = f"q{name}q", f"q{reason}q", f"q{log}q"
    found = page(text_run(name, reason, log))
    assert found.shape == page(text_run("qq", "qq", "qq")).shape
    assert any(parts.one_line(w) == parts.one_line(html_made.case(f"a{name}")) for w in found.words)
    whole = " ".join("".join(found.words).split())
    assert " ".join(parts.plain(log).split()) in whole
    assert " ".join(parts.plain(reason).split()) in whole


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner, max_size=3), max_leaves=8))
def test_data_cannot_end_its_script(value: Any) -> None:
    """JSON for the page's script reads back as it was, and holds nothing by which an element could end."""
    said = html_text.data(value)
    assert json.loads(said) == value
    assert not set("<>&") & set(said)
    assert json.loads(html_text.data([float("nan"), float("inf"), 1.5])) == [None, None, 1.5]


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", " https://x", "//x", "file:///etc"]
)
def test_only_web_addresses_become_links(address: str) -> None:
    """A link of a known issue that is no web address is told as text."""
    assert "<a" not in html_text.link(address)
    assert 'href="https://example.org/1"' in html_text.link("https://example.org/1")


def all_figures() -> list[Figure]:
    """The figures of a report that has every sort."""
    found = []
    for merged in (html_made.everything(), html_made.paired(), html_made.nasty()):
        found += html_traces.figures_between(merged) + html_samples.figures_of_samples(merged)
        for c in merged.columns:
            found += html_traces.figures_of(c) + html_samples.figures_of_changes(c)
            found += html_stories.figures_of_stories(c)
    return found


def test_plots_are_of_the_schema() -> None:
    """Every plot is valid by the schema of Vega-Lite, as Altair holds it."""
    altair = need("altair")
    specs = [spec for figure in all_figures() for spec in figure.specs]
    assert len(specs) > 10
    for spec in specs:
        altair.Chart.from_dict(spec)
    with pytest.raises(Exception, match="nonsense"):
        altair.Chart.from_dict({**specs[0], "nonsense": 1})


def need(name: str) -> Any:
    """A package that only these tests need: under CI it must be there."""
    if os.environ.get("CI") == "true":
        return __import__(name)
    return pytest.importorskip(name)


def test_the_table_of_a_trace_holds_its_numbers() -> None:
    """The table under a plot has each step with both values, their difference, and the envelope that it is held to."""
    figures = {f.title: f for f in html_traces.figures_between(html_made.everything())}
    figure = figures[f"loss of {html_made.case('late', 'fsdp')}"]
    assert [h.words for h in figure.heads] == [
        "step",
        "cpu-x86_64-1",
        "rocm-gfx942-8",
        "cpu-x86_64-1 beside rocm-gfx942-8",
        "envelope",
    ]
    assert figure.bad
    assert len(figure.rows) == html_made.STEPS
    for step, here, there, apart, envelope in figure.rows:
        outside = float(apart) > float(envelope)
        assert outside == (int(step) >= 24)
        x, y = float(here), float(there)
        assert float(apart) == pytest.approx(abs(x - y) / max(x, y), rel=6e-3, abs=2e-7)
    marks = {"at": 24, "words": "first outside: step 24"}
    for spec in figure.specs:
        assert [layer["data"]["values"] for layer in spec["layer"] if "data" in layer] == [[marks], [marks]]


def test_figures_that_need_a_person_are_open() -> None:
    """Traces that differ stand before those that agree, which are folded."""
    source = html.render(html_made.everything())
    part = source[source.index('id="traces"') :]
    assert part.index("loss of suites/fsdp/test_fsdp.py::test_it[late]") < part.index("class=fold")
    assert part.index("class=fold") < part.index("norm of suites/fsdp/test_fsdp.py::test_it[two]")


def test_sides_are_the_values_that_were_judged() -> None:
    """Of a run compared in pairs, those pairs are drawn that the verdict rests on; of another the baseline's medians."""
    column = html_made.paired().columns[0]
    m = next(m for m in column.judgement.metrics if m.metric == "step_s" and m.statistic == "median")
    assert m.verdict == "regressed"
    base, head = html_samples.sides(column, m)
    assert (len(base), len(head)) == (m.baseline_processes, m.processes)
    assert sorted(head)[len(head) // 2 - 1] <= (m.median or 0) <= sorted(head)[len(head) // 2]
    column = html_made.everything().columns[0]
    m = next(m for m in column.judgement.metrics if m.metric == "step_s" and m.statistic == "median")
    base, head = html_samples.sides(column, m)
    assert (len(base), len(head)) == (7, 5)


def test_the_story_names_where_the_level_changed() -> None:
    """History tells the run that began another level, and has the level beside each value."""
    figure = html_stories.figures_of_stories(html_made.everything().columns[0])[0]
    assert "1 change of level at run-20" in figure.says
    levels = [row[5] for row in figure.rows]
    assert len(set(levels[:20])) == len(set(levels[20:])) == 1
    assert levels[19] != levels[20]
    assert [row[6] for row in figure.rows].index("change") == 20


def test_without_the_library_the_page_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where vl-convert is not installed the tables stand, and a sentence names the remedy; with it there is none."""
    assert "pip install vl-convert-python" not in html.render(html_made.everything())
    monkeypatch.undo()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    found = page(html_made.everything())
    assert "pip install vl-convert-python" in found.text
    assert "library" not in {a.get("id") for _, a in found.elements}
    assert "cpu-x86_64-1 beside rocm-gfx942-8" in found.text


def test_a_report_without_plots_holds_no_library() -> None:
    """The library is put in only where something is drawn, and nothing is said of it elsewhere."""
    source = html.render(one(*html_made.judged(make_run([make_record(html_made.case("a"))]))))
    assert "vegaEmbed = 0" not in source
    assert "vl-convert" not in source
    assert "vegaEmbed = 0" in html.render(html_made.everything())


class Library:
    """Stands for vl-convert."""

    __version__ = "9.9"

    def __init__(self) -> None:
        self.made = 0

    def javascript_bundle(self, snippet: str) -> str:
        self.made += 1
        return f"/* é */ {snippet}"


def test_the_library_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The library is kept by its version; a folder that cannot be written costs time alone."""
    monkeypatch.undo()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    stand_in = Library()
    monkeypatch.setitem(sys.modules, "vl_convert", stand_in)
    assert vega_bundle.read() == vega_bundle.read() == "/* é */ window.vegaEmbed = vegaEmbed;"
    assert stand_in.made == 1
    stand_in.__version__ = "10.0"  # type: ignore[misc]
    vega_bundle.read()
    assert stand_in.made == 2
    assert len(list((tmp_path / "vega").iterdir())) == 2
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    assert vega_bundle.read() == "/* é */ window.vegaEmbed = vegaEmbed;"


def test_a_report_is_the_same_again() -> None:
    """Rendering knows no clock and no chance: the same content is the same page."""
    assert html.render(html_made.everything()) == html.render(html_made.everything())


def test_a_quiet_run_says_that_nothing_needs_a_person() -> None:
    """A green run has no card, and says so in words."""
    found = page(one(*html_made.judged(make_run([make_record(html_made.case("a"))]))))
    assert "GREEN" in found.text
    assert "Nothing needs a person." in found.text
    assert "card" not in {a.get("class") for _, a in found.elements}


def test_a_long_report_is_short_for_its_rows() -> None:
    """A row of the matrix on three runners costs less than 300 bytes."""
    few, many = (len(html.render(html_made.many(n))) for n in (1000, 3000))
    assert (many - few) / 2000 < 300
