"""Runs the target's own training program on a rank and tells what was seen from outside; or, asked as a child, reads
the checkpoints it left.

What is seen from outside needs nothing of the target: the numbers that `backward` is called on, and the optimizer's
own count of steps.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import child, ranks
from harness.targets.training import Plan, world

FILES = ("weights.pt", "optimizer.pt")


class Witness:
    """Sees each backward pass and each step of the first optimizer that steps in this process."""

    def __init__(self, accumulation: int) -> None:
        self.accumulation = accumulation
        self.steps: list[dict[str, Any]] = []
        self.count_before: float | None = None
        self._losses: list[float] = []
        self._optimizer: Any = None

    def watch(self) -> None:
        import torch
        from torch.optim import optimizer

        backward = torch.Tensor.backward

        def watched(tensor: Any, *args: Any, **kwargs: Any) -> None:
            self._losses.append(float(tensor.detach()) * self.accumulation)
            backward(tensor, *args, **kwargs)

        torch.Tensor.backward = watched  # type: ignore[method-assign]
        optimizer.register_optimizer_step_pre_hook(self._before)
        optimizer.register_optimizer_step_post_hook(self._after)

    def _before(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        # A step without a backward pass before it is no training: torch makes one to fill an optimizer's state.
        if self._losses and self._optimizer is None:
            self._optimizer = optimizer
            counts = (float(s["step"]) for s in optimizer.state.values() if "step" in s)
            self.count_before = max(counts, default=0.0)

    def _after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._losses and optimizer is self._optimizer:
            self.steps.append({"losses": self._losses, "at_s": time.monotonic()})
            self._losses = []


def train(rank: ranks.Rank) -> dict[str, Any]:
    """The program's run on this rank: where it would start from, and each step with its losses and time."""
    import torch.distributed as dist

    plan = Plan.from_json(rank.request["plan"])
    target = rank.target()
    trainer: Any = target.trainer  # type: ignore[attr-defined]
    trainer.prepare()
    if rank.number == 0 and rank.request["statistics"]:
        target.write_statistics(plan.data)
    dist.barrier()
    witness = Witness(plan.global_batch // (plan.batch * world()))
    start = trainer.last_checkpoint(plan)
    witness.watch()
    trainer.main(plan)
    return {"start": start, "count_before": witness.count_before, "steps": witness.steps}


def inspect(folder: str) -> dict[str, Any]:
    """Every checkpoint below a folder: its step by its name, and what each of its two files holds."""
    kept = []
    for holder in sorted(Path(folder).rglob("checkpoints")):
        for path in sorted(p for p in holder.iterdir() if p.is_dir() and not p.name.startswith(".")):
            number = re.search(r"step[=-](\d+)", path.name)
            files = {name: _file(path / name) for name in FILES}
            kept.append({"name": path.name, "step": int(number[1]) if number else None, "files": files})
    return {"checkpoints": kept}


def _file(path: Path) -> dict[str, Any]:
    import torch

    if not path.is_file():
        return {"error": "is missing"}
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - whatever a torn file makes torch raise
        return {"error": f"cannot be read: {type(error).__name__}: {str(error)[:300]}"}
    leaves = list(_leaves("", held))
    digest = hashlib.sha256()
    finite = True
    for _, tensor in leaves:
        flat = tensor.detach().contiguous().view(-1)
        finite = finite and bool(torch.isfinite(flat).all())
        if flat.numel():
            digest.update(flat.view(torch.uint8).numpy().tobytes())
    counts = [float(t) for name, t in leaves if name == "step" and t.numel() == 1]
    return {
        "tensors": len(leaves),
        "numbers": sum(t.numel() for name, t in leaves if name != "step"),
        "finite": finite,
        "digest": digest.hexdigest(),
        "count": max(counts, default=None),
    }


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(str(key), inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(name, inner)


def devices() -> dict[str, Any]:
    """How many ranks fit on this machine: one a device; without devices one a processor, and two always."""
    import torch

    if torch.accelerator.is_available():
        return {"devices": torch.accelerator.device_count()}
    return {"devices": max(2, os.cpu_count() or 1)}


if __name__ == "__main__":
    if "RANK" in os.environ:
        ranks.serve(train)
    else:
        child.serve({"inspect": inspect, "devices": devices})
