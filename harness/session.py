"""A pytest session as a run: finds runner and target, claims the run folder, writes the header, keeps children."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

from harness import ROOT, fingerprint, known_issues, matching, redaction, repeats, rundir, runners, targets
from harness.child import Child
from harness.errors import RunnerUnavailable, UsageError
from harness.exploring import read_seed
from harness.outcomes import Failure, Lacking
from harness.pool import DevicePool
from harness.records import Header, KnownIssue, Record, Selection, TargetInfo
from harness.runners.base import CAPABILITIES, Machine
from harness.runners.facts.snapshot import from_json, to_json
from harness.targets import base
from harness.targets.base import TargetSpec

LONGEST_S = 3600.0
"""The longest that a time limit may become on a slow runner, in seconds."""


class State:
    """What one process of the session knows of its run."""

    def __init__(
        self, folder: Path, spec: TargetSpec, header: Header, worker: str, required: Sequence[str] = ()
    ) -> None:
        self.folder, self.spec, self.worker, self.header = folder, spec, worker, header
        # Decided anew from what the session's first process saw: a worker does not look itself.
        runner, seen = runners.get(header.runner.name), from_json(header.machine["snapshot"])
        self.machine = Machine(runner, seen, runner.decide(seen))
        self.required = frozenset(required)
        self.secrets = redaction.find(os.environ)
        self.pool = DevicePool(folder / "devices", self._count())
        self.writer = rundir.Writer(folder, worker)
        self.children: dict[tuple[str, str], Child] = {}
        self.started = ""
        self.launches = 0
        self.repeat: int | None = None
        """Which of the fresh processes of repeated tests this is; None for the session itself."""
        self.repeated: tuple[str, ...] = ()
        """The tests that are left for such processes."""

    def _count(self) -> int:
        """Devices that ranks must not share; a CPU's processors are shared."""
        decision = self.machine.decision
        return 0 if decision.device == "cpu" else len(decision.devices)

    @property
    def own_device(self) -> int | None:
        """The device of this worker: one worker a device, by the worker's number."""
        count, number = self.pool.count, self.worker.removeprefix("gw")
        return None if not count else int(number) % count if number.isdigit() else 0

    def limit_s(self, limit_s: float) -> float:
        """A time limit as it holds on this runner."""
        return min(limit_s * self.machine.runner.time_factor, max(limit_s, LONGEST_S))

    def has_nodes(self, nodes: int) -> bool:
        """Whether the runner starts ranks on so many nodes: a machine is one, an emulator has more."""
        return nodes == 1 or self.machine.runner.command(["x"], devices=1, nodes=nodes) != ["x"]

    def needs(self, capability: str) -> None:
        """Returns when the runner has it; else skips with the runner's reason, or fails where it must have it."""
        if capability not in CAPABILITIES:
            raise ValueError(f"no such capability: {capability}; there are: {', '.join(CAPABILITIES)}")
        found = self.machine.decision.capabilities[capability]
        if found.there:
            return
        name = self.machine.runner.name
        if found.required or capability in self.required:
            raise Failure("infrastructure", f"runner {name} must have {capability}: {found.reason}", "")
        raise Lacking(f"runner {name} lacks {capability}: {found.reason}")

    def keep(self, record: Record) -> None:
        """Writes a record down, without the secrets of this environment."""
        self.writer.append(redaction.redact_record(record, self.secrets))

    def known(self, test: str) -> KnownIssue | None:
        """The known issue of a test that holds in this run and is not past its day."""
        issue = matching.matching(self.header.known_issues, test=test, header=self.header)
        today = datetime.now(timezone.utc).date()
        return None if issue is None or matching.expired(issue, today) else issue


def start(config: pytest.Config) -> State:
    """Finds runner and target, claims the run folder and writes the header."""
    option = config.option
    machine = runners.machine(option.runner)
    if machine.decision.why_not is not None:
        raise RunnerUnavailable(machine.decision.why_not)
    for name, value in machine.runner.environment(machine.decision).items():
        os.environ.setdefault(name, value)
    if option.repeat < 1:
        raise UsageError(f"--repeat {option.repeat}: name at least one process")
    for name in option.require:
        if name not in CAPABILITIES:
            raise UsageError(f"--require {name}: no such capability; there are: {', '.join(CAPABILITIES)}")
    # pytest captures nothing while it configures: what is said here is seen.
    spec = base.locate(option.target, option.target_path, option.patch, clone=True, say=_say)
    if option.defect is not None:
        spec = dataclasses.replace(spec, defect=option.defect)
        _check_defect(option.defect)
    issues = known_issues.load(ROOT / "suites" / "known_issues.toml")
    now = datetime.now(timezone.utc)
    folder = rundir.claim(Path(option.run_dir)) if option.run_dir else None
    folder = folder or rundir.create(Path("runs"), machine.runner.name, now)
    header = _header(config, folder.resolve().name, now, spec, issues)
    header = redaction.redact_header(header, redaction.find(os.environ))
    rundir.write_header(folder, header)
    return State(folder.resolve(), spec, header, "main", option.require)


def join(config: pytest.Config) -> State:
    """The state of a fresh process for repeated tests: it writes into a run that another process began."""
    option = config.option
    if getattr(option, "numprocesses", None):
        raise UsageError("-n: repeated tests run one after the other; leave it out")
    folder = Path(option.run_dir).resolve()
    header = rundir.read_header(folder)
    spec = TargetSpec.from_text(os.environ[repeats.SPEC])
    state = State(folder, spec, header, f"repeat-{option.join}", option.require)
    state.repeat = option.join
    return state


def _check_defect(name: str) -> None:
    from fixtures import defects

    if name not in defects.names():
        raise UsageError(f"--defect {name}: no such defect; there are: {', '.join(defects.names())}")


def _header(
    config: pytest.Config, run_id: str, now: datetime, spec: TargetSpec, issues: tuple[KnownIssue, ...]
) -> Header:
    from fixtures import damaged

    machine = runners.machine(config.option.runner)
    supplies: tuple[str, ...] = targets.module(spec.name).supplies()
    commit, dirty = fingerprint.collect_git(ROOT)
    return Header(
        run_id=run_id,
        started=now.isoformat(timespec="seconds"),
        runner=fingerprint.runner_info(machine.runner, machine.decision),
        target=TargetInfo(spec.name, spec.commit, spec.dirty, supplies, spec.patches, spec.note),
        selection=_selection(config),
        configuration={"fixtures": damaged.recipe_digest(), "training": fingerprint.collect_recipe(ROOT)},
        machine={**fingerprint.collect_machine(), "snapshot": to_json(machine.seen)},
        software={**fingerprint.collect_software(), **machine.decision.software},
        harness_commit=commit,
        harness_dirty=dirty,
        command=(shlex.join(config.invocation_params.args),),
        known_issues=issues,
        defect=spec.defect,
        repeats=config.option.repeat,
        explore=read_seed(os.environ),
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
