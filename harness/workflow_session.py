"""A step of a workflow that works on the machine itself: a nox session, a bundle packed or verified; standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from harness import ROOT, artifacts, runners
from harness.errors import UsageError

LIMIT_STATUS = 124
MARGIN_S = 150.0
"""By so much a session ends before its step is ended."""
GRACE_S = 60.0
"""From the request to end, by which pytest still writes what it has, to the kill."""


def session(
    runner: str, *, folder: Path, preflight: bool, target: Sequence[str], words: Sequence[str], minutes: float
) -> int:
    """Runs the preflight or the suites by nox into `folder`; the exit status of nox, 124 at the time limit.

    `minutes`: limit of the workflow's step, before which the session is ended, so that its report is written.
    """
    runners.get(runner)
    chosen = ["suites/preflight"] if preflight else list(words)
    command = [sys.executable, "-m", "nox", "-s", runner, "--"]
    command += [*chosen, *target, "--run-dir", str(folder.absolute())]
    return run(command, max(MARGIN_S / 5, minutes * 60 - MARGIN_S))


def pack(runner: str, bundle: Path, *, target: Sequence[str]) -> int:
    """Packs the runner's checkpoint bundle with its session's Python; the exit status of `harness checkpoint pack`."""
    bundle.parent.mkdir(parents=True, exist_ok=True)
    words = ["checkpoint", "pack", str(bundle.absolute()), "--runner", runner, *target]
    return subprocess.run([*_harness(runner), *words], cwd=ROOT, check=False).returncode


def carry(runner: str, folder: Path, *, run_folder: Path, into: Path, target: Sequence[str]) -> int:
    """Verifies each bundle in the folder on this machine; 0 only when at least one was, and all agree.

    `into`: a new copy of the run, which keeps what is told; none where there is no run. Between emulated and measured
    machines nothing is carried.
    """
    found = artifacts.bundles(folder)
    emulated = runners.get(runner).emulated
    kept: list[str] = []
    if (run_folder / "run.json").is_file():
        shutil.copytree(run_folder, into)
        kept = ["--into", str(into.absolute())]
    statuses = []
    for name, bundle in found.items():
        if runners.get(name).emulated != emulated:
            print(f"{name}: not carried to {runner}: one of them is emulated", flush=True)
            continue
        print(f"{name}: carried to {runner}", flush=True)
        # The bundle says of which target it is; only its place may be told here.
        place = [w for w in target if w.startswith("--target-path=")]
        words = ["checkpoint", "verify", str(bundle.absolute()), "--runner", runner, *place, *kept]
        statuses.append(subprocess.run([*_harness(runner), *words], cwd=ROOT, check=False).returncode)
    if not statuses:
        print(
            f"harness: {folder}: no bundle to carry to {runner}; the jobs that pack failed", file=sys.stderr
        )
        return 3
    return next((s for s in statuses if s), 0)


def words_of(text: str, name: str) -> list[str]:
    """Words from a JSON list; UsageError when it is none."""
    try:
        found = json.loads(text or "[]")
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(w, str) for w in found):
        raise UsageError(f'{name} {text}: write words as a JSON list, ["-k", "decoder"]')
    return found


def run(command: Sequence[str], limit_s: float) -> int:
    """The exit status of a command and all it started; at the limit they are asked to end, then killed: 124."""
    child = subprocess.Popen(command, cwd=ROOT, start_new_session=True)

    def ask(number: int, _frame: FrameType | None = None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)

    before = {n: signal.signal(n, ask) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        return child.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"harness: time limit of {limit_s / 60:g} minutes; ending it", file=sys.stderr, flush=True)
        ask(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
        ask(signal.SIGKILL)
        child.wait()
        return LIMIT_STATUS
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _harness(runner: str) -> list[str]:
    """The harness under the Python of the runner's session, which has torch."""
    python = ROOT / ".nox" / runner / "bin" / "python"
    if not python.exists():
        raise UsageError(f"{python}: not there; run `nox -s {runner}` first")
    return [str(python), "-m", "harness.cli"]
