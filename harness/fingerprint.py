"""Reads the machine, the software and the harness's own git state into the header's form."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

from harness.records import RunnerInfo
from harness.runners.base import Decision, Runner
from harness.runners.facts.probe import package_version

PACKAGES = ("torch", "decord", "numpy", "pytest", "pytest-xdist", "hypothesis", "transformers")


RECIPES = (
    "fixtures/dataset.py",
    "fixtures/tiny_paligemma.py",
    "harness/targets/reference_model.py",
    "suites/fsdp/scenarios.py",
    "suites/minidata.py",
)


def collect_recipe(root: Path) -> str:
    """Twelve hex digits over what decides the numbers of a training trace: data, models and plans.

    Over the files' bytes: syntax trees and tokens differ between versions of Python.
    """
    return hashlib.sha256(b"".join((root / path).read_bytes() for path in RECIPES)).hexdigest()[:12]


def runner_info(runner: Runner, decision: Decision) -> RunnerInfo:
    """What the runner makes of this machine, as it stands in a header."""
    return RunnerInfo(
        runner.name, decision.arch, len(decision.devices), runner.emulated, stand_in=decision.stand_in
    )


def collect_machine() -> dict[str, Any]:
    """Host name, system, processor, logical and usable processors, memory in bytes; unknown is None."""
    return {
        "host": platform.node() or None,
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cpu_count": os.cpu_count(),
        "cpu_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": psutil.virtual_memory().total,
    }


def collect_software() -> dict[str, str | None]:
    """Versions by distribution name, read from installed metadata (nothing is imported); absent is None."""
    return {"python": platform.python_version(), **{n: package_version(n) for n in PACKAGES}}


def collect_git(folder: Path) -> tuple[str | None, bool | None]:
    """Commit and whether tracked or new files differ from it; (None, None) outside a git checkout.

    The answer is about the checkout whose top is `folder`, never about one further up.
    """
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != folder.resolve():
        return None, None
    commit = _git(folder, "rev-parse", "HEAD")
    status = _git(folder, "status", "--porcelain")
    return commit, (None if status is None else bool(status))


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor(path: Path = Path("/proc/cpuinfo")) -> str | None:
    """The processor's name; where the kernel knows none (ARM), its maker's number and part."""
    numbers: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = (w.strip() for w in line.partition(":"))
                if name == "model name" and value:
                    return value
                if name in ("CPU implementer", "CPU part"):
                    numbers.setdefault(name, value)
    except OSError:
        pass
    if len(numbers) == 2:
        return f"CPU implementer {numbers['CPU implementer']}, part {numbers['CPU part']}"
    return platform.processor() or None
