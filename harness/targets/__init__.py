"""Targets: one file for each code base under test. The folder is the registry."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from harness.errors import UsageError

_NOT_TARGETS = {
    "base",
    "checkout",
    "standins",
    "training",
    "vitra_training",
    "reference_training",
    "reference_model",
}


def names() -> tuple[str, ...]:
    """The targets there are, by file."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in _NOT_TARGETS))


def module(name: str) -> ModuleType:
    """The module of a target: `locate(path, ...)`, `load(spec)` and `PATCHES`; UsageError for an unknown name."""
    if name not in names():
        raise UsageError(f"--target {name}: no such target; there are: {', '.join(names())}")
    return importlib.import_module(f"harness.targets.{name}")
