"""Runs and stores for the tests of history, and programs that work on a store until they are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import IO, Any

import runs
from builders import make_header, make_record
from harness import ROOT
from harness.history import query, rows, store
from harness.history.place import Place
from harness.records import Metric, Run

TEST = "suites/throughput/test_speed.py::test_step"
EPOCH = datetime(2027, 1, 1, tzinfo=timezone.utc)

PROGRAM = """
import os, signal, sys
sys.path[:0] = [{root!r}, {tests!r}]
import history_runs
from harness.history import store
from harness.history.place import Place
place, job, at, *numbers = sys.argv[1:]
left = int(at)
def reached(step):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
store.reached = reached
if job == "add":
    for number in numbers:
        store.add_rows(Place(place), history_runs.make_rows(int(number)))
        print(number, flush=True)
else:
    for _ in range(int(numbers[0])):
        store.compact(Place(place))
print("done", flush=True)
"""


def make_values(number: int, repeat: int) -> tuple[float, ...]:
    """Samples that are this run's own."""
    return tuple(number + repeat / 10 + sample / 1000 for sample in range(4))


def make_run(number: int, *, repeats: int = 2, tests: int = 2, **changes: Any) -> Run:
    """A run that ended, of tests with one warm-up sample and three others, `repeats` times each."""
    header = make_header(
        **{
            "run_id": f"run{number}",
            "started": (EPOCH + timedelta(hours=number)).isoformat(),
            "target": {"commit": f"{number:040x}"},
            **changes,
        }
    )
    records = [
        make_record(
            f"{TEST}[{test}]",
            repeat=repeat,
            metrics=(Metric("step_s", "s", make_values(number, repeat), 1, {"samples": 4.0}),),
        )
        for test in range(tests)
        for repeat in range(1, repeats + 1)
    ]
    return Run(header, tuple(records))


def make_rows(number: int, **changes: Any) -> rows.Rows:
    """The rows of one such run."""
    return rows.rows_of(make_run(number, **changes))


def write_folder(parent: Path, run: Run) -> Path:
    """The run as a folder."""
    return runs.write(parent / run.header.run_id, run)


def read_all(place: Place) -> list[tuple[Any, ...]]:
    """Every row of a store as a reader gets it, sorted."""
    columns = ", ".join(f'"{c}"' for c in rows.COLUMNS if c != "started")
    found = query.Reader(place).ask(f"SELECT runner, epoch_us(started), {columns} FROM $rows")
    return sorted(found, key=repr)


def expected(*runs: rows.Rows) -> list[tuple[Any, ...]]:
    """The rows that a reader must get of these runs, sorted."""
    found = []
    for run in runs:
        us = store.microseconds(run)
        columns = [v for c, v in run.columns.items() if c != "started"]
        found += [(run.runner, us, *row) for row in zip(*columns, strict=True)]
    return sorted(found, key=repr)


def ids(place: Place) -> Counter[str]:
    """How many rows a reader gets of each run."""
    return Counter(row[4] for row in read_all(place))


def start(
    place: str, job: str, *numbers: int, kill_at: int = 0, output: IO[str] | int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """A process that adds runs, or compacts so many times; it ends itself by SIGKILL at its step number `kill_at`.

    It prints a line for each run that it was told is added, and at its end `done`.
    """
    program = PROGRAM.format(root=str(ROOT), tests=str(ROOT / "tests"))
    words = [sys.executable, "-c", program, place, job, str(kill_at), *map(str, numbers)]
    return subprocess.Popen(words, stdout=output, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
