"""Targets: one file for each code base under test. The folder is the registry."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from harness.errors import UsageError

_HELPERS = ("training", "model", "supplies", "pairing", "checkpoints", "states")


def names() -> tuple[str, ...]:
    """The targets there are, by file."""
    found = [m.name for m in pkgutil.iter_modules(__path__)]
    return tuple(
        sorted(n for n in found if n not in {"base", "checkout", "standins"} and not n.endswith(_HELPERS))
    )


def module(name: str) -> ModuleType:
    """The module of a target: `locate(path, ...)`, `load(spec)` and `PATCHES`; UsageError for an unknown name."""
    if name not in names():
        raise UsageError(f"--target {name}: no such target; there are: {', '.join(names())}")
    return importlib.import_module(f"harness.targets.{name}")
