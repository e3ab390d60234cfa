"""A run folder: start, append and flush to disk, load; the only code that touches one."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.errors import RunFolderError, UsageError
from harness.pairs import Pairs, pairs_from_json, pairs_to_json
from harness.records import Header, Record, Run, header_from_json, record_from_json, to_json

HEADER = "run.json"
PAIRS = "pairs.json"
BUNDLES = "bundles"
"""Inside the folder of a run: what was told of checkpoint bundles that its machine loaded."""
BASE = "base"
"""Inside the folder of a run that was compared with a base: the run of that base."""


def create(parent: Path, runner: str, now: datetime) -> Path:
    """A new, empty folder under `parent` that no other run has or will get."""
    name = f"{now:%Y%m%d-%H%M%S}-{runner}-{secrets.token_hex(3)}"
    return claim(parent / name)


def claim(folder: Path) -> Path:
    """Makes `folder` and owns it; UsageError when it holds a run or anything else already."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"--run-dir {folder}: is a file; name a new folder") from None
    except OSError as error:
        raise UsageError(f"--run-dir {folder}: {error.strerror}; name a folder you can write to") from None
    try:
        # The exclusive creation decides when two runs claim one folder at the same moment.
        fd = os.open(folder / "claimed", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        raise UsageError(f"--run-dir {folder}: belongs to another run; name a new folder") from None
    except OSError as error:
        raise UsageError(f"--run-dir {folder}: {error.strerror}; name a folder you can write to") from None
    os.close(fd)
    others = [p.name for p in folder.iterdir() if p.name != "claimed"]
    if others:
        (folder / "claimed").unlink()
        raise UsageError(f"--run-dir {folder}: not empty ({others[0]}); name a new folder")
    (folder / "logs").mkdir()
    return folder


def write_header(folder: Path, header: Header) -> None:
    """Replaces run.json in one step, flushed to disk: a reader sees the old one or the new one."""
    _replace(folder / HEADER, json.dumps(to_json(header), indent=1, sort_keys=True) + "\n")


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def update_header(folder: Path, **changes: Any) -> Header:
    """Changes fields of the header; gives the header as it then is."""
    header = dataclasses.replace(read_header(folder), **changes)
    write_header(folder, header)
    return header


def read_header(folder: Path) -> Header:
    """The header of a run folder; RunFolderError when there is none that can be read."""
    path = folder / HEADER
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise RunFolderError(f"{folder}: no {HEADER} there; name the folder of a run") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path}: {error}") from None
    try:
        return header_from_json(json.loads(text))
    except json.JSONDecodeError as error:
        raise RunFolderError(f"{path}: line {error.lineno}: {error.msg}; the file is damaged") from None


def write_pairs(folder: Path, pairs: Pairs) -> None:
    """Replaces pairs.json in one step, flushed to disk."""
    _replace(folder / PAIRS, json.dumps(pairs_to_json(pairs), indent=1, sort_keys=True) + "\n")


def read_pairs(folder: Path) -> Pairs | None:
    """What was run to compare the run with a base, without the base's records; None when it was not compared.

    RunFolderError when the file cannot be read.
    """
    path = folder / PAIRS
    try:
        return pairs_from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: {error}; the file is damaged") from None


def set_aside(folder: Path, number: int) -> None:
    """Takes the records of one process out of the run; they stay in the folder under another name."""
    path = folder / f"records-repeat-{number}.jsonl"
    if path.exists():
        path.replace(folder / f"unused-repeat-{number}-{secrets.token_hex(3)}.jsonl")


class Writer:
    """Appends one worker's records to its own file; each record is on disk before `append` returns."""

    def __init__(self, folder: Path, worker: str) -> None:
        self.path = folder / f"records-{worker}.jsonl"
        self._fd = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def running(self, test: str) -> None:
        """Notes that a test starts, so that a process that dies is known to have died in it."""
        self._write({"type": "running", "test": test})

    def append(self, record: Record) -> None:
        self._write({"type": "record", **to_json(record)})
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, value: dict[str, Any]) -> None:
        data = (json.dumps(value, ensure_ascii=True) + "\n").encode()
        while data:  # a write to a nearly full disk may take only a part
            data = data[os.write(self._fd, data) :]


def load(folder: Path) -> Run:
    """Reads a run folder; what is wrong with its files is told in `problems`, and nothing is guessed."""
    header = read_header(folder)
    records: list[Record] = []
    running: list[str] = []
    problems: list[str] = []
    for path in sorted(folder.glob("records-*.jsonl")):
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            problems.append(f"{path.name}: {error.strerror}; its records are lost")
            continue
        open_test: str | None = None
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                data = json.loads(line)
                if data["type"] == "running":
                    open_test = str(data["test"])
                else:
                    record = record_from_json(data)
                    records.append(record)
                    open_test = None if record.test == open_test else open_test
            except (ValueError, KeyError, TypeError, RunFolderError) as error:
                last = number == len(lines)
                what = "half-written last line" if last else f"unreadable ({error})"
                problems.append(f"{path.name}: line {number}: {what}, skipped")
        if open_test is not None:
            running.append(open_test)
    pairs = _load_pairs(folder, problems)
    return Run(header, tuple(records), tuple(running), tuple(problems), pairs)


def _load_pairs(folder: Path, problems: list[str]) -> Pairs | None:
    try:
        pairs = read_pairs(folder)
        if pairs is None or not pairs.tests:
            return pairs
        base = load(folder / BASE)
    except RunFolderError as error:
        problems.append(f"comparison with the base: {error}")
        return None
    problems += [f"base: {p}" for p in base.problems]
    return dataclasses.replace(pairs, base=base)


def read_tails(folder: Path, record: Record, limit_bytes: int = 256 << 10) -> dict[str, str]:
    """The ends of a record's own logs by name, as text; a log that is gone, or is a link, is left out.

    Own are those of its launches of ranks, in folders of their own. A child's log is shared by many tests: what an
    earlier one left there must not explain this failure, whose detail holds the end of it anyway.
    """
    found = {}
    for name in record.logs:
        path = folder / name
        if name.count("/") < 2:
            continue
        try:
            if path.is_symlink() or not path.resolve().is_relative_to(folder.resolve() / "logs"):
                continue
            with path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - limit_bytes))
                found[name] = file.read(limit_bytes).decode(errors="replace")
        except OSError:
            continue
    return found


def write_bundle(folder: Path, name: str, told: dict[str, Any]) -> Path:
    """Keeps in a run what `harness checkpoint verify` told of a bundle; RunFolderError when no run is there."""
    read_header(folder)
    (folder / BUNDLES).mkdir(exist_ok=True)
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:120]
    path = folder / BUNDLES / f"{safe}.json"
    _replace(path, json.dumps(told, indent=1) + "\n")
    return path


def read_bundles(folder: Path) -> list[dict[str, Any]]:
    """What was told of bundles that the run's machine loaded; RunFolderError for a file that is none."""
    found = []
    for path in sorted((folder / BUNDLES).glob("*.json")):
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{path}: {error}; the file is damaged") from None
        if not isinstance(told, dict) or "verdict" not in told:
            raise RunFolderError(f"{path}: holds no verdict on a bundle; the file is damaged")
        found.append(told)
    return found


def log_path(folder: Path, name: str) -> Path:
    """The path of a log file in the run folder; `name` is made safe for a file name."""
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:120]
    return folder / "logs" / safe


def relative(folder: Path, paths: Sequence[Path]) -> tuple[str, ...]:
    """Log paths as they stand in a record: relative to the run folder."""
    return tuple(str(p.relative_to(folder)) for p in paths)
