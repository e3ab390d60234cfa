"""The program of ranks that run the workloads of `fixtures/`, which need no target, and tell their results."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch

from harness.ranks import Rank, serve


def answer(rank: Rank) -> Mapping[str, Any]:
    told: dict[str, Any] = {"backend": rank.backend, "local": rank.local, "done": {}}
    if rank.device != "cpu" and torch.accelerator.device_count() < rank.local_world:
        return {**told, "devices": torch.accelerator.device_count()}
    rank.join()
    for case in rank.request["cases"]:
        rank.write({**told, "running": case})
        workload = importlib.import_module(f"fixtures.{case.split('/')[1]}")
        told["done"][case] = {"found": [], **workload.work(torch.device(rank.device))}
    return told


if __name__ == "__main__":
    serve(answer)
