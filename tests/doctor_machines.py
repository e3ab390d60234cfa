"""Small machines for the tests of the doctor: each fine as it is, to be spoiled in one thing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from harness import runners
from harness.runners.base import Machine
from harness.runners.facts.checks_base import GIB, Surroundings
from harness.runners.facts.snapshot import Node, Snapshot, ToolDevice, TorchDevice, TorchFacts

PACKAGES: Mapping[str, str | None] = {
    "torchvision": "0.28.0",
    "decord": "0.6.0",
    "transformers": "4.47.1",
    "imageio-ffmpeg": "0.6.0",
}
AROUND = Surroundings(
    imports=dict.fromkeys(("decord", "imageio_ffmpeg", "torchvision", "transformers", "utils3d"), ""),
    target="vitra",
    run_free_bytes=100 * GIB,
    cache_free_bytes=100 * GIB,
    memory_available_bytes=60 * GIB,
    variables_set={"WANDB_API_KEY": False, "WANDB_MODE": False},
)
CPU_TORCH = TorchFacts("2.13.0+cpu", {"hip": None, "cuda": None}, product_norm=65536.0)


def cpu(**changes: Any) -> Snapshot:
    """A machine without accelerator."""
    base: dict[str, Any] = {
        "system": "linux",
        "machine": "x86_64",
        "torch": CPU_TORCH,
        "shm_bytes": 32 * GIB,
        "shm_free_bytes": 32 * GIB,
        "disk_free_bytes": 100 * GIB,
        "memory_bytes": 64 * GIB,
        "kernel": {"cmdline": "iommu=pt", "numa_balancing": "0"},
        "programs": {"ffmpeg": None},
        "packages": {**PACKAGES, "torch": "2.13.0"},
        "groups": (0, 109),
        "uid": 1000,
    }
    return Snapshot(**{**base, **changes})


def amd(count: int = 2, **changes: Any) -> Snapshot:
    """MI300X."""
    places = [f"0000:{16 * n + 5:02x}:00.0" for n in range(count)]
    seen = tuple(
        TorchDevice(
            n,
            "AMD Instinct MI300X",
            "gfx942:sramecc+:xnack-",
            (9, 4),
            192 * GIB,
            191 * GIB,
            304,
            p,
            peers=tuple(i for i in range(count) if i != n),
            product_norm=65536.0,
        )
        for n, p in enumerate(places)
    )
    torch = TorchFacts(
        "2.13.0+rocm7.2",
        {"hip": "7.2.53211", "cuda": None, "nccl": "2.27.7"},
        "cuda",
        seen,
        ("gfx90a", "gfx942", "gfx950"),
        65536.0,
        True,
    )
    tools = tuple(
        ToolDevice(
            n,
            "gfx942",
            "AMD Instinct MI300X",
            p,
            "0x74a1",
            192 * GIB,
            GIB // 2,
            {"mec": "177"},
            750.0,
            750.0,
            vendor="amd",
        )
        for n, p in enumerate(places)
    )
    nodes = (
        Node("/dev/kfd", True, True, True, 109),
        *(Node(f"/dev/dri/renderD{128 + n}", True, True, True, 109) for n in range(count)),
        Node("/dev/nvidiactl", False),
    )
    base: dict[str, Any] = {
        "torch": torch,
        "devices": tools,
        "nodes": nodes,
        "tools": {"amdgpu": "6.16.6", "rocm": "7.2.0"},
        "environment": {"HSA_NO_SCRATCH_RECLAIM": "1"},
    }
    return cpu(**{**base, **changes})


def nvidia(count: int = 2, **changes: Any) -> Snapshot:
    """H100."""
    places = [f"0000:{16 * n + 5:02x}:00.0" for n in range(count)]
    seen = tuple(
        TorchDevice(
            n,
            "NVIDIA H100 80GB HBM3",
            None,
            (9, 0),
            80 * GIB,
            79 * GIB,
            132,
            p,
            peers=tuple(i for i in range(count) if i != n),
            product_norm=65536.0,
        )
        for n, p in enumerate(places)
    )
    versions = {"hip": None, "cuda": "13.0", "nccl": "2.27.7"}
    torch = TorchFacts("2.13.0+cu130", versions, "cuda", seen, ("sm_80", "sm_90"), 65536.0, True)
    tools = tuple(
        ToolDevice(
            n,
            "sm_90",
            "NVIDIA H100 80GB HBM3",
            p,
            "0x2330",
            80 * GIB,
            GIB // 2,
            {},
            700.0,
            700.0,
            vendor="nvidia",
        )
        for n, p in enumerate(places)
    )
    nodes = (
        Node("/dev/kfd", False),
        Node("/dev/nvidiactl", True, True, True, 0),
        Node("/dev/nvidia-uvm", True, True, True, 0),
        *(Node(f"/dev/nvidia{n}", True, True, True, 0) for n in range(count)),
    )
    base: dict[str, Any] = {
        "torch": torch,
        "devices": tools,
        "nodes": nodes,
        "tools": {"nvidia": "580.95.05"},
    }
    return cpu(**{**base, **changes})


def emulated(**changes: Any) -> Snapshot:
    """A machine with the emulator."""
    told = {
        "program": "/opt/mirage",
        "name": "mirage",
        "profile": "mi350x",
        "profiles": ["mi300x", "mi350x"],
        "asked_devices": 1,
        "version": "mirage 0.3.0",
        "library": "/opt/librocjitsu.so",
        "stand_in": False,
        "status": 0,
    }
    device = TorchDevice(0, "AMD Instinct MI350X", "gfx950", (9, 5), product_norm=65536.0)
    versions, signs = {"hip": "7.2.1"}, ("ROCJITSU_RUNTIME_DIR", "maps: librocjitsu.so")
    torch = TorchFacts("2.13.0+rocm7.2", versions, "cuda", (device,), ("gfx950",), 65536.0, emulation=signs)
    return cpu(**{"emulator": told, "torch": torch})


MADE = {"cpu": cpu, "cuda": nvidia, "rocm": amd, "mirage": emulated}


def machine(runner: str, seen: Snapshot) -> Machine:
    """The machine as that runner decides on it."""
    chosen = runners.get(runner)
    return Machine(chosen, seen, chosen.decide(seen))


def but(seen: Any, **changes: Any) -> Any:
    """The same with other values."""
    return dataclasses.replace(seen, **changes)
