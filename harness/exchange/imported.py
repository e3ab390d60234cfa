"""What all imports share: looking at JSON from elsewhere, and a run folder made of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from harness import rundir
from harness.errors import UsageError
from harness.records import Header, Record, RunnerInfo, Selection, TargetInfo

RUNNER = SUITE = "imported"
T = TypeVar("T")


class ImportFault(UsageError):
    """A file that is to be imported is not what it should be; `str()` names the file and what is wrong with it."""


@dataclass(frozen=True)
class Imported:
    """One file's results. `project`: its own name for the code base, when it has one. `configuration`: what must be
    equal before two such runs may be compared. `notes`: what the file lacks, in words. `runner`: what was measured, when
    that is told; `repeats`: how often each test was run afresh."""

    tool: str
    started: datetime
    arch: str | None
    project: str | None
    commit: str | None
    dirty: bool | None
    configuration: Mapping[str, Any]
    machine: Mapping[str, Any]
    software: Mapping[str, str | None]
    records: tuple[Record, ...]
    notes: tuple[str, ...] = field(default=())
    runner: RunnerInfo | None = None
    repeats: int = 1


def read_json(path: Path) -> tuple[bytes, Any]:
    """The bytes and the value of a JSON file; ImportFault when it cannot be read or is no JSON."""
    try:
        data = path.read_bytes()
        return data, json.loads(data)
    except OSError as error:
        raise ImportFault(f"{path}: {error.strerror}; name a file that can be read") from None
    except UnicodeDecodeError:
        raise ImportFault(f"{path}: no text; name a JSON file") from None
    except json.JSONDecodeError as error:
        raise ImportFault(
            f"{path}: line {error.lineno}: {error.msg}; the file is no JSON or damaged"
        ) from None
    except RecursionError:
        raise ImportFault(f"{path}: nested too deep; the file is not of a benchmark tool") from None


def need(data: Any, key: str, kind: type[T], where: str) -> T:
    """`data[key]`, when it is there and of that kind (an int is a float, a bool is neither); ImportFault otherwise."""
    if not isinstance(data, dict):
        raise ImportFault(f"{where}: must be an object, not {data!r:.60}")
    if key not in data:
        raise ImportFault(f"{where}: {key} is missing")
    return checked(data[key], kind, f"{where}: {key}")


def checked(value: Any, kind: type[T], where: str) -> T:
    """The value when it is of that kind; ImportFault otherwise."""
    kinds = (int, float) if kind is float else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        names = {dict: "an object", list: "a list", str: "text", float: "a number", int: "a whole number"}
        raise ImportFault(f"{where} must be {names.get(kind, kind.__name__)}, not {value!r:.60}")
    if kind is not float:
        return cast(T, value)
    try:
        return cast(T, float(cast(float, value)))
    except OverflowError:
        raise ImportFault(f"{where} is too large a number: {value!r:.60}") from None


def text_or_none(data: Mapping[str, Any], *keys: str) -> str | None:
    """The first of these entries that is text with something in it."""
    return next((data[k] for k in keys if isinstance(data.get(k), str) and data[k].strip()), None)


def write_run(
    found: Imported, source: Path, data: bytes, parent: Path, project: str | None
) -> tuple[Path, bool]:
    """Makes the run folder below `parent`, and says whether it is new: the same file always gets the same id."""
    digest = hashlib.sha256(data).hexdigest()[:12]
    run_id = f"{found.started:%Y%m%d-%H%M%S}-{RUNNER}-{digest}"
    folder = parent / run_id
    if (folder / rundir.HEADER).is_file():
        header = rundir.read_header(folder)
        if header.run_id == run_id and header.finished is not None:
            return folder, False
    rundir.claim(folder)
    tests = tuple(sorted({r.test for r in found.records}))
    header = Header(
        run_id=run_id,
        started=found.started.isoformat(),
        runner=found.runner or RunnerInfo(RUNNER, _name(found.arch or "unknown"), 1, emulated=False),
        target=TargetInfo(_name(project or found.project or RUNNER), found.commit, found.dirty),
        selection=Selection((SUITE,)),
        configuration={"imported_from": found.tool, **found.configuration},
        machine=found.machine,
        software=found.software,
        harness_commit=None,
        harness_dirty=None,
        command=("harness", "import", source.name),
        planned=tests,
        exit_status=0,
        repeats=found.repeats,
    )
    rundir.write_header(folder, header)
    writer = rundir.Writer(folder, "main")
    try:
        for record in found.records:
            writer.append(record)
    finally:
        writer.close()
    rundir.update_header(folder, finished=found.started.isoformat())
    return folder, True


def fields_of(records: Sequence[Record]) -> str:
    """How much was found, in words."""
    metrics = sum(len(r.metrics) for r in records)
    samples = sum(len(m.samples) for r in records for m in r.metrics)
    return f"{len(records)} tests, {metrics} metrics, {samples} samples"


def _name(text: str) -> str:
    """The text as a name of a run folder's header: letters, digits and `_.+-`, at most 100."""
    clean = re.sub(r"[^A-Za-z0-9_.+-]+", "-", text).lstrip("_.+-")[:100]
    return clean or RUNNER
