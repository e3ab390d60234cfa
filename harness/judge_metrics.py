"""The metrics of a run's repeated tests beside the baseline's: one number a process, one family of tests; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.policy import Rule, key_of, rule_of, summary
from harness.records import Header, Metric, Record, Run
from harness.verdicts import Baseline, MetricVerdict

if TYPE_CHECKING:
    from harness.stats import Finding

SAME_MACHINE = ("processor", "cpu_usable")
"""What must be equal before two times may be compared, beside what every run needs."""


@dataclass
class Taken:
    """One row of a run: a value for each process that gave one. `bad`: why a process gave none. `timed`: the samples
    after warm-up, by process, of a row whose trend is told."""

    test: str
    metric: str
    statistic: str
    units: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    samples: int = 0
    bad: list[str] = field(default_factory=list)
    timed: list[tuple[float, ...]] = field(default_factory=list)
    trends: list[float] = field(default_factory=list)
    work: dict[str, float] = field(default_factory=dict)
    kind: str = ""
    """Unit of what was measured, also where the statistic has none."""
    repeats: set[int | None] = field(default_factory=set)
    """Of the processes that gave a value."""


def collect(run: Run, rules: Sequence[Rule]) -> dict[str, Taken]:
    """Every row of the run, by key; metrics that no rule names have their median alone."""
    rows: dict[str, Taken] = {}
    named = {name: rule_of(rules, name) for name in {m.name for r in run.records for m in r.metrics}}
    for record in run.records:
        if record.outcome != "passed":
            continue
        for metric in record.metrics:
            rule = named[metric.name] if record.repeat is not None else None
            for statistic in ("median",) if rule is None else rule.statistics:
                key = key_of(record.test, metric.name, statistic)
                row = rows.setdefault(key, Taken(record.test, metric.name, statistic))
                _take(row, record, metric, statistic)
    return rows


def _take(row: Taken, record: Record, metric: Metric, statistic: str) -> None:
    value = summary(metric, statistic)
    row.units.append("ratio" if statistic == "growth" else metric.unit)
    row.kind = metric.unit
    row.samples += len(metric.samples)
    row.work = dict(metric.work)
    if value is None:
        odd = sum(not math.isfinite(s) for s in metric.samples)
        what = f"{odd} of {len(metric.samples)} samples not finite" if odd else "too few samples"
        row.bad.append(f"{what}: no {statistic}")
        return
    row.values.append(value)
    row.repeats.add(record.repeat)
    if record.repeat is not None and statistic == "median" and metric.unit == "s":
        row.timed.append(metric.samples[metric.warmup :])


def mark_trends(rows: Sequence[Taken]) -> None:
    """Notes by how much the samples of which processes still trend: of all rows at once, which is what makes it quick."""
    timed = [(row, samples) for row in rows for samples in row.timed]
    if not timed:
        return
    from harness.series import judge_trends  # numpy: only where there is something to judge

    for (row, _), trend in zip(timed, judge_trends([s for _, s in timed]), strict=True):
        if trend is not None and trend.trending:
            row.trends.append(trend.change)


def judge_metrics(run: Run, baseline: Baseline | None, rules: Sequence[Rule]) -> tuple[MetricVerdict, ...]:
    """A verdict for each row, judged as one family; rows of tests that are not repeated are only shown."""
    taken = collect(run, rules)
    mark_trends(list(taken.values()))
    repeated = {r.test for r in run.records if r.repeat is not None}
    machine = differing_machine(run.header, baseline)
    found: list[MetricVerdict] = []
    asked: list[tuple[Taken, Rule, tuple[float, ...]]] = []
    for key, row in taken.items():
        rule = rule_of(rules, row.metric) if row.test in repeated else None
        base = None if baseline is None else baseline.metrics.get(key)
        if rule is None:
            found.append(shown(row, "shown", "stored and shown, not judged"))
        elif row.bad and not row.values:
            found.append(shown(row, "missing", row.bad[0], rule))
        elif len(set(row.units)) > 1:
            found.append(
                shown(row, "incomparable", f"units differ: {' and '.join(sorted(set(row.units)))}", rule)
            )
        elif len(row.values) != len(row.repeats) or len(row.repeats) < run.header.repeats:
            why = f"{len(row.values)} values of {len(row.repeats)} processes, {run.header.repeats} were to give one each"
            found.append(shown(row, "missing", why, rule))
        elif base is None:
            found.append(shown(row, "new", "the baseline does not know it", rule))
        elif base.unit != row.units[0]:
            why = f"the unit is {row.units[0]} here, {base.unit} in the baseline"
            found.append(shown(row, "incomparable", why, rule))
        elif machine:
            found.append(shown(row, "incomparable", f"another machine: {machine}", rule))
        else:
            asked.append((row, rule, base.medians))
    if asked:
        found += _compared(asked)
    found += _missing(run, baseline, rules, taken)
    return tuple(sorted(found, key=lambda m: (m.test, m.metric, m.statistic)))


def _compared(asked: Sequence[tuple[Taken, Rule, tuple[float, ...]]]) -> list[MetricVerdict]:
    from harness.stats import Series, compare  # numpy and scipy: only where there is something to judge

    series = [
        Series(b, tuple(row.values), r.minimum, r.lower_is_better, r.gate, row.kind) for row, r, b in asked
    ]
    findings = zip(asked, compare(series), strict=True)
    return [
        judged_row(row, rule, base, row.values, f, verdict=f.verdict, why=f.why, p=f.p_gate, q=f.q)
        for (row, rule, base), f in findings
    ]


def differing_machine(header: Header, baseline: Baseline | None) -> str:
    """In what the machine differs from any that the baseline's times were measured on, in words; empty: in nothing."""
    if baseline is not None and baseline.metrics and not baseline.measured:
        return "the baseline does not say on what machine its times were taken"
    for source in () if baseline is None else baseline.measured:
        for name in SAME_MACHINE:
            here, there = header.machine.get(name), source.get(name)
            if here != there:
                return f"{name} {here} here, {there} in the baseline"
    return ""


