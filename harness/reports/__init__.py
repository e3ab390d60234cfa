"""Report formats, one file each: `NAME` and `render(run, judgement, *, width, color, given) -> str`.

The folder is the registry.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

_NOT_FORMATS = {"metric_parts", "parts"}


def formats() -> dict[str, ModuleType]:
    """The formats there are, by the name that `--format` takes."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in _NOT_FORMATS)
    modules = [importlib.import_module(f"{__name__}.{n}") for n in names]
    return {m.NAME: m for m in modules}
