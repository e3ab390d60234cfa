"""What the HTML report promises in a browser: it opens alone, filters, links, reads well, and lets no text run."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import html_made
from harness import ROOT
from harness.merged import Merged
from harness.report_parts.html_text import anchor
from harness.reports import html

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DESKTOP, PHONE = (1280, 900), (390, 844)


def need(what: str, there: bool) -> None:
    """Skips without a browser or its driver; under CI they must be there."""
    if not there:
        remedy = "pip install playwright axe-playwright-python vl-convert-python, and install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(f"no {what}: {remedy}")
        pytest.skip(f"no {what}: {remedy}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        need("playwright", False)
    path = next(filter(None, map(shutil.which, NAMES)), None)
    need("chromium", path is not None)
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A report's file by the name of what makes its content."""
    folder = tmp_path_factory.mktemp("html")
    made: dict[str, Merged] = {}

    def file(name: str) -> Path:
        path = folder / f"{name}.html"
        if name not in made:
            made[name] = getattr(html_made, name)()
            path.write_text(html.render(made[name]), encoding="utf-8")
        return path

    return file


class Visit:
    """A page that was opened, and what went wrong on it: errors, warnings, requests."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.wrong: list[str] = []
        page.on("console", lambda m: self.wrong.append(f"{m.type}: {m.text}") if m.type != "log" else None)
        page.on("pageerror", lambda e: self.wrong.append(f"error: {e}"))
        page.on("dialog", lambda d: (self.wrong.append(f"dialog: {d.message}"), d.dismiss()))
        page.on(
            "request",
            lambda r: (
                self.wrong.append(f"request: {r.url}")
                if r.url != address.partition("#")[0] and not r.url.startswith("data:")
                else None
            ),
        )
        page.goto(address)

    def shown(self) -> list[str]:
        """Names of the rows of the matrix that can be seen."""
        return self.page.evaluate(
            "() => [...document.querySelectorAll('.m tbody tr')].filter(r => r.offsetParent).map(r => r.cells[0].textContent)"
        )

    def settle(self) -> None:
        """Waits until the filters, which act in the next frame, have acted."""
        self.page.evaluate(
            "() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(r))))"
        )

    def count(self) -> str:
        return str(self.page.locator("#count").text_content())

    def draw(self) -> int:
        """Draws every plot, and says how many."""
        self.page.evaluate("() => document.querySelectorAll('details.fold').forEach(d => { d.open = true; })")
        figures = self.page.locator("figure.chart")
        for n in range(figures.count()):
            figures.nth(n).scroll_into_view_if_needed()
            self.page.wait_for_function(
                "n => document.querySelectorAll('figure.chart')[n].dataset.drawn !== undefined", arg=n
            )
        return int(self.page.locator(".plot svg").count())


@pytest.fixture
def visit(browser: Any, files: Callable[[str], Path]) -> Iterator[Callable[..., Visit]]:
    """Opens a report; at the end nothing may have gone wrong on any page that was opened."""
    contexts, visits = [], []

    def opened(name: str, size: tuple[int, int] = DESKTOP, after: str = "", **options: Any) -> Visit:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        contexts.append(context)
        made = Visit(context.new_page(), files(name).as_uri() + after)
        visits.append(made)
        return made

    yield opened
    for context in contexts:
        context.close()
    assert [w for v in visits for w in v.wrong] == []


def test_it_opens_and_draws(visit: Callable[..., Visit]) -> None:
    """The first screen holds verdict, reason and runs; every plot is drawn, without an error and without a request."""
    seen = visit("everything")
    assert "PARTIAL RED" in seen.page.locator("h1").inner_text()
    assert "cuda did not report" in seen.page.locator(".verdict").inner_text()
    for words in ("cpu-x86_64-1", "DID NOT REPORT", "EMULATED BY A STAND-IN"):
        assert seen.page.locator("table.runs").get_by_text(words).first.bounding_box()["y"] < DESKTOP[1]
    assert seen.draw() == seen.page.locator(".plot").count() > 8
    assert seen.page.get_by_text("first outside: step 24").count() >= 2


def test_filters(visit: Callable[..., Visit]) -> None:
    """Search, suite, runner, verdict and difference keep the rows that fit, and say how many."""
    seen = visit("everything")
    page = seen.page
    everything = seen.shown()
    assert len(everything) == 10
    page.fill("#fq", "fsdp [LATE")
    seen.settle()
    assert seen.shown() == ["test_fsdp.py::test_it[late]"]
    assert seen.count() == "1 of 10 tests shown."
    page.fill("#fq", "superframes")  # words of a reason
    seen.settle()
    assert seen.shown() == ["test_decoder.py::test_it[hangs]"]
    page.fill("#fq", "nothing like that")
    seen.settle()
    assert seen.shown() == []
    assert page.get_by_text("No test fits.").is_visible()
    page.click("#fx")
    seen.settle()
    assert seen.shown() == everything
    page.select_option("#fs", "fsdp")
    seen.settle()
    assert len(seen.shown()) == 3
    assert not page.get_by_role("heading", name="decoder", exact=True).is_visible()
    page.select_option("#fs", "")
    page.check("#fd")
    seen.settle()
    assert [n.partition("[")[2] for n in seen.shown()] == ["broken]", "hangs]"]
    page.uncheck("#fd")
    page.check("input[value=infrastructure]")
    seen.settle()
    assert seen.shown() == ["test_decoder.py::test_it[same]"]
    page.select_option("#fr", label="cpu-x86_64-1")  # there it passed
    seen.settle()
    assert seen.shown() == []
    page.check("input[value=lost]")
    seen.settle()
    assert seen.shown() == ["test_decoder.py::test_it[lost]"]
    assert "verdict=infrastructure%2Clost" in page.url


def test_the_address_keeps_the_filters(visit: Callable[..., Visit]) -> None:
    """An address with filters opens so again, and one with a row points at it."""
    first = visit("everything")
    first.page.fill("#fq", "it")
    first.page.select_option("#fr", label="rocm-gfx942-8")
    first.page.check("input[value=new]")
    first.settle()
    shown, after = first.shown(), first.page.url[first.page.url.index("#") :]
    assert 0 < len(shown) < 10
    row = anchor("t", html_made.case("two", "fsdp"))
    again = visit("everything", after=f"{after}&row={row}")
    assert again.shown() == shown
    assert again.page.locator("#fq").input_value() == "it"
    assert again.page.locator("tr.here").get_attribute("id") == row
    assert again.page.locator(f"#{row}").evaluate("e => e.getBoundingClientRect().top") < DESKTOP[1]


def test_a_link_to_a_row(visit: Callable[..., Visit]) -> None:
    """A link to a row goes there, also when a filter hides it; the card of a failure is one click away."""
    row = anchor("t", html_made.case("two", "fsdp"))
    seen = visit("everything", after=f"#{row}")
    seen.settle()
    assert seen.page.locator("tr.here").get_attribute("id") == row
    assert seen.page.evaluate("document.activeElement.closest('tr').id") == row
    seen.page.fill("#fq", "broken")
    seen.settle()
    seen.page.evaluate(f"() => {{ location.hash = '{row}'; }}")
    seen.page.wait_for_function(f"() => document.getElementById('{row}').offsetParent !== null")
    seen.page.locator("td.infrastructure a").click()
    card = seen.page.locator(f"#{anchor('f1', html_made.case('same'))}")
    assert card.get_attribute("open") is not None
    assert card.evaluate("e => e.getBoundingClientRect().top") < DESKTOP[1]


def test_long_report_points_at_its_rows(visit: Callable[..., Visit]) -> None:
    """A row far down a long report is on the screen when its link opens."""
    test = "suites/suite5/test_many.py::test_case[a-name-of-usual-length-09005]"
    seen = visit("many", after=f"#{anchor('t', test)}")
    seen.settle()
    top = seen.page.locator(f"#{anchor('t', test)}").evaluate("e => e.getBoundingClientRect().top")
    assert 0 <= top < DESKTOP[1]
    assert seen.count() == "10,001 tests."
    seen.page.check("#fd")
    seen.settle()
    assert len(seen.shown()) == 200
    assert seen.count() == "200 of 10,001 tests shown."


def test_keyboard(visit: Callable[..., Visit]) -> None:
    """Without a mouse: skip link, search by /, out by Escape, from row to row by arrows, and the focus is seen."""
    seen = visit("everything")
    page = seen.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "fq"
    page.keyboard.type("a/b")  # in a field it is a letter
    assert page.locator("#fq").input_value() == "a/b"
    page.keyboard.press("Escape")
    seen.settle()
    assert seen.count() == "10 tests."
    rows = page.locator(".m tbody th a")
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == rows.nth(1).text_content()
    width = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert width == "2px"
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.textContent") == rows.first.text_content()


def test_theme(visit: Callable[..., Visit]) -> None:
    """The page follows the system, the button overrides it, the choice stays, and the plots follow as well."""
    seen = visit("everything", color_scheme="dark")
    page = seen.page
    background = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(background)
    figure = page.locator("figure.chart").first
    figure.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('figure.chart').dataset.drawn !== undefined")
    label = "() => document.querySelector('figure.chart .plot svg text').getAttribute('fill')"
    before = page.evaluate(label)
    page.evaluate("scrollTo(0, 0)")
    page.click("#theme")
    assert page.locator("#theme").text_content() == "Theme: light"
    assert page.evaluate(background) == "rgb(255, 255, 255)" != dark
    figure.scroll_into_view_if_needed()
    page.wait_for_function(f"before => ({label})() !== before", arg=before)
    page.reload()
    assert page.evaluate(background) == "rgb(255, 255, 255)"


def test_copy(visit: Callable[..., Visit]) -> None:
    """The button beside a command copies the whole command."""
    seen = visit("everything", permissions=["clipboard-read", "clipboard-write"])
    seen.page.locator(".card .cmd button").first.click()
    seen.page.get_by_text("Copied").wait_for()
    copied = seen.page.evaluate("navigator.clipboard.readText()")
    assert (
        copied == "python -m nox -s cpu -- --target vitra 'suites/decoder/test_decoder.py::test_it[broken]'"
    )


@pytest.mark.parametrize("name", ["everything", "nasty", "paired"])
def test_a_phone_scrolls_down_alone(visit: Callable[..., Visit], name: str) -> None:
    """At the width of a phone nothing makes the page wider; what is wide scrolls in a region that the Tab key reaches."""
    seen = visit(name, PHONE)
    seen.page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true; })")
    seen.draw()
    assert seen.page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    unreachable = seen.page.evaluate(
        "() => [...document.querySelectorAll('.scroll')]"
        ".filter(e => e.scrollWidth > e.clientWidth + 1 && e.tabIndex !== 0).length"
    )
    assert unreachable == 0


def test_text_does_not_run(visit: Callable[..., Visit]) -> None:
    """Markup and scripts in names, reasons, logs, units and issues are shown as they are, in the plots as well."""
    seen = visit("nasty")
    assert seen.draw() > 0
    page = seen.page
    assert page.locator("img, iframe, main script:not([type='application/json'])").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    assert "<img src=x onerror=alert(2)>" in page.locator(".m tbody th").first.inner_text()
    page.fill("#fq", "</script><script>")
    seen.settle()
    assert len(seen.shown()) == 4
    page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true; })")


def test_the_policy_stops_what_is_not_its_own(browser: Any, files: Callable[[str], Path]) -> None:
    """A script that got into the page in spite of all would not run, nor would a handler or a request."""
    context = browser.new_context()
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda m: said.append(m.text))
    page.goto(files("everything").as_uri())
    page.evaluate(
        """() => { const box = document.createElement('div'); document.body.append(box);
        box.innerHTML = '<img src="https://example.org/x.png" onerror="window.ran = 1">';
        const s = document.createElement('script'); s.textContent = 'window.ran = 2'; document.body.append(s); }"""
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    assert sum("Content Security Policy" in s for s in said) >= 2
    context.close()


def test_paper(visit: Callable[..., Visit]) -> None:
    """On paper all is open and the controls are gone; after it the page is as before."""
    seen = visit("everything")
    page = seen.page
    closed = page.locator("details:not([open])").count()
    assert closed > 0
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.get_by_text("log line 59").is_visible()
    page.set_viewport_size({"width": 720, "height": 1000})  # a sheet of A4
    assert page.evaluate("document.documentElement.scrollWidth") == 720
    assert not page.locator("#filters").is_visible()
    assert not page.locator("#theme").is_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == closed


def test_without_scripts(visit: Callable[..., Visit]) -> None:
    """A browser that runs no scripts shows the whole report, and no control that would do nothing."""
    seen = visit("everything", java_script_enabled=False)
    assert seen.page.get_by_text("2 of 12 tensors differ").first.is_visible()
    assert seen.page.locator(".m tbody tr").count() == 10
    assert not seen.page.locator("#filters").is_visible()
    assert not seen.page.locator("#theme").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe(visit: Callable[..., Visit], scheme: str, size: tuple[int, int]) -> None:
    """No rule of axe is broken, with all that folds open and all plots drawn."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        need("axe-playwright-python", False)
    for name in ("everything", "nasty") if (scheme, size) == ("light", PHONE) else ("everything",):
        # The policy of the page lets axe's own script not in by itself: this once it is put aside.
        seen = visit(name, size, color_scheme=scheme, bypass_csp=True)
        seen.draw()
        seen.page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true; })")
        # Of a table of numbers three rows stand for all: they are made alike.
        found = (
            Axe()
            .run(seen.page, context={"exclude": [[".data tbody tr:nth-child(n+4)"]]})
            .response["violations"]
        )
        told = [(v["id"], [n["html"][:160] for n in v["nodes"][:3]]) for v in found]
        assert told == []


