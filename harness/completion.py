"""Answers a shell that completes a `harness` command: commands, options, choices, and the runs that are there.

Needs argcomplete; without it a shell completes nothing, and everything else is as before.
"""

from __future__ import annotations

import argparse
from pathlib import Path

RUNS = "runs"
"""Where runs lie that nobody placed elsewhere, below the working folder."""


def answer(parser: argparse.ArgumentParser) -> None:
    """Answers and ends the process when a shell asks; returns when none does, or when argcomplete is not installed."""
    try:
        import argcomplete
    except ImportError:
        return
    _add_completers(parser)
    argcomplete.autocomplete(parser)


def _add_completers(parser: argparse.ArgumentParser) -> None:
    """Says of each argument that names a run or a runner what there is; files are completed by themselves."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _add_completers(command)
        elif action.metavar == "RUN":
            action.completer = complete_runs  # type: ignore[attr-defined]
        elif action.metavar == "RUNNER" or ("--runner" in action.option_strings and action.metavar == "NAME"):
            action.completer = complete_runners  # type: ignore[attr-defined]


def complete_runs(prefix: str, **_: object) -> list[str]:
    """Folders of runs, the latest first; where the word begins none, any folder that it begins."""
    from harness import rundir

    place = Path(RUNS)
    runs = [p for p in place.iterdir() if (p / rundir.HEADER).is_file()] if place.is_dir() else []
    names = [str(p) for p in sorted(runs, key=lambda p: (p / rundir.HEADER).stat().st_mtime, reverse=True)]
    found = [n for n in names if n.startswith(prefix)]
    if found:
        return found
    from argcomplete.completers import DirectoriesCompleter

    return list(DirectoriesCompleter()(prefix))


def complete_runners(prefix: str, **_: object) -> list[str]:
    """The kinds of machine that this harness and the installed packages know."""
    from harness import runners

    return [n for n in runners.names() if n.startswith(prefix)]
