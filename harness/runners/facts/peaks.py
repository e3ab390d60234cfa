"""Peak figures of models that are known for certain; pure. An unknown device has none: another's may be wrong by 7x.

A model is known by architecture, PCI device id, number of units and memory together, never by its name. Ids:
https://github.com/pciutils/pciids and https://github.com/vllm-project/vllm vllm/platforms/rocm.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.runners.base import Peak


@dataclass(frozen=True)
class Model:
    """One model. `memory_gib` as sold; what a driver shows is a little less."""

    name: str
    arch: str
    ids: tuple[str, ...]
    units: int
    memory_gib: tuple[float, float]
    peak: Peak | None


def _peak(bf16: float, fp8: float | None, bandwidth_tb_s: float, source: str) -> Peak:
    return Peak({"bf16": bf16, **({} if fp8 is None else {"fp8": fp8})}, bandwidth_tb_s, source)


_MI300 = "AMD CDNA 3 data sheets: https://www.amd.com/en/products/accelerators/instinct/mi300.html"
_MI350 = "AMD CDNA 4 data sheets: https://www.amd.com/en/products/accelerators/instinct/mi350.html"
_NVIDIA = "NVIDIA data sheet, dense figures: https://www.nvidia.com/en-us/data-center/"

MODELS = (
    Model("MI300X", "gfx942", ("0x74a1", "0x74b5"), 304, (190, 193), _peak(1307, 2615, 5.3, _MI300)),
    Model("MI325X", "gfx942", ("0x74a5", "0x74b9"), 304, (253, 257), _peak(1307, 2615, 6.0, _MI300)),
    Model("MI308X", "gfx942", ("0x74a2",), 80, (190, 193), None),
    Model("MI300A", "gfx942", ("0x74a0",), 228, (0, 129), None),
    Model("MI350X", "gfx950", ("0x75a0",), 256, (285, 289), _peak(2307, 4614, 8.0, _MI350)),
    Model("MI355X", "gfx950", ("0x75a3",), 256, (285, 289), _peak(2517, 5033, 8.0, _MI350)),
    Model("MI210", "gfx90a", ("0x740f",), 104, (63, 65), None),
    Model("A100 SXM 80GB", "sm_80", ("0x20b2",), 108, (78, 81), _peak(312, None, 2.04, _NVIDIA)),
    Model("H100 SXM 80GB", "sm_90", ("0x2330",), 132, (78, 81), _peak(989, 1979, 3.35, _NVIDIA)),
    Model("H200 SXM", "sm_90", ("0x2335",), 132, (138, 142), _peak(989, 1979, 4.8, _NVIDIA)),
    Model("H100 PCIe", "sm_90", ("0x2331",), 114, (78, 81), None),
    Model("GH200", "sm_90", ("0x2342", "0x2348"), 132, (94, 145), None),
    Model("B200", "sm_100", ("0x2901",), 148, (175, 193), _peak(2250, 4500, 8.0, _NVIDIA)),
)
"""Those without a figure are listed so that they are told apart by a test, and not by accident."""


def model_of(
    arch: str, device_id: str | None, units: int | None, memory_bytes: int | None, partition: str | None
) -> Model | None:
    """The model that fits in everything; None when anything is unknown, differs, or is a part of a device."""
    if device_id is None or units is None or memory_bytes is None or partition is not None:
        return None
    for model in MODELS:
        low, high = model.memory_gib
        if (
            model.arch == arch
            and device_id.lower() in model.ids
            and model.units == units
            and low <= memory_bytes / 2**30 <= high
        ):
            return model
    return None
