"""Outputs of the vendors' tools and files of the kernel, of the shapes seen in public, read into devices.

Shapes after: https://github.com/ROCm/amdsmi (amdsmi_commands.py, CHANGELOG.md), https://github.com/ROCm/rocm-systems/pull/2987
(static of an MI350X), https://github.com/wandb/wandb/pull/5449 (rocm-smi of an MI250X), https://github.com/ROCm/rocm_smi_lib,
https://docs.nvidia.com/deploy/nvidia-smi/ and https://github.com/akash-network/provider-configs/pull/91 (pci.device_id).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.runners.facts import amd, kfd, nvidia

MI300X_NODE = """cpu_cores_count 0
simd_count 1216
mem_banks_count 1
io_links_count 8
wave_front_size 64
simd_per_cu 4
gfx_target_version 90402
vendor_id 4098
device_id 29857
location_id 1280
domain 0
drm_render_minor 128
fw_version 32945
num_xcc 8
"""
STATIC = {
    "gpu": 0,
    "asic": {
        "market_name": "AMD Instinct MI350X",
        "vendor_id": "0x1002",
        "device_id": "0x75A0",
        "num_compute_units": 256,
        "target_graphics_version": "gfx950",
    },
    "bus": {"bdf": "0000:05:00.0", "max_pcie_width": 16},
    "limit": {
        "ppt0": {
            "max_power_limit": {"value": 1000, "unit": "W"},
            "socket_power_limit": {"value": 750, "unit": "W"},
        },
        "ppt1": {"max_power_limit": "N/A", "socket_power_limit": "N/A"},
    },
    "driver": {"name": "amdgpu", "version": "6.18.3"},
    "vram": {"type": "HBM3E", "size": {"value": 294896, "unit": "MB"}},
    "partition": {"accelerator_partition": "SPX", "memory_partition": "NPS1"},
}
FIRMWARE = [
    {"gpu": 0, "fw_list": [{"fw_id": "CP_MEC1", "fw_version": "32809"}, {"fw_id": "RLC", "fw_version": "65"}]}
]
METRIC = [
    {
        "gpu": 0,
        "mem_usage": {
            "total_vram": {"value": 294896, "unit": "MB"},
            "used_vram": {"value": 283, "unit": "MB"},
        },
        "ecc": {"total_correctable_count": 4, "total_uncorrectable_count": 2},
    }
]
PROCESS = [
    {
        "gpu": 0,
        "process_list": [{"process_info": {"name": "/usr/bin/python3", "pid": 42}}, {"process_info": "N/A"}],
    }
]
OLDER = {
    "card0": {
        "Device Name": "AMD Instinct MI210",
        "Device ID": "0x740f",
        "PCI Bus": "0000:C9:00.0",
        "MEC firmware version": "78",
        "VRAM Total Memory (B)": "68702699520",
        "VRAM Total Used Memory (B)": "11169792",
        "Max Graphics Package Power (W)": "300.0",
        "Card Series": "AMD Instinct MI210",
        "GFX Version": "gfx90a",
    },
    "system": {"Driver version": "6.8.5", "PID42": "python3, 1, 1024, 0, 0"},
}
QUERY = (
    "0, NVIDIA H100 80GB HBM3, 00000000:04:00.0, 0x233010DE, GPU-aa, 81559, 4, 580.95.05, 9.0, 500.00, 700.00, "
    "0x0000000000000004, 0, 3, Disabled\n"
    "1, NVIDIA RTX PRO 6000, Blackwell Edition, 00000000:E4:00.0, 0x2BB510DE, GPU-bb, [N/A], [N/A], 580.95.05, 12.0, "
    "[N/A], [N/A], 0x0000000000000001, [N/A], [N/A], Enabled\n"
)


@pytest.mark.parametrize(
    ("version", "arch"),
    [
        (90402, "gfx942"),
        (90500, "gfx950"),
        (90010, "gfx90a"),
        (110000, "gfx1100"),
        (110501, "gfx1151"),
        (120500, "gfx1250"),
        (0, None),
    ],
)
def test_gfx_versions_are_read(version: int, arch: str | None) -> None:
    """The kernel's packed decimal version gives the architecture, minor and stepping in hexadecimal."""
    assert kfd.arch_of_version(version) == arch


def test_a_kfd_node_is_read() -> None:
    """Architecture, PCI address and id, units, memory of the device's own heaps, and firmware without its flag."""
    banks = ({"heap_type": "1", "size_in_bytes": "206141652992"}, {"heap_type": "0", "size_in_bytes": "5"})
    cpu = kfd.KfdNode(0, {"cpu_cores_count": "48", "gfx_target_version": "0"})
    (device,) = kfd.devices_of([kfd.KfdNode(2, kfd.parse_properties(MI300X_NODE), banks), cpu])
    assert (device.arch, device.pci, device.device_id) == ("gfx942", "0000:05:00.0", "0x74a1")
    assert (device.units, device.memory_bytes, device.firmware) == (304, 206141652992, {"mec": "177"})


def test_a_location_with_a_partition_number_gives_the_same_address() -> None:
    """Upper bits of a location number a partition and are no part of the PCI address."""
    assert kfd.pci_of(1, 3 << 28 | 0xC100) == "0001:c1:00.0"


