"""Checks of any machine: torch and its first product, shared memory, memory, disk; pure."""

from __future__ import annotations

from harness.runners.facts.checks_base import GIB, Answer, Check, Looked, size, some, unknown, without_torch

NORM = 65536.0
NORM_TOLERANCE = 2.0**-10
"""The elements (256), their squares and every partial sum of these (multiples of 2**16 up to 2**32) are exact in any
order; only the root may round, in float64 by 1e-11. One element that is one unit off (255) moves the norm by 0.0039."""

SHM_ADVISED_BYTES = 16 * GIB
SHM_LEAST_BYTES = GIB
SHM_TOO_SMALL_BYTES = 64 << 20
"""What docker gives without --shm-size."""

MEMORY_LEAST_BYTES, MEMORY_ADVISED_BYTES = 2 * GIB, 8 * GIB
DISK_LEAST_BYTES, DISK_ADVISED_BYTES = GIB, 10 * GIB


def _judge_torch(looked: Looked) -> Answer:
    facts = looked.seen.torch
    if facts is None or without_torch(looked):
        return unknown("this interpreter has no torch, or it was not asked")
    if facts.version is None:
        return Answer("wrong", f"it did not answer: {facts.error or 'no reason given'}")
    if facts.error:
        return Answer("wrong", f"torch {facts.version}: {facts.error}")
    return Answer("fine", f"torch {facts.version}")


def _judge_product(looked: Looked) -> Answer:
    facts = looked.seen.torch
    devices = facts.devices if facts else ()
    norms = {f"device {d.index}": d.product_norm for d in devices if d.product_norm is not None}
    if facts is not None and not devices and looked.decision.device != "cpu":
        return unknown("torch sees no device to make it on")
    if facts is not None and facts.product_norm is not None and not norms:
        norms["device 0" if devices else "CPU"] = facts.product_norm
    if failed := [f"device {d.index}: {d.failure}" for d in devices if d.failure]:
        return Answer("wrong", some(failed))
    if not norms:
        return unknown("no product was made: torch was not asked, or did not get that far")
    bad = [f"{name}: {n:.10g}" for name, n in norms.items() if not abs(n - NORM) <= NORM_TOLERANCE]
    if bad:
        return Answer("wrong", f"norm on {some(bad)}; {NORM:.0f} is right")
    where = next(iter(norms)) if len(norms) == 1 else f"each of {len(norms)} devices"
    return Answer("fine", f"{NORM:.0f} on {where}")


def _judge_emulation(looked: Looked) -> Answer:
    facts = looked.seen.torch
    signs = tuple(dict.fromkeys((*looked.seen.emulation, *(facts.emulation if facts else ()))))
    return Answer("wrong", some(signs)) if signs else Answer("fine", "no sign of an emulator")


def _judge_shm(looked: Looked) -> Answer:
    whole, free = looked.seen.shm_bytes, looked.seen.shm_free_bytes
    if whole is None:
        return unknown("the size of /dev/shm is not known")
    text = f"{size(whole)}" + (f", {size(free)} free" if free is not None else "")
    room = whole if free is None else min(whole, free)
    if whole <= SHM_TOO_SMALL_BYTES:
        # On a CPU ranks talk through sockets; only large batches of DataLoader workers go through it.
        return Answer("doubtful" if looked.decision.device == "cpu" else "wrong", f"{text}: docker's default")
    if room < SHM_LEAST_BYTES:
        return Answer("doubtful", text)
    return Answer("fine", text)


def _judge_stale(looked: Looked) -> Answer:
    if looked.seen.shm_bytes is None:
        return unknown("/dev/shm was not looked at")
    if not looked.seen.shm_stale:
        return Answer("fine", "none")
    return Answer("doubtful", some(looked.seen.shm_stale), "remove them when no run is going on")


def _judge_memory(looked: Looked) -> Answer:
    whole, free = looked.seen.memory_bytes, looked.around.memory_available_bytes
    words = looked.seen.kernel.get("cgroup_memory_bytes", "").strip()
    limit = int(words) if words.isdecimal() and len(words) < 20 else None
    known = [n for n in (whole, limit, free) if n is not None]
    if not known:
        return unknown("neither the machine's memory nor a limit of it is known")
    text = "; ".join(
        f"{name} {size(n)}" for name, n in (("machine", whole), ("cgroup limit", limit), ("free", free)) if n
    )
    least = min(known)
    if least < MEMORY_LEAST_BYTES:
        return Answer("wrong", text or size(least))
    return Answer("doubtful" if least < MEMORY_ADVISED_BYTES else "fine", text)


def _judge_disk(looked: Looked) -> Answer:
    around = looked.around
    places = [("run folder", around.run_free_bytes), ("cache", around.cache_free_bytes)]
    if all(free is None for _, free in places):
        places = [("disk", looked.seen.disk_free_bytes)]
    known = [(name, free) for name, free in places if free is not None]
    if not known:
        return unknown("the free space is not known")
    text = ", ".join(f"{name}: {size(free)} free" for name, free in known)
    least = min(free for _, free in known)
    if least < DISK_LEAST_BYTES:
        return Answer("wrong", text)
    return Answer("doubtful" if least < DISK_ADVISED_BYTES else "fine", text)


GENERAL = (
    Check(
        "torch",
        "torch in this interpreter",
        "every suite needs it, and most other answers come from it",
        "run the doctor with the interpreter of the session (.nox/NAME/bin/python), or install torch there",
        _judge_torch,
        essential=True,
    ),
    Check(
        "product",
        "a bfloat16 product of two matrices of ones, and its norm",
        "it is the first thing that fails with a wrong build, a broken device or a wrong kernel, and it is exact",
        "look at torch's build and the architectures of its wheel first; else the device itself is at fault",
        _judge_product,
        essential=True,
    ),
    Check(
        "shm-size",
        "size of /dev/shm",
        "collectives and DataLoader workers put their buffers there; when it is full they end with a bus error or "
        "'no space left on device'",
        "start the container with --shm-size=16g or --ipc=host",
        _judge_shm,
        link="https://github.com/NVIDIA/nccl/issues/290",  # vendor-ok: the address of a public thread
    ),
    Check(
        "shm-stale",
        "segments of dead processes in /dev/shm",
        "they take room from the next run",
        "remove them when no run is going on",
        _judge_stale,
    ),
    Check(
        "memory",
        "memory of the machine and of this container",
        "at the limit the kernel kills a rank or a worker with SIGKILL, which looks like a crash of the code",
        "raise the container's limit, or run fewer workers",
        _judge_memory,
    ),
    Check(
        "disk",
        "free space for run folders and for clips and checkouts",
        "records, logs and checkpoints that cannot be written are lost, and a run without them has no verdict",
        "free some space, or name another folder (--run-dir, HARNESS_CACHE)",
        _judge_disk,
    ),
)

EMULATION = Check(
    "emulation",
    "signs of an emulator around this process and around torch",
    "times of an emulated device say nothing of silicon, and must never become a baseline",
    "leave the emulator's session, and unset LD_PRELOAD and its variables; or choose its runner",
    _judge_emulation,
)
"""Asked of every runner that measures."""
