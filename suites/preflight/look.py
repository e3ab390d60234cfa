"""The program of a fresh child: what it sees of the machine, what the decoder gives, what the doctor finds."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Mapping
from typing import Any

from fixtures import barcode
from harness.child import serve
from harness.targets.base import TargetSpec
from suites.preflight.instruments import instruments


@functools.cache
def spec() -> TargetSpec:
    return TargetSpec.from_text(sys.argv[1])


@functools.cache
def tools() -> Any:
    return instruments(spec())


def seen() -> dict[str, Any]:
    """Devices and signs of an emulator, as this process sees them."""
    return {"devices": tools().devices(), "emulation": tools().emulation()}


def decode(path: str, indices: list[int]) -> dict[str, Any]:
    """Numbers of the frames that came back."""
    try:
        return {"numbers": [barcode.read(frame) for frame in tools().decode(path, indices)]}
    except Exception as error:  # noqa: BLE001 - the error is the answer
        return {"error": f"{type(error).__name__}: {error}"[:600]}


def ffmpeg() -> dict[str, Any]:
    """What ffmpeg says of itself."""
    try:
        return {"version": tools().ffmpeg()}
    except Exception as error:  # noqa: BLE001 - the error is the answer
        return {"error": f"{type(error).__name__}: {error}"[:600]}


def doctor(runner: str, snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The doctor's findings on the session's own look at the machine."""
    from harness import doctor as doctor_
    from harness import doctor_edge, runners
    from harness.runners.base import Machine
    from harness.runners.facts.snapshot import from_json, to_json

    chosen = runners.get(runner)
    looked = from_json(snapshot)
    machine = doctor_edge.completed(Machine(chosen, looked, chosen.decide(looked)))
    machine = doctor_edge.again(machine, from_json(tools().snapshot(to_json(machine.seen))))
    around = doctor_edge.collect_surroundings(spec().name, spec().path)
    found = doctor_.judge_machine(machine, around=around)
    return {"findings": {f.check: dataclasses.asdict(f) for f in found}}


if __name__ == "__main__":
    serve({"seen": seen, "decode": decode, "ffmpeg": ffmpeg, "doctor": doctor})
