"""Finds or clones a checkout of a public repository at one commit, outside this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_dir

from harness.errors import TargetUnavailable
from harness.fingerprint import collect_git


@dataclass(frozen=True)
class Source:
    """A repository: URL, commit, a file that every checkout of it has, and the variable that names a path."""

    name: str
    url: str
    commit: str
    landmark: str
    variable: str


def cache_folder() -> Path:
    """Where checkouts and made fixtures are kept; `HARNESS_CACHE` names another folder."""
    return Path(os.environ.get("HARNESS_CACHE") or user_cache_dir("vitra-harness"))


def find(
    source: Source, path: str | None, *, clone: bool, say: Callable[[str], None], limit_s: float = 300
) -> Path:
    """The folder of a checkout: the given path, else the variable's, else the cache's, else cloned there.

    TargetUnavailable in one line with the remedies when there is none.
    """
    named = path or os.environ.get(source.variable)
    if named:
        option = f"--target-path {named}" if path else f"{source.variable}={named}"
        folder = Path(named).expanduser().resolve()
        if not (folder / source.landmark).is_file():
            raise TargetUnavailable(
                f"{option}: no checkout of {source.name} there ({source.landmark} is missing); "
                f"clone {source.url} and name its folder."
            )
        return folder
    folder = cache_folder() / "targets" / f"{source.name}-{source.commit[:7]}"
    if (folder / source.landmark).is_file():
        return folder
    if not clone:
        raise TargetUnavailable(f"{source.name} is not in the cache. {_remedy(source, folder)}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(str(folder) + ".lock", timeout=limit_s):
            if not (folder / source.landmark).is_file():
                _clone(source, folder, say, limit_s)
    except Timeout:
        raise TargetUnavailable(
            f"{source.name}: another process has been cloning it for {limit_s:.0f} s. {_remedy(source, folder)}"
        ) from None
    return folder


def _remedy(source: Source, folder: Path) -> str:
    return (
        f"Clone {source.url} at {source.commit[:7]} into {folder}, or name a checkout by --target-path or "
        f"{source.variable}, or use --target reference."
    )


def _clone(source: Source, folder: Path, say: Callable[[str], None], limit_s: float) -> None:
    """One commit, no history, into a temporary folder that is renamed when whole."""
    say(f"Cloning {source.url} at {source.commit[:7]} (one commit, no history; up to {limit_s:.0f} s)")
    work = Path(tempfile.mkdtemp(prefix=f".{source.name}-", dir=folder.parent))
    steps = (
        ["init", "--quiet"],
        ["remote", "add", "origin", source.url],
        ["fetch", "--progress", "--depth", "1", "origin", source.commit],
        ["checkout", "--quiet", "--detach", "FETCH_HEAD"],
    )
    # A prompt for a password would wait for ever.
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        for step in steps:
            try:
                done = subprocess.run(
                    ["git", "-C", str(work), *step],
                    env=environment,
                    timeout=limit_s,
                    stdin=subprocess.DEVNULL,
                    stderr=sys.__stderr__ if step[0] == "fetch" else subprocess.PIPE,
                    check=False,
                )
            except FileNotFoundError:
                raise TargetUnavailable(
                    f"{source.name} cannot be cloned: git is not installed. {_remedy(source, folder)}"
                ) from None
            except subprocess.TimeoutExpired:
                raise TargetUnavailable(
                    f"{source.name}: cloning took more than {limit_s:.0f} s. {_remedy(source, folder)}"
                ) from None
            if done.returncode != 0:
                raise TargetUnavailable(
                    f"{source.name} cannot be cloned (git {step[0]} ended with {done.returncode}; offline?). "
                    f"{_remedy(source, folder)}"
                )
        work.replace(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def state(folder: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout and whether it is dirty; (None, None) when it is no git checkout."""
    return collect_git(folder)
