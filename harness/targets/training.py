"""What a target's training must answer: a plan goes in, a live session comes out before its first step."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

BACKBONE, HEAD = "backbone", "head"


@dataclass(frozen=True)
class Plan:
    """A training run. Travels as JSON to the ranks.

    `steps` is the number of the last optimizer step, counted from 1 and over resumes; `batch` the samples of one
    rank in one forward pass, `global_batch` those of an optimizer step over all ranks. Rates are per step,
    without unit. With `paired`, noise and masks depend on the sample alone, so that runs of different world
    sizes see the same problem; without, they come from the ranks' random states. `save_every` 0 saves nothing;
    `resume` is a checkpoint's folder. `ranks_per_node`: how many
    ranks count as one node, for sharding in a node and replicas across.
    """

    data: str
    folder: str
    steps: int = 6
    batch: int = 2
    global_batch: int = 4
    sharding: str = "shard-grad-op"
    api: str = "fsdp1"
    precision: str = "fp32"
    recompute: bool = False
    freeze_steps: int = 0
    rate: float = 1e-4
    head_rate: float = 1e-3
    weight_decay: float = 0.0
    clip: float = 1.0
    seed: int = 42
    paired: bool = True
    augment: bool = False
    save_every: int = 0
    resume: str | None = None
    ranks_per_node: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        return cls(**data)


SHARDINGS = ("shard-grad-op", "full-shard", "none")
"""ZeRO-2, ZeRO-3, and unsharded in one process."""
PRECISIONS = ("fp32", "bf16", "fp64")
"""bf16 is autocast with fp32 parameters; fp64 is for an oracle, unsharded."""


@dataclass
class Session:
    """A training run, built, wrapped and resumed.

    `samples`, `losses` and `norms` grow on each rank as the run reads samples (ids are the data set's indices),
    computes the loss of a forward pass and clips gradients (the norm before). `save(step)` is the target's own saving.
    `part_of(name)` is `backbone` or `head` for a parameter's plain name.
    """

    model: Any
    optimizer: Any
    part_of: Callable[[str], str]
    accumulation: int
    first_step: int
    save: Callable[[int], None]
    samples: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


class Trainer(Protocol):
    """A target's training, in the process of one rank."""

    def prepare(self) -> None:
        """Puts the supplies in force and joins the process group; once in a process, before anything else."""
        ...

    def train(self, plan: Plan, ready: Callable[[Session], None]) -> None:
        """Runs the plan; `ready` is called once, before the first step."""
        ...

    def restore(self, plan: Plan) -> Session:
        """The session as it stands after `plan.resume` was loaded through the target's own functions; no step
        is made. `facts["load_s"]`: wall seconds that these functions took, building the model apart."""
        ...

    def main(self, plan: Plan) -> None:
        """Runs the target's own training program for the plan, as its command line does; `plan.resume` is then
        of no account: the program itself looks for its last checkpoint."""
        ...

    def last_checkpoint(self, plan: Plan) -> str | None:
        """The folder of the checkpoint that the target would resume from; None when it would start anew."""
        ...


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def world() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def device() -> str:
    """The device of this rank, as torch names it; `HARNESS_DEVICE` holds the runner's device type."""
    kind = os.environ.get("HARNESS_DEVICE", "cpu")
    return kind if kind == "cpu" else f"{kind}:{os.environ.get('LOCAL_RANK', '0')}"


def synchronize() -> None:
    """Returns when this rank's device has done all that it was given."""
    if device() != "cpu":
        import torch

        torch.accelerator.synchronize()


class Timed:
    """Adds up the wall seconds of calls to functions, each to the end of its device work."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            synchronize()
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                synchronize()
                self.seconds += time.perf_counter() - begin

        return timed


def plain(name: str) -> str:
    """A parameter's name without the wrappers that sharding and recomputation put around its modules."""
    for wrapper in ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod."):
        name = name.replace(wrapper, "")
    return name
