"""Which frames each reader asks for; pure and repeatable."""

from __future__ import annotations

import random
import zlib

WAYS = ("threads", "fork", "spawn", "dataloader")
READERS = (1, 2, 8, 32)
ACCESSES = ("in-order", "random", "backwards", "repeated")

Plan = list[list[list[int]]]
"""By reader: its calls; by call: the frame numbers asked for."""


def make(clip: str, frames: int, readers: int, access: str) -> Plan:
    """The plan for `readers` readers of a clip of `frames` frames; together they reach its last half."""
    rng = random.Random(zlib.crc32(f"{clip}/{readers}/{access}".encode()))
    late = range(frames // 2, frames)
    if access == "in-order":
        width = min(frames, max(16, -(-frames // readers)))
        starts = [min(r * width, frames - width) for r in range(readers)]
        return [[list(range(s, s + width))] for s in starts]
    if access == "random":
        calls = max(1, 8 // readers)
        return [
            [[rng.choice(late if c == 0 else range(frames))] for c in range(calls)] for _ in range(readers)
        ]
    if access == "backwards":
        step = max(1, frames // 12)
        return [[list(range(frames - 1, -1, -step))] for _ in range(readers)]
    assert access == "repeated", access
    plan: Plan = []
    for _ in range(readers):
        a, b = rng.choice(late), rng.randrange(frames)
        plan.append([[a, a, b, a]])
    return plan
