"""How large what the preflight tries is, and which of the doctor's checks concern which runner; pure."""

from __future__ import annotations

ONES = 256
"""Edge of the matrices of ones: each element of their product is this number, which bfloat16 holds exactly."""

NORM = float(ONES) ** 2
"""Norm of that product. Elements, squares and partial sums are exact in float64, whatever the order."""

SHAPE = (193, 257, 129)
"""Rows, terms of a sum, columns of the products of normal numbers: no multiples of a tile."""

REPETITIONS = 10
CPU_RANKS = 2
DISK_BYTES = 8 << 20
DECODED = "vp9-plain"
FRAMES = (0, 1, 31, 63, 30)


def memory_bytes(device: str, emulated: bool) -> int:
    """How much of a device's memory is filled, on each rank."""
    return 8 << 20 if emulated else 64 << 20 if device == "cpu" else 256 << 20


def shared_bytes(device: str) -> int:
    """Size of a rank's segment of shared memory: the collectives' largest buffer where they go through it."""
    return 16 << 20 if device == "cpu" else 64 << 20


ANY = (
    "runner",
    "torch",
    "capabilities",
    "not-read",
    "product",
    "shm-size",
    "shm-stale",
    "memory",
    "disk",
    "ffmpeg",
    "decord",
    "target",
    "transformers",
    "utils3d",
    "torchvision",
    "wandb",
)
MEASURED = ("contradictions", "emulation")
ACCELERATOR = ("devices", "masks", "wheel-architectures")
SILICON = ("memory-in-use", "hardware-errors", "caps")
SPECIFIC = {
    "cuda": ("torch-build", "driver", "device-nodes"),  # vendor-ok: the name of a runner
    "rocm": (  # vendor-ok: the name of a runner
        "torch-build",
        "kfd",
        "render-nodes",
        "scratch-reclaim",
        "numa-balancing",
        "iommu",
        "gfx-override",
    ),
    "mirage": (
        "torch-build",
        "gfx-override",
        "emulator",
        "emulator-profile",
        "emulator-library",
    ),
}


def doctor_checks(runner: str) -> tuple[str, ...]:
    """The doctor's checks that concern a runner; what another package's runner adds is found by `test_doctor_others`."""
    if runner == "cpu":
        return (*ANY, *MEASURED)
    if runner == "mirage":
        return (*ANY, *ACCELERATOR, *SPECIFIC[runner])
    return (*ANY, *MEASURED, *ACCELERATOR, *SILICON, *SPECIFIC.get(runner, ()))
