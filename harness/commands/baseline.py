"""`harness baseline`: accepts runs as baseline, lists what is accepted."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import ROOT
from harness.commands.report import judged

HELP = "accept a run as baseline; list baselines"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's actions."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    accept = actions.add_parser("accept", help="make runs the baseline that later runs are judged against")
    accept.add_argument("folders", metavar="RUN", type=Path, nargs="+")
    accept.add_argument("--reason", required=True, metavar="TEXT", help="why; it is written into the files")
    accept.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    accept.set_defaults(run=_accept)
    listing = actions.add_parser("list", help="what is accepted, when and why")
    listing.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    listing.set_defaults(run=_list)


def _accept(options: argparse.Namespace) -> int:
    from harness import baselines, policy

    runs = [judged(folder, options.baselines) for folder in options.folders]
    for path in baselines.accept(options.baselines, runs, options.reason, policy.load()):
        print(path)
    return 0


def _list(options: argparse.Namespace) -> int:
    from harness import baselines

    for line in baselines.listing(options.baselines):
        print(line)
    return 0
