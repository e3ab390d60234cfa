"""The report for a terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.merged import Column, Merged
from harness.report_parts import merged_parts, metric_parts, parts

NAME = "terminal"
_STYLE = {"green": "bold green", "red": "bold red", "no_verdict": "bold yellow"}


def render(merged: Merged, *, width: int = 110, color: bool = False) -> str:
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
    _headline(console, merged.headline, merged.status)
    if merged.single:
        _column(console, merged.columns[0])
    else:
        _several(console, merged)
        for column in merged.columns:
            console.print()
            console.rule(Text(parts.plain(column.name)))
            _headline(console, column.judgement.headline, column.judgement.status)
            _column(console, column)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip("\n")


def _headline(console: Console, text: str, status: str) -> None:
    console.print(Text(parts.plain(text), style=_STYLE[status]))


def _several(console: Console, merged: Merged) -> None:
    """What is to be said of the runs together."""
    _title(console, "Runs")
    _table(console, merged_parts.RUN_COLUMNS, list(merged_parts.run_rows(merged)))
    for line in merged_parts.run_whys(merged):
        console.print(Padding(Text(line), (0, 0, 0, 2)))
    if said := merged_parts.agreements(merged):
        _title(console, "Test by test")
        _note(console, said)
    for agreement, words in (
        ("differ", "Differ between runs"),
        ("only_one", "Have an outcome on one run alone"),
    ):
        rows = list(merged_parts.line_rows(merged, agreement))
        if rows:
            _title(console, f"{words} ({len(rows)})")
            _grouped(console, merged_parts.line_columns(merged), [(r, "") for r in rows[: merged_parts.MANY]])
            if len(rows) > merged_parts.MANY:
                _note(
                    console, f"and {len(rows) - merged_parts.MANY} more: --format html or json has them all"
                )
    if rows := list(merged_parts.between_rows(merged)):
        _title(console, "Traces between runs")
        _table(console, merged_parts.BETWEEN_COLUMNS, rows)
    if beside := list(merged_parts.beside_rows(merged)):
        _title(console, "Metrics side by side")
        _grouped(console, merged_parts.beside_columns(merged), [(row, "") for row in beside])


def _column(console: Console, column: Column) -> None:
    """One run."""
    run, judgement = column.run, column.judgement
    console.print()
    grid = Table.grid(padding=(0, 2))
    for name, value in parts.where(run.header):
        grid.add_row(Text(name, style="dim"), Text(value))
    console.print(grid)
    _troubles(console, column)
    _known(console, column)
    skips = parts.skipped(judgement)
    if skips:
        _title(console, "Skipped")
        for test, why in skips:
            console.print(Text(f"  {test}: {why}"))
    _title(console, "Suites")
    _table(console, parts.SUITE_COLUMNS, list(parts.suite_rows(judgement)))
    _metrics(console, column)
    crossings = list(parts.crossing_rows(judgement))
    if crossings:
        _title(console, "Across runners")
        _table(console, parts.CROSSING_COLUMNS, crossings)
    if rows := list(merged_parts.bundle_rows(column)):
        _title(console, "Checkpoint bundles carried across")
        _table(console, merged_parts.BUNDLE_COLUMNS, rows)
    if judgement.notes:
        _title(console, "Notes")
        for note in judgement.notes:
            console.print(Padding(Text(parts.plain(note)), (0, 0, 0, 2)))


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _troubles(console: Console, column: Column) -> None:
    found = parts.troubles(column.run, column.judgement)
    if not found:
        return
    _title(console, f"Needs a person ({len(column.judgement.needs_person)})")
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


def _known(console: Console, column: Column) -> None:
    rows = parts.known(column.judgement)
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


def _metrics(console: Console, column: Column) -> None:
    run, judgement, given = column.run, column.judgement, column.given
    if judged := metric_parts.judged(judgement):
        _title(console, "Metrics")
        _note(console, metric_parts.JUDGED_CAPTION)
        styles = {"regressed": "red", "improved": "green", "equivalent": "", "new": ""}
        rows = [(metric_parts.judged_row(m), styles.get(m.verdict, "yellow")) for m in judged]
        _grouped(console, metric_parts.JUDGED_COLUMNS, rows)
        for line in metric_parts.whys(judged):
            console.print(Padding(Text(line), (0, 0, 0, 2)))
        if (better := metric_parts.new_baseline(run, judgement, given)) is not None:
            console.print(Padding(Text(better[0]), (0, 0, 0, 2)))
            console.print(Text(f"    {better[1]}"), soft_wrap=True)
    if shown := list(metric_parts.shown_rows(judgement)):
        _title(console, "Metrics that are only shown")
        _grouped(console, metric_parts.SHOWN_COLUMNS, [(row, "") for row in shown])
    if rates := metric_parts.rates(run, judgement, given):
        _title(console, "Rates")
        _grouped(console, metric_parts.RATE_COLUMNS, [(row, "") for row in metric_parts.rate_rows(rates)])
        for note in metric_parts.rate_notes(rates):
            _note(console, note)
    if (costs := metric_parts.costs(run, rates, given)) is not None:
        _title(console, "Costs")
        if costs.rows:
            _grouped(console, metric_parts.COST_COLUMNS, [(row, "") for row in metric_parts.cost_rows(costs)])
        for note in metric_parts.cost_notes(costs):
            _note(console, note)


def _note(console: Console, text: str) -> None:
    console.print(Padding(Text(text, style="dim"), (0, 0, 0, 2)))


def _grouped(console: Console, columns: tuple[str, ...], rows: list[tuple[tuple[str, ...], str]]) -> None:
    """A table whose first column, a test, is a line of its own above the rows that share it. Not rich's table: that
    one takes seconds for some thousand rows, and folds a test's name into a column of few letters."""
    widths = [
        max(map(len, column)) for column in zip(columns[1:], *(row[1:] for row, _ in rows), strict=True)
    ]
    gap = "  " if sum(widths) + 2 * len(widths) + 2 <= console.width else " "

    def show(cells: tuple[str, ...], style: str) -> None:
        first, *rest = (
            cell.ljust(w) if n == 0 else cell.rjust(w)
            for n, (cell, w) in enumerate(zip(cells, widths, strict=True))
        )
        _line(console, gap.join([f"    {first}", *rest]).rstrip(), style)

    show(columns[1:], "dim")
    last = None
    for row, style in rows:
        if row[0] != last:
            _line(console, f"  {row[0]}", "bold")
            last = row[0]
        show(row[1:], style)


def _line(console: Console, text: str, style: str) -> None:
    """One line; without any work of rich's where there is none for it."""
    if console.color_system is None and len(text) <= console.width and text.isascii():
        console.file.write(text + "\n")
    else:
        console.print(Text(parts.plain(text), style=style))


def _table(console: Console, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(box=None, padding=(0, 2), pad_edge=True)
    for number, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if number < 2 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(parts.plain(cell)) for cell in row))
    console.print(table)
