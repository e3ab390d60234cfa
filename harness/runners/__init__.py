"""Runners: one file for each kind of machine. The folder is the registry; other packages add theirs by entry points."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from importlib import metadata

from harness.errors import UsageError
from harness.runners.base import Decision, Machine, Runner

GROUP = "harness.runners"
"""Entry points of this group name a runner: `mykind = "package.module:RUNNER"`."""

_NOT_RUNNERS = {"base", "conformance"}
_LOOKED: dict[str, Machine] = {}


def names() -> tuple[str, ...]:
    """The kinds of machine there are: by file, then by entry point."""
    here = _ours()
    return tuple(sorted(here)) + tuple(sorted(e.name for e in _others() if e.name not in here))


def get(name: str) -> Runner:
    """The runner of that name; UsageError names those there are."""
    if name not in names():
        raise UsageError(f"--runner {name}: no such runner; there are: {', '.join(names())}")
    runner: Runner
    for point in _others():
        if point.name == name and name not in _ours():
            try:
                runner = point.load()
            except Exception as error:  # noqa: BLE001 - another package's code may raise anything
                raise UsageError(
                    f"--runner {name}: {point.value} could not be loaded: {error}; mend or remove that package"
                ) from None
            return runner
    runner = importlib.import_module(f"harness.runners.{name}").RUNNER
    return runner


def machine(name: str) -> Machine:
    """This machine as that runner sees it; looked at once a process."""
    if name not in _LOOKED:
        runner = get(name)
        seen = runner.probe(sys.executable, dict(os.environ))
        _LOOKED[name] = Machine(runner, seen, runner.decide(seen))
    return _LOOKED[name]


def look(name: str) -> Decision:
    """What that runner makes of this machine; looked at once a process."""
    return machine(name).decision


def _ours() -> set[str]:
    return {m.name for m in pkgutil.iter_modules(__path__) if m.name not in _NOT_RUNNERS and not m.ispkg}


def _others() -> list[metadata.EntryPoint]:
    return list(metadata.entry_points(group=GROUP))
