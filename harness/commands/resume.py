"""`harness resume`: goes on with an interrupted comparison with a base, then reports."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness import ROOT

HELP = "go on with an interrupted comparison (--base)"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = (
        "Goes on with an interrupted comparison with a base, on the machine it began on; then reports."
    )
    parser.add_argument("folder", metavar="RUN", type=Path, help="folder of the run")
    parser.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from harness import reports, two_stage
    from harness.commands.report import collect, write_forms

    two_stage.resume(options.folder, lambda line: print(line, flush=True))
    content = collect([options.folder], options.baselines)
    write_forms(content, reports.KEPT, options.folder)
    sys.stdout.write(reports.render("terminal", content))
    return content.exit_status
