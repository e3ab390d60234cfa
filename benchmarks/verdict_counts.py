"""Counts for `verdicts.py`: every rule on every made-up machine under every truth."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from verdict_rules import MINIMUM, REGRESSED, Rule
from verdict_worlds import METRICS, World, make_report

CHANGED = 5
"""So many of the metrics have the change whose finding is counted."""
PROMISED = 0.05
TRUTHS = NOTHING, FIVE, TEN, MARGIN, DETECTABLE = "nothing", "+5 %", "+10 %", "margin", "detectable"


@dataclass
class Cell:
    """One rule on one kind of machine under one truth: for each report whether any metric was called worse, or better,
    the share of each verdict among the metrics asked for, and the cost."""

    worse: list[bool] = field(default_factory=list)
    better: list[bool] = field(default_factory=list)
    shares: list[dict[str, float]] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)
    tests: list[int] = field(default_factory=list)
    detectable: list[float] = field(default_factory=list)

    def share(self, verdict: str) -> tuple[float, float]:
        """Mean share of a verdict, and its standard error: metrics of one report are not independent."""
        return mean_and_error([s.get(verdict, 0.0) for s in self.shares])


Cells = dict[tuple[str, str, str], Cell]
"""By world, truth and rule."""


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return math.nan, math.nan
    found = np.asarray(values, float)
    return float(found.mean()), float(found.std() / math.sqrt(len(found)))


def measure(
    asked: Sequence[Rule],
    worlds: Sequence[World],
    reports: int,
    seed: int,
    tell: Callable[[str], None] = lambda line: None,
) -> Cells:
    """Every rule on every kind of machine under every truth; all rules get the same reports."""
    cells: Cells = {}
    there = [rule for rule in asked if rule.judge is not None]
    ours = [rule for rule in there if rule.ours]
    for number, world in enumerate(worlds):
        began = time.perf_counter()

        def fill(
            truth: str, effect: Any, some: Sequence[Rule], world: World = world, number: int = number
        ) -> None:
            for n in range(reports):
                report = make_report(world, effect, (seed, number, TRUTHS.index(truth), n))
                for rule in some:
                    _count(cells.setdefault((world.name, truth, rule.name), Cell()), rule, report, truth)

        fill(NOTHING, np.zeros(METRICS), there)
        fill(FIVE, changed(0.05), there)
        fill(TEN, changed(0.10), there)
        fill(MARGIN, np.full(METRICS, MINIMUM), ours)
        for rule in ours:
            told = cells[world.name, NOTHING, rule.name].detectable
            if rule.one_look and told and world.steady:
                fill(DETECTABLE, changed(float(np.median(told))), [rule])
        tell(f"{world.name}: {time.perf_counter() - began:.0f} s")
    return cells


def changed(by: float) -> Any:
    """The change by metric, where the first few have it."""
    return np.where(np.arange(METRICS) < CHANGED, by, 0.0)


def _count(cell: Cell, rule: Rule, report: Any, truth: str) -> None:
    metrics = range(METRICS if truth in (NOTHING, MARGIN) else CHANGED)
    assert rule.judge is not None
    judged = rule.judge(report, metrics)
    cell.processes.append(judged.processes)
    cell.tests.append(judged.tests)
    if truth == NOTHING and not rule.ours:
        cell.worse.append(any(v == REGRESSED for v in judged.verdicts))  # the first one settles it
        return
    verdicts = list(judged.verdicts)
    cell.worse.append(REGRESSED in verdicts)
    cell.better.append("improved" in verdicts)
    cell.shares.append({v: verdicts.count(v) / len(verdicts) for v in set(verdicts)})
    cell.detectable += judged.detectable[: METRICS if truth == NOTHING else 0]


def broken(cells: Cells, asked: Sequence[Rule], worlds: Sequence[World]) -> list[tuple[str, str, str]]:
    """World, truth and rule where one of ours gives more false alarms than promised, beyond the error of measuring."""
    found = []
    for rule in asked:
        for world in worlds if rule.ours else ():
            for truth in (NOTHING, MARGIN):
                rate, _ = mean_and_error(cells[world.name, truth, rule.name].worse)
                count = len(cells[world.name, truth, rule.name].worse)
                if rate > PROMISED + 2.5 * math.sqrt(PROMISED * (1 - PROMISED) / count):
                    found.append((world.name, truth, rule.name))
    return found
