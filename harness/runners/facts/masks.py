"""Visibility masks: which variable to set, so that a process sees just these devices; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def pinned(devices: Sequence[int], names: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The one mask for these devices, which are counted among those visible now.

    `names`: variables that do the same, the strongest first. A mask that is set already is narrowed, in its own
    variable and its own terms, numbers or UUIDs. ValueError for a device that it does not show.
    """
    if not devices:
        return {}
    variable = next((name for name in names if environment.get(name)), names[0])
    shown = entries(environment.get(variable, ""))
    if not environment.get(variable):
        return {variable: ",".join(str(d) for d in devices)}
    for device in devices:
        if not 0 <= device < len(shown):
            raise ValueError(
                f"device {device} is not among those that {variable}={environment[variable]} shows"
            )
    return {variable: ",".join(shown[d] for d in devices)}


def entries(mask: str) -> list[str]:
    """What a mask shows: up to the first entry that names nothing (`-1`), as the runtimes read it."""
    found: list[str] = []
    for entry in (e.strip() for e in mask.split(",")):
        if not entry or entry.startswith("-"):
            break
        found.append(entry)
    return found