def test_headings_do_not_jump(visit: Callable[..., Visit]) -> None:
    """One first heading, and no level is left out on the way down."""
    for name in ("everything", "paired"):
        levels = [int(t[1]) for t in re.findall(r"<(h[1-6])", visit(name).page.locator("main").inner_html())]
        assert levels.count(1) == 1
        assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def test_the_readmes_picture(files: Callable[[str], Path], tmp_path: Path) -> None:
    """docs/make_page_picture.py takes the first screen of a page in the size asked for, light or dark, and the picture
    in the README is one of its pictures."""
    need("playwright", importlib.util.find_spec("playwright") is not None)
    need("chromium", any(map(shutil.which, NAMES)))
    seen = {}
    for dark in (False, True):
        # In a process of its own: this one drives a browser already.
        words = [str(tmp_path / "taken.png"), str(files("everything")), *["--dark"] * dark]
        subprocess.run([sys.executable, str(ROOT / "docs" / "make_page_picture.py"), *words], check=True)
        seen[dark] = (tmp_path / "taken.png").read_bytes()
    assert seen[False] != seen[True]
    for picture in (*seen.values(), (ROOT / "docs" / "page.png").read_bytes()):
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", picture[16:24]) == (1280, 900)
        assert len(picture) > 30_000, "an empty page"
