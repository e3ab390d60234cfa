"""Defects of speed and memory: planted runs of several fresh processes are judged against clean ones, on this machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness import policy
from harness.judge_metrics import collect, judge_metrics
from harness.planting import Clean, Planted, plant_all, run_suite
from harness.policy import Rule
from harness.records import Run, record_from_json, to_json
from harness.verdicts import Baseline, BaselineMetric, MetricVerdict

BASE, HEAD = "base", "head"
BASE_PROCESSES = 5
HEAD_PROCESSES = 3
"""The fewest that have a verdict."""
WIDER = 2.0
"""How many times its noise a metric must show when only its scatter was made larger."""
CERTAIN = 2.0
"""From so many times what it calls detectable on, the judge must find a change."""


@dataclass(frozen=True)
class Bench:
    """Clean runs of the tests that a defect names: `base` is what it is judged against, `head` what it alters if it is
    one of records."""

    base: Run
    head: Run
    rules: tuple[Rule, ...]


def plant_every(
    chosen: Sequence[Any], say: Callable[[str], None], jobs: int = 2
) -> tuple[list[Clean], list[Planted]]:
    """All defects: first, `jobs` at once, those that a test catches; then, suite by suite, those with a metric."""
    timed = sorted({d.suite for d in chosen if d.metric is not None})
    clean, planted = plant_all([d for d in chosen if d.suite not in timed], say, jobs)
    for suite in timed:
        its_clean, its_planted = plant_repeated(suite, [d for d in chosen if d.suite == suite], say)
        clean.append(its_clean)
        planted += its_planted
    return clean, planted


def plant_repeated(
    suite: str, defects: Sequence[Any], say: Callable[[str], None]
) -> tuple[Clean, list[Planted]]:
    """Clean runs and defects, selection by selection: what else a process does changes its times.

    One process at a time, since a busy machine would be a defect too.
    """
    rules = policy.load()
    planted: list[Planted] = []
    passed, faults = 0, []
    for select in dict.fromkeys(d.select for d in defects):
        mine = [d for d in defects if d.select == select]
        runs, fault = _collect(suite, select, schedule(mine))
        if fault:
            faults.append(fault)
        else:
            passed += len({r.test for r in runs[BASE].records})
        for defect in mine:
            head = runs.get(HEAD if defect.alter is not None else defect.name)
            if fault or head is None:
                why = f"no clean run: {fault}" if fault else "no answer: its run left nothing"
                found = Planted(defect.name, suite, "broken", None, why, 0.0)
            else:
                bench = Bench(runs[BASE], runs.get(HEAD, runs[BASE]), rules)
                head = head if defect.alter is None else altered(head, defect.alter)
                found = judge_planted(defect, head, bench)
            say(f"{found.defect}: {found.result} ({found.why})")
            planted.append(found)
    told = faults[0] if faults else f"{passed} tests passed in {BASE_PROCESSES} processes each"
    say(f"{suite}: clean target: {'NOT CLEAN' if faults else 'clean'} ({told})")
    order = [d.name for d in defects]
    return Clean(suite, not faults, told), sorted(planted, key=lambda p: order.index(p.defect))


def schedule(defects: Sequence[Any]) -> list[tuple[str, int]]:
    """What is run for defects of one selection, in order: BASE, HEAD or a defect's name, in how many processes.

    Where an effect is small, in turns of one process each, so that a machine that becomes slower slows down all alike.
    """
    wanted = {BASE: BASE_PROCESSES}
    if any(d.alter is not None for d in defects):
        wanted[HEAD] = HEAD_PROCESSES
    # A fault that a test of its own catches needs one process.
    wanted |= {d.name: HEAD_PROCESSES if d.metric else 1 for d in defects if d.alter is None}
    if all(d.expect == "caught" for d in defects):
        return list(wanted.items())
    turns = range(max(wanted.values()))
    return [(who, 1) for turn in turns for who, count in wanted.items() if turn < count]


def _collect(suite: str, select: str, asked: Sequence[tuple[str, int]]) -> tuple[dict[str, Run], str]:
    """The runs by what they are of, and why a clean one is not clean; a run that left nothing is not there."""
    parts: dict[str, list[Run]] = {}
    for who, processes in asked:
        options = ["--without-controls", "--repeat", str(processes)]
        options += [] if who in (BASE, HEAD) else ["--defect", who]
        run, output = run_suite(suite, select, options)
        if who in (BASE, HEAD):
            bad = None if run is None else next((r for r in run.records if r.outcome != "passed"), None)
            if run is None or run.header.finished is None or not run.records:
                return {}, f"the run gave no records: {output[-500:]}"
            if bad is not None:
                return {}, f"{bad.test}: {bad.kind}: {bad.reason}"
        if run is not None:
            parts.setdefault(who, []).append(run)
    return {who: joined(runs) for who, runs in parts.items()}, ""


def joined(runs: Sequence[Run]) -> Run:
    """Runs of the same tests as one: each process keeps its records, under the next number."""
    records, before = [], 0
    for run in runs:
        for record in run.records:
            number = None if record.repeat is None else before + record.repeat
            records.append(dataclasses.replace(record, repeat=number))
        before += run.header.repeats
    header = dataclasses.replace(runs[0].header, repeats=before)
    return dataclasses.replace(runs[0], header=header, records=tuple(records))


def altered(run: Run, alter: Callable[[dict[str, Any]], dict[str, Any]]) -> Run:
    """The run with each of its records changed as a defect says."""
    records = tuple(record_from_json(alter(to_json(r))) for r in run.records)
    return dataclasses.replace(run, records=records)


def judge_planted(defect: Any, head: Run, bench: Bench) -> Planted:
    """What became of a defect: a failing test catches it, or the verdict of its metric; pure."""
    seconds = round(sum(r.duration_s for r in head.records), 2) if defect.alter is None else 0.0

    def told(result: str, by: str | None, why: str) -> Planted:
        return Planted(defect.name, defect.suite, result, by, why, seconds)

    failed = next((r for r in head.records if r.outcome == "failed" and not r.control), None)
    if failed is not None:
        return told("caught", failed.test, f"{failed.kind}: {failed.reason}")
    bad = next((r for r in head.records if r.outcome != "passed"), None)
    if bad is not None or not head.records:
        why = "no records" if bad is None else f"{bad.kind}: {bad.reason}"
        return told("broken", None, f"no answer: {why}")
    if defect.metric is None:
        return told("missed", None, f"{len(head.records)} tests passed")
    rows = _rows(defect, head, bench)
    if not rows:
        return told("broken", None, f"no row {defect.metric}: it was not measured")
    row = min(rows, key=lambda r: _ORDER.index(decide(defect, r, None)))
    clean = next((r.noise for r in _rows(defect, bench.head, bench) if r.test == row.test), None)
    result = decide(defect, row, clean)
    planted = "" if defect.effect is None else f"; planted {defect.effect:+.0%}"
    return told(result, row.test if result == "caught" else None, words(row) + planted)


_ORDER = ("caught", "inconclusive", "missed", "broken")


def decide(defect: Any, row: MetricVerdict, clean_noise: float | None) -> str:
    """`caught`, `inconclusive` or `missed`, by the verdict of the defect's metric.

    `clean_noise`: what the metric shows without the defect.
    """
    if defect.effect == 0.0:
        # Nothing changed but the scatter: a change would be false, and that there is none cannot be known.
        noise = row.noise
        wider = noise is not None and clean_noise is not None and noise >= WIDER * clean_noise
        return "inconclusive" if row.verdict == "inconclusive" and wider else "missed"
    # Only another unit is the defect's doing: what else cannot be compared is this program's.
    if row.verdict == "regressed" or (row.verdict == "incomparable" and "unit" in row.why):
        return "caught"
    if row.verdict != "inconclusive" or defect.expect != "power" or row.detectable is None:
        return "missed"
    # At `detectable` itself one in five is not found.
    return "missed" if defect.effect >= CERTAIN * row.detectable else "inconclusive"


def words(row: MetricVerdict) -> str:
    """A row in a line: verdict, change, what was detectable, noise."""
    parts = [f"{_name(row)} {row.verdict}"]
    for name, value in (("change", row.change), ("detectable", row.detectable), ("noise", row.noise)):
        if value is not None:
            parts.append(f"{name} {value:{'+' if name == 'change' else ''}.1%}")
    return ", ".join(parts) if row.change is not None else f"{parts[0]}: {row.why}"


def _name(row: MetricVerdict) -> str:
    return row.metric if row.statistic == "median" else f"{row.metric}@{row.statistic}"


def _rows(defect: Any, head: Run, bench: Bench) -> list[MetricVerdict]:
    """The defect's own metric in the tests that it names, judged among all that the head has."""
    rules = bench.rules
    if defect.minimum is not None:
        name = defect.metric.partition("@")[0]
        rule = policy.rule_of(rules, name)
        if rule is not None:
            rules = (dataclasses.replace(rule, name=name, minimum=defect.minimum), *rules)
    judged = judge_metrics(head, baseline_of(bench.base, rules), rules)
    return [r for r in judged if _name(r) == defect.metric]


def baseline_of(run: Run, rules: Sequence[Rule]) -> Baseline:
    """A baseline of one run that nobody approved, for comparing on the spot."""
    metrics = {
        key: BaselineMetric(row.units[0], tuple(row.values), (row.test, row.metric, row.statistic))
        for key, row in collect(run, rules).items()
        if row.values
    }
    measured = (run.header.machine,)
    return Baseline(run.header.comparability, {}, metrics, (), "a clean run, a moment ago", measured=measured)
