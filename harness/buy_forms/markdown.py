"""The page as GitHub's markdown."""

from __future__ import annotations

from collections.abc import Iterable

from harness import buy_words as words
from harness.buy_words import Said
from harness.buying import Page
from harness.report_parts.markdown_text import ready, text


def render(page: Page, *, width: int = 110, color: bool = False) -> str:
    """Lines in which nothing of a run's own text is markup; costs that do not hold are between `~~`."""
    del width, color
    out = [f"# {words.TITLE}", "", f"**{text(words.headline(page))}**", "", "## Machines", ""]
    out += _table(words.MACHINE_COLUMNS, words.machine_rows(page))
    out += _list(words.machine_notes(page))
    out += ["", "## The three numbers", ""]
    for n, machine in enumerate(page.machines):
        out += [f"- **{text(machine.name)}**"]
        for title, test, said in words.summary(page, n):
            of = f" ({text(words.short(test))})" if test else ""
            out.append(f"  - {title}{of}: {'; '.join(map(_said, said))}")
    out += ["", "## At which price the order flips", ""]
    for title, test, flips in words.flips_by_test(page):
        out += [f"- {title}, {text(words.short(test))}"]
        out += [f"  - {_said(words.flip_said(f))}" for f in flips]
    if not page.flips:
        out.append("No two machines of which one has a price may be compared.")
    out += ["", "## Not compared", ""]
    out += [f"- {text(line)}" for line in page.apart] or ["Nothing stands apart."]
    out += ["", "## Every number", ""]
    for line in page.lines:
        out += [f"### {words.KIND_TITLES[line.kind]}: {text(line.test)}", ""]
        if any(c.there for c in line.cells):
            out += _table(words.line_columns(page, line), words.line_rows(page, line))
        out += _list(words.line_notes(page, line))
        out.append("")
    out += ["## What the costs rest on", "", *(f"- {text(n)}" for n in words.price_notes(page)), ""]
    out += [text(line) + "\n" for line in words.READING]
    return "\n".join(out)


def _said(said: Said) -> str:
    body = f"~~{text(said.text)}~~" if said.struck else text(said.text)
    marks = ", ".join(text(m) for m in said.marks)
    return f"{body} ({marks})" if marks else body


def _table(columns: tuple[str, ...], rows: Iterable[tuple[Said, ...]]) -> list[str]:
    return ready(columns, (tuple(map(_said, row)) for row in rows))


def _list(lines: list[str]) -> list[str]:
    return ["", *(f"- {text(line)}" for line in lines)] if lines else []
