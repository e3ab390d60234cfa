"""Reads the logs that ranks leave: the end, the last step, the stacks; keeps them within bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

LOG_LIMIT_BYTES = 8 << 20
TAIL_BYTES = 6000
_STEP = re.compile(rb"(?:HARNESS-STEP|(?<![A-Za-z_])[Ss]tep)[ :=]+(\d{1,15})(?!\d)")
_OWN_FRAME = re.compile(r"<frozen runpy>|\bharness/rank_main\.py\W+(line )?\d+")
_BLOCK = 4 << 20
_LINE = 256


def shorten_log(path: Path, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
    """Cuts a log above `limit_bytes` to its head and tail, with one line between that says how much is left out."""
    size = path.stat().st_size if path.exists() else 0
    if size <= limit_bytes:
        return
    part = (limit_bytes - _LINE) // 2
    with path.open("r+b") as file:
        file.seek(size - part)
        tail = file.read()
        file.seek(part)
        file.truncate()
        file.write(b"\n... %d of %d bytes left out here ...\n" % (size - 2 * part, size) + tail)


def read_tail(path: Path, limit_bytes: int = TAIL_BYTES) -> str:
    """The last whole lines of a log within `limit_bytes`; of one longer line, its end."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit_bytes))
            data = file.read(limit_bytes)
    except OSError:
        return ""
    if size > limit_bytes and b"\n" in data[:-1]:
        data = data.partition(b"\n")[2]
    return data.decode(errors="replace").replace("\0", "")


def find_last_step(path: Path) -> int | None:
    """The number in the last `step N`, `Global Step N` or `HARNESS-STEP N` of a log; None without one."""
    try:
        with path.open("rb") as file:
            start = file.seek(0, 2)
            while start > 0:
                end, start = start, max(0, start - _BLOCK)
                file.seek(start)
                data = file.read(end - start + _LINE)
                if b"tep" not in data and b"STEP" not in data:
                    continue  # many times faster than the pattern
                if found := _STEP.findall(data):
                    return int(found[-1])
    except OSError:
        pass
    return None


def read_stack(path: Path, limit_bytes: int = 64 << 10) -> str | None:
    """What a rank's fault handler wrote, without the harness's own frames, the main thread first; None when it wrote nothing."""
    try:
        with path.open("rb") as file:
            lines = file.read(limit_bytes).decode(errors="replace").strip().splitlines()
    except OSError:
        return None
    lines = [line[:_LINE] for line in lines if not _OWN_FRAME.search(line)]
    text = "\n".join(lines)
    before, mark, current = text.partition("Current thread ")
    return "\n\n".join(part for part in (mark + current, before.strip()) if part) or None


class Follower:
    """Hands on the lines of a growing log; of what comes faster than it may be told, a part is left out."""

    _STRIDE = 64 << 10

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path, self.say = path, say
        self._at, self._rest = 0, b""

    def follow(self, last: bool = False) -> None:
        """Tells what came since the last call, at most 64 KiB of it; at the `last` one also a line without an end."""
        try:
            with self.path.open("rb") as file:
                new = file.seek(0, 2) - self._at
                if new > self._STRIDE * (1 if last else 16):
                    self.say(f"... {new - self._STRIDE} bytes left out ...")
                    self._at, self._rest = self._at + new - self._STRIDE, b""
                file.seek(self._at)
                data = file.read(self._STRIDE)
        except OSError:
            return
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if last or len(self._rest) > self._STRIDE:
            lines, self._rest = [*lines, *([self._rest] if self._rest else [])], b""
        for line in lines:
            self.say(line.decode(errors="replace"))
