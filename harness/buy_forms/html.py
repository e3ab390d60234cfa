"""The page as one HTML file: it needs no network, and nothing in it runs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files

from harness import buy_words as words
from harness.buy_words import Said
from harness.buying import Page
from harness.report_parts.html_text import heading, linked, listed, table, text

OWN = """
.vh{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
s{text-decoration-thickness:2px;color:var(--mut)}
em.mark{font-style:normal;font-weight:600;font-size:12px}
.num td:nth-child(n+3){white-space:normal}
caption{position:absolute;width:1px;height:1px;padding:0;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
em.mark.good{color:var(--grn)}em.mark.open{color:var(--amb)}em.mark.bad{color:var(--red)}
.three{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:12px}
.three article{border:1px solid var(--line);border-radius:5px;padding:10px 14px;min-width:0}
.three h3{margin:0 0 4px}.three h4{margin:10px 0 2px}.three h4 small{display:inline;margin-left:4px}
.three ul{list-style:none;padding:0;margin:2px 0}
.three .struck{border-style:dashed}
h3,h4{overflow-wrap:anywhere}
.flips li{margin:4px 0}
td,th{overflow-wrap:normal}
"""


def render(page: Page, *, width: int = 110, color: bool = False) -> str:
    """A whole page for screens of any width, light and dark, in which no text of a run is markup."""
    del width, color
    good = any(page.lines[n].cheapest for n in page.chosen.values())
    parts = [
        (
            "machines",
            "Machines",
            _table("Machines", words.MACHINE_COLUMNS, words.machine_rows(page))
            + listed(words.machine_notes(page)),
        ),
        ("three", "The three numbers", _three(page)),
        ("flips", "At which price the order flips", _flips(page)),
        ("apart", "Not compared", listed(page.apart) or "<p>Nothing stands apart.</p>"),
        ("all", "Every number", _lines(page)),
        ("basis", "What the costs rest on", listed([*words.price_notes(page), *words.READING])),
    ]
    body = "".join(
        f'<section aria-labelledby="{name}" class="part">{heading(2, title, name)}{inner}</section>'
        for name, title, inner in parts
    )
    links = "".join(f'<li><a href="#{name}">{title}</a>' for name, title, _ in parts)
    css = files("harness.report_parts").joinpath("page.css").read_text(encoding="utf-8") + OWN
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    said = text(words.headline(page))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><title>{words.TITLE}</title>'
        f'<link rel="icon" href="data:,"><style>{css}</style></head>\n'
        f'<body><a class="skip" href="#main">Skip to the page</a>'
        f'<header class="top"><p>Buyer’s comparison</p><nav aria-label="Sections"><ul>{links}</ul></nav></header>\n'
        f'<main id="main" tabindex="-1"><h1>{words.TITLE}</h1>'
        f'<div class="verdict {"good" if good else "open"}"><p class="why">{said}</p></div>{body}</main></body></html>\n'
    )


def _said(said: Said) -> str:
    body = text(said.text)
    if said.struck:
        body = f'<s><span class="vh">Not to be relied on, struck through: </span>{body}</s>'
    for mark in said.marks:
        tone = (
            "good"
            if mark == "cheapest"
            else "bad"
            if said.struck and mark.startswith(words.STRUCK)
            else "open"
        )
        body += f' <em class="mark {tone}">{text(mark)}</em>'
    return body


def _table(caption: str, columns: tuple[str, ...], rows: Iterable[tuple[Said, ...]]) -> str:
    return table(caption, columns, (tuple(map(_said, row)) for row in rows), kind="num")


def _three(page: Page) -> str:
    out = []
    for n, machine in enumerate(page.machines):
        inner = ""
        for title, test, said in words.summary(page, n):
            of = f" <small>{text(words.short(test))}</small>" if test else ""
            inner += heading(4, f"{title}{of}") + "<ul>" + "".join(f"<li>{_said(s)}" for s in said) + "</ul>"
        of = ' class="struck"' if machine.struck else ""
        out.append(f"<article{of}>{heading(3, text(machine.name))}{inner}</article>")
    return f'<div class="three">{"".join(out)}</div>'


def _flips(page: Page) -> str:
    out = []
    for title, test, flips in words.flips_by_test(page):
        items = "".join(f"<li>{_said(words.flip_said(f))}" for f in flips)
        out.append(f'{heading(3, f"{title}: {text(words.short(test))}")}<ul class="flips">{items}</ul>')
    return "".join(out) or "<p>No two machines of which one has a price may be compared.</p>"


def _lines(page: Page) -> str:
    out = []
    for line in page.lines:
        title = f"{words.KIND_TITLES[line.kind]}: {words.short(line.test)}"
        out.append(heading(3, text(title)) + f'<p class="sub">{linked(line.test)}</p>')
        if any(c.there for c in line.cells):
            out.append(_table(title, words.line_columns(page, line), words.line_rows(page, line)))
        out.append(listed(words.line_notes(page, line)))
    return "".join(out) or "<p>Nothing was timed in these runs.</p>"
