"""Makes VITRA's steps the same problem at every world size: what is random goes by sample, from outside."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.targets import training
from harness.targets.training import Plan

DIFFUSION_STEPS = 2
HAND_DIMENSIONS = 102


@contextlib.contextmanager
def paired(seen: list[int]) -> Iterator[None]:
    """Noise, time steps and dropped conditions drawn for each sample from a generator of its own.

    VITRA draws them in one call for a batch of `repeats x samples` rows; the rows of a sample get what that
    sample gets in any batch. `seen` ends with the samples of the batch that is under way.
    """
    policy: Any = importlib.import_module("vitra.models.action_model.diffusion_policy")
    dit: Any = importlib.import_module("vitra.models.action_model.dit")
    drawn = _Drawn(seen)
    before = policy.torch, dit.torch
    policy.torch, dit.torch = drawn, drawn
    try:
        yield
    finally:
        policy.torch, dit.torch = before


class _Drawn:
    """torch as VITRA's action model sees it: three of its random functions go by sample."""

    def __init__(self, seen: list[int]) -> None:
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("torch"), name)

    def _rows(self, kind: int, rows: int, draw: Callable[[Any, int], Any]) -> Any:
        import torch

        samples = self._seen[-(rows // DIFFUSION_STEPS) :]
        one = [draw(torch.Generator().manual_seed(sample * 4 + kind), DIFFUSION_STEPS) for sample in samples]
        stacked = torch.stack(one, dim=1)  # (repeats, samples, ...)
        return stacked.reshape(rows, *stacked.shape[2:])

    def randn_like(self, like: Any) -> Any:
        import torch

        shape = like.shape[1:]
        found = self._rows(0, len(like), lambda g, n: torch.randn(n, *shape, generator=g))
        return found.to(like)

    def randint(self, low: int, high: int, size: Any, device: Any = None) -> Any:
        import torch

        return self._rows(1, size[0], lambda g, n: torch.randint(low, high, (n,), generator=g)).to(device)

    def rand(self, count: int, device: Any = None) -> Any:
        import torch

        return self._rows(2, count, lambda g, n: torch.rand(n, generator=g)).to(device)


class SameMask:
    """torch.nn.functional as VITRA's action model sees it in float64: the attention mask in the query's precision.

    torch 2.13 on a CPU takes a float32 mask beside float64 queries without complaint and computes something else.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("torch.nn.functional"), name)

    def scaled_dot_product_attention(
        self, query: Any, key: Any, value: Any, attn_mask: Any = None, **rest: Any
    ) -> Any:
        import torch

        mask = None if attn_mask is None else attn_mask.to(query.dtype)
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, **rest)


def wake_head(model: Any) -> None:
    """Gives the head's zero-initialised gates small values: with zeros no gradient reaches the backbone at step 1."""
    import torch

    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.act_model.named_parameters():
        if "adaLN" in name or "final_layer" in name:
            parameter.data.normal_(0, 0.02, generator=generator)


def collated(collator: Any, plan: Plan) -> Any:
    """The collator; paired runs have all hands in the loss, whose mean is else over what a rank happens to hold."""

    def collate(items: Any) -> Any:
        batch = collator(items)
        if plan.paired:
            batch["action_masks"][..., :HAND_DIMENSIONS] = True
        if plan.sharding == "none":  # what FSDP does for sharded runs
            batch = {k: _moved(v, double=plan.precision == "fp64") for k, v in batch.items()}
        return batch

    return collate


def _moved(value: Any, *, double: bool) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    value = value.to(training.device())
    return value.double() if double and value.is_floating_point() else value


def read(getitem: Any, seen: list[int], plan: Plan) -> Any:
    def reading(self: Any, index: Any) -> Any:
        number = int(index[1] if isinstance(index, tuple) else index)
        seen.append(number)
        if plan.paired:
            import random

            import numpy as np

            random.seed(number)
            np.random.seed(number)
        return getitem(self, index)

    return reading
