"""The program that reads clips through the target, alone or with many readers; asked by the tests beside it."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from fixtures import barcode
from harness.child import die_with_parent, serve, signal_name
from harness.targets.base import Target, TargetSpec, load

SPAWN_PROCESSES = 8
"""Fresh interpreters of one child at most; more readers than that are threads inside them."""

Calls = list[list[int]]
Answers = list[dict[str, Any]]


@functools.cache
def target() -> Target:
    return load(TargetSpec.from_text(sys.argv[1]))


def call(path: str, indices: list[int]) -> dict[str, Any]:
    """The numbers read off the frames that came back (None: unreadable), or the error that came instead."""
    try:
        frames = target().frames(path, indices)
        return {"numbers": [barcode.read(f) for f in frames], "shape": list(frames.shape)}
    except Exception as error:  # noqa: BLE001 - the error is the answer
        return {"error": describe(error)}


def describe(error: BaseException) -> dict[str, str]:
    return {"type": type(error).__name__, "text": str(error)[:2000]}


def reader(path: str, calls: Calls) -> Answers:
    return [call(path, indices) for indices in calls]


def read(path: str, way: str, plan: list[Calls]) -> dict[str, Any]:
    """Answers by reader and call, with the wall time in seconds and how many frames came back."""
    with contextlib.suppress(Exception):  # a failure shows in the calls as well
        target().frame_count(path)  # as a data set does when it is built, before any worker starts
    begin = time.perf_counter()
    answers = _WAYS[way](path, plan)
    seconds = time.perf_counter() - begin
    frames = sum(len(a.get("numbers", ())) for r in answers for a in r)
    return {"readers": answers, "seconds": seconds, "frames": frames}


def _threads(path: str, plan: list[Calls]) -> list[Answers]:
    with ThreadPoolExecutor(len(plan)) as pool:
        return list(pool.map(lambda calls: reader(path, calls), plan))


def _fork(path: str, plan: list[Calls]) -> list[Answers]:
    context = multiprocessing.get_context("fork")
    started = []
    for calls in plan:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_forked, args=(there, path, calls))
        process.start()
        there.close()
        started.append((process, here))
    return [_collect(process, here) for process, here in started]


def _forked(answers: Connection, path: str, calls: Calls) -> None:
    die_with_parent()
    answers.send(reader(path, calls))


def _collect(process: Any, answers: Connection) -> list[dict[str, Any]]:
    """The answer of one process, or how it ended without one. A process that hangs is left to the parent's limit."""
    try:
        got: list[dict[str, Any]] = answers.recv()
    except EOFError:
        process.join()
        code = process.exitcode
        how = f"was ended by {signal_name(-code)}" if code < 0 else f"left with exit status {code}"
        return [{"crash": f"a reader's process {how}"}]
    process.join()
    return got


class SpawnPool:
    """Fresh interpreters, kept for the next request; grown up to SPAWN_PROCESSES."""

    def __init__(self) -> None:
        self.members: list[tuple[Any, Connection]] = []

    def run(self, path: str, plan: list[Calls]) -> list[Answers]:
        count = min(len(plan), SPAWN_PROCESSES)
        context = multiprocessing.get_context("spawn")
        while len(self.members) < count:
            here, there = context.Pipe()
            process = context.Process(target=_spawned, args=(there, sys.argv[1]), daemon=True)
            process.start()
            there.close()
            self.members.append((process, here))
        shares = [plan[i::count] for i in range(count)]
        for share, (_, connection) in zip(shares, self.members, strict=False):
            connection.send((path, share))
        answers: list[Answers] = [[] for _ in plan]
        for i, (process, connection) in enumerate(self.members[:count]):
            try:
                answers[i::count] = connection.recv()
            except EOFError:
                process.join()
                crash = [{"crash": f"a spawned reader ended with status {process.exitcode}"}]
                answers[i::count] = [crash for _ in shares[i]]
                self.members = []
                break
        return answers


def _spawned(connection: Connection, spec: str) -> None:
    die_with_parent()
    sys.argv[1:] = [spec]
    while True:
        path, share = connection.recv()
        connection.send(_threads(path, share))


def _dataloader(path: str, plan: list[Calls]) -> list[Answers]:
    from torch.utils.data import DataLoader, Dataset

    flat = [indices for calls in plan for indices in calls]

    class Windows(Dataset[dict[str, Any]]):
        def __len__(self) -> int:
            return len(flat)

        def __getitem__(self, number: int) -> dict[str, Any]:
            return call(path, flat[number])

    loader = DataLoader(
        Windows(),
        batch_size=None,
        num_workers=len(plan),
        multiprocessing_context="fork",
        worker_init_fn=_worker_started,
    )
    try:
        return [list(loader)]
    except RuntimeError as error:
        return [[{"crash": str(error)}]]


def _worker_started(_number: int) -> None:
    die_with_parent()


_SPAWN = SpawnPool()
_WAYS: dict[str, Callable[[str, list[Calls]], list[Answers]]] = {
    "threads": _threads,
    "fork": _fork,
    "spawn": _SPAWN.run,
    "dataloader": _dataloader,
}


def raw(path: str, threads: int, index: int) -> dict[str, Any]:
    """What decord itself, without any target, does with one frame at a given thread count."""
    import decord

    try:
        frame = decord.VideoReader(path, num_threads=threads).get_batch([index]).asnumpy()[0]
        return {"numbers": [barcode.read(frame)]}
    except Exception as error:  # noqa: BLE001 - the error is the answer
        return {"error": describe(error)}


def count(path: str) -> dict[str, Any]:
    """The target's own frame count."""
    try:
        return {"count": target().frame_count(path)}
    except Exception as error:  # noqa: BLE001 - the error is the answer
        return {"error": describe(error)}


def processors() -> dict[str, Any]:
    """How many processors this process is told it has."""
    return {"count": os.sysconf("SC_NPROCESSORS_ONLN")}


if __name__ == "__main__":
    serve({"read": read, "raw": raw, "count": count, "processors": processors})
