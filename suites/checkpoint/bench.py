"""Launches the jobs that the selected tests need, at most two launches in all, and keeps the answers for all tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from suites import minidata
from suites.checkpoint.cases import JOBS, Job, closure
from suites.faults import Fault

PROGRAM = Path(__file__).with_name("rank_checkpoint.py")
LIMIT_S = 300.0


class Bench:
    """Gives the ranks' answers to a job. `needed` are the names of all jobs that will be asked for."""

    def __init__(self, needed: Iterable[str]) -> None:
        self.jobs = closure(needed)
        self._data: tempfile.TemporaryDirectory[str] | None = None
        self._answers: dict[str, list[dict[str, Any]]] = {}
        self._launched: dict[int, Exception | None] = {}

    def close(self) -> None:
        if self._data is not None:
            self._data.cleanup()

    def get(self, name: str, launch: Any, record: Any, *, raw: bool = False) -> list[dict[str, Any]]:
        """The answers by rank; raises the launch's failure when it ended before.

        When the target raised, it fails the test; if `raw`, the error is part of the answer.
        """
        job = JOBS[name]
        for before in sorted({job for job, _ in job.uses.values()}):
            self.get(before, launch, record)
        if job.phase not in self._launched:
            self._launch(job.phase, launch)
        if name not in self._answers:
            raise self._launched[job.phase] or RuntimeError(f"{name} was not among the jobs launched")
        found = self._answers[name]
        for rank, answer in enumerate(found):
            if "error" in answer and not raw:
                fault = Fault("exception", f"{name}: rank {rank}: {answer['error'][0]}", answer["text"])
                record.fail(*fault)
        return found

    def _launch(self, phase: int, launch: Any) -> None:
        if self._data is None:
            self._data = minidata.make()
        jobs = [j for j in self.jobs if j.phase == phase and self._ready(j)]
        ranks = max(j.world for j in jobs)
        request = {"data": self._data.name, "jobs": [self._asked(j) for j in jobs]}
        self._launched[phase] = None
        try:
            found: list[Any] = launch(PROGRAM, request, ranks=ranks, limit_s=LIMIT_S)
        except launch.failure as failure:
            self._launched[phase] = failure
            found = failure.answers
        for job in jobs:
            mine = found[: job.world]
            if all(a is not None and job.name in a for a in mine):
                self._answers[job.name] = [a[job.name] for a in mine]

    def _ready(self, job: Job) -> bool:
        return all(
            b in self._answers and not any("error" in a for a in self._answers[b])
            for b, _ in job.uses.values()
        )

    def _asked(self, job: Job) -> dict[str, Any]:
        assert self._data is not None
        root = self._data.name
        plan = {"data": root, "folder": f"{root}/runs/{job.name}", **job.plan}
        used = {key: self._answers[b][0][k] for key, (b, k) in job.uses.items()}
        if "resume" in used:
            plan["resume"] = used.pop("resume")
        return {"name": job.name, "world": job.world, "do": job.do, "plan": plan, **used, **job.more}
