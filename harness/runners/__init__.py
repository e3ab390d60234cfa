"""Runners: one file for each kind of machine. The folder is the registry."""

from __future__ import annotations

import importlib
import pkgutil

from harness.errors import UsageError
from harness.runners.base import Runner

_NOT_RUNNERS = {"base", "conformance"}


def names() -> tuple[str, ...]:
    """The kinds of machine there are, by file."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in _NOT_RUNNERS))


def get(name: str) -> Runner:
    """The runner of that name; UsageError names those there are."""
    if name not in names():
        raise UsageError(f"--runner {name}: no such runner; there are: {', '.join(names())}")
    runner: Runner = importlib.import_module(f"harness.runners.{name}").RUNNER
    return runner
