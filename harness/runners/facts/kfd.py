"""The kernel's own list of AMD devices, in /sys/class/kfd: silicon, whatever a label or a variable says; parsing is pure.

Shape: https://github.com/ROCm/ROCK-Kernel-Driver drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.runners.facts.snapshot import ToolDevice

NODES = "sys/class/kfd/kfd/topology/nodes"
DEVICE_HEAPS = ("1", "2")
"""Heap types of memory on the device, open to the processor or not."""

MEC_NUMBER = 0x7FFF
"""Some drivers give firmware of the compute engine with a flag above these bits: 32945 is 177."""


@dataclass(frozen=True)
class KfdNode:
    """One folder of the topology: its number, its properties and those of its memory banks, by name."""

    number: int
    properties: Mapping[str, str]
    banks: tuple[Mapping[str, str], ...] = ()


def parse_properties(text: str) -> dict[str, str]:
    """`name value` lines; lines of another form are left out."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines())
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def arch_of_version(version: int) -> str | None:
    """`gfx90a` of 90010: decimal pairs, minor and stepping written in hexadecimal; None for a processor (0)."""
    if version <= 0:
        return None
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def pci_of(domain: int, location: int) -> str:
    """`0000:c1:00.0` of a domain and a location, whose upper half may number a partition."""
    bus, slot, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"


def mec_number(text: str) -> str:
    """Firmware number of the compute engine without flags; text that is no number stays as it is."""
    try:
        return str(int(text, 0) & MEC_NUMBER)
    except ValueError:
        return text


def devices_of(nodes: Iterable[KfdNode]) -> tuple[ToolDevice, ...]:
    """The devices among the nodes, in the kernel's order; several at one PCI address are partitions of one."""
    found: list[ToolDevice] = []
    for node in sorted(nodes, key=lambda n: n.number):
        arch = arch_of_version(_number(node.properties, "gfx_target_version") or 0)
        if arch is None:
            continue
        seen = node.properties
        location, domain = _number(seen, "location_id"), _number(seen, "domain") or 0
        simds, per_unit = _number(seen, "simd_count"), _number(seen, "simd_per_cu")
        sizes = [_number(b, "size_in_bytes") for b in node.banks if b.get("heap_type") in DEVICE_HEAPS]
        device_id, firmware = _number(seen, "device_id"), seen.get("fw_version")
        found.append(
            ToolDevice(
                len(found),
                arch,
                pci=None if location is None else pci_of(domain, location),
                device_id=None if device_id is None else f"{device_id:#06x}",
                memory_bytes=sum(s for s in sizes if s) or None,
                firmware={} if firmware is None else {"mec": mec_number(firmware)},
                vendor="amd",
                units=simds // per_unit if simds and per_unit else None,
            )
        )
    return tuple(found)


def _number(values: Mapping[str, str], name: str) -> int | None:
    try:
        return int(values[name], 0)
    except (KeyError, ValueError):
        return None
