"""Devices of one machine, lent to tests that run at the same time: no two of them share one."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

_POLL_S = 0.05


class DevicePool:
    """`count` devices numbered from 0, shared by all processes that name the same folder; 0 lends nothing.

    A lease ends with its process, however that ends. Who asks first is served first, so that a request for many
    devices does not wait for ever behind requests for one.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        if count:
            folder.mkdir(exist_ok=True)

    @contextlib.contextmanager
    def lease(self, wanted: int) -> Iterator[tuple[int, ...]]:
        """Waits for `wanted` free devices and holds them; ValueError for more than there are."""
        if wanted > self.count > 0:
            raise ValueError(f"{wanted} devices of {self.count}")
        with self._held(wanted if self.count else 0, range(self.count)) as found:
            yield found

    @contextlib.contextmanager
    def lease_one(self, device: int | None) -> Iterator[tuple[int, ...]]:
        """Waits for this very device and holds it; None is no device."""
        with self._held(0 if device is None else 1, () if device is None else (device,)) as found:
            yield found

    @contextlib.contextmanager
    def _held(self, wanted: int, among: range | tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        with contextlib.ExitStack() as held:
            if not wanted:
                yield ()
                return
            with (self.folder / "queue").open("a") as queue:
                fcntl.flock(queue, fcntl.LOCK_EX)
                found: list[int] = []
                while len(found) < wanted:
                    for number in among:
                        if number not in found and len(found) < wanted and self._take(number, held):
                            found.append(number)
                    if len(found) < wanted:
                        time.sleep(_POLL_S)
            yield tuple(sorted(found))

    def _take(self, number: int, held: contextlib.ExitStack) -> bool:
        file = (self.folder / str(number)).open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        held.enter_context(file)
        return True
