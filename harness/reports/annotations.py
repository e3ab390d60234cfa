"""The report as GitHub workflow commands: annotations at the lines of tests that need a person, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.merged import WORDS, Column, Merged
from harness.report_parts import merged_parts, metric_parts, parts
from harness.report_parts.fitting import short
from harness.report_parts.junit_cases import other_reasons
from harness.verdicts import RED, Crossing, MetricVerdict

NAME = "annotations"
MOST = 10
"""GitHub shows so many of each level a step, and drops the rest without a word."""
_NAME, _TITLE, _MESSAGE, _NAMED = 120, 250, 4000, 5
"""Characters of a test's name, of a title and of a message; names of those left out. A message may have 64 KB."""
Level = Literal["error", "warning", "notice"]
_LEVEL: dict[str, Level] = {"red": "error", "no_verdict": "warning", "green": "notice"}


@dataclass(frozen=True)
class Told:
    """One annotation; without a file it belongs to the run."""

    level: Level
    title: str
    message: str
    file: str | None = None
    line: int | None = None


def render(merged: Merged, *, width: int = 110, color: bool = False) -> str:
    """One command a line: red is an error, no verdict a warning, an improved metric a notice.

    The first line is the verdict. At most as many of a level as GitHub shows; the last then tells what was left out.
    """
    del width, color
    told = [Told(_LEVEL[merged.status], WORDS[merged.status], merged.headline), *_all(merged)]
    lines = []
    for level in ("error", "warning", "notice"):
        lines += [_command(t) for t in _most(level, [t for t in told if t.level == level])]
    # GitHub shows them in this order: what says the verdict comes first, whatever its level.
    first = _command(told[0])
    return "\n".join([first, *(line for line in lines if line != first)]) + "\n"


def _all(merged: Merged) -> Iterable[Told]:
    for a in merged.absent:
        if not a.off:
            yield Told("error", f"{a.runner} did not report", f"{a.runner} {a.why}")
    yield from _troubles(merged)
    for c in merged.columns:
        on = "" if merged.single else f" on {c.name}"
        judged = metric_parts.judged(c.judgement)
        for m in judged:
            yield from _metric(m, on)
        for line in metric_parts.whys(m for m in judged if m.unsettled):
            yield Told("warning", f"metrics {line.partition(':')[0]}{on}", line)
        for crossing in c.judgement.crossings:
            yield from _crossing(crossing, on)
        for packed, loaded, verdict, why in merged_parts.bundle_rows(c):
            if verdict != "agree":
                level: Level = "error" if verdict == "differ" else "warning"
                yield Told(level, f"checkpoint bundle: {verdict}", f"{packed} to {loaded}: {why}")
        for reason in other_reasons(c):
            yield Told("warning", f"no verdict{on}", reason)
    for b in merged.between:
        yield from _crossing(b.crossing, f" on {b.here}")


def _troubles(merged: Merged) -> list[Told]:
    """What needs a person; what goes wrong alike on several runs is told once."""
    groups: dict[tuple[str, ...], list[tuple[Column, parts.Trouble]]] = {}
    for c in merged.columns:
        for t in parts.troubles(c.run, c.judgement):
            groups.setdefault((t.first.verdict, t.kind_meaning, *t.tests), []).append((c, t))
    return [_trouble(members, merged.single) for members in groups.values()]


def _trouble(members: Sequence[tuple[Column, parts.Trouble]], single: bool) -> Told:
    t = members[0][1]
    file, _, name = t.first.test.partition("::")
    more = f" and {len(t.tests) - 1} more alike" if len(t.tests) > 1 else ""
    on = "" if single else f" on {', '.join(c.name for c, _ in members)}"
    title = f"{t.first.verdict.replace('_', ' ')}: {short(parts.plain(name), _NAME)}{more}{on}"
    lines = [t.first.why, t.kind_meaning, *t.detail.splitlines()]
    lines += [f"cause: {cause}; remedy: {remedy}" for cause, _, remedy in t.causes]
    # What a person needs most is last, and must not be what is cut.
    message = short(parts.plain("\n".join(lines)), _MESSAGE)
    if len(t.rerun) <= _MESSAGE:  # a command that is cut would run other tests
        message += f"\nagain: {t.rerun}"
    level: Level = "error" if t.first.verdict in RED else "warning"
    return Told(level, title, message, file, t.first.record.line if t.first.record else None)


def _metric(m: MetricVerdict, on: str) -> Iterable[Told]:
    """What became worse or better; what is not settled is told together with all that say the same."""
    level: Level = "error" if m.red else "notice"
    if m.red or m.verdict == "improved":
        row = dict(zip(metric_parts.JUDGED_COLUMNS, metric_parts.judged_row(m), strict=True))
        name = short(parts.plain(f"{m.test.partition('::')[2]} {metric_parts.name_of(m)}"), _NAME)
        message = f"{m.why}: {row['base']} before, {row['this run']} now, {row['change (95 %)']}"
        yield Told(level, f"metric {m.verdict}: {name}{on}", message, m.test.partition("::")[0])


def _crossing(c: Crossing, on: str) -> Iterable[Told]:
    if c.verdict != "agree":
        level: Level = "error" if c.verdict == "differ" else "warning"
        title = f"trace {c.verdict}: {c.trace}{on} beside {c.other}"
        yield Told(level, title, f"{c.test}: {c.reason}", c.test.partition("::")[0])


def _most(level: str, told: Sequence[Told]) -> list[Told]:
    """As many as GitHub shows, the last of which tells of those that it would not."""
    if len(told) <= MOST:
        return list(told)
    out = told[MOST - 1 :]
    names = "; ".join(short(parts.plain(t.title), _NAME) for t in out[:_NAMED])
    rest = f"; and {len(out) - _NAMED} more" if len(out) > _NAMED else ""
    title = f"{len(out)} more {level}s left out"
    return [*told[: MOST - 1], Told(out[0].level, title, f"{names}{rest}")]


def _command(t: Told) -> str:
    file = "" if t.file is None else " ".join(parts.plain(t.file).split())
    properties = {} if not file else {"file": file} | ({} if t.line is None else {"line": str(t.line)})
    properties["title"] = short(" ".join(parts.plain(t.title).split()), _TITLE)
    words = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{t.level} {words}::{_data(short(parts.plain(t.message).strip(), 2 * _MESSAGE + 10))}"


def _data(value: str) -> str:
    """Text of a command: a line break in it would begin another line, and perhaps another command.

    `##[` begins a command of the older form wherever it stands.
    """
    value = value.replace("##[", "##\u200b[")
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
