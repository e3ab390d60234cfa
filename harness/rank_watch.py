"""One rank as its launch sees it from outside: whether it lives, is stopped or has ended, and when."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from pathlib import Path

LAUNCH = "launch.json"
"""In the logs of a launch while it goes on: how many ranks, their time limit, and when it began (s, monotonic)."""


def note_launch(logs: Path, ranks: int, limit_s: float, began: float) -> None:
    """Leaves the note that a launch has begun, for who looks at its logs from outside."""
    (logs / LAUNCH).write_text(json.dumps({"ranks": ranks, "limit_s": limit_s, "began": began}))


class WatchedRank:
    """A rank's files in the folder of logs, and its process once it has left a note of its pid."""

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.log, self.stack = folder / f"rank-{number}.log", folder / f"rank-{number}.stack"
        self._pid_note, self._exit_note = folder / f"rank-{number}.pid", folder / f"rank-{number}.exit"
        self.pid: int | None = None
        self.left: tuple[int, float] | None = None
        """The exit status it noted before it left, and the time of that (s, monotonic)."""
        self.gone_at: float | None = None
        """When its process was first seen to be no more (s, monotonic)."""
        self.late: str | None = None
        """Its state when the launch was ended, "running" or "stopped"; None when it was no more by then."""
        self.descriptor: int | None = None

    def look(self, now: float) -> None:
        """Reads the notes, and the state of the process."""
        if self.pid is None and (note := _read_note(self._pid_note)):
            self.pid = int(note[0])
            with contextlib.suppress(OSError, AttributeError):  # without it, /proc tells
                self.descriptor = os.pidfd_open(self.pid)
        if self.left is None and self.pid is not None and (note := _read_note(self._exit_note)):
            self.left = int(note[0]), note[1]
        if self.pid is not None and self.gone_at is None and self._ended():
            self.gone_at = now
            self.close()

    def _ended(self) -> bool:
        if self.descriptor is not None:
            return bool(select.select([self.descriptor], [], [], 0)[0])
        return self.state() in (None, "Z", "X")

    def alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self.pid is not None and self.gone_at is None

    def state(self) -> str | None:
        """The kernel's letter for the state of its process; None when there is none."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except OSError:
            return None

    def ask_for_stack(self) -> None:
        """Makes its fault handler write the stacks of all threads."""
        self._send(signal.SIGUSR1)

    def kill(self) -> None:
        """Ends its process and the group of it."""
        if self.alive() and self.pid is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.alive() and self.pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)

    def close(self) -> None:
        """Gives the descriptor back."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def forget_notes(self) -> None:
        """Removes the notes, which are in this object by now, and an empty stack."""
        self._pid_note.unlink(missing_ok=True)
        self._exit_note.unlink(missing_ok=True)
        if self.stack.exists() and not self.stack.stat().st_size:
            self.stack.unlink()


def _read_note(path: Path) -> tuple[float, float] | None:
    try:
        first, second = json.loads(path.read_text())
    except (OSError, ValueError):
        return None  # none yet, or half written
    return first, second
