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

BASE_PROCESSES = 4
HEAD_PROCESSES = 3
"""The fewest that have a verdict."""
WIDER = 2.0
"""How many times its noise a metric must show when only its scatter was made larger."""
CERTAIN = 2.0
"""From so many times what it calls detectable on, the judge must find a change."""
FOUND = ("regressed", "incomparable")


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
    """Clean runs and after them the defects, selection by selection: what else a process does changes its times.

    One process at a time, since a busy machine would be a defect too.
    """
    rules = policy.load()
    planted: list[Planted] = []
    passed, faults = 0, []
    for select in dict.fromkeys(d.select for d in defects):
        mine = [d for d in defects if d.select == select]
        base, why = _run_clean(suite, select, BASE_PROCESSES)
        head = base
        if base is not None and any(d.alter is not None for d in mine):
            head, why = _run_clean(suite, select, HEAD_PROCESSES)
        if base is not None and head is not None:
            passed += len({r.test for r in base.records if not r.control})
        else:
            faults.append(why)
        for defect in mine:
            if base is None or head is None:
                found = Planted(defect.name, suite, "broken", None, f"no clean run: {why}", 0.0)
            else:
                found = _plant(defect, Bench(base, head, rules))
            say(f"{found.defect}: {found.result} ({found.why})")
            planted.append(found)
    told = faults[0] if faults else f"{passed} tests passed in {BASE_PROCESSES} processes each"
    say(f"{suite}: clean target: {'NOT CLEAN' if faults else 'clean'} ({told})")
    order = [d.name for d in defects]
    return Clean(suite, not faults, told), sorted(planted, key=lambda p: order.index(p.defect))


def _run_clean(suite: str, select: str, processes: int) -> tuple[Run | None, str]:
    """A clean run; None, and why not, when it is none."""
    run, output = run_suite(suite, select, ["--without-controls", "--repeat", str(processes)])
    if run is None or run.header.finished is None or not run.records:
        return None, f"the run gave no records: {output[-500:]}"
    bad = next((r for r in run.records if r.outcome != "passed"), None)
    return (run, "") if bad is None else (None, f"{bad.test}: {bad.kind}: {bad.reason}")


def _plant(defect: Any, bench: Bench) -> Planted:
    if defect.alter is not None:
        return judge_planted(defect, altered(bench.head, defect.alter), bench)
    # A fault that a test of its own catches needs one process.
    count = 1 if defect.metric is None else HEAD_PROCESSES
    options = ["--defect", defect.name, "--without-controls", "--repeat", str(count)]
    run, output = run_suite(defect.suite, defect.select, options)
    if run is None:
        return Planted(defect.name, defect.suite, "broken", None, f"no answer: {output[-500:]}", 0.0)
    return judge_planted(defect, run, bench)


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
    if row.verdict in FOUND:
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
    return Baseline(run.header.comparability, {}, metrics, (), "a clean run, a moment ago")
