"""Draws the terminal report of a run as SVG: python docs/make_picture.py RUN FILE"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness import baselines, reports, rundir
from harness.judge import judge
from harness.merging import one

WIDTH = 112


def main(folder: Path, output: Path) -> None:
    from datetime import date

    run = rundir.load(folder)
    baseline, incomparable = baselines.find(Path("baselines"), run.header)
    judgement = judge(
        run, baseline, today=date.fromisoformat(run.header.started[:10]), incomparable=incomparable
    )
    ansi = reports.formats()["terminal"].render(one(run, judgement), width=WIDTH, color=True)
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(ansi))
    svg = console.export_svg(title="nox -s cpu")
    # The font it names lies on a server; any monospaced one will do.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    output.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
