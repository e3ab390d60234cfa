"""The most memory that this process has held."""

from __future__ import annotations

import re
from pathlib import Path


def peak_bytes(status: Path = Path("/proc/self/status")) -> float | None:
    """The highest resident size so far, in bytes; None when the kernel does not tell.

    Not `ru_maxrss`: a process inherits it from the one that started it.
    """
    try:
        found = re.search(r"^VmHWM:\s*(\d+) kB$", status.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else float(found[1]) * 1024
