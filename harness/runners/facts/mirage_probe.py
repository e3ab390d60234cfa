"""Asks the emulator's program what it is, and what a workload inside it sees. Standard library only; never raises."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.runners.facts import mirage_command, mirage_inside, probe
from harness.runners.facts.snapshot import TorchFacts, torch_from_json

ASK_LIMIT_S = 30.0
SESSION_LIMIT_S = 270.0
"""Bring-up may take a minute a phase, and torch starts slowly under emulation."""

_GRACE_S = 10.0
_KEPT = 4000


@dataclass(frozen=True)
class Ended:
    """How a program ended: `status` as a shell would tell it, None when it did not end in time or start."""

    status: int | None
    output: str = ""
    errors: str = ""
    why_not: str | None = None


def collect_emulator(
    settings: mirage_command.Settings, python: str, environment: Mapping[str, str]
) -> tuple[dict[str, Any], TorchFacts | None]:
    """What Snapshot keeps as `emulator`, and what torch says inside; None when it was not reached."""
    told: dict[str, Any] = {
        "program": settings.program if settings.found else None,
        "name": settings.name,
        "profile": settings.profile,
        "asked_devices": settings.devices,
        "given_devices": settings.given_devices,
        "version": None,
        "profiles": None,
        "stand_in": False,
        "library": None,
        "status": None,
        "error": None,
        "errors": "",
        "inside": None,
    }
    if not settings.found or settings.devices is None:
        return told, None
    version = run([settings.program, "--version"], environment, ASK_LIMIT_S)
    told["version"] = version.output.strip()[:200] or None
    listed = run([settings.program, "--json", "profile", "list"], environment, ASK_LIMIT_S)
    told["profiles"] = _profiles(listed.output)
    if listed.why_not or told["profiles"] is None:
        told["error"] = listed.why_not or f"its list of profiles could not be read (status {listed.status})"
        told["errors"] = listed.errors[-_KEPT:]
    if told["profiles"] is not None and settings.profile not in told["profiles"]:
        return told, None
    words = [python, str(Path(mirage_inside.__file__)), str(probe.CHILD)]
    command = mirage_command.run_words(settings.program, settings.profile, words, devices=settings.devices)
    ended = run(command, environment, SESSION_LIMIT_S)
    if ended.status is None or ended.status >= 128:
        run([settings.program, "cleanup"], environment, ASK_LIMIT_S)
    inside = _marked(ended.output, mirage_inside.MARK)
    told |= {
        "status": ended.status,
        "error": ended.why_not,
        "errors": ended.errors[-_KEPT:],
        "inside": inside,
    }
    told["library"] = inside.get("library") if isinstance(inside, dict) else None
    told["stand_in"] = bool(isinstance(inside, dict) and inside.get("stand_in"))
    answer = _marked(ended.output, probe.MARK)
    if answer is None:
        return told, None
    try:
        return told, torch_from_json(answer)
    except (TypeError, ValueError) as error:
        return told, TorchFacts(error=f"its answer could not be read: {error}")


def run(words: Sequence[str], environment: Mapping[str, str], limit_s: float) -> Ended:
    """Runs a program in a group of its own; at the time limit it is asked to end, then killed with its group."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                list(words),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            return Ended(None, why_not=f"{words[0]} cannot be run: {error.strerror}")
        why_not = None
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            why_not = f"no end within {limit_s:g} s"
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
        finally:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        texts = []
        for file in (out, err):
            file.seek(max(0, file.seek(0, 2) - (1 << 20)))
            texts.append(file.read().decode(errors="replace"))
    code = process.returncode
    status = None if why_not else 128 - code if code < 0 else code
    return Ended(status, texts[0], texts[1], why_not)


def _profiles(text: str) -> list[str] | None:
    """The names of a listing, plain or as objects with a name; None when it is neither."""
    try:
        listed = json.loads(text)
    except ValueError:
        return None
    if not isinstance(listed, list):
        return None
    names = [n.get("name") if isinstance(n, dict) else n for n in listed]
    return [n for n in names if isinstance(n, str)]


def _marked(text: str, mark: str) -> Any:
    """The JSON behind the last mark; None without one. A rank's number may stand before it."""
    for line in reversed(text.splitlines()):
        if mark in line:
            with contextlib.suppress(ValueError):
                return json.loads(line.partition(mark)[2])
    return None
