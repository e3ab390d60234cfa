"""Markdown in which text from tests and logs stays text: lines, code blocks, tables and what needs a person; pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

from harness.report_parts import parts


def text(value: str) -> str:
    """One line in which nothing is markup: no markdown link, mention or reference to an issue comes alive."""
    line = " ".join(parts.plain(value).split()).translate(_ESCAPES)
    # A line that begins so would be a list, a rule or a heading.
    if line[:1] in _BEGINNINGS:
        line = _BEGINNING.sub(lambda m: f"\\{m[0]}" if m[0] in "-=" else f"{m[0]}\\", line)
    return line


cached = functools.lru_cache(maxsize=1 << 16)(text)
"""Names come again and again in the rows of many metrics."""

_ESCAPES = {
    **{ord(c): f"\\{c}" for c in "\\`*_{}[]()+!|~"},
    **{ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("@"): "@\u200b", ord("#"): "\\#\u200b"},
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
    """A table of text."""
    return ready(columns, (tuple(map(text, row)) for row in rows))


def ready(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """A table whose cells are markdown already: two lines of head, then one a row."""
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return head + [f"| {' | '.join(row)} |" for row in rows]


def trouble(
    t: parts.Trouble, run: str = "", *, folded: bool = False, say: Callable[[str], str] = text
) -> list[str]:
    """What needs a person: a heading, meaning, detail, causes, and the command that reruns it.

    `run` names one of several; `folded`: GitHub shows the detail when it is asked for; `say` writes text from tests.
    """
    more = f" and {len(t.tests) - 1} more alike" if len(t.tests) > 1 else ""
    on = f", on {say(run)}" if run else ""
    lines = ["", f"### {t.first.verdict.replace('_', ' ')}: {say(t.first.test)}{more}{on}", ""]
    lines += [say(t.first.why), "", say(t.kind_meaning)]
    if t.detail:
        before, after = (
            (["", "<details><summary>detail</summary>"], ["", "</details>"]) if folded else ([], [])
        )
        lines += [*before, "", *fenced(t.detail), *after]
    for cause, line, remedy in t.causes:
        lines += ["", f"- cause: {say(cause)}", *(f"  {row}" for row in fenced(line)), ""]
        lines += [f"  remedy: {say(remedy)}"]
    return [*lines, "", "Again:", "", *fenced(t.rerun)]
