"""The stand-in for mirage as tests call it, and snapshots of machines that emulate."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import ROOT
from harness.runners.facts.snapshot import Snapshot, TorchDevice, TorchFacts

FOLDER = ROOT / "fixtures" / "mirage_standin"
MIRAGE, ROCJITSU = FOLDER / "mirage", FOLDER / "rocjitsu"
STARTED: list[tuple[subprocess.Popen[str], Path]] = []
SIGNS = ("MIRAGE_SESSION", "ROCJITSU_RUNTIME_DIR", "LD_PRELOAD: librocjitsu.so", "maps: librocjitsu.so")


def variables(runtime: Path, **more: str) -> dict[str, str]:
    """An environment for the stand-in, with sockets below `runtime`; nothing of an outer emulator."""
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("MIRAGE", "ROCJITSU", "HARNESS_MIRAGE"))
    }
    return {**clean, "XDG_RUNTIME_DIR": str(runtime), **more}


def start(runtime: Path, *words: str, program: Path = MIRAGE, **more: Any) -> subprocess.Popen[str]:
    """A running stand-in, its output in pipes."""
    given = variables(runtime, **more.pop("environment", {}))
    options: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    STARTED.append(
        (subprocess.Popen([str(program), *words], env=given, text=True, **{**options, **more}), runtime)
    )
    return STARTED[-1][0]


def end_all() -> None:
    """Ends what a failed or late test has left running, and what that leaves."""
    while STARTED:
        process, runtime = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()
            subprocess.run([str(MIRAGE), "cleanup"], env=variables(runtime), capture_output=True, check=False)


def until(process: subprocess.Popen[str], word: str) -> None:
    """Reads stdout until a line holds the word; fails when none does within a minute."""
    assert process.stdout is not None
    late = threading.Timer(60, end_all)
    late.start()
    try:
        for line in process.stdout:
            if word in line:
                return
    finally:
        late.cancel()
    raise AssertionError(f"it ended without {word!r}: {process.communicate()}")


def call(runtime: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """A stand-in that has ended."""
    text = more.pop("input", None)
    process = start(runtime, *words, **more, **({"stdin": subprocess.PIPE} if text is not None else {}))
    out, err = process.communicate(text, timeout=120)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def devices(arch: str = "gfx950", count: int = 2) -> tuple[TorchDevice, ...]:
    """Emulated devices as torch tells them."""
    return tuple(
        TorchDevice(n, "AMD Instinct", f"{arch}:sramecc+:xnack-", (9, 5), 288 << 30, 288 << 30, 256, peers=())
        for n in range(count)
    )


def emulating(emulator: Mapping[str, Any] | None = None, **torch: Any) -> Snapshot:
    """A machine on which the real program emulates two MI350X, but for what is given."""
    told = {
        "program": "/opt/rocm/bin/mirage",
        "name": "mirage",
        "profile": "mi350x",
        "asked_devices": 2,
        "given_devices": "2",
        "version": "mirage 0.4.1",
        "profiles": ["mi300x", "mi350x", "mi450x"],
        "stand_in": False,
        "library": "/opt/rocm/lib/librocjitsu.so",
        "status": 0,
        "error": None,
        "errors": "mirage: session s-20260730-191636-1f4a-0\n",
        "inside": {"signs": list(SIGNS), "library": "/opt/rocm/lib/librocjitsu.so", "stand_in": False},
        **(emulator or {}),
    }
    facts = TorchFacts(
        "2.13.0+rocm7.15",
        {"hip": "7.15.1", "rocm": "10.0.0", "nccl": "2.28.3"},
        "cuda",
        devices(),
        ("gfx950",),
        product_norm=65536.0,
        flash_sdpa=True,
        emulation=SIGNS,
    )
    return Snapshot("linux", "x86_64", torch=replace(facts, **torch), emulator=told)
