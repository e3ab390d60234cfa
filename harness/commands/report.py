"""`harness report`: judges a run and reports."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness import ROOT
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.records import Run
    from harness.triage import Finding
    from harness.verdicts import Judgement

HELP = "judge a run and report"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = "Judges a run and reports."
    parser.add_argument("folder", metavar="RUN", type=Path, help="folder of the run")
    parser.add_argument("--format", default="terminal", metavar="FORMAT", help="terminal, markdown or json")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report there, not to stdout")
    parser.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    parser.set_defaults(run=_run)


def judged(folder: Path, baselines_folder: Path) -> tuple[Run, Judgement]:
    from datetime import datetime

    from harness import baselines, policy, rundir
    from harness.judge import judge

    run = rundir.load(folder)
    baseline, incomparable = baselines.find(baselines_folder, run.header)
    # The day of the run, not of the report: a report made again later says the same.
    today = datetime.fromisoformat(run.header.started).date()
    others = baselines.find_others(baselines_folder, run.header)
    found = judge(
        run,
        baseline,
        today=today,
        incomparable=incomparable,
        others=others,
        triaged=_triaged(folder, run),
        rules=policy.load(),
    )
    return run, found


def _triaged(folder: Path, run: Run) -> dict[str, tuple[Finding, ...]]:
    """The causes that the logs of failed tests show, by test: computed for the report, never stored."""
    from harness import rundir, triage, triage_files

    failed = [r for r in run.records if r.outcome in ("failed", "error")]
    signatures = triage_files.load_signatures() if failed else ()
    return {r.test: triage.triage_record(r, rundir.read_tails(folder, r), signatures) for r in failed}


def _run(options: argparse.Namespace) -> int:
    from harness import reports

    formats = reports.formats()
    if options.format not in formats:
        raise UsageError(
            f"--format {options.format}: no such format; there are: {', '.join(sorted(formats))}"
        )
    run, judgement = judged(options.folder, options.baselines)
    to_terminal = options.output is None and sys.stdout.isatty()
    width = os.get_terminal_size().columns if to_terminal else 110
    color = to_terminal and "NO_COLOR" not in os.environ
    text = formats[options.format].render(run, judgement, width=width, color=color).rstrip("\n") + "\n"
    if options.output is None:
        sys.stdout.write(text)
    else:
        try:
            options.output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"--output {options.output}: {error.strerror}; name a file you can write"
            ) from None
    return judgement.exit_status
