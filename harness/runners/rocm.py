"""The ROCm runner: a Linux machine with AMD devices and a ROCm build of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.runners.base import Container, Decision, Device
from harness.runners.facts import archs, deciding
from harness.runners.facts.silicon import Accelerated
from harness.runners.facts.snapshot import Node, Snapshot, ToolDevice, TorchDevice, TorchFacts

PINS = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""HIP reads the first, or else the second, among those that the third shows."""

MASKS = (*PINS, "GPU_DEVICE_ORDINAL")
INDEX = "https://download.pytorch.org/whl/rocm7.2"
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"


class RocmRunner(Accelerated):
    """Architectures are gfx names: the kernel's where it tells them, else torch's gcnArchName, never a product's name.

    The device string stays `cuda` and the collective back end `nccl`, as torch names them on ROCm.
    """

    name = "rocm"
    torch_build = "rocm7.2"
    wheel_index: str | None = INDEX
    container: Container | None = Container(
        "rocm/pytorch:rocm7.2.4_ubuntu24.04_py3.12_pytorch_release_2.10.0",
        (
            *(
                "--device=/dev/kfd",
                "--device=/dev/dri",
                "--group-add",
                "video",
                "--ipc=host",
                "--shm-size=16g",
            ),
            *("--security-opt", "seccomp=unconfined", "--cap-add=SYS_PTRACE"),
        ),
    )
    recorded: Sequence[str] = (
        *("HIP_*", "HSA_*", "ROCR_*", "ROCM_*", "AMD_*", "GPU_*", "NCCL_*", "RCCL_*", "MIOPEN_*"),
        *(
            "HIPBLASLT_*",
            "ROCBLAS_*",
            "TORCH_*",
            "PYTORCH_*",
            "CUDA_VISIBLE_DEVICES",
            "OMP_NUM_THREADS",
            "LD_PRELOAD",
        ),
    )
    pins, masks = PINS, MASKS

    def environment(self, decision: Decision) -> Mapping[str, str]:
        found = {"OMP_NUM_THREADS": "1"}
        if any(d.arch in archs.RECLAIM for d in decision.devices):
            # RCCL ends a run without it on older firmware and runtimes; newer ones warn.
            found["HSA_NO_SCRATCH_RECLAIM"] = "1"
        return found

    def _is_there(self, seen: Snapshot) -> bool:
        listed = any(d.vendor == "amd" for d in seen.devices)
        return listed or any(n.path == "/dev/kfd" and n.exists for n in seen.nodes)

    def _own(self, seen: Snapshot) -> list[ToolDevice]:
        return _own(seen)

    def _arch(self, device: TorchDevice, own: Sequence[ToolDevice]) -> str | None:
        return _arch(device, own)

    def _rocm(self, torch: TorchFacts) -> tuple[int, int] | None:
        return archs.version_of(torch.versions.get("rocm")) or archs.version_of(torch.versions.get("hip"))

    def _notes(self, seen: Snapshot, torch: TorchFacts, devices: Sequence[Device]) -> list[str]:
        found = []
        for device, told in zip(devices, torch.devices, strict=True):
            label = archs.gfx_of(told.arch_name)
            if label and label != device.arch:
                found.append(f"device {device.index} is labelled {label} and is {device.arch} silicon")
        if OVERRIDE in seen.environment:
            found.append(
                deciding.line(
                    f"{OVERRIDE}={seen.environment[OVERRIDE]} changes what a device is called; unset it"
                )
            )
        return found

    def _software(self, seen: Snapshot, torch: TorchFacts) -> dict[str, str | None]:
        return {
            "driver": seen.tools.get("amdgpu"),
            "rocm": torch.versions.get("rocm") or seen.tools.get("rocm"),
            "hip": torch.versions.get("hip"),
            "collectives": torch.versions.get("nccl"),
            "miopen": torch.versions.get("miopen"),
            "mec": ", ".join(sorted({d.firmware["mec"] for d in _own(seen) if "mec" in d.firmware})) or None,
        }

    def _why_not(self, seen: Snapshot, torch: TorchFacts) -> str | None:
        return _why_not(seen, torch)


