"""Checks of AMD machines: device nodes and their groups, firmware against RCCL's demands, kernel settings, torch's build."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

from harness.runners.facts.checks_base import (
    NO_TORCH,
    Answer,
    Check,
    Looked,
    archs,
    built_for,
    dotted,
    some,
    unknown,
    version,
)
from harness.runners.facts.snapshot import Node, Snapshot, ToolDevice

RUNNERS = ("rocm",)
EMULATED = ("mirage",)

LEAST_MEC: Mapping[str, int] = {"gfx942": 177, "gfx950": 24}
"""Firmware of the compute micro engine from which on RCCL runs without HSA_NO_SCRATCH_RECLAIM (RCCL, init.cc)."""

LEAST_HIP = (6, 4)
SLOW_SINCE_HIP = (7, 13)
"""From here on small collectives on gfx90a are five to ten times slower without it (rocm-systems, pull request 8657)."""

RECLAIM = "HSA_NO_SCRATCH_RECLAIM"
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
KFD = "/dev/kfd"


def hardware(seen: Snapshot) -> str | None:
    """What shows that this is such a machine, whether torch can use it or not."""
    if any(n.path == KFD and n.exists for n in seen.nodes):
        return f"{KFD} is there"
    found = [d.arch or d.name or "a device" for d in seen.devices if _is_ours(d)]
    return f"the kernel lists {some(found)}" if found else None


def _is_ours(device: ToolDevice) -> bool:
    return device.vendor == "amd" or (device.arch or "").startswith("gfx")


def _nodes(looked: Looked, pattern: str) -> list[Node]:
    return [n for n in looked.seen.nodes if fnmatch.fnmatchcase(n.path, pattern)]


def _access(looked: Looked, node: Node) -> Answer:
    """Whether this process may read and write a device node that is there."""
    if node.readable and node.writable:
        member = "this process is in it" if node.group in looked.seen.groups else "this process is not in it"
        return Answer("fine", f"{node.path}: readable and writable; group {node.group}, {member}")
    lacks = " and ".join(w for w, has in (("read", node.readable), ("write", node.writable)) if not has)
    text = f"{node.path}: may not {lacks}"
    if node.group is None:
        return Answer("wrong", f"{text}; its group is not known")
    if node.group in looked.seen.groups:
        remedy = "the group is right: allow the device in the container's device cgroup (--device), or mend its mode"
        return Answer("wrong", f"{text}, though this process is in its group {node.group}", remedy)
    if looked.seen.container:
        remedy = f"start the container with --group-add {node.group}"
    else:
        remedy = f"add the user to group {node.group} (getent group {node.group} names it), then log in again"
    mine = some(looked.seen.groups, 6) or "none"
    return Answer("wrong", f"{text}; group {node.group}, this process is in {mine}", remedy)


def _judge_kfd(looked: Looked) -> Answer:
    found = _nodes(looked, KFD)
    if not found:
        return unknown("the snapshot does not say")
    if not found[0].exists:
        inside = looked.seen.container is not None
        remedy = "start the container with --device /dev/kfd --device /dev/dri" if inside else ""
        return Answer("wrong", f"{KFD} is not there", remedy)
    return _access(looked, found[0])


def _judge_render(looked: Looked) -> Answer:
    if not looked.seen.nodes:
        return unknown("the snapshot does not say")
    found = [n for n in _nodes(looked, "/dev/dri/renderD*") if n.exists]
    if not found:
        return Answer("wrong", "no /dev/dri/renderD* is there")
    usable = [n for n in found if n.readable and n.writable]
    if len(usable) == len(found):
        return Answer("fine", f"{len(found)} of them, all readable and writable")
    first = _access(looked, next(n for n in found if n not in usable))
    seen = f"{len(usable)} of {len(found)} usable; {first.seen}"
    # A machine lent in parts shows the nodes of all, and only one's own are open.
    enough = looked.decision.why_not is None and len(usable) >= max(1, len(looked.decision.devices))
    return Answer("doubtful" if enough else "wrong", seen, first.remedy)


def _hip(looked: Looked) -> tuple[int, ...] | None:
    facts = looked.seen.torch
    return version((facts.versions.get("hip") if facts else None) or looked.seen.tools.get("rocm"))


def _judge_reclaim(looked: Looked) -> Answer:
    value, here = looked.seen.environment.get(RECLAIM), archs(looked)
    if value == "1":
        return Answer("fine", f"{RECLAIM}=1")
    told = f"{RECLAIM}={value}" if value is not None else f"{RECLAIM} is not set"
    if not here:
        return unknown(f"{told}; no architecture of a device is known")
    reasons, doubts = [], []
    hip = _hip(looked)
    for arch in here:
        least = LEAST_MEC.get(arch)
        if least is None:
            if arch == "gfx90a" and hip is not None and hip >= SLOW_SINCE_HIP:
                doubts.append(f"{arch} with HIP {dotted(hip[:2])}: small collectives are slow without it")
            continue
        firmware = [version(d.firmware.get("mec")) for d in looked.seen.devices if d.arch in (arch, None)]
        known = [f[0] for f in firmware if f]
        if known and min(known) < least:
            reasons.append(f"{arch} with MEC firmware {min(known)}, below {least}")
        elif not known:
            doubts.append(f"{arch}: MEC firmware not known ({least} or later needs it no more)")
        if hip is not None and hip < LEAST_HIP:
            reasons.append(f"HIP {dotted(hip[:2])}, below {dotted(LEAST_HIP)}")
        elif hip is None:
            doubts.append("version of HIP not known")
    sets = looked.sets.get(RECLAIM) == "1" and value is None
    own = "; the runner sets it for its own processes" if sets else ""
    if reasons:
        return Answer("doubtful" if sets else "wrong", f"{told}; {'; '.join(dict.fromkeys(reasons))}{own}")
    if doubts:
        return Answer("fine" if sets else "doubtful", f"{told}; {'; '.join(dict.fromkeys(doubts))}{own}")
    return Answer("fine", f"{told}, and neither firmware nor HIP needs it")


def _judge_numa(looked: Looked) -> Answer:
    value = looked.seen.kernel.get("numa_balancing")
    if value is None:
        return unknown("the kernel does not say: it may be built without")
    return Answer("fine" if value.strip() == "0" else "doubtful", f"kernel.numa_balancing={value.strip()}")


def _judge_iommu(looked: Looked) -> Answer:
    line = looked.seen.kernel.get("cmdline")
    if line is None:
        return unknown("the kernel's command line is not known")
    found = [w for w in line.split() if w in ("iommu=pt", "amd_iommu=on", "intel_iommu=on", "amd_iommu=off")]
    if any(w in ("iommu=pt", "amd_iommu=on") for w in found):
        return Answer("fine", " ".join(found))
    words = f"neither iommu=pt nor amd_iommu=on{': ' + ' '.join(found) if found else ''}"
    if len(looked.decision.devices) < 2:
        return Answer("fine", f"{words}; it matters between devices, here are fewer than two")
    return Answer("doubtful", words)


def _judge_override(looked: Looked) -> Answer:
    value = looked.seen.environment.get(OVERRIDE)
    if value is None:
        return Answer("fine", "not set")
    data_center = [a for a in archs(looked) if a.startswith(("gfx90a", "gfx94", "gfx95"))]
    if data_center:
        return Answer("wrong", f"{OVERRIDE}={value} on {some(data_center)}")
    return Answer("doubtful", f"{OVERRIDE}={value}")


def _judge_build(looked: Looked) -> Answer:
    if (built := built_for(looked)) is None:
        return NO_TORCH
    torch, name, version_of_it = built
    if name in ("rocm", "hip"):
        return Answer("fine", f"torch {torch}, {name} {version_of_it}")
    if looked.decision.stand_in:
        return Answer("fine", f"torch {torch}; behind the stand-in ranks run on the CPU")
    kind = "a build for CPUs" if name is None else f"a CUDA {version_of_it} build"
    return Answer("wrong", f"torch {torch} is {kind}, and this is for an AMD device")


_DOCS = "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/how-to/docker.html"
_RCCL = "https://github.com/ROCm/rccl/pull/1867"
CHECKS = (
    Check(
        "torch-build",
        "what torch was built for",
        "a resolver replaces a ROCm torch by a CUDA one without a word; then every device is gone",
        "inside the vendor's container use its own torch and interpreter; outside, install torch from the ROCm wheel "
        "index, with --no-deps for whatever would pull another one",
        _judge_build,
        runners=(*RUNNERS, *EMULATED),
        essential=True,
        link="https://github.com/ROCm/bitsandbytes/pull/37",
    ),
    Check(
        "kfd",
        "/dev/kfd: there, readable and writable, and its group",
        "every process that computes opens it; without it torch says that no GPU is available",
        "load the amdgpu driver (modprobe amdgpu; dmesg tells why not)",
        _judge_kfd,
        runners=RUNNERS,
        essential=True,
        link=_DOCS,
    ),
    Check(
        "render-nodes",
        "/dev/dri/renderD*: there, readable and writable, and their group",
        "each device has a render node, through which its memory is mapped",
        "start the container with --device /dev/dri, and --group-add with the numeric group of the nodes",
        _judge_render,
        runners=RUNNERS,
        link=_DOCS,
    ),
    Check(
        "scratch-reclaim",
        "HSA_NO_SCRATCH_RECLAIM against architecture, MEC firmware and HIP",
        "RCCL ends at the first collective without it on gfx942 with MEC firmware below 177, gfx950 below 24, or HIP "
        "before 6.4",
        "export HSA_NO_SCRATCH_RECLAIM=1, or update the firmware",
        _judge_reclaim,
        runners=RUNNERS,
        link=_RCCL,
    ),
    Check(
        "numa-balancing",
        "automatic balancing of memory between processor nodes",
        "it unmaps pages that devices use: collectives stall for moments, and RCCL warns",
        "on the host: sysctl kernel.numa_balancing=0",
        _judge_numa,
        runners=RUNNERS,
        link="https://github.com/ROCm/rccl/issues/696",
    ),
    Check(
        "iommu",
        "iommu=pt or amd_iommu=on in the kernel's command line",
        "without it transfers between devices may hang or be slow, and RCCL warns",
        "on the host: add iommu=pt to the kernel's command line and reboot",
        _judge_iommu,
        runners=RUNNERS,
        link="https://github.com/ROCm/rccl/issues/908",
    ),
    Check(
        "gfx-override",
        "HSA_OVERRIDE_GFX_VERSION",
        "it makes a device pass for another one: kernels for the wrong architecture crash or give wrong numbers",
        "unset HSA_OVERRIDE_GFX_VERSION",
        _judge_override,
        runners=(*RUNNERS, *EMULATED),
    ),
)
