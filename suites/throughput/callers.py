"""Several callers that ask one model at the same time, each again as soon as it has its answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Callers:
    """So many threads that call one function, a turn at a time.

    `seconds`: how long each call took, in the order in which they ended; `answers`: what the calls gave. A call that
    raised ends the turn with its error.
    """

    def __init__(self, count: int, call: Callable[[], Any]) -> None:
        self.count, self.call = count, call
        self.seconds: list[float] = []
        self.answers: list[Any] = []
        self._together = threading.Barrier(count)
        self._threads = ThreadPoolExecutor(count)

    def turn(self, calls: int) -> None:
        """Makes `calls` calls, shared alike by the callers, which begin together; a multiple of their count."""
        each, rest = divmod(calls, self.count)
        if rest:
            raise ValueError(f"{calls} calls are not shared alike by {self.count} callers")
        for caller in [self._threads.submit(self._ask, each) for _ in range(self.count)]:
            caller.result()

    def _ask(self, times: int) -> None:
        self._together.wait(60)
        for _ in range(times):
            begin = time.perf_counter()
            answer = self.call()
            # Of several threads: entries of the two lists at one place need not be of one call.
            self.seconds.append(time.perf_counter() - begin)
            self.answers.append(answer)

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown()
