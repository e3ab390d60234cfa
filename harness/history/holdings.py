"""Which file of the store a run is read from, what to compact, and what may be removed; pure.

A file holds whole runs. A run may stand in several files, when a compaction was killed or two ran at once. It is read
from the one whose name sorts last; a rule that needs nothing but the names and footers that are visible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TIER = 4
"""A compacted file takes part again when it is at most so many times as large as all smaller ones together."""

MOST = 1000
"""More files are not put into one at a time, which bounds memory; the next round goes on."""

RUN_FILE = re.compile(
    r"run-(?P<id>.+)\.(?P<started>\d{17})\.(?P<digest>[0-9a-f]{16})\.(?P<nonce>[0-9a-f]{16})\.parquet"
)
COMPACTED_FILE = re.compile(r"runs-(?P<generation>\d{8})\.(?P<nonce>[0-9a-f]{16})\.parquet")


class Held(NamedTuple):
    """One run as a file holds it; `started_us`: microseconds since 1970. Equal digests are equal runs."""

    run_id: str
    started_us: int
    digest: str


@dataclass(frozen=True)
class File:
    """A whole file: runner key, name in its folder, the runs it holds, size in bytes."""

    runner: str
    name: str
    runs: frozenset[Held]
    size_bytes: int = 0

    @property
    def path(self) -> str:
        """Where it lies below the store's place."""
        return f"runner={self.runner}/{self.name}"

    @property
    def compacted(self) -> bool:
        return COMPACTED_FILE.fullmatch(self.name) is not None


@dataclass(frozen=True)
class Part:
    """What to read of a file: these runs, which may be all it holds."""

    file: File
    runs: frozenset[Held]

    @property
    def whole(self) -> bool:
        return self.runs == self.file.runs


def run_name(run: Held, nonce: str) -> str:
    """Name of the file that holds this run alone."""
    return f"run-{run.run_id}.{run.started_us:017d}.{run.digest}.{nonce}.parquet"


def compacted_name(files: Iterable[File], nonce: str) -> str:
    """A name that sorts after every one of `files`: a run's newest file is the last, in any listing in order of names."""
    generations = [int(m["generation"]) for f in files if (m := COMPACTED_FILE.fullmatch(f.name))]
    return f"runs-{max(generations, default=0) + 1:08d}.{nonce}.parquet"


def run_of(name: str) -> Held | None:
    """The run that a file of this name holds alone; None for any other name."""
    found = RUN_FILE.fullmatch(name)
    return Held(found["id"], int(found["started"]), found["digest"]) if found else None


def owners(files: Iterable[File]) -> dict[Held, File]:
    """For each run the file that it is read from: of those that hold it the last by name."""
    found: dict[Held, File] = {}
    for file in files:
        for run in file.runs:
            if run not in found or found[run].name < file.name:
                found[run] = file
    return found


def conflicts(files: Iterable[File]) -> dict[str, list[Held]]:
    """Run ids under which there is more than one run, which only two writers at the same moment can leave."""
    by_id: dict[str, set[Held]] = {}
    for file in files:
        for run in file.runs:
            by_id.setdefault(run.run_id, set()).add(run)
    return {run_id: sorted(runs) for run_id, runs in by_id.items() if len(runs) > 1}


def choose_parts(files: Sequence[File]) -> list[Part]:
    """What to read so that every run is read once. Of runs under one id the first by start and digest is read."""
    left_out = {run for runs in conflicts(files).values() for run in runs[1:]}
    parts: dict[File, set[Held]] = {}
    for run, file in owners(files).items():
        if run not in left_out:
            parts.setdefault(file, set()).add(run)
    return [Part(f, frozenset(runs)) for f, runs in sorted(parts.items(), key=lambda p: p[0].path)]


def choose_sources(files: Sequence[File]) -> list[Part]:
    """What of one runner's files to put into a new one: all runs that stand alone, and compacted files that are not much
    larger than what is smaller; empty when there is nothing to gain. Runs in conflict stay where they are."""
    disputed = {run for runs in conflicts(files).values() for run in runs}
    parts: dict[File, set[Held]] = {}
    for run, file in owners(files).items():
        parts.setdefault(file, set()).add(run)
    usable = [Part(f, frozenset(runs)) for f, runs in parts.items() if not f.runs & disputed]
    usable.sort(key=lambda p: (p.file.compacted, p.file.size_bytes, p.file.name))
    chosen: list[Part] = []
    size_bytes = 0
    for part in usable:
        if part.file.compacted and chosen and part.file.size_bytes > TIER * size_bytes:
            break
        chosen.append(part)
        size_bytes += part.file.size_bytes
        if len(chosen) == MOST:
            break
    return chosen if len(chosen) > 1 else []


def choose_garbage(files: Sequence[File]) -> list[File]:
    """Files that may be removed: each of their runs also stands in a file that sorts later.

    The last file that holds a run can by this rule never go, whoever else removes by it at the same time. That needs
    files that nobody takes away for another reason.
    """
    last = {run: file.name for run, file in owners(files).items()}
    return [f for f in files if f.runs and all(last[run] > f.name for run in f.runs)]
