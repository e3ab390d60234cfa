"""The CPU runner: any Linux machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.runners.base import Capability, Container, Decision, Device
from harness.runners.facts import deciding, probe
from harness.runners.facts.silicon import Silicon
from harness.runners.facts.snapshot import Snapshot


class CpuRunner(Silicon):
    """Counts as one device: processors share their memory and are not divided among ranks."""

    name = "cpu"
    torch_build = "cpu"
    wheel_index: str | None = None
    container: Container | None = None
    recorded: Sequence[str] = ("OMP_NUM_THREADS", "MKL_*", "KMP_*", "LD_PRELOAD", "MALLOC_*")

    def probe(self, python: str, environment: Mapping[str, str]) -> Snapshot:
        del python  # a CPU needs no torch to be told
        return probe.collect_machine(environment, self.recorded, tools=False)

    def decide(self, seen: Snapshot) -> Decision:
        if seen.system != "linux":
            return Decision(
                deciding.line(
                    f"runner cpu needs Linux, this is {seen.system}; use a Linux machine or container"
                )
            )
        emulated = deciding.emulation_of(seen)
        if emulated is not None:
            return Decision(emulated)
        return Decision(
            None,
            (Device(0, seen.machine, memory_bytes=seen.memory_bytes),),
            {
                "bf16": Capability(True, "torch computes it on any CPU, in hardware or not", required=True),
                "fp8": Capability(False, "torch has no fp8 product on a CPU"),
                "multi_device": Capability(True, "ranks share the processors", required=True),
                "flash_sdpa": Capability(True, "torch has a flash kernel for CPUs"),
                "peer_to_peer": Capability(True, "all ranks share one memory"),
                "float64": Capability(True, "any CPU", required=True),
                "timing": Capability(True, "silicon", required=True),
            },
        )

    def environment(self, decision: Decision) -> Mapping[str, str]:
        # Without it two processes on two cores each start two threads and wait for one another.
        return {"OMP_NUM_THREADS": "1"}

    def pin(self, devices: Sequence[int]) -> Mapping[str, str]:
        return {}


RUNNER = CpuRunner()
