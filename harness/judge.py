"""Header, records, baseline and policy in; verdicts and exit status out. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal

from harness.crossing import crossing_reasons, judge_crossings
from harness.judge_metrics import judge_metrics
from harness.judge_pairs import judge_two_stages
from harness.judge_words import metric_reasons, render_headline, render_notes
from harness.matching import expired, holds_until, matching
from harness.pair_words import pair_reasons
from harness.policy import Rule
from harness.records import Header, KnownIssue, Record, Run, suite_of
from harness.triage import Finding, is_infrastructure
from harness.verdicts import (
    RED,
    AcceptedTraces,
    Baseline,
    Judgement,
    SuiteVerdict,
    TestVerdict,
    rank_of,
)


def judge(
    run: Run,
    baseline: Baseline | None,
    *,
    today: date,
    incomparable: Mapping[str, tuple[str, str]] | None = None,
    others: Sequence[AcceptedTraces] = (),
    triaged: Mapping[str, Sequence[Finding]] | None = None,
    rules: Sequence[Rule] = (),
) -> Judgement:
    """The verdict on a run, as of `today`. `incomparable`: baselines exist, but differ under these names.
    `others`: traces accepted on other runners. `triaged`: by test, the causes that its text and logs show.
    `rules`: how metrics are judged; without any they are only shown."""
    tests = _judge_tests(run, baseline, today, triaged or {})
    suites = tuple(_judge_suite(s, tests, run) for s in sorted({t.suite for t in tests}))
    compared = run.pairs is not None
    metrics = judge_two_stages(run, rules) if compared else judge_metrics(run, baseline, rules)
    crossings = judge_crossings(run, others)
    reasons = _reasons(run, tests, suites, incomparable)
    reasons += crossing_reasons(crossings)
    reasons += pair_reasons(run, metrics)
    reasons += metric_reasons(metrics)
    red = any(t.verdict in RED for t in tests) or any(c.verdict == "differ" for c in crossings)
    red = red or any(m.red for m in metrics)
    status: Literal["green", "red", "no_verdict"] = "red" if red else "no_verdict" if reasons else "green"
    notes = render_notes(run, baseline, incomparable, metrics)
    return Judgement(
        status,
        render_headline(status, run, tests, reasons, metrics),
        tuple(reasons),
        tests,
        suites,
        metrics,
        tuple(notes),
        crossings,
    )


def _judge_tests(
    run: Run, baseline: Baseline | None, today: date, triaged: Mapping[str, Sequence[Finding]]
) -> tuple[TestVerdict, ...]:
    records = run.by_test()
    base = baseline.tests if baseline is not None else {}
    planned = set(run.header.planned or ())
    groups: dict[str, list[Record | None]] = {}
    for record in run.records:
        if record.outcome == records[record.test].outcome:
            groups.setdefault(record.test, []).append(record)
    verdicts = []
    for t in sorted(planned | set(records)):
        # Of several records that ended alike, one that is fine must not hide one that is not.
        causes = tuple(triaged.get(t, ()))
        found = [_judge_test(t, run, r, base.get(t), today, causes) for r in groups.get(t, [None])]
        worst = max(found, key=_badness)
        verdicts.append(_with_lost_repeats(worst, groups.get(t, ()), _processes(run, t)))
    if run.header.planned is not None and not run.header.selection.partial:
        verdicts += [
            TestVerdict(t, suite_of(t), "missing", "the baseline has it, this run did not plan it")
            for t in sorted(set(base) - planned - set(records))
        ]
    return tuple(verdicts)


def _badness(v: TestVerdict) -> tuple[bool, int, str]:
    """Of verdicts that are alike, the words of the record decide: its many samples say nothing of the outcome."""
    record = None if v.record is None else dataclasses.replace(v.record, metrics=(), traces=())
    return not v.green, -rank_of(v), repr(record)


def _judge_test(
    test: str,
    run: Run,
    record: Record | None,
    base: str | None,
    today: date,
    causes: tuple[Finding, ...] = (),
) -> TestVerdict:
    suite = record.suite if record is not None else suite_of(test)

    def say(verdict: str, why: str, issue: KnownIssue | None = None) -> TestVerdict:
        return TestVerdict(test, suite, verdict, why, record, issue, causes)

    if record is None:
        running = test in run.running
        return say("lost", "was running when its process ended" if running else "left no record")
    if record.outcome == "error" or (record.outcome == "failed" and record.kind == "harness"):
        return say("error", f"{record.kind or 'harness'}: {record.reason}")
    if record.outcome == "skipped":
        return _judge_skip(record, base, today, say)
    # A baseline that skipped the test never saw it pass or fail.
    good, seen = {"passed": ("same", "passed"), "failed": ("fixed", "passed, the baseline failed")}.get(
        base or "", ("new", "passed, the baseline skipped it" if base == "skipped" else "passed")
    )
    if record.control or test in run.header.controls:
        if record.outcome == "failed":
            return say("control_failed", record.reason or "the control did not hold")
        return say(good, "the control holds")
    # Of entries that name one test, the one that covers this kind and still holds speaks first.
    issues = [] if run.header.defect is not None else list(run.header.known_issues)  # they know no defect
    if record.outcome == "failed":
        issues = [i for i in issues if not i.kinds or record.kind in i.kinds]
    issue = _known_issue(run.header, sorted(issues, key=lambda i: expired(i, today)), test)
    if record.outcome == "passed":
        if issue is not None:
            return say("known_fixed", f"passed: remove the entry '{issue.id}' from known_issues.toml", issue)
        return say(good, seen)
    if issue is None and record.kind == "infrastructure":
        return say("infrastructure", record.reason or "no reason given")
    if issue is None and record.kind in _UNANSWERED and is_infrastructure(causes):
        return say("infrastructure", f"{causes[0].signature.cause} ({record.kind}: {record.reason})")
    if issue is None:
        return say("newly_failing" if base == "passed" else "failing", f"{record.kind}: {record.reason}")
    if expired(issue, today):
        why = f"known issue '{issue.id}' ended on {issue.last_day}: mend it, or renew the entry with a reason"
        return say("known_expired", why, issue)
    return say("known", issue.reason, issue)


def _processes(run: Run, test: str) -> set[int]:
    """Numbers of the fresh processes that were to run a repeated test."""
    if run.pairs is not None and test in run.pairs.tests:
        return set(run.pairs.numbers("head", test))
    return set(range(1, run.header.repeats + 1))


def _with_lost_repeats(
    verdict: TestVerdict, records: Sequence[Record | None], wanted: set[int]
) -> TestVerdict:
    """The verdict, or `lost` when a test that is otherwise fine left no record in one of its processes."""
    there = {r.repeat for r in records if r is not None and r.repeat is not None}
    if not there or not verdict.green or wanted <= there:
        return verdict
    why = f"{len(wanted - there)} of {len(wanted)} processes left no record of it"
    return dataclasses.replace(verdict, verdict="lost", why=why)


_UNANSWERED = frozenset({"exception", "masked_error", "crash", "hang", "stall", "assertion", "checkpoint"})
"""Kinds in which something broke; a wrong answer is the target's, whatever else its log shows."""


