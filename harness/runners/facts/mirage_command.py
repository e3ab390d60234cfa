"""The emulator's program and command lines. Standard library only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("mirage", "rocjitsu")
"""Its name, and the one that it is to have."""

PROGRAM, PROFILE, DEVICES, BACKEND = (
    *("HARNESS_MIRAGE", "HARNESS_MIRAGE_PROFILE"),
    *("HARNESS_MIRAGE_GPUS", "HARNESS_MIRAGE_BACKEND"),
)
DEFAULT_PROFILE, DEFAULT_DEVICES = "mi350x", 2
MOST_DEVICES = 64

BETWEEN_NODES = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"}
"""What emulated nodes need, as documented: they share no memory and reach each other by loopback alone."""


@dataclass(frozen=True)
class Settings:
    """What the user wants emulated. `program`: a path, or the first name when there is none."""

    program: str
    found: bool
    profile: str
    devices: int | None
    """None when the variable holds no number from 1 to 64."""

    given_devices: str = ""

    @property
    def name(self) -> str:
        """The program's own name."""
        return Path(self.program).name


def settings(environment: Mapping[str, str]) -> Settings:
    """The settings of an environment; a variable named empty counts as unset."""
    wanted = environment.get(PROGRAM) or ""
    path = environment.get("PATH", os.defpath)
    found = next((f for n in ([wanted] if wanted else PROGRAMS) if (f := shutil.which(n, path=path))), None)
    text = environment.get(DEVICES) or str(DEFAULT_DEVICES)
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
    return Settings(
        program=os.path.abspath(found) if found else wanted or PROGRAMS[0],  # noqa: PTH100 - a link keeps its name
        found=found is not None,
        profile=environment.get(PROFILE) or DEFAULT_PROFILE,
        devices=count if 1 <= count <= MOST_DEVICES else None,
        given_devices=text,
    )


def run_words(program: str, profile: str, words: Sequence[str], *, devices: int, nodes: int = 1) -> list[str]:
    """`mirage run`, in daemon mode: `devices` on each node, the words once, or once a device on several nodes."""
    command = [program, "run", "--profile", profile, "--gpus-per-node", str(devices), "--daemon"]
    if nodes > 1:
        command += ["--num-nodes", str(nodes), "--nproc-per-node", str(devices)]
        for name, value in BETWEEN_NODES.items():
            command += ["--env", f"{name}={value}"]
    return [*command, "--", *words]
