"""Checks of NVIDIA machines: device nodes, and the driver against what torch's CUDA runtime needs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.runners.facts.checks_base import (
    NO_TORCH,
    Answer,
    Check,
    Looked,
    built_for,
    dotted,
    some,
    unknown,
    version,
)
from harness.runners.facts.snapshot import Snapshot, ToolDevice

RUNNERS = ("cuda",)

LEAST_DRIVER: Mapping[int, tuple[int, ...]] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580,)}
"""Oldest Linux driver by major version of CUDA (its guide to minor version compatibility)."""

_GUIDE = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"


def hardware(seen: Snapshot) -> str | None:
    """What shows that this is such a machine, whether torch can use it or not."""
    found = [n.path for n in seen.nodes if n.exists and re.fullmatch(r"/dev/nvidia(ctl|\d+)", n.path)]
    if found:
        return f"{found[0]} is there"
    listed = [d.arch or d.name or "a device" for d in seen.devices if _is_ours(d)]
    return f"the driver lists {some(listed)}" if listed else None


def _is_ours(device: ToolDevice) -> bool:
    return device.vendor == "nvidia" or (device.arch or "").startswith("sm_")


def _judge_nodes(looked: Looked) -> Answer:
    nodes = [n for n in looked.seen.nodes if n.path.startswith("/dev/nvidia")]
    if not nodes:
        return unknown("the snapshot does not say")
    control = next((n for n in nodes if n.path == "/dev/nvidiactl"), None)
    cards = [n for n in nodes if n.exists and re.fullmatch(r"/dev/nvidia\d+", n.path)]
    there = {n.path: n.exists for n in looked.seen.nodes}
    if there.get("/dev/dxg"):
        return Answer("fine", "/dev/dxg is there: devices of the Windows host")
    if control is not None and not control.exists:
        return Answer("wrong", "/dev/nvidiactl is not there")
    closed = [n.path for n in nodes if n.exists and not (n.readable and n.writable)]
    if closed:
        return Answer("wrong", f"{some(closed)}: may not be read and written")
    if not cards:
        return Answer("wrong", "no /dev/nvidia0 and so on is there")
    if there.get("/dev/nvidia-uvm") is False:
        remedy = "load it on the host: nvidia-modprobe -u -c=0"
        return Answer("doubtful", "/dev/nvidia-uvm is not there yet: CUDA makes it where it may", remedy)
    return Answer("fine", f"{len(cards)} devices, readable and writable")


def _judge_build(looked: Looked) -> Answer:
    if (built := built_for(looked)) is None:
        return NO_TORCH
    torch, name, version_of_it = built
    if name == "cuda":
        return Answer("fine", f"torch {torch}, CUDA {version_of_it}")
    if name is not None:
        return Answer("wrong", f"torch {torch} is a ROCm build ({name} {version_of_it})")
    return Answer("wrong", f"torch {torch} is a build for CPUs, and this is for an NVIDIA device")


def _judge_driver(looked: Looked) -> Answer:
    facts = looked.seen.torch
    driver = looked.seen.tools.get("nvidia") or looked.seen.tools.get("driver")
    runtime = facts.versions.get("cuda") if facts else None
    here, needs = version(driver), version(runtime)
    if here is None:
        return unknown("the driver's version is not known", "see that nvidia-smi runs here")
    if needs is None:
        return unknown(f"driver {driver}; torch's CUDA runtime is not known")
    least = LEAST_DRIVER.get(needs[0])
    if least is None:
        return unknown(f"driver {driver}; what CUDA {runtime} needs is not in the doctor's table")
    text = f"driver {driver}, CUDA {runtime} needs {dotted(least)}"
    if here >= least:
        return Answer("fine", text)
    if facts is not None and facts.devices:
        return Answer("doubtful", f"{text}; torch sees devices all the same, as with a compatibility library")
    remedy = f"update the driver to {dotted(least)} or later, or install a torch built for an older CUDA"
    return Answer("wrong", text, remedy)


CHECKS = (
    Check(
        "torch-build",
        "what torch was built for",
        "with a build for CPUs or for another vendor's devices every device is gone",
        "install torch from the CUDA wheel index; inside the vendor's container use its own",
        _judge_build,
        runners=RUNNERS,
        essential=True,
    ),
    Check(
        "driver",
        "the driver against torch's CUDA runtime",
        "an older driver refuses a newer runtime, and torch then sees no device",
        "update the driver, or install a torch built for an older CUDA",
        _judge_driver,
        runners=RUNNERS,
        link=_GUIDE,
    ),
    Check(
        "device-nodes",
        "/dev/nvidiactl and /dev/nvidia0 and so on",
        "a container that was not given the devices has no nodes, and torch sees no device",
        "start the container with --gpus all (NVIDIA Container Toolkit)",
        _judge_nodes,
        runners=RUNNERS,
        link="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/index.html",
    ),
)
