"""Puts together what a session told and what its run folder shows: how far it is at one moment."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import progress_folder, rundir
from harness.errors import RunFolderError
from harness.pairs import Pairs
from harness.progress import (
    Ledger,
    Running,
    Seen,
    Stage,
    Suite,
    estimate_processes_s,
    find_stage,
)
from harness.records import suite_of

if TYPE_CHECKING:
    from harness.session import State


class Watch:
    """Is told of tests by one thread and asked by another. Times are seconds of the monotonic clock."""

    def __init__(self, folder: Path, state: State, compared: bool, now: float) -> None:
        self._folder, self._state, self._compared, self._began = folder, state, compared, now
        self._lock = threading.Lock()
        self._ledger = Ledger()
        self._later: dict[str, float] = {}
        self._where: dict[str, str] = {}
        self._processes: dict[tuple[str, int], progress_folder.Process] = {}
        self._took_s: list[float] = []
        self.workers: set[int] = set()
        """The workers that run tests; empty where the session runs them itself."""
        self.ending = False
        """All tests of the session itself have run; repeated ones may follow."""

    def remember(self) -> None:
        """Looks up how long tests took in earlier runs beside this one."""
        self._ledger.past, self._later = progress_folder.collect_past(self._folder, self._state.header)

    def plan(self, tests: Iterable[str]) -> None:
        with self._lock:
            self._ledger.plan(tests)

    def start(self, test: str, now: float) -> None:
        with self._lock:
            self._ledger.start(test, now)

    def report(self, test: str, worker: str, failed: bool) -> None:
        """A phase of the test is over, on this worker."""
        with self._lock:
            self._where[test] = worker
            if failed:
                self._ledger.fail(test)

    def finish(self, test: str, now: float) -> None:
        with self._lock:
            self._ledger.finish(test, now)
            self._where.pop(test, None)

    def look(self, now: float) -> Seen:
        """All that is known at `now`."""
        with self._lock:
            suites, running = self._ledger.suites(), self._ledger.running(now)
            left_s = self._ledger.left_s(now, len(self.workers))
            where = dict(self._where)
        elapsed_s = now - self._began
        if self.ending and self._state.repeated:
            return self._look_fresh(now, elapsed_s, suites)
        later_s = self._later_s()
        return Seen(
            elapsed_s,
            self._with_repeats(suites),
            tuple(self._with_ranks(r, where, now) for r in running),
            "ending" if self.ending else None,
            None if left_s is None or later_s is None else left_s + later_s,
        )

    def _with_ranks(self, running: Running, where: dict[str, str], now: float) -> Running:
        # A test is known to be on a worker once it is set up; launches come after.
        if running.test not in where:
            return running
        return replace(running, ranks=progress_folder.collect_ranks(self._folder, where[running.test], now))

    def _later_s(self) -> float | None:
        """What repeated tests will take after the others: 0 without any, None when it is not known."""
        tests, chosen = self._state.repeated, self._state.header.selection
        if not tests and not chosen.partial:
            # Workers tell of them at their end only: those of the last time are expected again.
            tests = tuple(t for t in self._later if suite_of(t) in chosen.suites)
        if not tests:
            return 0.0
        each = self._each_s(tests)
        return None if each is None or self._compared else each * self._state.header.repeats

    def _each_s(self, tests: Iterable[str]) -> float | None:
        found = [self._later.get(t) for t in tests]
        return None if None in found else sum(s for s in found if s is not None)

    def _with_repeats(self, suites: Iterable[Suite]) -> tuple[Suite, ...]:
        """The counts with those of repeated tests, each as often as it is to run."""
        counts = {s.name: s for s in suites}
        for test in self._state.repeated:
            old = counts.get(suite_of(test), Suite(suite_of(test), 0, 0))
            planned = (
                None if self._compared or old.planned is None else old.planned + self._state.header.repeats
            )
            counts[old.name] = replace(old, planned=planned)
        for process in self._processes.values():
            for test, failed in process.done.items():
                old = counts.get(suite_of(test), Suite(suite_of(test), 0, None))
                bad = failed and self._state.known(test) is None
                counts[old.name] = replace(old, done=old.done + 1, failed=old.failed + bad)
        return tuple(s for _, s in sorted(counts.items()))

    def _look_fresh(self, now: float, elapsed_s: float, suites: Iterable[Suite]) -> Seen:
        pairs = self._pairs()
        if self._compared and pairs is None:
            return Seen(elapsed_s, self._with_repeats(suites), (), "repeated tests: starting")
        stage = find_stage(pairs, progress_folder.last_process(self._folder), self._state.header.repeats)
        process = self._process(stage, now)
        running = () if process.test is None else (Running(process.test, now - process.since),)
        left_s = None
        if stage.after is not None:
            each_s = self._each_s(self._state.repeated)
            left_s = estimate_processes_s(self._took_s, each_s, now - process.began, stage.after)
        return Seen(elapsed_s, self._with_repeats(suites), running, f"repeated tests, {stage.place}", left_s)

    def _pairs(self) -> Pairs | None:
        with contextlib.suppress(RunFolderError):
            return rundir.read_pairs(self._folder) if self._compared else None
        return None

    def _process(self, stage: Stage, now: float) -> progress_folder.Process:
        """The process that runs now, read to its present end; those before it have been read to theirs."""
        key = (stage.side, stage.number)
        if key not in self._processes:
            if self._processes:
                before = list(self._processes.values())[-1]
                before.look(now)
                self._took_s.append(now - before.began)
            place = self._folder / rundir.BASE if stage.side == "base" else self._folder
            path = place / f"records-repeat-{stage.number}.jsonl"
            self._processes[key] = progress_folder.Process(path, now)
        process = self._processes[key]
        process.look(now)
        return process
