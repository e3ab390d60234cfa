"""Why a machine does not emulate what was asked for, with the remedy; root causes first. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

from harness.runners.facts import archs, deciding
from harness.runners.facts.emulation import own_error
from harness.runners.facts.mirage_command import BACKEND, DEVICES, MOST_DEVICES, PROFILE, PROGRAM
from harness.runners.facts.snapshot import Snapshot, TorchFacts

INDEX = "https://rocm.nightlies.amd.com/v2/gfx950-dcgpu/"
BACKENDS = ("nccl", "gloo")
LONGEST_RUNTIME = 40
"""Characters of XDG_RUNTIME_DIR: sockets lie some 60 below it, and their paths end at 107."""

ARCHS = {"mi300x": "gfx942", "mi350x": "gfx950", "mi450x": "gfx1250"}

SIGNATURES = (
    (
        r"KMD preload library.*not found",
        "its library was not found",
        "run rocm-sdk init in the active environment, or set ROCJITSU_LIB to librocjitsu.so",
    ),
    (
        r"cannot host the emulator daemon",
        "its library is too old for the daemon, which several devices need",
        "update the library",
    ),
    (
        r"rj_vm_create_from_string failed",
        "program and library are of different ages",
        "install a matching pair of mirage and rocjitsu",
    ),
    (
        r"SUN_LEN|path too long|File name too long|cannot bind",
        "its sockets have no room",
        "set XDG_RUNTIME_DIR to a shorter folder",
    ),
    (
        r"session failed to start",
        "its session did not start",
        "read the reason in this line, then run it by hand",
    ),
)
"""Text of the program's own errors, the cause, and the remedy; the first that fits speaks."""


def expected_arch(profile: str) -> str | None:
    """The architecture that a profile emulates; None when its name does not tell."""
    found = re.match(r"gfx[0-9a-f]{3,4}", profile)
    return ARCHS.get(profile) or (found[0] if found else None)


def why_not(seen: Snapshot) -> str | None:
    """The reason on one line; None when everything that was asked for is there."""
    told, torch = seen.emulator, seen.torch or TorchFacts()
    reason = (
        _settings(seen)
        or _ended(told, seen.torch)
        or _signs(told, torch)
        or _torch(told, torch)
        or _devices(told, torch)
    )
    return None if reason is None else deciding.line(reason)


def _settings(seen: Snapshot) -> str | None:
    told = seen.emulator
    if seen.system != "linux":
        return f"runner mirage needs Linux, this is {seen.system}: use a Linux machine"
    if not told.get("program"):
        name = told.get("name")
        if name and "/" in str(seen.environment.get(PROGRAM, "")):
            return f"{PROGRAM} names no program that can be run: set it to the path of mirage, or unset it"
        return (
            f"neither mirage nor rocjitsu is in PATH: build or install mirage, or set {PROGRAM} to its path"
        )
    if not isinstance(told.get("asked_devices"), int):
        return f"{DEVICES}={told.get('given_devices')}: set it to a number from 1 to {MOST_DEVICES}"
    backend = seen.environment.get(BACKEND) or BACKENDS[0]
    if backend not in BACKENDS:
        return f"{BACKEND}={backend}: set it to {' or '.join(BACKENDS)}"
    folder = seen.environment.get("XDG_RUNTIME_DIR", "")
    if len(folder) > LONGEST_RUNTIME:
        return (
            f"XDG_RUNTIME_DIR has {len(folder)} characters, the emulator's sockets below it have room for "
            f"{LONGEST_RUNTIME}: set it to a shorter folder"
        )
    profiles, profile = told.get("profiles"), told.get("profile")
    if isinstance(profiles, (list, tuple)) and profile not in profiles:
        there = ", ".join(map(str, profiles)) or "none"
        return f"{told.get('name')} has no profile {profile}, it lists {there}: set {PROFILE} to one of them"
    return None


