"""The rules that `verdicts.py` measures: ours, and those of other tools, called as they are installed."""

from __future__ import annotations

import copy
import importlib.metadata
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from verdict_worlds import BASE_PROCESSES, METRICS, Report

from harness import judge_pairs, looks, policy, stats
from harness.judge_metrics import Taken
from harness.two_stage import SCREEN_BASE, SCREEN_HEAD, SCREEN_LEVEL

MINIMUM = 0.02
RULE = policy.Rule("time_s", True, MINIMUM, True, ("median",))
REGRESSED, NONE = "regressed", "none"
CLEARED = "cleared"
"""Not flagged by the screen: the rule looks no further, and claims nothing of the metric."""
PROCESSES = 3
"""New processes that rules of several get."""


@dataclass
class Judged:
    """What a rule says of the metrics asked for, in their order; `processes` and `tests` are the new ones it ran.

    A test here is one metric measured in one process. `detectable`: by metric, where the rule tells it.
    """

    verdicts: Iterator[str]
    processes: int
    tests: int
    detectable: list[float] = field(default_factory=list)


Judge = Callable[[Report, Sequence[int]], Judged]


@dataclass(frozen=True)
class Rule:
    """One row of the table. `ours`: it has a minimum effect and four verdicts, which are counted too. `one_look`: the
    change that it prints as detectable is one for all metrics, known from the base and the first processes.

    `judge` is None for a tool that is not installed; `remedy` then is the line that installs it.
    """

    name: str
    judge: Judge | None
    ours: bool = False
    one_look: bool = False
    remedy: str = ""


def medians(samples: Any) -> Any:
    """Metrics x processes: the one number that each process enters with."""
    return np.median(samples, axis=2).T


def few_runs(processes: int) -> Judge:
    """Our rule of one look: the processes of the base that are there already, and some new ones of the head."""

    def judge(report: Report, metrics: Sequence[int]) -> Judged:
        found = stats.compare(_series(report, processes))
        detectable = [f.detectable for f in found if f.detectable is not None]
        return Judged((found[n].verdict for n in metrics), processes, processes * METRICS, detectable)

    return judge


def _series(report: Report, processes: int) -> list[stats.Series]:
    base, head = medians(report.base), medians(report.head[:processes])
    return [stats.Series(tuple(b), tuple(h), MINIMUM) for b, h in zip(base, head, strict=True)]


def two_stages(report: Report, metrics: Sequence[int]) -> Judged:
    """What `--base` does: a screen by a few fresh processes of either side in random order, then pairs for what it
    flagged or could not see."""
    later = Later(report)
    plan = ["base"] * SCREEN_BASE + ["head"] * SCREEN_HEAD
    later.random.shuffle(plan)
    screen: list[dict[str, list[float]]] = [{"base": [], "head": []} for _ in range(METRICS)]
    for side in plan:
        for n, value in enumerate(later.run(side, METRICS)):
            screen[n][side].append(value)
    taken = Taken("test", "time_s", "median")
    rows = {str(n): judge_pairs.Row(str(n), taken, RULE, screen[n]) for n in range(METRICS)}
    found = judge_pairs.screen_rows(rows, SCREEN_LEVEL)
    return later.pair([n for n in range(METRICS) if found[str(n)].verdict != "unflagged"], metrics)


def two_stages_one(report: Report, metrics: Sequence[int]) -> Judged:
    """A cheaper way that the harness does not go: the screen is one new process against the base's old ones."""
    later = Later(report)
    later.run("head", METRICS)  # it is the first of the report's, which is there
    flags = stats.screen(_series(report, 1))
    return later.pair([n for n, flag in enumerate(flags) if flag], metrics)


class Later:
    """Processes after those of the base, run when a rule asks for them; the report itself stays as it is."""

    def __init__(self, report: Report) -> None:
        self.session, self.effect = copy.deepcopy(report.session), report.effect
        self.random = random.Random(int(self.session.rng.integers(2**32)))
        self.processes = self.tests = 0

    def run(self, side: str, tests: int) -> list[float]:
        """One more process: what it enters with, by metric; `tests` of them are run in truth."""
        effect = self.effect if side == "head" else np.zeros(METRICS)
        samples = self.session.process(BASE_PROCESSES + self.processes, effect)
        self.processes, self.tests = self.processes + 1, self.tests + tests
        return list(np.median(samples, axis=1).tolist())

    def pair(self, flagged: Sequence[int], metrics: Sequence[int]) -> Judged:
        """The second stage: pairs in random order for the flagged metrics, judged at the looks until all is settled."""
        verdicts = dict.fromkeys(range(METRICS), CLEARED)
        sides: list[dict[str, list[float]]] = [{"base": [], "head": []} for _ in flagged]
        open_, detectable = list(range(len(flagged))), []
        for pair, names in enumerate(looks.order(self.random, max(looks.LOOKS)), 1):
            if not open_:
                break
            for name in names:
                values = self.run(name, len(open_))
                for n in open_:
                    sides[n][name].append(values[flagged[n]])
            if pair in looks.LOOKS:
                series = [stats.Series(tuple(s["base"]), tuple(s["head"]), MINIMUM) for s in sides]
                findings = [d.finding for d in looks.decide(series)]
                verdicts.update({n: f.verdict for n, f in zip(flagged, findings, strict=True)})
                detectable = [f.detectable for f in findings if f.detectable is not None]
                open_ = looks.undecided(findings)
        return Judged((verdicts[n] for n in metrics), self.processes, self.tests, detectable)


