"""Figures of metrics: base against head, and samples by process; pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from harness.merged import Column, Merged
from harness.policy import key_of, summary
from harness.quantities import quantity, scale_of
from harness.records import Metric, Record, Run
from harness.report_parts.html_charts import (
    Figure,
    Head,
    Spec,
    finite,
    number,
    of_kind,
    plot,
    quantitative,
    rule_at,
)
from harness.report_parts.metric_parts import judged, judged_row, name_of
from harness.verdicts import MetricVerdict

MANY = 200
"""Of more samples than this in one process, every so-manieth is drawn."""
PROCESSES = 16
"""Of more processes than this, the samples of a run are drawn in one row."""
_BAD = ("regressed", "improved")


def figures_of_changes(column: Column) -> list[Figure]:
    """Each judged metric that has a base: the medians of the processes of both sides, and the change's interval."""
    found = []
    for m in judged(column.judgement):
        base, head = sides(column, m)
        if m.change is not None and base and head:
            found.append(_change(column, m, base, head))
    return found


def sides(column: Column, m: MetricVerdict) -> tuple[list[float], list[float]]:
    """The values that were judged: one a process, of the base and of this run."""
    run, pairs = column.run, column.run.pairs
    if pairs is None:
        key = key_of(m.test, m.metric, m.statistic)
        accepted = None if column.given.baseline is None else column.given.baseline.metrics.get(key)
        return list(accepted.medians) if accepted else [], _by_process(run, m, None)
    if pairs.base is None:
        return [], []
    paired = pairs.paired(m.test)[: m.processes]
    if m.verdict == "unflagged" or not paired:
        base, head = pairs.screened("base"), pairs.screened("head")
    else:
        base, head = tuple(b for b, _ in paired), tuple(h for _, h in paired)
    return _by_process(pairs.base, m, base), _by_process(run, m, head)


def _by_process(run: Run, m: MetricVerdict, numbers: Sequence[int] | None) -> list[float]:
    found: dict[int | None, float] = {}
    for record, metric in _metrics(run, m.test, m.metric):
        value = summary(metric, m.statistic)
        if value is not None and (numbers is None or record.repeat in numbers):
            found[record.repeat] = value
    return list(found.values())


def _metrics(run: Run, test: str, name: str) -> Iterable[tuple[Record, Metric]]:
    return (
        (r, x)
        for r in run.each_by_test.get(test, ())
        if r.outcome == "passed"
        for x in r.metrics
        if x.name == name
    )


def _change(column: Column, m: MetricVerdict, base: Sequence[float], head: Sequence[float]) -> Figure:
    row = judged_row(m)
    size, unit = scale_of(m.unit, m.baseline_median or m.median)
    first = "the base" if column.run.pairs is not None else "the baseline"
    rows = [
        (side, number(v / size), str(n))
        for side, values in ((first, base), ("this run", head))
        for n, v in enumerate(values, 1)
    ]
    heads = (Head("side", "s"), Head(unit or "value", "v"), Head("process"))
    says = f"{m.verdict}{'' if m.gate else ', no gate'}: {row[3]} beside {row[2]}, change {row[4]}. {m.why}"
    order = [first, "this run"]
    y: Spec = {"field": "s", "type": "nominal", "title": None, "sort": order, "axis": {"labelLimit": 260}}
    value = quantitative("v", f"{name_of(m)} ({unit})" if unit else name_of(m))
    tip = [
        {"field": "s", "type": "nominal", "title": "side"},
        {"field": "v", "type": "quantitative", "title": unit or "value", "format": ".6g"},
    ]
    dots: Spec = {
        "mark": {"type": "tick", "thickness": 2, "size": 22, "opacity": 0.7},
        "encoding": {"x": value, "y": y, "color": {**_by_side(order)}, "tooltip": tip},
    }
    middle: Spec = {
        "mark": {"type": "point", "shape": "diamond", "size": 90, "filled": True, "style": "point-middle"},
        "encoding": {"x": {**value, "aggregate": "median"}, "y": y},
    }
    title = f"{name_of(m)} of {m.test} on {column.name}"
    specs = [plot([dots, middle], 70)]
    if m.low is not None and m.high is not None:
        specs.append(_interval(m))
    return Figure(title, says, tuple(specs), heads, tuple(rows), m.verdict in _BAD)


def _by_side(order: Sequence[str]) -> Spec:
    return {"field": "s", "type": "nominal", "scale": {"domain": list(order)}, "legend": None}