def _ended(told: Mapping[str, Any], torch: TorchFacts | None) -> str | None:
    """How the program ended, where it did not end well."""
    name, status, text = told.get("name"), told.get("status"), str(told.get("errors") or "")
    line = own_error(text)
    for pattern, cause, remedy in SIGNATURES:
        if status != 0 and (found := re.search(f".*(?:{pattern}).*", text)):
            return f"{name}: {cause} ({found[0].strip()[:200]}): {remedy}"
    if error := told.get("error"):
        return f"{name} gave no answer: {error} {line[:200]}; run `{name} run -- true` by hand, and read what it says"
    if status == 2:
        return f"{name} refused its command line (exit status 2): {line[:200]}; update it, or read docs/mirage.md"
    if status == 127:
        return (
            f"the interpreter cannot be started inside {name} (exit status 127): {line[:200]}; check its path"
        )
    if isinstance(status, int) and status > 128:
        return f"what ran inside {name} was ended by {_signal(status - 128)}: {line[:200]}; run it by hand"
    if status == 1 and told.get("inside") is None:
        return f"{name} failed itself (exit status 1): {line[:300]}; mend that, then run again"
    if status != 0:
        return f"the question to torch inside {name} ended with {status}: {line[:300]}; run it by hand"
    if torch is None:
        return f"{name} ended with 0 and torch gave no answer inside: {line[:200]}; run it by hand"
    return None


def _signs(told: Mapping[str, Any], torch: TorchFacts) -> str | None:
    """What is missing of the emulator around the workload: a flag, or a variable alone, is not believed."""
    variables = [s for s in torch.emulation if not s.startswith("maps:")]
    mapped = [s for s in torch.emulation if s.startswith("maps:")]
    if not variables and not mapped:
        return (
            f"{told.get('name')} ran the workload and nothing in its environment or maps shows an emulator: check that "
            f"{told.get('program')} is mirage"
        )
    if not mapped:
        return (
            f"the workload's environment names an emulator ({', '.join(variables)}) and its library is in no map: "
            "check that LD_PRELOAD reaches the interpreter"
        )
    claims = "stand-in" in str(told.get("version") or "")
    if told.get("stand_in") and not claims:
        return "HARNESS_MIRAGE_STANDIN is set and the program is no stand-in: unset it"
    return None


def _torch(told: Mapping[str, Any], torch: TorchFacts) -> str | None:
    install = f"install the matching ROCm and torch: python -m pip install --index-url {INDEX} rocm[libraries,devel] torch"
    if torch.version is None:
        return (
            f"torch cannot be asked inside {told.get('name')}: {torch.error or 'no reason told'}; {install}"
        )
    if not told.get("stand_in") and deciding.build_of(torch).kind != "rocm":
        return f"{deciding.build_of(torch).words} is no ROCm build; {install}"
    return None


def _devices(told: Mapping[str, Any], torch: TorchFacts) -> str | None:
    asked, profile = told.get("asked_devices"), str(told.get("profile"))
    arch = expected_arch(profile)
    if not torch.devices:
        return (
            f"{told.get('name')} ended with 0 and torch sees no device ({torch.error or 'no reason told'}): its ROCm lacks "
            f"{arch or 'the architecture of ' + profile}; install the matching one, for example from {INDEX}"
        )
    if len(torch.devices) != asked:
        return f"torch sees {len(torch.devices)} devices of the {asked} emulated ones: unset visibility masks"
    found = sorted({archs.gfx_of(d.arch_name) or "unknown" for d in torch.devices})
    if arch and found != [arch]:
        return (
            f"profile {profile} is {arch}, the devices are {', '.join(found)}: install a matching pair of mirage and "
            f"rocjitsu, or set {PROFILE}"
        )
    if "unknown" in found:
        return (
            f"torch does not tell the architecture of the emulated devices: set {PROFILE} to another profile"
        )
    if not told.get("stand_in") and (lacking := deciding.uncovered(found, torch.arch_list, INDEX)):
        return lacking
    return deciding.failed_product(torch)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
