"""The program of a rank: does the jobs asked for, one after the other, in process groups of the sizes they name."""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from harness.ranks import Rank, serve
from harness.targets.training import Plan
from suites import minidata
from suites.checkpoint import kills, work

PATIENCE_S = 20
"""How long a rank whose job failed waits for the others to fail as well."""


def main(rank: Rank) -> dict[str, Any]:
    target = rank.target()
    target.trainer.prepare()
    rank.join()
    minidata.complete(target, rank.request["data"])
    answer: dict[str, Any] = {}
    doing = work.Doing(target.trainer, rank)
    alone = None
    for job in rank.request["jobs"]:
        if rank.number >= job["world"]:
            continue
        wanted = None if job["do"] == "kills" else job["world"]
        if alone != (wanted,):
            doing.forget()
            regroup(rank, wanted, job["name"])
            alone = (wanted,)
        print(f"=== {job['name']}", flush=True)
        begin = time.monotonic()
        try:
            plan = Plan.from_json(job["plan"])
            do = kills.kills if job["do"] == "kills" else getattr(work, job["do"])
            answer[job["name"]] = {**do(doing, plan, job), "seconds": time.monotonic() - begin}
        except Exception as error:
            traceback.print_exc()
            answer[job["name"]] = {"error": work.chain(error), "text": traceback.format_exc()[-3000:]}
            alone = None
            together(rank, job)
        print(f"=== {job['name']} took {time.monotonic() - begin:.2f} s", flush=True)
        gc.collect()
        rank.write(answer)
    doing.forget()
    regroup(rank, None, "end")
    return answer


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


def together(rank: Rank, job: dict[str, Any]) -> None:
    """Returns when every rank has failed in this job; raises when one has not, since it may wait for this one."""
    name = job["name"].replace("/", "_")
    (rank.folder / f"failed-{name}-{rank.number}").touch()
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if all(Path(rank.folder, f"failed-{name}-{n}").exists() for n in range(job["world"])):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{job['name']} failed on rank {rank.number} and not on all of them")


if __name__ == "__main__":
    serve(main)
