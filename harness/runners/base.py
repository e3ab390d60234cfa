"""What every runner must answer. Standard library only: the noxfile reads it before anything is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Runner(Protocol):
    """One kind of machine."""

    name: str
    emulated: bool
    torch_build: str
    """Local version of torch's wheel for it, as in `2.13.0+cpu`."""

    collective_backend: str
    """What ranks talk through, as torch.distributed names it."""
    device: str
    """Device type of its ranks, as torch names it."""

    def unavailable(self) -> str | None:
        """Why this machine is not of that kind, with the remedy; None when it is."""
        ...

    def device_arch(self) -> str:
        """Architecture of its devices, for example `x86_64`."""
        ...

    def device_count(self) -> int:
        """How many devices it has; for a CPU, 1."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Variables to set for processes that run on it, unless the user has set them."""
        ...
