"""A buyer's page in each form: the same facts, struck costs that say so, and no text of a run that comes alive."""

from __future__ import annotations

import functools
import html as html_escapes
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from buy_made import BF16, FP32, PRICES, cheap, dear, make_offer, spread, step, turns
from harness import buy_forms, buy_words
from harness.buy_page import make_page
from harness.buying import Page
from harness.cost import Price, Prices

HOSTILE = [
    "<script>alert(1)</script>",
    "~~a~~ **b** [c](http://x) `d` | e",
    "\x1b[31mred\x1b]0;title\x07",
    "a\nb\r\u202eevil\u2028",
    '"><img src=x onerror=alert(1)>',
    "@someone #1",
    "<!-- -->]]>",
]


@functools.cache
def everything() -> Page:
    """A page with one of everything: four machines of which one is struck, one stale, one emulated; rows apart."""
    struck = make_offer("wild", *step(spread(0.01)), *turns(spread(0.1), callers=4), traces=False)
    emulated = make_offer("ghost", *step(spread(0.1)), runner={"emulated": True})
    old = make_offer("old", *step(spread(0.3), BF16), *step(spread(0.3)))
    more = (
        Price("old*", 1.0, "USD", "invented", "2020-01-01"),
        Price("wild*", 1.0, "USD", "x", "2026-12-01"),
    )
    prices = Prices((*PRICES.prices, *more), 1000.0)
    return make_page([cheap(), dear(), struck, emulated, old], prices)


def test_the_folder_is_the_registry() -> None:
    """Four forms, by the names of their files."""
    assert buy_forms.names() == ("html", "json", "markdown", "terminal")
    with pytest.raises(ModuleNotFoundError):
        buy_forms.render("nothing", everything())


@pytest.mark.parametrize("form", buy_forms.names())
def test_every_form_says_everything(form: str) -> None:
    """Machines, tests, prices, the flip, what stands apart and why costs are struck are in every form."""
    text = html_escapes.unescape(buy_forms.render(form, everything(), width=400)).replace("\\", "")
    for words in (
        "cheap-x-1",
        "dear-x-1",
        "wild-x-1",
        "ghost-x-1",
        FP32,
        BF16,
        "is cheapest per million samples",
        "stale",
        "no trace of a known noise in the run",
        "has no place beside measured machines",
        "another concurrency: 4, not 2",
        "only old-x-1 ran in bf16",
        "which would be if it cost less than",
        "the peak of this device is not known",
    ):
        assert words in text, words
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize("form", buy_forms.names())
@pytest.mark.parametrize("runs", ["one", "none timed", "no prices"])
def test_small_pages_are_whole(form: str, runs: str) -> None:
    """One machine, a run that timed nothing, and no prices: each is a page that says so."""
    page = {
        "one": lambda: make_page([cheap()], PRICES),
        "none timed": lambda: make_page([cheap(records=[])], PRICES),
        "no prices": lambda: make_page([cheap(), dear()], None),
    }[runs]()
    text = buy_forms.render(form, page)
    expected = {"one": "One machine", "none timed": "One machine", "no prices": "No prices given"}[runs]
    assert expected in text
    if runs == "no prices":
        assert "USD" not in text


def struck_words(text: str) -> list[str]:
    """What stands between marks of striking in markdown."""
    return re.findall(r"~~(.+?)~~", text)


def test_struck_costs_are_struck_in_markdown() -> None:
    """Every cost of a machine that is not shown to agree is struck, and no cost of another."""
    text = buy_forms.render("markdown", everything())
    row = next(r for r in text.splitlines() if r.startswith("| wild-x-1 | 5 ") and "unknown" in r)
    assert len(struck_words(row)) == 3
    assert row.count("struck through") == 3
    for line in text.splitlines():
        if line.startswith(("| cheap", "| dear", "| old")):
            assert struck_words(line) == []
        if "as long as" in line or "which would be" in line or "costs as much" in line:
            assert bool(struck_words(line)) is ("wild" in line)
    rendered = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)
    assert rendered.count("<s>") == text.count("~~") / 2
    assert rendered.count("<table>") == 1 + sum(any(c.there for c in x.cells) for x in everything().lines)


def test_struck_costs_are_struck_in_a_terminal() -> None:
    """With colors a struck cost carries the escape of striking; with and without, the words."""
    plain = buy_forms.render("terminal", everything(), width=160)
    colored = buy_forms.render("terminal", everything(), width=160, color=True)
    assert "\x1b" not in plain
    assert "\x1b[9m" in colored
    assert plain.count("struck through") >= 8
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split() == plain.split()
    for row in plain.splitlines():
        if row.strip().startswith(("cheap-x-1  ", "dear-x-1  ")) and "USD" in row and "hour" not in row:
            assert "struck" not in row


def test_rows_that_do_not_fit_become_lists() -> None:
    """In a narrow terminal no line is longer than it, and every number is still there."""
    narrow, wide = (buy_forms.render("terminal", everything(), width=w) for w in (60, 300))
    assert max(map(len, narrow.splitlines())) <= 60
    numbers = set(re.findall(r"\d+\.\d+", wide))
    assert numbers <= set(re.findall(r"\d+\.\d+", narrow.replace("\n", " ")))


