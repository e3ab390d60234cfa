"""Puts runs into a store and compacts it; safe at any moment against being killed and against other writers.

Proof in short (docs/history.md has it in full): files are written whole under names nobody has, readers take each run
from one file by name, and a file is removed only when later compacted files, seen whole, hold all of its runs.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness.history.holdings as holdings
from harness.errors import UsageError
from harness.history.holdings import File, Held, Part
from harness.history.place import TEMPORARY, TRIES, Place, StoreError, kv_metadata, nonce, reached
from harness.history.rows import COLUMNS, Rows

MEMORY_BYTES = 500 << 20
"""What DuckDB may use to sort; it spills to disk beyond. The process takes some 200 MB more."""
ROW_GROUP = 61440
THREADS = 2
ORDER = ("test", "metric", "started", "run_id", "repeat", "index")
TYPES = {
    "string": "VARCHAR",
    "timestamp": "TIMESTAMPTZ",
    "int32": "INTEGER",
    "bool": "BOOLEAN",
    "double": "DOUBLE",
}


def add_rows(place: Place, rows: Rows) -> bool:
    """Adds a run as a file of its own; False when the store holds it already. UsageError when another run has its id."""
    with place.connect(threads=1) as connection:
        held = Held(rows.run_id, microseconds(rows), rows.digest)
        if _is_held(place.files(connection), held):
            return False
        reached("listed")
        path = f"runner={rows.runner}/{holdings.run_name(held, nonce())}"
        with place.draft(rows.runner) as draft:
            _write(connection, rows, held, draft)
            reached("written")
            place.publish(draft, path)
        reached("published")
        try:
            _is_held(place.files(connection), held)
        except UsageError:
            # Neither is taken back: a third writer may have said of either that it is there.
            raise UsageError(
                f"{held.run_id}: another run came under this id at the same moment, and both are in the store; "
                f"move {place.url(path)} away, or the other's file"
            ) from None
        return True


def microseconds(rows: Rows) -> int:
    """The run's start, in microseconds since 1970."""
    return int(rows.started.timestamp()) * 1_000_000 + rows.started.microsecond


def _is_held(files: Sequence[File], held: Held) -> bool:
    found = {run for file in files for run in file.runs if run.run_id == held.run_id}
    if found - {held}:
        raise UsageError(
            f"{held.run_id}: the store holds another run under this id; a run is added once, when it has ended"
        )
    return bool(found)


def _write(connection: Any, rows: Rows, held: Held, draft: Path) -> None:
    """One Parquet file of one run."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="ascii") as file:
        for row in zip(*rows.columns.values(), strict=True):
            # Not-a-number has no JSON form: values go as text, which both sides read back to the last bit.
            value = {
                n: repr(v) if isinstance(v, float) else v for n, v in zip(rows.columns, row, strict=True)
            }
            value["started"] = rows.started.isoformat()
            file.write(json.dumps(value) + "\n")
        file.flush()
        read = {n: "VARCHAR" if t in ("double", "timestamp") else TYPES[t] for n, t in COLUMNS.items()}
        columns = ", ".join(f"{_quoted(n)}::{TYPES[t]} AS {_quoted(n)}" for n, t in COLUMNS.items())
        source = f"read_json({_text(file.name)}, format='newline_delimited', columns={_struct(read)})"
        connection.execute(_copy(f"SELECT {columns} FROM {source}", draft, [held]))


def compact(place: Place) -> list[str]:
    """Sorts each runner's files into fewer, larger ones and removes what they replace; says in words what was done."""
    with place.connect(threads=1) as connection:
        runners = sorted({f.runner for f in place.files(connection)})
    done = []
    for runner in runners:
        merged: set[Held] = set()
        before = len(_files(place, runner))
        failed = 0
        while (added := _compact_once(place, runner)) is not None:
            merged |= added
            failed = 0 if added else failed + 1
            if failed == TRIES:
                raise StoreError(f"--store {place.text}: other compactions go on there; try again")
        left = len(_files(place, runner))
        if merged or left < before:
            done.append(f"{runner}: {len(merged)} runs sorted, {before} files are now {left}")
    place.remove_stale_drafts()
    return done


