"""Figures of a report: a table of numbers, and the Vega-Lite plots that the page's script draws from it; pure.

The table is the only copy of the numbers: what is drawn is what can be read. The heads of its columns say how the script
reads them: `data-f` names a field of every row; `data-k` marks a column of values of that kind, which become rows of
their own, with the column's name as `s` and the value as `y`; several values in one cell are several such rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report_parts.html_text import data, heading, text

Spec = dict[str, Any]
SERIES = 5
"""So many lines can be told apart; more repeat the looks of the first."""


@dataclass(frozen=True)
class Head:
    """One column of a figure's table; `field` or `kind`: how the script reads it."""

    words: str
    field: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Figure:
    """`title` and `says` are what the plots show, in words; `specs` draw them; `rows` are text, number or list of text."""

    title: str
    says: str
    specs: tuple[Spec, ...]
    heads: tuple[Head, ...]
    rows: tuple[tuple[str, ...], ...]
    bad: bool = False


def number(value: float | None, digits: int = 7) -> str:
    """So many digits of a number; `unknown` for None."""
    return "unknown" if value is None else f"{value:.{digits}g}"


def plot(layers: Sequence[Spec], height: int) -> Spec:
    """One view over the figure's table, as wide as the page lets it."""
    return {
        "data": {"name": "table"},
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": list(layers),
    }


def of_kind(kind: str) -> Spec:
    """Keeps the rows of one kind of value."""
    return {"filter": {"field": "k", "equal": kind}}


def quantitative(field: str, title: str, **more: Any) -> Spec:
    """A channel of numbers, on an axis that does not have to hold zero."""
    scale = {"zero": False, "nice": True, **more.pop("scale", {})}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, **more}


def looks(names: Sequence[str]) -> Spec:
    """Color and dash by series: neither alone."""
    dashes = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 6])
    domain = list(dict.fromkeys(names))
    dash = [dashes[n % len(dashes)] for n in range(len(domain))]
    legend = {
        "orient": "top",
        "title": None,
        "labelLimit": 360,
        "columns": 1,
        "symbolType": "stroke",
        "offset": 16,
    }
    return {
        "color": {"field": "s", "type": "nominal", "scale": {"domain": domain}, "legend": legend},
        "strokeDash": {
            "field": "s",
            "type": "nominal",
            "scale": {"domain": domain, "range": dash},
            "legend": legend,
        },
    }


def rule_at(
    like: Spec, value: float, words: str = "", *, axis: str = "x", dash: bool = True, before: bool = False
) -> list[Spec]:
    """A line across the plot at one value, with words after or before it; `like`: the other layers' channel there."""
    values = {"values": [{"at": value, "words": words}]}
    where: Spec = {axis: {**like, "field": "at"}}
    mark: Spec = {"type": "rule", "strokeDash": [4, 3] if dash else [1, 0], "style": "mark-note"}
    layers: list[Spec] = [{"data": values, "mark": mark, "encoding": where}]
    if words:
        over: Spec = {"y": {"value": 0}} if axis == "x" else {"x": {"value": 0}}
        side: Spec = {"align": "right", "dx": -3} if before else {"align": "left", "dx": 3}
        note: Spec = {"type": "text", "baseline": "bottom", "dy": -3, "style": "text-note", **side}
        said = {**where, **over, "text": {"field": "words", "type": "nominal"}}
        layers.append({"data": values, "mark": note, "encoding": said})
    return layers


def render_figure(figure: Figure, level: int) -> str:
    """The figure with its table; the script adds the plots."""
    title = text(figure.title)
    plots = "".join(f'<div class="plot" role="img" aria-label="{title}"></div>' for _ in figure.specs)
    head = "".join(
        f'<th scope="col"{_how(h)}>{text(h.words)}' for h in figure.heads
    )  # what is not told how to be read is for people alone
    rows = "".join(f"<tr>{''.join(f'<td>{text(cell)}' for cell in row)}" for row in figure.rows)
    return (
        f'<figure class="chart">{heading(level, title)}<figcaption>{text(figure.says)}</figcaption>{plots}'
        f'<script type="application/json">{data(list(figure.specs))}</script>'
        f"<details class=data><summary>Data table</summary>"
        f'<div class="scroll" role="group" tabindex="0" aria-label="Data: {title}"><table>'
        f"<thead><tr>{head}</thead><tbody>{rows}</tbody></table></div></details></figure>"
    )


def _how(head: Head) -> str:
    return f' data-f="{head.field}"' if head.field else f' data-k="{head.kind}"' if head.kind else ""


def render_figures(figures: Iterable[Figure], level: int, *, most: int, what: str) -> str:
    """Figures with those first that need a person; the rest folded, and what is more than `most` counted."""
    ordered = sorted(figures, key=lambda f: not f.bad)
    shown, left = ordered[:most], len(ordered) - most
    first = [f for f in shown if f.bad] or shown[:1]
    rest = [f for f in shown if f not in first]
    out = "".join(render_figure(f, level) for f in first)
    if rest:
        inner = "".join(render_figure(f, level) for f in rest)
        out += f"<details class=fold><summary>{len(rest)} more {what}</summary>{inner}</details>"
    if left > 0:
        out += f"<p>{left} more {what} are not drawn here; the run folders have their numbers.</p>"
    return out


def finite(values: Iterable[float]) -> list[float]:
    """The values that are numbers."""
    return [v for v in values if math.isfinite(v)]
