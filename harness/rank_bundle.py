"""The program of a rank that packs a checkpoint bundle or trains on from one; `harness.bundle` launches it."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

from harness.ranks import Rank, serve
from harness.targets import states
from harness.targets.training import Plan, Session

WEIGHTS, MOMENTS = "weights.pt", "moments.pt"


def main(rank: Rank) -> dict[str, Any]:
    target = rank.target()
    target.trainer.prepare()  # type: ignore[attr-defined]
    rank.join()
    return (pack if rank.request["do"] == "pack" else resume)(rank, target)


def pack(rank: Rank, target: Any) -> dict[str, Any]:
    """Trains and saves, trains the same without a stop, and goes on from what was saved."""
    import torch
    import torch.distributed as dist

    request = rank.request
    folder, last = Path(request["folder"]), request["plan"]["steps"]
    plan = {**request["plan"], "folder": str(folder / "saved")}
    if rank.number == 0:
        target.write_statistics(plan["data"])
    dist.barrier()

    until = Plan.from_json({**plan, "steps": request["steps"], "save_every": request["steps"]})
    first = Trace(rank)
    target.trainer.train(until, first.start)
    state = first.state()
    checkpoint = target.trainer.last_checkpoint(until)
    if rank.number == 0:
        torch.save(state["weights"], folder / WEIGHTS)
        torch.save(state["moments"], folder / MOMENTS)
    dist.barrier()

    whole = Trace(rank)
    target.trainer.train(Plan.from_json({**plan, "folder": str(folder / "whole")}), whole.start)
    again = Trace(rank, state)
    target.trainer.train(
        Plan.from_json({**plan, "folder": str(folder / "again"), "resume": checkpoint}), again.start
    )
    moments = [m for by in state["moments"].values() for m in by.values()]
    return {
        **about(),
        "checkpoint": checkpoint,
        "first": first.steps,
        "trace": whole.steps,
        "resumed": again.steps,
        "loaded": again.loaded,
        "inputs": inputs(target, plan["data"], whole.after(request["steps"])),
        "dtypes": {
            "weights": dict(Counter(kind(w) for w in state["weights"].values())),
            "moments": dict(Counter(kind(m) for m in moments)),
        },
        "last": last,
    }


def resume(rank: Rank, target: Any) -> dict[str, Any]:
    """Loads a bundle's checkpoint through the target's own functions, compares what is there, and trains on."""
    import torch

    plan = Plan.from_json(rank.request["plan"])
    folder = Path(rank.request["state"])
    held = {
        "weights": torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True),
        "moments": torch.load(folder / MOMENTS, map_location="cpu", weights_only=True),
    }
    trace = Trace(rank, held)
    try:
        target.trainer.train(plan, trace.start)
    except Exception as error:
        if trace.loaded is None:  # the launch ends the others, which may wait for this rank
            rank.write({"not_loaded": f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"})
        raise
    return {
        **about(),
        "trace": trace.steps,
        "loaded": trace.loaded,
        "inputs": inputs(target, plan.data, trace.after(0)),
    }


def about() -> dict[str, Any]:
    """What of this process may decide bits: torch, its vendor libraries by name, threads, fp32 products."""
    import torch

    names = ("cuda", "hip", "rocm")  # vendor-ok: attributes of torch.version
    return {
        "torch": str(torch.__version__),
        "vendor": {name: getattr(torch.version, name, None) for name in names},
        "threads": torch.get_num_threads(),
        "products": torch.get_float32_matmul_precision(),
    }


def kind(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


class Trace:
    """What each step of a session did; `expected` is a state that the session must hold before its first step."""

    def __init__(self, rank: Rank, expected: dict[str, Any] | None = None) -> None:
        self.rank, self.expected = rank, expected
        self.steps: list[dict[str, Any]] = []
        self.loaded: list[str] | None = None

    def start(self, session: Session) -> None:
        """Called before the first step; collective."""
        self.session = session
        if self.expected is not None:
            self.loaded = differences(self.expected, self.state())
        session.optimizer.register_step_post_hook(lambda *_: self._after())

    def _after(self) -> None:
        session = self.session
        self.steps.append(
            {
                "step": session.first_step + len(self.steps),
                "loss": math.fsum(session.losses) / max(1, len(session.losses)),
                "norm": session.norms[-1] if session.norms else None,
                "samples": list(session.samples),
                "weights": states.digest(states.weights(session.model).values()),
            }
        )
        for grown in (session.losses, session.norms, session.samples):
            grown.clear()
        print(f"HARNESS-STEP {self.steps[-1]['step']}", flush=True)

    def state(self) -> dict[str, Any]:
        """Full weights by plain name, moments and count of updates by plain name; collective."""
        session = self.session
        weights = states.weights(session.model)
        moments = states.moments(session.model, session.optimizer, {n: w.shape for n, w in weights.items()})
        for name, count in updates(session).items():
            moments[name]["step"] = count
        return {"weights": weights, "moments": moments}

    def after(self, step: int) -> list[int]:
        """This rank's samples in the steps after that one."""
        return sorted({s for told in self.steps if told["step"] > step for s in told["samples"]})


