"""The CUDA runner: a Linux machine with NVIDIA devices and a CUDA build of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.runners.base import Container, Decision
from harness.runners.facts import archs, deciding
from harness.runners.facts.silicon import Accelerated
from harness.runners.facts.snapshot import Snapshot, ToolDevice, TorchDevice, TorchFacts

MASKS = ("CUDA_VISIBLE_DEVICES",)
INDEX = "https://download.pytorch.org/whl/cu130"


class CudaRunner(Accelerated):
    """Architectures are sm_XY, of the capability; a ROCm build of torch is never one, whatever capability it tells."""

    name = "cuda"
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
    pins = masks = MASKS

    def environment(self, decision: Decision) -> Mapping[str, str]:
        # Without it each rank starts a thread for every processor, and they wait for one another.
        return {"OMP_NUM_THREADS": "1"}

    def _is_there(self, seen: Snapshot) -> bool:
        return _lists(seen, "nvidia") or _node(seen)

    def _own(self, seen: Snapshot) -> list[ToolDevice]:
        return _own(seen)

    def _arch(self, device: TorchDevice, own: Sequence[ToolDevice]) -> str | None:
        return archs.sm_of(device.capability)

    def _software(self, seen: Snapshot, torch: TorchFacts) -> dict[str, str | None]:
        return {
            "driver": seen.tools.get("nvidia"),
            "cuda": torch.versions.get("cuda"),
            "collectives": torch.versions.get("nccl"),
            "cudnn": torch.versions.get("cudnn"),
        }

    def _why_not(self, seen: Snapshot, torch: TorchFacts) -> str | None:
        return _why_not(seen, torch)


def _lists(seen: Snapshot, vendor: str) -> bool:
    return any(d.vendor == vendor for d in seen.devices)


def _node(seen: Snapshot) -> bool:
    return any(n.path == "/dev/nvidiactl" and n.exists for n in seen.nodes)


def _own(seen: Snapshot) -> list[ToolDevice]:
    return [d for d in seen.devices if d.vendor in (None, "nvidia") and (d.arch or "sm_").startswith("sm_")]


def _why_not(seen: Snapshot, torch: TorchFacts) -> str | None:
    """Why it is no CUDA machine, with the remedy; root causes first."""
    here = _lists(seen, "nvidia")
    install = f"install its build: python -m pip install --no-deps torch --index-url {INDEX}"
    none = "no NVIDIA device is here: use a machine that has one"
    if (why := deciding.without_build("cuda", seen, torch, install if here else none)) is not None:
        return why
    build = deciding.build_of(torch)
    if build.kind == "rocm":
        remedy = install if here and not _lists(seen, "amd") else "use runner rocm"
        return deciding.line(f"{build.words} is a ROCm build, whatever capability its devices tell: {remedy}")
    if not torch.devices:
        return _no_device(seen, torch, here, _node(seen))
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
