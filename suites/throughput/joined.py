"""What the ranks of a training measured, joined to what a test keeps; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from suites.faults import Fault


def largest(ranks: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    """One value a step: the largest over all ranks; empty when a rank has none."""
    return [float(max(column)) for column in zip(*(r[key] for r in ranks), strict=True)]


def work(ranks: Sequence[Mapping[str, Any]], samples: int) -> dict[str, float]:
    """What one step did over all ranks, each on a device of its own; without `flop` when a rank could not count."""
    counts = [r["flop"] for r in ranks]
    found = {"samples": float(samples), "devices": float(len(ranks))}
    return found if None in counts else {**found, "flop": float(sum(counts))}


def steps_fault(ranks: Sequence[Mapping[str, Any]], steps: int, samples: int) -> Fault | None:
    """Steps that did not do the work that is told of them: too few, or on another number of samples."""
    for number, rank in enumerate(ranks):
        if len(rank["seconds"]) != steps:
            return Fault("wrong_batch", f"rank {number} made {len(rank['seconds'])} steps of {steps}", "")
    by_step = [sum(column) for column in zip(*(r["read"] for r in ranks), strict=True)]
    for step, count in enumerate(by_step, 1):
        if count != samples:
            return Fault(
                "wrong_batch", f"step {step} read {count} samples, {samples} asked for", str(by_step)
            )
    return None


def actions_fault(actions: Any, shape: tuple[int, int, int]) -> Fault | None:
    """A chunk of actions that is none: of another shape, or not finite."""
    if tuple(actions.shape) != shape:
        return Fault("wrong_batch", f"actions of shape {tuple(actions.shape)}, {shape} asked for", "")
    if not bool((abs(actions) < float("inf")).all()):
        return Fault("not_finite", "an action is not finite", str(actions))
    return None
