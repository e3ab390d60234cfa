"""The matrix of a report: test by runner, grouped by suite, and what filters it; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from harness.merged import NOT_RUN, Column, Line, Merged
from harness.report_parts.html_text import anchor, heading, table, text
from harness.report_parts.parts import how_made
from harness.verdicts import GREEN, METRIC_VERDICTS, ORDER, RED, VERDICTS, TestVerdict

CHUNK = 40
"""Rows that the browser lays out together: those out of sight cost nothing."""
LONG = 1000
"""Of so many rows the browser may pass over those out of sight; fewer it lays out at once."""
WHY_LETTERS = 240

AGREEMENTS: Mapping[str, str] = {
    "differ": "passed on one measured runner and failed on another",
    "only_one": "has an outcome on one of several measured runners",
    "agree": "has the same outcome on all measured runners that have one",
    "none": "no measured runner has an outcome",
}
_MEANINGS: Mapping[str, str] = {
    **VERDICTS,
    NOT_RUN: "the run of that column did not plan the test",
    "absent": "the runner did not report",
    "off": "the runner is switched off, for a reason that the report gives",
}
_ALL = (*ORDER, *(v for v in VERDICTS if v not in ORDER))
"""Verdicts of tests, worst first."""
_WORDS: Mapping[str, str] = {"absent": "no report", "off": "off", "none": "none"}


def said(verdict: str) -> str:
    """A verdict as people read it."""
    return _WORDS.get(verdict, verdict.replace("_", " "))


def group_of(verdict: str) -> str:
    """How a verdict looks: `bad`, `open`, `known`, `idle` or `good`."""
    if verdict in RED or verdict in ("absent", "regressed", "differ", "wrong"):
        return "bad"
    if verdict in ("known", "only_one"):
        return "known"
    if verdict in ("skipped", "lacking", NOT_RUN, "off", "none", "shown", "unflagged"):
        return "idle"
    return "good" if verdict in GREEN or verdict in ("agree", "equivalent", "improved") else "open"


def tag(verdict: str) -> str:
    """A verdict by its word, with what it means for the eye beside it."""
    return f'<span class="tag {group_of(verdict)}">{text(said(verdict))}</span>'


def measured(merged: Merged) -> int:
    """How many columns are measured: fewer than two have nothing to agree about."""
    return sum(not c.emulated for c in merged.columns)


def render_matrix(merged: Merged, cards: Sequence[Mapping[str, str]]) -> str:
    """All tests, suite by suite; `cards`: of each column, the id of the card that tells of a test's trouble."""
    tests = [c.tests for c in merged.columns]
    ordered = sorted(merged.lines, key=lambda line: line.suite)
    sections = [
        _suite(merged, suite, list(lines), tests, cards)
        for suite, lines in groupby(ordered, lambda line: line.suite)
    ]
    if not sections:
        return "<p>No test was planned.</p>"
    return _filters(merged) + _legend(merged) + "".join(sections)


def style(merged: Merged) -> str:
    """The rules that hang on the columns: how many there are, and which are emulated."""
    count = len(merged.columns) + len(merged.absent)
    rules = [f":root{{--n:{count}}}"]
    hatched = [f".m td:nth-child({n})" for n, c in enumerate(merged.columns, 2) if c.emulated]
    if hatched:
        rules.append(f"{','.join(hatched)}{{background-image:var(--hatch)}}")
    return "".join(rules)


def _suite(
    merged: Merged,
    suite: str,
    lines: Sequence[Line],
    tests: Sequence[Mapping[str, TestVerdict]],
    cards: Sequence[Mapping[str, str]],
) -> str:
    start = f"suites/{suite}/"
    prefix = start if all(line.test.startswith(start) for line in lines) else ""
    name = anchor("s", suite)
    compare = measured(merged) > 1
    kind = f"m{'' if compare else ' plain'}{' long' if len(merged.lines) > LONG else ''}"
    out = [f'<section class="suite" data-suite="{text(suite)}" data-prefix="{text(prefix)}">']
    out.append(heading(3, text(suite), name))
    out.append(f"<p class=sub>{_counts(merged, suite, len(lines))}</p>")
    out.append(
        f'<div class="scroll" role="group" tabindex="0" aria-label="{text(suite)}: tests by runner">'
        f'<table role="table" class="{kind}" aria-labelledby="{name}">'
        '<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">test'
    )
    out += [_head(c) for c in merged.columns]
    for a in merged.absent:
        words = "SWITCHED OFF" if a.off else "DID NOT REPORT"
        kind = "off" if a.off else "absent"
        out.append(
            f'<th role="columnheader" scope="col" class="{kind}">{text(a.runner)}<small>{words}</small>'
        )
    if compare:
        out.append('<th role="columnheader" scope="col">agreement')
    out.append("</thead>")
    missing = "".join(
        "<td role=cell class=off>off" if a.off else "<td role=cell class=absent>no report"
        for a in merged.absent
    )
    emulated = [c.emulated for c in merged.columns]
    for first in range(0, len(lines), CHUNK):
        chunk = lines[first : first + CHUNK]
        out.append("<tbody role=rowgroup>")
        for line in chunk:
            row = anchor("t", line.test)
            shown = text(line.test[len(prefix) :])
            out.append(f"<tr role=row id={row}><th role=rowheader scope=row><a href=#{row}>{shown}</a>")
            for n, verdict in enumerate(line.cells):
                out.append(_cell(verdict, tests[n].get(line.test), cards[n].get(line.test), emulated[n]))
            out.append(missing)
            if compare:
                out.append(f"<td role=cell class={line.agreement}>{said(line.agreement)}")
        out.append("</tbody>")
    out.append("</table></div></section>")
    return "".join(out)


