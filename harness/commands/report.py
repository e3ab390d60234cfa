"""`harness report`: judges runs and reports."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness import ROOT
from harness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.cost import Prices
    from harness.merged import Given, Merged
    from harness.records import Header, Run
    from harness.triage import Finding
    from harness.verdicts import Baseline, Judgement

HELP = "judge a run and report; several of one commit side by side"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = "Judges a run and reports; several runs of one commit side by side."
    parser.add_argument("folders", metavar="RUN", type=Path, nargs="+", help="folder of a run")
    form = parser.add_argument(
        "--format", default="terminal", metavar="FORMAT", help="terminal unless named; a wrong one lists all"
    )
    form.completer = _forms  # type: ignore[attr-defined]  # for shells that complete
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report there, not to stdout")
    parser.add_argument(
        "--into", type=Path, metavar="DIR", help="leave report.html, .md, .json and junit.xml there too"
    )
    parser.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    parser.add_argument("--prices", type=Path, metavar="FILE", help="prices of devices: tells costs too")
    parser.add_argument("--store", metavar="PLACE", help="history of the metrics, for the forms that show it")
    parser.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="RUNNER",
        help="a runner that must report; without its run there is no verdict (repeatable)",
    )
    parser.add_argument(
        "--off",
        type=Path,
        default=ROOT / "runners_off.toml",
        metavar="FILE",
        help="runners that are switched off",
    )
    parser.set_defaults(run=_run)


def _forms(prefix: str, **_: object) -> list[str]:
    from harness import reports

    return [name for name in reports.names() if name.startswith(prefix)]


def judged(folder: Path, baselines_folder: Path) -> tuple[Run, Judgement]:
    """The run and the verdict on it."""
    from harness import rundir

    run = rundir.load(folder)
    judgement, _ = _judge(run, _tails(folder, run), baselines_folder)
    return run, judgement


Tails = dict[str, dict[str, str]]
"""The ends of the logs of tests that failed, by test and log."""


def _tails(folder: Path, run: Run) -> Tails:
    from harness import rundir

    return {r.test: rundir.read_tails(folder, r) for r in run.records if r.outcome in ("failed", "error")}


def _judge(run: Run, tails: Tails, baselines_folder: Path) -> tuple[Judgement, Baseline | None]:
    from datetime import datetime

    from harness import baselines, policy
    from harness.judge import judge

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
        triaged=_triaged(run, tails),
        rules=policy.load(),
    )
    return found, baseline


def _triaged(run: Run, tails: Tails) -> dict[str, tuple[Finding, ...]]:
    """The causes that the logs of failed tests show, by test: computed for the report, never stored."""
    from harness import triage, triage_files

    failed = [r for r in run.records if r.outcome in ("failed", "error")]
    signatures = triage_files.load_signatures() if failed else ()
    return {r.test: triage.triage_record(r, tails[r.test], signatures) for r in failed}


def peaks_of(header: Header) -> dict[str, float] | None:
    """1e12 operations a second of one device of the run, by precision; None when its model is not known.

    From `machine.peak_tflops` of the header where it has it; else the run's runner is asked again what the snapshot
    in the header means. Devices that differ have no peak in common.
    """
    from harness import runners
    from harness.runners.facts.snapshot import from_json

    told = header.machine.get("peak_tflops")
    if isinstance(told, dict):
        return {k: float(v) for k, v in told.items() if isinstance(v, int | float) and v > 0} or None
    try:
        seen = from_json(header.machine["snapshot"])
        devices = runners.get(header.runner.name).decide(seen).devices
    except Exception:  # noqa: BLE001 - a folder from elsewhere, or a runner that is not installed here: unknown
        return None
    peaks = [None if d.peak is None else dict(d.peak.tflops) for d in devices]
    return peaks[0] if peaks and all(p == peaks[0] for p in peaks) else None


def _run(options: argparse.Namespace) -> int:
    from harness import output, prices, reports, terminal

    if options.format not in reports.names():
        raise UsageError(
            f"--format {options.format}: no such format; there are: {', '.join(reports.names())}"
        )
    content = collect(
        options.folders,
        options.baselines,
        price_list=None if options.prices is None else prices.load(options.prices),
        store=options.store,
        expected=options.expect,
        off=options.off,
    )
    if options.into is not None:
        write_forms(content, reports.KEPT, options.into)
    to_terminal = options.output is None and sys.stdout.isatty()
    width = os.get_terminal_size().columns if to_terminal else 110
    color = options.output is None and terminal.has_color(to_terminal, os.environ)
    output.write(reports.render(options.format, content, width=width, color=color), options.output)
    return content.exit_status


def collect(
    folders: Sequence[Path],
    baselines_folder: Path,
    *,
    price_list: Prices | None = None,
    store: str | None = None,
    expected: Sequence[str] = (),
    off: Path | None = None,
) -> Merged:
    """The content of a report of these runs, whatever its form; `off`: file of the runners that are switched off."""
    from datetime import datetime

    from harness import merging, switched_off

    switched = switched_off.load(off) if expected and off is not None else ()
    found = [_given(folder, baselines_folder, price_list, store) for folder in folders]
    # The day of the latest run: a report made again later says the same.
    today = max(datetime.fromisoformat(run.header.started).date() for run, _, _ in found)
    return merging.merge(found, expected=expected, off=switched, today=today)


def write_forms(content: Merged, names: Iterable[str], folder: Path) -> None:
    """Writes each form to its own file in the folder; made where it is not there; UsageError when one cannot be written."""
    from harness import output, reports

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--into {folder}: {error.strerror}; name a folder you can write to") from None
    for name in names:
        output.write(reports.render(name, content), folder / reports.file_of(name), "--into")


def _given(
    folder: Path, baselines_folder: Path, price_list: Prices | None, store: str | None
) -> tuple[Run, Judgement, Given]:
    """A run, its verdict, and what its report needs beside them."""
    from harness import rundir, stories
    from harness.merged import Given

    run = rundir.load(folder)
    tails = _tails(folder, run)
    judgement, baseline = _judge(run, tails, baselines_folder)
    counted = any("flop" in m.work for m in judgement.metrics)
    given = Given(
        peaks_of(run.header) if counted else None,
        price_list,
        str(folder),
        tails,
        baseline,
        () if store is None else stories.read(store, run.header, judgement),
        tuple(rundir.read_bundles(folder)),
    )
    return run, judgement, given
