"""Figures of how a metric went over the runs of a store: levels, where they change, and what was accepted; pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence

from harness.merged import Column, Story
from harness.policy import key_of
from harness.quantities import quantity, scale_of
from harness.report_parts.html_charts import Figure, Head, Spec, number, of_kind, plot, quantitative, rule_at

RECENT = 5
"""A level that began in the last so many runs is shown first."""


def figures_of_stories(column: Column) -> list[Figure]:
    """How each metric went over the runs of a store: levels, where they change, and what was accepted."""
    return [_story(column, s) for s in column.given.stories if len(s.values) > 1]


def _story(column: Column, story: Story) -> Figure:
    scale = scale_of(story.unit, statistics.median(story.values))
    key = key_of(story.test, story.metric, "median")
    base = None if column.given.baseline is None else column.given.baseline.metrics.get(key)
    accepted = () if base is None else base.medians
    number_of = len(story.changes)
    changes = {0: "no change of level", 1: "1 change of level"}.get(
        number_of, f"{number_of} changes of level"
    )
    where = ", ".join(f"at {story.runs[n]} ({_commit(story, n)})" for n in story.changes)
    says = f"{len(story.values)} runs, {changes}{' ' + where if where else ''}."
    if accepted:
        says += f" Accepted: {quantity(statistics.median(accepted), scale)}."
    heads = (
        Head("number", "x"),
        Head("run", "run"),
        Head("started", "started"),
        Head("commit", "commit"),
        Head(f"value ({scale[1]})", kind="value"),
        Head(f"level ({scale[1]})", kind="level"),
        Head("new level"),
    )
    return Figure(
        f"{story.metric} of {story.test} on {column.name}, over time",
        says,
        (_plot(story, scale, accepted),),
        heads,
        tuple(_rows(story, scale[0])),
        bad=any(n >= len(story.values) - RECENT for n in story.changes),
    )


def _commit(story: Story, n: int) -> str:
    found = story.commits[n] if n < len(story.commits) else None
    return (found or "unknown")[:12]


def _rows(story: Story, size: float) -> Iterator[tuple[str, ...]]:
    """One row a run: its value, and the median of the level that it belongs to."""
    starts = [0, *story.changes, len(story.values)]
    for first, last in itertools.pairwise(starts):
        level = number(statistics.median(story.values[first:last]) / size, 6)
        for n in range(first, last):
            mark = "change" if n in story.changes else ""
            when, value = story.started[n][:16], number(story.values[n] / size, 6)
            yield str(n + 1), story.runs[n], when, _commit(story, n), value, level, mark


def _plot(story: Story, scale: tuple[float, str], accepted: Sequence[float]) -> Spec:
    """Values and levels over the runs, where a level begins, and the band that was accepted."""
    size, unit = scale
    x = quantitative("x", "run, oldest first", axis={"tickMinStep": 1, "format": "d"})
    y = quantitative("y", f"{story.metric} ({unit})" if unit else story.metric)
    tip = [
        {"field": "run", "type": "nominal"},
        {"field": "started", "type": "nominal"},
        {"field": "commit", "type": "nominal"},
        {"field": "y", "type": "quantitative", "title": unit or "value", "format": ".6g"},
    ]
    layers: list[Spec] = []
    if accepted:
        ends = {"low": min(accepted) / size, "high": max(accepted) / size}
        band = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
        layers.append(
            {"data": {"values": [ends]}, "mark": {"type": "rect", "style": "rect-band"}, "encoding": band}
        )
        layers += rule_at(y, statistics.median(accepted) / size, "accepted baseline", axis="y")
    level = {"type": "line", "interpolate": "step", "strokeWidth": 2, "style": "mark-level"}
    value = {"type": "line", "point": {"size": 28, "filled": True}, "strokeWidth": 1}
    layers += [
        {"transform": [of_kind("level")], "mark": level, "encoding": {"x": x, "y": y}},
        {"transform": [of_kind("value")], "mark": value, "encoding": {"x": x, "y": y, "tooltip": tip}},
    ]
    for n in story.changes:
        layers += rule_at(x, n + 0.5, "new level")
    return plot(layers, 190)
