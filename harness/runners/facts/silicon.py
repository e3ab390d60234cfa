"""What runners of real machines answer alike: nothing stands between a process and its devices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.runners.base import Decision, Device
from harness.runners.facts import deciding, masks, probe
from harness.runners.facts.snapshot import Snapshot, ToolDevice, TorchDevice, TorchFacts


class Silicon:
    """A real machine: processes start as they are, times are its own, and nothing is left to clean up."""

    emulated = False
    time_factor = 1.0
    suites: Sequence[str] | None = None
    recorded: Sequence[str] = ()

    def command(self, words: Sequence[str], *, devices: int, nodes: int = 1) -> list[str]:
        return list(words)

    def clean_up(self) -> None:
        return None

    def synchronize(self) -> None:
        return None


class Accelerated(Silicon):
    """A real machine with accelerators that torch drives: a vendor's runner says what is that vendor's own."""

    pins: tuple[str, ...] = ()
    """Masks of which one is set to pin, the first unless the user has set another."""

    masks: tuple[str, ...] = ()
    """Every mask that hides devices."""

    def probe(self, python: str, environment: Mapping[str, str]) -> Snapshot:
        seen = probe.collect_machine(environment, self.recorded)
        return replace(seen, torch=probe.torch_here(python, environment))

    def decide(self, seen: Snapshot) -> Decision:
        torch = seen.torch or TorchFacts()
        told = Decision(
            self._why_not(seen, torch),
            software=self._software(seen, torch),
            device="cuda",
            collective_backend="nccl",
        )
        if told.why_not is not None:
            return replace(told, absent=not self._is_there(seen))
        own = self._own(seen)
        tools = [deciding.matched(d, own) for d in torch.devices]
        devices = tuple(
            deciding.device_of(d.index, self._arch(d, own) or "", d, tool)
            for d, tool in zip(torch.devices, tools, strict=True)
        )
        notes = deciding.notes_of(devices, tools, deciding.masks_of(seen, self.masks))
        return replace(
            told,
            devices=devices,
            capabilities=deciding.capabilities_of(devices, torch, self._rocm(torch)),
            notes=(*notes, *self._notes(seen, torch, devices)),
        )

    def synchronize(self) -> None:
        import torch

        torch.accelerator.synchronize()

    def pin(self, devices: Sequence[int]) -> Mapping[str, str]:
        return masks.pinned(devices, self.pins, os.environ)

    def _why_not(self, seen: Snapshot, torch: TorchFacts) -> str | None:
        """Why it is no such machine, with the remedy; root causes first."""
        raise NotImplementedError

    def _software(self, seen: Snapshot, torch: TorchFacts) -> dict[str, str | None]:
        raise NotImplementedError

    def _is_there(self, seen: Snapshot) -> bool:
        """Whether the machine has such a device, usable or not."""
        raise NotImplementedError

    def _own(self, seen: Snapshot) -> list[ToolDevice]:
        """The devices of this vendor that the kernel or a tool tells."""
        raise NotImplementedError

    def _arch(self, device: TorchDevice, own: Sequence[ToolDevice]) -> str | None:
        raise NotImplementedError

    def _rocm(self, torch: TorchFacts) -> tuple[int, int] | None:
        """Version of ROCm that torch was built for."""
        return None

    def _notes(self, seen: Snapshot, torch: TorchFacts, devices: Sequence[Device]) -> list[str]:
        """What the vendor adds to what looks wrong."""
        return []