def _missing(
    run: Run, baseline: Baseline | None, rules: Sequence[Rule], taken: dict[str, Taken]
) -> list[MetricVerdict]:
    """Rows that the baseline has, of tests that this run planned, and that it did not give."""
    planned = set(run.header.planned or ())
    lost = []
    for key, base in () if baseline is None else baseline.metrics.items():
        test, metric, statistic = base.row
        rule = rule_of(rules, metric)
        if key not in taken and test in planned and rule is not None and statistic in rule.statistics:
            row = Taken(test, metric, statistic, [base.unit])
            lost.append(shown(row, "missing", "the baseline has it, this run gave no value", rule))
    return lost


def shown(row: Taken, verdict: str, why: str, rule: Rule | None = None) -> MetricVerdict:
    """The row with a verdict that no comparison stands behind."""
    why = "; ".join(dict.fromkeys([why, *row.bad[:1]]))
    return MetricVerdict(
        row.test,
        row.metric,
        row.units[0],
        row.samples,
        statistics.median(row.values) if row.values else None,
        verdict=verdict,
        why=_with_trend(row, why),
        statistic=row.statistic,
        processes=len(row.values),
        gate=rule is not None and rule.gate,
        work=row.work,
    )


def judged_row(
    row: Taken,
    rule: Rule,
    base: Sequence[float],
    head: Sequence[float],
    f: Finding,
    *,
    verdict: str,
    why: str,
    p: float | None = None,
    q: float | None = None,
) -> MetricVerdict:
    """The row's verdict with the numbers of its finding; `base` and `head` are the values that were judged."""
    new = float(statistics.median(head)) if head else None
    old = float(statistics.median(base)) if base else None
    return MetricVerdict(
        row.test,
        row.metric,
        row.units[0],
        row.samples,
        new,
        old,
        _finite_ratio(new, old),
        verdict,
        _with_trend(row, why),
        row.statistic,
        len(head),
        len(base),
        rule.gate,
        f.change,
        f.low,
        f.high,
        p,
        q,
        f.detectable,
        f.noise,
        rule.minimum,
        row.work,
    )


def _finite_ratio(head: float | None, base: float | None) -> float | None:
    """head / base; None when one is unknown or the ratio is not finite."""
    ratio = head / base if head is not None and base else None
    return ratio if ratio is not None and math.isfinite(ratio) else None


def _with_trend(row: Taken, why: str) -> str:
    """The reason, with a word on samples that still trend after the warm-up."""
    if not row.trends:
        return why
    middle = statistics.median(row.trends)
    count = f"{len(row.trends)} of {len(row.values)} processes"
    return f"{why}; samples still trend after warm-up in {count}, by {middle:+.1%} over the run"
