"""The rank's end of a launch: what it was asked, who it is, and its answer. Programs beside suites use it."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from harness.targets.base import Target, TargetSpec, load

JOIN_LIMIT_S = 300
PATIENCE_S = 20
"""How long a rank that failed in a part waits for the others to fail in it as well."""
FOLDER, BACKEND, DEVICE = "HARNESS_ANSWERS", "HARNESS_BACKEND", "HARNESS_DEVICE"


class Rank:
    """One rank of a launch: `request` is what the test asked, `number` of `world` who this is, `local` of
    `local_world` on its node."""

    def __init__(self) -> None:
        self.folder = Path(os.environ[FOLDER])
        data = json.loads((self.folder / "request.json").read_text(encoding="utf-8"))
        self.request: dict[str, Any] = data["request"]
        self.spec = TargetSpec.from_text(data["spec"])
        self.number, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local = int(os.environ["LOCAL_RANK"])
        # An emulator that starts the ranks itself does not tell it.
        nodes = int(self.request.get("nodes", 1))
        self.local_world = int(os.environ.get("LOCAL_WORLD_SIZE") or self.world // nodes)
        self.backend = os.environ.get(BACKEND, "gloo")
        kind = os.environ.get(DEVICE, "cpu")
        self.device = kind if kind == "cpu" else f"{kind}:{self.local}"

    def target(self) -> Target:
        """The target, loaded with its supplies, patches and planted defect."""
        return load(self.spec)

    def join(self) -> None:
        """Joins the process group, unless the target has done so."""
        import torch
        import torch.distributed as dist

        if self.device != "cpu":
            torch.accelerator.set_device_index(self.local)
        if not dist.is_initialized():
            dist.init_process_group(self.backend, timeout=timedelta(seconds=JOIN_LIMIT_S))

    def fail_together(self, what: str, world: int) -> None:
        """Returns when the first `world` ranks have all failed in this part; raises when one has not, since it may
        wait for this one in a collective."""
        name = what.replace("/", "_")
        (self.folder / f"failed-{name}-{self.number}").touch()
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if all((self.folder / f"failed-{name}-{n}").exists() for n in range(world)):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{what} failed on rank {self.number} and not on all of them")

    def write(self, answer: Mapping[str, Any]) -> None:
        """Leaves the answer, whole or not at all; a later call replaces an earlier one."""
        path = answer_path(self.folder, self.number)
        temporary = path.with_suffix(".part")
        temporary.write_text(json.dumps(answer), encoding="utf-8")
        temporary.replace(path)


def chain(error: BaseException | None) -> list[str]:
    """The error and what it was raised from, each as `Type: text`, as far as a traceback shows them."""
    found = []
    while error is not None:
        found.append(f"{type(error).__name__}: {str(error)[:600]}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def answer_path(folder: Path, rank: int) -> Path:
    """Where a rank leaves its answer."""
    return folder / f"answer-{rank}.json"


def ask(folder: Path, spec: TargetSpec, request: Mapping[str, Any]) -> None:
    """Writes down what the ranks of a launch are to answer."""
    text = json.dumps({"spec": spec.to_text(), "request": request})
    (folder / "request.json").write_text(text, encoding="utf-8")


def answers(folder: Path, count: int) -> list[dict[str, Any] | None]:
    """What the ranks have left, by rank; None for one that left nothing."""
    paths = [answer_path(folder, n) for n in range(count)]
    return [json.loads(p.read_text(encoding="utf-8")) if p.exists() else None for p in paths]


def serve(answer: Callable[[Rank], Mapping[str, Any]]) -> None:
    """Answers the launch's request; what is raised goes to the rank's log and ends it with status 1."""
    rank = Rank()
    try:
        rank.write(answer(rank))
    except BaseException:  # noqa: BLE001 - whatever ended it is told, and the rank ends
        traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        # A process group whose other ranks wait in a collective must not keep this one.
        os._exit(1)
    leave()


def leave() -> None:
    """Leaves the process group in order; the process ends when its threads have, without a teardown."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    _LEFT.append(True)


_LEFT: list[bool] = []


@atexit.register
def _end_without_teardown() -> None:
    """Ends a rank that left in order: by now its threads are joined and later exit handlers have run.

    gloo's threads may still hold tensors; while the interpreter is torn down, that aborts now and then ("terminate
    called without an active exception", pytorch/pytorch#179291), after all work is done.
    """
    if _LEFT:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
