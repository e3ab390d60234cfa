"""Runs of one commit brought together for one report: who agrees with whom, who is missing, and the verdict on all; pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date

from harness.crossing import judge_crossings
from harness.errors import UsageError
from harness.merged import (
    NOT_RUN,
    NOTHING,
    WORDS,
    Absent,
    Beside,
    Between,
    Column,
    Given,
    Line,
    Merged,
    Off,
    Status,
    is_partial,
)
from harness.records import Run
from harness.verdicts import AcceptedTraces, Judgement, MetricVerdict, TestVerdict


def one(run: Run, judgement: Judgement, given: Given = NOTHING) -> Merged:
    """The content of a report on one run."""
    return merge([(run, judgement, given)])


def merge(
    judged: Sequence[tuple[Run, Judgement, Given]],
    *,
    expected: Iterable[str] = (),
    off: Iterable[Off] = (),
    today: date | None = None,
) -> Merged:
    """Runs of one commit side by side, measured ones first; UsageError when they are not of one commit.

    `expected`: names or keys of runners that must report. `off`: runners that are switched off, as of `today`.
    """
    _check(judged)
    ordered = sorted(judged, key=lambda j: (j[0].header.runner.emulated, j[0].header.runner.key))
    names = _names([run for run, _, _ in ordered])
    columns = tuple(Column(name, *each) for name, each in zip(names, ordered, strict=True))
    absent = _absent(columns, expected, off, today)
    lines = _lines(columns)
    between = _between(columns)
    status, reasons = _status(columns, absent, between)
    headline = columns[0].judgement.headline
    if len(columns) > 1 or absent or (columns and status != columns[0].judgement.status):
        headline = _headline(columns, absent, lines, status, reasons)
    return Merged(columns, absent, lines, between, _beside(columns), status, headline, tuple(reasons))


def _check(judged: Sequence[tuple[Run, Judgement, Given]]) -> None:
    """One report is of one commit of target and harness, and holds each run once."""
    if not judged:
        raise UsageError("no run to report; name the folder of one")
    seen: dict[str, str] = {}
    first = judged[0][0].header
    for run, _, given in judged:
        header, where = run.header, given.folder or run.header.run_id
        if header.run_id in seen:
            raise UsageError(f"{where}: the run {header.run_id} again; name each run once")
        seen[header.run_id] = where
        for what, here, there in (
            ("target", header.target.name, first.target.name),
            ("target commit", header.target.commit, first.target.commit),
            ("harness commit", header.harness_commit, first.harness_commit),
        ):
            if here != there:
                raise UsageError(
                    f"{where}: {what} {here or 'unknown'}, and {there or 'unknown'} in {seen[first.run_id]}: "
                    "one report is of one commit; report these runs apart"
                )


def _names(runs: Sequence[Run]) -> list[str]:
    """Runner keys; where several runs share one, with what tells them apart."""

    def patched(run: Run) -> str:
        patches = run.header.target.patches
        return f"{run.header.runner.key}{''.join(f' +{p}' for p in patches)}"

    names = [run.header.runner.key for run in runs]
    for longer in (patched, lambda run: f"{patched(run)} {run.header.run_id}"):
        count = Counter(names)
        names = [n if count[n] == 1 else longer(run) for n, run in zip(names, runs, strict=True)]
    return names


def _absent(
    columns: Sequence[Column], expected: Iterable[str], off: Iterable[Off], today: date | None
) -> tuple[Absent, ...]:
    there = {name for c in columns for name in (c.run.header.runner.name, c.run.header.runner.key)}
    switched = {o.runner: o for o in off}
    found = []
    for name in dict.fromkeys((*expected, *switched)):
        if name in there:
            continue
        o = switched.get(name)
        if o is None:
            found.append(
                Absent(name, "did not report: its run failed before it left a run folder, or was lost")
            )
        elif today is not None and date.fromisoformat(o.last_day) < today:
            found.append(Absent(name, f"switched off, and its last day was {o.last_day}: {o.reason}"))
        else:
            found.append(Absent(name, f"switched off until {o.last_day}: {o.reason}", off=True))
    return tuple(found)


def _lines(columns: Sequence[Column]) -> tuple[Line, ...]:
    tables = [c.tests for c in columns]
    lines = []
    for test in sorted(set().union(*tables)):
        found = [t.get(test) for t in tables]
        suite = next(v.suite for v in found if v is not None)
        outcomes = [
            None if c.emulated or v is None else outcome(v) for c, v in zip(columns, found, strict=True)
        ]
        cells = tuple(NOT_RUN if v is None else v.verdict for v in found)
        lines.append(Line(test, suite, cells, _agreement(outcomes, sum(not c.emulated for c in columns))))
    return tuple(lines)


def outcome(verdict: TestVerdict) -> str | None:
    """What the target did: `passed` or `failed`; None when the verdict says nothing of the target."""
    if verdict.verdict in ("lost", "missing", "error", "infrastructure", "control_failed"):
        return None
    found = None if verdict.record is None else verdict.record.outcome
    return found if found in ("passed", "failed") else None


def _agreement(outcomes: Sequence[str | None], measured: int) -> str:
    known = [o for o in outcomes if o is not None]
    if len(known) > 1:
        return "agree" if len(set(known)) == 1 else "differ"
    return "only_one" if known and measured > 1 else "none"


def _between(columns: Sequence[Column]) -> tuple[Between, ...]:
    """Traces of each two measured columns."""
    found = []
    for a, b in itertools.combinations([c for c in columns if not c.emulated], 2):
        traces = {f"{test}::{t.name}": t for test, record in b.run.by_test().items() for t in record.traces}
        found += [Between(a.name, c) for c in judge_crossings(a.run, [AcceptedTraces(b.name, traces)])]
    return tuple(found)


def _beside(columns: Sequence[Column]) -> tuple[Beside, ...]:
    if len(columns) < 2:
        return ()
    tables = [
        {(m.test, m.metric, m.statistic): m for m in c.judgement.metrics if m.verdict != "shown"}
        for c in columns
    ]
    found = []
    for key in sorted(set().union(*tables)):
        cells = tuple(t.get(key) for t in tables)
        base = next(
            (n for n, m in enumerate(cells) if m is not None and m.median and not columns[n].emulated), None
        )
        ratios: list[float | None] = []
        whys = []
        for n, m in enumerate(cells):
            why = "" if n == base else _not_comparable(columns, cells, base, n)
            ratio = None
            if base is not None and n != base and not why:
                first = cells[base]
                assert first is not None
                assert m is not None
                assert m.median is not None
                assert first.median
                ratio = m.median / first.median
            ratios.append(ratio)
            whys.append(why)
        unit = next(m.unit for m in cells if m is not None)
        found.append(Beside(*key, unit, cells, tuple(ratios), tuple(whys)))
    return tuple(found)


def _not_comparable(
    columns: Sequence[Column], cells: Sequence[MetricVerdict | None], base: int | None, n: int
) -> str:
    """Why the value of a column has no ratio to the base's; empty when it has."""
    here = cells[n]
    if here is None or here.median is None:
        return "no value"
    if columns[n].emulated:
        return "not comparable: emulated"
    if base is None:
        return "not comparable: no measured value"
    first = cells[base]
    assert first is not None
    if here.unit != first.unit:
        return f"not comparable: {here.unit}, not {first.unit}"
    ours, theirs = columns[n].run.header, columns[base].run.header
    if ours.configuration_digest != theirs.configuration_digest:
        return "not comparable: another configuration"
    if dict(here.work) != dict(first.work):
        return "not comparable: another amount of work"
    return ""


