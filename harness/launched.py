"""What is told of a launch that is over: how each rank ended, which failed first, and the text for a report."""

from __future__ import annotations

import linecache
import math
import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness import emulator, rank_logs
from harness.child import signal_name
from harness.rank_watch import WatchedRank

DETAIL_LIMIT = 8000
_REPORTED = re.compile(r"rank\s*:\s*(\d+)[^\n]*\n\s*exitcode\s*:\s*(-?\d+)")
_FATAL = re.compile(r"Fatal Python error: (Segmentation fault|Aborted|Bus error|Illegal instruction)")
_FAULTS = {
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Illegal instruction": signal.SIGILL,
}
_HEAD_START_S = 0.5
_FOLLOWS = (-signal.SIGTERM, -signal.SIGABRT)
_ENDED_BY_US = (-signal.SIGTERM, -signal.SIGKILL)


@dataclass(frozen=True)
class RankOutcome:
    """How one rank ended, and what it left; `exit_status` and `signal` are None where not its own or not known.

    `state` is "left", "killed", "stopped" or "running" (at the time limit), "ended with the others", "never started".
    """

    rank: int
    exit_status: int | None
    signal: str | None
    state: str
    log: Path
    tail: str
    last_step: int | None
    stack: str | None


@dataclass(frozen=True)
class Launched:
    """How a launch ended: `kind` is None when every rank left with 0, else "crash" or "hang".

    Behind an emulator it may also be "stall" (all ranks wait in one collective), "infrastructure" (the emulator failed
    itself) or "harness" (it refused its command line).
    """

    kind: str | None
    message: str
    first_failed: int | None
    ranks: tuple[RankOutcome, ...]
    duration_s: float
    detail: str


@dataclass
class Ending:
    """What the launch itself knows when all of it is over."""

    status: int | None = None
    """How torchrun ended of itself (negative: by that signal); None when the launch ended it."""
    late_s: float | None = None
    """The time limit, when it was reached."""
    noisy: WatchedRank | None = None
    """The rank that printed without end, and the bytes that it may print."""
    noise_limit_bytes: int = 0
    duration_s: float = 0.0
    torchrun_log: Path = Path()
    emulator: str | None = None
    """The program behind which the ranks ran."""
    nodes: int = 1
    killed: set[int] = field(default_factory=set)
    """Ranks that the launch killed after another one had failed."""
    remarks: list[str] = field(default_factory=list)


def conclude(watched: Sequence[WatchedRank], ending: Ending) -> Launched:
    """The outcome of a launch from its notes, its logs and torchrun's own report; cuts logs that are too long."""
    report = rank_logs.read_tail(ending.torchrun_log, 1 << 20)
    reported = {int(rank): int(code) for rank, code in _REPORTED.findall(report)}
    codes = [_code(rank, reported, ending) for rank in watched]
    first = _first_failed(watched, codes)
    if ending.noisy:
        first = ending.noisy.number
    kind, message = _verdict(watched, codes, first, ending)
    outcomes = tuple(_outcome(rank, codes[rank.number], first, ending) for rank in watched)
    rank_logs.shorten_log(ending.torchrun_log)
    detail = _detail(message, first, outcomes, ending) if kind else message
    return Launched(kind, message, first, outcomes, ending.duration_s, detail)


def _code(rank: WatchedRank, reported: dict[int, int], ending: Ending) -> int | None:
    status = ending.status
    if rank.number in reported:
        return reported[rank.number]
    if rank.left:
        return rank.left[0]
    if ending.nodes > 1 and rank.pid and status:
        return _unreported(rank, ending, status)
    # torchrun names all that failed, so the rest left with 0.
    return 0 if status == 0 or (status is not None and reported and rank.pid) else None


def _unreported(rank: WatchedRank, ending: Ending, status: int) -> int | None:
    """The code of a rank that left no note, where no torchrun tells it.

    What the fault handler wrote speaks first: the one status that is left may be another rank's.
    """
    if rank.number in ending.killed:
        return -signal.SIGKILL
    if found := _FATAL.search(rank_logs.read_tail(rank.log)):
        return -_FAULTS[found[1]]
    return 128 - status if status > 128 else None


def _first_failed(watched: Sequence[WatchedRank], codes: Sequence[int | None]) -> int | None:
    """The rank that failed first of itself.

    A note tells the moment exactly. A death without one is seen a little late, when others may have failed of it
    already: it has a head start, unless it is of the kind that follows from another's.
    """

    def moment(number: int) -> float:
        rank, code = watched[number], codes[number]
        if rank.left and rank.left[0] == code:
            return rank.left[1]
        if rank.gone_at is None:
            return math.inf
        return rank.gone_at if code in _FOLLOWS else rank.gone_at - _HEAD_START_S

    failed = [r.number for r in watched if codes[r.number] and r.late is None]
    return min(failed, key=moment, default=None)


