"""Checks of the emulator: its program, its profile and its library."""

from __future__ import annotations

from harness.runners.facts.checks_base import Answer, Check, Looked, some, unknown
from harness.runners.facts.snapshot import Snapshot

RUNNERS = ("mirage",)
PROFILE = "mi350x"
_README = "https://github.com/ROCm/rocm-systems/tree/develop/emulation/mirage"


def hardware(seen: Snapshot) -> str | None:
    """The emulator's program, where it is."""
    program = seen.emulator.get("program")
    return f"{program} is there" if program else None


def _judge_program(looked: Looked) -> Answer:
    told = looked.seen.emulator
    if not told:
        return unknown("the emulator was not asked")
    if error := told.get("error"):
        return Answer("wrong", str(error))
    if not (program := told.get("program")):
        return Answer("wrong", "neither mirage nor rocjitsu is in PATH")
    if told.get("stand_in"):
        return Answer(
            "doubtful", f"{program} is the harness's own stand-in: its runs prove the harness alone"
        )
    return Answer("fine", str(program))


def _judge_profile(looked: Looked) -> Answer:
    profiles = looked.seen.emulator.get("profiles")
    if not isinstance(profiles, (list, tuple, dict)) or not profiles:
        return unknown("the emulator did not list its profiles")
    names = [str(p.get("name") if isinstance(p, dict) else p) for p in profiles]
    wanted = str(looked.seen.emulator.get("profile") or PROFILE)
    told = f"{wanted} is wanted; listed: {some(names, 8)}"
    return Answer(
        "fine" if wanted in names else "wrong", told, f"set HARNESS_MIRAGE_PROFILE to one of {some(names, 8)}"
    )


def _judge_library(looked: Looked) -> Answer:
    told = looked.seen.emulator
    if not told or "library" not in told:
        return unknown("the emulator was not asked")
    if library := told.get("library"):
        return Answer("fine", str(library))
    if told.get("status") is None:
        return unknown("no workload was started inside the emulator")
    return Answer("wrong", "the workload had no librocjitsu.so in it")


CHECKS = (
    Check(
        "emulator",
        "the emulator's program",
        "nothing is emulated without it",
        "build or install mirage (or rocjitsu, its later name), and put it in PATH",
        _judge_program,
        runners=RUNNERS,
        essential=True,
        link=_README,
    ),
    Check(
        "emulator-profile",
        "the emulator's profiles",
        f"the suites are for {PROFILE}; a program and a library of different ages do not know the same profiles",
        "install a matching pair of mirage and rocjitsu",
        _judge_profile,
        runners=RUNNERS,
        link=_README,
    ),
    Check(
        "emulator-library",
        "the emulator's library",
        "without it a run ends with 'KMD preload library not found', or sees no device",
        "run rocm-sdk init in the active environment, or name the library in ROCJITSU_LIB",
        _judge_library,
        runners=RUNNERS,
        link=_README,
    ),
)
