"""What the ranks do, job by job: which state is saved and loaded where, which runs are resumed, what is damaged; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

WORLDS = (1, 2, 3, 4)
APIS = ("fsdp1", "fsdp2")
SAVED_AT = 2
"""The step after which the states are saved that are loaded elsewhere."""
STEPS, RESUMED_AT, FREEZE = 6, 3, 4
MOMENTS, SIGHTS, SEED = 12, 12, 20251
"""How often a save is killed at a random moment and when a file of it is seen, and where the moments are drawn from."""


@dataclass(frozen=True)
class Shape:
    """How a state is held: by how many ranks, and sharded by what."""

    world: int
    sharding: str
    api: str

    def __str__(self) -> str:
        return f"{self.world}-{self.sharding}-{self.api}"


@dataclass(frozen=True)
class Job:
    """Something that the ranks of one process group do in one go, and answer.

    `phase` 2 runs in processes started after those of phase 1 are gone. `plan` are fields of a training plan;
    `uses` are values from the answers of jobs of phase 1, by the name under which this one gets them.
    """

    name: str
    phase: int
    world: int
    do: str
    plan: Mapping[str, Any] = field(default_factory=dict)
    uses: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


def saved(world: int, api: str = "fsdp1") -> Shape:
    return Shape(world, "shard-grad-op" if world % 2 else "full-shard", api)


def loaded(world: int, api: str = "fsdp1") -> Shape:
    return Shape(world, "shard-grad-op" if world <= 2 else "full-shard", api)


SAVED = [saved(w, a) for a in APIS for w in WORLDS]
LOADED = [loaded(w, a) for a in APIS for w in WORLDS]
PAIRS = [(s, t) for s in SAVED for t in LOADED]
BY_DCP = [
    (s, t)
    for s, t in PAIRS
    if s.world != t.world and (s.api == t.api == "fsdp1" or (s.world + t.world) % 2 == (s.api != t.api))
]
"""By torch's own functions: every pair of different world sizes under FSDP1, and once more within FSDP2 or across."""

_CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "schedule": {"freeze_steps": FREEZE},
    "random": {"paired": False},
}
CASES = tuple(_CASES)
ELSEWHERE = (1, 4)
DAMAGES = {
    "weights-cut": "weights.pt",
    "weights-empty": "weights.pt",
    "weights-bit": "weights.pt",
    "weights-missing": "weights.pt",
    "weights-shape": "weights.pt",
    "weights-name": "weights.pt",
    "optimizer-cut": "optimizer.pt",
    "optimizer-bit": "optimizer.pt",
    "optimizer-missing": "optimizer.pt",
    "optimizer-name": "optimizer.pt",
}
"""What is done to a checkpoint, and the file that an error must name."""
ORDERS = ("by-number", "by-age", "half-written")


def fields(shape: Shape) -> dict[str, Any]:
    """A plan with one sample a rank in a step."""
    return {"batch": 1, "global_batch": shape.world, "sharding": shape.sharding, "api": shape.api}


def _jobs() -> Iterable[Job]:
    for s in SAVED:
        plan = {**fields(s), "steps": SAVED_AT, "save_every": SAVED_AT}
        yield Job(f"save/{s}", 1, s.world, "save", plan)
    yield Job("series", 1, 1, "series", {**fields(saved(1)), "steps": 2, "save_every": 1})
    whole = {"batch": 1, "global_batch": 4, "steps": STEPS}
    for name, plan in _CASES.items():
        yield Job(f"through/{name}", 1, 2, "through", {**whole, **plan, "save_every": RESUMED_AT})
        resume = {"resume": (f"through/{name}", "early")}
        yield Job(f"resume/{name}", 2, 2, "resume", {**whole, **plan}, resume)
    for world in ELSEWHERE:
        resume = {"resume": ("through/plain", "early")}
        yield Job(f"resume/plain-{world}", 2, world, "resume", {**whole, "batch": 4 // world}, resume)
    for s, t in PAIRS:
        yield Job(f"load/{t}/{s}", 2, t.world, "load", fields(t), {"resume": (f"save/{s}", "folder")})
    for s, t in BY_DCP:
        yield Job(f"dcp/{t}/{s}", 2, t.world, "dcp", fields(t), {"dcp": (f"save/{s}", "dcp")})
    one, series = fields(saved(1)), {"folders": ("series", "folders"), "root": ("series", "root")}
    for name in DAMAGES:
        yield Job(f"damage/{name}", 2, 1, "damage", one, series, {"damage": name})
    yield Job("order", 2, 1, "order", one, series)
    extra = {"moments": MOMENTS, "sights": SIGHTS, "seed": SEED}
    yield Job("kills", 2, 1, "kills", {**one, "save_every": 1000}, series, extra)


JOBS = {job.name: job for job in _jobs()}


def closure(names: Iterable[str]) -> list[Job]:
    """The named jobs and those whose answers they use, in an order in which they can be done."""
    needed = set(names)
    for name in list(needed):
        needed.update(job for job, _ in JOBS[name].uses.values())
    return sorted((JOBS[n] for n in needed), key=lambda j: (j.phase, j.world, j.do, j.name))