def updates(session: Session) -> dict[str, Any]:
    """How many updates the optimizer has counted, by parameter; from whichever rank holds it; collective."""
    import torch
    import torch.distributed as dist

    mine = {
        name: float(session.optimizer.state[parameter]["step"])
        for name, parameter in states.named(session.model).items()
        if "step" in session.optimizer.state.get(parameter, {})
    }
    everyone: list[dict[str, float]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(everyone, mine)
    return {name: torch.tensor(count) for told in everyone for name, count in told.items()}


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """What is not bit for bit as expected, each in words; empty when all is."""
    told = []
    pairs = [("weight", {"": expected["weights"]}, {"": found["weights"]})]
    keys = sorted({m for by in expected["moments"].values() for m in by})
    for key in keys:
        of = [{"": {n: by[key] for n, by in s["moments"].items() if key in by}} for s in (expected, found)]
        pairs.append((key, of[0], of[1]))
    for what, first, second in pairs:
        for name in sorted(first[""].keys() | second[""].keys()):
            a, b = first[""].get(name), second[""].get(name)
            if a is None or b is None:
                told.append(f"{what} {name}: only {'loaded' if a is None else 'in the bundle'}")
            elif a.shape != b.shape or a.dtype != b.dtype:
                told.append(
                    f"{what} {name}: {kind(b)} {list(b.shape)} loaded, {kind(a)} {list(a.shape)} in the bundle"
                )
            elif states.digest([a]) != states.digest([b]):
                most = float((a.double() - b.double()).abs().max())
                told.append(f"{what} {name}: differs by up to {most:.1e}")
    return told


def inputs(target: Any, root: str, samples: list[int]) -> dict[str, Any]:
    """By sample: the decoded picture's SHA-256, and a weighted sum of the item's numbers, which rounding moves little."""
    import numpy as np
    import torch

    data = target.open_dataset(root)
    found = {}
    for sample in samples:
        random.seed(sample)
        np.random.seed(sample)
        item = data[sample]
        picture = np.ascontiguousarray(target.image_of(item))
        size = 0.0
        for name in sorted(item):
            value = item[name]
            if isinstance(value, torch.Tensor | np.ndarray) and value.dtype not in (torch.uint8, np.uint8):
                flat = np.asarray(value, dtype=np.float64).reshape(-1)
                size += float(np.abs(flat * (1 + np.arange(len(flat)) % 7)).sum())
        found[str(sample)] = {
            "picture": hashlib.sha256(picture.tobytes()).hexdigest()[:16],
            "numbers": size,
        }
    return found


if __name__ == "__main__":
    serve(main)
