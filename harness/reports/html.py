"""The report as one HTML file: it needs no network, and nothing of it runs but its own scripts."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from harness.merged import Merged
from harness.report_parts import html_first, html_matrix, html_runs
from harness.report_parts.html_text import heading, text

NAME = "html"
NO_DRAWINGS = (
    "The plots of this report are not drawn: vl-convert-python, which holds the library that draws them, was not "
    "installed where the report was made. The tables under them hold all the numbers. Remedy: pip install "
    "vl-convert-python, and make the report again."
)


def render(merged: Merged, *, width: int = 110, color: bool = False) -> str:
    """A whole page. The library that draws is read from the user's cache, and put in only where there are plots."""
    del width, color
    needs, count, cards = html_first.render_needs(merged)
    first = html_first.render_verdict(merged)
    # Of several runs each one's verdict is on the first screen.
    where = [("where", "Where", html_first.render_where(merged))] if merged.single else []
    each = [
        ("needs", f"Needs a person ({count})" if count else "Needs a person", needs),
        *where,
        ("tests", f"Tests ({len(merged.lines):,})", html_matrix.render_matrix(merged, cards)),
        *html_runs.sections(merged),
    ]
    body = "".join(
        f'<section aria-labelledby="{name}" class="part">{heading(2, title, name)}{inner}</section>'
        for name, title, inner in each
    )
    linked = each if merged.single else [("where", "Where", ""), *each]
    links = "".join(f'<li><a href="#{name}">{title}</a>' for name, title, _ in linked)
    drawn = '<figure class="chart">' in body
    library = _library() if drawn else None
    note = f'<p class="note" role="note">{NO_DRAWINGS}</p>' if drawn and library is None else ""
    script, css = _asset("page.js"), _asset("page.css") + html_matrix.style(merged)
    held = "" if library is None else f'<script type="text/plain" id="library">{library}</script>'
    allowed = " ".join(_hash(s) for s in (script, library) if s is not None)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(css)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    target = merged.columns[0].run.header.target.name
    title = f"{text(merged.headline.partition(': ')[0])}: {text(target)}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><title>{title}</title>'
        f'<link rel="icon" href="data:,"><style>{css}</style></head>\n'
        f'<body><a class="skip" href="#main">Skip to the report</a>'
        f'<header class="top"><p>Test and benchmark report</p><nav aria-label="Sections"><ul>{links}</ul></nav>'
        f'<button type="button" id="theme" hidden>Theme: automatic</button></header>\n'
        f'<main id="main" tabindex="-1">{first}{note}{body}</main>\n'
        f"{held}<script>{script}</script></body></html>\n"
    )


def _asset(name: str) -> str:
    return files("harness.report_parts").joinpath(name).read_text(encoding="utf-8")


def _library() -> str | None:
    """The drawing library as a script element may hold it."""
    from harness import vega_bundle

    script = vega_bundle.read()
    # None of the three is in it today; inside a string of a script the backslash changes nothing.
    return (
        None if script is None else re.sub(r"<(?=/script|script|!--)", r"\\x3c", script, flags=re.IGNORECASE)
    )


def _hash(script: str) -> str:
    """The source expression by which a policy allows one inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
