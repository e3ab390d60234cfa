"""`harness export`: a run in the form of another tool."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.errors import UsageError

HELP = "a run's metrics as JSON of pytest-benchmark or Bencher"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = (
        "Writes what a run's tests measured in the form of another tool. What cannot go in is told."
    )
    parser.add_argument("folder", metavar="RUN", type=Path, help="folder of the run")
    parser.add_argument("--format", required=True, choices=["pytest-benchmark", "bencher"])
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there, not to stdout")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from harness import output, rundir
    from harness.exchange import bencher, pytest_benchmark
    from harness.exchange.values import measured

    run = rundir.load(options.folder)
    renderer = {"bencher": bencher.render, "pytest-benchmark": pytest_benchmark.render}[options.format]
    found = measured(run)
    text, left = renderer(run.header, found)
    for reason in left:
        print(f"harness: left out: {reason}", file=sys.stderr)
    if len(left) == len(found):
        raise UsageError(
            f"{options.folder}: has no metric that {options.format} can hold; nothing was written"
        )
    output.write(text, options.output)
    return 0
