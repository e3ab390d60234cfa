"""What cuda and rocm decide alike: checks that end in a reason and a remedy, devices and capabilities; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.runners.base import Capability, Device
from harness.runners.facts import archs, peaks
from harness.runners.facts.snapshot import Snapshot, ToolDevice, TorchDevice, TorchFacts

PRODUCT_NORM = 65536.0
EMULATED_IDS = ("0x1704",)
"""PCI device ids that only the emulator gives (5892); silicon is 0x75a0 (30112)."""

MODEL_ARCHS = (
    (r"MI2[15]0", "gfx90a"),
    (r"MI3(00|08|25)", "gfx942"),
    (r"MI35[05]", "gfx950"),
    (r"\bA100\b", "sm_80"),
    (r"\b(H[12]00|GH200)\b", "sm_90"),
    (r"\bG?B200\b", "sm_100"),
)
"""Names that say a model, for a note when they contradict the architecture; they decide nothing."""


@dataclass(frozen=True)
class Build:
    """Whose torch it is: `rocm`, `cuda` or `cpu`, and its version with what it was built for."""

    kind: str
    words: str


def line(text: str) -> str:
    """The text on one line, not too long for a report."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= 600 else flat[:597] + "..."


def build_of(torch: TorchFacts) -> Build:
    """The build; `hip` and `rocm` may stand side by side."""
    versions = {k: v for k, v in torch.versions.items() if v}
    kind = (
        "rocm" if versions.get("hip") or versions.get("rocm") else "cuda" if versions.get("cuda") else "cpu"
    )
    told = ", ".join(f"{k} {versions[k]}" for k in ("rocm", "hip", "cuda") if k in versions)
    return Build(kind, f"torch {torch.version}" + (f" ({told})" if told else ""))


def emulation_of(seen: Snapshot) -> str | None:
    """Why it is not silicon; None without a sign of an emulator."""
    signs = [*seen.emulation, *(seen.torch.emulation if seen.torch else ())]
    signs += [f"PCI device id {d.device_id}" for d in seen.devices if d.device_id in EMULATED_IDS]
    if not signs:
        return None
    told = ", ".join(dict.fromkeys(signs))
    return line(f"this is an emulated device ({told}): use runner mirage, or leave the emulator")


def masks_of(seen: Snapshot, names: Sequence[str]) -> dict[str, str]:
    """The visibility masks that are set, by variable; one that is set to nothing hides every device, too."""
    return {name: seen.environment[name] for name in names if name in seen.environment}


def told_masks(masks: Mapping[str, str]) -> str:
    """`A=0 and B=1`, for a reason."""
    return " and ".join(f"{name}={value}" for name, value in masks.items())


def matched(device: TorchDevice, seen: Sequence[ToolDevice]) -> ToolDevice | None:
    """The device of the kernel or the tool that is this one, by PCI address; None when that cannot be told."""
    if device.pci is None:
        return None
    # torch does not tell the function of a PCI address.
    place = device.pci.rpartition(".")[0]
    same = [d for d in seen if d.pci is not None and d.pci.rpartition(".")[0] == place]
    return same[0] if same else None


def fewer_than_kernel(
    torch: Sequence[TorchDevice], tools: Sequence[ToolDevice], masks: Mapping[str, str], variable: str
) -> str | None:
    """Why torch's devices are too few; None when a mask or a partition explains it or nothing is missing."""
    known = [d for d in tools if d.arch is not None]
    if masks or len(torch) >= len(known) or any(d.partition for d in known):
        return None
    missing = {d.pci for d in known if d.pci} - {d.pci for d in torch}
    named = f" (missing: {', '.join(sorted(missing))})" if missing and all(d.pci for d in torch) else ""
    return line(
        f"torch sees {len(torch)} of the {len(known)} devices that the kernel sees{named} and no mask is set: give "
        f"this container or user all of them, or set {variable} to those that are meant"
    )


def without_build(name: str, seen: Snapshot, torch: TorchFacts, remedy: str) -> str | None:
    """Why nothing can run whoever made the devices: another system, an emulator, no torch, or one for CPUs."""
    if seen.system != "linux":
        return line(f"runner {name} needs Linux, this is {seen.system}: use a Linux machine")
    emulated = emulation_of(seen)
    if emulated:
        return emulated
    if torch.version is None:
        return line(f"{torch.error or 'this interpreter has no torch'}; {remedy}")
    build = build_of(torch)
    return line(f"{build.words} is a CPU build; {remedy}") if build.kind == "cpu" else None


def failed_product(torch: TorchFacts) -> str | None:
    """Why a device cannot compute; None when each that was asked gave the right bfloat16 product."""
    for device in torch.devices:
        norm = device.product_norm
        if device.index == torch.devices[0].index and norm is None:
            norm = torch.product_norm
        who = f"device {device.index}" + (f" at {device.pci}" if device.pci else "")
        if device.failure:
            return line(
                f"{who} cannot compute a bf16 product ({device.failure}): reset or replace it, or leave it out by a mask"
            )
        if norm is not None and not abs(norm - PRODUCT_NORM) < 0.5:
            return line(
                f"{who} computes a wrong bf16 product (norm {norm:g} instead of {PRODUCT_NORM:g}): take it out of use, "
                "or leave it out by a mask"
            )
    if torch.devices[0].product_norm is None and torch.product_norm is None:
        return line(
            f"device 0 gave no bf16 product ({torch.error or 'no reason told'}): run again, then check its driver"
        )
    return None


