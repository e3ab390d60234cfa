"""The report as markdown, for a pull request or a job summary."""

from __future__ import annotations

from harness.merged import Column, Merged
from harness.report_parts import merged_parts, metric_parts, parts
from harness.report_parts.markdown_text import cached, fenced, ready, table, text, trouble

NAME = "markdown"


def render(merged: Merged, *, width: int = 110, color: bool = False) -> str:
    """GitHub-flavoured markdown; text from tests and logs stays text."""
    del width, color
    lines = [f"**{text(merged.headline)}**", ""]
    if merged.single:
        return "\n".join([*lines, *of_column(merged.columns[0])]) + "\n"
    lines += several(merged)
    for column in merged.columns:
        lines += ["", f"# {text(column.name)}", "", f"**{text(column.judgement.headline)}**", ""]
        lines += of_column(column)
    return "\n".join(lines) + "\n"


def several(merged: Merged) -> list[str]:
    """What is to be said of several runs together, under headings."""
    lines = ["## Runs", "", *ready(merged_parts.RUN_COLUMNS, merged_parts.run_rows(merged, cached))]
    lines += ["", *(f"- {text(line)}" for line in merged_parts.run_whys(merged))]
    if said := merged_parts.agreements(merged):
        lines += ["", text(said)]
    columns = tuple(map(text, merged_parts.line_columns(merged)))
    for agreement, words in (
        ("differ", "Differ between runs"),
        ("only_one", "Have an outcome on one run alone"),
    ):
        rows = list(merged_parts.line_rows(merged, agreement, cached))
        if rows:
            lines += ["", f"## {words} ({len(rows)})", "", *ready(columns, rows[: merged_parts.MANY])]
            if len(rows) > merged_parts.MANY:
                lines += [
                    "",
                    f"And {len(rows) - merged_parts.MANY} more: the HTML report and the JSON have them all.",
                ]
    if rows := list(merged_parts.between_rows(merged, cached)):
        lines += ["", "## Traces between runs", "", *ready(merged_parts.BETWEEN_COLUMNS, rows)]
    if rows := list(merged_parts.beside_rows(merged, cached)):
        columns = tuple(map(text, merged_parts.beside_columns(merged)))
        lines += ["", "## Metrics side by side", "", *ready(columns, rows)]
    return lines


def of_column(column: Column) -> list[str]:
    """One run: where, what needs a person, and all the rest."""
    run, judgement = column.run, column.judgement
    lines = [f"- {name}: {text(value)}" for name, value in parts.where(run.header)]
    lines += needs_person(column)
    rows = parts.known(judgement)
    if rows:
        lines += ["", "## Known issues", ""]
        lines += table(
            ("issue", "tests", "reason", "seen", "link", "until"),
            [(name, str(count), reason, seen, link, day) for name, count, reason, link, day, seen in rows],
        )
    skips = parts.skipped(judgement)
    if skips:
        lines += ["", "## Skipped", "", *(f"- {text(test)}: {text(why)}" for test, why in skips)]
    lines += ["", "## Suites", "", *table(parts.SUITE_COLUMNS, list(parts.suite_rows(judgement)))]
    lines += _metrics(column)
    crossings = list(parts.crossing_rows(judgement))
    if crossings:
        lines += ["", "## Across runners", "", *table(parts.CROSSING_COLUMNS, crossings)]
    if bundles := list(merged_parts.bundle_rows(column)):
        lines += [
            "",
            "## Checkpoint bundles carried across",
            "",
            *table(merged_parts.BUNDLE_COLUMNS, bundles),
        ]
    if judgement.notes:
        lines += ["", "## Notes", "", *(f"- {text(n)}" for n in judgement.notes)]
    return lines


def needs_person(column: Column) -> list[str]:
    """What needs a person, worst first: meaning, detail, causes, and the command that reruns it."""
    found = parts.troubles(column.run, column.judgement)
    lines = ["", f"## Needs a person ({len(column.judgement.needs_person)})"] if found else []
    for t in found:
        lines += trouble(t)
    return lines


def _metrics(column: Column) -> list[str]:
    run, judgement, given = column.run, column.judgement, column.given
    lines = []
    if judged := metric_parts.judged(judgement):
        lines += ["", "## Metrics", "", metric_parts.JUDGED_CAPTION, ""]
        lines += ready(metric_parts.JUDGED_COLUMNS, (metric_parts.judged_row(m, cached) for m in judged))
        if why := metric_parts.whys(judged):
            lines += ["", *(f"- {text(line)}" for line in why)]
        if (better := metric_parts.new_baseline(run, judgement, given)) is not None:
            lines += ["", text(better[0]), "", *fenced(better[1])]
    if shown := list(metric_parts.shown_rows(judgement, cached)):
        lines += ["", "## Metrics that are only shown", "", *ready(metric_parts.SHOWN_COLUMNS, shown)]
    if rates := metric_parts.rates(run, judgement, given):
        lines += ["", "## Rates", ""]
        lines += ready(metric_parts.RATE_COLUMNS, metric_parts.rate_rows(rates, cached))
        lines += [row for note in metric_parts.rate_notes(rates) for row in ("", text(note))]
    if (costs := metric_parts.costs(run, rates, given)) is not None:
        lines += ["", "## Costs", ""]
        if costs.rows:
            lines += [*ready(metric_parts.COST_COLUMNS, metric_parts.cost_rows(costs, cached)), ""]
        lines += [f"- {text(note)}" for note in metric_parts.cost_notes(costs)]
    return lines