def _compact_once(place: Place, runner: str) -> set[Held] | None:
    """One round of a runner: puts some files into one and removes what that replaces; gives the runs in it, none when
    another compaction took a source away, and None when there is nothing to gain."""
    with (
        tempfile.TemporaryDirectory(prefix=TEMPORARY) as spill,
        place.connect(memory_limit=f"{MEMORY_BYTES}B", threads=THREADS, temp_directory=spill) as connection,
    ):
        own = _files(place, runner, connection)
        reached("listed")
        sources = holdings.choose_sources(own)
        if sources and not _merge(place, connection, own, sources):
            return set()
        for file in holdings.choose_garbage(_files(place, runner, connection)):
            reached("removing")
            place.remove(file.path)
        reached("removed")
        return {run for part in sources for run in part.runs} if sources else None


def _files(place: Place, runner: str, connection: Any | None = None) -> list[File]:
    return [f for f in place.files(connection) if f.runner == runner]


def _merge(place: Place, connection: Any, files: Sequence[File], sources: Sequence[Part]) -> bool:
    """Writes the sources' runs to one new file, sorted; False, and nothing published, when a source has gone meanwhile.

    StoreError, and nothing published, when a row is missing.
    """
    runner = sources[0].file.runner
    held = sorted(run for part in sources for run in part.runs)
    source = relation(place, sources)
    path = f"runner={runner}/{holdings.compacted_name(files, nonce())}"
    with place.draft(runner) as draft:
        try:
            ordered = f"SELECT {', '.join(map(_quoted, COLUMNS))} FROM {source} ORDER BY {', '.join(map(_quoted, ORDER))}"
            connection.execute(_copy(ordered, draft, held))
            reached("sorted")
            before = _counts(connection, source)
            after = _counts(connection, f"read_parquet({_text(str(draft))}, hive_partitioning=false)")
        except place.errors as error:
            paths = [p.file.path for p in sources]
            if place.gone(paths):
                return False
            raise place.damaged(connection, paths, error) from error
        if before != after or set(after) != {r.run_id for r in held}:
            raise StoreError(
                f"--store {place.text}: rows were lost while sorting; nothing was replaced, try again"
            )
        reached("checked")
        place.publish(draft, path)
    reached("published")
    return True


def _counts(connection: Any, source: str) -> dict[str, int]:
    return dict(connection.execute(f"SELECT run_id, count(*) FROM {source} GROUP BY run_id").fetchall())


def relation(place: Place, parts: Sequence[Part]) -> str:
    """SQL that reads these runs, each once, with the column `runner`."""
    options = "hive_partitioning=true, hive_types_autocast=false, union_by_name=true"
    selects = []
    whole = [place.url(p.file.path) for p in parts if p.whole]
    if whole:
        selects.append(f"SELECT * FROM read_parquet([{', '.join(map(_text, whole))}], {options})")
    for part in parts:
        if not part.whole:
            ids = ", ".join(_text(r.run_id) for r in sorted(part.runs))
            one = f"read_parquet({_text(place.url(part.file.path))}, {options})"
            selects.append(f"SELECT * FROM {one} WHERE run_id IN ({ids})")
    if not selects:
        nulls = ", ".join(
            f"NULL::{TYPES[t]} AS {_quoted(n)}" for n, t in {**COLUMNS, "runner": "string"}.items()
        )
        return f"(SELECT {nulls} WHERE false)"
    return f"({' UNION ALL BY NAME '.join(selects)})"


def _copy(select: str, draft: Path, held: Sequence[Held]) -> str:
    options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}"
    return f"COPY ({select}) TO {_text(str(draft))} ({options}, KV_METADATA {{harness: {_text(kv_metadata(held))}}})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _struct(values: dict[str, str]) -> str:
    return "{" + ", ".join(f"{_text(n)}: {_text(v)}" for n, v in values.items()) + "}"