@pytest.mark.parametrize("wrapped", [False, True])
def test_amd_smi_is_read(wrapped: bool) -> None:
    """Static facts, firmware, use, errors and processes, as a bare list and under gpu_data."""

    def text(entries: list[Any]) -> str:
        return json.dumps({"gpu_data": entries} if wrapped else entries)

    devices, driver = amd.parse_static(text([STATIC]))
    (device,) = amd.completed(
        devices,
        amd.parse_firmware(text(FIRMWARE)),
        amd.parse_metric(text(METRIC)),
        amd.parse_processes(text(PROCESS)),
    )
    assert driver == "6.18.3"
    assert (device.arch, device.name, device.pci) == ("gfx950", "AMD Instinct MI350X", "0000:05:00.0")
    assert (device.device_id, device.units, device.partition) == ("0x75a0", 256, None)
    assert (device.memory_bytes, device.used_bytes) == (294896 * 2**20, 283 * 2**20)
    assert (device.power_cap_w, device.power_cap_default_w) == (750, 1000)
    assert device.firmware == {"mec": "41", "rlc": "65"}
    assert device.errors == ("2 uncorrectable memory errors",)
    assert device.processes == ("42 python3",)


def test_an_older_amd_smi_is_read() -> None:
    """Limits without ppt0, the compute partition's older name, and warnings before the JSON."""
    older = {
        **STATIC,
        "limit": {"max_power": {"value": 750, "unit": "W"}, "socket_power": {"value": 600, "unit": "W"}},
        "partition": {"compute_partition": "CPX", "memory_partition": "NPS4"},
    }
    devices, _ = amd.parse_static("WARNING: [gpu] is not initialized\n" + json.dumps([older]))
    assert (devices[0].power_cap_w, devices[0].power_cap_default_w) == (600, 750)
    assert devices[0].partition == "CPX/NPS4"


def test_rocm_smi_is_read() -> None:
    """Cards by number; the system's entry gives the driver and is no card."""
    (device,), driver = amd.parse_older(json.dumps(OLDER))
    assert driver == "6.8.5"
    assert (device.arch, device.device_id, device.pci) == ("gfx90a", "0x740f", "0000:c9:00.0")
    assert (device.memory_bytes, device.used_bytes, device.power_cap_w) == (68702699520, 11169792, 300)
    assert device.firmware == {"mec": "78"}


def test_nvidia_smi_is_read() -> None:
    """Architecture from the capability, PCI address and id, caps and errors; what it does not know is None."""
    (first, second), driver = nvidia.parse_query(QUERY)
    assert driver == "580.95.05"
    assert (first.arch, first.pci, first.device_id) == ("sm_90", "0000:04:00.0", "0x2330")
    assert (first.memory_bytes, first.used_bytes) == (81559 * 2**20, 4 * 2**20)
    assert (first.power_cap_w, first.power_cap_default_w) == (500, 700)
    assert first.clock_limits == ("software power cap",)
    assert first.errors == ("3 uncorrected memory errors (aggregate)",)
    assert (second.name, second.arch) == ("NVIDIA RTX PRO 6000, Blackwell Edition", "sm_120")
    assert (second.memory_bytes, second.power_cap_w, second.errors) == (None, None, ())
    assert (second.partition, second.clock_limits) == ("MIG", ())


def test_processes_go_to_their_device() -> None:
    """Compute processes are found by the device's UUID, named without their folder."""
    devices, _ = nvidia.parse_query(QUERY)
    told = nvidia.parse_apps("GPU-bb, 4711, /opt/python/bin/python\nGPU-bb, 4712, train, really\nnonsense\n")
    first, second = nvidia.with_processes(devices, told)
    assert first.processes == ()
    assert second.processes == ("4711 python", "4712 train, really")


def test_a_refused_field_is_found() -> None:
    """The message of an older nvidia-smi names the field that it does not know."""
    assert nvidia.unknown_field('Field "compute_cap" is not a valid field to query.\n') == "compute_cap"


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["N/A", "12 MB"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["gpu", "gpu_data", "asic", "bus", "vram", "size", "limit", "ppt0", "fw_list", "fw_id"]
            )
            | st.sampled_from(
                ["process_list", "process_info", "pid", "name", "ecc", "value", "unit", "card0", "system"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JUNK)
def test_json_of_any_shape_is_survived(value: Any) -> None:
    """Whatever JSON a tool prints, parsing ends and gives devices or none."""
    for text in (json.dumps(value), json.dumps([{"gpu": 0, **(value if isinstance(value, dict) else {})}])):
        amd.parse_static(text)
        amd.parse_firmware(text)
        amd.parse_metric(text)
        amd.parse_processes(text)
        amd.parse_older(text)


@given(st.text() | st.lists(st.text(max_size=12), min_size=10, max_size=18).map(", ".join))
def test_text_of_any_shape_is_survived(text: str) -> None:
    """Whatever text a tool or a file holds, parsing ends and gives devices or none."""
    nvidia.parse_query(text)
    nvidia.parse_apps(text)
    amd.parse_static(text)
    kfd.devices_of([kfd.KfdNode(1, kfd.parse_properties("gfx_target_version 90402\n" + text))])
