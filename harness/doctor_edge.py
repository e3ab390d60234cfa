"""The doctor's edge: looks at this machine, or reads and writes a recorded look. Needs no torch."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import runners
from harness.doctor import choose
from harness.doctor_child import MARK
from harness.errors import HarnessError, UsageError
from harness.runners.base import Machine
from harness.runners.facts import probe, system
from harness.runners.facts.checks_base import Surroundings
from harness.runners.facts.snapshot import Snapshot, from_json, to_json
from harness.typed import mistyped, read

CHILD = Path(__file__).with_name("doctor_child.py")
IMPORTS = ("decord", "imageio_ffmpeg", "torchvision", "transformers", "utils3d")
PACKAGES = ("torch", "torchvision", "decord", "transformers", "imageio-ffmpeg", "wandb")
PRIVATE = ("WANDB_API_KEY", "WANDB_MODE")
_LIMIT_S = 120


def find_machine(name: str | None) -> tuple[Machine, str]:
    """This machine as the named runner sees it, or the best one of those there are, and why that one."""
    if name is not None:
        machine, why = runners.machine(name), ""
    else:
        every = {n: runners.machine(n) for n in runners.names() if n != "cpu" and not runners.get(n).emulated}
        every["cpu"] = runners.machine("cpu")
        chosen, why = choose(every)
        machine = every[chosen]
    return completed(machine), why


def completed(machine: Machine) -> Machine:
    """With what the runner itself had no need to look at: torch and packages."""
    seen = machine.seen
    if seen.torch is None and importlib.util.find_spec("torch") is not None:
        seen = dataclasses.replace(seen, torch=probe.torch_here(sys.executable, dict(os.environ)))
    missing = {p: probe.package_version(p) for p in PACKAGES if p not in seen.packages}
    seen = dataclasses.replace(seen, packages={**seen.packages, **missing})
    return again(machine, seen)


def again(machine: Machine, seen: Snapshot) -> Machine:
    """The same kind of machine, decided from another look."""
    return Machine(machine.runner, seen, machine.runner.decide(seen))


def recorded_machine(snapshot: Snapshot, name: str | None) -> tuple[Machine, str]:
    """A recorded machine as the named runner, or the best one, judges it."""
    names = runners.names() if name is None else (name,)
    every = {}
    for n in names:
        runner = runners.get(n)
        try:
            every[n] = Machine(runner, snapshot, runner.decide(snapshot))
        except Exception as error:  # noqa: BLE001 - values that no machine gives may break any runner
            text = f"{type(error).__name__}: {error}"
            raise UsageError(
                f"--snapshot: runner {n} can make nothing of it ({text}); record it anew"
            ) from None
    chosen, why = (name, "") if name is not None else choose(every)
    return every[chosen], why


def collect_surroundings(target: str | None, path: str | None = None) -> Surroundings:
    """What is looked at beside the snapshot. `target` None: VITRA, or the reference where there is none."""
    name, why_not, supplies = _target(target, path)
    return Surroundings(
        imports=_imports([m for m in IMPORTS if importlib.util.find_spec(m) is not None]),
        target=name,
        target_why_not=why_not,
        supplies=supplies,
        run_free_bytes=_free(Path("runs")),
        cache_free_bytes=_free(_cache()),
        memory_available_bytes=_available(),
        variables_set={n: bool(os.environ.get(n)) for n in PRIVATE},
    )


def _target(name: str | None, path: str | None) -> tuple[str | None, str | None, tuple[str, ...]]:
    """The target's name, why it is not here, and what is supplied to it."""
    from harness import targets
    from harness.targets import base

    wanted = name or base.DEFAULT
    module = None
    try:
        # The package that the reference needs may be absent: then the doctor says so and goes on.
        module = targets.module(wanted)
        module.locate(path, clone=False, say=lambda _: None)
        return wanted, None, tuple(module.supplies())
    except UsageError:
        raise
    except HarnessError as error:
        return (wanted, str(error), ()) if name is not None else (base.FALLBACK, None, ())
    except ImportError:
        return None, None, ()  # an interpreter that lacks what looking for a target needs


def _imports(modules: Sequence[str]) -> Mapping[str, str]:
    """How importing each of them in a child went; a child that dies names none of those it did not reach."""
    if not modules:
        return {}
    try:
        done = subprocess.run(
            [sys.executable, str(CHILD), *modules],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return dict.fromkeys(modules, f"no end within {_LIMIT_S} s")
    text = done.stdout.decode(errors="replace")
    for line in reversed(text.splitlines()):
        if line.startswith(MARK):
            told: dict[str, str] = json.loads(line[len(MARK) :])
            return told
    if len(modules) == 1:
        return {modules[0]: f"the process that imported it ended with {done.returncode}"}
    # One of them ends the process: each alone tells which.
    return {m: said for m in modules for said in _imports([m]).values()}


def _cache() -> Path:
    if named := os.environ.get("HARNESS_CACHE"):
        return Path(named)
    try:
        from platformdirs import user_cache_dir
    except ImportError:
        return Path.home() / ".cache"
    return Path(user_cache_dir("vitra-harness"))


def _free(folder: Path) -> int | None:
    """Free bytes where the folder is, or would be made."""
    folder = folder.absolute()
    for place in (folder, *folder.parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None


def _available() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else None


def write_snapshot(path: Path, machine: Machine, around: Surroundings) -> None:
    """Writes what was seen; the values of variables whose names speak of secrets are left out."""
    seen = machine.seen
    kept = {k: v for k, v in seen.environment.items() if not system.SECRET.search(k)}
    told = to_json(dataclasses.replace(seen, environment=kept))
    told = {**told, "runner": machine.runner.name, "surroundings": dataclasses.asdict(around)}
    try:
        path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--save {path}: {error.strerror}; name a file you can write") from None


def read_snapshot(path: Path) -> tuple[Snapshot, Surroundings, str | None]:
    """A recorded look: snapshot, surroundings (empty where the file has none), and the runner that recorded it."""
    remedy = "record it anew with --save"
    try:
        data: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"--snapshot {path}: {error.strerror}; name a file written with --save") from None
    except (ValueError, RecursionError) as error:
        text = " ".join(str(error).split())[:200]
        raise UsageError(f"--snapshot {path}: not JSON ({text}); {remedy}") from None
    try:
        seen = from_json(data)
        around = read(Surroundings, data.get("surroundings") or {})
    except (ValueError, TypeError, AttributeError, KeyError, StopIteration, RecursionError) as error:
        text = " ".join(str(error).split())[:200]
        raise UsageError(f"--snapshot {path}: no snapshot ({text}); {remedy}") from None
    if (wrong := mistyped(seen) or mistyped(around)) is not None:
        raise UsageError(f"--snapshot {path}: {wrong[:300]}; {remedy}")
    named = data.get("runner")
    return seen, around, named if isinstance(named, str) and named in runners.names() else None
