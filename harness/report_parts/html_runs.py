"""What a report tells after the matrix: metrics, traces, bundles, known issues, skips, notes, and each run; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from harness.merged import Column, Merged
from harness.report_parts import html_samples, html_stories, html_traces, merged_parts, metric_parts, parts
from harness.report_parts.html_charts import render_figures
from harness.report_parts.html_matrix import group_of, tag
from harness.report_parts.html_text import anchor, command, heading, link, listed, pairs, table, text

MOST = 60
"""More figures of one sort are counted, not drawn."""
Section = tuple[str, str, str]
"""Its id, its title, its HTML."""


def sections(merged: Merged) -> list[Section]:
    """Every section that has something to say, in their order."""
    each = [
        ("metrics", "Metrics", _by_column(merged, _metrics) + _samples(merged)),
        ("beside", "Metrics side by side", _beside(merged)),
        ("traces", "Traces between runs", _between(merged)),
        ("across", "Traces beside accepted ones", _by_column(merged, _across)),
        ("history", "Metrics over time", _by_column(merged, _stories)),
        ("bundles", "Checkpoint bundles carried across", _bundles(merged)),
        ("known", "Known issues", _by_column(merged, _known)),
        ("skipped", "Skipped", _by_column(merged, _skipped)),
        ("notes", "Notes", _by_column(merged, lambda c, _: listed(c.judgement.notes))),
        ("runs", "Runs in detail", "".join(_detail(merged, c) for c in merged.columns)),
    ]
    return [s for s in each if s[2]]


def _by_column(merged: Merged, render: Callable[[Column, int], str]) -> str:
    """What there is of each run, under its name where there are several."""
    out = []
    for c in merged.columns:
        inner = render(c, 3 if merged.single else 4)
        if inner:
            out.append((heading(3, name_of(c)) if not merged.single else "") + inner)
    return "".join(out)


def name_of(column: Column) -> str:
    """A run's name, and that it is emulated where it is."""
    return text(column.name) + (" <b class=emu>EMULATED</b>" if column.emulated else "")


def _metrics(column: Column, level: int) -> str:
    run, judgement, given = column.run, column.judgement, column.given
    out = []
    if rows := metric_parts.judged(judgement):
        cells = []
        for m in rows:
            row = metric_parts.judged_row(m, text)
            gate = "" if m.gate else ", no gate"
            cells.append((*row[:5], tag(m.verdict) + gate, *row[6:], "bad" if m.red else ""))
        out.append(table(f"Judged metrics of {column.name}", metric_parts.JUDGED_COLUMNS, cells, kind="num"))
        out.append(f"<p class=sub>{text(metric_parts.JUDGED_CAPTION)}</p>")
        out.append(listed(metric_parts.whys(rows)))
    if (better := metric_parts.new_baseline(run, judgement, given)) is not None:
        out.append(f"<p>{text(better[0])}</p>{command(better[1])}")
    figures = html_samples.figures_of_changes(column)
    out.append(render_figures(figures, level, most=MOST, what="metrics beside their base"))
    return "".join(out)


def _samples(merged: Merged) -> str:
    figures = html_samples.figures_of_samples(merged)
    if not figures:
        return ""
    drawn = render_figures(figures, 4, most=MOST, what="metrics by process")
    return heading(3, "Times by process") + drawn


def _beside(merged: Merged) -> str:
    rows = list(merged_parts.beside_rows(merged, text))
    if not rows:
        return ""
    return table("Metrics side by side", merged_parts.beside_columns(merged), rows, kind="num")


def _between(merged: Merged) -> str:
    out = []
    if rows := list(merged_parts.between_rows(merged, text)):
        out.append(table("Traces between runs", merged_parts.BETWEEN_COLUMNS, _tagged(rows, 3)))
    if len(merged.columns) > 1:
        figures = html_traces.figures_between(merged)
        out.append(render_figures(figures, 3, most=MOST, what="traces over each other"))
    return "".join(out)


def _across(column: Column, level: int) -> str:
    out = []
    if rows := list(parts.crossing_rows(column.judgement)):
        cells = [tuple(map(text, row)) for row in rows]
        name = f"Traces of {column.name} beside those accepted on other runners"
        out.append(table(name, parts.CROSSING_COLUMNS, _tagged(cells, 2)))
    figures = html_traces.figures_of(column)
    out.append(render_figures(figures, level, most=MOST, what="traces over those accepted"))
    return "".join(out)


def _tagged(rows: Iterable[Sequence[str]], place: int) -> list[tuple[str, ...]]:
    """Rows whose verdict, at this place, is marked for the eye."""
    shapes = {"bad": "bad", "open": "open"}
    return [
        (*row[:place], tag(row[place]), *row[place + 1 :], shapes.get(group_of(row[place]), ""))
        for row in rows
    ]


def _stories(column: Column, level: int) -> str:
    figures = html_stories.figures_of_stories(column)
    return render_figures(figures, level, most=MOST, what="metrics over time")


def _bundles(merged: Merged) -> str:
    rows = [row for c in merged.columns for row in merged_parts.bundle_rows(c, text)]
    return table("Checkpoint bundles", merged_parts.BUNDLE_COLUMNS, _tagged(rows, 2)) if rows else ""


def _known(column: Column, level: int) -> str:
    rows = parts.known(column.judgement)
    if not rows:
        return ""
    cells = [
        (text(name), str(count), text(reason), text(seen), link(address), text(day))
        for name, count, reason, address, day, seen in rows
    ]
    columns = ("issue", "tests", "reason", "seen", "link", "until")
    return table(f"Known issues of {column.name}", columns, cells)


def _skipped(column: Column, level: int) -> str:
    names = {parts.plain(t.test): t.test for t in column.judgement.tests}
    rows = [
        (f"<a href=#{anchor('t', names[test])}>{text(test)}</a>", text(why))
        for test, why in parts.skipped(column.judgement)
    ]
    return table(f"Skipped on {column.name}", ("test", "why"), rows) if rows else ""


def _detail(merged: Merged, column: Column) -> str:
    """All about one run that no other section tells."""
    run, judgement, given = column.run, column.judgement, column.given
    out = [heading(3, name_of(column), anchor("r", column.name))]
    if not merged.single:
        out.append(f"<p>{text(judgement.headline)}</p>{pairs(parts.where(run.header))}")
    rows = [tuple(map(text, row)) for row in parts.suite_rows(judgement)]
    out.append(table(f"Suites of {column.name}", parts.SUITE_COLUMNS, rows, kind="num"))
    if shown := list(metric_parts.shown_rows(judgement, text)):
        name = f"Metrics of {column.name} that are only shown"
        out.append(table(name, metric_parts.SHOWN_COLUMNS, shown, kind="num"))
    if rates := metric_parts.rates(run, judgement, given):
        cells = metric_parts.rate_rows(rates, text)
        out.append(table(f"Rates of {column.name}", metric_parts.RATE_COLUMNS, cells, kind="num"))
        out += [f"<p class=sub>{text(note)}</p>" for note in metric_parts.rate_notes(rates)]
    if (costs := metric_parts.costs(run, rates, given)) is not None:
        if costs.rows:
            cells = metric_parts.cost_rows(costs, text)
            out.append(table(f"Costs on {column.name}", metric_parts.COST_COLUMNS, cells, kind="num"))
        out.append(listed(metric_parts.cost_notes(costs)))
    return f'<section class="run">{"".join(out)}</section>'