def _interval(m: MetricVerdict) -> Spec:
    """The 95 % interval of the change beside no change and the band that counts as none."""
    values = {"low": 100 * (m.low or 0), "high": 100 * (m.high or 0), "at": 100 * (m.change or 0)}
    here = {"values": [values]}
    reach = 100 * (m.minimum or 0)
    x = quantitative("low", "change in %, with its 95 % interval", scale={"zero": True})
    band: Spec = {
        "data": {"values": [{"low": -reach, "high": reach}]},
        "mark": {"type": "rect", "style": "rect-band"},
        "encoding": {"x": x, "x2": {"field": "high"}},
    }
    line: Spec = {
        "data": here,
        "mark": {"type": "rule", "strokeWidth": 2.5, "style": "mark-interval"},
        "encoding": {"x": x, "x2": {"field": "high"}},
    }
    dot: Spec = {
        "data": here,
        "mark": {"type": "point", "filled": True, "size": 60, "style": "point-middle"},
        "encoding": {"x": {**x, "field": "at"}},
    }
    return plot([*([band] if reach else []), *rule_at(x, 0.0, dash=False), line, dot], 44)


def figures_of_samples(merged: Merged) -> list[Figure]:
    """Of each metric in seconds: every sample after its warm-up, by run and process. Emulated runs have no times."""
    found: dict[tuple[str, str], dict[str, list[tuple[int, tuple[float, ...]]]]] = {}
    for c in merged.columns:
        for record in () if c.emulated else c.run.records:
            for metric in record.metrics if record.outcome == "passed" else ():
                samples = tuple(finite(metric.samples[metric.warmup :]))
                if metric.unit == "s" and samples:
                    of = found.setdefault((record.test, metric.name), {}).setdefault(c.name, [])
                    of.append((record.repeat or 1, samples))
    return [
        _samples(test, metric, runs)
        for (test, metric), runs in sorted(found.items())
        if sum(len(s) for of in runs.values() for _, s in of) >= 5
    ]


def _samples(test: str, metric: str, runs: dict[str, list[tuple[int, tuple[float, ...]]]]) -> Figure:
    every = sorted(v for of in runs.values() for _, s in of for v in s)
    size, unit = scale_of("s", every[len(every) // 2])
    rows, labels, thinned = [], [], False
    for run, processes in runs.items():
        apart = 1 < len(processes) <= PROCESSES
        for process, samples in sorted(processes):
            label = f"{run}, process {process}" if apart else run
            labels.append(label)
            step = -(-len(samples) // MANY)
            thinned = thinned or step > 1
            drawn = [*samples[::step], *((max(samples), min(samples)) if step > 1 else ())]
            summary_of = (min(samples), statistics.median(samples), max(samples))
            rows.append(
                (
                    label,
                    str(process),
                    str(len(samples)),
                    *(number(v / size, 4) for v in summary_of),
                    " ".join(number(v / size, 6) for v in drawn),
                )
            )
    heads = (
        Head("run", "r"),
        Head("process"),
        Head("samples"),
        *(Head(f"{n} ({unit})") for n in ("least", "median", "greatest")),
        Head(f"samples ({unit})", kind="sample"),
    )
    labels = list(dict.fromkeys(labels))
    y: Spec = {"field": "r", "type": "nominal", "title": None, "sort": labels, "axis": {"labelLimit": 260}}
    x = quantitative("y", f"{metric} ({unit})")
    ticks: Spec = {
        "transform": [of_kind("sample")],
        "mark": {"type": "tick", "thickness": 1, "size": 12, "opacity": 0.45},
        "encoding": {"x": x, "y": y},
    }
    box: Spec = {
        "transform": [of_kind("sample")],
        "mark": {"type": "boxplot", "extent": "min-max", "size": 7},
        "encoding": {"x": x, "y": y},
    }
    middles = [f"{run} {_middle(of, (size, unit))}" for run, of in runs.items()]
    says = f"Median over processes: {', '.join(middles)}. Every sample is a tick; boxes are quartiles, whiskers reach the ends."
    if thinned:
        says += f" Of long processes about {MANY} samples are drawn, the least and the greatest among them."
    spec = plot([ticks, box], max(44, 22 * len(labels)))
    return Figure(f"{metric} of {test}, by process", says, (spec,), heads, tuple(rows))


def _middle(processes: Sequence[tuple[int, tuple[float, ...]]], scale: tuple[float, str]) -> str:
    return quantity(statistics.median(statistics.median(s) for _, s in processes), scale)
