"""A runner as a third party's package would register it: an installed distribution with an entry point."""

from __future__ import annotations

import os
from pathlib import Path

RUNNER = """
from harness.runners.base import Capability, Decision, Device
from harness.runners.facts.snapshot import Snapshot

class Runner:
    name, emulated, torch_build, wheel_index, container = "twins", False, "cpu", None, None
    recorded, time_factor = ("TWINS_*",), 2.0
    suites = None
    def probe(self, python, environment):
        return Snapshot(system="linux", machine="x86_64", environment={"TWINS_COUNT": environment.get("TWINS_COUNT", "2")})
    def decide(self, seen):
        count = int(seen.environment["TWINS_COUNT"])
        no = Capability(False, "twins have none")
        return Decision(
            None if count else "no twin is here; plug one in",
            tuple(Device(n, "twin1") for n in range(count)),
            {
                "bf16": Capability(False, "the left one is broken", required=True),
                "fp8": no, "flash_sdpa": no, "peer_to_peer": no, "float64": no,
                "multi_device": Capability(count > 1, f"devices: {count}"),
                "timing": Capability(True, "silicon"),
            },
            software={"driver": "7.1"},
            device="twin",
        )
    def environment(self, decision): return {"TWINS_READY": "1"}
    def pin(self, devices): return {"TWINS_VISIBLE": ",".join(map(str, devices))}
    def command(self, words, *, devices, nodes=1): return list(words)
    def clean_up(self): pass
    def synchronize(self): pass

RUNNER = Runner()
"""


def install(folder: Path) -> dict[str, str]:
    """Installs it below `folder`; the variables with which it is seen."""
    place = folder / "site"
    information = place / "twins-1.0.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    (place / "twins_runner.py").write_text(RUNNER)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: twins\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[harness.runners]\ntwins = twins_runner:RUNNER\n")
    return {"PYTHONPATH": os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])}
