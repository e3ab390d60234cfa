"""What amd-smi and rocm-smi print as JSON, read into devices; pure.

Shapes: https://github.com/ROCm/amdsmi amdsmi_cli/amdsmi_commands.py and CHANGELOG.md. A list of devices came bare at
first and is under `gpu_data` since ROCm 7; power limits moved into `ppt0`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.runners.facts.kfd import mec_number
from harness.runners.facts.nvidia import normal_pci
from harness.runners.facts.snapshot import ToolDevice

STATIC = ["amd-smi", "static", "--json"]
FIRMWARE = ["amd-smi", "firmware", "--json"]
METRIC = ["amd-smi", "metric", "--json"]
PROCESS = ["amd-smi", "process", "--json"]
OLDER = [
    "rocm-smi",
    "--json",
    "-i",
    "--showbus",
    "--showmeminfo",
    "vram",
    "--showproductname",
    "--showfw",
    "--showpids",
]
OLDER += ["--showmaxpower", "--showdriverversion"]

_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


def parse_static(text: str) -> tuple[tuple[ToolDevice, ...], str | None]:
    """Devices and the driver's version, of `amd-smi static --json`."""
    devices, driver = [], None
    for entry in _entries(text):
        index = _integer(entry.get("gpu"))
        if index is None:
            continue
        asic, bus, limit = _part(entry, "asic"), _part(entry, "bus"), _part(entry, "limit")
        cap = _part(limit, "ppt0") or limit
        driver = driver or _word(_part(entry, "driver").get("version"))
        part = _part(entry, "partition")
        compute = _word(part.get("accelerator_partition")) or _word(part.get("compute_partition"))
        memory = _word(part.get("memory_partition"))
        arch = _word(asic.get("target_graphics_version"))
        devices.append(
            ToolDevice(
                index,
                arch if arch and re.fullmatch(r"gfx[0-9a-f]+", arch) else None,
                _word(asic.get("market_name")),
                normal_pci(_word(bus.get("bdf"))),
                _device_id(asic.get("device_id")),
                _bytes(_part(entry, "vram").get("size")),
                power_cap_w=_value(cap.get("socket_power_limit", cap.get("socket_power"))),
                power_cap_default_w=_value(cap.get("max_power_limit", cap.get("max_power"))),
                vendor="amd",
                units=_integer(asic.get("num_compute_units")),
                partition=None
                if compute in (None, "SPX") and memory in (None, "NPS1")
                else f"{compute or '?'}/{memory or '?'}",
            )
        )
    return tuple(devices), driver


def parse_firmware(text: str) -> dict[int, dict[str, str]]:
    """Firmware by device and block, of `amd-smi firmware --json`; `mec` is the compute engine's."""
    found: dict[int, dict[str, str]] = {}
    for entry in _entries(text):
        index, blocks = _integer(entry.get("gpu")), entry.get("fw_list")
        if index is None or not isinstance(blocks, list):
            continue
        found[index] = {}
        for block in blocks:
            name, version = (
                (_word(block.get(k)) for k in ("fw_id", "fw_version")) if _is(block) else (None, None)
            )
            if name and version:
                name = name.lower().removeprefix("cp_")
                found[index]["mec" if name == "mec1" else name] = (
                    mec_number(version) if name.startswith("mec") else version
                )
    return found


def parse_metric(text: str) -> dict[int, dict[str, Any]]:
    """`used_bytes` and `errors` by device, of `amd-smi metric --json`."""
    found: dict[int, dict[str, Any]] = {}
    for entry in _entries(text):
        index = _integer(entry.get("gpu"))
        if index is None:
            continue
        count = _value(_part(entry, "ecc").get("total_uncorrectable_count"))
        found[index] = {
            "used_bytes": _bytes(_part(entry, "mem_usage").get("used_vram")),
            "errors": (f"{count:g} uncorrectable memory errors",) if count else (),
        }
    return found


