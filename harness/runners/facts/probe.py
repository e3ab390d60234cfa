"""Reads this machine into a snapshot. Standard library only; torch is asked in a child process.

The root of the files and what runs a tool are parameters: a test's tree and recorded answers stand in for a machine.
"""

from __future__ import annotations

import fnmatch
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from harness.runners.facts import amd, nvidia, system
from harness.runners.facts.snapshot import Snapshot, ToolDevice, TorchFacts, torch_from_json

CHILD = Path(__file__).with_name("torch_child.py")
"""The program that asks torch: prints one line, MARK and the JSON of TorchFacts."""

MARK = "harness-torch-facts: "
TOOL_LIMIT_S = 15.0

PROGRAMS = (
    *("nvidia-smi", "amd-smi", "rocm-smi", "rocminfo", "rocm-sdk", "mirage", "rocjitsu"),
    *("ffmpeg", "git", "docker", "podman"),
)
PACKAGES = (
    *("torch", "torchvision", "triton", "pytorch-triton-rocm", "rocm", "rocm-sdk-core", "flash-attn"),
    *("decord", "imageio-ffmpeg", "numpy", "transformers", "accelerate", "utils3d", "wandb"),
)
_ASKED: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], TorchFacts] = {}
T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What a tool printed. `why_not`: why there is no answer; None when it ended with 0."""

    output: str = ""
    errors: str = ""
    why_not: str | None = None


Run = Callable[[Sequence[str]], Answer]


def run_tool(words: Sequence[str]) -> Answer:
    """Runs a vendor's tool within its time limit; never raises."""
    try:
        done = subprocess.run(
            list(words), capture_output=True, stdin=subprocess.DEVNULL, timeout=TOOL_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Answer(why_not=f"no answer within {TOOL_LIMIT_S:g} s")
    except OSError as error:
        return Answer(why_not=str(error.strerror))
    output, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if done.returncode:
        first = ((output + errors).strip().splitlines() or [""])[0][:200]
        return Answer(output, errors, f"ended with {done.returncode}: {first}")
    return Answer(output, errors)


def find_program(name: str, environment: Mapping[str, str]) -> str | None:
    """Where a program is, on the PATH of that environment or where ROCm puts its own."""
    paths = [environment.get("PATH", os.defpath), "/opt/rocm/bin"]
    return shutil.which(name, path=os.pathsep.join(paths))


def collect_machine(
    environment: Mapping[str, str],
    recorded: Sequence[str],
    *,
    root: Path = Path("/"),
    run: Run = run_tool,
    find: Callable[[str, Mapping[str, str]], str | None] = find_program,
    access: Callable[[str, int], bool] = os.access,
    tools: bool = True,
) -> Snapshot:
    """All that can be seen without torch; what fails is unknown and told in `notes`.

    `recorded`: patterns of the variables to keep, of which those that may be secrets are never kept. Without `tools`
    no vendor's tool is run.
    """
    notes: list[str] = []

    def ask(what: str, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except Exception as error:  # noqa: BLE001 - a machine may hold anything; a probe never ends a session
            notes.append(f"{what}: {type(error).__name__}: {error}"[:300])
            return None

    programs = {name: ask(name, partial(find, name, environment)) for name in PROGRAMS}
    versions = ask("drivers", lambda: system.collect_drivers(root)) or {}
    devices = ask("kfd", lambda: system.collect_kfd(root)) or ()
    if tools and programs["nvidia-smi"]:
        devices = (*devices, *(ask("nvidia-smi", lambda: _ask_nvidia(run, versions, notes)) or ()))
    if tools and (programs["amd-smi"] or programs["rocm-smi"]):
        told = ask("amd-smi", lambda: _ask_amd(run, programs, versions, notes))
        devices = _joined(devices, told or ())
    devices = _joined(devices, ask("pci", lambda: system.collect_pci(root)) or ())
    devices = tuple(replace(device, index=n) for n, device in enumerate(_marked(devices)))
    if driver := versions.get("nvidia") or versions.get("amdgpu"):
        versions["driver"] = driver
    shm = ask("shm", lambda: system.collect_space(root / "dev/shm")) or (None, None)
    uid = os.getuid()
    return Snapshot(
        system=sys.platform,
        machine=platform.machine(),
        environment=kept(environment, recorded),
        tools=versions,
        devices=devices,
        nodes=ask("nodes", lambda: system.collect_nodes(root, access)) or (),
        groups=tuple(sorted({*os.getgroups(), os.getgid()})),
        uid=uid,
        shm_bytes=shm[0],
        shm_free_bytes=shm[1],
        shm_stale=ask("shm", lambda: system.collect_shm_stale(root, uid)) or (),
        disk_free_bytes=ask("disk", lambda: system.collect_space(Path.cwd())[1]),
        memory_bytes=ask("memory", lambda: system.collect_memory_bytes(root)),
        kernel=ask("kernel", lambda: system.collect_kernel(root)) or {},
        container=ask("container", lambda: system.collect_container(root, environment)),
        programs=programs,
        packages={name: ask(name, partial(package_version, name)) for name in PACKAGES},
        emulation=ask("emulation", lambda: system.collect_emulation(root, environment)) or (),
        notes=tuple(notes),
    )


def kept(environment: Mapping[str, str], recorded: Sequence[str]) -> dict[str, str]:
    """The variables that fit a pattern and whose names do not speak of a secret."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if any(fnmatch.fnmatchcase(name, p) for p in recorded) and not system.SECRET.search(name)
    }


def collect_torch(command: Sequence[str], environment: Mapping[str, str], limit_s: float = 120) -> TorchFacts:
    """What torch says in a child: `command` ends in the words that run CHILD. Never raises: `error` tells."""
    try:
        done = subprocess.run(
            list(command),
            env=dict(environment),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TorchFacts(error=f"no answer within {limit_s:g} s")
    except (OSError, ValueError) as error:
        return TorchFacts(error=f"{command[0]}: {getattr(error, 'strerror', None) or error}")
    for line in reversed(done.stdout.decode(errors="replace").splitlines()):
        if MARK in line:
            try:
                return torch_from_json(json.loads(line.partition(MARK)[2]))
            except (ValueError, TypeError) as error:
                return TorchFacts(error=f"its answer could not be read: {error}")
    tail = " / ".join(done.stderr.decode(errors="replace").strip().splitlines()[-3:])
    return TorchFacts(error=f"ended with {done.returncode} and no answer: {tail[-600:]}")


def torch_here(python: str, environment: Mapping[str, str]) -> TorchFacts:
    """What torch of that interpreter says on this machine; asked once a process for equal questions."""
    command = (python, str(CHILD))
    key = (command, tuple(sorted(environment.items())))
    if key not in _ASKED:
        _ASKED[key] = collect_torch(command, environment)
    return _ASKED[key]


def package_version(name: str) -> str | None:
    """Version of an installed distribution, read from its metadata; None when it is absent."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _ask_nvidia(run: Run, versions: dict[str, str], notes: list[str]) -> tuple[ToolDevice, ...]:
    fields = list(nvidia.FIELDS)
    answer = run(nvidia.query_words(fields))
    # An older tool refuses the whole question for one field that it does not know.
    while answer.why_not and (unknown := nvidia.unknown_field(answer.output + answer.errors)) in fields:
        fields.remove(str(unknown))
        answer = run(nvidia.query_words(fields))
    if answer.why_not:
        notes.append(f"nvidia-smi: {answer.why_not}")
        return ()
    devices, driver = nvidia.parse_query(answer.output, fields)
    if driver:
        versions.setdefault("nvidia", driver)
        versions["nvidia-smi"] = driver
    apps = run(nvidia.apps_words())
    if apps.why_not:
        notes.append(f"nvidia-smi, processes: {apps.why_not}")
        return devices
    return nvidia.with_processes(devices, nvidia.parse_apps(apps.output))


def _ask_amd(
    run: Run, programs: Mapping[str, str | None], versions: dict[str, str], notes: list[str]
) -> tuple[ToolDevice, ...]:
    devices: tuple[ToolDevice, ...] = ()
    driver: str | None = None

    def told(words: Sequence[str]) -> str:
        answer = run([programs[words[0]] or words[0], *words[1:]])
        if answer.why_not:
            notes.append(f"{words[0]} {words[1]}: {answer.why_not}")
        return answer.output

    if programs["amd-smi"]:
        devices, driver = amd.parse_static(told(amd.STATIC))
        if devices:
            devices = amd.completed(
                devices,
                amd.parse_firmware(told(amd.FIRMWARE)),
                amd.parse_metric(told(amd.METRIC)),
                amd.parse_processes(told(amd.PROCESS)),
            )
    if not devices and programs["rocm-smi"]:
        devices, driver = amd.parse_older(told(amd.OLDER))
    if driver:
        versions.setdefault("amdgpu", driver)
    return devices


def _marked(devices: Sequence[ToolDevice]) -> list[ToolDevice]:
    """The devices, those that share a PCI address marked as partitions of one."""
    places = [d.pci for d in devices if d.pci]
    return [
        replace(d, partition=d.partition or "partition") if d.pci and places.count(d.pci) > 1 else d
        for d in devices
    ]


def _joined(first: Sequence[ToolDevice], second: Sequence[ToolDevice]) -> tuple[ToolDevice, ...]:
    """Both lists as one, by PCI address: where both know something, the first is believed.

    The kernel is asked first: a tool may word a label, the kernel names silicon.
    """
    found = list(first)
    for device in second:
        same = [n for n, d in enumerate(found) if d.pci is not None and d.pci == device.pci]
        if not same:
            found.append(device)
        for n in same:
            mine = found[n]
            found[n] = replace(
                device,
                **{
                    name: value
                    for name in device.__dataclass_fields__
                    if (value := getattr(mine, name)) not in (None, (), {}) and name != "firmware"
                },
                firmware={**mine.firmware, **device.firmware},
            )
    return tuple(found)
