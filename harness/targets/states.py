"""What a sharded model and its optimizer hold, read without the target's or torch's own saving paths.

Works on plain modules, FSDP1 (`use_orig_params`) and FSDP2. All functions that say so are collective: every rank
calls them, in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from harness.targets import training

MOMENTS = ("exp_avg", "exp_avg_sq")


def local(tensor: Any) -> Any:
    """The part of a parameter, gradient or moment that this rank holds."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def named(model: Any) -> dict[str, Any]:
    """Parameters by plain name, in the model's order."""
    return {training.plain(n): p for n, p in model.named_parameters()}


def digest(tensors: Iterable[Any]) -> str:
    """SHA-256 over the bytes of tensors, in order: equal digests are equal bits."""
    import torch

    found = hashlib.sha256()
    for tensor in tensors:
        flat = local(tensor.detach()).contiguous().view(-1).cpu()
        if flat.numel():
            found.update(flat.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def squares(tensors: Iterable[Any]) -> float:
    """Sum of squares in float64 over what this rank holds."""
    return sum(float(local(t.detach()).double().square().sum()) for t in tensors)


def total(value: float) -> float:
    """The sum of a number over all ranks; collective."""
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        return value
    box = torch.tensor([value], dtype=torch.float64, device=training.device())
    dist.all_reduce(box)
    return float(box)


def replicas(model: Any, full_count: int) -> float:
    """How often the ranks together hold each parameter: 1 when sharded over all; collective."""
    return total(float(sum(local(p).numel() for p in model.parameters()))) / full_count


def weights(model: Any) -> dict[str, Any]:
    """Full parameters by plain name, on the CPU, as this rank sees them; collective."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    if isinstance(model, FullyShardedDataParallel):
        with FullyShardedDataParallel.summon_full_params(model, writeback=False):
            return {n: p.detach().clone().cpu() for n, p in named(model).items()}
    return {n: _whole(p).clone().cpu() for n, p in named(model).items()}


def _whole(tensor: Any) -> Any:
    tensor = tensor.detach()
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def moments(model: Any, optimizer: Any, shapes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """AdamW's moments by plain name, full, on the CPU; empty for a parameter without; collective.

    `shapes` are the parameters' full shapes by plain name, as `weights` has them. Ranks are taken as one group
    that shards every parameter in rank order, or as replicas where each holds all of it.
    """
    import torch
    import torch.distributed as dist

    mine: dict[str, dict[str, Any]] = {}
    for name, parameter in named(model).items():
        state = optimizer.state.get(parameter, {})
        mine[name] = {m: _moment(state[m]).cpu() for m in MOMENTS if m in state}
    everyone = [mine]
    if dist.is_initialized():
        everyone = [{} for _ in range(dist.get_world_size())]
        dist.all_gather_object(everyone, mine)
    found: dict[str, dict[str, Any]] = {}
    for name, shape in shapes.items():
        found[name] = {}
        for moment in MOMENTS:
            parts = [r[name][moment] for r in everyone if moment in r[name]]
            if not parts:
                continue
            count = torch.Size(shape).numel()
            whole = parts[0] if parts[0].numel() == count else torch.cat([p.reshape(-1) for p in parts])
            found[name][moment] = whole.reshape(tuple(shape))
    return found


def _moment(tensor: Any) -> Any:
    tensor = tensor.detach()
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor.clone()
