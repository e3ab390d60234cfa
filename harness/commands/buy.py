"""`harness buy`: machines side by side as a buyer asks for them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness import ROOT
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.buying import Offer, Page

HELP = "machines side by side: speed, quality, cost, and the price at which the order flips"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = (
        "Puts runs of several machines on one page: what training, inference and serving take and cost on each, what "
        "may not be compared, and the price of an hour and device at which the order of two machines flips. Exit "
        "status: 0 a page; 2 a mistake in the call; 3 no number, or nothing that may be compared."
    )
    parser.add_argument(
        "folders",
        metavar="RUN",
        type=Path,
        nargs="+",
        help="folder of a run; the first measured one is the reference of parity",
    )
    parser.add_argument(
        "--prices", type=Path, metavar="FILE", help="prices of devices; without them no cost is told"
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="what to call a machine, in the order of the runs; a price's pattern may fit it; an imported run that has the "
        "name of another is of its machine (repeatable)",
    )
    parser.add_argument(
        "--tests", default="*", metavar="PATTERN", help="only tests whose id fits, as '*fp32*'"
    )
    parser.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    form = parser.add_argument(
        "--format", default="terminal", metavar="FORMAT", help="terminal, markdown, html or json"
    )
    form.completer = _forms  # type: ignore[attr-defined]  # for shells that complete
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the page there, not to stdout")
    parser.set_defaults(run=_run)


def _forms(prefix: str, **_: object) -> list[str]:
    from harness import buy_forms

    return [n for n in buy_forms.names() if n.startswith(prefix)]


def _run(options: argparse.Namespace) -> int:
    from harness import buy_forms, output, terminal

    if options.format not in buy_forms.names():
        raise UsageError(
            f"--format {options.format}: no such format; there are: {', '.join(buy_forms.names())}"
        )
    page = collect(options)
    to_terminal = options.output is None and sys.stdout.isatty()
    width = os.get_terminal_size().columns if to_terminal else 110
    color = options.output is None and terminal.has_color(to_terminal, os.environ)
    output.write(buy_forms.render(options.format, page, width=width, color=color), options.output)
    return page.exit_status


def collect(options: argparse.Namespace) -> Page:
    """The page that was asked for; UsageError for a mistake in it."""
    from harness import buy_page, prices

    names: list[str] = options.name
    if len(names) > len(options.folders):
        raise UsageError(
            f"--name {names[len(options.folders)]}: {len(names)} names for {len(options.folders)} runs; one each"
        )
    listed = None if options.prices is None else prices.load(options.prices)
    offers = [
        _offer(folder, options.baselines, names[n] if n < len(names) else None)
        for n, folder in enumerate(options.folders)
    ]
    return buy_page.make_page(offers, listed, tests=options.tests)


def _offer(folder: Path, baselines_folder: Path, name: str | None) -> Offer:
    from harness.buying import Offer
    from harness.commands.report import judged, peaks_of

    run, judgement = judged(folder, baselines_folder)
    why = "; ".join(judgement.reasons) or judgement.headline
    return Offer(run, judgement.status, why, peaks_of(run.header), name)