def _own(seen: Snapshot) -> list[ToolDevice]:
    return [d for d in seen.devices if d.vendor in (None, "amd") and (d.arch or "gfx").startswith("gfx")]


def _arch(device: TorchDevice, own: Sequence[ToolDevice]) -> str | None:
    """The silicon of a device: by its PCI address, or the one that all share, or what torch calls it."""
    tool = deciding.matched(device, own)
    known = {archs.gfx_of(d.arch) for d in own} - {None}
    silicon = archs.gfx_of(tool.arch) if tool else known.pop() if len(known) == 1 else None
    return silicon or archs.gfx_of(device.arch_name)


def _why_not(seen: Snapshot, torch: TorchFacts) -> str | None:
    """Why it is no ROCm machine, with the remedy; root causes first."""
    here = any(d.vendor == "amd" and (d.arch or d.device_id) for d in seen.devices)
    install = f"install its build: python -m pip install --no-deps torch --index-url {INDEX}"
    install += ", or use the container's own interpreter"
    none = "no AMD device is here: use a machine that has one"
    if (why := deciding.without_build("rocm", seen, torch, install if here else none)) is not None:
        return why
    build = deciding.build_of(torch)
    if build.kind == "cuda":
        # A processor with graphics of its own beside another vendor's devices is no sign of a replaced build.
        alone = here and not any(d.vendor == "nvidia" for d in seen.devices)
        remedy = f"a resolver may have replaced the right one; {install}" if alone else "use runner cuda"
        return deciding.line(f"{build.words} is a CUDA build (torch.version.hip is None): {remedy}")
    if not torch.devices:
        return _no_device(seen, torch, here)
    own = _own(seen)
    kinds = {d.index: _arch(d, own) for d in torch.devices}
    for index, kind in kinds.items():
        if kind is None:
            return deciding.line(
                f"neither torch nor the kernel tells the architecture of device {index}: update torch, or leave the "
                "device out by HIP_VISIBLE_DEVICES"
            )
    # What code is looked for goes by the label, which an override may have changed.
    labels = [archs.gfx_of(d.arch_name) or kinds[d.index] or "" for d in torch.devices]
    return (
        deciding.fewer_than_kernel(torch.devices, own, deciding.masks_of(seen, MASKS), PINS[0])
        or deciding.uncovered(labels, torch.arch_list, INDEX)
        or deciding.failed_product(torch)
    )


def _no_device(seen: Snapshot, torch: TorchFacts, here: bool) -> str:
    nodes = {n.path: n for n in seen.nodes}
    kfd = nodes.get("/dev/kfd", Node("/dev/kfd", False))
    renders = [n for n in seen.nodes if n.path.startswith("/dev/dri/renderD") and n.exists]
    closed = [n for n in (kfd, *renders) if n.exists and not (n.readable and n.writable)]
    masked = deciding.masks_of(seen, MASKS)
    if not kfd.exists:
        told = "/dev/kfd is missing: load the amdgpu driver, or start the container with --device /dev/kfd --device /dev/dri"
        told = f"{'no AMD device is here and ' if not here else ''}{told}"
    elif closed:
        groups = ", ".join(sorted({str(n.group) for n in closed if n.group is not None}))
        told = f"{closed[0].path} may not be opened: join its group, or start the container with --group-add {groups}"
    elif len(masked) > 1:
        told = (
            f"torch sees no device: {deciding.told_masks(masked)} are both set and stack; unset all but one"
        )
    elif masked:
        told = f"torch sees no device and {deciding.told_masks(masked)}: set one mask that names devices, or unset it"
    elif not renders:
        told = "/dev/dri has no render node: start the container with --device /dev/dri"
    else:
        told = f"torch sees no device ({torch.error or 'no reason told'}): check that rocminfo lists one"
    return deciding.line(told)


RUNNER = RocmRunner()
