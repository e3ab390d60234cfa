"""What the ranks of a process group do when asked: save, go on, load, resume, look at damage. All are collective."""

from __future__ import annotations

import dataclasses
import gc
import os
import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.ranks import Rank, chain
from harness.targets import states, training
from harness.targets.training import Plan, Session
from suites.checkpoint import files
from suites.fsdp.observe import Observer


class Doing:
    """The trainer of this process and a session that several jobs share."""

    def __init__(self, trainer: Any, rank: Rank) -> None:
        self.trainer, self.rank = trainer, rank
        self.world: int | None = None
        self._kept: tuple[Any, Session] | None = None

    def regroup(self, world: int | None, name: str) -> None:
        """Another process group, and no session of the one before; `name` is one that no group had."""
        self._kept = None
        gc.collect()
        regroup(self.rank, world, name)
        self.world = world

    def session(self, plan: Plan) -> Session:
        """A session of that shape without anything loaded, from its shelf if it is there."""
        shape = (plan.sharding, plan.api)
        if self._kept is None or self._kept[0] != shape:
            self._kept = (shape, self.trainer.restore(plan))
        return self._kept[1]


def regroup(rank: Rank, world: int | None, name: str) -> None:
    """Leaves the process group for one of the first `world` ranks, as if no others had been started."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
    if world is None:
        return
    os.environ["WORLD_SIZE"] = os.environ["LOCAL_WORLD_SIZE"] = str(world)
    place = rank.folder / f"group-{name.replace('/', '_')}"
    dist.init_process_group(rank.backend, init_method=f"file://{place}", rank=rank.number, world_size=world)
    if "accelerate" in sys.modules:  # it remembers the first group of a process
        from accelerate import PartialState

        PartialState._reset_state()
        PartialState(cpu=rank.device == "cpu")


def settle() -> None:
    """Waits for the threads that a save leaves behind."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def held(session: Session) -> dict[str, Any]:
    """The state that the ranks hold, gathered without any saving path; all of it on the first rank, a digest on the others."""
    weights = states.weights(session.model)
    moments = states.moments(session.model, session.optimizer, {n: w.shape for n, w in weights.items()})
    digest = states.digest([*weights.values(), *(m for by in moments.values() for m in by.values())])
    steps = {float(s["step"]) for p, s in session.optimizer.state.items() if states.local(p).numel()}
    if training.rank() != 0:
        return {"digest": digest, "steps": sorted(steps)}
    frozen = [n for n, p in states.named(session.model).items() if not p.requires_grad]
    return {"digest": digest, "steps": sorted(steps), "frozen": frozen, **files.table(weights, moments)}


class Trained:
    """A session at its end and what was seen of it; `early` are the folders that were there before the last step."""

    def __init__(self, doing: Doing, plan: Plan) -> None:
        self.plan, self.early = plan, set[Path]()
        self.watch: Any = None
        doing.trainer.train(plan, self._ready)
        settle()

    def _ready(self, session: Session) -> None:
        self.session, self.watch = session, Observer(self.plan, session)
        if training.rank() == 0 and self.plan.save_every:
            session.optimizer.register_step_pre_hook(lambda *_: self._look())

    def _look(self) -> None:
        self.early = {p for p in Path(self.plan.folder).rglob("*") if p.is_dir()}


def last(doing: Doing, plan: Plan) -> Path:
    """The checkpoint that the target would resume from; collective."""
    import torch.distributed as dist

    dist.barrier()
    return last_of(doing, plan)


def last_of(doing: Doing, plan: Plan) -> Path:
    """The checkpoint that the target would resume from, where there must be one."""
    found = doing.trainer.last_checkpoint(plan)
    if found is None:
        raise RuntimeError(f"the target finds no checkpoint in {plan.folder} after it saved one")
    return Path(found)


def before(final: Path, trained: Trained) -> Path:
    """The checkpoint saved before the final one."""
    (found,) = (p for p in final.parent.iterdir() if p in trained.early and p != final)
    return found


