"""What is wrong with a reader's answers; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from suites.faults import Fault


def fault_of(indices: Sequence[int], answer: dict[str, Any]) -> Fault | None:
    """The fault in the answer to a call for `indices`; None when every frame is the one asked for."""
    if "crash" in answer:
        return Fault("crash", answer["crash"], answer["crash"])
    if "error" in answer:
        error = answer["error"]
        text = f"{error['type']}: {error['text']}"
        return Fault("exception", f"asked for {show(indices)}, got {error['type']}", text)
    numbers = answer["numbers"]
    if len(numbers) != len(indices):
        message = f"asked for {len(indices)} frames, got {len(numbers)}"
        return Fault("missing_frame", message, f"asked for {show(indices)}\ngot       {show(numbers)}")
    wrong = [(i, n) for i, n in zip(indices, numbers, strict=True) if i != n]
    if wrong:
        asked, got = wrong[0]
        seen = "no readable number" if got is None else f"frame {got}"
        message = f"asked for frame {asked}, got {seen} ({len(wrong)} of {len(indices)} frames wrong)"
        return Fault("wrong_frame", message, f"asked for {show(indices)}\ngot       {show(numbers)}")
    return None


def first_fault(plan: Sequence[Sequence[Sequence[int]]], answers: Sequence[Sequence[Any]]) -> Fault | None:
    """The first fault over all readers, with how many calls were at fault; the order of readers may be lost
    but not that of calls."""
    wanted = [indices for calls in plan for indices in calls]
    given = [answer for calls in answers for answer in calls]
    faults = [
        fault for fault in (fault_of(w, g) for w, g in zip(wanted, given, strict=False)) if fault is not None
    ]
    if not faults and len(wanted) != len(given):
        return Fault("missing_frame", f"{len(wanted)} calls were made, {len(given)} were answered", "")
    if not faults:
        return None
    first = faults[0]
    return first._replace(message=f"{first.message}; {len(faults)} of {len(wanted)} calls at fault")


def refusal_fault(indices: Sequence[int], answer: dict[str, Any]) -> Fault | None:
    """The fault in the answer to a call that must be refused."""
    if "crash" in answer:
        return Fault("crash", answer["crash"], answer["crash"])
    if "error" in answer:
        return None
    return Fault("no_error", f"asked for {show(indices)}, got frames {show(answer['numbers'])}", "")


def show(numbers: Sequence[Any]) -> str:
    text = ", ".join(str(n) for n in numbers[:16])
    return f"[{text}{', ...' if len(numbers) > 16 else ''}]"
