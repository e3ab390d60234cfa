"""The report as markdown, for a pull request or a job summary."""

from __future__ import annotations

import re

from harness.records import Run
from harness.reports import parts
from harness.verdicts import Judgement

NAME = "markdown"


def render(run: Run, judgement: Judgement, *, width: int = 110, color: bool = False) -> str:
    """GitHub-flavoured markdown; text from tests and logs stays text."""
    del width, color
    lines = [f"**{text(judgement.headline)}**", ""]
    lines += [f"- {name}: {text(value)}" for name, value in parts.where(run.header)]
    found = parts.troubles(run, judgement)
    if found:
        lines += ["", f"## Needs a person ({len(judgement.needs_person)})"]
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
    metrics = list(parts.metric_rows(judgement))
    if metrics:
        lines += ["", "## Metrics", "", *table(parts.METRIC_COLUMNS, metrics)]
    crossings = list(parts.crossing_rows(judgement))
    if crossings:
        lines += ["", "## Across runners", "", *table(parts.CROSSING_COLUMNS, crossings)]
    if judgement.notes:
        lines += ["", "## Notes", "", *(f"- {text(n)}" for n in judgement.notes)]
    return "\n".join(lines) + "\n"


def text(value: str) -> str:
    """One line in which nothing is markup; links and mentions do not come alive."""
    line = " ".join(parts.plain(value).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = re.sub(r"([\\`*_{}\[\]()#+!|~])", r"\\\1", line)
    # A line that begins so would be a list, a rule or a heading.
    line = re.sub(r"^([-=]|\d+(?=\.(\s|$)))", lambda m: f"\\{m[0]}" if m[0] in "-=" else f"{m[0]}\\", line)
    return line.replace("@", "@\u200b")


def fenced(value: str) -> list[str]:
    """A code block whose fence is longer than any run of backticks inside."""
    inside = parts.plain(value)
    longest = max((len(m) for m in re.findall(r"`+", inside)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *inside.splitlines(), fence]


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return head + [f"| {' | '.join(text(cell) for cell in row)} |" for row in rows]
