"""What VITRA's training and inference lack on this machine, supplied from outside at run time.

Numbered as in the project's notes on VITRA; those for a machine without accelerator stay away where there is one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any


@functools.cache
def supply() -> None:
    """Puts in force what training needs on this machine; their names stand in `vitra.supplies`."""
    import torch

    os.environ.setdefault("WANDB_API_KEY", "offline")  # S7: the script refuses to start without one
    if importlib.util.find_spec("wandb") is None:
        sys.modules["wandb"] = importlib.import_module("harness.targets.standins.wandb")
    if not torch.accelerator.is_available():
        _supply_cpu(torch)
    metrics: Any = importlib.import_module("vitra.training.metrics")
    metrics.WeightsBiasesTracker.finalize = staticmethod(lambda: None)  # S7: it sleeps for 210 s
    if not torch.accelerator.is_available():
        import torch.distributed.fsdp as sharding

        fsdp: Any = importlib.import_module("vitra.training.fsdp")
        for name in ("FullStateDictConfig", "FullOptimStateDictConfig"):
            setattr(fsdp, name, _on_device(getattr(sharding, name)))


def _on_device(config: Any) -> Any:
    @functools.wraps(config, updated=())
    def made(*_args: Any, **kwargs: Any) -> Any:
        return config(**{**kwargs, "offload_to_cpu": False})

    return made


def _supply_cpu(torch: Any) -> None:
    """S2 to S6: for a machine without accelerator."""
    torch.cuda.current_device = lambda: torch.device("cpu")  # vendor-ok: VITRA's own call, S2
    torch.cuda.set_device = lambda *_: None  # vendor-ok: VITRA's own call, S2
    set_node(None)
    if "WORLD_SIZE" in os.environ:
        accelerate: Any = importlib.import_module("accelerate")
        accelerate.PartialState(cpu=True)
    real: Any = torch.autocast

    class Autocast(real):  # type: ignore[misc]
        def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
            kind = "cpu" if device_type == "cuda" else device_type  # vendor-ok: VITRA's own word, S6
            super().__init__(kind, *args, **kwargs)

    torch.autocast = Autocast


def set_node(ranks: int | None) -> None:
    """S3: how many ranks FSDP takes for one node; all of them by default."""
    import torch

    if not torch.accelerator.is_available():
        count = ranks or int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        torch.cpu.device_count = lambda: count


@contextlib.contextmanager
def stay_on_cpu() -> Iterator[None]:
    """S8: while it holds, a tensor that VITRA sends to its accelerator stays on a machine without one.

    In force for inferences alone, of which several threads may be in one: it costs every `Tensor.to` a call more.
    """
    import torch

    if torch.accelerator.is_available():
        yield
        return
    with _LOCK:
        _INSIDE.append(torch.Tensor.to)
        if len(_INSIDE) == 1:
            torch.Tensor.to = _kept_here(torch.Tensor.to)
    try:
        yield
    finally:
        with _LOCK:
            # The last one out puts back what the first one found.
            before = _INSIDE[0]
            _INSIDE.pop()
            if not _INSIDE:
                torch.Tensor.to = before


_LOCK = threading.Lock()
_INSIDE: list[Any] = []


def _kept_here(before: Any) -> Any:
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple(map(_here, args)), {k: _here(v) for k, v in kwargs.items()}
        return before(self, *args, **kwargs)

    return to


def _here(value: Any) -> Any:
    return "cpu" if isinstance(value, str) and value == "cuda" else value  # vendor-ok: VITRA's own word, S8
