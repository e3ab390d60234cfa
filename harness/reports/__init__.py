"""Report forms, one file each: `NAME` and `render(merged, *, width, color) -> str`, pure.

The folder is the registry: a form's name is its file's, without a leading `as_`.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.merged import Merged

FILES = {
    "annotations": "annotations.txt",
    "badge": "badge.json",
    "html": "report.html",
    "json": "report.json",
    "junit": "junit.xml",
    "markdown": "report.md",
    "pull_request": "pull_request.md",
    "summary": "summary.md",
    "terminal": "report.txt",
}
"""The file of each form in a folder of reports; a form that is not here has one of its own name."""
KEPT = ("html", "markdown", "json", "junit")
"""The forms that a session leaves in the folder of its run."""


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


def render(name: str, content: Merged, *, width: int = 110, color: bool = False) -> str:
    """The report in this form, with one line break at its end."""
    text: str = get(name).render(content, width=width, color=color)
    return text.rstrip("\n") + "\n"


def file_of(name: str) -> str:
    """The name of the file that holds this form in a folder of reports."""
    return FILES.get(name, f"{name}.txt")
