"""What an output can show: colors, and a display that is drawn again and again; decided from the stream and variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def has_color(to_terminal: bool, variables: Mapping[str, str]) -> bool:
    """Whether text may carry colors: NO_COLOR says no, else FORCE_COLOR says yes, else a terminal that has them.

    A variable named empty counts as unset (https://no-color.org, https://force-color.org).
    """
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR"):
        return True
    return to_terminal and not _is_dumb(variables)


def is_live(to_terminal: bool, variables: Mapping[str, str]) -> bool:
    """Whether lines may be drawn anew in place: a terminal that can move its cursor, and not the log of a CI."""
    return to_terminal and not _is_dumb(variables) and variables.get("CI", "").lower() in ("", "0", "false")


def _is_dumb(variables: Mapping[str, str]) -> bool:
    return variables.get("TERM", "").lower() in ("", "dumb", "unknown")


GIVE_BACK = "\x1b7\x1b[r\x1b8\x1b[J\n"
"""What makes a terminal whole again when the process that drew at its foot was killed."""


class Foot:
    """The last lines of a terminal, kept out of what scrolls (its scroll region, DECSTBM).

    Each change is one write, so that nothing else can come between.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rows = 0
        self._lines: list[str] = []
        self._size = (0, 0)

    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal."""
        columns, lines = os.get_terminal_size(self._descriptor)
        return columns, lines

    def draw(self, lines: list[str]) -> None:
        """Shows these lines in place of those before."""
        size = self.size()
        if (lines, size) == (self._lines, self._size):
            return
        out = self._clear() if size != self._size or len(lines) < self._rows else ""
        if len(lines) > self._rows:
            # Room below the cursor, made by scrolling only where there is none; its column stays.
            more = len(lines) - self._rows
            out += "\x1bD" * more + f"\x1b[{more}A"
        self._rows, self._lines, self._size = len(lines), lines, size
        if not lines:
            self._write(out)
            return
        top = size[1] - self._rows
        out += f"\x1b7\x1b[1;{top}r"
        for at, line in enumerate(lines, 1):
            out += f"\x1b[{top + at};1H\x1b[2K{line}"
        self._write(out + "\x1b8")

    def close(self) -> None:
        """Gives the lines back; the cursor stays where the output has come to."""
        self._write(self._clear())

    def _clear(self) -> str:
        if not self._rows:
            return ""
        # Setting the region moves the cursor, so it is kept.
        if self.size() == self._size:
            top = self._size[1] - self._rows
            wipe = "".join(f"\x1b[{top + at};1H\x1b[2K" for at in range(1, self._rows + 1))
            out = f"\x1b7\x1b[0m\x1b[r{wipe}\x1b8"
        else:
            # They have moved; nothing else is below the cursor.
            out = "\x1b7\x1b[r\x1b8\x1b7\x1b[0m\x1b[J\x1b8"
        self._rows, self._lines = 0, []
        return out

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "utf-8", "replace")
        while data:
            data = data[os.write(self._descriptor, data) :]
