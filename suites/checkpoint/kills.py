"""Saves that are killed, each in a process of its own.

Half at a moment drawn from the time that a save takes, and half as soon as one more of its files is seen: where the
files are written within a thousandth of a save's time, moments alone seldom hit between two of them.
"""

from __future__ import annotations

import dataclasses
import gc
import multiprocessing
import os
import random
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.ranks import Rank
from harness.targets.training import Plan
from suites.checkpoint import files, work

STEP = 3
"""The step under which the killed saves run; the state saved is that of step 2, step 1 is there whole."""
WAIT_S = 120.0
AHEAD = 2
"""How many processes get ready while one saves."""


class Saver:
    """A process with a session, ready to save it into a folder that holds a whole checkpoint."""

    def __init__(self, doing: work.Doing, plan: Plan) -> None:
        # A process that has used an accelerator cannot be forked: its children start anew.
        ways = "fork" if doing.rank.device == "cpu" else "spawn"
        context = multiprocessing.get_context(ways)
        self.plan = plan
        self._ours, theirs = context.Pipe()
        self.process = context.Process(
            target=_save, args=(doing.trainer if ways == "fork" else None, plan, theirs)
        )
        self.process.start()
        theirs.close()

    def hear(self) -> Any:
        if not self._ours.poll(WAIT_S):
            raise RuntimeError(f"a saving process said nothing for {WAIT_S:g} s")
        return self._ours.recv()

    def go(self) -> None:
        self._ours.send("go")

    def sees(self, count: int) -> None:
        """Until that many files and folders lie in the folder of the run, or the save is at its end."""
        end = time.monotonic() + WAIT_S
        while entries(Path(self.plan.folder)) < count and not self._ours.poll():
            if time.monotonic() > end:
                raise RuntimeError(f"a saving process said nothing for {WAIT_S:g} s")

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self._ours.close()


def entries(folder: Path) -> int:
    """How many files and folders lie in it, at any depth; what goes while it is looked at does not count."""
    return sum(len(folders) + len(names) for _, folders, names in os.walk(folder))


def _save(trainer: Any, plan: Plan, pipe: Any) -> None:
    """In the new process: gets a session ready, saves when told to, says when all is written."""
    import torch.distributed as dist

    rank = Rank()
    if trainer is None:
        trainer = rank.target().trainer
    work.regroup(rank, 1, f"saver-{os.getpid()}")
    rank.join()
    trainer.prepare()
    session = trainer.restore(plan)
    pipe.send("ready")
    pipe.recv()
    session.save(STEP)
    work.settle()
    dist.barrier()
    pipe.send("written")
    pipe.recv()


def kills(doing: work.Doing, plan: Plan, job: Mapping[str, Any]) -> dict[str, Any]:
    """Kills saves at random moments and when a file is seen; tells of each what the target would then resume from."""
    old, new = (Path(f) for f in job["folders"][:2])
    root, count = Path(job["root"]), job["moments"] + job["sights"]
    draw = random.Random(job["seed"])
    doing.regroup(1, "kills-ready")
    state = work.held(doing.trainer.restore(dataclasses.replace(plan, resume=str(new))))
    gc.collect()
    doing.regroup(None, "kills")  # the threads of a process group would be missing in forked processes

    def start(name: str) -> Saver:
        folder = Path(plan.folder, name)
        files.link_into(old, root, folder)
        return Saver(doing, dataclasses.replace(plan, folder=str(folder), resume=str(new)))

    ready = [start("whole")]
    savers = (start(f"{n:02d}") for n in range(count))
    ready += [next(savers) for _ in range(AHEAD)]
    moments: list[dict[str, Any]] = []
    survivors: dict[str, Plan] = {}
    try:
        whole = ready.pop(0)
        whole.hear()
        before, begin = entries(Path(whole.plan.folder)), time.monotonic()
        whole.go()
        whole.hear()
        save_s = time.monotonic() - begin
        added = entries(Path(whole.plan.folder)) - before
        whole.kill()
        judge = Judge(doing, old, work.last_of(doing, whole.plan), state)
        for number in range(count):
            saver = ready.pop(0)
            saver.hear()
            begin = time.monotonic()
            if number < job["moments"]:
                saver.go()
                time.sleep(save_s * 1.1 * (number + draw.random()) / job["moments"])
            else:
                present = entries(Path(saver.plan.folder))
                saver.go()
                saver.sees(present + 1 + (number - job["moments"]) % max(added, 1))
            saver.kill()
            delay = time.monotonic() - begin
            ready += [s for s in [next(savers, None)] if s is not None]
            moments.append({"delay_s": delay, **judge.look(saver.plan)})
            earlier = survivors.pop(moments[-1]["state"], None)
            survivors[moments[-1]["state"]] = saver.plan
            if earlier is not None:
                shutil.rmtree(earlier.folder)
    finally:
        for saver in ready:
            saver.kill()
    doing.regroup(1, "kills-survivors")
    for name in judge.known.keys() & survivors.keys():
        survivor = survivors[name]
        found = str(work.last_of(doing, survivor))
        after = work.held(doing.trainer.restore(dataclasses.replace(survivor, resume=found)))
        judge.saved &= {k: after[k] for k in judge.known[name]} == judge.known[name]
    return {"save_s": save_s, "moments": moments, "saved": judge.saved}


class Judge:
    """Looks at what a killed save left."""

    def __init__(self, doing: work.Doing, old: Path, new: Path, state: Mapping[str, Any]) -> None:
        self.doing = doing
        self.names = list(state["weights"])
        self.known = {
            "old": files.content(old, self.names),
            "new": {k: state[k] for k in ("weights", "moments")},
        }
        self.files = {p.name for p in new.iterdir()}
        self.saved = files.content(new, self.names) == self.known["new"]
        """Whether a whole save holds the state that was there to save, and gives it back."""

    def look(self, plan: Plan) -> dict[str, Any]:
        """`state` is old, new, torn or none; `why` says what is torn."""
        found = self.doing.trainer.last_checkpoint(plan)
        if found is None:
            return {"state": "none", "why": "no checkpoint is found although an older one is whole"}
        missing = sorted(self.files - {p.name for p in Path(found).iterdir()})
        if missing:
            return {"state": "torn", "why": f"{Path(found).name}: {', '.join(missing)} is missing"}
        try:
            content = files.content(Path(found), self.names)
            bad = [d["error"] for d in files.described(Path(found)).values() if d["error"]]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            return {"state": "torn", "why": f"{Path(found).name}: {type(error).__name__}: {str(error)[:200]}"}
        if bad:
            return {"state": "torn", "why": f"{Path(found).name}: {bad[0][:200]}"}
        for name, known in self.known.items():
            if content == known:
                return {"state": name, "why": ""}
        return {"state": "torn", "why": f"{Path(found).name} holds a state that was never reached"}
