"""Signs of an emulator around a process, from its environment and its maps; pure. A flag that says so is no sign."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

SESSION = ("MIRAGE_SESSION", "ROCJITSU_SESSION", "ROCJITSU_RUNTIME_DIR")
"""Variables that the emulator sets in what it runs."""

LIBRARY = "librocjitsu.so"
_FILE = re.compile(r"(?:^|[/\s:])(librocjitsu[\w.+-]*\.so[\w.]*)", re.MULTILINE)


def emulation_signs(environment: Mapping[str, str], maps_text: str) -> tuple[str, ...]:
    """Each sign once, in a fixed order: names of variables, `LD_PRELOAD: ...`, `maps: ...`; empty on silicon.

    `maps_text`: what /proc/PID/maps holds.
    """
    found = [name for name in SESSION if environment.get(name)]
    if _FILE.search(environment.get("LD_PRELOAD", "")):
        found.append(f"LD_PRELOAD: {LIBRARY}")
    if _FILE.search(maps_text):
        found.append(f"maps: {LIBRARY}")
    return tuple(found)


def find_library(maps_text: str) -> str | None:
    """Where the emulator's library was loaded from; None when it is not among the maps."""
    for line in maps_text.splitlines():
        if _FILE.search(line) and "/" in line:
            return line[line.index("/") :].removesuffix(" (deleted)")
    return None


def own_error(text: str) -> str:
    """The line of a program's stderr in which it says what went wrong; empty when there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith("{"):
            try:
                return str(json.loads(line)["error"])
            except (ValueError, KeyError, TypeError):
                continue
    for line in reversed(lines):
        if line.startswith("error: "):
            return line.removeprefix("error: ")
    return lines[-1] if lines else ""
