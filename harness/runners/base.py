"""What every runner must answer. Standard library only: the noxfile reads it before anything is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.runners.facts.snapshot import Snapshot


@dataclass(frozen=True)
class Peak:
    """Dense peak figures of one device: operations in 1e12 a second by dtype, memory bandwidth in 1e12 bytes a second."""

    tflops: Mapping[str, float]
    bandwidth_tb_s: float | None = None
    source: str = ""


@dataclass(frozen=True)
class Device:
    """One device. `arch` as `gfx942`, `sm_90`, `x86_64`; `name` is what it calls itself and decides nothing."""

    index: int
    arch: str
    name: str | None = None
    memory_bytes: int | None = None
    pci: str | None = None
    firmware: Mapping[str, str] = field(default_factory=dict)
    peak: Peak | None = None
    """None unless the very model is known; never another model's."""


@dataclass(frozen=True)
class Capability:
    """Whether the machine can do something, and why it is said so. `form`: which variant, for example `e4m3fnuz`.

    `required`: this kind of device must have it, so that its lack is a failure and no reason to skip.
    """

    there: bool
    reason: str
    form: str | None = None
    required: bool = False


@dataclass(frozen=True)
class Decision:
    """What a runner makes of a snapshot."""

    why_not: str | None
    """Why this machine is not of that kind, with the remedy; None when it is."""

    devices: tuple[Device, ...] = ()
    capabilities: Mapping[str, Capability] = field(default_factory=dict)
    software: Mapping[str, str | None] = field(default_factory=dict)
    """`driver`, `rocm`, `hip`, `cuda`, `collectives`: versions, unknown is None."""

    notes: tuple[str, ...] = ()
    """What looks wrong and does not forbid a run, for example a device name that contradicts its architecture."""

    device: str = "cpu"
    """Device type of its ranks, as torch names it."""

    collective_backend: str = "gloo"
    """What its ranks talk through, as torch.distributed names it."""

    absent: bool = False
    """Not even the machine or the emulator is here: nothing that could be installed for Python would help."""

    stand_in: bool = False
    """The machine is imitated by the harness's own fixture: its runs prove the harness, never a device."""

    @property
    def arch(self) -> str:
        """One architecture, or those of mixed devices joined by `+`, sorted; empty without devices."""
        return "+".join(sorted({d.arch for d in self.devices}))


@dataclass(frozen=True)
class Container:
    """How to start the vendor's container: image and options, one argument an item."""

    image: str
    options: tuple[str, ...]


CAPABILITIES: Mapping[str, str] = {
    "bf16": "bfloat16 arithmetic in hardware",
    "fp8": "8-bit float products; the form says which format",
    "multi_device": "two or more devices, so that each rank has one of its own",
    "flash_sdpa": "torch's flash attention kernel",
    "peer_to_peer": "every device can read every other one's memory",
    "float64": "double precision on the device, for oracles",
    "timing": "times measured here say something of the device: silicon, not emulation",
}
"""What a test may ask for, by name; every runner answers each."""


@dataclass(frozen=True)
class Machine:
    """A runner, what it saw of this machine, and what it makes of it."""

    runner: Runner
    seen: Snapshot
    decision: Decision


class Runner(Protocol):
    """One kind of machine. One file `harness/runners/NAME.py` holds one as `RUNNER`; a third party's package registers
    one by an entry point of the group `harness.runners`."""

    name: str
    emulated: bool
    torch_build: str
    """Local version of torch's wheel for it, as in `2.13.0+cpu`."""

    wheel_index: str | None
    """Where its wheels are outside a container; None for the configured index."""

    container: Container | None
    recorded: Sequence[str]
    """Environment variables that go into the header, as patterns in which `*` stands for anything."""

    time_factor: float
    """By how much time limits of tests are multiplied."""

    suites: Sequence[str] | None
    """The suites that its session runs when none is named; None for all."""

    def probe(self, python: str, environment: Mapping[str, str]) -> Snapshot:
        """Reads the machine. `python`: an interpreter that may have torch, which is asked in a child of it."""
        ...

    def decide(self, seen: Snapshot) -> Decision:
        """What the snapshot means; pure."""
        ...

    def environment(self, decision: Decision) -> Mapping[str, str]:
        """Variables to set for processes that run on it, unless the user has set them."""
        ...

    def pin(self, devices: Sequence[int]) -> Mapping[str, str]:
        """The one mask that makes a process see just these devices, in this order; none for a CPU."""
        ...

    def command(self, words: Sequence[str], *, devices: int, nodes: int = 1) -> list[str]:
        """How a process of it is started: the words, or the words behind the emulator's own command."""
        ...

    def clean_up(self) -> None:
        """Removes what a killed process of it may have left outside its process group."""
        ...

    def synchronize(self) -> None:
        """Returns when the device of this process has done all that it was given; for clocks around device work."""
        ...
