"""What a test calls to have a program run: in a child that is kept, or on ranks; with the devices that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import ROOT, rundir
from harness.asked import launch_asked
from harness.child import Child, ChildFailure
from harness.outcomes import Lacking, Notes
from harness.session import State


class Asker:
    """Starts the program that a suite names, one child for each `role`, and asks it."""

    def __init__(self, state: State, notes: Notes, limit_s: float) -> None:
        self._state, self._notes, self.limit_s = state, notes, limit_s

    def __call__(
        self,
        program: Path,
        role: str,
        request: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The answer to `request`; ChildFailure (hang, crash, harness) when there is none in time."""
        state, own = self._state, self._state.own_device
        log = rundir.log_path(state.folder, f"{state.worker}-{program.stem}-{role}.log")
        key = (str(program), role)
        if key not in state.children:
            mask = {} if own is None else state.machine.runner.pin([own])
            variables = {"PYTHONPATH": str(ROOT), **mask, **(environment or {})}
            state.children[key] = Child(program, [state.spec.to_text()], log, variables)
        if log not in self._notes.logs:
            self._notes.logs.append(log)
        with state.pool.lease_one(own):
            return state.children[key].call(request, state.limit_s(self.limit_s))


class LaunchFailure(ChildFailure):
    """Ranks hung or died; `answers` are what they left before, by rank."""

    def __init__(self, kind: str, message: str, detail: str, answers: list[dict[str, Any] | None]) -> None:
        super().__init__(kind, message, detail)
        self.answers = answers


class Launcher:
    """Starts the program that a suite names on some ranks of the runner, and collects their answers."""

    failure = LaunchFailure

    def __init__(self, state: State, notes: Notes, limit_s: float) -> None:
        self._state, self._notes, self.limit_s = state, notes, limit_s

    def __call__(
        self,
        program: Path,
        request: Mapping[str, Any],
        *,
        ranks: int = 2,
        nodes: int = 1,
        environment: Mapping[str, str] | None = None,
        limit_s: float | None = None,
    ) -> list[dict[str, Any]]:
        """The ranks' answers to `request`, by rank; LaunchFailure (hang, crash) when one does not end well.

        On a machine with fewer devices or nodes than are asked for the test is skipped with that reason.
        """
        state = self._state
        if not state.has_nodes(nodes):
            raise Lacking(
                f"runner {state.machine.runner.name} lacks nodes: it starts ranks on one, not {nodes}"
            )
        if ranks > 1:
            state.needs("multi_device")
        if nodes > 1:
            return self._launched(program, request, ranks, nodes, (), environment, limit_s or self.limit_s)
        if state.pool.count and ranks > state.pool.count:
            name, there = state.machine.runner.name, state.pool.count
            raise Lacking(f"runner {name} lacks devices: {ranks} are needed, {there} are here")
        with state.pool.lease(ranks) as devices:
            return self._launched(program, request, ranks, 1, devices, environment, limit_s or self.limit_s)

    def _launched(
        self,
        program: Path,
        request: Mapping[str, Any],
        ranks: int,
        nodes: int,
        devices: Sequence[int],
        environment: Mapping[str, str] | None,
        limit_s: float,
    ) -> list[dict[str, Any]]:
        state = self._state
        state.launches += 1
        name = f"{state.worker}-{program.parent.name}-{program.stem}-{state.launches}"
        logs = rundir.log_path(state.folder, name)
        logs.mkdir(parents=True)
        done, found = launch_asked(
            state.machine,
            state.spec,
            program,
            request,
            world=ranks,
            logs=logs,
            limit_s=state.limit_s(limit_s),
            nodes=nodes,
            devices=devices,
            environment=environment,
        )
        self._notes.logs += [r.log for r in done.ranks if r.log.exists()]
        if done.kind is not None:
            raise LaunchFailure(done.kind, done.message, done.detail, found)
        given = [a for a in found if a is not None]
        if len(given) < ranks:
            raise LaunchFailure("crash", "a rank left with 0 and without an answer", done.detail, found)
        return given