def _known_issue(header: Header, issues: Sequence[KnownIssue], test: str) -> KnownIssue | None:
    return matching(issues, test=test, header=header)


def _judge_skip(record: Record, base: str | None, today: date, say: Any) -> TestVerdict:
    verdict: TestVerdict
    reason = (record.reason or "").strip()
    if record.kind == "capability" and reason:
        # It needs no last day: each run asks the machine again.
        ran = base in ("passed", "failed")
        verdict = say("capability_lost" if ran else "lacking", reason + (f"; the baseline {base}" * ran))
    elif not reason or not record.last_day:
        verdict = say(
            "skip_unaccepted", f"{reason or 'no reason given'} (last day: {record.last_day or 'none'})"
        )
    elif not holds_until(record.last_day, today):
        verdict = say("skip_unaccepted", f"{record.reason} (its last day was {record.last_day})")
    else:
        verdict = say("skipped", f"{record.reason} (until {record.last_day})")
    return verdict


def _judge_suite(suite: str, tests: Sequence[TestVerdict], run: Run) -> SuiteVerdict:
    mine = [t for t in tests if t.suite == suite]
    counts: dict[str, int] = {}
    for t in mine:
        counts[t.verdict] = counts.get(t.verdict, 0) + 1
    controls = [
        t for t in mine if t.test in run.header.controls or (t.record is not None and t.record.control)
    ]
    held = [t for t in controls if t.record is not None and t.record.outcome == "passed"]
    inconclusive = None
    if not controls and any(t.verdict != "missing" for t in mine):
        inconclusive = "no positive control was planned"
    elif len(held) < len(controls):
        inconclusive = "a positive control did not hold: a pass here proves nothing"
    planned = sum(t.verdict != "missing" for t in mine)
    duration_s = sum(t.record.duration_s for t in mine if t.record is not None)
    return SuiteVerdict(suite, planned, counts, duration_s, inconclusive)


def _reasons(
    run: Run,
    tests: Sequence[TestVerdict],
    suites: Sequence[SuiteVerdict],
    incomparable: Mapping[str, tuple[str, str]] | None,
) -> list[str]:
    """Why a run that is not red is not green either."""
    header, reasons = run.header, []
    if header.planned is None:
        reasons.append("pytest ended before the tests were collected")
    elif not header.planned:
        reasons.append("nothing ran: no test was selected")
    elif not run.records:
        reasons.append("nothing ran: no test left a record")
    if header.finished is None:
        reasons.append("pytest did not end by itself")
    for verdict in (
        "infrastructure",
        "lost",
        "missing",
        "error",
        "capability_lost",
        "skip_unaccepted",
        "control_failed",
    ):
        count = sum(t.verdict == verdict for t in tests)
        if count:
            reasons.append(f"{count} {verdict.replace('_', ' ')}")
    reasons += [f"suite {s.suite} is inconclusive ({s.inconclusive})" for s in suites if s.inconclusive]
    if incomparable is not None:
        what = ", ".join(f"{n} ({a} here, {b} there)" for n, (a, b) in sorted(incomparable.items()))
        reasons.append(f"incomparable with what was accepted: {what}")
    reasons += [f"damaged run folder: {p}" for p in run.problems]
    return reasons
