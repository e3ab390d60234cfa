"""Times each optimizer step from outside, and counts the operations of one more that is not timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil
import torch
from torch.utils import flop_counter


class Stopwatch:
    """Samples of the first `steps` steps of an optimizer on this rank, from its making on.

    `seconds`: wall time from the end of one step to the end of the next, each with its device work; `host` and
    `device`: memory in bytes at a step's end and at its peak in the step, `device` empty without an accelerator;
    `flop`: operations of the step after the last timed one, None when they cannot be counted; `read`: how many
    samples each timed step read, by `samples`, a list that grows as the target reads. With `count` False nothing is
    counted: its first use makes torch import for a second.
    """

    def __init__(
        self,
        optimizer: Any,
        samples: list[int],
        steps: int,
        synchronize: Callable[[], None],
        *,
        device: bool,
        count: bool = True,
    ) -> None:
        self.steps, self.samples, self.synchronize = steps, samples, synchronize
        self.with_device, self.count = device, count
        self.seconds: list[float] = []
        self.host: list[int] = []
        self.device: list[int] = []
        self.read: list[int] = []
        self.flop: float | None = None
        self._process = psutil.Process()
        self._counter: Any = None
        optimizer.register_step_post_hook(lambda *_: self._after())
        self._begin()

    def _begin(self) -> None:
        self._known = len(self.samples)
        if self.with_device:
            torch.accelerator.reset_peak_memory_stats()
        self.synchronize()
        self._began = time.perf_counter()

    def _after(self) -> None:
        if len(self.seconds) == self.steps:
            self.stop_counting()
            return
        self.synchronize()
        self.seconds.append(time.perf_counter() - self._began)
        self.host.append(self._process.memory_info().rss)
        if self.with_device:
            self.device.append(torch.accelerator.max_memory_allocated())
        self.read.append(len(self.samples) - self._known)
        if len(self.seconds) == self.steps and self.count:
            self._counter = flop_counter.FlopCounterMode(display=False, custom_mapping=ON_A_CPU)
            self._counter.__enter__()
        else:
            self._begin()

    def stop_counting(self) -> None:
        """Ends the counting, if it is under way."""
        if self._counter is not None:
            self._counter.__exit__(None, None, None)
            self.flop = float(self._counter.get_total_flops()) or None
            self._counter = None


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(flop_counter.sdpa_flop_count(query, key, value))


def _attention_backward(grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(flop_counter.sdpa_backward_flop_count(grad, query, key, value))


ON_A_CPU = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
"""Attention as a CPU does it, which torch 2.13 does not count."""
