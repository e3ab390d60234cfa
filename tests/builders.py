"""Small builders of headers, records and runs for the tests of the second half."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from harness.records import Header, KnownIssue, Record, Run, RunnerInfo, Selection, TargetInfo

TODAY = date(2027, 1, 15)
CONTROL = "suites/decoder/test_frames.py::test_control"


def case(name: str, suite: str = "decoder") -> str:
    """A test id below `suites/`."""
    return f"suites/{suite}/test_frames.py::test_frames[{name}]"


def make_header(**changes: Any) -> Header:
    """A finished, whole, clean, measured run of the decoder suite; `runner`, `target` take dicts of changes."""
    runner = {"name": "cpu", "device_arch": "x86_64", "device_count": 1, "emulated": False}
    target = {"name": "vitra", "commit": "c68b65e" + "0" * 33, "dirty": False}
    values: dict[str, Any] = {
        "run_id": "20270115-100000-cpu-abcdef",
        "started": "2027-01-15T10:00:00+00:00",
        "runner": RunnerInfo(**{**runner, **changes.pop("runner", {})}),
        "target": TargetInfo(**{**target, **changes.pop("target", {})}),
        "selection": Selection(("decoder",)),
        "configuration": {"seed": 1},
        "machine": {"host": "box", "processor": "a processor", "cpu_usable": 2, "memory_bytes": 8 * 2**30},
        "software": {"python": "3.11.9", "torch": "2.13.0"},
        "harness_commit": "a" * 40,
        "harness_dirty": False,
        "planned": (),
        "finished": "2027-01-15T10:05:00+00:00",
        "exit_status": 0,
    }
    return Header(**{**values, **changes})


def make_record(test: str, outcome: str = "passed", **changes: Any) -> Record:
    """One record; a failure is an `exception` and an error is of the kind `harness` unless told otherwise."""
    values: dict[str, Any] = {"suite": test.split("/")[1], "duration_s": 0.5}
    if outcome in ("failed", "error"):
        kind = "exception" if outcome == "failed" else "harness"
        values |= {"kind": kind, "reason": "it broke", "detail": "DECORDError: it broke"}
    return Record(test=test, outcome=outcome, **{**values, **changes})  # type: ignore[arg-type]


def make_run(
    records: Iterable[Record],
    *,
    planned: Iterable[str] | None = None,
    control: bool = True,
    collected: bool = True,
    running: tuple[str, ...] = (),
    problems: tuple[str, ...] = (),
    **header: Any,
) -> Run:
    """A run of these records plus a positive control that holds; what left a record was planned.

    Not `collected`: pytest ended before it knew the tests.
    """
    found = list(records)
    if control:
        found.append(make_record(CONTROL, control=True))
    tests = [r.test for r in found]
    if planned is not None:
        tests = [*planned, *([CONTROL] if control else [])]
    controls = (CONTROL,) if control else ()
    known = tuple(sorted(set(tests))) if collected else None
    made = make_header(**{"planned": known, "controls": controls, **header})
    return Run(made, tuple(found), running, problems)


def make_issue(**changes: Any) -> KnownIssue:
    """A known issue over every test of the decoder suite, valid on TODAY."""
    values: dict[str, Any] = {
        "id": "decoder-threads",
        "tests": ("suites/decoder/*test_frames[*",),
        "reason": "superframes fail",
        "link": "https://example.org/43",
        "last_day": "2027-03-31",
    }
    return KnownIssue(**{**values, **changes})
