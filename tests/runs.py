"""Runs pytest with the plugin in a process of its own, on the real suites or on a made-up one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness import ROOT, rundir
from harness.records import Run


@dataclass
class Done:
    """How a pytest process ended, and where its run is."""

    folder: Path
    status: int
    output: str

    @property
    def run(self) -> Run:
        return rundir.load(self.folder)


def write(folder: Path, run: Run) -> Path:
    """The run as a folder on disk."""
    rundir.claim(folder)
    rundir.write_header(folder, run.header)
    writer = rundir.Writer(folder, "main")
    for record in run.records:
        writer.append(record)
    writer.close()
    return folder


def suites(folder: Path, *options: str, variables: dict[str, str] | None = None) -> Done:
    """The real suites, with the run in `folder`."""
    return _pytest(ROOT, folder, options, variables)


def made_up(tmp_path: Path, text: str, *options: str, variables: dict[str, str] | None = None) -> Done:
    """A suite `demo` of one file with the given text, on the reference target."""
    suite = tmp_path / "suites" / "demo"
    suite.mkdir(parents=True, exist_ok=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (suite / "test_demo.py").write_text(text)
    return _pytest(tmp_path, tmp_path / "run", ("suites", "--target", "reference", *options), variables)


def command(folder: Path, *options: str) -> list[str]:
    return [
        sys.executable,
        *("-m", "pytest", "-p", "harness.plugin", "-p", "no:cacheprovider", "-q", "--tb=short"),
        *("--run-dir", str(folder), *options),
    ]


def _pytest(cwd: Path, folder: Path, options: tuple[str, ...], variables: dict[str, str] | None) -> Done:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    environment.update(variables or {})
    done = subprocess.run(
        command(folder, *options), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    return Done(folder, done.returncode, done.stdout + done.stderr)


def harness(*words: str, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The `harness` command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", *words],
        cwd=ROOT,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
