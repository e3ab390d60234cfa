"""A command in a real pseudo-terminal, and the screen that a person would see (emulated by pyte)."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte

LIMIT_S = 120.0
"""When a command has not shown what is waited for by then, its test fails."""


class Terminal:
    """Runs a command, and keeps every byte that it prints and the screen of it."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        columns: int = 90,
        lines: int = 24,
    ) -> None:
        self.printed = b""
        self._ended = False
        self.screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=0.01)
        self._stream = pyte.ByteStream(self.screen)
        self._pid, self._master = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            resize(0, columns, lines)
            os.execvpe(command[0], list(command), dict(variables))

    def wait_for(self, there: Callable[[str], bool]) -> str:
        """The screen as soon as it is as wanted; AssertionError shows what it was when that did not come."""
        end = time.monotonic() + LIMIT_S
        while not there(self.text()):
            assert self._read(end), f"not shown:\n{self.text()}"
        return self.text()

    def wait(self) -> int:
        """The exit status, when the command has ended and all it printed is on the screen."""
        end = time.monotonic() + LIMIT_S
        while self._read(end):
            pass
        assert time.monotonic() < end, f"no end:\n{self.text()}"
        self._ended = True
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._ended = True

    def close(self) -> None:
        """Takes the terminal away, and what still runs in it."""
        if not self._ended:
            self.kill()
        os.close(self._master)

    def text(self) -> str:
        """The lines on the screen, and those that have left it at its top."""
        gone = ["".join(line[x].data for x in range(self.screen.columns)) for line in self.screen.history.top]
        return "\n".join(line.rstrip() for line in [*gone, *self.screen.display])

    def _read(self, end: float) -> bool:
        if not select.select([self._master], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # all of its processes have gone
            return False
        self.printed += data
        self._stream.feed(data)
        return bool(data)


def resize(descriptor: int, columns: int, lines: int) -> None:
    """Gives a terminal a size."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
