"""The rules of the contract about deciding: each yields what breaks it, on one line. Standard library only."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from harness.runners.base import CAPABILITIES, Decision, Runner
from harness.runners.facts import worlds
from harness.runners.facts.snapshot import Snapshot, to_json

REMEDY = re.compile(
    r"(?:^|[:;,(.])\s*(?:(?:and|or|then|please)\s+)?(?:add|ask|build|call|check|choose|clean|close|connect|copy|create|"
    r"drop|enable|end|export|fetch|find|free|get|give|install|join|leave|load|make|mend|mount|move|name|open|pass|pick|"
    r"pip|plug|point|put|read|reinstall|remove|replace|reset|restart|run|say|see|select|set|start|stop|take|turn|unset|"
    r"update|upgrade|use|wait)\b",
    re.IGNORECASE,
)
"""A part of a sentence that begins with what to do."""

MARKETING = re.compile(
    r"instinct|radeon|geforce|tesla|quadro|nvidia|rtx|gtx|mi\d{2,3}|(^|_)[abhl]\d{2,3}($|_)", re.I
)

Rule = Callable[[Runner, Mapping[str, Snapshot]], Iterator[str]]


def rule_total(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """Deciding never raises and gives a Decision, whatever the snapshot."""
    for name, seen in snapshots.items():
        try:
            decided = runner.decide(seen)
        except Exception as error:  # noqa: BLE001 - that is the question
            yield f"{name}: decide raised {type(error).__name__}: {error}"
            continue
        if not isinstance(decided, Decision):
            yield f"{name}: decide gave a {type(decided).__name__}"


def rule_pure(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """Deciding looks at the snapshot only: the same twice, without environment, files, processes, network or clock."""
    for name, seen in snapshots.items():
        before = json.dumps(to_json(seen), sort_keys=True, default=str)
        with worlds.poisoned() as touched:
            try:
                first, second = runner.decide(seen), runner.decide(seen)
                same = first == second
            except Exception:  # noqa: BLE001 - told as touched, or by the rule `total`
                same = True
        if touched:
            yield f"{name}: decide used {', '.join(sorted(set(touched)))}"
        elif not same:
            yield f"{name}: decided differently the second time"
        if json.dumps(to_json(seen), sort_keys=True, default=str) != before:
            yield f"{name}: decide changed the snapshot"


def rule_why_not(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """A refusal is one line that names a remedy."""
    for name, decided in _decided(runner, snapshots):
        why = decided.why_not
        if why is None:
            continue
        if not isinstance(why, str) or not why.strip() or "\n" in why or "\r" in why:
            yield f"{name}: why_not is no line of text: {why!r}"
        elif not REMEDY.search(why):
            yield f"{name}: why_not names no remedy: {why}"


def rule_usable(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """A usable machine has devices, each with a number of its own, and a device type and back end."""
    for name, decided in usable(runner, snapshots):
        numbers = [d.index for d in decided.devices]
        if not numbers:
            yield f"{name}: usable without a device"
        if len(set(numbers)) < len(numbers):
            yield f"{name}: two devices have one number: {numbers}"
        if not decided.device or not decided.collective_backend:
            yield f"{name}: device {decided.device!r}, collective_backend {decided.collective_backend!r}"


def rule_arch(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """An architecture is a name like gfx942 or sm_90, never a product's."""
    for name, decided in usable(runner, snapshots):
        for device in decided.devices:
            if not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", device.arch):
                yield f"{name}: arch {device.arch!r}: lower-case letters, digits and _ are needed"
            elif MARKETING.search(device.arch):
                yield f"{name}: arch {device.arch!r} is a product's name"


def rule_capabilities(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """A usable machine answers every capability, yes or no, with a reason of one line."""
    for name, decided in usable(runner, snapshots):
        missing = [c for c in CAPABILITIES if c not in decided.capabilities]
        unknown = [c for c in decided.capabilities if c not in CAPABILITIES]
        if missing or unknown:
            yield f"{name}: capabilities without an answer: {missing}; not known: {unknown}"
        for label, answer in decided.capabilities.items():
            if not isinstance(answer.there, bool):
                yield f"{name}: {label} is {answer.there!r}"
            if not isinstance(answer.reason, str) or not answer.reason.strip() or "\n" in answer.reason:
                yield f"{name}: {label} has no reason of one line: {answer.reason!r}"


def rule_fp8(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """8-bit floats say which format: the same bits are worth half in e4m3fnuz."""
    for name, decided in usable(runner, snapshots):
        answer = decided.capabilities.get("fp8")
        if answer and answer.there and answer.form not in ("e4m3fn", "e4m3fnuz"):
            yield f"{name}: fp8 is there in the form {answer.form!r}"


def rule_peaks(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """A peak is above 0 and finite with its source, or unknown (None)."""
    for name, decided in usable(runner, snapshots):
        for device in decided.devices:
            if device.peak is None:
                continue
            figures = [*device.peak.tflops.values()]
            figures += [] if device.peak.bandwidth_tb_s is None else [device.peak.bandwidth_tb_s]
            if not figures or not all(0 < f < math.inf for f in figures) or not device.peak.source:
                yield f"{name}: device {device.index}: {device.peak}"


def rule_emulation(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """A measured runner refuses signs of an emulator; an emulated one refuses a machine without them, and has no timing."""
    for name, decided in usable(runner, snapshots):
        seen = snapshots[name]
        if runner.emulated:
            bare = replace(
                seen, emulation=(), torch=None if seen.torch is None else replace(seen.torch, emulation=())
            )
            if runner.decide(bare).why_not is None:
                yield f"{name}: usable without a sign of an emulator"
            timing = decided.capabilities.get("timing")
            if timing and timing.there:
                yield f"{name}: emulated and has timing"
            continue
        signed = [replace(seen, emulation=("MIRAGE_SESSION",))]
        if seen.torch is not None:
            signed.append(replace(seen, torch=replace(seen.torch, emulation=("maps: librocjitsu.so",))))
        for with_signs in signed:
            if runner.decide(with_signs).why_not is None:
                yield f"{name}: usable in spite of signs of an emulator"
        if decided.stand_in:
            yield f"{name}: a stand-in that is not called emulated"


def rule_environment(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """Variables to set are names and text, and no visibility mask."""
    for name, decided in _decided(runner, snapshots):
        for key, value in runner.environment(decided).items():
            if (
                not isinstance(key, str)
                or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key)
                or not isinstance(value, str)
            ):
                yield f"{name}: {key!r}={value!r}"
            elif "VISIBLE" in key:
                yield f"{name}: {key} is a mask: pin sets it"


def rule_proven(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """At least one of the snapshots is usable, so that the rules about usable machines tested something."""
    if not any(True for _ in usable(runner, snapshots)):
        yield "no snapshot is usable: give checks() one of a machine that this runner is for"


def _decided(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[tuple[str, Decision]]:
    """Decisions by snapshot; one that raises is the rule `total`'s."""
    for name, seen in snapshots.items():
        try:
            decided = runner.decide(seen)
        except Exception:  # noqa: BLE001
            continue
        if isinstance(decided, Decision):
            yield name, decided


def usable(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[tuple[str, Decision]]:
    """What the runner decides about each machine that it can use, by the machine's name."""
    return ((name, decided) for name, decided in _decided(runner, snapshots) if decided.why_not is None)
