"""Judges a machine for a runner: what was looked at, seen, fine or not, why it matters, the remedy; pure."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence

from harness.doctor_checks import EMULATION, GENERAL
from harness.doctor_software import SOFTWARE
from harness.runners import facts
from harness.runners.base import Machine
from harness.runners.facts.checks_base import (
    STATES,
    Answer,
    Check,
    Finding,
    Looked,
    Surroundings,
    finding,
    unknown,
    without_torch,
)
from harness.runners.facts.snapshot import Snapshot

CPU = "cpu"


def _vendors() -> tuple[object, ...]:
    """The modules of checks that know vendors, in the order of their names. The folder is the registry."""
    found = sorted(m.name for m in pkgutil.iter_modules(facts.__path__) if m.name.startswith("checks_"))
    return tuple(importlib.import_module(f"{facts.__name__}.{n}") for n in found if n != "checks_base")


def hardware(seen: Snapshot, runner: str) -> str | None:
    """What shows that the machine has devices of that kind, usable or not; None when nothing does."""
    for module in _vendors():
        if runner in getattr(module, "RUNNERS", ()) and hasattr(module, "hardware"):
            found: str | None = module.hardware(seen)
            return found
    return None


def _judge_runner(looked: Looked) -> Answer:
    why_not = looked.decision.why_not
    if why_not is None:
        count, arch = len(looked.decision.devices), looked.decision.arch
        return Answer("fine", f"{count} x {arch}")
    there = hardware(looked.seen, looked.runner)
    if there and not without_torch(looked):
        return Answer("wrong", f"{there}, but: {why_not}")
    return unknown(f"{there}, but: {why_not}" if there else why_not)


RUNNER = Check(
    "runner",
    "whether this machine is of the kind that was asked for",
    "on any other machine the suites do not start",
    "mend what is wrong below, or choose another runner (harness runners)",
    _judge_runner,
    essential=True,
)


def checks(runner: str, *, emulated: bool = False, more: Sequence[Check] = ()) -> tuple[Check, ...]:
    """The checks that concern a runner, in the order in which they are made."""
    known = [c for module in _vendors() for c in getattr(module, "CHECKS", ())]
    every = (RUNNER, GENERAL[0], *known, *([] if emulated else [EMULATION]), *GENERAL[1:], *SOFTWARE, *more)
    return tuple(c for c in every if c.concerns(runner))


def every_check() -> tuple[Check, ...]:
    """All the checks there are."""
    known = [c for module in _vendors() for c in getattr(module, "CHECKS", ())]
    return (RUNNER, GENERAL[0], *known, EMULATION, *GENERAL[1:], *SOFTWARE)


def judge_machine(
    machine: Machine, *, asked: int | None = None, around: Surroundings | None = None
) -> tuple[Finding, ...]:
    """What the doctor says of a machine, what is wrong first.

    Where nothing shows such hardware, only that is said. A runner of another package may hold checks of its own
    in an attribute `checks`.
    """
    runner = machine.runner
    looked = Looked(
        machine.seen,
        machine.decision,
        runner.name,
        asked,
        around or Surroundings(),
        runner.environment(machine.decision) if machine.decision.why_not is None else {},
    )
    if machine.decision.why_not is not None and hardware(machine.seen, runner.name) is None:
        return (finding(RUNNER, looked),)
    chosen = checks(runner.name, emulated=runner.emulated, more=getattr(runner, "checks", ()))
    found = [finding(c, looked) for c in chosen]
    return tuple(sorted(found, key=lambda f: STATES.index(f.state)))


def exit_status(findings: Sequence[Finding]) -> int:
    """0 nothing wrong; 1 something is wrong; 3 not such a machine, or what decides cannot be told."""
    if any(f.state == "wrong" for f in findings):
        return 1
    not_told = any(f.state == "unknown" and f.essential for f in findings)
    return 3 if not_told or not findings else 0


def choose(machines: Mapping[str, Machine]) -> tuple[str, str]:
    """The runner to look at when none was named, and why: a usable accelerator, then one that is there and cannot be
    used, then the CPU; an emulator only when it is asked for."""
    real = {n: m for n, m in machines.items() if n != CPU and not m.runner.emulated}
    for name, machine in real.items():
        if machine.decision.why_not is None:
            return name, f"chosen: {len(machine.decision.devices)} x {machine.decision.arch} can be used"
    for name, machine in real.items():
        if there := hardware(machine.seen, name):
            return name, f"chosen: {there}, though it cannot be used"
    return CPU, "chosen: no accelerator is here"
