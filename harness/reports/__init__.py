"""Report forms, one file each: `NAME` and `render(merged, *, width, color) -> str`, pure.

The folder is the registry: a form's name is its file's, without a leading `as_`.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def names() -> tuple[str, ...]:
    """The names that `--format` takes, without importing a form."""
    return tuple(sorted(m.name.removeprefix("as_") for m in pkgutil.iter_modules(__path__)))


def get(name: str) -> ModuleType:
    """The form of this name; ModuleNotFoundError when there is none."""
    files = {m.name.removeprefix("as_"): m.name for m in pkgutil.iter_modules(__path__)}
    if name not in files:
        raise ModuleNotFoundError(name)
    return importlib.import_module(f"{__name__}.{files[name]}")


def formats() -> dict[str, ModuleType]:
    """Every form by its name."""
    return {name: get(name) for name in names()}
