"""The program of a rank: carries out plans one after the other and tells each step of each."""

from __future__ import annotations

import gc
import time
import traceback
from typing import Any

from harness.ranks import Rank, chain, serve
from harness.targets.training import Plan
from suites import minidata
from suites.fsdp.observe import Observer


def main(rank: Rank) -> dict[str, Any]:
    target = rank.target()
    trainer = target.trainer
    trainer.prepare()
    rank.join()
    minidata.complete(target, rank.request["data"])
    answer: dict[str, Any] = {}
    for name, plan in rank.request["plans"].items():
        print(f"=== {name}", flush=True)
        try:
            answer[name] = run(trainer, Plan.from_json(plan))
        except Exception as error:  # noqa: BLE001 - what the target raised is the answer
            traceback.print_exc()
            answer[name] = {"error": chain(error), "text": traceback.format_exc()[-3000:]}
            rank.fail_together(name, rank.world)
        gc.collect()
        rank.write(answer)
    return answer


def run(trainer: Any, plan: Plan) -> dict[str, Any]:
    begin = time.monotonic()
    seen: list[Observer] = []
    trainer.train(plan, lambda session: seen.append(Observer(plan, session)))
    return {"steps": seen[0].steps, **seen[0].facts(), "seconds": time.monotonic() - begin}


if __name__ == "__main__":
    serve(main)
