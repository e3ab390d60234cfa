"""The page for a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness import buy_words as words
from harness.buy_words import Said
from harness.buying import Page
from harness.report_parts.parts import one_line


def render(page: Page, *, width: int = 110, color: bool = False) -> str:
    """The page as lines of `width` columns; with escape codes only when `color` is set. A cost that does not hold says so
    in words too."""
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(Text(words.TITLE, style="bold"))
    console.print(Text(one_line(words.headline(page)), style="bold"))
    _title(console, "Machines")
    _table(console, words.MACHINE_COLUMNS, words.machine_rows(page))
    _notes(console, words.machine_notes(page))
    _title(console, "The three numbers")
    for n, machine in enumerate(page.machines):
        _line(console, Text(one_line(machine.name), style="bold"), 2)
        for title, test, said in words.summary(page, n):
            of = f" ({one_line(words.short(test))})" if test else ""
            _line(console, Text(f"{title}{of}"), 4)
            for piece in said:
                _line(console, _said(piece), 6)
    _title(console, "At which price the order flips")
    for title, test, flips in words.flips_by_test(page):
        _line(console, Text(f"{title}, {one_line(words.short(test))}", style="bold"), 2)
        for flip in flips:
            _line(console, _said(words.flip_said(flip)), 4)
    if not page.flips:
        _line(console, Text("No two machines of which one has a price may be compared."), 2)
    _title(console, "Not compared")
    _notes(console, list(page.apart) or ["Nothing stands apart."])
    _title(console, "Every number")
    for line in page.lines:
        _line(console, Text(f"{words.KIND_TITLES[line.kind]}: {one_line(line.test)}", style="bold"), 2)
        if any(c.there for c in line.cells):
            _table(console, words.line_columns(page, line), words.line_rows(page, line))
        _notes(console, words.line_notes(page, line), 4)
    _title(console, "What the costs rest on")
    _notes(console, [*words.price_notes(page), *words.READING])
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _line(console: Console, text: Text, indent: int) -> None:
    console.print(Padding(text, (0, 0, 0, indent)))


def _notes(console: Console, lines: Iterable[str], indent: int = 2) -> None:
    for line in lines:
        _line(console, Text(one_line(line), style="dim"), indent)


def _said(said: Said) -> Text:
    found = Text(one_line(said.text), style="strike" if said.struck else "")
    if said.marks:
        found.append(f" [{', '.join(map(one_line, said.marks))}]", style="not strike yellow")
    return found


def _table(console: Console, columns: tuple[str, ...], rows: Iterable[tuple[Said, ...]]) -> None:
    """A table where it fits, else each row as a list of its cells: folded columns of few letters cannot be read."""
    held = [tuple(map(_said, row)) for row in rows]
    widths = [max(len(c), *(len(r[n]) for r in held)) for n, c in enumerate(columns)] if held else []
    if sum(widths) + 2 * len(widths) + 2 > console.width:
        for row in held:
            _line(console, row[0], 4)
            for name, cell in zip(columns[1:], row[1:], strict=True):
                _line(console, Text.assemble((f"{name}: ", "dim"), cell), 6)
        return
    table = Table(box=None, padding=(0, 1), pad_edge=True)
    for n, column in enumerate(columns):
        table.add_column(Text(column, style="dim"), justify="left" if n == 0 else "right", no_wrap=True)
    for row in held:
        table.add_row(*row)
    console.print(Padding(table, (0, 0, 0, 2)))
