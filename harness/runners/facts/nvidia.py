"""What nvidia-smi prints, read into devices; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.runners.facts.snapshot import ToolDevice

FIELDS = (
    "index",
    "name",
    "pci.bus_id",
    "pci.device_id",
    "uuid",
    "memory.total",
    "memory.used",
    "driver_version",
    "compute_cap",
    "power.limit",
    "power.default_limit",
    "clocks_event_reasons.active",
    "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.uncorrected.aggregate.total",
    "mig.mode.current",
)
"""Asked of `nvidia-smi --query-gpu`; an older one refuses those it does not know, one by name."""

APPS = ("gpu_uuid", "pid", "process_name")

REASONS = {
    0x2: "application clocks are set",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of clocks_event_reasons.active that hold a clock down; idle (0x1) is none of them."""

_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')


def query_words(fields: Sequence[str]) -> list[str]:
    """The command that asks for these fields of each device."""
    return ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]


def apps_words() -> list[str]:
    """The command that asks for the processes that compute."""
    return ["nvidia-smi", f"--query-compute-apps={','.join(APPS)}", "--format=csv,noheader,nounits"]


def unknown_field(text: str) -> str | None:
    """The field that nvidia-smi refused, in its message."""
    found = _UNKNOWN_FIELD.search(text)
    return found[1] if found else None


def parse_query(text: str, fields: Sequence[str] = FIELDS) -> tuple[tuple[ToolDevice, ...], str | None]:
    """Devices and the driver's version; lines of another form are left out, a field that is not known is None."""
    devices: list[ToolDevice] = []
    driver: str | None = None
    for row in _rows(text, fields, free="name"):
        index = _number(row.get("index"))
        if index is None:
            continue
        driver = driver or row.get("driver_version")
        capability = re.fullmatch(r"(\d+)\.(\d+)", row.get("compute_cap") or "")
        used, total = _number(row.get("memory.used")), _number(row.get("memory.total"))
        errors = [
            f"{count:g} uncorrected memory errors ({kind})"
            for kind in ("volatile", "aggregate")
            if (count := _number(row.get(f"ecc.errors.uncorrected.{kind}.total")))
        ]
        devices.append(
            ToolDevice(
                int(index),
                f"sm_{capability[1]}{capability[2]}" if capability else None,
                row.get("name"),
                normal_pci(row.get("pci.bus_id")),
                _device_id(row.get("pci.device_id")),
                None if total is None else int(total * 2**20),
                None if used is None else int(used * 2**20),
                power_cap_w=_number(row.get("power.limit")),
                power_cap_default_w=_number(row.get("power.default_limit")),
                clock_limits=_reasons(row.get("clocks_event_reasons.active")),
                errors=tuple(errors),
                vendor="nvidia",
                uuid=row.get("uuid"),
                partition="MIG" if row.get("mig.mode.current") == "Enabled" else None,
            )
        )
    return tuple(devices), driver


def parse_apps(text: str) -> dict[str, tuple[str, ...]]:
    """Processes as `pid name` by the device's UUID."""
    found: dict[str, tuple[str, ...]] = {}
    for row in _rows(text, APPS, free="process_name"):
        device, pid = row.get("gpu_uuid"), row.get("pid")
        if device and pid and pid.isdigit():
            name = (row.get("process_name") or "").rpartition("/")[2]
            found[device] = (*found.get(device, ()), f"{pid} {name}".strip())
    return found


def with_processes(
    devices: Sequence[ToolDevice], processes: Mapping[str, tuple[str, ...]]
) -> tuple[ToolDevice, ...]:
    """The devices with what runs on them."""
    return tuple(replace(d, processes=processes.get(d.uuid or "", ())) for d in devices)


def normal_pci(text: str | None) -> str | None:
    """`0000:c1:00.0` of `00000000:C1:00.0`; None for another form."""
    found = re.fullmatch(r"([0-9a-fA-F]+):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])", text or "")
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.{found[4]}".lower() if found else None


def _rows(text: str, fields: Sequence[str], free: str) -> list[dict[str, str]]:
    """Rows by field; a comma within the `free` field stays in it, and what the tool does not know is left out."""
    rows = []
    place = fields.index(free)
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        more = len(cells) - len(fields)
        if more < 0:
            continue
        cells[place : place + more + 1] = [", ".join(cells[place : place + more + 1])]
        # [N/A], [Not Supported], [Unknown Error], [Insufficient Permissions]
        rows.append({f: c for f, c in zip(fields, cells, strict=True) if c and c != "N/A" and c[0] != "["})
    return rows


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\d{1,15}(\.\d*)?", text, re.ASCII) else None


def _device_id(text: str | None) -> str | None:
    """`0x2330` of `0x233010DE`: device, then vendor."""
    found = re.fullmatch(r"(?:0x)?([0-9a-fA-F]{4})10[dD][eE]", text or "")
    return f"0x{found[1].lower()}" if found else None


def _reasons(text: str | None) -> tuple[str, ...]:
    try:
        bits = int(text or "", 16)
    except ValueError:
        return ()
    return tuple(words for bit, words in REASONS.items() if bits & bit)
