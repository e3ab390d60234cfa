"""Subcommands of `harness`: one file each, with `HELP`, `add(parser)` and the steps in order. The folder is the registry."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def names() -> tuple[str, ...]:
    """The subcommands there are, by file."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__)))


def get(name: str) -> ModuleType:
    """The module of one subcommand."""
    return importlib.import_module(f"harness.commands.{name}")
