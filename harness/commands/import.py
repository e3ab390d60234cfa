"""`harness import`: results of pytest-benchmark or asv as run folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness import ROOT

if TYPE_CHECKING:
    from harness.exchange.imported import Imported

HELP = "results of pytest-benchmark or asv as runs of their own"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = (
        "Makes a run folder of each file: JSON of pytest-benchmark (3.0 and later), or of asv, whose results folder "
        "may be named whole. The same file gets the same run, which is made once."
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", type=Path, help="JSON file, or asv's results folder"
    )
    parser.add_argument(
        "--into", type=Path, default=ROOT / "runs", metavar="DIR", help="where runs go (default: runs)"
    )
    parser.add_argument(
        "--project", metavar="NAME", help="name of the code base (default: what the file says)"
    )
    parser.add_argument("--store", metavar="PLACE", help="also add the runs to this history store")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from harness import history
    from harness.exchange.imported import fields_of, write_run

    # Read all before anything is written: one bad file leaves nothing half done.
    found = list(_read(options.files))
    for path, data, imported in found:
        folder, new = write_run(imported, path, data, options.into, options.project)
        done = fields_of(imported.records) if new else "there already"
        print(f"{folder}: {done}")
        for note in imported.notes if new else ():
            print(f"harness: {path}: {note}", file=sys.stderr)
        if options.store:
            print(history.add(folder, options.store))
    return 0


def _read(paths: list[Path]) -> Iterator[tuple[Path, bytes, Imported]]:
    from harness.exchange import asv, pytest_benchmark
    from harness.exchange.imported import ImportFault, read_json

    for path in paths:
        files = asv.find_files(path) if path.is_dir() else [path]
        if not files:
            raise ImportFault(f"{path}: holds no JSON file; name asv's results folder or a file")
        for file in files:
            data, value = read_json(file)
            if pytest_benchmark.is_mine(value):
                yield file, data, pytest_benchmark.read(value, file)
            elif asv.is_mine(value):
                yield file, data, asv.read(value, file, asv.read_units(file))
            else:
                raise ImportFault(f"{file}: neither of pytest-benchmark (benchmarks) nor of asv (results)")
