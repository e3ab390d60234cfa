"""Many runs in one store of Parquet files: add, compact, query, and where a metric changed."""

from __future__ import annotations

from pathlib import Path


def add(folder: Path, place: str) -> str:
    """Adds a run folder to the store at `place`, a folder or a URL that fsspec knows; says in one line what was done.

    Adding the same run again is told and does nothing. UsageError when another run has its id, RunFolderError when the
    run is damaged or has not ended: what is in the store stays as it is.
    """
    from harness import rundir
    from harness.errors import RunFolderError
    from harness.history import store
    from harness.history.place import Place
    from harness.history.rows import rows_of

    run = rundir.load(folder)
    if run.problems:
        raise RunFolderError(f"{folder}: {run.problems[0]}; a damaged run is not added")
    if run.header.finished is None:
        raise RunFolderError(f"{folder}: the run has not ended by itself; add it when it has")
    rows = rows_of(run)
    added = store.add_rows(Place(place), rows)
    return f"{rows.run_id}: {len(rows)} rows {'added to' if added else 'are already in'} {place}"
