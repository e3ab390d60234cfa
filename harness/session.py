"""A pytest session as a run: finds runner and target, claims the run folder, writes the header, keeps children."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from harness import ROOT, fingerprint, known_issues, launch, matching, rundir, runners, targets
from harness import ranks as ranks_end
from harness.child import Child, ChildFailure
from harness.errors import UsageError
from harness.outcomes import Notes
from harness.records import Header, KnownIssue, Selection, TargetInfo
from harness.targets import base
from harness.targets.base import TargetSpec


class State:
    """What one process of the session knows of its run."""

    def __init__(self, folder: Path, spec: TargetSpec, header: Header, worker: str) -> None:
        self.folder, self.spec, self.worker = folder, spec, worker
        self.runner, self.issues = header.runner.name, header.known_issues
        self.writer = rundir.Writer(folder, worker)
        self.children: dict[tuple[str, str], Child] = {}
        self.started = ""
        self.launches = 0

    def known(self, test: str) -> KnownIssue | None:
        """The known issue of a test that holds in this run and is not past its day."""
        issue = matching.matching(
            self.issues, test=test, runner=self.runner, target=self.spec.name, patches=self.spec.patches
        )
        today = datetime.now(timezone.utc).date()
        return None if issue is None or matching.expired(issue, today) else issue


def start(config: pytest.Config) -> State:
    """Finds runner and target, claims the run folder and writes the header."""
    option = config.option
    runner = runners.get(option.runner)
    if (why := runner.unavailable()) is not None:
        raise UsageError(why)
    for name, value in runner.environment().items():
        os.environ.setdefault(name, value)
    # pytest captures nothing while it configures: what is said here is seen.
    spec = base.locate(option.target, option.target_path, option.patch, clone=True, say=_say)
    if option.defect is not None:
        spec = dataclasses.replace(spec, defect=option.defect)
        _check_defect(option.defect)
    issues = known_issues.load(ROOT / "suites" / "known_issues.toml")
    now = datetime.now(timezone.utc)
    folder = rundir.claim(Path(option.run_dir)) if option.run_dir else None
    folder = folder or rundir.create(Path("runs"), runner.name, now)
    header = _header(config, folder.resolve().name, now, spec, issues)
    rundir.write_header(folder, header)
    return State(folder.resolve(), spec, header, "main")


def _check_defect(name: str) -> None:
    from fixtures import defects

    if name not in defects.names():
        raise UsageError(f"--defect {name}: no such defect; there are: {', '.join(defects.names())}")


def _header(
    config: pytest.Config, run_id: str, now: datetime, spec: TargetSpec, issues: tuple[KnownIssue, ...]
) -> Header:
    from fixtures import damaged

    runner = runners.get(config.option.runner)
    supplies: tuple[str, ...] = targets.module(spec.name).supplies()
    commit, dirty = fingerprint.collect_git(ROOT)
    return Header(
        run_id=run_id,
        started=now.isoformat(timespec="seconds"),
        runner=fingerprint.collect_runner(runner),
        target=TargetInfo(spec.name, spec.commit, spec.dirty, supplies, spec.patches, spec.note),
        selection=_selection(config),
        configuration={"fixtures": damaged.recipe_digest(), "training": fingerprint.collect_recipe(ROOT)},
        machine=fingerprint.collect_machine(),
        software=fingerprint.collect_software(),
        harness_commit=commit,
        harness_dirty=dirty,
        command=(shlex.join(config.invocation_params.args),),
        known_issues=issues,
        defect=spec.defect,
    )


def _selection(config: pytest.Config) -> Selection:
    """Which suites were asked for, and whether parts of them were left out."""
    root = ROOT / "suites"
    every = tuple(sorted(p.name for p in root.iterdir() if (p / "__init__.py").exists()))
    suites: set[str] = set()
    arguments: list[str] = []
    for argument in config.args:
        path = Path(argument.partition("::")[0]).resolve()
        if path == root:
            suites.update(every)
        elif path.parent == root and "::" not in argument:
            suites.add(path.name)
        else:
            arguments.append(argument)
            suites.update(s for s in every if (root / s) in path.parents)
    arguments += [f"--deselect {d}" for d in config.option.deselect or ()]
    return Selection(
        tuple(sorted(suites)), config.option.keyword or "", config.option.markexpr or "", tuple(arguments)
    )


def _say(text: str) -> None:
    print(f"harness: {text}", file=sys.__stderr__, flush=True)


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
        state = self._state
        log = rundir.log_path(state.folder, f"{state.worker}-{program.stem}-{role}.log")
        key = (str(program), role)
        if key not in state.children:
            variables = {"PYTHONPATH": str(ROOT), **(environment or {})}
            state.children[key] = Child(program, [state.spec.to_text()], log, variables)
        if log not in self._notes.logs:
            self._notes.logs.append(log)
        return state.children[key].call(request, self.limit_s)


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
        environment: Mapping[str, str] | None = None,
        limit_s: float | None = None,
    ) -> list[dict[str, Any]]:
        """The ranks' answers to `request`, by rank; LaunchFailure (hang, crash) when one does not end well."""
        state, runner = self._state, runners.get(self._state.runner)
        state.launches += 1
        name = f"{state.worker}-{program.parent.name}-{program.stem}-{state.launches}"
        logs = rundir.log_path(state.folder, name)
        logs.mkdir(parents=True)
        ranks_end.ask(logs, state.spec, request)
        variables = {
            "PYTHONPATH": str(ROOT),
            ranks_end.FOLDER: str(logs),
            ranks_end.BACKEND: runner.collective_backend,
            ranks_end.DEVICE: runner.device,
            **(environment or {}),
        }
        done = launch.launch(
            program, ranks=ranks, logs=logs, limit_s=limit_s or self.limit_s, environment=variables
        )
        self._notes.logs += [r.log for r in done.ranks if r.log.exists()]
        found = ranks_end.answers(logs, ranks)
        if done.kind is not None:
            raise LaunchFailure(done.kind, done.message, done.detail, found)
        given = [a for a in found if a is not None]
        if len(given) < ranks:
            raise LaunchFailure("crash", "a rank left with 0 and without an answer", done.detail, found)
        return given
