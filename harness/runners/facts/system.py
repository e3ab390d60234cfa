"""Reads what the kernel tells of a machine without any tool: nodes, limits, shared memory, PCI devices.

Every function takes the root of the files, `/` or a test's own tree; what cannot be read is unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.runners.facts import emulation, kfd
from harness.runners.facts.snapshot import Node, ToolDevice

LIBRARY = "librocjitsu"
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
"""In a variable's name: its value never reaches a snapshot."""

FIXED_NODES = ("/dev/kfd", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dxg")
NODE_PATTERNS = ("dev/dri/renderD*", "dev/nvidia[0-9]*")
VENDORS = {"0x1002": "amd", "0x10de": "nvidia"}
_BOOT = re.compile(
    r"iommu|numa|^pci|amdgpu|nvidia|huge|isolcpus|nohz|mitigations|cgroup|idle|pstate|amd_|intel_"
)
_UNLIMITED = 2**60


def read(root: Path, path: str) -> str | None:
    """The text of a small file; None when it cannot be read."""
    try:
        return (root / path).read_bytes().decode(errors="replace").strip("\0\n ")
    except OSError:
        return None


def collect_nodes(root: Path, access: Callable[[str, int], bool]) -> tuple[Node, ...]:
    """Device nodes: those looked for by name, there or not, and those there by pattern."""
    names = [*FIXED_NODES]
    for pattern in NODE_PATTERNS:
        found = (f"/{p.relative_to(root).as_posix()}" for p in root.glob(pattern))
        names += sorted(found, key=lambda n: (re.sub(r"\d+", "", n), int(re.findall(r"\d+", n)[-1])))
    nodes = []
    for name in names:
        path = str(root / name[1:])
        try:
            group = Path(path).stat().st_gid
        except OSError:
            nodes.append(Node(name, False))
        else:
            nodes.append(Node(name, True, access(path, os.R_OK), access(path, os.W_OK), group))
    return tuple(nodes)


def collect_kernel(root: Path) -> dict[str, str]:
    """`cmdline` (the words that matter here), `numa_balancing`, `release`, `iommu_groups`, `cgroup_memory_bytes`."""
    words = (read(root, "proc/cmdline") or "").split()
    groups = root / "sys/kernel/iommu_groups"
    try:
        count = str(len(list(groups.iterdir())))
    except OSError:
        count = None
    found = {
        "cmdline": " ".join(w for w in words if _BOOT.search(w) and not SECRET.search(w)) if words else None,
        "numa_balancing": read(root, "proc/sys/kernel/numa_balancing"),
        "release": read(root, "proc/sys/kernel/osrelease"),
        "iommu_groups": count,
        "cgroup_memory_bytes": _cgroup_memory(root),
    }
    return {k: v for k, v in found.items() if v is not None}


def _cgroup_memory(root: Path) -> str | None:
    """The tightest limit from this process's group upwards; None without one."""
    base = root / "sys/fs/cgroup"
    own = re.search(r"^0::/(.*)$", read(root, "proc/self/cgroup") or "", re.MULTILINE)
    parts = [p for p in (own[1].split("/") if own else []) if p not in ("", "..")]
    places = ["/".join([*parts[:n], "memory.max"]) for n in range(len(parts) + 1)]
    limits = []
    for place in [*places, "memory/memory.limit_in_bytes"]:
        text = read(base, place)
        if text and text.isdecimal() and int(text) < _UNLIMITED:
            limits.append(int(text))
    return str(min(limits)) if limits else None


def collect_memory_bytes(root: Path) -> int | None:
    """Memory of the machine."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", read(root, "proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def collect_space(path: Path) -> tuple[int | None, int | None]:
    """Size and free bytes of the file system that holds the path."""
    try:
        seen = os.statvfs(path)
    except OSError:
        return None, None
    return seen.f_frsize * seen.f_blocks, seen.f_frsize * seen.f_bavail


def collect_shm_stale(root: Path, uid: int) -> tuple[str, ...]:
    """Segments `nccl-*` in /dev/shm that are ours and that no process we can see has open or mapped."""
    try:
        own = sorted(p.name for p in (root / "dev/shm").glob("nccl-*") if p.stat().st_uid == uid)
    except OSError:
        return ()
    if not own:
        return ()
    held: set[str] = set()
    for process in (root / "proc").glob("[0-9]*"):
        held.update(re.findall(r"/dev/shm/(nccl-[^\s(]+)", read(process, "maps") or ""))
        try:
            for link in (process / "fd").iterdir():
                target = str(link.readlink())
                if target.startswith("/dev/shm/nccl-"):
                    held.add(target.removeprefix("/dev/shm/"))
        except OSError:
            continue
    return tuple(name for name in own if name not in held)


def collect_container(root: Path, environment: Mapping[str, str]) -> str | None:
    """What kind of container this runs in; None when there is no sign of one."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if environment.get("APPTAINER_CONTAINER") or environment.get("SINGULARITY_CONTAINER"):
        return "apptainer"
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if environment.get("container"):
        return environment["container"][:40]
    found = re.search(r"kubepods|docker|containerd|lxc|libpod", read(root, "proc/1/cgroup") or "")
    return found[0] if found else None


def collect_emulation(root: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Signs of an emulator around this process, in its environment and its maps."""
    found = [name for name in emulation.SESSION if environment.get(name)]
    if LIBRARY in environment.get("LD_PRELOAD", ""):
        found.append(f"LD_PRELOAD: {LIBRARY}.so")
    if LIBRARY in (read(root, "proc/self/maps") or ""):
        found.append(f"maps: {LIBRARY}.so")
    return tuple(found)


def collect_kfd(root: Path) -> tuple[ToolDevice, ...]:
    """AMD devices by the kernel's topology; nodes that this container may not read are left out."""
    nodes = []
    for folder in (root / kfd.NODES).glob("[0-9]*"):
        text = read(folder, "properties")
        if text and folder.name.isdecimal():
            banks = (read(p, "properties") for p in sorted((folder / "mem_banks").glob("[0-9]*")))
            parsed = tuple(kfd.parse_properties(b) for b in banks if b)
            nodes.append(kfd.KfdNode(int(folder.name), kfd.parse_properties(text), parsed))
    return kfd.devices_of(nodes)


def collect_pci(root: Path) -> tuple[ToolDevice, ...]:
    """Display and compute controllers of the two vendors on the PCI bus: they need no driver to be seen."""
    found: list[ToolDevice] = []
    for folder in sorted((root / "sys/bus/pci/devices").glob("*:*:*.*")):
        vendor, kind = VENDORS.get(read(folder, "vendor") or ""), read(folder, "class") or ""
        if vendor and kind[:4] in ("0x03", "0x12"):
            device_id = read(folder, "device")
            found.append(ToolDevice(len(found), pci=folder.name.lower(), device_id=device_id, vendor=vendor))
    return tuple(found)


def collect_drivers(root: Path) -> dict[str, str]:
    """Versions of loaded kernel modules and of the ROCm installation, by name."""
    found = {
        "nvidia": read(root, "sys/module/nvidia/version"),
        "amdgpu": read(root, "sys/module/amdgpu/version"),
        "rocm": read(root, "opt/rocm/.info/version"),
    }
    return {k: v for k, v in found.items() if v}