def _head(column: Column) -> str:
    made = how_made(column.run.header)
    kind = ' class="emu"' if column.emulated else ""
    return (
        f'<th role="columnheader" scope="col"{kind}>{text(column.name)}<small>{made}'
        f", {column.judgement.status.replace('_', ' ')}</small>"
    )


def _cell(verdict: str, found: TestVerdict | None, card: str | None, emulated: bool) -> str:
    word = said(verdict)
    if card is not None:
        word = f"<a href=#{card}>{word}</a>"
    more = "<i>emulated</i>" if emulated and verdict != NOT_RUN else ""
    if found is not None and verdict not in ("same", "new"):
        why = found.why if found.issue is None else f"{found.issue.id}: {found.why}"
        cut = why if len(why) <= WHY_LETTERS else f"{why[:WHY_LETTERS]}..."
        more += f"<small>{text(cut)}</small>"
    return f"<td role=cell class={verdict}>{word}{more}"


def _counts(merged: Merged, suite: str, count: int) -> str:
    """How a suite ended in each column, and whether its positive control held."""
    said_of = []
    for c in merged.columns:
        mine = next((s for s in c.judgement.suites if s.suite == suite), None)
        if mine is None:
            continue
        words = ", ".join(f"{mine.counts[v]} {said(v)}" for v in _ALL if mine.counts.get(v))
        name = f"{text(c.name)}: " if not merged.single else ""
        control = f" <b>inconclusive: {text(mine.inconclusive)}</b>" if mine.inconclusive else ""
        said_of.append(f"{name}{words} in {mine.duration_s:.1f} s{control}")
    return f"{count} test{'s' * (count != 1)}; {'; '.join(said_of)}"


def _filters(merged: Merged) -> str:
    """The controls, hidden until the page's script has given them life."""
    count = Counter(v for line in merged.lines for v in set(line.cells))
    chips = "".join(
        f'<label class="chip {group_of(v)}"><input type="checkbox" name="v" value="{v}"> {said(v)} <b>{count[v]}</b></label>'
        for v in (*_ALL, NOT_RUN)
        if count[v]
    )
    suites = "".join(f"<option>{text(s)}" for s in sorted({line.suite for line in merged.lines}))
    runners = "".join(f'<option value="{n}">{text(c.name)}' for n, c in enumerate(merged.columns))
    differ = ""
    if measured(merged) > 1:
        number = sum(line.agreement == "differ" for line in merged.lines)
        differ = f'<label class="chip bad"><input type="checkbox" id="fd"> only where runners differ <b>{number}</b></label>'
    runner = ""
    if len(merged.columns) > 1:
        runner = f'<label>Runner <select id="fr"><option value="">any{runners}</select></label>'
    total = f"{len(merged.lines):,}"
    return (
        '<form class="filters" id="filters" hidden role="search" aria-label="Filter tests"><div class="line">'
        '<label class="grow">Search <input type="search" id="fq" autocomplete="off" spellcheck="false" '
        'placeholder="words of a name or a reason"></label>'
        f'<label>Suite <select id="fs"><option value="">all{suites}</select></label>{runner}{differ}'
        '<button type="reset" id="fx">Clear</button></div>'
        f'<fieldset class="line"><legend>Verdict</legend>{chips}</fieldset></form>'
        f'<p class="sub" id="count" role="status" data-all="{len(merged.lines)}">{total} tests.</p>'
    )


def _legend(merged: Merged) -> str:
    """What the words of this report mean."""
    present = {v for line in merged.lines for v in line.cells}
    present |= {"off" if a.off else "absent" for a in merged.absent}
    rows = [(tag(v), text(_MEANINGS[v])) for v in _MEANINGS if v in present]
    if measured(merged) > 1:
        agreed = {line.agreement for line in merged.lines}
        rows += [(tag(a), f"agreement: {text(m)}") for a, m in AGREEMENTS.items() if a in agreed]
    judged = {m.verdict for c in merged.columns for m in c.judgement.metrics}
    rows += [(tag(v), f"a metric: {text(m)}") for v, m in METRIC_VERDICTS.items() if v in judged]
    words = "What the words mean"
    return (
        f"<details class=legend><summary>{words}</summary>{table(words, ('word', 'meaning'), rows)}</details>"
    )