def parse_processes(text: str) -> dict[int, tuple[str, ...]]:
    """Processes as `pid name` by device, of `amd-smi process --json`."""
    found: dict[int, tuple[str, ...]] = {}
    for entry in _entries(text):
        index, listed = _integer(entry.get("gpu")), entry.get("process_list")
        if index is None or not isinstance(listed, list):
            continue
        told = [_part(p, "process_info") for p in listed if _is(p)]
        found[index] = tuple(
            f"{pid} {(_word(p.get('name')) or '').rpartition('/')[2]}".strip()
            for p in told
            if (pid := _integer(p.get("pid"))) is not None
        )
    return found


def parse_older(text: str) -> tuple[tuple[ToolDevice, ...], str | None]:
    """Devices and the driver's version, of `rocm-smi --json`."""
    data = _json(text)
    if not _is(data):
        return (), None
    system = {str(k).lower(): v for k, v in _part(data, "system").items()}
    devices = []
    for key, card in data.items():
        found = re.fullmatch(r"card(\d+)", str(key))
        if not found or not _is(card):
            continue
        # Names of keys differ in case between versions.
        low = {str(k).lower(): _word(v) for k, v in card.items()}
        arch = low.get("gfx version")
        mec = low.get("mec firmware version")
        devices.append(
            ToolDevice(
                int(found[1]),
                arch if arch and re.fullmatch(r"gfx[0-9a-f]+", arch) else None,
                low.get("card series") or low.get("device name"),
                normal_pci(low.get("pci bus")),
                _device_id(low.get("device id") or low.get("gpu id")),
                _integer(low.get("vram total memory (b)")),
                _integer(low.get("vram total used memory (b)")),
                firmware={"mec": mec_number(mec)} if mec else {},
                power_cap_w=_value(low.get("max graphics package power (w)")),
                vendor="amd",
            )
        )
    return tuple(devices), _word(system.get("driver version"))


def completed(
    devices: tuple[ToolDevice, ...],
    firmware: Mapping[int, Mapping[str, str]],
    metric: Mapping[int, Mapping[str, Any]],
    processes: Mapping[int, tuple[str, ...]],
) -> tuple[ToolDevice, ...]:
    """The devices of `static` with what the other questions told of them."""
    return tuple(
        replace(
            device,
            firmware={**device.firmware, **firmware.get(device.index, {})},
            processes=processes.get(device.index, ()),
            **metric.get(device.index, {}),
        )
        for device in devices
    )


def _entries(text: str) -> list[Mapping[str, Any]]:
    data = _json(text)
    if _is(data):
        data = data.get("gpu_data", [])
    return [entry for entry in data if _is(entry)] if isinstance(data, list) else []


def _json(text: str) -> Any:
    """The value in the text; older tools print warnings before it."""
    for start in (0, *(m.start() for m in re.finditer(r"^[\[{]", text, re.MULTILINE))):
        try:
            return json.loads(text[start:])
        except (ValueError, RecursionError):
            continue
    return None


def _is(value: Any) -> bool:
    return isinstance(value, Mapping)


def _part(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = entry.get(name)
    return part if isinstance(part, Mapping) else {}


def _word(value: Any) -> str | None:
    """Text that says something: neither empty nor the tool's `N/A`."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    text = str(value).strip()
    return text if text and text != "N/A" else None


def _value(value: Any) -> float | None:
    """The number of `{"value": 750, "unit": "W"}`, `750` or `"750.0"`."""
    text = _word(value.get("value") if isinstance(value, Mapping) else value)
    found = re.match(r"-?\d{1,15}(\.\d*)?(?=\s|$)", text or "", re.ASCII)
    return float(found[0]) if found else None


def _integer(value: Any) -> int | None:
    number = _value(value)
    return None if number is None else int(number)


def _bytes(value: Any) -> int | None:
    """Bytes of `{"value": 196592, "unit": "MB"}` or `"196592 MB"`: units of 1024, as the tool counts them."""
    number = _value(value)
    unit = value.get("unit") if isinstance(value, Mapping) else " ".join(str(value).split()[1:])
    return int(number * _UNITS[str(unit)]) if number is not None and str(unit) in _UNITS else None


def _device_id(value: Any) -> str | None:
    text = _word(value)
    return text.lower() if text and re.fullmatch(r"0x[0-9a-fA-F]{4}", text) else None
