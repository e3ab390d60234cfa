"""Launches the scenarios that the selected tests need: one launch for each number of ranks, kept for all tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from suites import minidata
from suites.faults import Fault
from suites.fsdp.scenarios import SCENARIOS

PROGRAM = Path(__file__).with_name("rank_steps.py")
LIMIT_S = 300.0


class Run:
    """What the ranks told of one scenario."""

    def __init__(self, name: str, ranks: list[dict[str, Any]]) -> None:
        self.name, self.ranks = name, ranks
        self.scenario = SCENARIOS[name]

    @property
    def error(self) -> list[str] | None:
        """The error of the first rank that had one, with its causes."""
        return next((r["error"] for r in self.ranks if "error" in r), None)

    @property
    def steps(self) -> int:
        return len(self.ranks[0]["steps"])

    def of(self, key: str, rank: int = 0) -> list[Any]:
        """One value a step, as a rank told it."""
        return [s[key] for s in self.ranks[rank]["steps"]]

    def loss(self) -> list[float]:
        """Mean over ranks, by step: the loss over all samples of the step."""
        columns = zip(*(self.of("loss", r) for r in range(len(self.ranks))), strict=True)
        return [sum(c) / len(c) for c in columns]

    def trace(self, name: str) -> list[float]:
        return self.loss() if name == "loss" else [float(v) for v in self.of(name)]


class Worlds:
    """Gives scenarios by name. `needed` are all that will be asked for."""

    def __init__(self, needed: Iterable[str]) -> None:
        self.needed = set(needed)
        self._data: tempfile.TemporaryDirectory[str] | None = None
        self._done: dict[str, list[dict[str, Any]]] = {}
        self._failed: dict[int, Exception] = {}

    def close(self) -> None:
        if self._data is not None:
            self._data.cleanup()

    def get(self, name: str, launch: Any, record: Any) -> Run:
        """The scenario, launched with the others of its number of ranks on first use.

        Raises the launch's failure when it ended before it; fails the test when the target raised.
        """
        run = self.raw(name, launch)
        if run.error is not None:
            fault = Fault("exception", f"{name}: {run.error[0]}", "\ncaused by ".join(run.error))
            record.fail(*fault)
        return run

    def raw(self, name: str, launch: Any) -> Run:
        """As `get`, but an error of the target is part of the answer."""
        ranks = SCENARIOS[name].ranks
        if name not in self._done and ranks not in self._failed:
            self._launch(ranks, launch)
        if name not in self._done:
            raise self._failed[ranks]
        return Run(name, self._done[name])

    def _launch(self, ranks: int, launch: Any) -> None:
        if self._data is None:
            self._data = minidata.make()
        chosen = [n for n in SCENARIOS if n in self.needed and SCENARIOS[n].ranks == ranks]
        root = self._data.name
        plans = {n: {"data": root, "folder": f"{root}/runs/{n}", **SCENARIOS[n].plan} for n in chosen}
        try:
            found: list[Any] = launch(PROGRAM, {"plans": plans, "data": root}, ranks=ranks, limit_s=LIMIT_S)
        except launch.failure as failure:
            self._failed[ranks] = failure
            found = failure.answers
        for name in chosen:
            if all(a is not None and name in a for a in found):
                self._done[name] = [a[name] for a in found]
