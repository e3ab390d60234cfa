"""What an architecture can do, by its name (`gfx942`, `sm_90`), and for what a wheel holds kernels; pure.

An AMD device reports a compute capability too, (9, 4) or (9, 5): it is never read as an architecture.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

FNUZ, FN = "e4m3fnuz", "e4m3fn"
"""8-bit floats: the same bits are worth half in the first."""

BF16 = ("gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")
FP8 = (("gfx94", (0, 0), FNUZ), ("gfx120", (6, 3), FN), ("gfx95", (6, 5), FN))
"""torch's own rule (torch.testing._internal.common_cuda): beginning of the architecture, ROCm from, format."""

RECLAIM = ("gfx942", "gfx950")
"""Where RCCL refuses to run without HSA_NO_SCRATCH_RECLAIM=1 on older firmware."""

CENTRE = ("gfx90a", "gfx942", "gfx950")
"""What torch's flash attention on ROCm is made for."""

_GENERIC = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx940", "gfx941", "gfx942", "gfx950"),
    "gfx10-3-generic": ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "gfx11-generic": (*(f"gfx110{n}" for n in range(4)), *(f"gfx115{n}" for n in range(4))),
    "gfx12-generic": ("gfx1200", "gfx1201"),
}
"""Code that several architectures share: https://llvm.org/docs/AMDGPUUsage.html"""


def gfx_of(label: str | None) -> str | None:
    """`gfx942` of `gfx942:sramecc+:xnack-`; None for anything else."""
    found = re.match(r"gfx[0-9a-f]{3,4}(?=:|$)", label or "", re.ASCII)
    return found[0] if found else None


def sm_of(capability: Sequence[int] | None) -> str | None:
    """`sm_90` of (9, 0); None without one."""
    if capability is None or len(capability) != 2:
        return None
    major, minor = capability
    return f"sm_{major}{minor}" if 0 < major < 100 and 0 <= minor < 10 else None


def number_of(arch: str) -> int | None:
    """90 of `sm_90`; None for another vendor's."""
    found = re.fullmatch(r"sm_(\d+)", arch, re.ASCII)
    return int(found[1]) if found else None


def has_bf16(arch: str) -> bool:
    """Whether bfloat16 products are done in hardware."""
    number = number_of(arch)
    return arch.startswith(BF16) if number is None else number >= 80


def fp8_format(arch: str) -> str | None:
    """The 8-bit format of an architecture; None when it has none."""
    number = number_of(arch)
    if number is not None:
        return FN if number == 89 or number >= 90 else None
    return next((form for begin, _, form in FP8 if arch.startswith(begin)), None)


def fp8_needs(arch: str) -> tuple[int, int] | None:
    """The ROCm version from which torch uses it; None where there is no such gate."""
    return next((version for begin, version, _ in FP8 if arch.startswith(begin) and version > (0, 0)), None)


def has_flash(arch: str) -> bool:
    """Whether torch's builds hold a flash attention kernel for it, so that its lack is a fault."""
    number = number_of(arch)
    return arch in CENTRE if number is None else number >= 80


def version_of(text: str | None) -> tuple[int, int] | None:
    """(7, 2) of `7.2.53150-abc`; None for text that is no version."""
    found = re.match(r"(\d{1,6})\.(\d{1,6})", text or "", re.ASCII)
    return (int(found[1]), int(found[2])) if found else None


def wheel_covers(arch: str, wheel: Sequence[str]) -> bool | None:
    """Whether a wheel with kernels for `wheel` runs on `arch`; None when the wheel does not tell."""
    if not wheel:
        return None
    number = number_of(arch)
    if number is None:
        names = {w.partition(":")[0] for w in wheel}
        return arch in names or any(arch in _GENERIC.get(name, ()) for name in names)
    for entry in wheel:
        found = re.fullmatch(r"(sm|compute)_(\d+)([af]?)", entry, re.ASCII)
        if not found:
            continue
        kind, held, suffix = found[1], int(found[2]), found[3]
        same_family = held // 10 == number // 10 and held <= number
        # Code for sm_90a runs on no other; for sm_100f within the family; PTX on all that came later.
        if held == number or (same_family and suffix != "a" and kind == "sm"):
            return True
        if kind == "compute" and held <= number and suffix == "":
            return True
    return False
