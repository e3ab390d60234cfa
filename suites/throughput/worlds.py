"""Launches the jobs that the selected tests need, all in one launch, and keeps the answers for all tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from suites.faults import Fault
from suites.throughput.plans import JOBS

PROGRAM = Path(__file__).with_name("rank_throughput.py")
LIMIT_S = 600.0


class Worlds:
    """Gives the ranks' answers to a job by name. `needed` are all that will be asked for, `root` the data set.

    One launch for all, since starting ranks takes longer than most of what they do; ranks that a job does not need
    wait in the next process group meanwhile.
    """

    def __init__(self, needed: Iterable[str], root: str) -> None:
        self.needed, self.root = set(needed), root
        self._answers: dict[str, list[dict[str, Any]]] | None = None
        self._failure: Exception | None = None

    def get(self, name: str, launch: Any, record: Any, machine: Any) -> list[dict[str, Any]]:
        """The answers by rank; raises the launch's failure when it ended before, fails the test when the target
        raised."""
        if self._answers is None:
            self._answers = self._launched(launch, machine)
        if name not in self._answers:
            raise self._failure or RuntimeError(f"{name} was not among the jobs launched")
        for rank, answer in enumerate(self._answers[name]):
            if "error" in answer:
                fault = Fault("exception", f"{name}: rank {rank}: {answer['error'][0]}", answer["text"])
                record.fail(*fault)
        return self._answers[name]

    def _launched(self, launch: Any, machine: Any) -> dict[str, list[dict[str, Any]]]:
        several = machine.decision.capabilities["multi_device"].there
        wanted = (n for n in JOBS if n in self.needed and (several or JOBS[n].ranks == 1))
        jobs = sorted(wanted, key=lambda n: JOBS[n].ranks)
        asked = {
            n: {
                "do": JOBS[n].do,
                "ranks": JOBS[n].ranks,
                "plan": {"data": self.root, "folder": f"{self.root}/runs/{n}", **JOBS[n].plan},
            }
            for n in jobs
        }
        request = {"data": self.root, "runner": machine.runner.name, "jobs": asked}
        ranks = max(JOBS[n].ranks for n in jobs)
        try:
            found: list[Any] = launch(PROGRAM, request, ranks=ranks, limit_s=LIMIT_S)
        except launch.failure as failure:
            self._failure = failure
            found = failure.answers
        mine = {n: found[: JOBS[n].ranks] for n in jobs}
        return {n: [a[n] for a in f] for n, f in mine.items() if all(a is not None and n in a for a in f)}
