"""`harness history`: runs over time: add, list, show a metric, compact."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.history.query import Reader

HELP = "a metric over many runs, and where it changed"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.usage = (
        "harness history METRIC [--test PATTERN] [--runner KEY] [--last N] [--format terminal|json|csv]\n"
        "       harness history list\n"
        "       harness history add RUN...\n"
        "       harness history compact       (each with [--store PLACE])"
    )
    parser.description = (
        "Shows a metric over the runs of a store, with its changes; adds runs to the store; compacts it."
    )
    parser.add_argument("what", metavar="METRIC|list|add|compact", help="a metric to show, or what to do")
    parser.add_argument("runs", nargs="*", metavar="RUN", type=Path, help="folders of runs to add")
    parser.add_argument(
        "--store",
        metavar="PLACE",
        help="folder, or URL such as s3://bucket/prefix (default: the user's data folder)",
    )
    parser.add_argument("--test", metavar="PATTERN", help="test id, a part of it, or a pattern with * and ?")
    parser.add_argument("--runner", metavar="KEY", help="runner key, for example cpu-x86_64-1")
    parser.add_argument("--last", type=int, default=50, metavar="N", help="runs to look at (default: 50)")
    parser.add_argument("--defects", action="store_true", help="also runs of a planted defect")
    parser.add_argument("--format", choices=["terminal", "json", "csv"], default="terminal")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from harness.history import place

    options.store = options.store or place.default_place()
    if options.what == "add":
        return _add(options)
    if options.runs:
        raise UsageError(f"{options.runs[0]}: only `harness history add` takes runs")
    if options.last < 1:
        raise UsageError(f"--last {options.last}: a number of runs, 1 or more")
    return {"compact": _compact, "list": _list}.get(options.what, _show)(options)


def _add(options: argparse.Namespace) -> int:
    from harness import history

    if not options.runs:
        raise UsageError("harness history add: name the folders of the runs to add")
    for folder in options.runs:
        print(history.add(folder, options.store))
    return 0


def _compact(options: argparse.Namespace) -> int:
    from harness.history import store
    from harness.history.place import Place

    done = store.compact(Place(options.store))
    print("\n".join(done) if done else f"nothing to compact in {options.store}")
    return 0


def _list(options: argparse.Namespace) -> int:
    from harness.history import words

    reader = _read(options)
    print(words.render_list(reader.metrics()), end="")
    print(f"{reader.runs} runs in {options.store}", file=sys.stderr)
    return 0


def _show(options: argparse.Namespace) -> int:
    from harness.history import words

    reader = _read(options)
    found = reader.series(
        options.what, test=options.test, runner=options.runner, last=options.last, defects=options.defects
    )
    if not found:
        raise UsageError(_nothing(options, reader))
    width = os.get_terminal_size().columns if sys.stdout.isatty() else 100
    told = words.tell(found)
    renderers = {
        "terminal": lambda: words.render_terminal(told, width=width),
        "json": lambda: words.render_json(told) + "\n",
        "csv": lambda: words.render_csv(told),
    }
    print(renderers[options.format](), end="")
    return 0


def _read(options: argparse.Namespace) -> Reader:
    from harness.history import query

    reader = query.read(options.store)
    for problem in reader.problems:
        print(f"harness: {problem}", file=sys.stderr)
    return reader


def _nothing(options: argparse.Namespace, reader: Reader) -> str:
    import difflib

    listed = reader.metrics()
    names = sorted({m.metric for m in listed})
    if options.what not in names:
        near = difflib.get_close_matches(options.what, names, n=3) or names[:3]
        there = ", ".join(near) if near else "no metric at all"
        return f"{options.what}: no such metric in {options.store}; there are, for example: {there}"
    runners = sorted({m.runner for m in listed if m.metric == options.what})
    return (
        f"{options.what}: no value of a test that passed fits --test {options.test or '*'}, "
        f"--runner {options.runner or 'any'} (it is there on {', '.join(runners)}); --defects shows planted defects"
    )
