"""Imports modules for trial, one after the other, and prints how that went. A program of its own: standard library only."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

MARK = "harness-doctor-imports: "


def main(modules: list[str]) -> None:
    """Prints MARK and an object: empty by module that could be imported, else the error in one line."""
    # The folder of a program stands first in its path, and modules of the harness may have names of the library's.
    own = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if Path(p).resolve() != own]
    told = {}
    for name in modules:
        try:
            importlib.import_module(name)
            told[name] = ""
        except BaseException as error:  # noqa: BLE001 - whatever ends an import is the answer
            told[name] = " ".join(f"{type(error).__name__}: {error}".split())[:300] or "failed"
    sys.stdout.write(f"\n{MARK}{json.dumps(told)}\n")
    sys.stdout.flush()
    os._exit(0)  # libraries that hang while they are torn down have nothing to add


if __name__ == "__main__":
    main(sys.argv[1:])