def uncovered(archs_here: Sequence[str], wheel: Sequence[str], index: str) -> str | None:
    """Why the wheel does not run on these architectures; None when it does or does not tell."""
    without = sorted({a for a in archs_here if archs.wheel_covers(a, wheel) is False})
    if not without:
        return None
    return line(
        f"this torch holds no kernels for {', '.join(without)} (only for {', '.join(wheel)}): install a build that "
        f"does, for example from {index}"
    )


def device_of(index: int, arch: str, torch: TorchDevice, tool: ToolDevice | None) -> Device:
    """What is said of one device."""
    memory = torch.memory_bytes or (tool.memory_bytes if tool else None)
    model = peaks.model_of(
        arch,
        tool.device_id if tool else None,
        torch.units,
        torch.memory_bytes,
        (tool.partition if tool else None) or ("MIG" if (torch.uuid or "").startswith("MIG-") else None),
    )
    return Device(
        index,
        arch,
        torch.name or None,
        memory,
        torch.pci or (tool.pci if tool else None),
        dict(tool.firmware) if tool else {},
        model.peak if model else None,
    )


def notes_of(
    devices: Sequence[Device], tools: Sequence[ToolDevice | None], masks: Mapping[str, str]
) -> list[str]:
    """What looks wrong of devices and masks and does not forbid a run."""
    found = []
    kinds = sorted({d.arch for d in devices})
    if len(kinds) > 1:
        found.append(
            f"mixed devices: {', '.join(f'{sum(d.arch == k for d in devices)} x {k}' for k in kinds)}"
        )
    for device in devices:
        said = next((arch for words, arch in MODEL_ARCHS if re.search(words, device.name or "")), None)
        if said and said != device.arch:
            found.append(
                f"device {device.index} calls itself {device.name} and is {device.arch}: names decide nothing"
            )
    for device, tool in zip(devices, tools, strict=True):
        if tool and tool.partition:
            found.append(
                f"device {device.index} is a part of one ({tool.partition}): no peak figures are known for it"
            )
    if len(masks) > 1:
        found.append(f"masks stack: {told_masks(masks)} are both set; set exactly one")
    return [line(note) for note in found]


def capabilities_of(
    devices: Sequence[Device], torch: TorchFacts, rocm: tuple[int, int] | None
) -> dict[str, Capability]:
    """What the devices can do together: a capability is there when each device has it.

    `rocm`: version of ROCm that torch was built for; None on a CUDA build.
    """
    kinds = sorted({d.arch for d in devices})
    told = ", ".join(kinds)
    without = [k for k in kinds if not archs.has_bf16(k)]
    several = len(devices) > 1
    return {
        "bf16": Capability(
            not without,
            f"no bf16 hardware known in {', '.join(without)}" if without else f"{told} has it in hardware",
            required=not without,
        ),
        "fp8": _fp8(kinds, rocm),
        "multi_device": Capability(several, f"{len(devices)} device{'s' if several else ''}"),
        "flash_sdpa": Capability(
            torch.flash_sdpa is True,
            {
                True: "torch's flash kernel ran on device 0",
                False: "torch's flash kernel refused a usual case on device 0",
                None: "torch could not say",
            }[torch.flash_sdpa if isinstance(torch.flash_sdpa, bool) else None],
            required=all(archs.has_flash(k) for k in kinds),
        ),
        "peer_to_peer": _peers(torch.devices),
        "float64": Capability(True, f"{told} has it", required=True),
        "timing": Capability(True, "silicon", required=True),
    }


def _fp8(kinds: Sequence[str], rocm: tuple[int, int] | None) -> Capability:
    forms = {k: archs.fp8_format(k) for k in kinds}
    lacking = [k for k, form in forms.items() if form is None]
    if lacking:
        return Capability(False, f"{', '.join(lacking)} has no 8-bit float products")
    if len(set(forms.values())) > 1:
        return Capability(
            False, "the devices differ in format: " + ", ".join(f"{k} {f}" for k, f in forms.items())
        )
    for kind in kinds:
        needs = archs.fp8_needs(kind)
        if needs and (rocm is None or rocm < needs):
            have = "unknown" if rocm is None else f"{rocm[0]}.{rocm[1]}"
            reason = f"{kind} needs a torch for ROCm {needs[0]}.{needs[1]} or newer, this is {have}"
            return Capability(False, reason, required=True)
    form = forms[kinds[0]]
    return Capability(True, f"{', '.join(kinds)} has {form}", form=form, required=True)


def _peers(devices: Sequence[TorchDevice]) -> Capability:
    if len(devices) < 2:
        return Capability(False, "one device has no peer")
    unknown = [d.index for d in devices if d.peers is None]
    if unknown:
        return Capability(False, f"torch could not say for device {unknown[0]}")
    for device in devices:
        for other in devices:
            if other.index != device.index and other.index not in (device.peers or ()):
                return Capability(False, f"device {device.index} cannot read device {other.index}")
    return Capability(True, "every pair was asked")
