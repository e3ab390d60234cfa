"""Sessions: one for each kind of machine (`nox -s cpu`), and tests, lint, types for the harness itself."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from harness import runners  # noqa: E402 - standard library only; needs the path above

nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "tests"]

TORCH = "2.13.0"
TORCHVISION = "0.28.0"
INDEX = "HARNESS_TORCH_INDEX"
"""Names the index that torch's wheels come from, for example PyTorch's own CPU index."""


def _install(session: nox.Session, extras: str, torch_build: str | None) -> None:
    """Installs what the session needs, unless this environment was made from the same list already."""
    wanted = [
        (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
        Path(__file__).read_text(encoding="utf-8"),
        extras,
        str(torch_build),
        os.environ.get(INDEX, ""),
        sys.version,
    ]
    digest = hashlib.sha256("\0".join(wanted).encode()).hexdigest()
    stamp = Path(session.virtualenv.location) / "installed"
    if stamp.is_file() and stamp.read_text() == digest:
        session.log("environment is up to date")
        return
    stamp.unlink(missing_ok=True)
    session.log("building the environment (one to three minutes; kept for the next time)")
    if torch_build is not None:
        session.log(f"1 of 3: torch {TORCH}, {torch_build} build")
        _install_torch(session, torch_build)
    session.log(f"2 of 3: the harness with what it needs for: {extras}")
    session.install("-qq", "-e", f".[{extras}]", silent=False)
    if "vitra" in extras:
        session.log("3 of 3: torchvision and timm")
        # timm asks for any torch and torchvision; theirs must not replace the one just chosen.
        session.install("-qq", "--no-deps", f"torchvision=={TORCHVISION}", "timm==0.9.10", silent=False)
    stamp.write_text(digest)


def _install_torch(session: nox.Session, build: str) -> None:
    """The runner's build of torch where an index has it; else the index's own choice, and says so."""
    index = os.environ.get(INDEX)
    if index:
        session.install("-q", f"torch=={TORCH}", "--index-url", index, silent=False)
        return
    try:
        session.install("-q", f"torch=={TORCH}+{build}", silent=True)
    except nox.command.CommandFailed:
        session.warn(
            f"the configured package index has no {build} build of torch {TORCH}: taking its default build, which "
            f"may be gigabytes larger; name another wheel index in {INDEX} to avoid that"
        )
        session.install("-q", f"torch=={TORCH}", silent=False)


def _suites(session: nox.Session, runner: str) -> None:
    """The main job: suites, then the report; the session ends with the report's exit status."""
    build = runners.get(runner).torch_build
    _install(session, "suites,vitra", build)
    arguments = list(session.posargs)
    place = next((i for i, a in enumerate(arguments) if a.partition("=")[0] == "--run-dir"), None)
    if place is None:
        now = datetime.now(timezone.utc)
        folder = f"runs/{now:%Y%m%d-%H%M%S}-{runner}-{os.urandom(3).hex()}"
        arguments += ["--run-dir", folder]
    else:
        folder = "=".join(arguments[place].split("=")[1:]) or "".join(arguments[place + 1 : place + 2])
    named = any(a.startswith("suites") and Path(a.partition("::")[0]).exists() for a in arguments)
    workers = str(min(8, os.cpu_count() or 1))
    parallel = any(re.match(r"(-n(\d+|auto)?|--numprocesses.*)$", a) for a in arguments)
    command = [f"{session.bin}/python", "-m", "pytest", "-p", "harness.plugin", "--runner", runner]
    command += ["--tb=no", "-q", "-r", "N", *([] if parallel else ["-n", workers, "--dist", "loadgroup"])]
    command += [*([] if named else ["suites"]), *arguments]
    session.log(shlex.join(command[1:]))
    # Unbuffered: progress is seen in a CI's log as well. Whatever pytest ends with, also a signal, the report tells.
    done = subprocess.run(command, env={**os.environ, "PYTHONUNBUFFERED": "1"}, check=False)
    if done.returncode == 4 or not Path(folder, "run.json").is_file():
        _leave(session, 2, "pytest did not start; its message is above")
    for form, name in (("markdown", "report.md"), ("json", "report.json")):
        _report(session, folder, "--format", form, "--output", f"{folder}/{name}")
    status = _report(session, folder)
    print(f"report: {folder}/report.md", flush=True)
    if status:
        _leave(session, status, {1: "red", 3: "no verdict"}.get(status, "the report could not be made"))


def _report(session: nox.Session, *words: str) -> int:
    """The exit status of `harness report`; its output goes where this process's goes."""
    return subprocess.run(
        [f"{session.bin}/python", "-m", "harness.cli", "report", *words], check=False
    ).returncode


def _leave(session: nox.Session, status: int, why: str) -> None:
    """Ends the session as failed; a session run by itself ends nox with the report's own exit status."""
    chosen = [a for a in sys.argv if a in runners.names()]
    if len(chosen) == 1 and status in (2, 3):
        session.warn(f"{why} (exit status {status})")
        raise SystemExit(status)
    session.error(f"{why} (exit status {status})")


def _register(name: str) -> None:
    def job(session: nox.Session) -> None:
        _suites(session, name)

    job.__doc__ = f"The suites on the runner `{name}`, then the report. What follows -- goes to pytest."
    nox.session(name=name, default=False)(job)


for _name in runners.names():
    _register(_name)


@nox.session
def tests(session: nox.Session) -> None:
    """The harness's own tests. What follows -- goes to pytest."""
    _install(session, "suites,vitra,dev", runners.get("cpu").torch_build)
    session.run("python", "-m", "pytest", *(session.posargs or ["tests"]))


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting and lint."""
    session.install("ruff>=0.8")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types of `harness/`, strictly."""
    session.install("mypy>=1.13", "types-psutil", "pytest", "rich", "platformdirs", "filelock", "hypothesis")
    session.run("mypy")
