"""Writes tests/data/snapshots: machines constructed after public outputs. Run it after a change of the snapshot's form."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.runners.facts import probe
from harness.runners.facts.snapshot import Node, Snapshot, ToolDevice, TorchDevice, TorchFacts, to_json

FOLDER = Path(__file__).with_name("data") / "snapshots"
RECORDED = {"this_cpu"}
"""Probed on a real machine, names and paths taken out; not made here."""

MIB, GIB = 2**20, 2**30
CUDA_WHEEL = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")
ROCM_WHEEL = (
    *("gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1102"),
    *("gfx1200", "gfx1201", "gfx950", "gfx1150", "gfx1151"),
)
PACKAGES = dict.fromkeys(probe.PACKAGES)


def machine(**facts: Any) -> Snapshot:
    """A server without devices, in the form that a probe gives."""
    return replace(
        Snapshot(
            system="linux",
            machine="x86_64",
            environment={"OMP_NUM_THREADS": "1"},
            nodes=tuple(
                Node(n, False) for n in ("/dev/kfd", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dxg")
            ),
            groups=(0,),
            uid=0,
            shm_bytes=16 * GIB,
            shm_free_bytes=16 * GIB,
            disk_free_bytes=400 * GIB,
            memory_bytes=2048 * GIB,
            kernel={
                "cmdline": "iommu=pt",
                "numa_balancing": "0",
                "release": "6.8.0-60-generic",
                "iommu_groups": "180",
            },
            container="docker",
            programs=dict.fromkeys(probe.PROGRAMS),
            packages=PACKAGES,
        ),
        **facts,
    )


def _bus(index: int) -> str:
    return f"0000:{(0x05, 0x15, 0x65, 0x75, 0x85, 0x95, 0xE5, 0xF5)[index]:02x}:00.0"


def _torch(
    kind: str, devices: Sequence[TorchDevice], versions: dict[str, str | None], **facts: Any
) -> TorchFacts:
    devices = tuple(
        replace(d, peers=tuple(o.index for o in devices if o.index != d.index), product_norm=65536.0)
        for d in devices
    )
    return replace(
        TorchFacts(
            version=f"2.13.0+{kind}",
            versions=versions,
            accelerator="cuda" if devices else None,
            devices=devices,
            arch_list=(CUDA_WHEEL if kind.startswith("cu") else ROCM_WHEEL) if devices else (),
            product_norm=65536.0,
            flash_sdpa=True,
        ),
        **facts,
    )


def nvidia_torch(devices: Sequence[TorchDevice], **facts: Any) -> TorchFacts:
    """The CUDA build of torch on these devices."""
    versions = {"hip": None, "rocm": None, "cuda": "13.0", "nccl": "2.29.3", "cudnn": "91900"}
    return _torch("cu130", devices, versions, **facts)


def amd_torch(devices: Sequence[TorchDevice], **facts: Any) -> TorchFacts:
    """The ROCm build of torch on these devices."""
    versions = {"hip": "7.2.53211", "rocm": None, "cuda": None, "nccl": "2.27.7", "miopen": "3005001"}
    return _torch("rocm7.2", devices, versions, **facts)


def nvidia(
    count: int,
    name: str,
    capability: tuple[int, int],
    device_id: str,
    units: int,
    mib: int,
    watts: float,
    **facts: Any,
) -> Snapshot:
    """A machine with NVIDIA devices of one model."""
    tools = tuple(
        ToolDevice(
            n,
            f"sm_{capability[0]}{capability[1]}",
            name,
            _bus(n),
            device_id,
            mib * MIB,
            4 * MIB,
            power_cap_w=watts,
            power_cap_default_w=watts,
            vendor="nvidia",
            uuid=f"GPU-00000000-0000-4000-8000-{n:012d}",
        )
        for n in range(count)
    )
    devices = [
        TorchDevice(
            n, name, None, capability, (mib - 460) * MIB, (mib - 1000) * MIB, units, _bus(n), uuid=t.uuid
        )
        for n, t in enumerate(tools)
    ]
    nodes = ("/dev/nvidiactl", "/dev/nvidia-uvm", *(f"/dev/nvidia{n}" for n in range(count)))
    return machine(
        **{
            "torch": nvidia_torch(devices),
            "tools": {"nvidia": "580.95.05", "nvidia-smi": "580.95.05", "driver": "580.95.05"},
            "devices": tools,
            "nodes": (
                *(Node(n, False) for n in ("/dev/kfd", "/dev/dxg")),
                *(Node(n, True, True, True, 0) for n in nodes),
            ),
            "programs": {**dict.fromkeys(probe.PROGRAMS), "nvidia-smi": "/usr/bin/nvidia-smi"},
            "packages": {**PACKAGES, "torch": "2.13.0+cu130"},
            **facts,
        }
    )


def amd_devices(
    count: int,
    name: str,
    arch: str,
    device_id: str,
    units: int,
    memory: int,
    mec: str,
    watts: float,
    first: int = 0,
) -> tuple[list[ToolDevice], list[TorchDevice]]:
    """AMD devices of one model, as the kernel and as torch tell them."""
    capability = {"gfx90a": (9, 0), "gfx942": (9, 4), "gfx950": (9, 5), "gfx1100": (11, 0)}[arch]
    tools = [
        ToolDevice(
            n,
            arch,
            name,
            _bus(n),
            device_id,
            memory,
            300 * MIB,
            {"mec": mec, "rlc": "65"},
            power_cap_w=watts,
            power_cap_default_w=watts,
            vendor="amd",
            units=units,
        )
        for n in range(first, first + count)
    ]
    label = f"{arch}:sramecc+:xnack-" if arch.startswith("gfx9") else arch
    devices = [
        TorchDevice(t.index, name, label, capability, memory, memory - 600 * MIB, units, t.pci) for t in tools
    ]
    return tools, devices


def amd(tools: Sequence[ToolDevice], devices: Sequence[TorchDevice], **facts: Any) -> Snapshot:
    """A machine with these AMD devices."""
    renders = tuple(Node(f"/dev/dri/renderD{128 + n}", True, True, True, 109) for n in range(len(tools)))
    programs = {n: f"/opt/rocm/bin/{n}" for n in ("amd-smi", "rocm-smi", "rocminfo")}
    return machine(
        **{
            "torch": amd_torch(devices),
            "tools": {"amdgpu": "6.16.6", "rocm": "7.2.0-43", "driver": "6.16.6"},
            "devices": tuple(tools),
            "nodes": (
                Node("/dev/kfd", True, True, True, 109),
                *(Node(n, False) for n in ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dxg")),
                *renders,
            ),
            "groups": (0, 44, 109),
            "programs": {**dict.fromkeys(probe.PROGRAMS), **programs},
            "packages": {**PACKAGES, "torch": "2.13.0+rocm7.2"},
            "environment": {"OMP_NUM_THREADS": "1", "HSA_NO_SCRATCH_RECLAIM": "1"},
            **facts,
        }
    )


def models() -> Iterator[tuple[str, Snapshot]]:
    """One machine of each model."""
    gfx90a = ("AMD Instinct MI210", "gfx90a", "0x740f", 104, 65520 * MIB, "78", 300.0)
    mi300x = ("AMD Instinct MI300X", "gfx942", "0x74a1", 304, 196592 * MIB, "177", 750.0)
    yield "mi210", amd(*amd_devices(1, *gfx90a))
    yield "mi300x_8", amd(*amd_devices(8, *mi300x))
    yield (
        "mi308x",
        amd(*amd_devices(1, "AMD Radeon Graphics", "gfx942", "0x74a2", 80, 196592 * MIB, "177", 650.0)),
    )
    yield (
        "mi325x",
        amd(*amd_devices(1, "AMD Instinct MI325X", "gfx942", "0x74a5", 304, 262128 * MIB, "177", 1000.0)),
    )
    yield (
        "mi350x",
        amd(*amd_devices(1, "AMD Instinct MI350X", "gfx950", "0x75a0", 256, 294896 * MIB, "41", 1000.0)),
    )
    yield (
        "mi355x",
        amd(*amd_devices(1, "AMD Radeon Graphics", "gfx950", "0x75a3", 256, 294896 * MIB, "41", 1400.0)),
    )
    radeon = ("Radeon RX 7900 XTX", "gfx1100", "0x744c", 96, 24560 * MIB, "2550", 303.0)
    tools, devices = amd_devices(1, *radeon)
    # There the flash kernel is experimental and off by default.
    yield "radeon_gfx1100", amd(tools, devices, torch=amd_torch(devices, flash_sdpa=False))
    first, second = amd_devices(1, *gfx90a), amd_devices(1, *mi300x, first=1)
    yield "mixed", amd([*first[0], *second[0]], [*first[1], *second[1]])
    yield "a100", nvidia(1, "NVIDIA A100-SXM4-80GB", (8, 0), "0x20b2", 108, 81920, 400.0)
    yield "h100_8", nvidia(8, "NVIDIA H100 80GB HBM3", (9, 0), "0x2330", 132, 81559, 700.0)
    yield "h100_pcie", nvidia(1, "NVIDIA H100 PCIe", (9, 0), "0x2331", 114, 81559, 350.0)
    yield "gh200", nvidia(1, "NVIDIA GH200 480GB", (9, 0), "0x2342", 132, 97871, 700.0, machine="aarch64")
    yield "h200", nvidia(1, "NVIDIA H200", (9, 0), "0x2335", 132, 143771, 700.0)
    yield "b200", nvidia(1, "NVIDIA B200", (10, 0), "0x2901", 148, 183359, 1000.0)
    yield "l4", nvidia(1, "NVIDIA L4", (8, 9), "0x27b8", 58, 23034, 72.0)
    yield "rtx4090", nvidia(1, "NVIDIA GeForce RTX 4090", (8, 9), "0x2684", 128, 24564, 450.0)
    cpu = TorchFacts(
        "2.13.0+cpu", {"hip": None, "rocm": None, "cuda": None}, product_norm=65536.0, flash_sdpa=True
    )
    yield "none", machine(torch=cpu, packages={**PACKAGES, "torch": "2.13.0+cpu"})


def traps() -> Iterator[tuple[str, Snapshot]]:
    """Machines that have misled others."""
    made = dict(models())
    one, eight = made["mi350x"], made["mi300x_8"]
    yield (
        "trap_capability_9_4",
        replace(
            eight,
            devices=eight.devices[:1],
            torch=amd_torch([replace(eight.torch.devices[0], name="AMD Radeon Graphics")]),
        ),
    )
    label = replace(eight.torch.devices[0], name="AMD Instinct MI350X", arch_name="gfx950:sramecc+:xnack-")
    yield (
        "trap_gfx950_label_on_gfx942",
        replace(
            eight,
            devices=(replace(eight.devices[0], name="AMD Instinct MI350X"),),
            torch=amd_torch([replace(label, capability=(9, 5))]),
            environment={**eight.environment, "HSA_OVERRIDE_GFX_VERSION": "9.5.0"},
        ),
    )
    beside = {"hip": "7.15.60850", "rocm": "10.0.0", "cuda": None, "nccl": "2.28.9", "miopen": "3006000"}
    yield (
        "trap_rocm_beside_hip",
        replace(one, torch=replace(one.torch, version="2.13.0+rocm10.0.0", versions=beside)),
    )
    none = "no device: RuntimeError: No HIP GPUs are available"
    yield (
        "trap_two_masks",
        replace(
            eight,
            torch=replace(amd_torch([]), error=none),
            environment={**eight.environment, "ROCR_VISIBLE_DEVICES": "4", "HIP_VISIBLE_DEVICES": "4"},
        ),
    )
    yield (
        "trap_cuda_build_on_amd",
        replace(
            eight,
            torch=replace(
                nvidia_torch([]), error="no device: RuntimeError: Found no NVIDIA driver on your system."
            ),
            packages={**PACKAGES, "torch": "2.13.0+cu130"},
        ),
    )
    yield (
        "trap_kfd_closed",
        replace(
            eight,
            torch=replace(amd_torch([]), error=none),
            nodes=tuple(replace(n, readable=False, writable=False) if n.exists else n for n in eight.nodes),
            groups=(1000,),
            uid=1000,
        ),
    )
    yield "trap_one_missing", replace(eight, torch=amd_torch(eight.torch.devices[:7]))
    bad = replace(eight.torch.devices[3], product_norm=65024.0)
    devices = tuple(bad if d.index == 3 else d for d in eight.torch.devices)
    yield "trap_wrong_product", replace(eight, torch=replace(eight.torch, devices=devices))
    yield (
        "trap_old_rocm_on_gfx950",
        replace(
            one,
            torch=replace(
                one.torch,
                version="2.8.0+rocm6.4",
                versions={**one.torch.versions, "hip": "6.4.43482"},
                arch_list=ROCM_WHEEL,
            ),
        ),
    )
    yield (
        "trap_wheel_without_gfx950",
        replace(one, torch=replace(one.torch, arch_list=tuple(a for a in ROCM_WHEEL if a != "gfx950"))),
    )
    h100 = made["h100_8"]
    whole = h100.torch.devices[0]
    part = replace(
        whole,
        name=f"{whole.name} MIG 1g.10gb",
        units=16,
        memory_bytes=9984 * MIB,
        free_bytes=9800 * MIB,
        uuid=None,
    )
    yield (
        "trap_mig",
        replace(h100, devices=(replace(h100.devices[0], partition="MIG"),), torch=nvidia_torch([part])),
    )
    cpx = [replace(d, units=38, memory_bytes=24574 * MIB, index=n) for n, d in enumerate(eight.torch.devices)]
    yield (
        "trap_cpx",
        replace(
            eight,
            devices=tuple(
                replace(d, partition="CPX/NPS4", units=38, memory_bytes=24574 * MIB) for d in eight.devices
            ),
            torch=amd_torch(cpx),
        ),
    )
    signs = ("MIRAGE_SESSION", "ROCJITSU_RUNTIME_DIR", "LD_PRELOAD: librocjitsu.so", "maps: librocjitsu.so")
    yield (
        "trap_emulated",
        replace(
            one,
            devices=(replace(one.devices[0], device_id="0x1704"),),
            emulation=signs[:3],
            torch=replace(one.torch, emulation=signs),
        ),
    )


def made() -> dict[str, Snapshot]:
    """All of them, by the name of their file."""
    return dict([*models(), *traps()])


def probed() -> Snapshot:
    """This very machine, torch included, without names and paths of its own."""
    seen = probe.collect_machine(dict(os.environ), ("OMP_NUM_THREADS",))
    return replace(
        seen,
        torch=probe.torch_here(sys.executable, dict(os.environ)),
        programs={name: path and f"/usr/bin/{name}" for name, path in seen.programs.items()},
        kernel={**seen.kernel, "release": seen.kernel["release"].partition("-")[0], "cmdline": ""},
    )


if __name__ == "__main__":
    # `python tests/make_snapshots.py probe` records the machine at hand; without a word the constructed ones are written.
    for name, snapshot in {"this_cpu": probed()}.items() if sys.argv[1:] == ["probe"] else made().items():
        (FOLDER / f"{name}.json").write_text(json.dumps(to_json(snapshot), indent=1) + "\n")