def _status(
    columns: Sequence[Column], absent: Sequence[Absent], between: Sequence[Between]
) -> tuple[Status, list[str]]:
    reasons = [f"{a.runner} {a.why}" for a in absent if not a.off]
    differ = [b for b in between if b.crossing.verdict == "differ"]
    open_ = [b for b in between if b.crossing.verdict == "inconclusive"]
    for found, words in ((differ, "differ between runs"), (open_, "are inconclusive between runs")):
        if found:
            c = found[0].crossing
            reasons.append(
                f"{len(found)} traces {words} (first: {c.test} {c.trace}: {found[0].here}, {c.other})"
            )
    bundles = [b for c in columns for b in c.given.bundles]
    bad = [b for b in bundles if b.get("verdict") != "agree"]
    for bundle in bad:
        reasons.append(f"a checkpoint bundle carried across {bundle.get('verdict')}: {bundle.get('reason')}")
    statuses = {c.judgement.status for c in columns}
    if "red" in statuses or differ or any(b.get("verdict") == "differ" for b in bad):
        return "red", reasons
    return ("no_verdict" if "no_verdict" in statuses or reasons else "green"), reasons


def _headline(
    columns: Sequence[Column],
    absent: Sequence[Absent],
    lines: Sequence[Line],
    status: Status,
    reasons: Sequence[str],
) -> str:
    parts = []
    for word in ("red", "no_verdict", "green"):
        names = [c.name + _mark(c) for c in columns if c.judgement.status == word]
        if names:
            parts.append(f"{', '.join(names)} {WORDS[word].lower()}")
    parts += [f"{a.runner} switched off" for a in absent if a.off]
    differ = sum(line.agreement == "differ" for line in lines)
    if differ:
        parts.append(f"{differ} {'tests differ' if differ > 1 else 'test differs'} between runners")
    parts += [f"{c.lacking} not run on {c.name}, which lacks what they need" for c in columns if c.lacking]
    emulated = all(c.emulated for c in columns)
    planted = sorted({c.run.header.defect for c in columns if c.run.header.defect is not None})
    marks = (
        ["EMULATED"] * emulated
        + [f"DEFECT {d} PLANTED" for d in planted]
        + ["PARTIAL"] * is_partial(columns, absent)
    )
    why = "; ".join([*reasons, *parts])
    return f"{' '.join([*marks, WORDS[status]])}: {why}"


def _mark(column: Column) -> str:
    runner = column.run.header.runner
    return " (emulated by a stand-in)" if runner.stand_in else " (emulated)" if runner.emulated else ""
