"""One launch on a machine: ranks are asked by a file, started as the machine's runner starts them, and answer by files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import ROOT, launch, ranks
from harness.runners.base import Machine
from harness.targets.base import TargetSpec


def launch_asked(
    machine: Machine,
    spec: TargetSpec,
    program: Path,
    request: Mapping[str, Any],
    *,
    world: int,
    logs: Path,
    limit_s: float,
    nodes: int = 1,
    devices: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> tuple[launch.Launched, list[dict[str, Any] | None]]:
    """How `world` ranks of the program ended, and what each answered; None for one that left nothing.

    `devices`: those that the ranks are to see; empty for all. `environment` is stronger than what the runner sets.
    """
    ranks.ask(logs, spec, request)
    variables = {
        "PYTHONPATH": str(ROOT),
        ranks.FOLDER: str(logs),
        ranks.BACKEND: machine.decision.collective_backend,
        ranks.DEVICE: machine.decision.device,
        **(machine.runner.pin(devices) if devices else {}),
        **(environment or {}),
    }
    done = launch.launch(
        program,
        ranks=world,
        logs=logs,
        limit_s=limit_s,
        environment=variables,
        wrap=lambda words: machine.runner.command(words, devices=world // nodes, nodes=nodes),
        clean_up=machine.runner.clean_up,
        nodes=nodes,
    )
    return done, ranks.answers(logs, world)
