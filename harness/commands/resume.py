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
    from harness.commands.report import judged
    from harness.merging import one

    two_stage.resume(options.folder, lambda line: print(line, flush=True))
    run, judgement = judged(options.folder, options.baselines)
    content = one(run, judgement)
    formats = reports.formats()
    for name, file in (("markdown", "report.md"), ("json", "report.json")):
        text = formats[name].render(content, width=110, color=False).rstrip("\n") + "\n"
        (options.folder / file).write_text(text, encoding="utf-8")
    sys.stdout.write(formats["terminal"].render(content, width=110, color=False).rstrip("\n") + "\n")
    return judgement.exit_status
