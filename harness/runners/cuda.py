"""The CUDA runner: a Linux machine with NVIDIA devices and a CUDA build of torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.runners.base import Container, Decision
from harness.runners.facts import archs, deciding, masks, probe
from harness.runners.facts.snapshot import Snapshot, ToolDevice, TorchFacts

MASKS = ("CUDA_VISIBLE_DEVICES",)
INDEX = "https://download.pytorch.org/whl/cu130"


class CudaRunner:
    """Architectures are sm_XY, of the capability; a ROCm build of torch is never one, whatever capability it tells."""

    name = "cuda"
    emulated = False
    # torch 2.13 is built for cu126, cu130 and cu132; cu130 has kernels for sm_75 to sm_120.
    torch_build = "cu130"
    wheel_index: str | None = INDEX
    container: Container | None = Container(
        "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime", ("--gpus", "all", "--ipc=host", "--shm-size=16g")
    )
    recorded: Sequence[str] = (
        *("CUDA_*", "NVIDIA_*", "NCCL_*", "CUBLAS_*", "CUDNN_*", "TORCH_*", "PYTORCH_*"),
        *("OMP_NUM_THREADS", "LD_PRELOAD", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    )
    time_factor = 1.0
    suites: Sequence[str] | None = None

    def probe(self, python: str, environment: Mapping[str, str]) -> Snapshot:
        seen = probe.collect_machine(environment, self.recorded)
        return replace(seen, torch=probe.torch_here(python, environment))

    def decide(self, seen: Snapshot) -> Decision:
        torch = seen.torch or TorchFacts()
        software = _software(seen, torch)
        why_not = _why_not(seen, torch)
        if why_not is not None:
            there = any(d.vendor == "nvidia" for d in seen.devices) or _node(seen)
            return Decision(
                why_not, software=software, device="cuda", collective_backend="nccl", absent=not there
            )
        tools = [deciding.matched(d, _own(seen)) for d in torch.devices]
        devices = tuple(
            deciding.device_of(d.index, archs.sm_of(d.capability) or "", d, tool)
            for d, tool in zip(torch.devices, tools, strict=True)
        )
        return Decision(
            None,
            devices,
            deciding.capabilities_of(devices, torch, None),
            software,
            tuple(deciding.notes_of(devices, tools, deciding.masks_of(seen, MASKS))),
            device="cuda",
            collective_backend="nccl",
        )

    def environment(self, decision: Decision) -> Mapping[str, str]:
        # Without it each rank starts a thread for every processor, and they wait for one another.
        return {"OMP_NUM_THREADS": "1"}

    def pin(self, devices: Sequence[int]) -> Mapping[str, str]:
        return masks.pinned(devices, MASKS, os.environ)

    def command(self, words: Sequence[str], *, devices: int, nodes: int = 1) -> list[str]:
        return list(words)

    def clean_up(self) -> None:
        return None


def _node(seen: Snapshot) -> bool:
    return any(n.path == "/dev/nvidiactl" and n.exists for n in seen.nodes)


def _own(seen: Snapshot) -> list[ToolDevice]:
    return [d for d in seen.devices if d.vendor in (None, "nvidia") and (d.arch or "sm_").startswith("sm_")]


def _software(seen: Snapshot, torch: TorchFacts) -> dict[str, str | None]:
    return {
        "driver": seen.tools.get("nvidia"),
        "cuda": torch.versions.get("cuda"),
        "collectives": torch.versions.get("nccl"),
        "cudnn": torch.versions.get("cudnn"),
    }


def _why_not(seen: Snapshot, torch: TorchFacts) -> str | None:
    """Why it is no CUDA machine, with the remedy; root causes first."""
    if seen.system != "linux":
        return deciding.line(f"runner cuda needs Linux, this is {seen.system}: use a Linux machine")
    emulated = deciding.emulation_of(seen)
    if emulated:
        return emulated
    here = any(d.vendor == "nvidia" for d in seen.devices)
    node = _node(seen)
    install = f"install its build: python -m pip install --no-deps torch --index-url {INDEX}"
    none = "no NVIDIA device is here: use a machine that has one"
    if torch.version is None:
        return deciding.line(f"{torch.error or 'this interpreter has no torch'}; {install if here else none}")
    build = deciding.build_of(torch)
    if build.kind == "cpu":
        return deciding.line(f"{build.words} is a CPU build; {install if here else none}")
    if build.kind == "rocm":
        remedy = install if here and not any(d.vendor == "amd" for d in seen.devices) else "use runner rocm"
        return deciding.line(f"{build.words} is a ROCm build, whatever capability its devices tell: {remedy}")
    if not torch.devices:
        return _no_device(seen, torch, here, node)
    nameless = [d.index for d in torch.devices if archs.sm_of(d.capability) is None]
    if nameless:
        told = torch.devices[nameless[0]].failure if nameless[0] < len(torch.devices) else None
        return deciding.line(
            f"torch does not tell the capability of device {nameless[0]} ({told or 'no reason told'}): update torch or "
            "the driver, or leave that device out by CUDA_VISIBLE_DEVICES"
        )
    tools = _own(seen)
    found = deciding.fewer_than_kernel(torch.devices, tools, deciding.masks_of(seen, MASKS), MASKS[0])
    kinds = [archs.sm_of(d.capability) or "" for d in torch.devices]
    return found or deciding.uncovered(kinds, torch.arch_list, INDEX) or deciding.failed_product(torch)


def _no_device(seen: Snapshot, torch: TorchFacts, here: bool, node: bool) -> str:
    masked = deciding.masks_of(seen, MASKS)
    if masked:
        told = f"torch sees no device and {deciding.told_masks(masked)}: set one mask that names devices, or unset it"
    elif node:
        told = f"torch sees no device ({torch.error or 'no reason told'}): check that nvidia-smi works and that the "
        told += f"driver {seen.tools.get('nvidia', '')} is new enough for CUDA {torch.versions.get('cuda')}"
    elif here:
        told = "an NVIDIA device is on the bus and /dev/nvidiactl is missing: load the driver, or start the "
        told += "container with --gpus all"
    else:
        told = "no NVIDIA device is here: use a machine that has one"
    return deciding.line(told)


RUNNER = CudaRunner()
