"""What is timed, how often, and how much work one sample is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

GLOBAL_BATCH = 4
WARMUP, ROUNDS = 3, 9
"""Optimizer steps of a training, before the one whose operations are counted."""


@dataclass(frozen=True)
class Job:
    """What the first `ranks` ranks do: `do` is a function of the rank's program, `plan` fields of the training's Plan."""

    do: str
    ranks: int
    plan: dict[str, Any]


def _training(ranks: int, **plan: Any) -> Job:
    fixed = {"global_batch": GLOBAL_BATCH, "batch": GLOBAL_BATCH // ranks, "paired": False}
    return Job("train", ranks, {**fixed, "steps": WARMUP + ROUNDS + 1, **plan})


TRAININGS = {
    # One thing differs between neighbours: precision, number of ranks, sharding.
    "one-bf16-shard-grad-op": _training(1, precision="bf16"),
    "one-fp32-shard-grad-op": _training(1),
    "two-fp32-shard-grad-op": _training(2),
    "two-fp32-full-shard": _training(2, sharding="full-shard"),
}
CHECKPOINT = "checkpoint"
CHECKPOINT_WARMUP, CHECKPOINT_ROUNDS = 1, 3
"""Saves, and after them loads."""
JOBS = {
    **TRAININGS,
    # Without `save_every`, targets save nothing at all.
    CHECKPOINT: Job("checkpoint", 1, {"batch": 4, "global_batch": 4, "steps": 1, "save_every": 1000}),
}

CALLERS = (1, 2, 4)
"""How many ask the model at the same time."""
CALLS = 8
"""Inferences of one turn, shared alike by the callers."""
TURNS_WARMUP, TURNS = 1, 4
"""Turns; together enough calls of a process for a 95th percentile."""

BATCH = 3
LOADING_WARMUP, LOADING_ROUNDS = 2, 8


def workers(processors: int) -> list[int]:
    """Numbers of data-loader workers to time on a machine with so many processors, most first: 0, 1, 2, then 4 and 8
    where each has a processor."""
    return [n for n in (8, 4, 2, 1, 0) if n <= max(2, processors)]


def batches_of_a_turn(count: int) -> int:
    """How many batches one sample of a loader with `count` workers takes: as many from each worker, since what comes
    from different workers comes in bursts; one number for all up to four workers."""
    return max(4, count)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
