"""The training runs that the suite judges: on how many ranks, by which plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

EVERY = ("vitra", "reference")


@dataclass(frozen=True)
class Scenario:
    """A plan's fields beside data and folder, and its number of ranks. `targets` that can be asked for it."""

    ranks: int
    plan: dict[str, Any]
    targets: tuple[str, ...] = EVERY


def _s(ranks: int, targets: tuple[str, ...] = EVERY, **plan: Any) -> Scenario:
    return Scenario(ranks, plan, targets)


STEPS = 5
FREEZE = 2
CLIP = 0.5
RATES = {"backbone": 1e-4, "head": 1e-3}
DECAY = 0.1

SCENARIOS = {
    # One rank: what several ranks are held against, and its own noise.
    "one": _s(1, steps=STEPS, batch=4),
    "one-passes": _s(1, steps=STEPS, batch=2),
    "one-singles": _s(1, steps=STEPS, batch=1),
    "one-unsharded": _s(1, steps=STEPS, batch=4, sharding="none"),
    "one-bf16": _s(1, steps=STEPS, batch=4, precision="bf16"),
    "oracle": _s(1, steps=STEPS, batch=4, precision="fp64", sharding="none"),
    "unsharded-decay": _s(1, steps=1, batch=4, sharding="none", weight_decay=DECAY),
    # Two ranks.
    "two": _s(2, steps=STEPS),
    "two-again": _s(2, steps=STEPS),
    "two-full": _s(2, steps=STEPS, sharding="full-shard"),
    "two-passes": _s(2, steps=STEPS, batch=1),
    "two-recompute": _s(2, steps=STEPS, recompute=True),
    "two-full-recompute-passes": _s(2, steps=3, sharding="full-shard", batch=1, recompute=True),
    "two-bf16": _s(2, steps=STEPS, precision="bf16"),
    "two-bf16-again": _s(2, steps=STEPS, precision="bf16"),
    "two-random": _s(2, steps=3, paired=False),
    "two-random-again": _s(2, steps=3, paired=False),
    "two-augmented": _s(2, ("vitra",), steps=2, paired=False, augment=True),
    "two-augmented-again": _s(2, ("vitra",), steps=2, paired=False, augment=True),
    "two-freeze": _s(2, steps=FREEZE + 2, freeze_steps=FREEZE),
    "two-decay": _s(2, steps=2, weight_decay=DECAY),
    "two-clip": _s(2, steps=3, clip=CLIP),
    "two-fsdp2": _s(2, ("reference",), steps=STEPS, api="fsdp2"),
    "two-fsdp2-full-passes": _s(2, ("reference",), steps=STEPS, api="fsdp2", sharding="full-shard", batch=1),
    "two-replicas": _s(2, ("reference",), steps=STEPS, ranks_per_node=1),
    # Four ranks; as two nodes, of which each holds a replica.
    "four": _s(4, steps=STEPS, batch=1),
    "four-nodes": _s(4, steps=STEPS, batch=1, ranks_per_node=2),
    # A batch that three ranks do not divide.
    "three": _s(3, steps=1, batch=2, global_batch=8),
    # Configurations that the target offers beside the one it ships.
    "mixed-precision": _s(1, ("vitra",), steps=1, options={"trainer.enable_mixed_precision_training": True}),
    "constant-rate": _s(1, ("vitra",), steps=2, options={"trainer.lr_scheduler_type": "constant"}),
    "jsonl-metrics": _s(1, ("vitra",), steps=2, options={"trackers": ["jsonl"]}),
}