def _verdict(
    watched: Sequence[WatchedRank], codes: Sequence[int | None], first: int | None, ending: Ending
) -> tuple[str | None, str]:
    of = f"of {len(watched)}"
    if ending.noisy:
        size = f"{ending.noise_limit_bytes / (1 << 20):g} MiB"
        return "crash", f"rank {first} {of} printed more than {size} and was ended with the others"
    if first is not None:
        code = codes[first] or 0
        if code < 0:
            return "crash", f"rank {first} {of} was ended first, by {signal_name(-code)}"
        return "crash", f"rank {first} {of} left first, with exit status {code}"
    if ending.late_s is not None:
        late = f"no end within {ending.late_s:g} s; {_who_is_late(watched)}"
        all_run = all(r.late == "running" for r in watched)
        stacks = [rank_logs.read_stack(r.stack) for r in watched] if ending.emulator and all_run else []
        if len(watched) > 1 and stacks and (place := emulator.stall(stacks, linecache.getline)):
            return "stall", f"{late}, all of them in {place}"
        return "hang", late
    if ending.status == 0:
        return None, f"{_ranks(range(len(watched)))} left with exit status 0"
    when = "" if any(r.pid for r in watched) else " before any rank started"
    status = ending.status or 0
    if ending.emulator:
        told = rank_logs.read_tail(ending.torchrun_log)
        return emulator.describe_end(status, ending.emulator, told, any(r.pid for r in watched))
    how = f"was ended by {signal_name(-status)}" if status < 0 else f"left with exit status {status}"
    return "crash", f"torchrun {how}{when}"


def _who_is_late(watched: Sequence[WatchedRank]) -> str:
    never = [r.number for r in watched if r.pid is None]
    stopped = [r.number for r in watched if r.late == "stopped"]
    running = [r.number for r in watched if r.late == "running"]
    if never:
        return f"{_ranks(never)} never started"
    if stopped:
        return f"{_ranks(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped"
    if not running:
        return "every rank has left, torchrun has not"
    return f"{_ranks(running)} of {len(watched)} {'is' if len(running) == 1 else 'are'} running"


def _ranks(numbers: Iterable[int]) -> str:
    names = [str(n) for n in numbers]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def _outcome(rank: WatchedRank, code: int | None, first: int | None, ending: Ending) -> RankOutcome:
    if rank.late and not ending.noisy:
        state, code = rank.late, None
    elif ending.noisy and rank.late:
        code = -signal.SIGKILL if rank is ending.noisy else None
        state = "killed" if rank is ending.noisy else "ended with the others"
    elif code is None:
        state = "never started" if rank.pid is None else "ended with the others"
    elif code >= 0:
        state = "left"
    else:
        ended = rank.number != first and code in _ENDED_BY_US
        state = "ended with the others" if ended else "killed"
    step = rank_logs.find_last_step(rank.log)  # before the log is cut
    rank_logs.shorten_log(rank.log)
    return RankOutcome(
        rank=rank.number,
        exit_status=code if code is not None and code >= 0 else None,
        signal=signal_name(-code) if code is not None and code < 0 else None,
        state=state,
        log=rank.log,
        tail=rank_logs.read_tail(rank.log),
        last_step=step,
        stack=rank_logs.read_stack(rank.stack),
    )


@dataclass(frozen=True)
class _Part:
    title: str
    text: str
    keep: str
    weight: float


def _detail(message: str, first: int | None, outcomes: Sequence[RankOutcome], ending: Ending) -> str:
    lines = [message]
    if first is not None:
        lines.append(f"first to fail: rank {first}")
    lines += [_line(o) for o in outcomes]
    lines += ending.remarks
    lines.append(f"logs: {ending.torchrun_log.parent}")
    parts = []
    for o in sorted(outcomes, key=lambda o: (o.rank != first, o.rank)):
        weight = 3.0 if o.rank == first else 1.0
        if o.stack:
            parts.append(_Part(f"--- rank {o.rank}: stack at the time limit", o.stack, "head", weight))
        if o.tail.strip():
            parts.append(_Part(f"--- rank {o.rank}: last lines", o.tail.strip("\n"), "tail", weight))
    if first is None and (ending.late_s is None or any(o.state == "never started" for o in outcomes)):
        own = rank_logs.read_tail(ending.torchrun_log).strip("\n")
        if own:
            parts.append(_Part(f"--- {ending.emulator or 'torchrun'}: last lines", own, "tail", 1.0))
    head = "\n".join(lines)[: DETAIL_LIMIT // 2]
    return "\n".join([head, *_fit(parts, DETAIL_LIMIT - len(head))])


def _line(o: RankOutcome) -> str:
    how = o.state
    if o.exit_status is not None:
        how += f", exit status {o.exit_status}"
    if o.signal is not None:
        how += f", {o.signal}"
    step = "" if o.last_step is None else f"; last step {o.last_step}"
    return f"rank {o.rank}: {how}{step}"


def _fit(parts: Sequence[_Part], room: int) -> list[str]:
    """The parts within `room` characters: a long one is cut where it tells least, a short one leaves room to others."""
    room -= sum(len(p.title) + 2 for p in parts)
    weights = sum(p.weight for p in parts)
    texts: dict[int, str] = {}
    for at in sorted(range(len(parts)), key=lambda i: len(parts[i].text) / parts[i].weight):
        part = parts[at]
        share = max(0, int(room * part.weight / weights))
        text = part.text
        if len(text) > share:
            cut = max(0, share - 4)
            text = text[:cut] + "\n..." if part.keep == "head" else "...\n" + text[len(text) - cut :]
        texts[at] = text if share > 40 else ""
        room -= len(texts[at])
        weights -= part.weight
    return [f"{parts[i].title}\n{texts[i]}" for i in range(len(parts)) if texts[i]]