def one_by_one(processes: int, alarm: Callable[[Any, Any], bool]) -> Judge:
    """A rule that looks at each metric for itself. `alarm` gets samples of base and head, processes x samples."""

    def judge(report: Report, metrics: Sequence[int]) -> Judged:
        head = report.head[:processes]
        found = (REGRESSED if alarm(report.base[:, n], head[:, n]) else NONE for n in metrics)
        return Judged(found, processes, processes * METRICS)

    return judge


def _pytest_benchmark() -> Judge:
    from pytest_benchmark.stats import Stats
    from pytest_benchmark.utils import parse_compare_fail

    check = parse_compare_fail("mean:5%")

    def summary(samples: Any) -> dict[str, float]:
        found = Stats()
        for value in samples.tolist():
            found.update(value)
        return {"mean": found.mean}

    # The run now against the one saved last: it knows no more than one of each.
    return one_by_one(1, lambda base, head: check.fails(summary(head[0]), summary(base[-1])) is not None)


def _pyperf(min_speed: float | None) -> Judge:
    import pyperf
    from pyperf._compare import CompareData, CompareResult

    def benchmark(samples: Any) -> Any:
        runs = [
            pyperf.Run(run, metadata={"name": "made up"}, collect_metadata=False) for run in samples.tolist()
        ]
        return pyperf.Benchmark(runs)

    def alarm(base: Any, head: Any) -> bool:
        # Its t test asks for as many values on one side as on the other.
        sides = [
            CompareData(name, benchmark(s)) for name, s in (("base", base[-len(head) :]), ("head", head))
        ]
        result = CompareResult(*sides, min_speed)
        return bool(result.significant and result.norm_mean > 1)

    return one_by_one(PROCESSES, alarm)


def _rank_test(pooled: bool) -> Judge:
    from scipy.stats import mannwhitneyu

    def alarm(base: Any, head: Any) -> bool:
        a, b = (s.ravel() if pooled else np.median(s, axis=1) for s in (base, head))
        return bool(mannwhitneyu(b, a).pvalue < 0.05 and np.median(b) > np.median(a))

    return one_by_one(PROCESSES, alarm)


def _otava() -> Judge:
    from otava.series import AnalysisOptions, Metric, Series

    logging.getLogger().setLevel(logging.WARNING)  # it tells of every series

    def alarm(base: Any, head: Any) -> bool:
        values = np.median(np.concatenate([base, head]), axis=1).tolist()
        times = list(range(len(values)))
        series = Series("made up", None, times, {"time": Metric(-1)}, {"time": values}, {})
        points = series.analyze(AnalysisOptions()).change_points["time"]
        return any(p.index >= len(base) and p.forward_change_percent() > 0 for p in points)

    return one_by_one(PROCESSES, alarm)


def _installed(name: str, package: str, make: Callable[[], Judge]) -> Rule:
    """The row of a tool; where it is missing, one that says so."""
    try:
        return Rule(name, make())
    except ImportError as error:
        return Rule(name, None, remedy=f"not installed ({error}): pip install {package}")


def rules() -> list[Rule]:
    """All rows, ours last."""
    return [
        _installed("pytest-benchmark `mean:5%`", "pytest-benchmark", _pytest_benchmark),
        _installed("pyperf `compare_to`", "pyperf", lambda: _pyperf(None)),
        _installed("pyperf `compare_to --min-speed=5`", "pyperf", lambda: _pyperf(5.0)),
        _installed("scipy U test of all samples, p < .05", "scipy", lambda: _rank_test(pooled=True)),
        _installed("scipy U test of process medians, p < .05", "scipy", lambda: _rank_test(pooled=False)),
        _installed("Otava, change at a new run", "apache-otava==0.8.0", _otava),
        Rule(f"ours, {PROCESSES} new processes", few_runs(PROCESSES), ours=True, one_look=True),
        Rule("ours, 5 new processes", few_runs(5), ours=True, one_look=True),
        Rule("ours, two stages, screen of 1 process", two_stages_one, ours=True),
        Rule("ours, two stages (`--base`)", two_stages, ours=True),
    ]


def versions() -> dict[str, str]:
    """What is installed of that which the rows rest on."""
    found = {}
    for name in ("pytest-benchmark", "pyperf", "apache-otava", "scipy", "numpy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
