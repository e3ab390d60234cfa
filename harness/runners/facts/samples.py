"""Small machines for the contract kit, of no vendor and of each: a runner must answer all of them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.runners.facts.snapshot import Node, Snapshot, ToolDevice, TorchDevice, TorchFacts

_GIB = 2**30


def samples() -> Mapping[str, Snapshot]:
    """Snapshots by what they are."""
    nothing = Snapshot(system="linux", machine="x86_64")
    amd = TorchDevice(0, "AMD Radeon Graphics", "gfx942:sramecc+:xnack-", (9, 4), 192 * _GIB, 190 * _GIB, 304)
    nvidia = TorchDevice(0, "NVIDIA H100 80GB HBM3", None, (9, 0), 80 * _GIB, 79 * _GIB, 132)
    return {
        "bare": nothing,
        "another system": Snapshot(system="win32", machine="AMD64"),
        "no torch": Snapshot("linux", "x86_64", torch=TorchFacts(error="No module named 'torch'")),
        "a CPU build": Snapshot("linux", "x86_64", torch=TorchFacts("2.13.0+cpu", product_norm=65536.0)),
        "AMD": Snapshot(
            "linux",
            "x86_64",
            torch=TorchFacts(
                "2.13.0+rocm7.2",
                {"hip": "7.2.1"},
                "cuda",
                (amd,),
                ("gfx942",),
                product_norm=65536.0,
                flash_sdpa=True,
            ),
            nodes=(Node("/dev/kfd", True, True, True, 109),),
        ),
        "NVIDIA": Snapshot(
            "linux",
            "x86_64",
            torch=TorchFacts(
                "2.13.0+cu130",
                {"cuda": "13.0"},
                "cuda",
                (nvidia,),
                ("sm_90",),
                product_norm=65536.0,
                flash_sdpa=True,
            ),
            nodes=(Node("/dev/nvidiactl", True, True, True, 0),),
        ),
        "both vendors' versions": Snapshot(
            "linux", "x86_64", torch=TorchFacts("2.13.0", {"hip": "7.2", "cuda": "13.0", "rocm": "10.0"})
        ),
        "devices without a word": Snapshot(
            "linux",
            "riscv64",
            torch=TorchFacts(
                "x", {}, None, (TorchDevice(7, ""), TorchDevice(7, "")), ("",), float("nan"), None, "\n\n"
            ),
            devices=(ToolDevice(-1), ToolDevice(-1, "gfx942 or so", "", "somewhere", "0x")),
        ),
    }
