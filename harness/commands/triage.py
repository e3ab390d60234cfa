"""`harness triage`: what a failure's logs show, and what to do."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "cause and remedy of a failure, from its logs; exit 3 when no known cause is found"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = (
        "Tells the known causes that logs show, root causes first, each with its remedy, the line that shows it "
        "and the rank that showed it. Exit status: 0 a cause was found; 3 none is known; 2 a log cannot be read."
    )
    parser.add_argument("logs", metavar="LOG", nargs="+", type=Path, help="logs of one failure, of any size")
    parser.add_argument("--format", choices=["terminal", "json"], default="terminal")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    import sys

    from harness.triage_files import triage_files
    from harness.triage_report import render_json, render_terminal

    triage = triage_files(options.logs)
    sys.stdout.write(render_json(triage) if options.format == "json" else render_terminal(triage))
    return 0 if triage.known else 3
