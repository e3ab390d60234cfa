"""What a store says of a metric, as text, JSON and CSV; pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.history.plot import render_plot
from harness.history.query import Listed, Point, Series
from harness.history.segments import Segments, find_segments

FORMAT = 1
"""Version of the JSON form; keys are added, never removed or given another meaning."""


@dataclass(frozen=True)
class Told:
    """A series with what its values say. `usable`: the points that have a value, on which `segments` counts."""

    series: Series
    usable: tuple[Point, ...]
    segments: Segments


def tell(series: Sequence[Series]) -> list[Told]:
    """Finds the changes of each series."""
    told = []
    for one in series:
        usable = tuple(p for p in one.points if p.value is not None)
        told.append(Told(one, usable, find_segments([_value(p) for p in usable])))
    return told


def render_terminal(told: Sequence[Told], *, width: int = 100) -> str:
    """Each series with its runs, its plot, its changes and its tail."""
    return "\n".join("\n".join(_lines(t, width)) + "\n" for t in told)


def render_json(told: Sequence[Told]) -> str:
    """One object; documented in docs/history.md."""
    return json.dumps({"history": FORMAT, "series": [_object(t) for t in told]}, indent=1)


def render_csv(told: Sequence[Told]) -> str:
    """One line a run of each series."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("runner", "emulated", "configuration", "target", "test", "metric", "unit", "started", "run_id")
    writer.writerow([*names, "target_commit", "defect", "repeats", "median", "change"])
    for t in told:
        s, starts = t.series, {t.usable[c.index].run_id for c in t.segments.changes}
        for p in s.points:
            key = (s.runner, str(s.emulated).lower(), s.configuration, s.target, s.test, s.metric, s.unit)
            value = "" if p.value is None else repr(p.value)
            end = (p.target_commit or "", p.defect or "", len(p.repeats), value, int(p.run_id in starts))
            writer.writerow([*key, p.started.isoformat(), p.run_id, *end])
    return out.getvalue()


def render_list(listed: Sequence[Listed]) -> str:
    """A line a metric: what `harness history list` prints."""
    rows = [("METRIC", "UNIT", "RUNNER", "TARGET", "TESTS", "RUNS", "LAST")]
    rows += [
        (m.metric, m.unit, m.runner, m.target, str(m.tests), str(m.runs), f"{m.last:%Y-%m-%d %H:%M}")
        for m in listed
    ]
    widths = [max(len(r[n]) for r in rows) for n in range(len(rows[0]))]
    return (
        "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows) + "\n"
    )


def _lines(told: Told, width: int) -> list[str]:
    s, values = told.series, [_value(p) for p in told.usable]
    kind = "emulated by a stand-in, " if s.stand_in else "emulated, " if s.emulated else ""
    lines = [
        f"{s.metric} ({s.unit}) of {s.test}",
        f"  {s.runner}, {kind}{s.target}, configuration {s.configuration}",
    ]
    if json.loads(s.patches):
        lines.append(f"  patches: {', '.join(json.loads(s.patches))}")
    starts = {told.usable[c.index].run_id for c in told.segments.changes}
    lines.append("")
    for p in s.points:
        spread = _spread(p)
        shown = "not finite" if p.value is None else f"{p.value:.5g}"
        mark = ">" if p.run_id in starts else " "
        defect = f"  defect {p.defect}" if p.defect else ""
        commit = _commit(p)
        lines.append(
            f"{mark} {p.started:%Y-%m-%d %H:%M}  {shown:>10}{spread:>9}  {commit:12}  {p.run_id}{defect}"
        )
    plot = render_plot(values, changes=[c.index for c in told.segments.changes], width=width, unit=s.unit)
    return [*lines, "", *plot, "", *_changes(told)]


def _changes(told: Told) -> list[str]:
    lines = []
    for change in told.segments.changes:
        before, after = told.usable[change.index - 1], told.usable[change.index]
        lines.append(
            f"change of {change.ratio - 1:+.1%} at {after.started:%Y-%m-%d %H:%M}, run {after.run_id}, "
            f"commit {_commit(before)} -> {_commit(after)} (p {change.p:.1g})"
        )
    if not lines:
        lines.append("no change of level found")
    tail = told.segments.tail
    if tail is None:
        lines.append("tail: fewer than 10 runs since then, or a value that is not positive: not tested")
    elif told.segments.tail_changed:
        lines.append(f"tail: the last {tail.points} runs differ by {tail.change:+.1%} (p {tail.p:.2g})")
    else:
        lines.append(f"tail: the last runs are like those before (p {tail.p:.2g})")
    return lines


def _object(told: Told) -> dict[str, Any]:
    s, tail = told.series, told.segments.tail
    names = ("runner", "emulated", "stand_in", "configuration", "target", "suite", "test", "metric", "unit")
    return {
        **{n: getattr(s, n) for n in names},
        "patches": json.loads(s.patches),
        "runs": [_run(p) for p in s.points],
        "changes": [
            {
                "run_id": told.usable[c.index].run_id,
                "started": told.usable[c.index].started.isoformat(),
                "run_before": told.usable[c.index - 1].run_id,
                "commit_before": told.usable[c.index - 1].target_commit,
                "commit": told.usable[c.index].target_commit,
                "ratio": c.ratio,
                "p": c.p,
            }
            for c in told.segments.changes
        ],
        "tail": None
        if tail is None
        else {
            "points": tail.points,
            "change": tail.change,
            "p": tail.p,
            "changed": told.segments.tail_changed,
        },
    }


def _run(point: Point) -> dict[str, Any]:
    names = ("run_id", "target_commit", "target_dirty", "harness_commit", "defect")
    return {
        **{n: getattr(point, n) for n in names},
        "started": point.started.isoformat(),
        "repeats": list(point.repeats),
        "median": point.value,
    }


def _spread(point: Point) -> str:
    """Half the range of the repeats, relative to their median."""
    known = [v for v in point.repeats if v is not None]
    if len(known) < 2 or not point.value:
        return ""
    return f"±{(max(known) - min(known)) / 2 / abs(point.value):.1%}"


def _commit(point: Point) -> str:
    if point.target_commit is None:
        return "unknown"
    return point.target_commit[:10] + ("+" if point.target_dirty else "")


def _value(point: Point) -> float:
    assert point.value is not None
    return point.value
