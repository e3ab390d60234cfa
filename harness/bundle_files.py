"""A bundle on disk: a folder, or a tar of it. Written whole or not at all; read only when every file is as noted."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import io
import json
import os
import pickle
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from harness.errors import HarnessError, UsageError

SCHEMA = 1
MANIFEST = "manifest.json"
_PIECE = 1 << 20
FILES = ("weights.pt", "moments.pt", "trace.json")
_FORM: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(
        (
            "target.name",
            "runner.name",
            "runner.device_arch",
            "checkpoint",
            "plan.api",
            "plan.precision",
            "products",
        ),
        str,
    ),
    **dict.fromkeys(("target.commit", "machine.processor", "harness.commit"), (str, type(None))),
    **dict.fromkeys(("files", "plan", "software", "vendor"), dict),
    **dict.fromkeys(("world", "steps", "next", "threads", "plan.global_batch", "plan.steps"), int),
    **dict.fromkeys(("runner.emulated", "resumes.exact"), bool),
}
"""What a manifest must hold, and of which type."""


class BundleError(HarnessError):
    """A bundle is damaged or of another schema; the message names the file."""


def check_free(bundle: Path) -> None:
    """UsageError when a bundle cannot be made there: something is there already, or its folder is not."""
    if bundle.exists() or bundle.is_symlink():
        raise UsageError(f"{bundle}: exists already; name another bundle or remove it first")
    if not bundle.absolute().parent.is_dir() or not os.access(bundle.absolute().parent, os.W_OK):
        raise UsageError(f"{bundle}: {bundle.absolute().parent} is no folder that can be written to")


@contextlib.contextmanager
def aside(bundle: Path) -> Iterator[Path]:
    """An empty folder beside the bundle's final name, gone at the end."""
    folder = bundle.absolute().with_name(f".{bundle.name}-{os.getpid()}")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def seal(folder: Path, bundle: Path, manifest: Mapping[str, Any]) -> None:
    """Makes the folder the bundle: notes its files' hashes, flushes all to disk, gives it its name.

    UsageError when the name was taken meanwhile.
    """
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            files[path.relative_to(folder).as_posix()] = _noted(file)
            os.fsync(file.fileno())
    text = json.dumps({"bundle": SCHEMA, **manifest, "files": files}, indent=1)
    with (folder / MANIFEST).open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    check_free(bundle)
    if bundle.suffix == ".tar":
        packed = bundle.absolute().with_name(f".{bundle.name}-{os.getpid()}.part")
        try:
            with packed.open("wb") as raw:
                with tarfile.open(fileobj=raw, mode="w") as tar:
                    for name in (MANIFEST, *files):
                        tar.add(folder / name, arcname=name)
                raw.flush()
                os.fsync(raw.fileno())
            try:
                os.link(packed, bundle)  # never over another's
            except FileExistsError:
                check_free(bundle)
        finally:
            packed.unlink(missing_ok=True)
    else:
        for inner in [folder, *(p for p in folder.rglob("*") if p.is_dir())]:
            _flush(inner)
        folder.rename(bundle.absolute())
    _flush(bundle.absolute().parent)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _noted(file: IO[bytes], copy: IO[bytes] | None = None) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    while piece := file.read(_PIECE):
        digest.update(piece)
        size += len(piece)
        if copy is not None:
            copy.write(piece)
    return {"sha256": digest.hexdigest(), "bytes": size}


def read(bundle: Path, into: Path | None = None) -> dict[str, Any]:
    """The manifest of a bundle whose every file is as it says; the files are copied to `into` as they are read.

    BundleError names what is damaged, missing or not the bundle's own; UsageError when it is no bundle at all.
    """
    if not bundle.exists():
        raise UsageError(f"{bundle}: is not there; name a bundle made by `harness checkpoint pack`")
    with _opened(bundle) as entries:
        if MANIFEST not in entries:
            raise BundleError(f"{bundle}: {MANIFEST} is missing; name a bundle that is whole")
        try:
            with entries[MANIFEST]() as file:
                data = file.read()
        except (OSError, tarfile.TarError) as error:
            raise BundleError(f"{bundle}: {MANIFEST} cannot be read ({error}); copy it again") from None
        manifest = _parsed(bundle, data)
        files = manifest["files"]
        for name in sorted(entries.keys() - files.keys() - {MANIFEST}):
            raise BundleError(f"{bundle}: {name} is not among the files of {MANIFEST}; pack it again")
        for name, noted in files.items():
            if name not in entries:
                raise BundleError(f"{bundle}: {name} is missing; copy the bundle again")
            _take(bundle, name, entries[name], noted, into)
    return manifest


