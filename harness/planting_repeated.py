"""Defects of speed and memory: planted runs of several fresh processes are judged against clean ones, on this machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness import policy
from harness.judge_metrics import collect, judge_metrics
from harness.planting import Clean, Planted, run_suite
from harness.policy import Rule
from harness.records import Run, record_from_json, to_json
from harness.verdicts import Baseline, BaselineMetric, MetricVerdict

BASE_PROCESSES = 5
HEAD_PROCESSES = 3
"""The fewest that have a verdict."""
WIDER = 2.0
"""How many times its noise a metric must show when only its scatter was made larger."""
FOUND = ("regressed", "incomparable", "missing")


@dataclass(frozen=True)
class Bench:
    """Clean runs of the same tests: `base` is what is judged against, `head` what defects of records alter."""

    base: Run
    head: Run
    rules: tuple[Rule, ...]


def plant_repeated(
    suite: str, defects: Sequence[Any], say: Callable[[str], None]
) -> tuple[Clean, list[Planted]]:
    """Two clean runs first, then each defect; one process at a time, since a busy machine would be a defect too."""
    clean, bench = _clean(suite, defects, say)
    planted = []
    for defect in defects:
        if bench is None:
            found = Planted(defect.name, suite, "broken", None, f"no clean runs: {clean.why}", 0.0)
        else:
            found = _plant(defect, bench)
        say(f"{found.defect}: {found.result} ({found.why})")
        planted.append(found)
    return clean, planted


def _clean(suite: str, defects: Sequence[Any], say: Callable[[str], None]) -> tuple[Clean, Bench | None]:
    select = " or ".join(dict.fromkeys(f"({d.select})" for d in defects))
    runs, why = [], ""
    for count in (BASE_PROCESSES, HEAD_PROCESSES):
        run, output = run_suite(suite, select, ["--repeat", str(count)])
        bad = [] if run is None else [r for r in run.records if r.outcome != "passed"]
        if run is None or run.header.finished is None or not run.records:
            why = f"the run gave no records: {output[-500:]}"
        elif bad:
            why = f"{bad[0].test}: {bad[0].kind}: {bad[0].reason}"
        else:
            runs.append(run)
            continue
        break
    ok = len(runs) == 2
    if ok:
        tests = len({r.test for r in runs[0].records})
        why = f"{tests} tests passed in {BASE_PROCESSES} and in {HEAD_PROCESSES} processes"
    say(f"{suite}: clean target: {'clean' if ok else 'NOT CLEAN'} ({why})")
    return Clean(suite, ok, why), Bench(runs[0], runs[1], policy.load()) if ok else None


def _plant(defect: Any, bench: Bench) -> Planted:
    if defect.alter is not None:
        head = altered(bench.head, defect.alter)
    else:
        # A fault that a test of its own catches needs one process.
        count = 1 if defect.metric is None else HEAD_PROCESSES
        options = ["--defect", defect.name, "--without-controls", "--repeat", str(count)]
        run, output = run_suite(defect.suite, defect.select, options)
        if run is None:
            why = f"no answer: {output[-500:]}"
            return Planted(defect.name, defect.suite, "broken", None, why, 0.0)
        head = run
    return judge_planted(defect, head, bench)


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
    if row.verdict != "inconclusive" or defect.expect != "power":
        return "missed"
    seen = row.detectable is not None and defect.effect >= WIDER * row.detectable
    return "missed" if seen else "inconclusive"


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
