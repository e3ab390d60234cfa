"""What is said of ranks that ran behind an emulator's command: how that ended, and where they stand when they stall; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from harness.child import signal_name
from harness.runners.facts.emulation import own_error

COLLECTIVES = re.compile(
    r"(all_reduce|all_gather|all_to_all|reduce_scatter|broadcast|barrier|reduce|gather|scatter)\w*"
)
_FRAME = re.compile(r'File "([^"]+)", line (\d+) in (\S+)')
_BACKWARD = ("_engine_run_backward", "backward")
_FOR_DEVICE = re.compile(r"\.(item|tolist|cpu|numpy|wait|synchronize)\(|\btorch\.equal\(")
BACKWARD, FOR_DEVICE = "backward", "a wait for the device"
"""Where ranks stand whose collectives were queued and do not end."""


def describe_end(status: int, name: str, log: str, started: bool) -> tuple[str, str]:
    """Kind and sentence for an end of the emulator's command that is no single rank's.

    `status`: as a shell tells it, negative for the command's own signal; `log`: what it printed; `started`: whether
    any rank was.
    """
    line = own_error(log)
    why = f": {line[:300]}" if line else ""
    if status < 0:
        return "crash", f"{name} was ended by {signal_name(-status)}"
    if status == 1 and not started:
        return "infrastructure", f"{name} failed itself (exit status 1){why}"
    if status == 2 and not started:
        return "harness", f"{name} refused its command line (exit status 2){why}"
    if status == 127:
        return "crash", f"{name} could not start a rank (exit status 127){why}"
    if status > 128:
        return (
            "crash",
            f"the workload of {name} was ended by {signal_name(status - 128)} (exit status {status})",
        )
    return "crash", f"the workload of {name} left with exit status {status}{why}"


def place_of(stack: str | None, source: Callable[[str, int], str] = lambda path, line: "") -> str | None:
    """Where a rank waits for others: the innermost collective of its main thread, `backward`, or a wait for the device.

    None elsewhere. `stack` is as faulthandler writes it, innermost frame first; `source` gives a line of a file.
    """
    frames = _FRAME.findall((stack or "").partition("\n\n")[0])
    for _, _, function in frames:
        if COLLECTIVES.fullmatch(function):
            return str(function)
    if any(function in _BACKWARD for _, _, function in frames):
        return BACKWARD
    if frames and _FOR_DEVICE.search(source(frames[0][0], int(frames[0][1]))):
        return FOR_DEVICE
    return None


def stall(
    stacks: Sequence[str | None], source: Callable[[str, int], str] = lambda path, line: ""
) -> str | None:
    """Where all ranks wait for one another, in words; None when one stands elsewhere, or two in different collectives."""
    places = {place_of(s, source) for s in stacks}
    found = sorted(p for p in places if p is not None)
    if len(found) < len(places) or not found or len(places - {BACKWARD, FOR_DEVICE}) > 1:
        return None
    return " or ".join(found)
