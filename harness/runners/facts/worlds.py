"""For the contract kit: a world that refuses to be used, and an environment for a while."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Touched(RuntimeError):
    """Something of the world was used where only the snapshot may be."""


class _Poison(dict[str, str]):
    """An environment that tells who looks at it."""

    def __init__(self, touched: list[str]) -> None:
        super().__init__()
        self._touched = touched

    def _refuse(self, *_: object, **__: object) -> Any:
        self._touched.append("os.environ")
        raise Touched("os.environ")

    __getitem__ = __contains__ = __iter__ = __len__ = get = keys = items = values = copy = _refuse


@contextlib.contextmanager
def poisoned() -> Iterator[list[str]]:
    """Makes the world refuse itself; what was touched is in the list even if the refusal was caught."""
    touched: list[str] = []

    def refusing(what: str) -> Any:
        def refuse(*_: object, **__: object) -> Any:
            touched.append(what)
            raise Touched(what)

        return refuse

    places: list[tuple[Any, str]] = [
        (builtins, "open"),
        (io, "open"),
        (subprocess, "Popen"),
        (socket, "socket"),
    ]
    places += [
        (os, n) for n in ("open", "getenv", "listdir", "scandir", "stat", "access", "system", "getuid")
    ]
    places += [(os, n) for n in ("uname", "sysconf", "getgroups")] + [(shutil, "which")]
    # On Python 3.10 a path keeps its own references to open and stat.
    places += [(Path, n) for n in ("open", "read_text", "read_bytes", "exists", "stat", "iterdir", "glob")]
    places += [(time, n) for n in ("time", "monotonic", "perf_counter", "sleep")]
    new = [(place, name, refusing(f"{place.__name__}.{name}")) for place, name in places]
    new.append((os, "environ", _Poison(touched)))
    before = [(place, name, getattr(place, name)) for place, name, _ in new]
    try:
        for place, name, value in new:
            setattr(place, name, value)
        yield touched
    finally:
        for place, name, value in before:
            setattr(place, name, value)


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """This process's environment, replaced for a while."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
