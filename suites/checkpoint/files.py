"""A checkpoint's files read, told apart, copied and damaged without the target's code."""

from __future__ import annotations

import io
import os
import pickletools
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.targets import states, training

WEIGHTS, OPTIMIZER = "weights.pt", "optimizer.pt"


def told(tensor: Any) -> str:
    """Type, shape and digest of a tensor: equal texts are equal bits."""
    kind = str(tensor.dtype).removeprefix("torch.")
    return f"{kind}{list(tensor.shape)} {states.digest([tensor])}"


def table(weights: Any, moments: Any) -> dict[str, Any]:
    """A state as texts: {"weights": {name: text}, "moments": {name: {moment: text}}}."""
    return {
        "weights": {n: told(w) for n, w in weights.items()},
        "moments": {n: {m: told(v) for m, v in by.items()} for n, by in moments.items() if by},
    }


def content(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """The state that a checkpoint's files hold, as `table` tells it; raises where they cannot be read.

    Of the weights those with the given names: files also hold buffers, and shared weights under each of their names.
    """
    import torch

    weights = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
    moments = torch.load(folder / OPTIMIZER, map_location="cpu", weights_only=True)["state"]
    found = {
        training.plain(n): {m: by[m] for m in states.MOMENTS if m in by}
        for n, by in moments.items()
        if isinstance(n, str)
    }
    plain = {training.plain(n): w for n, w in weights.items()}
    return table({n: plain[n] for n in names if n in plain}, found)


def described(folder: Path) -> dict[str, dict[str, Any]]:
    """Of each of torch's files in a folder: where its tensors say they lie, what it names, and why it does not load."""
    import torch

    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.pt")):
        places: set[str] = set()

        def place(storage: Any, location: str, places: set[str] = places) -> Any:
            places.add(location)
            return storage

        error = None
        try:
            torch.load(path, map_location=place, weights_only=True)
            torch.load(path, map_location="cpu", weights_only=True)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is the answer
            error = f"{type(failure).__name__}: {failure}"
        found[path.name] = {"places": sorted(places), "names": names(path), "error": error}
    return found


def names(path: Path) -> list[str]:
    """What a file's pickle would import, as `module name`."""
    with zipfile.ZipFile(path) as archive:
        inner = next(n for n in archive.namelist() if n.endswith("/data.pkl"))
        data = archive.read(inner)
    found = set()
    for code, argument, _ in pickletools.genops(io.BytesIO(data)):
        if code.name == "GLOBAL":
            found.add(str(argument))
        elif code.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
            found.add(code.name)
    return sorted(found)


def link(source: Path, target: Path) -> Path:
    """A copy of a folder whose files share their bytes with the first; a file to be altered is written anew."""
    shutil.copytree(source, target, copy_function=os.link)
    return target


def link_into(folder: Path, root: Path, target: Path) -> Path:
    """A checkpoint at the same place below `target` as it has below `root`."""
    place = target / folder.relative_to(root)
    place.parent.mkdir(parents=True, exist_ok=True)
    return link(folder, place)


def damage(folder: Path, name: str) -> None:
    """Damages one file of a checkpoint that `link` made."""
    import torch

    file, _, how = name.partition("-")
    path = folder / f"{file}.pt"
    data = path.read_bytes()
    path.unlink()
    if how == "missing":
        return
    if how in ("shape", "name"):
        held = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        entries = held["state"] if file == "optimizer" else held
        chosen = sorted(n for n in entries if isinstance(n, str) and n.endswith("weight"))[0]
        if how == "name":
            del entries[chosen]
        else:
            entries[chosen] = entries[chosen][:-1].clone()
        torch.save(held, path)
        return
    changed = bytearray(data)
    if how == "bit":
        changed[len(changed) // 2] ^= 0x10
    path.write_bytes({"cut": changed[: len(changed) * 3 // 5], "empty": b"", "bit": changed}[how])


def half_written(folder: Path) -> None:
    """Leaves of a checkpoint that `link` made what stood there half way: the first files written, the last of them cut."""
    written = sorted((p for p in folder.iterdir() if p.is_file()), key=lambda p: p.stat().st_mtime_ns)
    kept = written[: (len(written) + 1) // 2]
    for path in written[len(kept) :]:
        path.unlink()
    data = kept[-1].read_bytes()
    kept[-1].unlink()
    kept[-1].write_bytes(data[: len(data) // 2])
