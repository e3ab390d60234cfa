"""What becomes a test case of a JUnit report, and how it ended there; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.crossing import crossing_reasons
from harness.judge_words import metric_reasons
from harness.merged import Column, Merged
from harness.records import Record
from harness.report_parts import merged_parts, metric_parts, parts
from harness.verdicts import RED, Crossing, MetricVerdict, TestVerdict

Result = Literal["passed", "failure", "error", "skipped"]
_PASSED = frozenset({"same", "fixed", "new"})
_SKIPPED = frozenset({"known", "skipped", "lacking"})
_TAIL_LINES = 100
_TAIL_CHARACTERS = 20_000
Suite = tuple[str, list["Case"]]


@dataclass(frozen=True)
class Case:
    """One test case: `message` in a line why it ended so, `detail` the failure's text, `output` what logs show."""

    name: str
    group: str
    result: Result = "passed"
    message: str = ""
    type: str = ""
    detail: str = ""
    output: str = ""
    file: str | None = None
    line: int | None = None
    duration_s: float = 0.0
    facts: dict[str, str] = field(default_factory=dict)


def result_of(verdict: str) -> Result:
    """How a test with this verdict ended in JUnit's words; a verdict that is not known here is an error."""
    if verdict in _PASSED:
        return "passed"
    if verdict in _SKIPPED:
        return "skipped"
    return "failure" if verdict in RED else "error"


def of_column(merged: Merged, column: Column) -> Iterator[Suite]:
    """The suites of one run: its own, then metrics that were judged, traces, bundles, and why it has no verdict.

    Of several runs each one's cases are grouped under its name, so that a reader does not take them for one test.
    """
    under = "" if merged.single else f"{column.name}."
    suites: dict[str, list[Case]] = {s.suite: [] for s in column.judgement.suites}
    for t in column.judgement.tests:
        suites.setdefault(t.suite, []).append(
            _test(t, column.run.each_by_test.get(t.test, ()), column, under)
        )
    yield from suites.items()
    metrics = [_metric(m, under) for m in metric_parts.judged(column.judgement) if m.verdict != "new"]
    crossings = [_crossing(c, f"{under}traces") for c in column.judgement.crossings]
    bundles = [
        _said(" to ".join(row[:2]), f"{under}bundles", row[2].replace(" ", "_"), row[3])
        for row in merged_parts.bundle_rows(column)
    ]
    rest = other_reasons(column)
    verdict = [Case("verdict", f"{under}run", "error", "; ".join(rest), "no_verdict")] if rest else []
    for name, cases in (("metrics", metrics), ("traces", crossings), ("bundles", bundles), ("run", verdict)):
        if cases:
            yield name, cases


def of_all(merged: Merged) -> Iterator[Suite]:
    """What several runs say together: traces between them, and runners that did not report."""
    between = [_crossing(b.crossing, f"between {b.here} and {b.crossing.other}") for b in merged.between]
    if between:
        yield "between runs", between
    for a in merged.absent:
        how: Result = "skipped" if a.off else "error"
        yield f"{a.runner}", [Case("run", a.runner, how, f"{a.runner} {a.why}", "off" if a.off else "absent")]


def _test(t: TestVerdict, records: Sequence[Record], column: Column, under: str) -> Case:
    file, _, name = t.test.partition("::")
    group = file.removesuffix(".py").replace("/", ".")
    result = result_of(t.verdict)
    record = t.record
    facts = {"verdict": t.verdict, **_processes(records)}
    if t.issue is not None:
        facts |= {"known_issue": t.issue.id, "link": t.issue.link, "last_day": t.issue.last_day}
    if result not in ("passed", "skipped"):
        facts["rerun"] = parts.rerun(column.run.header, t.test)
    output = "" if result == "passed" else _output(t, column)
    return Case(
        name or file,
        under + group,
        result,
        t.why,
        t.verdict if record is None or record.kind is None else record.kind,
        (record.detail or "") if record is not None and result in ("failure", "error") else "",
        output,
        file,
        None if record is None else record.line,
        sum(r.duration_s for r in records if math.isfinite(r.duration_s)),
        facts,
    )


def _processes(records: Sequence[Record]) -> dict[str, str]:
    """In how many processes a repeated test ran, or how often one that was tried again, and how each ended."""
    if len(records) < 2 and not any(r.repeat is not None for r in records):
        return {}
    count = Counter(r.outcome for r in records)
    ended = ", ".join(f"{count[o]} {o}" for o in sorted(count))
    name = "processes" if any(r.repeat is not None for r in records) else "attempts"
    return {name: str(len(records)), "outcomes": ended}


def _output(t: TestVerdict, column: Column) -> str:
    """The failure's text where no `failure` element has it, causes with remedies, and the ends of its logs."""
    found = []
    if t.verdict in _SKIPPED and t.record is not None and t.record.detail:
        found.append(t.record.detail)
    found += [f"cause: {cause}\n{line}\nremedy: {remedy}" for cause, line, remedy in parts.causes(t)]
    tails: Mapping[str, str] = column.given.tails.get(t.test, {})
    for name, tail in tails.items():
        lines = "\n".join(tail.splitlines()[-_TAIL_LINES:])[-_TAIL_CHARACTERS:]
        found.append(f"{name}, its end:\n{lines}")
    return "\n\n".join(found)


def _metric(m: MetricVerdict, under: str) -> Case:
    """One judged metric; what is no gate fails nothing, and is skipped where it would have."""
    result: Result = "passed"
    if m.red:
        result = "failure"
    elif m.unsettled:
        result = "error"
    elif m.verdict in metric_parts.NEEDS_PERSON:
        result = "skipped"
    no_gate = "" if m.gate else " (no gate)"
    row = metric_parts.judged_row(m)
    facts = {"verdict": m.verdict, **dict(zip(metric_parts.JUDGED_COLUMNS[2:], row[2:], strict=True))}
    name = f"{m.test}::{metric_parts.name_of(m)}"
    message = f"{m.verdict}{no_gate}: {m.why}"
    return Case(
        name, f"{under}metrics", result, message, m.verdict, file=m.test.partition("::")[0], facts=facts
    )


def _crossing(c: Crossing, group: str) -> Case:
    return _said(
        f"{c.test}::{c.trace} beside {c.other}", group, c.verdict, c.reason, c.test.partition("::")[0]
    )


def _said(name: str, group: str, verdict: str, why: str, file: str | None = None) -> Case:
    """What agrees, differs, or is neither."""
    results: Mapping[str, Result] = {"agree": "passed", "differ": "failure"}
    facts = {"verdict": verdict}
    return Case(name, group, results.get(verdict, "error"), why, verdict, file=file, facts=facts)


def other_reasons(column: Column) -> list[str]:
    """Why the run has no verdict, without what its other test cases show."""
    judgement = column.judgement
    count = Counter(t.verdict for t in judgement.tests)
    shown = {f"{n} {v.replace('_', ' ')}" for v, n in count.items()}
    shown |= {*metric_reasons(judgement.metrics), *crossing_reasons(judgement.crossings)}
    return [reason for reason in judgement.reasons if reason not in shown]
