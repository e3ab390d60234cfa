"""What a check of a machine is: looked at, seen, fine or not, why it matters, the remedy. Pure; standard library only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.runners.base import Decision
from harness.runners.facts.snapshot import Snapshot

State = Literal["wrong", "doubtful", "unknown", "fine"]
STATES: tuple[State, ...] = ("wrong", "doubtful", "unknown", "fine")
"""In the order in which they are told."""

GIB = 1 << 30


@dataclass(frozen=True)
class Surroundings:
    """What is looked at beside the runner's snapshot; unknown is None, or absent from a mapping."""

    imports: Mapping[str, str] = field(default_factory=dict)
    """By module that was imported for trial: empty when that went well, else the error in one line."""

    target: str | None = None
    target_why_not: str | None = None
    """Why the target that was asked for is not here; None when it is."""

    supplies: tuple[str, ...] = ()
    """What the harness supplies to the target on this machine."""

    run_free_bytes: int | None = None
    cache_free_bytes: int | None = None
    memory_available_bytes: int | None = None
    variables_set: Mapping[str, bool] = field(default_factory=dict)
    """Whether a variable is set, for those whose value is nobody's business."""


@dataclass(frozen=True)
class Looked:
    """All that a check may look at. `asked`: devices that the user wants; `sets`: variables that the runner sets itself."""

    seen: Snapshot
    decision: Decision
    runner: str
    asked: int | None = None
    around: Surroundings = field(default_factory=Surroundings)
    sets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a check found. `remedy`: a more exact one than the check's own, with the numbers of this machine."""

    state: State
    seen: str
    remedy: str = ""


@dataclass(frozen=True)
class Check:
    """One thing to look at. `runners`: those that it concerns, none for all; `besides`: those that it does not.

    `essential`: when it cannot be told, nothing can be said of the machine.
    """

    name: str
    looked_at: str
    why: str
    remedy: str
    judge: Callable[[Looked], Answer]
    runners: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()
    essential: bool = False
    link: str = ""

    def concerns(self, runner: str) -> bool:
        """Whether a machine of that kind is asked."""
        return runner not in self.besides and (not self.runners or runner in self.runners)


@dataclass(frozen=True)
class Finding:
    """What the doctor says of one thing, in words for a person."""

    check: str
    looked_at: str
    seen: str
    state: State
    why: str
    remedy: str
    essential: bool = False
    link: str = ""


def finding(check: Check, looked: Looked) -> Finding:
    """The check's answer with its reasons."""
    answer = check.judge(looked)
    return Finding(
        check.name,
        check.looked_at,
        answer.seen,
        answer.state,
        check.why,
        answer.remedy or check.remedy,
        check.essential,
        check.link,
    )


def unknown(why: str, remedy: str = "") -> Answer:
    """It cannot be told, and why."""
    return Answer("unknown", why, remedy)


def size(count: float) -> str:
    """`64 MiB`, `1.5 GiB`: a number of bytes for people."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", GIB), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= scale:
            text = f"{count / scale:.1f}"
            return f"{text.removesuffix('.0')} {unit}"
    return f"{count:.0f} bytes"


def some(things: Sequence[object], most: int = 3) -> str:
    """The first of them, and how many more there are."""
    told = ", ".join(str(t) for t in things[:most])
    return told + (f" and {len(things) - most} more" if len(things) > most else "")


def version(text: str | None) -> tuple[int, ...] | None:
    """Leading numbers of a version: (6, 4, 43484) of `6.4.43484-123abc`; None when there are none."""
    found = re.match(r"\D{0,3}(\d{1,9}(?:\.\d{1,9})*)", text or "")
    return None if found is None else tuple(int(p) for p in found[1].split("."))


def dotted(numbers: Sequence[int]) -> str:
    """The version as text."""
    return ".".join(str(n) for n in numbers)


def built_for(looked: Looked) -> tuple[str, str | None, str | None] | None:
    """Version of torch, whose build it is (`rocm`, `hip` or `cuda`) and for which version of that; None without torch."""
    facts = looked.seen.torch
    if facts is None or facts.version is None:
        return None
    name = next((n for n in ("rocm", "hip", "cuda") if facts.versions.get(n)), None)
    return facts.version, name, facts.versions[name] if name else None


NO_TORCH = unknown("torch did not tell", "run it with an interpreter that has torch")


def without_torch(looked: Looked) -> bool:
    """Whether the interpreter that was asked has no torch at all: then it is not the one of the suites."""
    facts = looked.seen.torch
    if facts is None:
        return True
    absent = looked.seen.packages.get("torch") is None and "No module named 'torch'" in (facts.error or "")
    return facts.version is None and absent


def archs(looked: Looked) -> tuple[str, ...]:
    """Architectures of the devices, sorted: as decided, else as the kernel or the vendor's tool names them."""
    decided = {d.arch for d in looked.decision.devices}
    return tuple(sorted(decided or {d.arch for d in looked.seen.devices if d.arch}))
