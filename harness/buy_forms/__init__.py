"""Forms of a buyer's page, one file each: `render(page, *, width, color) -> str`, pure.

The folder is the registry: a form's name is its file's, without a leading `as_`.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.buying import Page


def names() -> tuple[str, ...]:
    """The names that `--format` takes, without importing a form."""
    return tuple(sorted(m.name.removeprefix("as_") for m in pkgutil.iter_modules(__path__)))


def render(name: str, page: Page, *, width: int = 110, color: bool = False) -> str:
    """The page in this form, with one line break at its end; ModuleNotFoundError when there is none of that name."""
    files = {m.name.removeprefix("as_"): m.name for m in pkgutil.iter_modules(__path__)}
    if name not in files:
        raise ModuleNotFoundError(name)
    form = importlib.import_module(f"{__name__}.{files[name]}")
    text: str = form.render(page, width=width, color=color)
    return text.rstrip("\n") + "\n"
