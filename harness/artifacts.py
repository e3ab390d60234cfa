"""What the jobs of a workflow left each other: where the runs of their runners lie in a folder of artifacts.

    run-RUNNER/suites      the run of the suites; run-RUNNER/preflight: the run of the preflight before it
    carried-RUNNER/suites  the same run, with what its machine told of the others' checkpoint bundles
    bundle-RUNNER/RUNNER.tar
    plan/                  plan.json, baselines/ and runners_off.toml of the commit that was tested

A folder may come from a stranger: it is data, links in it are refused, and nothing in it is ever run.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import ROOT, switched_off
from harness.errors import RunFolderError, UsageError

MOST_FILES = 200_000


@dataclass(frozen=True)
class Found:
    """`runs`: one folder for each runner that reported; `expected`: who must; `troubles`: what cannot be used, and why."""

    runs: tuple[Path, ...]
    expected: tuple[str, ...]
    troubles: tuple[str, ...]


def check_plain(folder: Path) -> None:
    """UsageError when the folder holds anything but files and folders: a link could show files of this machine."""
    if not folder.is_dir() or folder.is_symlink():
        raise UsageError(f"{folder}: no such folder; name the one that the artifacts were downloaded to")
    todo, seen = [folder], 0
    while todo:
        for path in todo.pop().iterdir():
            seen += 1
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                todo.append(path)
            elif not stat.S_ISREG(mode):
                raise UsageError(f"{path}: neither a file nor a folder; artifacts hold nothing else")
            if seen > MOST_FILES:
                raise UsageError(
                    f"{folder}: more than {MOST_FILES} files; these are no artifacts of a workflow"
                )


def find(folder: Path, judge: Callable[[Path, Path], str], expected: tuple[str, ...] = ()) -> Found:
    """The runs of a folder of artifacts; UsageError when it holds links, or its plan is damaged.

    `judge`: the status of a run by a folder of baselines.
    A run of the suites counts; where there is none, the run of a preflight that did not pass, since it says why. A
    preflight that passed says nothing of the suites: its runner did not report.
    """
    check_plain(folder)
    expected = tuple(dict.fromkeys((*expected, *_planned(folder / "plan" / "plan.json"))))
    names = {p.name.partition("-")[2] for p in folder.iterdir() if p.name.startswith(("run-", "carried-"))}
    runs, troubles = [], []
    for name in (*[n for n in expected if n in names], *sorted(names - set(expected))):
        why = []
        for place, part in (
            (f"carried-{name}", "suites"),
            (f"run-{name}", "suites"),
            (f"run-{name}", "preflight"),
        ):
            run = folder / place / part
            if not (run / "run.json").is_file():
                continue
            try:
                _check_runner(run, name)
                if part == "suites" or judge(run, baselines(folder)) != "green":
                    runs.append(run)
                    break
                why.append("the preflight passed, and the suites left no run")
            except RunFolderError as error:
                why.append(str(error))
        else:
            troubles.append(f"{name}: {why[0] if why else 'no run in it'}")
    return Found(tuple(runs), expected, tuple(troubles))


def baselines(folder: Path) -> Path:
    """What the runs are judged by: the baselines of the commit that was tested, else those of this checkout."""
    there = folder / "plan" / "baselines"
    return there if there.is_dir() else ROOT / "baselines"


def off(folder: Path) -> Path:
    """Who is switched off: by the commit that was tested, else by this checkout."""
    planned = (folder / "plan" / "plan.json").is_file()
    return (folder / "plan" if planned else ROOT) / switched_off.NAME


def bundles(folder: Path) -> dict[str, Path]:
    """The checkpoint bundles below a folder, by the runner that packed them."""
    return {p.stem: p for p in sorted(folder.rglob("*.tar")) if p.is_file() and not p.is_symlink()}


def _planned(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return ()
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        names = told["expect"]
    except (ValueError, KeyError, TypeError):
        names = None
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise UsageError(f"{path}: is no plan; write it by `harness runners --matrix --format json`")
    return tuple(names)


def _check_runner(run: Path, name: str) -> None:
    """RunFolderError when another runner made the run: one runner cannot report for another."""
    from harness import rundir

    made = rundir.load(run).header.runner.name
    if made != name:
        raise RunFolderError(f"{run}: made by runner {made}, and not by {name}")
