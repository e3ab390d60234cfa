"""The CPU runner: any Linux machine."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping


class CpuRunner:
    """Counts as one device: processors share their memory and are not divided among ranks."""

    name = "cpu"
    emulated = False
    torch_build = "cpu"
    collective_backend = "gloo"
    device = "cpu"

    def unavailable(self) -> str | None:
        if sys.platform != "linux":
            return f"runner cpu needs Linux, this is {sys.platform}; use a Linux machine or container"
        return None

    def device_arch(self) -> str:
        return platform.machine()

    def device_count(self) -> int:
        return 1

    def environment(self) -> Mapping[str, str]:
        # Without it two processes on two cores each start two threads and wait for one another.
        return {"OMP_NUM_THREADS": "1"}


RUNNER = CpuRunner()
