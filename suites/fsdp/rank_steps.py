"""The program of a rank: carries out plans one after the other and tells each step of each."""

from __future__ import annotations

import gc
import time
import traceback
from pathlib import Path
from typing import Any

from harness.ranks import Rank, serve
from harness.targets.training import Plan
from suites import minidata
from suites.fsdp.observe import Observer

PATIENCE_S = 20
"""How long a rank whose plan failed waits for the others to fail as well."""


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
            together(rank, name)
        gc.collect()
        rank.write(answer)
    return answer


def run(trainer: Any, plan: Plan) -> dict[str, Any]:
    begin = time.monotonic()
    seen: list[Observer] = []
    trainer.train(plan, lambda session: seen.append(Observer(plan, session)))
    return {"steps": seen[0].steps, **seen[0].facts(), "seconds": time.monotonic() - begin}


def chain(error: BaseException | None) -> list[str]:
    """The error and what it was raised from, each as `Type: text`."""
    found = []
    while error is not None:
        found.append(f"{type(error).__name__}: {str(error)[:600]}")
        error = error.__cause__ or error.__context__
    return found


def together(rank: Rank, name: str) -> None:
    """Returns when every rank has failed in this plan; raises when one has not, since it may wait for this one."""
    (rank.folder / f"failed-{name}-{rank.number}").touch()
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if all(Path(rank.folder, f"failed-{name}-{n}").exists() for n in range(rank.world)):
            return
        time.sleep(0.05)
    raise RuntimeError(f"plan {name} failed on rank {rank.number} and not on all of them")


if __name__ == "__main__":
    serve(main)
