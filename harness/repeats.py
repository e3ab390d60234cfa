"""Repeated tests: each repeat is a fresh pytest process that writes into the session's run folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from harness import ROOT, rundir
from harness.outcomes import Notes
from harness.runners.base import Machine
from harness.targets.base import TargetSpec

if TYPE_CHECKING:
    from harness.session import State

SPEC = "HARNESS_JOINED_TARGET"
LIMIT_S = 1800.0
"""How long one repeat may take, on a machine whose time factor is 1."""


class Teller:
    """Says how far the repeats are, in pytest's own output."""

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter

    def __call__(self, line: str) -> None:
        if self._reporter is not None:
            self._reporter.ensure_newline()
            if self._reporter._tw.width_of_current_line:  # it does not end a line of dots
                self._reporter.line("")
            self._reporter.write_line(line)

    def count(self, statuses: Sequence[int]) -> None:
        """Puts the processes into pytest's last line, which counts only what ran in its own process."""
        if self._reporter is not None:
            passed = sum(s == 0 for s in statuses)
            for count, how in ((len(statuses) - passed, "not passed"), (passed, "passed")):
                if count:
                    what = f"fresh process{'es' * (count > 1)} of repeated tests {how}"
                    # Other plugins look for attributes in whatever stands there.
                    self._reporter.stats[what] = [SimpleNamespace()] * count


def options_of(option: Any) -> list[str]:
    """The options of the session that hold in its repeats as well."""
    words = ["--runner", option.runner, "--time-limit", str(option.time_limit)]
    words += [w for name in option.require for w in ("--require", name)]
    words += ["--full"] * bool(option.full) + ["--without-controls"] * bool(option.without_controls)
    return words


def run(state: State, options: Sequence[str], count: int, say: Callable[[str], None]) -> list[int]:
    """Runs the session's repeated tests in `count` fresh processes, one after the other; their exit statuses.

    A process that dies or is ended by the time limit leaves what it had finished; the rest is lost, and told so.
    """
    statuses = []
    for number in range(1, count + 1):
        begin = time.monotonic()
        status = run_one(state.folder, state.spec, state.repeated, options, number, state.limit_s(LIMIT_S))
        statuses.append(status)
        how = "" if status == 0 else f", ended with status {status}: see logs/repeat-{number}.log"
        say(f"repeated tests: process {number} of {count}: {time.monotonic() - begin:.1f} s{how}")
    return statuses


def run_one(
    folder: Path, spec: TargetSpec, tests: Sequence[str], options: Sequence[str], number: int, limit_s: float
) -> int:
    """Runs the tests in one fresh process, whose records join those of the run in `folder`; its exit status."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "harness.plugin",
        "-p",
        "no:cacheprovider",
        "-v",
        "--tb=short",
    ]
    command += ["--run-dir", str(folder), "--join", str(number), *options, *tests]
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")
    }  # a user's own options must not reach in: some would change what is timed
    environment[SPEC] = spec.to_text()
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    environment["PYTHONPATH"] = path
    with rundir.log_path(folder, f"repeat-{number}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            log.write(b"\nharness: no end within the time limit; ended\n")
            return -signal.SIGKILL
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def find_fault(notes: Notes) -> str | None:
    """Why a repeated test that passed has no result that a process may enter with; None when it has."""
    names = [m.name for m in notes.metrics]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        return f"kept {twice[0]} twice: it would count as two processes"
    return None if names else "passed, and kept no result"


class Measure:
    """Times a function through pytest-benchmark and keeps the raw seconds."""

    def __init__(self, machine: Machine, notes: Notes, benchmark: Any) -> None:
        self._machine, self._notes, self._benchmark = machine, notes, benchmark

    def __call__(
        self,
        name: str,
        function: Callable[[], object],
        *,
        rounds: int,
        warmup: int = 2,
        work: Mapping[str, float] | None = None,
    ) -> list[float]:
        """Wall seconds of `warmup` and then `rounds` calls, each to the end of its device work; kept as metric `name`.

        Once in a test: that is pytest-benchmark's rule.
        """

        def timed() -> object:
            found = function()
            self._machine.runner.synchronize()
            return found

        self._benchmark.pedantic(timed, rounds=warmup + rounds, iterations=1, warmup_rounds=0)
        data = [] if self._benchmark.stats is None else list(self._benchmark.stats.stats.data)
        if len(data) != warmup + rounds:
            raise RuntimeError(
                f"pytest-benchmark took {len(data)} samples, not {warmup + rounds}: it must not be switched off"
            )
        self._notes.metric(name, "s", data, warmup=warmup, work=work)
        return data
