"""The base of a comparison: another revision of the target, another checkout of it, or the target without its defect."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from harness.errors import TargetUnavailable, UsageError
from harness.targets import base, checkout
from harness.targets.base import TargetSpec

CLEAN = "clean"
"""The word for the target as it is, without the planted defect."""
LIMIT_S = 300.0


def locate_base(asked: str, head: TargetSpec, say: Callable[[str], None]) -> TargetSpec:
    """The target that `--base` names, beside the head; UsageError in one line when it names none.

    A folder is a checkout of the target; any other word is a revision of the head's own checkout, and becomes a worktree
    of it in the cache. A defect is planted in the head alone.
    """
    if asked == CLEAN:
        return dataclasses.replace(head, defect=None)
    if head.path is None:
        raise UsageError(
            f"--base {asked}: the target {head.name} is part of the harness and has no revisions; its base is the word "
            f"{CLEAN}: with --defect NAME it is the target without the defect"
        )
    folder = Path(asked).expanduser()
    if folder.exists():
        return _located(asked, head, folder.resolve(), say)
    return _located(asked, head, _worktree(asked, head, Path(head.path), say), say)


def _located(asked: str, head: TargetSpec, folder: Path, say: Callable[[str], None]) -> TargetSpec:
    try:
        return base.locate(head.name, str(folder), head.patches, clone=False, say=say)
    except TargetUnavailable as error:
        # Its own words name the option that this path was not given by.
        why = str(error).partition(": ")[2].partition(";")[0]
        raise UsageError(
            f"--base {asked}: {why or error}; name a folder of a checkout, or a git revision"
        ) from None


def _worktree(asked: str, head: TargetSpec, source: Path, say: Callable[[str], None]) -> Path:
    """The folder of a worktree of that revision, named by its commit; made unless it is there."""
    if head.commit is None:
        raise UsageError(
            f"--base {asked}: no such folder, and no revision either: {source} is no git checkout; name the folder of "
            f"a checkout of {head.name}"
        )
    commit = (
        None if asked.startswith("-") else _git(source, "rev-parse", "--verify", "-q", f"{asked}^{{commit}}")
    )
    if commit is None:
        raise UsageError(
            f"--base {asked}: no such folder, and no such revision in {source}; fetch it there, or name the folder of "
            f"a checkout of {head.name}"
        )
    folder = checkout.cache_folder() / "targets" / f"{head.name}-at-{commit[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{folder}.lock", timeout=LIMIT_S):
            if checkout.state(folder)[0] != commit:
                say(f"{head.name} {commit[:12]} ({asked}) becomes a worktree in {folder}")
                shutil.rmtree(folder, ignore_errors=True)  # a half one
                # Forced: git may still know an earlier worktree of that name.
                _git_or_fail(asked, source, "worktree", "add", "--force", "--detach", str(folder), commit)
    except Timeout:
        raise UsageError(
            f"--base {asked}: another process has been making {folder} for {LIMIT_S:.0f} s; end it, and run again"
        ) from None
    return folder


def _git(folder: Path, *words: str) -> str | None:
    """What git prints; None when it says no."""
    done = _run(folder, *words)
    return done.stdout.strip() if done.returncode == 0 else None


def _git_or_fail(asked: str, folder: Path, *words: str) -> None:
    done = _run(folder, *words)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UsageError(
            f"--base {asked}: git {words[0]} {words[1]} in {folder}: {last}; mend that, and run again"
        )


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # A hook or a variable of the caller's own repository must not reach in.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return subprocess.run(
        ["git", "-C", str(folder), *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**environment, "GIT_TERMINAL_PROMPT": "0"},
    )
