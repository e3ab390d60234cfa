"""The report for a terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.records import Run
from harness.reports import parts
from harness.verdicts import Judgement

NAME = "terminal"
_STYLE = {"green": "bold green", "red": "bold red", "no_verdict": "bold yellow"}


def render(run: Run, judgement: Judgement, *, width: int = 110, color: bool = False) -> str:
    """The report as lines of `width` columns; with escape codes only when `color` is set."""
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
    console.print(Text(parts.plain(judgement.headline), style=_STYLE[judgement.status]))
    console.print()
    grid = Table.grid(padding=(0, 2))
    for name, value in parts.where(run.header):
        grid.add_row(Text(name, style="dim"), Text(value))
    console.print(grid)
    _troubles(console, run, judgement)
    _known(console, judgement)
    skips = parts.skipped(judgement)
    if skips:
        _title(console, "Skipped")
        for test, why in skips:
            console.print(Text(f"  {test}: {why}"))
    _title(console, "Suites")
    _table(console, parts.SUITE_COLUMNS, list(parts.suite_rows(judgement)))
    metrics = list(parts.metric_rows(judgement))
    if metrics:
        _title(console, "Metrics")
        _table(console, parts.METRIC_COLUMNS, metrics)
    crossings = list(parts.crossing_rows(judgement))
    if crossings:
        _title(console, "Across runners")
        _table(console, parts.CROSSING_COLUMNS, crossings)
    if judgement.notes:
        _title(console, "Notes")
        for note in judgement.notes:
            console.print(Padding(Text(parts.plain(note)), (0, 0, 0, 2)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip("\n")


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _troubles(console: Console, run: Run, judgement: Judgement) -> None:
    found = parts.troubles(run, judgement)
    if not found:
        return
    _title(console, f"Needs a person ({len(judgement.needs_person)})")
    for t in found:
        more = f"  (and {len(t.tests) - 1} more alike)" if len(t.tests) > 1 else ""
        head = Text("  ")
        head.append(t.first.verdict.replace("_", " "), style="bold red")
        head.append(f"  {parts.plain(t.first.test)}{more}")
        console.print(head)
        console.print(Padding(Text(parts.plain(t.first.why)), (0, 0, 0, 4)))
        console.print(Padding(Text(t.kind_meaning, style="dim"), (0, 0, 0, 4)))
        if t.detail:
            console.print(Padding(Text(t.detail, style="dim"), (0, 0, 0, 6)))
        for cause, line, remedy in t.causes:
            console.print(Padding(Text(f"cause: {cause}"), (0, 0, 0, 4)))
            console.print(Padding(Text(line, style="dim"), (0, 0, 0, 6)))
            console.print(Padding(Text(f"remedy: {remedy}"), (0, 0, 0, 6)))
        # No padding: it would cut a command that is longer than the line, and half a command runs nothing.
        console.print(Text(f"    again: {t.rerun}"), soft_wrap=True)


def _known(console: Console, judgement: Judgement) -> None:
    rows = parts.known(judgement)
    if not rows:
        return
    _title(console, "Known issues")
    for name, count, reason, link, last_day, seen in rows:
        head = Text("  ")
        head.append(f"{count} test{'s' if count > 1 else ''}  {name}", style="yellow")
        head.append(f"  until {last_day}")
        console.print(head)
        console.print(Padding(Text(parts.plain(reason)), (0, 0, 0, 4)))
        console.print(Padding(Text(parts.plain(link)), (0, 0, 0, 4)), soft_wrap=True)
        console.print(Padding(Text(f"seen: {seen}", style="dim"), (0, 0, 0, 4)))


def _table(console: Console, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(box=None, padding=(0, 2), pad_edge=True)
    for number, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if number < 2 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(parts.plain(cell)) for cell in row))
    console.print(table)
