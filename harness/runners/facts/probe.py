"""Reads this machine into a snapshot. Standard library only; torch is asked in a child process."""

from __future__ import annotations

import fnmatch
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.runners.facts.snapshot import Snapshot, TorchFacts, torch_from_json

CHILD = Path(__file__).with_name("torch_child.py")
"""The program that asks torch: prints one line, MARK and the JSON of TorchFacts."""

MARK = "harness-torch-facts: "


def collect_machine(environment: Mapping[str, str], recorded: Sequence[str]) -> Snapshot:
    """All that can be seen without torch. `recorded`: patterns of the variables to keep."""
    return Snapshot(
        system=sys.platform,
        machine=platform.machine(),
        environment={
            k: v for k, v in sorted(environment.items()) if any(fnmatch.fnmatchcase(k, p) for p in recorded)
        },
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def collect_torch(command: Sequence[str], environment: Mapping[str, str], limit_s: float = 120) -> TorchFacts:
    """What torch says in a child: `command` ends in the words that run CHILD. Never raises: `error` tells."""
    try:
        done = subprocess.run(
            list(command),
            env=dict(environment),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TorchFacts(error=f"no answer within {limit_s:g} s")
    except OSError as error:
        return TorchFacts(error=f"{command[0]}: {error.strerror}")
    for line in reversed(done.stdout.decode(errors="replace").splitlines()):
        if MARK in line:
            try:
                return torch_from_json(json.loads(line.partition(MARK)[2]))
            except ValueError as error:
                return TorchFacts(error=f"its answer could not be read: {error}")
    tail = " / ".join(done.stderr.decode(errors="replace").strip().splitlines()[-3:])
    return TorchFacts(error=f"ended with {done.returncode} and no answer: {tail[-600:]}")