def save(doing: Doing, plan: Plan, job: Mapping[str, Any]) -> dict[str, Any]:
    """Trains, saves by the target's own functions and by torch's; tells the state held and the files written."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import state_dict

    del job
    session = Trained(doing, plan).session
    found: dict[str, Any] = {"held": held(session)}
    folder, place = last(doing, plan), f"{plan.folder}/dcp"
    weights, moments = state_dict.get_state_dict(session.model, session.optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=place)
    if training.rank() == 0:
        found |= {"folder": str(folder), "dcp": place, "described": files.described(folder)}
        found["content"] = files.content(folder, found["held"]["weights"])
    return found


def series(doing: Doing, plan: Plan, job: Mapping[str, Any]) -> dict[str, Any]:
    """Saves after steps 1 and 2, and the last state again as steps 9, 10 and 11; tells states for the positive control."""
    del job
    trained = Trained(doing, plan)
    session, final = trained.session, last(doing, plan)
    folders, parent = [before(final, trained), final], final.parent
    for step in (9, 10, 11):
        session.save(step)
        settle()
        new = [p for p in parent.iterdir() if p.is_dir() and p not in folders]
        if len(new) != 1:
            raise RuntimeError(f"saving step {step} added {[p.name for p in new]} to {parent}")
        folders += new
    found = {"folders": [str(p) for p in folders], "root": plan.folder, "held": held(session)}
    return {**found, "described": files.described(folders[0]), "altered": _altered(session)}


def _altered(session: Session) -> dict[str, Any]:
    """The session's state with one bit flipped, moments swapped, or a parameter missing: what a check must reject."""
    import torch

    weights = states.weights(session.model)
    moments = states.moments(session.model, session.optimizer, {n: w.shape for n, w in weights.items()})
    first = max(weights, key=lambda n: weights[n].numel())
    flipped = weights[first].clone()
    flipped.view(-1).view(torch.int32)[-1] ^= 1
    one, two = states.MOMENTS
    swapped = {n: {one: by[two], two: by[one]} if n == first else by for n, by in moments.items()}
    fewer = {n: w for n, w in weights.items() if n != first}
    return {
        "one flipped bit": files.table({**weights, first: flipped}, moments),
        "swapped moments": files.table(weights, swapped),
        "a missing parameter": files.table(fewer, moments),
    }


def through(doing: Doing, plan: Plan, job: Mapping[str, Any]) -> dict[str, Any]:
    """Trains to the end and saves on the way; `early` is the first checkpoint's folder."""
    del job
    trained = Trained(doing, plan)
    final = last(doing, plan)
    found = {"steps": trained.watch.steps, "held": held(trained.session)}
    if training.rank() == 0:
        found["early"] = str(before(final, trained))
        shutil.rmtree(final)
    return found


def resume(doing: Doing, plan: Plan, job: Mapping[str, Any]) -> dict[str, Any]:
    """Trains on from a checkpoint."""
    del job
    trained = Trained(doing, plan)
    return {"steps": trained.watch.steps, "held": held(trained.session)}


def load(doing: Doing, plan: Plan, job: Mapping[str, Any]) -> dict[str, Any]:
    """Loads by the target's own functions."""
    del job
    session = doing.trainer.restore(plan)
    return {"held": held(session), "first_step": session.first_step}


def dcp(doing: Doing, plan: Plan, job: Mapping[str, Any]) -> dict[str, Any]:
    """Loads by torch's own functions, over a state of zeros."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import state_dict

    session = doing.session(plan)
    with torch.no_grad():
        for parameter in session.model.parameters():
            states.local(parameter).zero_()
        for state in session.optimizer.state.values():
            for value in state.values():
                states.local(value).zero_()
    weights, moments = state_dict.get_state_dict(session.model, session.optimizer)
    both = {"model": weights, "optimizer": moments}
    # Flattened, a tensor of which a rank holds no part is missing there, and torch takes the files for older ones.
    dcp.load(both, checkpoint_id=job["dcp"], planner=dcp.DefaultLoadPlanner(flatten_sharded_tensors=False))
    state_dict.set_state_dict(
        session.model,
        session.optimizer,
        model_state_dict=weights,
        optim_state_dict=moments,
    )
    return {"held": held(session)}


def damage(doing: Doing, plan: Plan, job: Mapping[str, Any]) -> dict[str, Any]:
    """What comes of loading a damaged checkpoint: the errors, or what was loaded."""
    folder = files.link_into(Path(job["folders"][1]), Path(job["root"]), Path(plan.folder))
    files.damage(folder, job["damage"])
    plan = dataclasses.replace(plan, resume=str(folder))
    try:
        session = doing.trainer.restore(plan)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return {"chain": chain(error)}
    return {"loaded": held(session), "first_step": session.first_step}


def order(doing: Doing, plan: Plan, job: Mapping[str, Any]) -> dict[str, Any]:
    """Which of several checkpoints the target would resume from, and which it should."""
    folders, found = [Path(f) for f in job["folders"]], {}
    *whole, ten, eleven = folders
    for case in ("by-number", "by-age", "half-written"):
        base = Path(plan.folder, case)
        placed = [files.link_into(f, Path(job["root"]), base) for f in [*whole, ten]]
        if case == "by-age":
            stray = placed[0].parent / "notes"
            stray.mkdir()
            (stray / "notes.txt").write_text("not a checkpoint", encoding="utf-8")
            for path in (placed[-2], stray):
                os.utime(path, (2e9, 2e9))
        if case == "half-written":
            files.half_written(files.link_into(eleven, Path(job["root"]), base))
        chosen = doing.trainer.last_checkpoint(dataclasses.replace(plan, folder=str(base)))
        found[case] = {"chosen": None if chosen is None else Path(chosen).name, "expected": ten.name}
    return found
