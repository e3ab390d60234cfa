"""What is wrong with what children and ranks found of the machine; every fault is the machine's. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from suites.faults import Fault
from suites.preflight import cases

KIND = "infrastructure"


def fault(message: str, detail: str = "") -> Fault:
    """A fault of the machine."""
    return Fault(KIND, message, detail)


def seen_fault(where: str, seen: Mapping[str, Any], archs: Sequence[str], emulated: bool) -> Fault | None:
    """The fault in what a process saw against what the runner promised: devices, architectures, emulation."""
    found = [d["arch"] for d in seen["devices"]]
    if len(found) != len(archs):
        return fault(f"{where} sees {len(found)} devices, the runner promised {len(archs)}", str(seen))
    if sorted(found) != sorted(archs):
        return fault(f"{where} sees {_few(found)}, the runner promised {_few(archs)}", str(seen))
    signs = seen["emulation"]
    if signs and not emulated:
        return fault(
            f"{where} runs under an emulator, the runner promised silicon: {_few(signs)}", str(signs)
        )
    if emulated and not signs:
        return fault(f"{where} shows no sign of the emulator that the runner promised", "")
    return None


def seats_fault(found: Sequence[Mapping[str, Any]]) -> Fault | None:
    """The fault in where the ranks sit: each on a device of its own."""
    taken: dict[str, int] = {}
    for rank, one in enumerate(found):
        identity = str(one["identity"])
        if identity in taken:
            return fault(f"ranks {taken[identity]} and {rank} sit on one device: {identity}", str(found))
        taken[identity] = rank
    return None


def product_fault(found: Sequence[Mapping[str, Any]]) -> Fault | None:
    """The fault in the products of ones: every element and the norm are exact."""
    for rank, one in enumerate(found):
        if one["elements"] != cases.ONES**2:
            return Fault("harness", f"rank {rank} compared {one['elements']} elements", str(one))
        if one["wrong"]:
            message = (
                f"{one['wrong']} of {one['elements']} elements wrong, first at {one['first']}: {one['got']}"
            )
            return fault(f"bfloat16 product on rank {rank}: {message}, {cases.ONES} is right", str(one))
        if one["norm"] != cases.NORM:
            return fault(f"norm of the bfloat16 product on rank {rank}: {one['norm']}, {cases.NORM} is right")
    return None


def rounding_fault(found: Sequence[Mapping[str, Any]]) -> Fault | None:
    """The fault in float32 products held against float64."""
    for rank, one in enumerate(found):
        if one["elements"] != cases.SHAPE[0] * cases.SHAPE[2]:
            return Fault("harness", f"rank {rank} compared {one['elements']} elements", str(one))
        if one["wrong"]:
            message = (
                f"{one['wrong']} of {one['elements']} elements beyond their rounding, first at {one['first']}"
            )
            return fault(f"float32 product on rank {rank}: {message}: {one['got']}", str(one))
    return None


def repeats_fault(found: Sequence[Mapping[str, Any]]) -> Fault | None:
    """The fault in products made again from the same inputs: equal bits."""
    for rank, one in enumerate(found):
        for name, digests in one.items():
            if len(digests) != cases.REPETITIONS:
                return Fault("harness", f"rank {rank}: {len(digests)} repetitions of {name}", str(one))
            if (first := next((n for n, d in enumerate(digests) if d != digests[0]), None)) is not None:
                return fault(
                    f"{name} product on rank {rank}: repetition {first} has other bits", str(digests)
                )
    return None


def memory_fault(found: Sequence[Mapping[str, Any]]) -> Fault | None:
    """The fault in patterns that were written to memory and read again."""
    for rank, one in enumerate(found):
        if "error" in one:
            return fault(f"memory of rank {rank}: {one['error']}", str(one))
        if not one["words"]:
            return Fault("harness", f"rank {rank} compared nothing", str(one))
        if one["wrong"]:
            place = f"first at {one['first']}, bits {one['bits']:#010x}, {one['where']}"
            return fault(
                f"memory of rank {rank}: {one['wrong']} of {one['words']} words differ, {place}", str(one)
            )
    return None


def sum_fault(found: Sequence[Mapping[str, Any]]) -> Fault | None:
    """The fault in the one all_reduce: each rank holds the sum of all ranks' numbers."""
    right = float(sum(range(1, len(found) + 1)))
    values = [one["sum"] for one in found]
    if any(v != right for v in values):
        return fault(f"all_reduce gave {values} on the ranks, {right} is right", str(values))
    return None


def stored_fault(what: str, found: Sequence[Mapping[str, Any]], least: int) -> Fault | None:
    """The fault in shared memory or on the disk: as much as asked for, and read as written."""
    for rank, one in enumerate(found):
        if "error" in one:
            return fault(f"{what}, rank {rank}: {one['error']}", str(one))
        if one["bytes"] < least:
            return fault(f"{what}, rank {rank}: {one['bytes']} bytes where {least} were asked for", str(one))
        if not one.get("same", True):
            return fault(f"{what}, rank {rank}: what was read is not what was written", str(one))
    return None


def frames_fault(answer: Mapping[str, Any], wanted: Sequence[int]) -> Fault | None:
    """The fault in frames that the decoder gave."""
    if "error" in answer:
        return fault(f"the decoder: {answer['error']}", str(answer))
    if answer["numbers"] != list(wanted):
        return fault(
            f"the decoder was asked for frames {list(wanted)} and gave {answer['numbers']}", str(answer)
        )
    return None


def finding_fault(finding: Mapping[str, Any] | None, name: str) -> Fault | None:
    """The fault in one of the doctor's findings."""
    if finding is None:
        return Fault("harness", f"the doctor did not look at {name}", "")
    if finding["state"] != "wrong":
        return None
    detail = f"why: {finding['why']}\nremedy: {finding['remedy']}"
    return fault(f"{name}: {finding['seen']}; remedy: {finding['remedy']}", detail)


def control_missed(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the checks do not see what was altered on purpose, or see a fault in what was not."""
    judges = {
        "product": product_fault,
        "rounding": rounding_fault,
        "repeats": repeats_fault,
        "memory": memory_fault,
        "sum": sum_fault,
    }
    missed = []
    for name, judge in judges.items():
        for altered in (True, False):
            told = judge([f["altered" if altered else "sound"][name] for f in found])
            if (told.kind if told else None) != (KIND if altered else None):
                missed.append(f"{name} {'altered' if altered else 'sound'}: the checks say {told}")
    return missed


def _few(things: Sequence[Any]) -> str:
    return ", ".join(str(t) for t in things[:8]) + (f" and {len(things) - 8} more" if len(things) > 8 else "")
