"""The program that reads windows and items through the target and tells how that ended; asked by the tests.

While a call runs, decoder openings are counted and pauses are written down in place of being slept.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import decord
import numpy as np

from fixtures import barcode
from harness.child import die_with_parent, serve
from harness.targets.base import Target, TargetSpec, load

ENDLESS = 50
"""Openings after which a call counts as trying for ever."""


class Endless(BaseException):
    """Stops a target that does not stop by itself; no `except Exception` holds it."""


@functools.cache
def target() -> Target:
    return load(TargetSpec.from_text(sys.argv[1]))


class Watch:
    """What a call did: openings of a decoder, and pauses in seconds. `after_pause` runs at the first pause."""

    def __init__(self, after_pause: Callable[[], None] | None = None) -> None:
        self.openings, self.pauses, self.after_pause = 0, [], after_pause  # type: ignore[var-annotated]

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        reader, sleep = decord.VideoReader, time.sleep

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.openings += 1
            if self.openings > ENDLESS:
                raise Endless
            return reader(*args, **kwargs)

        def written(seconds: float) -> None:
            self.pauses.append(seconds)
            if len(self.pauses) > ENDLESS:
                raise Endless
            if self.after_pause is not None and len(self.pauses) == 1:
                self.after_pause()

        decord.VideoReader, time.sleep = counted, written
        try:
            yield
        finally:
            decord.VideoReader, time.sleep = reader, sleep


def chain(error: BaseException) -> list[dict[str, str]]:
    """The error and those it was chained from, outermost first."""
    found: list[dict[str, str]] = []
    current: BaseException | None = error
    while current is not None and len(found) < 10:
        found.append({"type": type(current).__name__, "text": str(current)[:4000]})
        hidden = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or hidden
    return found


def watched(
    call: Callable[[], list[int | None]], watch: Watch, *, unprivileged: bool = False
) -> dict[str, Any]:
    """Numbers of the frames that came back, or the chain of errors; with openings, pauses and promises."""
    answer: dict[str, Any] = {"attempts": target().attempts, "pause_s": target().pause_s}
    drop = unprivileged and os.geteuid() == 0
    try:
        with watch.on():
            if drop:
                os.seteuid(65534)
            answer["numbers"] = call()
    except Endless:
        answer["endless"] = True
    except Exception as error:  # noqa: BLE001 - the error is the answer
        answer["chain"] = chain(error)
    finally:
        if drop:
            os.seteuid(0)
    answer.update(openings=watch.openings, pauses=watch.pauses)
    return answer


def numbers(frames: Any) -> list[int | None]:
    return [barcode.read(np.asarray(f)) for f in frames]


def grab(
    root: str,
    episode: int,
    frame: int,
    past: int = 0,
    future: int = 0,
    appears: list[str] | None = None,
    unprivileged: bool = False,
) -> dict[str, Any]:
    """The target's own window grabbing. `appears` [from, to]: that file is moved at the first pause."""
    restore = (lambda: Path(appears[0]).replace(appears[1])) if appears else None
    watch = Watch(restore)  # type: ignore[arg-type]
    return watched(
        lambda: numbers(target().grab(root, episode, frame, past, future)), watch, unprivileged=unprivileged
    )


@functools.cache
def dataset(root: str) -> Any:
    return target().open_dataset(root)


def item(root: str, index: int) -> dict[str, Any]:
    """One item of the target's own data set."""
    data = dataset(root)
    return watched(lambda: numbers([target().image_of(data[index])]), Watch())


def batches(root: str, indices: list[int], workers: int) -> dict[str, Any]:
    """Those items through a DataLoader; an error of a worker must reach this process."""
    from torch.utils.data import DataLoader, Subset

    loader = DataLoader(
        Subset(dataset(root), indices),
        batch_size=None,
        num_workers=workers,
        multiprocessing_context="fork",
        worker_init_fn=lambda _number: die_with_parent(),
    )
    return watched(lambda: numbers([target().image_of(i) for i in loader]), Watch())


def raw(path: str, index: int) -> dict[str, Any]:
    """What decord itself says of a frame at one thread: its error, or frame count and number."""
    try:
        reader = decord.VideoReader(path, num_threads=1)
    except Exception as error:  # noqa: BLE001 - the error is the answer
        return {"stage": "open", "chain": chain(error)}
    try:
        return {"count": len(reader), "numbers": numbers(reader.get_batch([index]).asnumpy())}
    except Exception as error:  # noqa: BLE001 - the error is the answer
        return {"stage": "decode", "count": len(reader), "chain": chain(error)}


def leaks(root: str, episode: int, frame: int, failures: int) -> dict[str, Any]:
    """Open file descriptors and threads before and after that many failing calls, a warm-up apart."""

    def fail(times: int) -> int:
        failed = 0
        for _ in range(times):
            failed += "chain" in watched(lambda: numbers(target().grab(root, episode, frame, 0, 0)), Watch())
        gc.collect()
        return failed

    def held() -> dict[str, int]:
        places = {"files": "/proc/self/fd", "threads": "/proc/self/task"}
        return {name: sum(1 for _ in Path(place).iterdir()) for name, place in places.items()}

    fail(5)
    before = held()
    failed = fail(failures)
    return {"before": before, "after": held(), "failed": failed}


def count(path: str) -> dict[str, Any]:
    """The target's own frame count."""
    return {"count": target().frame_count(path)}


def statistics(root: str) -> dict[str, Any]:
    """Has the target write the data set's statistics."""
    target().write_statistics(root)
    return {}


if __name__ == "__main__":
    serve(
        {
            "grab": grab,
            "item": item,
            "batches": batches,
            "raw": raw,
            "leaks": leaks,
            "count": count,
            "statistics": statistics,
        }
    )
