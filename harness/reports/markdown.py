"""The report as markdown, for a pull request or a job summary."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from harness.merged import Column, Merged
from harness.report_parts import merged_parts, metric_parts, parts

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
    lines = ["## Runs", "", *_ready(merged_parts.RUN_COLUMNS, merged_parts.run_rows(merged, _cached))]
    lines += ["", *(f"- {text(line)}" for line in merged_parts.run_whys(merged))]
    if said := merged_parts.agreements(merged):
        lines += ["", text(said)]
    columns = tuple(map(text, merged_parts.line_columns(merged)))
    for agreement, words in (
        ("differ", "Differ between runs"),
        ("only_one", "Have an outcome on one run alone"),
    ):
        rows = list(merged_parts.line_rows(merged, agreement, _cached))
        if rows:
            lines += ["", f"## {words} ({len(rows)})", "", *_ready(columns, rows[: merged_parts.MANY])]
            if len(rows) > merged_parts.MANY:
                lines += [
                    "",
                    f"And {len(rows) - merged_parts.MANY} more: the HTML report and the JSON have them all.",
                ]
    if rows := list(merged_parts.between_rows(merged, _cached)):
        lines += ["", "## Traces between runs", "", *_ready(merged_parts.BETWEEN_COLUMNS, rows)]
    if rows := list(merged_parts.beside_rows(merged, _cached)):
        columns = tuple(map(text, merged_parts.beside_columns(merged)))
        lines += ["", "## Metrics side by side", "", *_ready(columns, rows)]
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
        more = f" and {len(t.tests) - 1} more alike" if len(t.tests) > 1 else ""
        lines += ["", f"### {t.first.verdict.replace('_', ' ')}: {text(t.first.test)}{more}", ""]
        lines += [text(t.first.why), "", text(t.kind_meaning)]
        if t.detail:
            lines += ["", *fenced(t.detail)]
        for cause, line, remedy in t.causes:
            lines += ["", f"- cause: {text(cause)}", *(f"  {row}" for row in fenced(line)), ""]
            lines += [f"  remedy: {text(remedy)}"]
        lines += ["", "Again:", "", *fenced(t.rerun)]
    return lines


def _metrics(column: Column) -> list[str]:
    run, judgement, given = column.run, column.judgement, column.given
    lines = []
    if judged := metric_parts.judged(judgement):
        lines += ["", "## Metrics", "", metric_parts.JUDGED_CAPTION, ""]
        lines += _ready(metric_parts.JUDGED_COLUMNS, (metric_parts.judged_row(m, _cached) for m in judged))
        if why := metric_parts.whys(judged):
            lines += ["", *(f"- {text(line)}" for line in why)]
        if (better := metric_parts.new_baseline(run, judgement, given)) is not None:
            lines += ["", text(better[0]), "", *fenced(better[1])]
    if shown := list(metric_parts.shown_rows(judgement, _cached)):
        lines += ["", "## Metrics that are only shown", "", *_ready(metric_parts.SHOWN_COLUMNS, shown)]
    if rates := metric_parts.rates(run, judgement, given):
        lines += ["", "## Rates", ""]
        lines += _ready(metric_parts.RATE_COLUMNS, metric_parts.rate_rows(rates, _cached))
        lines += [row for note in metric_parts.rate_notes(rates) for row in ("", text(note))]
    if (costs := metric_parts.costs(run, rates, given)) is not None:
        lines += ["", "## Costs", ""]
        if costs.rows:
            lines += [*_ready(metric_parts.COST_COLUMNS, metric_parts.cost_rows(costs, _cached)), ""]
        lines += [f"- {text(note)}" for note in metric_parts.cost_notes(costs)]
    return lines


def text(value: str) -> str:
    """One line in which nothing is markup; links and mentions do not come alive."""
    line = " ".join(parts.plain(value).split()).translate(_ESCAPES)
    # A line that begins so would be a list, a rule or a heading.
    if line[:1] in _BEGINNINGS:
        line = _BEGINNING.sub(lambda m: f"\\{m[0]}" if m[0] in "-=" else f"{m[0]}\\", line)
    return line


_cached = functools.lru_cache(maxsize=1 << 16)(text)
"""Names come again and again in the rows of many metrics."""

_ESCAPES = {
    **{ord(c): f"\\{c}" for c in "\\`*_{}[]()#+!|~"},
    **{ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("@"): "@\u200b"},
}
_BEGINNINGS = tuple("-=0123456789")
_BEGINNING = re.compile(r"^([-=]|[0-9]+(?=\.(\s|$)))")


def fenced(value: str) -> list[str]:
    """A code block whose fence is longer than any run of backticks inside."""
    inside = parts.plain(value)
    longest = max((len(m) for m in re.findall(r"`+", inside)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *inside.splitlines(), fence]


def table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return _ready(columns, (tuple(map(text, row)) for row in rows))


def _ready(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """A table whose cells are markdown already."""
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return head + [f"| {' | '.join(row)} |" for row in rows]
