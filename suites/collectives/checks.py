"""What is wrong with what the ranks found, and how fast they were; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from suites.faults import Fault

_UNSUPPORTED = re.compile(
    r"not supported|unsupported|does(?: not|n't) support|not (?:yet )?implemented|no backend type associated|"
    r"invalid scalar type|unknown data ?type",
    re.IGNORECASE,
)


def is_unsupported(error: BaseException) -> bool:
    """Whether torch says that the backend lacks an operation, or lacks it for a type."""
    return isinstance(error, NotImplementedError) or bool(_UNSUPPORTED.search(str(error)))


def unsupported(cases: Sequence[dict[str, Any]]) -> str | None:
    """Torch's own words when every rank was refused before it found anything; else None."""
    if all(c.get("unsupported") and not c["found"] for c in cases):
        return str(cases[0]["unsupported"])
    return None


def results_fault(cases: Sequence[dict[str, Any]]) -> Fault | None:
    """The fault in what the ranks found, by rank: a wrong element, a write past the end, ranks that differ."""
    refused = next((c["unsupported"] for c in cases if c.get("unsupported")), None)
    if refused is not None:
        return Fault("exception", "some ranks or some sizes were refused, and others were not", refused)
    if any(not c["found"] or any(f["elements"] < 1 for f in c["found"]) for c in cases):
        return Fault("harness", "a rank compared nothing", "")
    for rank, case in enumerate(cases):
        for found in case["found"]:
            if (fault := _element_fault(rank, found)) is not None:
                return fault
    return _replicas_fault(cases)


def _element_fault(rank: int, found: dict[str, Any]) -> Fault | None:
    if found["wrong"]:
        where = f"first at {found['first']}" + (", the last one too" if found["last_wrong"] else "")
        number = f"{found['wrong']} of {found['elements']} elements wrong"
        values = f"got {found['got']}, its inputs imply {found['expected']}"
        return Fault("wrong_sum", f"{found['what']}: on rank {rank} {number}, {where}: {values}", str(found))
    if found["spilled"]:
        return Fault("wrong_sum", f"{found['what']}: rank {rank} was written to past the buffer's end", "")
    return None


def _replicas_fault(cases: Sequence[dict[str, Any]]) -> Fault | None:
    held: dict[str, dict[int, str]] = {}
    for rank, case in enumerate(cases):
        for found in case["found"]:
            if found["same"]:
                held.setdefault(found["what"], {})[rank] = found["digest"]
    for what, digests in held.items():
        if len(set(digests.values())) > 1:
            return Fault("replicas_differ", f"{what}: ranks hold different bits: {digests}", str(digests))
    return None


def repetitions_fault(cases: Sequence[dict[str, Any]], repetitions: int) -> Fault | None:
    """The fault in repeated buckets: a wrong sum, or bits that differ from one repetition to another."""
    if any(c["repetitions"] != repetitions for c in cases):
        return Fault("harness", f"not {repetitions} repetitions: {[c['repetitions'] for c in cases]}", "")
    for rank, case in enumerate(cases):
        if case["unlike"]:
            repetition, bucket = case["unlike"][0]
            message = f"rank {rank}, bucket {bucket}: repetition {repetition} of {repetitions} differs from the first"
            return Fault("not_repeatable", message, f"[repetition, bucket]: {case['unlike']}")
    return results_fault(cases)


def barrier_fault(cases: Sequence[dict[str, Any]]) -> Fault | None:
    """The fault in barriers: a rank that left before the last one came. Times in seconds, of one machine's clock."""
    for number, moments in enumerate(zip(*(c["rounds"] for c in cases), strict=True)):
        came, left = [m[0] for m in moments], [m[1] for m in moments]
        early, last = left.index(min(left)), came.index(max(came))
        if left[early] < came[last]:
            ahead = f"{came[last] - left[early]:.3f} s before rank {last} came"
            return Fault("early", f"barrier {number}: rank {early} left {ahead}", f"came {came}\nleft {left}")
    return None


def bus_bandwidth(op: str, buffer_bytes: int, world: int, seconds: float) -> float:
    """GB/s (1e9 bytes) by the formulas of nccl-tests (doc/PERFORMANCE.md), which make ops and world sizes comparable.

    `buffer_bytes` is the larger of the operation's two buffers.
    """
    factor = {"all_reduce": 2 * (world - 1) / world, "broadcast": 1.0}.get(op, (world - 1) / world)
    return buffer_bytes / seconds * factor / 1e9


def slowest(cases: Sequence[dict[str, Any]], size: str) -> list[float]:
    """Seconds of each repetition: an operation has ended when it has ended on the slowest rank."""
    return [max(times) for times in zip(*(c["seconds"][size] for c in cases), strict=True)]


def control_missed(cases: Sequence[dict[str, Any]], expected: dict[str, str | None]) -> list[str]:
    """Where the checks say another thing of results altered on purpose than `expected` (kind by alteration)."""
    missed = []
    for name, kind in expected.items():
        fault = results_fault([{"found": [c["altered"][name]]} for c in cases])
        if (fault.kind if fault else None) != kind:
            missed.append(f"{name}: expected {kind}, the checks say {fault}")
    return missed