class Page_(HTMLParser):
    """What elements a page has, and what text stands in struck ones."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.struck: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "s":
            self.struck.append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "s" in self.open:
            self.struck[-1] += data


def test_struck_costs_are_struck_in_html() -> None:
    """A struck cost is an `s` element that says so to who cannot see it; tables have scopes; nothing runs or loads."""
    page = Page_(buy_forms.render("html", everything()))
    assert len(page.struck) >= 8
    assert all(s.startswith("Not to be relied on, struck through: ") for s in page.struck)
    assert not any("cheap-x-1 is cheaper per million samples than dear" in s for s in page.struck)
    tags = [t for t, _ in page.tags]
    assert tags.count("h1") == 1
    assert not {"script", "img", "iframe", "object", "embed", "form", "video"} & set(tags)
    assert all(a.get("scope") in ("col", "row") for t, a in page.tags if t == "th")
    assert not [a for _, a in page.tags if any(n.startswith("on") or n == "style" for n in a)]
    links = [a["href"] or "" for t, a in page.tags if t in ("a", "link")]
    assert all(h.startswith(("#", "data:,")) for h in links)
    ids = {a["id"] for _, a in page.tags if "id" in a}
    assert {h[1:] for h in links if h.startswith("#")} <= ids


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_run_comes_alive(text: str) -> None:
    """Names, ids, reasons, sources and targets that are markup or control codes stay text in every form."""
    test = f"suites/x/test_x.py::test_x[{text}]"
    offers = [
        make_offer("a", *step(spread(0.1), test), status="red", why=text, machine={"host": text}),
        make_offer(f"b {text}", *step(spread(0.2), test), runner={"name": text}),
    ]
    prices = Prices((Price("*", 1.0, "USD", text, "2026-12-01"),))
    page = make_page(offers, prices)
    for form in ("terminal", "markdown"):
        for color in (False, True):
            out = buy_forms.render(form, page, color=color)
            bare = re.sub(r"\x1b\[[0-9;]*m", "", out)
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", bare)
            assert "title\x07" not in out
    rendered = (
        MarkdownIt("commonmark", {"html": True})
        .enable(["table", "strikethrough"])
        .render(buy_forms.render("markdown", page))
    )
    known = Page_(rendered)
    assert {t for t, _ in known.tags} <= {
        *("h1", "h2", "h3", "p", "strong", "ul", "li", "s", "table", "thead", "tbody", "tr", "th", "td")
    }
    html = buy_forms.render("html", page)
    clean = Page_(buy_forms.render("html", make_page([cheap(), dear()], PRICES)))
    assert {t for t, _ in Page_(html).tags} <= {t for t, _ in clean.tags} | {"s", "span"}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", html)
    assert json.loads(buy_forms.render("json", page))["machines"][0]["status_why"] == text


@settings(max_examples=25)
@given(st.text(min_size=1, max_size=30), st.text(max_size=30))
def test_any_text_is_a_page(name: str, why: str) -> None:
    """Whatever a name or a reason holds, every form is made, and its HTML has the elements of any other page."""
    offer = make_offer("a", *step([0.1, 0.1, 0.1]), status="red", why=why)
    page = make_page([offer, make_offer("b", *step([0.1, 0.1, 0.2], f"suites/x/{name}"))], PRICES)
    for form in buy_forms.names():
        buy_forms.render(form, page).encode("utf-8", "surrogatepass")
    tags = {t for t, _ in Page_(buy_forms.render("html", page)).tags}
    assert not tags & {"script", "img", "iframe"}


def keys(value: Any, name: str) -> set[str]:
    """The keys of the objects in a list of the page's JSON."""
    found = {frozenset(one) for one in value[name]}
    assert len(found) == 1
    return set(found.pop())


def test_json_is_what_the_document_says() -> None:
    """The keys of the JSON are those that docs/buying.md tells, and numbers stand in it whole."""
    from harness import ROOT

    value = json.loads(buy_forms.render("json", everything()))
    told = set(re.findall(r"`([a-z_]+)`", (ROOT / "docs" / "buying.md").read_text(encoding="utf-8")))
    every = set(value) | keys(value, "machines") | keys(value, "lines") | keys(value, "flips")
    cells = [c for x in value["lines"] for c in x["cells"]]
    every |= {k for c in cells for k in c} | {k for c in cells for f in c["figures"].values() for k in f}
    every |= {k for c in cells for f in c["costs"].values() for k in f}
    assert every - told == set()
    assert value["buy"] == 1
    assert value["exit_status"] == 0
    flip = next(f for f in value["flips"] if f["test"] == FP32 and f["unit"] == "million samples")
    assert flip["price"]["low"] < flip["price"]["value"] < flip["price"]["high"]
    (ghost,) = [m for m in value["machines"] if m["name"] == "ghost-x-1-emulated"]
    assert ghost["emulated"] is True
    assert ghost["price"] is None
    (cell,) = [c for c in value["lines"][0]["cells"] if c["machine"] == "ghost-x-1-emulated"]
    assert cell["figures"] == {}
    assert cell["costs"] == {}


def test_sentences_say_who_and_up_to_which_price() -> None:
    """The cheaper second is told its bound, the cheaper first what the second would have to cost."""
    page = make_page([dear(), cheap()], PRICES)
    (found,) = [f for f in page.flips if f.test == FP32]
    assert re.fullmatch(
        r"cheap-x-1 is cheaper per million samples than dear-x-1 as long as it costs less than (2\.9|3|3\.0)\d* USD an "
        r"hour and device \(2\.\d+ to 3\.\d+\); it is 2 USD\.",
        buy_words.flip_said(found).text,
    )
    (found,) = [f for f in make_page([cheap(), dear()], PRICES).flips if f.test == FP32]
    said = buy_words.flip_said(found).text
    assert said.startswith(
        "cheap-x-1 is cheaper per million samples than dear-x-1, which would be if it cost less than"
    )
    assert said.endswith("it is 6 USD.")
