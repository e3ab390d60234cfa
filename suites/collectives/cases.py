"""What the ranks are asked, by name, and the sizes of each; pure."""

from __future__ import annotations

OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "all_to_all_uneven")
TIMED = OPS[:5]
DTYPES = ("fp32", "bf16", "int64")
WORLDS = (2, 4)

LENGTHS = (1, 2, 7, 1023, 1024, 65_537, 262_145)
"""Elements that one rank gives or gets in one piece."""

LARGE_BYTES = 64 << 20
"""Size of the larger of an operation's two buffers, here and below."""

BANDWIDTH_BYTES = {"64 KiB": 64 << 10, "1 MiB": 1 << 20, "8 MiB": 8 << 20}
WARM_UP, TIMINGS = 3, 10

BUCKETS = (("fp32", 262_144), ("fp32", 1), ("bf16", 65_537), ("fp32", 500_009), ("fp32", 7), ("bf16", 1))
"""DDP's first bucket is 1 MiB; those after it are as large as the parameters happen to make them."""

REPETITIONS = 50

GROUPED = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
GROUPED_LENGTH = 1023
GROUPS = {
    "disjoint": ((0, 1), (2, 3)),
    "uneven": ((0, 1, 3), (2,)),
    "single": ((0,), (1,), (2,), (3,)),
    "overlapping": ((0, 1, 2), (1, 2, 3), (0, 3)),
}
"""Sub-groups of four ranks."""

ROUNDS = 3
"""Barriers, each with another rank coming last."""


def pieces(op: str, buffer_bytes: int, world: int, item_bytes: int = 4) -> int:
    """The length at which the operation's larger buffer has that many bytes."""
    whole = buffer_bytes // item_bytes
    return whole if op in ("all_reduce", "broadcast") else whole // world


def given(op: str, length: int, world: int) -> int:
    """How many elements one rank gives, at most."""
    if op == "all_to_all_uneven":
        return (length + 4) * world
    return length * world if op in ("reduce_scatter", "all_to_all") else length


def split(length: int, source: int, destination: int) -> int:
    """How many elements `source` sends to `destination` in an uneven all_to_all."""
    return length + (2 * source + destination) % 5


def most_given(names: list[str], world: int) -> int:
    """The most elements that any of those cases has a rank give."""
    most = [given(op, max(LENGTHS), world) for op in OPS] + [max(n for _, n in BUCKETS)]
    if any(n.startswith("large/") for n in names):
        most.append(LARGE_BYTES // 4)
    return max(most)
