"""`harness defects`: plants each defect, says caught, missed, or too small to be seen."""

from __future__ import annotations

import argparse
import json
import sys

from harness import ROOT
from harness.errors import UsageError

HELP = "plant each defect; exit 0 only if none is missed"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--suite", metavar="NAME", help="only the defects of this suite")
    parser.add_argument("--format", choices=["terminal", "json"], default="terminal")
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="how many at once, timed ones apart (default: 2)"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    sys.path.insert(0, str(ROOT))
    from fixtures import defects
    from harness.planting_repeated import plant_every

    every = [defects.get(n) for n in defects.names()]
    chosen = [d for d in every if options.suite in (None, d.suite)]
    if not chosen:
        there = ", ".join(sorted({d.suite for d in every}))
        raise UsageError(f"--suite {options.suite}: no defects for it; there are defects for: {there}")
    clean, planted = plant_every(
        chosen, lambda line: print(line, file=sys.stderr, flush=True), max(1, options.jobs)
    )
    if options.format == "json":
        print(json.dumps([vars(p) for p in planted], indent=1))
    else:
        for p in planted:
            print(f"{p.result:12} {p.suite:10} {p.defect:26} {p.why}")
        caught = sum(p.result == "caught" for p in planted)
        unseen = sum(p.result == "inconclusive" for p in planted)
        more = f", {unseen} inconclusive as its stated power allows" if unseen else ""
        state = "clean" if all(c.ok for c in clean) else "NOT CLEAN"
        print(f"{caught} of {len(planted)} caught{more}; clean target: {state}")
    if not all(c.ok for c in clean):
        print(
            "harness: the clean target did not pass the same tests, so 'caught' means nothing",
            file=sys.stderr,
        )
        return 3
    return 0 if all(p.result in ("caught", "inconclusive") for p in planted) else 1
