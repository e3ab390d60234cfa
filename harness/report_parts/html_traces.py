"""Traces of runs over each other, and how far they are apart beside the envelope of noise; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from harness.crossing import shared_envelopes
from harness.merged import Between, Column, Merged
from harness.parity import Envelopes, Series
from harness.records import Trace
from harness.report_parts.html_charts import (
    Figure,
    Head,
    Spec,
    looks,
    number,
    of_kind,
    plot,
    quantitative,
    rule_at,
)
from harness.verdicts import Crossing

_TICKS = [0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1]


def figures_between(merged: Merged) -> list[Figure]:
    """One figure a trace that measured runs have in common, or that two of them were judged by."""
    return _figures([c for c in merged.columns if not c.emulated], merged.between)


def figures_of(column: Column) -> list[Figure]:
    """The traces of a run over those that were accepted for its own kind of machine."""
    return [] if column.emulated else _figures([column], ())


def _figures(columns: Sequence[Column], between: Iterable[Between]) -> list[Figure]:
    found: dict[tuple[str, str], dict[str, Trace]] = {}
    for c in columns:
        for test, record in c.run.by_test().items():
            for trace in record.traces:
                if trace.values:
                    found.setdefault((test, trace.name), {})[c.name] = trace
    for c in columns:
        for (test, name), traces in found.items():
            base = None if c.given.baseline is None else c.given.baseline.traces.get(f"{test}::{name}")
            if base is not None and base.values and c.name in traces:
                traces[f"accepted on {c.run.header.runner.key}"] = base
    judged: dict[tuple[str, str], list[Between]] = {}
    for b in between:
        judged.setdefault((b.crossing.test, b.crossing.trace), []).append(b)
    return [
        _figure(test, name, traces, judged.get((test, name), []))
        for (test, name), traces in sorted(found.items())
        if len(traces) > 1
    ]


def _figure(test: str, name: str, traces: Mapping[str, Trace], judged: Sequence[Between]) -> Figure:
    steps = sorted({s for t in traces.values() for s in _by_step(t)})
    apart = [
        (f"{b.here} beside {b.crossing.other}", b.crossing, *_apart(traces, b.here, b.crossing.other))
        for b in judged
        if {b.here, b.crossing.other} <= set(traces)
    ]
    envelopes = [e for _, _, _, e in apart if e]
    # Of several pairs the narrowest envelope is drawn: each pair's own is in its verdict.
    envelope = min(envelopes, key=lambda e: max(e.values())) if envelopes else None
    heads = [Head("step", "x"), *(Head(n, kind="value") for n in traces)]
    heads += [Head(n, kind="apart") for n, *_ in apart]
    if envelope:
        heads.append(Head("envelope", kind="envelope"))
    tables = [_by_step(t) for t in traces.values()]
    rows = []
    for step in steps:
        row = [
            str(step),
            *(_said(t.get(step)) for t in tables),
            *(_said(d.get(step), 3) for _, _, d, _ in apart),
        ]
        rows.append((*row, *([_said(_tolerance(envelope, step), 2)] if envelope else [])))
    unit = next(iter(traces.values())).unit
    axis = f"{name} ({unit})" if unit else name
    left = [c for _, c, _, _ in apart if c.first_step is not None]
    specs = [_values(axis, list(traces), left, steps[-1])]
    if apart:
        specs.append(_difference([n for n, *_ in apart], bool(envelope), left, steps[-1]))
    bad = any(b.crossing.verdict != "agree" for b in judged)
    return Figure(f"{name} of {test}", _words(traces, judged), tuple(specs), tuple(heads), tuple(rows), bad)


def _words(traces: Mapping[str, Trace], judged: Sequence[Between]) -> str:
    said = [f"{b.here} beside {b.crossing.other}: {b.crossing.verdict}, {b.crossing.reason}" for b in judged]
    return ". ".join(said) or "Drawn over each other; no verdict rests on it"


def _by_step(trace: Trace) -> dict[int, float]:
    return dict(enumerate(trace.values, trace.first_step))


def _series(name: str, trace: Trace) -> Series:
    steps = tuple(_by_step(trace))
    return Series(name, steps, trace.values, noise=trace.noise)


def _apart(
    traces: Mapping[str, Trace], here: str, other: str
) -> tuple[dict[int, float | None], Envelopes | None]:
    """Relative difference by step of two traces, as parity takes it, and the envelope that it is held to."""
    a, b = _by_step(traces[here]), _by_step(traces[other])
    found: dict[int, float | None] = {}
    for step in sorted(a.keys() & b.keys()):
        x, y = a[step], b[step]
        scale = max(abs(x), abs(y))
        known = math.isfinite(x) and math.isfinite(y)
        found[step] = None if not known else min(abs(x - y) / scale, 2.0) if scale else 0.0
    return found, shared_envelopes(_series(here, traces[here]), _series(other, traces[other]))


def _tolerance(envelopes: Envelopes | None, step: int) -> float | None:
    """The envelope at a step; None where it covers none."""
    return next((t for (first, last), t in (envelopes or {}).items() if first <= step <= last), None)


def _said(value: float | None, digits: int = 7) -> str:
    return "" if value is None else number(value, digits)


def _step(title: str = "step") -> Spec:
    return quantitative("x", title, axis={"tickMinStep": 1, "format": "d"})


def _marks(left: Sequence[Crossing], last: int) -> list[Spec]:
    """Where the first trace leaves its envelope; its words keep to the side that has room, up to the last step."""
    steps = [c.first_step for c in left if c.first_step is not None]
    if not steps:
        return []
    first = min(steps)
    return rule_at(_step(), first, f"first outside: step {first}", before=2 * first > last)


def _values(axis: str, names: Sequence[str], left: Sequence[Crossing], last: int) -> Spec:
    line: Spec = {
        "transform": [of_kind("value")],
        "mark": {"type": "line", "point": {"size": 24, "filled": True}, "strokeWidth": 1.6},
        "encoding": {
            "x": _step(),
            "y": quantitative("y", axis),
            **looks(names),
            "tooltip": [
                {"field": "s", "type": "nominal", "title": "run"},
                {"field": "x", "type": "quantitative", "title": "step"},
                {"field": "y", "type": "quantitative", "title": axis, "format": ".7g"},
            ],
        },
    }
    return plot([line, *_marks(left, last)], 190)


def _difference(names: Sequence[str], envelope: bool, left: Sequence[Crossing], last: int) -> Spec:
    scale = {"type": "symlog", "constant": 1e-8, "nice": False, "domainMin": 0}
    axis = {"values": _TICKS, "format": ".0e"}
    y = quantitative("y", "relative difference", scale=scale, axis=axis, stack=None)
    layers: list[Spec] = []
    if envelope:
        inside: Spec = {
            "transform": [of_kind("envelope")],
            "mark": {"type": "area", "interpolate": "step", "style": "area-envelope"},
            "encoding": {
                "x": _step(),
                "y": y,
                "tooltip": [{"field": "y", "type": "quantitative", "title": "envelope", "format": ".2g"}],
            },
        }
        edge: Spec = {"type": "line", "interpolate": "step", "style": "line-envelope"}
        layers += [inside, {**inside, "mark": edge}]
    layers.append(
        {
            "transform": [of_kind("apart")],
            "mark": {"type": "line", "point": {"size": 24, "filled": True}, "strokeWidth": 1.6},
            "encoding": {
                "x": _step(),
                "y": y,
                **looks(names),
                "tooltip": [
                    {"field": "s", "type": "nominal", "title": "runs"},
                    {"field": "x", "type": "quantitative", "title": "step"},
                    {"field": "y", "type": "quantitative", "title": "difference", "format": ".2g"},
                ],
            },
        }
    )
    return plot([*layers, *_marks(left, last)], 150)
