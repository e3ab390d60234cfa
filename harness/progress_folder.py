"""What a run folder tells while its run goes on: launches and fresh processes that are under way, and earlier runs' times."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import rank_logs, rank_watch, rundir
from harness.errors import RunFolderError
from harness.progress import Ranks
from harness.records import Header

LOOK_BACK = 30
"""At so many earlier run folders is looked, the latest first."""
ENOUGH_RUNS = 3
_STEP_BYTES = 4 << 20


def collect_past(folder: Path, header: Header) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds that tests took in the latest runs beside this one, on this runner with this target: by test those of the
    session itself, and by test those of a fresh process of repeated tests."""
    once: dict[str, float] = {}
    repeated: dict[str, float] = {}
    used = 0
    for place in _earlier(folder):
        try:
            other = rundir.read_header(place)
            if (other.runner.key, other.target.name) != (header.runner.key, header.target.name):
                continue
            records = [] if other.defect else rundir.load(place).records
        except RunFolderError:
            continue
        by_test: dict[str, list[float]] = {}
        for record in records:
            if record.repeat is None:
                once.setdefault(record.test, record.duration_s)
            else:
                by_test.setdefault(record.test, []).append(record.duration_s)
        for test, seconds in by_test.items():
            repeated.setdefault(test, sum(seconds) / len(seconds))
        used += bool(records)
        if used == ENOUGH_RUNS:
            break
    return once, repeated


def _earlier(folder: Path) -> list[Path]:
    """Other folders of runs beside this one, the latest first."""
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder.parent):
            with contextlib.suppress(OSError):
                path = Path(entry.path)
                if path != folder:
                    found.append(((path / rundir.HEADER).stat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)[:LOOK_BACK]]


def collect_ranks(folder: Path, worker: str, now: float) -> Ranks | None:
    """The launch that a worker of the run in `folder` has under way at `now` (s, monotonic); None when it has none."""
    latest, name = 0, ""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder / "logs"):
            number = entry.name.rpartition("-")[2]
            if entry.name.startswith(f"{worker}-") and number.isdigit() and int(number) > latest:
                latest, name = int(number), entry.name
    logs = folder / "logs" / name
    try:
        note = json.loads((logs / rank_watch.LAUNCH).read_text(encoding="utf-8"))
        there = {p.name for p in logs.iterdir()}
        log = logs / "rank-0.log"
        small = log.exists() and log.stat().st_size < _STEP_BYTES
        return Ranks(
            count=int(note["ranks"]),
            started=sum(f"rank-{n}.pid" in there for n in range(int(note["ranks"]))),
            left=sum(f"rank-{n}.exit" in there for n in range(int(note["ranks"]))),
            step=rank_logs.find_last_step(log) if small else None,
            age_s=max(0.0, now - float(note["began"])),
            limit_s=float(note["limit_s"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none, or it is over


class Process:
    """A fresh process of repeated tests as its records tell it while they grow."""

    def __init__(self, path: Path, now: float) -> None:
        self.path, self.began = path, now
        self.done: dict[str, bool] = {}
        """The tests that are over, and whether they failed."""
        self.test: str | None = None
        self.since = now
        self._at = 0

    def look(self, now: float) -> None:
        """Reads what has come since the last look."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except OSError:
            return
        whole = data.rpartition(b"\n")[0]
        self._at += len(whole) + 1 if whole else 0
        for line in whole.split(b"\n"):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self._take(json.loads(line), now)

    def _take(self, told: Mapping[str, Any], now: float) -> None:
        if told["type"] == "running":
            self.test, self.since = str(told["test"]), now
        else:
            self.done[str(told["test"])] = told["outcome"] in ("failed", "error")
            self.test = None


def last_process(folder: Path) -> int:
    """The highest number of a fresh process that writes, or wrote, records into the run; 0 without any."""
    numbers = (p.stem.removeprefix("records-repeat-") for p in folder.glob("records-repeat-*.jsonl"))
    return max((int(n) for n in numbers if n.isdigit()), default=0)
