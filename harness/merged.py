"""What a report holds: the runs of one commit side by side, test by test and trace by trace; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.cost import Prices
from harness.records import Run
from harness.verdicts import Baseline, Crossing, Judgement, MetricVerdict, TestVerdict

Status = Literal["green", "red", "no_verdict"]
NOT_RUN = "not_run"
"""In a cell: the run of that column did not plan the test."""
WORDS: Mapping[Status, str] = {"green": "GREEN", "red": "RED", "no_verdict": "NO VERDICT"}
EXIT: Mapping[Status, int] = {"green": 0, "red": 1, "no_verdict": 3}


@dataclass(frozen=True)
class Story:
    """One metric of one test over the runs of a store, oldest first, in `unit`; `changes`: places of points that begin
    another level."""

    test: str
    metric: str
    unit: str
    runs: tuple[str, ...]
    started: tuple[str, ...]
    values: tuple[float, ...]
    commits: tuple[str | None, ...] = ()
    changes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Given:
    """What a report may be given beside a run and its judgement.

    `peaks`: 1e12 operations a second of one device, by precision; None when its model is not known. `prices`: without
    them no cost is told. `folder`: the run's, as the user named it. `tails`: the ends of the logs of tests that failed,
    by test and log. `baseline`: what the run was judged against. `stories`: of its metrics, from a store. `bundles`:
    what `harness checkpoint verify` told of bundles that this run's machine loaded.
    """

    peaks: Mapping[str, float] | None = None
    prices: Prices | None = None
    folder: str | None = None
    tails: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    baseline: Baseline | None = None
    stories: tuple[Story, ...] = ()
    bundles: tuple[Mapping[str, Any], ...] = ()


NOTHING = Given()


@dataclass(frozen=True)
class Column:
    """One run, under a name that no other column has."""

    name: str
    run: Run
    judgement: Judgement
    given: Given = NOTHING

    @property
    def emulated(self) -> bool:
        return self.run.header.runner.emulated

    @property
    def lacking(self) -> int:
        """How many tests were not run, since the machine lacks what they need."""
        return sum(t.verdict == "lacking" for t in self.judgement.tests)

    @property
    def tests(self) -> dict[str, TestVerdict]:
        return {t.test: t for t in self.judgement.tests}


@dataclass(frozen=True)
class Off:
    """A runner that is switched off, why, and until which day (ISO date)."""

    runner: str
    reason: str
    last_day: str


@dataclass(frozen=True)
class Absent:
    """A runner that was to report and did not; `off`: it was switched off, for a reason that still holds."""

    runner: str
    why: str
    off: bool = False


def is_partial(columns: Iterable[Column], absent: Iterable[Absent]) -> bool:
    """Whether the verdict is one on a part: of a run a part was chosen or possible, or a runner is switched off."""
    return any(c.run.header.selection.partial or c.lacking for c in columns) or any(a.off for a in absent)


@dataclass(frozen=True)
class Line:
    """One test over the columns: `cells` are its verdicts, NOT_RUN where it was not planned.

    `agreement` is between measured runs: `agree`, `differ`, `only_one` (it has an outcome on one of several), or `none`.
    """

    test: str
    suite: str
    cells: tuple[str, ...]
    agreement: str


@dataclass(frozen=True)
class Between:
    """One trace of column `here` beside the same one of column `crossing.other`."""

    here: str
    crossing: Crossing


@dataclass(frozen=True)
class Beside:
    """One metric of one test over the columns. `ratios`: to the first column that has it and is measured, as head / base;
    None for that column, and where `whys` says what makes them not comparable."""

    test: str
    metric: str
    statistic: str
    unit: str
    cells: tuple[MetricVerdict | None, ...]
    ratios: tuple[float | None, ...]
    whys: tuple[str, ...]


@dataclass(frozen=True)
class Merged:
    """A report's content; `reasons` say why a status that is not red is not green either."""

    columns: tuple[Column, ...]
    absent: tuple[Absent, ...]
    lines: tuple[Line, ...]
    between: tuple[Between, ...]
    beside: tuple[Beside, ...]
    status: Status
    headline: str
    reasons: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        return EXIT[self.status]

    @property
    def single(self) -> bool:
        """Whether it tells of one run and of nobody who is missing."""
        return len(self.columns) == 1 and not self.absent
