"""Bencher Metric Format: written, by the schema at https://bencher.dev/docs/reference/bencher-metric-format/; pure."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Sequence

from harness.exchange.values import Measured
from harness.records import Header

MOST_LETTERS = {"benchmark": 1024, "measure": 64}
"""How long names may be there."""


def render(header: Header, measured: Sequence[Measured]) -> tuple[str, list[str]]:
    """The run in that form, and what could not go in, in words.

    A measure is `<metric>`, its value the median, with the least and the greatest value as its bounds. Units have no
    place there; a metric's name carries its own. An emulated run says so in the names of its benchmarks.
    """
    out: dict[str, dict[str, dict[str, float]]] = {}
    left = []
    for one in measured:
        if not one.values or not all(map(math.isfinite, one.values)):
            left.append(f"{one.test}: {one.metric} has no value, or one that is not finite")
            continue
        name = _short(f"{one.test} (emulated)" if header.runner.emulated else one.test, "benchmark")
        measures = out.setdefault(name, {})
        measure = _short(one.metric, "measure")
        if measure in measures:
            left.append(f"{one.test}: {one.metric} in {one.unit}: the metric is there in another unit")
            continue
        measures[measure] = {
            "value": statistics.median(one.values),
            "lower_value": min(one.values),
            "upper_value": max(one.values),
        }
    return json.dumps(out, indent=1, allow_nan=False) + "\n", left


def _short(name: str, kind: str) -> str:
    """The name, or as much of it as fits with a digest that keeps it apart from others."""
    most = MOST_LETTERS[kind]
    if len(name) <= most:
        return name
    return f"{name[: most - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
