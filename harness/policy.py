"""Which metrics are judged, in which direction and from what change on: read from metrics.toml; and the one number
that a process's samples enter with."""

from __future__ import annotations

import fnmatch
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import toml_files
from harness.errors import UsageError
from harness.records import Metric

FILE = Path(__file__).with_name("metrics.toml")


@dataclass(frozen=True)
class Rule:
    """How metrics whose name matches the pattern are judged; `minimum` is relative."""

    name: str
    lower_is_better: bool
    minimum: float
    gate: bool
    statistics: tuple[str, ...]


def load(path: Path = FILE) -> tuple[Rule, ...]:
    """The rules in their order; UsageError names the file, the entry and what is wrong with it."""
    data = toml_files.read(path, UsageError, "without it no metric can be judged")
    if odd := sorted(set(data) - {"metric"}):
        raise UsageError(f"{path}: {odd[0]!r}: no such key; every entry begins with [[metric]]")
    entries = data.get("metric")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: no entry begins with [[metric]]: no metric would be judged")
    rules: list[Rule] = []
    for n, entry in enumerate(entries, 1):
        rule = _rule(entry, f"{path}: entry {n}")
        # A long run of no character stands for what a star may match.
        if before := rule_of(rules, rule.name.replace("*", "\0" * 99)):
            first = f"entry {rules.index(before) + 1}, {before.name!r}, matches all that it would"
            raise UsageError(f"{path}: entry {n}: name = {rule.name!r}: {first}; put it before that one")
        rules.append(rule)
    return tuple(rules)


def _rule(entry: Any, where: str) -> Rule:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where}: {entry!r}: must be a table that begins with [[metric]]")
    wanted = {"name": str, "better": str, "minimum": float, "gate": bool, "statistics": list}
    for key, kind in wanted.items():
        if not isinstance(entry.get(key), kind):
            raise UsageError(f"{where}: {key} = {entry.get(key)!r}: must be a {kind.__name__}")
    if odd := sorted(set(entry) - set(wanted)):
        raise UsageError(f"{where}: {odd[0]!r}: no such key; there are: {', '.join(wanted)}")
    if entry["better"] not in ("lower", "higher"):
        raise UsageError(f"{where}: better = {entry['better']!r}: must be lower or higher")
    if not 0 < entry["minimum"] < 1:
        raise UsageError(f"{where}: minimum = {entry['minimum']}: must be above 0 and below 1; 0.02 is 2 %")
    if not entry["statistics"] or (
        odd := [s for s in entry["statistics"] if not isinstance(s, str) or s not in STATISTICS]
    ):
        there = ", ".join(STATISTICS)
        raise UsageError(f"{where}: statistics = {entry['statistics']!r}: must be some of {there}")
    return Rule(
        entry["name"],
        entry["better"] == "lower",
        entry["minimum"],
        entry["gate"],
        tuple(dict.fromkeys(entry["statistics"])),
    )


def rule_of(rules: Sequence[Rule], metric: str) -> Rule | None:
    """The first rule whose pattern matches the metric's name."""
    return next((r for r in rules if fnmatch.fnmatchcase(metric, r.name)), None)


def key_of(test: str, metric: str, statistic: str) -> str:
    """The name of a row: `test::metric`, with `@statistic` for another one than the median."""
    return f"{test}::{metric}" if statistic == "median" else f"{test}::{metric}@{statistic}"


def summary(metric: Metric, statistic: str = "median") -> float | None:
    """One number for a process's samples; None when there are too few, or one is not finite."""
    if not metric.samples or not all(map(math.isfinite, metric.samples)):
        return None
    taken = metric.samples if statistic == "first" else metric.samples[metric.warmup :]
    found = STATISTICS[statistic](taken) if taken else None
    return found if found is not None and math.isfinite(found) else None


def _p95(samples: Sequence[float]) -> float | None:
    """The value below which 95 of 100 samples lie, between the two nearest; None below 20 samples."""
    if len(samples) < 20:
        return None
    ordered = sorted(samples)
    place = 0.95 * (len(ordered) - 1)
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def _growth(samples: Sequence[float]) -> float | None:
    third = len(samples) // 3
    if third < 2:
        return None
    before = statistics.median(samples[:third])
    return statistics.median(samples[-third:]) / before if before > 0 else None


STATISTICS: Mapping[str, Callable[[Sequence[float]], float | None]] = {
    "median": lambda samples: float(statistics.median(samples)),
    "p95": _p95,
    "first": lambda samples: float(samples[0]),
    "growth": _growth,
}
