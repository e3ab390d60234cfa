"""How a test of a suite ended, as pytest tells it, turned into a record."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import _pytest.outcomes
import pytest

from harness import rundir
from harness.child import ChildFailure
from harness.records import KINDS, Metric, Record, Trace, suite_of

DETAIL_BYTES = 8000


class Failure(Exception):
    """A suite found the target at fault; `kind` is a key of records.KINDS."""

    def __init__(self, kind: str, message: str, detail: str) -> None:
        assert kind in KINDS, kind
        super().__init__(f"{kind}: {message}")
        self.kind, self.message, self.detail = kind, message, detail


class Lacking(_pytest.outcomes.Skipped):
    """The runner lacks what the test needs; the text is the runner's reason."""


class Notes:
    """What a test says of itself: metrics, logs, and how it failed or why it did not run."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []
        self.traces: list[Trace] = []
        self.logs: list[Path] = []
        self.last_day: str | None = None

    def metric(
        self,
        name: str,
        unit: str,
        samples: Iterable[float],
        *,
        warmup: int = 0,
        work: Mapping[str, float] | None = None,
    ) -> None:
        """Keeps raw samples in the order they were taken, of which the first `warmup` enter no median.

        `work`: what one sample did, by name, for example `{"samples": 4}`.
        """
        done = {k: float(v) for k, v in (work or {}).items()}
        self.metrics.append(Metric(name, unit, tuple(float(s) for s in samples), warmup, done))

    def trace(
        self, name: str, unit: str, values: Iterable[float], first_step: int = 1, noise: str | None = None
    ) -> None:
        """Keeps one value a step, in order; with `noise`, it is compared with other runners' accepted ones."""
        self.traces.append(Trace(name, unit, tuple(float(v) for v in values), first_step, noise))

    def fail(self, kind: str, message: str, detail: str = "") -> NoReturn:
        """Fails the test with a named kind and the failing part's own text."""
        raise Failure(kind, message, detail)

    def skip(self, reason: str, last_day: str | None = None) -> NoReturn:
        """Skips the test; without a last day (ISO date) the run has no verdict."""
        self.last_day = last_day
        pytest.skip(reason)


def is_control(test: str) -> bool:
    """Positive controls are the tests whose function is named `test_control...`."""
    return "::test_control" in test


def plain_id(nodeid: str) -> str:
    """A test id without the group that xdist appends to it."""
    return re.sub(r"@[\w.-]+$", "", nodeid)


def failed_phase(report: pytest.TestReport, call: pytest.CallInfo[None]) -> dict[str, Any]:
    """Outcome, kind, reason and detail of a phase that did not pass."""
    error = _first_fault(call.excinfo.value) if call.excinfo is not None else None
    if report.outcome == "skipped":
        kind = "capability" if isinstance(error, Lacking) else None
        return {"outcome": "skipped", "kind": kind, "reason": str(error).removeprefix("Skipped: ")}
    if isinstance(error, Failure):
        found = {"outcome": "failed", "kind": error.kind, "reason": error.message, "detail": error.detail}
    elif isinstance(error, ChildFailure) and error.kind != "harness":
        found = {"outcome": "failed", "kind": error.kind, "reason": str(error), "detail": error.detail}
    elif isinstance(error, AssertionError) and report.when == "call":
        found = {"outcome": "failed", "kind": "assertion", "reason": str(error).partition("\n")[0]}
        found["detail"] = report.longreprtext
    else:
        found = {"outcome": "error", "kind": "harness", "reason": f"{type(error).__name__}: {error}"}
        found["detail"] = getattr(error, "detail", "") or report.longreprtext
    found["reason"] = found["reason"][:1000]
    found["detail"] = found["detail"][-DETAIL_BYTES:]
    return found


def line_of(item: pytest.Item, call: pytest.CallInfo[None]) -> int | None:
    """The line of the test's own file, from 1, at which it did not pass: the innermost one there, else its first."""
    if call.excinfo is not None:
        lines = [e.lineno + 1 for e in call.excinfo.traceback if Path(e.path) == item.path]
        if lines:
            return lines[-1]
    begin = item.location[1]
    return None if begin is None else begin + 1


def _first_fault(error: BaseException) -> BaseException:
    """The failure inside a group: hypothesis wraps one that did not come again, and it is a failure all the same."""
    inner = getattr(error, "exceptions", ())
    faults = [e for e in map(_first_fault, inner) if isinstance(e, Failure | ChildFailure)]
    return faults[0] if faults else error


def record_of(
    test: str,
    worker: str,
    started: str,
    folder: Path,
    phases: Mapping[str, Any],
    repeat: int | None = None,
) -> Record:
    """The record of a finished test. `phases`: notes, begin (monotonic s), outcome, and what failed_phase gave."""
    notes: Notes = phases["notes"]
    kind, control = phases.get("kind"), is_control(test)
    if control and phases["outcome"] == "failed":
        kind = "control"
    return Record(
        test=test,
        suite=suite_of(test),
        outcome=phases["outcome"],
        duration_s=round(time.monotonic() - phases["begin"], 4),
        kind=kind,
        reason=phases.get("reason"),
        detail=phases.get("detail"),
        last_day=notes.last_day,
        control=control,
        worker=worker,
        started=started,
        metrics=tuple(notes.metrics),
        traces=tuple(notes.traces),
        logs=rundir.relative(folder, notes.logs) if phases["outcome"] in ("failed", "error") else (),
        repeat=repeat,
        line=phases.get("line"),
    )
