"""`harness targets`: what can be tested here, and from where."""

from __future__ import annotations

import argparse
import sys

HELP = "what can be tested here, from where, and if not, why"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--fetch", metavar="NAME", help="clone this target into the cache first")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from harness import targets
    from harness.errors import TargetUnavailable

    if options.fetch is not None:
        targets.module(options.fetch).locate(
            None, clone=True, say=lambda t: print(t, file=sys.stderr, flush=True)
        )
    for name in targets.names():
        try:
            spec = targets.module(name).locate(None, clone=False, say=lambda _: None)
        except TargetUnavailable as error:
            print(f"{name}: not available: {error}")
            continue
        where = (
            f"{spec.path} at {spec.commit}{' (dirty)' if spec.dirty else ''}"
            if spec.path
            else "part of the harness"
        )
        print(f"{name}: available: {where}{f'; {spec.note}' if spec.note else ''}")
        for patch, what in targets.module(name).PATCHES.items():
            print(f"  --patch {patch}: {what}")
    return 0
