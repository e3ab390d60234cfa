"""Where a store lies: a folder, or what fsspec knows (`s3://...`); lists, reads footers, publishes whole files."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import harness.history.holdings as holdings
from harness.errors import UsageError
from harness.history.holdings import File, Held
from harness.history.rows import SCHEMA

TRIES = 20
STALE_S = 24 * 3600
TEMPORARY = "harness-history-"
NEEDED = ("duckdb", "fsspec", "numpy", "ruptures", "s3fs", "scipy")
"""Packages of the extra `history`."""


class StoreError(UsageError):
    """The store, or a file in it, cannot be read or written."""


def reached(step: str) -> None:
    """A step is done; tests end the process here."""


def nonce() -> str:
    """16 hex digits that no other file has."""
    return secrets.token_hex(8)


def default_place() -> str:
    """The user's data folder, where a store lies without `--store`."""
    from platformdirs import user_data_path

    return str(user_data_path("vitra-harness", appauthor=False) / "history")


class Place:
    """A store's place. `text`: a path, or a URL of a protocol that fsspec knows."""

    def __init__(self, text: str) -> None:
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise UsageError(
                f"history needs packages that are not here: python -m pip install {' '.join(missing)}"
            )
        import duckdb
        import fsspec
        from fsspec.implementations.local import LocalFileSystem

        self.text = text
        if set("*?[") & set(text):
            raise UsageError(f"--store {text}: a store's place has none of * ? [ in its name; name another")
        try:
            self.fs, root = fsspec.core.url_to_fs(text)
        except (ImportError, ValueError) as error:
            raise UsageError(
                f"--store {text}: {error}; name a folder or a URL such as s3://bucket/prefix"
            ) from None
        self.root = str(root).rstrip("/")
        self.local = isinstance(self.fs, LocalFileSystem)
        self._duckdb = duckdb
        self.errors: tuple[type[BaseException], ...] = (duckdb.Error, OSError)

    def connect(self, **config: str | int) -> Any:
        """A DuckDB connection that reads this place; it loads no extension and asks no network of its own accord."""
        settings: dict[str, str | int] = {"autoinstall_known_extensions": "false", **config}
        connection = self._duckdb.connect(config=settings)
        connection.execute("SET enable_progress_bar = false")  # it would stand among the data on stdout
        connection.execute("SET parquet_metadata_cache = true")  # a file never changes: footers are read once
        if not self.local:
            connection.register_filesystem(self.fs)
        return connection

    def url(self, path: str) -> str:
        """A file below the place as DuckDB is to open it."""
        whole = f"{self.root}/{path}"
        return whole if self.local else str(self.fs.unstrip_protocol(whole))

    def files(self, connection: Any | None = None) -> list[File]:
        """Every whole file, with the runs it holds; StoreError for one that is damaged."""
        own = connection or self.connect()
        listed = self._listing()
        for attempt in range(TRIES):
            again = self._listing()
            # One listing may miss a run that moves from file to file meanwhile; two that agree do not.
            if again == listed and (found := self._with_runs(own, listed)) is not None:
                return found
            listed = again
            time.sleep(0.01 * attempt)
        raise StoreError(f"--store {self.text}: changes all the time, or a file there is damaged; try again")

    def _listing(self) -> dict[tuple[str, str], int]:
        """Sizes in bytes by runner key and name."""
        found = {}
        for path, size_bytes in self._paths():
            folder, _, name = path.rpartition("/")
            known = holdings.RUN_FILE.fullmatch(name) or holdings.COMPACTED_FILE.fullmatch(name)
            if known and folder.startswith("runner=") and "/" not in folder:
                found[folder.removeprefix("runner="), name] = size_bytes
        return found

    def _paths(self) -> Iterator[tuple[str, int]]:
        """Paths below the place, in the order of names, with sizes in bytes."""
        try:
            if self.local:
                for folder in sorted(Path(self.root).glob("runner=*")):
                    for path in sorted(folder.iterdir()):
                        with contextlib.suppress(FileNotFoundError):
                            yield f"{folder.name}/{path.name}", path.stat().st_size
                return
            self.fs.invalidate_cache()
            for path, info in sorted(self.fs.find(self.root, detail=True).items()):
                yield path.removeprefix(f"{self.root}/"), int(info["size"] or 0)
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._wrong(error) from error

    def _with_runs(self, connection: Any, listed: dict[tuple[str, str], int]) -> list[File] | None:
        """The listed files with the runs they hold; None when one has vanished meanwhile."""
        found = []
        for (runner, name), size_bytes in listed.items():
            run = holdings.run_of(name)
            if run is not None:
                found.append(File(runner, name, frozenset([run]), size_bytes))
                continue
            runs = self.footer_runs(connection, f"runner={runner}/{name}")
            if runs is None:
                return None
            found.append(File(runner, name, runs, size_bytes))
        return found

    def footer_runs(self, connection: Any, path: str) -> frozenset[Held] | None:
        """The runs that a compacted file's footer names; None when it is gone, StoreError when it is damaged."""
        wrong: tuple[type[BaseException], ...] = (*self.errors, ValueError, LookupError, TypeError)
        try:
            rows = connection.execute(
                "SELECT decode(value) FROM parquet_kv_metadata(?) WHERE decode(key) = 'harness'",
                [self.url(path)],
            ).fetchall()
            said = json.loads(rows[0][0])
            if said["schema"] > SCHEMA:
                raise StoreError(
                    f"{self.url(path)}: of schema {said['schema']}, this harness reads {SCHEMA}; use a newer one"
                )
            return frozenset(Held(r[0], int(r[1]), r[2]) for r in said["runs"])
        except wrong as error:
            if not self.exists(path):
                return None
            raise StoreError(f"{self.url(path)}: {_line(error)}; the file is damaged, move it away") from None

    def gone(self, paths: Sequence[str]) -> bool:
        """Whether one of these files is not there any more."""
        return not all(map(self.exists, paths))

    def damaged(self, connection: Any, paths: Sequence[str], error: BaseException) -> StoreError:
        """The error that names which of these files cannot be read; else the whole store's."""
        for path in paths:
            try:
                connection.execute("SELECT count(*) FROM parquet_metadata(?)", [self.url(path)])
            except self.errors as cause:
                if self.exists(path):
                    return StoreError(f"{self.url(path)}: {_line(cause)}; the file is damaged, move it away")
        return self._wrong(error)

    def exists(self, path: str) -> bool:
        """Whether a file is there now, whatever was cached."""
        self.fs.invalidate_cache()
        return bool(self.fs.exists(f"{self.root}/{path}"))

    @contextlib.contextmanager
    def draft(self, runner: str) -> Iterator[Path]:
        """A path on this machine to write a file at that `publish` then puts into the store."""
        if not self.local:
            with tempfile.TemporaryDirectory(prefix=TEMPORARY) as folder:
                yield Path(folder) / "draft"
            return
        path = Path(self.root) / f"runner={runner}" / f".draft-{nonce()}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._wrong(error) from error
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def publish(self, draft: Path, path: str) -> None:
        """Puts a finished draft into the store under a name nobody has: readers see it whole or not at all."""
        try:
            if not self.local:
                self.fs.put_file(str(draft), f"{self.root}/{path}")
                return
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            draft.rename(f"{self.root}/{path}")
            folder = os.open(Path(f"{self.root}/{path}").parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except Exception as error:
            raise self._wrong(error) from error

    def remove(self, path: str) -> None:
        """Removes a file; one that is gone already is no error."""
        try:
            if self.local:
                Path(f"{self.root}/{path}").unlink(missing_ok=True)
            else:
                with contextlib.suppress(FileNotFoundError):
                    self.fs.rm_file(f"{self.root}/{path}")
        except Exception as error:
            raise self._wrong(error) from error

    def remove_stale_drafts(self) -> None:
        """Removes what writers and sorters that were killed a day ago or earlier left; no reader looks at it."""
        drafts = Path(self.root).glob("runner=*/.draft-*") if self.local else ()
        for path in (*drafts, *Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*")):
            with contextlib.suppress(OSError):
                if time.time() - path.lstat().st_mtime > STALE_S:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _wrong(self, error: BaseException) -> StoreError:
        return StoreError(f"--store {self.text}: {_line(error)}; name a place you can read and write")


def kv_metadata(runs: Sequence[Held]) -> str:
    """What a file's footer says under the key `harness`: schema version and the runs it holds."""
    return json.dumps(
        {"schema": SCHEMA, "runs": [[r.run_id, r.started_us, r.digest] for r in sorted(runs)]},
        separators=(",", ":"),
    )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
