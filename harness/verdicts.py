"""The words of the judge: verdicts of tests, metrics, suites and runs, and the baseline they are judged against; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.records import KnownIssue, Record, Trace
from harness.triage import Finding

VERDICTS: Mapping[str, str] = {
    "same": "passed, as the baseline did",
    "fixed": "passed, the baseline failed",
    "new": "passed, the baseline does not know it",
    "known": "failed as a known issue says",
    "skipped": "did not run, for an accepted reason with a last day",
    "lacking": "did not run: the machine lacks a capability, and says which",
    "newly_failing": "failed, the baseline passed",
    "failing": "failed, and no passing baseline is known",
    "known_expired": "failed as a known issue says that is past its last day",
    "known_fixed": "passed although a known issue says it fails: remove the entry",
    "missing": "in the baseline, not planned in this run",
    "lost": "planned, and left no record",
    "error": "the harness or its fixtures broke; says nothing of the target",
    "infrastructure": "failed, and the machine is at fault: neither a regression nor a verdict",
    "capability_lost": "did not run for lack of a capability, the baseline ran it on such a machine",
    "skip_unaccepted": "did not run, without a reason and a last day that still holds",
    "control_failed": "the positive control did not fail where it must",
}
"""Every verdict of a test, with its meaning; the first six are green."""

GREEN = frozenset({"same", "fixed", "new", "known", "skipped", "lacking"})
RED = frozenset({"newly_failing", "failing", "known_expired", "known_fixed"})
ORDER = (
    "newly_failing",
    "failing",
    "known_expired",
    "known_fixed",
    "control_failed",
    "infrastructure",
    "error",
    "lost",
    "missing",
    "capability_lost",
    "skip_unaccepted",
)


@dataclass(frozen=True)
class BaselineMetric:
    """One row of a baseline: a value for each process, in the unit given. `row`: test, metric, statistic.

    `noise`: relative standard deviation of a process within its run, robust; None when there are too few.
    """

    unit: str
    medians: tuple[float, ...]
    row: tuple[str, str, str]
    noise: float | None = None


@dataclass(frozen=True)
class Baseline:
    """Approved runs of one comparability key: outcome by test, run medians by `test::metric`, provenance."""

    key: Mapping[str, str]
    tests: Mapping[str, str]
    metrics: Mapping[str, BaselineMetric]
    provenance: tuple[Mapping[str, Any], ...]
    reason: str
    traces: Mapping[str, Trace] = field(default_factory=dict)
    measured: tuple[Mapping[str, Any], ...] = ()
    """Provenance of the runs that `metrics` come from."""


@dataclass(frozen=True)
class AcceptedTraces:
    """What was accepted on another runner, by `test::trace`; `runner` is its key."""

    runner: str
    traces: Mapping[str, Trace]


@dataclass(frozen=True)
class Crossing:
    """One trace of this run beside that of another runner: `verdict` is agree, differ or inconclusive."""

    test: str
    trace: str
    other: str
    verdict: str
    reason: str
    largest: float | None
    largest_step: int | None
    first_step: int | None


@dataclass(frozen=True)
class TestVerdict:
    """What the judge says of one test."""

    __test__ = False  # the name is not for pytest to collect
    test: str
    suite: str
    verdict: str
    why: str
    record: Record | None = None
    issue: KnownIssue | None = None
    findings: tuple[Finding, ...] = ()
    """Causes that its text and logs show, root causes first."""

    @property
    def green(self) -> bool:
        return self.verdict in GREEN


METRIC_VERDICTS: Mapping[str, str] = {
    "regressed": "worse than the baseline by more than the minimum",
    "missing": "the baseline or the plan has it, and the run gave no value",
    "incomparable": "unit or machine differ from the baseline's",
    "inconclusive": "neither a change beyond the minimum nor its absence is shown",
    "improved": "better than the baseline by more than the minimum: accept a new baseline",
    "equivalent": "shown to lie within the minimum of the baseline",
    "unflagged": "two stages: no sign of a change beyond the minimum at the screen, so not looked at further",
    "new": "the baseline does not know it",
    "shown": "stored and shown, not judged",
}
"""Every verdict of a metric, worst first."""


@dataclass(frozen=True)
class MetricVerdict:
    """One row: a metric of a test by one statistic, over `processes` fresh processes, beside its baseline.

    Medians are over processes, in `unit`; `ratio` is head / base; `change`, `low`, `high` (95 % interval),
    `detectable`, `noise` and `minimum` are relative. `p` is corrected over the gate, `q` over the table. Unknown is
    None.
    """

    test: str
    metric: str
    unit: str
    samples: int
    median: float | None
    baseline_median: float | None = None
    ratio: float | None = None
    verdict: str = "shown"
    why: str = "stored and shown, not judged"
    statistic: str = "median"
    processes: int = 0
    baseline_processes: int = 0
    gate: bool = False
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    q: float | None = None
    detectable: float | None = None
    noise: float | None = None
    minimum: float | None = None
    work: Mapping[str, float] = field(default_factory=dict)

    @property
    def red(self) -> bool:
        return self.gate and self.verdict == "regressed"

    @property
    def unsettled(self) -> bool:
        """Whether it keeps a run from being green: no answer where one is asked for."""
        return self.verdict in ("missing", "incomparable") or (self.gate and self.verdict == "inconclusive")


@dataclass(frozen=True)
class SuiteVerdict:
    """Counts by verdict of one suite, wall time of its tests in seconds, and why it is inconclusive."""

    suite: str
    planned: int
    counts: Mapping[str, int]
    duration_s: float
    inconclusive: str | None


@dataclass(frozen=True)
class Judgement:
    """The verdict on a run: `status` green, red or no_verdict; `reasons` say why there is no verdict."""

    status: Literal["green", "red", "no_verdict"]
    headline: str
    reasons: tuple[str, ...]
    tests: tuple[TestVerdict, ...]
    suites: tuple[SuiteVerdict, ...]
    metrics: tuple[MetricVerdict, ...]
    notes: tuple[str, ...] = field(default=())
    crossings: tuple[Crossing, ...] = field(default=())

    @property
    def exit_status(self) -> int:
        return {"green": 0, "red": 1, "no_verdict": 3}[self.status]

    @property
    def needs_person(self) -> tuple[TestVerdict, ...]:
        """The tests that are not green, worst first."""
        return tuple(sorted((t for t in self.tests if not t.green), key=lambda t: (rank_of(t), t.test)))


def rank_of(verdict: TestVerdict) -> int:
    """Place in the order of badness; 0 is worst."""
    return ORDER.index(verdict.verdict) if verdict.verdict in ORDER else len(ORDER)
