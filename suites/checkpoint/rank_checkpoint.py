"""The program of a rank: does the jobs asked for, one after the other, in process groups of the sizes they name."""

from __future__ import annotations

import gc
import time
import traceback
from typing import Any

from harness.ranks import Rank, chain, serve
from harness.targets.training import Plan
from suites import minidata
from suites.checkpoint import kills, work


def main(rank: Rank) -> dict[str, Any]:
    target = rank.target()
    target.trainer.prepare()
    rank.join()
    minidata.complete(target, rank.request["data"])
    answer: dict[str, Any] = {}
    doing = work.Doing(target.trainer, rank)
    for job in rank.request["jobs"]:
        if rank.number >= job["world"]:
            continue
        if doing.world != job["world"]:
            doing.regroup(job["world"], job["name"])
        print(f"=== {job['name']}", flush=True)
        begin, used = time.monotonic(), time.process_time()
        try:
            plan = Plan.from_json(job["plan"])
            do = kills.kills if job["do"] == "kills" else getattr(work, job["do"])
            answer[job["name"]] = do(doing, plan, job)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - torch's CheckpointException is no Exception
            traceback.print_exc()
            answer[job["name"]] = {"error": chain(error), "text": traceback.format_exc()[-3000:]}
            doing.world = None
            rank.fail_together(job["name"], job["world"])
        took, used = time.monotonic() - begin, time.process_time() - used
        print(f"=== {job['name']} took {took:.2f} s, {used:.2f} s of a CPU", flush=True)
        gc.collect()
        rank.write(answer)
    doing.regroup(None, "end")
    return answer


if __name__ == "__main__":
    serve(main)
