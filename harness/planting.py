"""Plants each defect in the reference target, runs the tests that should see it, and says caught or missed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import ROOT, rundir
from harness.errors import RunFolderError
from harness.records import Run


@dataclass(frozen=True)
class Planted:
    """What became of one defect: `caught`, `missed`, or `broken` when its run gave no answer.

    `inconclusive`: no verdict on an effect that the judge said it could not see; only where the defect allows it.
    """

    defect: str
    suite: str
    result: str
    by: str | None
    why: str
    duration_s: float


@dataclass(frozen=True)
class Clean:
    """The same tests on the clean target: `clean`, or what failed there."""

    suite: str
    ok: bool
    why: str


def plant_all(
    chosen: Sequence[Any], say: Callable[[str], None], jobs: int = 2
) -> tuple[list[Clean], list[Planted]]:
    """Runs the clean target first, suite by suite, then each defect in a pytest of its own."""
    suites = sorted({d.suite for d in chosen})
    with ThreadPoolExecutor(jobs) as pool:
        clean = list(pool.map(lambda s: _clean(s, [d for d in chosen if d.suite == s], say), suites))
        return clean, list(pool.map(lambda d: _plant(d, say), chosen))


def _clean(suite: str, defects: Sequence[Any], say: Callable[[str], None]) -> Clean:
    select = " or ".join(dict.fromkeys(f"({d.select})" for d in defects))
    run, output = run_suite(suite, select, [])
    failed = [] if run is None else [r for r in run.records if r.outcome != "passed"]
    if run is None or run.header.finished is None or not run.records:
        clean = Clean(suite, False, f"the run gave no records: {output[-500:]}")
    elif failed:
        clean = Clean(suite, False, f"{failed[0].test}: {failed[0].kind}: {failed[0].reason}")
    else:
        clean = Clean(suite, True, f"{len(run.records)} tests passed")
    say(f"{suite}: clean target: {'clean' if clean.ok else 'NOT CLEAN'} ({clean.why})")
    return clean


def _plant(defect: Any, say: Callable[[str], None]) -> Planted:
    options = ["--defect", defect.name, "-x", "--without-controls"]
    run, output = run_suite(defect.suite, defect.select, options)
    records = [] if run is None else [r for r in run.records if not r.control]
    caught = next((r for r in records if r.outcome == "failed"), None)
    seconds = sum(r.duration_s for r in records)
    if caught is not None:
        result, by, why = "caught", caught.test, f"{caught.kind}: {caught.reason}"
    elif not records or any(r.outcome != "passed" for r in records):
        bad = next((f"{r.kind}: {r.reason}" for r in records if r.outcome != "passed"), output[-500:])
        result, by, why = "broken", None, f"no answer: {bad}"
    else:
        result, by, why = "missed", None, f"{len(records)} tests passed"
    say(f"{defect.name}: {result} ({why})")
    return Planted(defect.name, defect.suite, result, by, why, round(seconds, 2))


def run_suite(suite: str, select: str, options: Sequence[str]) -> tuple[Run | None, str]:
    """A run of some tests of a suite on the reference target, and pytest's output; None when it left no run."""
    with tempfile.TemporaryDirectory(prefix="defect-") as work:
        folder = Path(work) / "run"
        command = [
            sys.executable, "-m", "pytest", "-p", "harness.plugin", f"suites/{suite}", "-q", "--tb=no",
            "-p", "no:cacheprovider", "--target", "reference", "--run-dir", str(folder), "-k", select,
            "--time-limit", "20", *options,
        ]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        try:
            return rundir.load(folder), done.stdout + done.stderr
        except RunFolderError:
            return None, done.stdout + done.stderr
