"""The program of a rank: carries out the timed jobs one after the other, in process groups of the sizes they name."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import time
import traceback
from pathlib import Path
from typing import Any

import torch.distributed as dist

from harness import runners
from harness.ranks import Rank, chain, serve
from harness.targets.training import Plan, Session
from suites.checkpoint.work import regroup, settle
from suites.throughput import plans
from suites.throughput.stopwatch import Stopwatch


def main(rank: Rank) -> dict[str, Any]:
    target: Any = rank.target()
    target.trainer.prepare()
    rank.join()
    # All ranks at once; later, those that wait for another process group would be the last to start.
    importlib.import_module("torch.distributed.fsdp")
    importlib.import_module("torch.distributed.checkpoint.state_dict")
    jobs = Jobs(rank, target.trainer)
    answer: dict[str, Any] = {}
    world = None
    for name, asked in rank.request["jobs"].items():
        if rank.number >= asked["ranks"]:
            continue
        if world != asked["ranks"]:
            regroup(rank, world := asked["ranks"], name)
        print(f"=== {name}", flush=True)
        begin = time.monotonic()
        try:
            answer[name] = getattr(jobs, asked["do"])(Plan.from_json(asked["plan"]))
        except Exception as error:  # noqa: BLE001 - what the target raised is the answer
            traceback.print_exc()
            answer[name] = {"error": chain(error), "text": traceback.format_exc()[-3000:]}
            rank.fail_together(name, world)
        print(f"=== {name} took {time.monotonic() - begin:.2f} s", flush=True)
        gc.collect()
        rank.write(answer)
    regroup(rank, None, "end")
    return answer


class Jobs:
    """What a job may ask for."""

    def __init__(self, rank: Rank, trainer: Any) -> None:
        self.trainer, self.device = trainer, rank.device != "cpu"
        self.synchronize = runners.get(rank.request["runner"]).synchronize

    def train(self, plan: Plan) -> dict[str, Any]:
        """Every step of a training, timed from where all ranks are ready, and one more, counted."""
        kept: list[Stopwatch] = []

        def ready(session: Session) -> None:
            dist.barrier()
            watch = Stopwatch(
                session.optimizer, session.samples, plan.steps - 1, self.synchronize, device=self.device
            )
            kept.append(watch)

        try:
            self.trainer.train(plan, ready)
        finally:
            for watch in kept:
                watch.stop_counting()
        watch = kept[0]
        return {
            "seconds": watch.seconds,
            "read": watch.read,
            "flop": watch.flop,
            "host": watch.host,
            "device": watch.device,
        }

    def checkpoint(self, plan: Plan) -> dict[str, Any]:
        """Saves of the state after a step until it is on disk, and loads of the last of them."""
        kept: list[Session] = []
        self.trainer.train(plan, kept.append)
        settle()
        rounds = plans.CHECKPOINT_WARMUP + plans.CHECKPOINT_ROUNDS
        saves = [self._save(plan, kept[0], plan.steps + n) for n in range(1, rounds + 1)]
        resumed = dataclasses.replace(plan, resume=saves[-1][1])
        kept.clear()
        loads = []
        for _ in range(rounds):
            gc.collect()
            session = self.trainer.restore(resumed)
            if session.first_step != plan.steps + rounds + 1:
                raise RuntimeError(f"{resumed.resume}: goes on with step {session.first_step}")
            loads.append(session.facts["load_s"])
        return {"save": [s for s, _, _ in saves], "load": loads, "bytes": saves[-1][2]}

    def _save(self, plan: Plan, session: Session, step: int) -> tuple[float, str, int]:
        """Seconds of a save, its folder, and its size on disk in bytes."""
        before = self.trainer.last_checkpoint(plan)
        self.synchronize()
        begin = time.perf_counter()
        session.save(step)
        settle()
        seconds = time.perf_counter() - begin
        folder = self.trainer.last_checkpoint(plan)
        if folder is None or folder == before:
            raise RuntimeError(f"saving step {step} left no checkpoint that the target would resume from")
        return seconds, folder, sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())


if __name__ == "__main__":
    serve(main)
