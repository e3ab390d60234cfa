"""Reads which runners are switched off, why, and until when."""

from __future__ import annotations

from pathlib import Path

from harness import toml_files
from harness.errors import UsageError
from harness.merged import Off

NAME = "runners_off.toml"
"""The file's name, at the top of a repository; without it every runner is on."""
_KEYS = ("runner", "reason", "last_day")


def load(path: Path) -> tuple[Off, ...]:
    """The entries, in order; none when the file is not there. UsageError names the entry and what is wrong with it."""
    if not path.exists():
        return ()
    data = toml_files.read(path, UsageError, "without it every runner is on")
    entries = data.get("off", [])
    if sorted(data) not in ([], ["off"]) or not isinstance(entries, list):
        raise UsageError(f"{path}: only [[off]] tables belong here, with two brackets")
    found: list[Off] = []
    for number, entry in enumerate(entries, 1):
        where = f"{path}: entry {number}"
        if not isinstance(entry, dict) or sorted(entry) != sorted(_KEYS):
            raise UsageError(f"{where}: an entry has exactly {', '.join(_KEYS)}")
        for key in ("runner", "reason"):
            if not isinstance(entry[key], str) or not entry[key].strip():
                raise UsageError(f"{where}: {key} = {entry[key]!r}: must be text")
        day = toml_files.day(entry["last_day"])
        if day is None:
            raise UsageError(f"{where}: last_day = {entry['last_day']!r}: write a day as 2027-03-31")
        if entry["runner"] in {o.runner for o in found}:
            raise UsageError(f"{where}: {entry['runner']} is there already; one entry a runner")
        found.append(Off(entry["runner"], entry["reason"], day))
    return tuple(found)