def _take(bundle: Path, name: str, entry: Any, noted: Mapping[str, Any], into: Path | None) -> None:
    with contextlib.ExitStack() as stack:
        copy = None
        if into is not None:
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            copy = stack.enter_context((into / name).open("wb"))
        try:
            found = _noted(stack.enter_context(entry()), copy)
        except (OSError, tarfile.TarError) as error:
            raise BundleError(f"{bundle}: {name} cannot be read ({error}); copy the bundle again") from None
    if found["bytes"] != noted["bytes"]:
        how = "cut short" if found["bytes"] < noted["bytes"] else "too long"
        raise BundleError(
            f"{bundle}: {name} is {how}: {found['bytes']} of {noted['bytes']} bytes; copy the bundle again"
        )
    if found["sha256"] != noted["sha256"]:
        raise BundleError(f"{bundle}: {name} is altered: its SHA-256 is not the one noted; copy it again")


def _parsed(bundle: Path, data: bytes) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(data)
        schema = manifest["bundle"]
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{bundle}: {MANIFEST} cannot be read ({error!r}); copy it again") from None
    if schema != SCHEMA:
        raise BundleError(
            f"{bundle}: {MANIFEST} has schema {schema}, this harness reads {SCHEMA}; use the one that packed it"
        )
    try:
        for key, kind in _FORM.items():
            value: Any = manifest
            for part in key.split("."):
                value = value[part]
            if not isinstance(value, kind):
                raise TypeError(f"{key} is {value!r}")
        files = manifest["files"]
        needed = [*FILES, *(f"{folder}/" for folder in ("data", manifest["checkpoint"]))]
        if lacks := [
            n for n in needed if not any(f == n or (n[-1] == "/" and f.startswith(n)) for f in files)
        ]:
            raise KeyError(lacks[0])
        for name, noted in files.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or path.as_posix() != name:
                raise ValueError(f"{name!r} is no file of a bundle")
            if not (isinstance(noted["bytes"], int) and isinstance(noted["sha256"], str)):
                raise TypeError(f"{name}: {noted!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"{bundle}: {MANIFEST} is not in order ({error!r}); copy it again") from None
    return manifest


@contextlib.contextmanager
def _opened(bundle: Path) -> Iterator[dict[str, Any]]:
    """Every entry by its name, as something that opens it; nothing is unpacked."""
    if bundle.is_dir():
        entries: dict[str, Any] = {}
        for path in sorted(bundle.rglob("*")):
            name = path.relative_to(bundle).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise BundleError(f"{bundle}: {name} is no plain file; pack it again")
            if path.is_file():
                entries[name] = functools.partial(path.open, "rb")
        yield entries
        return
    with contextlib.ExitStack() as stack:
        try:
            tar = stack.enter_context(tarfile.open(bundle, mode="r:"))
            members = tar.getmembers()
        except (tarfile.TarError, OSError) as error:
            raise BundleError(f"{bundle}: is no whole tar ({error}); copy the bundle again") from None
        found: dict[str, Any] = {}
        for member in members:
            if not member.isfile() or member.name in found:
                raise BundleError(f"{bundle}: {member.name} is no plain file; pack it again")
            found[member.name] = functools.partial(tar.extractfile, member)
        yield found


_PLAIN = {
    *((f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")),
    *((f"numpy.{core}.multiarray", "scalar") for core in ("core", "_core")),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


_FOREIGN = (
    *(pickle.UnpicklingError, zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *(AttributeError, ImportError, IndexError, KeyError, TypeError, ValueError),
)
"""What an unpickler raises on foreign bytes."""


class _PlainOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PLAIN:
            raise pickle.UnpicklingError(f"asks for {module}.{name}")
        return super().find_class(module, name)


def check_plain(folder: Path) -> None:
    """BundleError for a data file that would run code when read: annotations are pickles, in VITRA's own format."""
    for path in sorted(folder.rglob("*.np[yz]")):
        try:
            if path.suffix == ".npz":
                with zipfile.ZipFile(path) as archive:
                    for member in archive.namelist():
                        _check_array(archive.read(member))
            else:
                _check_array(path.read_bytes())
        except _FOREIGN as error:
            raise BundleError(f"{path.name}: holds more than plain arrays ({error}); do not use it") from None


def _check_array(data: bytes) -> None:
    npy: Any = importlib.import_module("numpy.lib.format")
    file = io.BytesIO(data)
    version = npy.read_magic(file)
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    if header(file)[2].hasobject:
        _PlainOnly(file).load()
