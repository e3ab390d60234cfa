"""`harness import`: results of pytest-benchmark, asv or vLLM's serving benchmark as run folders."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness import ROOT
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.exchange.imported import Imported

HELP = "results of pytest-benchmark, asv or vllm bench serve as runs of their own"
SERVING = "vllm-bench"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = (
        "Makes a run folder of each file: JSON of pytest-benchmark (3.0 and later), or of asv, whose results folder "
        "may be named whole. After the word vllm-bench all files are of one machine and become one run: JSON that "
        "`vllm bench serve --save-result` writes, of any version, several of one workload as repeats. "
        "The same file gets the same run, which is made once."
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        type=Path,
        help="JSON file, or asv's results folder; before files of vLLM's serving benchmark the word vllm-bench",
    )
    parser.add_argument(
        "--into", type=Path, default=ROOT / "runs", metavar="DIR", help="where runs go (default: runs)"
    )
    parser.add_argument(
        "--project", metavar="NAME", help="name of the code base (default: what the file says)"
    )
    serving = parser.add_argument_group("vllm-bench", "what its files do not say, and a cost needs")
    serving.add_argument("--runner", metavar="NAME", help="the kind of machine (default: imported)")
    serving.add_argument("--device", metavar="ARCH", help="architecture of its devices (default: unknown)")
    serving.add_argument(
        "--devices", type=int, metavar="N", help="how many devices served (default: unknown)"
    )
    serving.add_argument("--dataset", metavar="NAME", help="the data set of the requests (default: unknown)")
    parser.add_argument("--store", metavar="PLACE", help="also add the runs to this history store")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from harness import history
    from harness.exchange.imported import fields_of, write_run

    # Read all before anything is written: one bad file leaves nothing half done.
    if str(options.files[0]) == SERVING:
        found = [_read_serving(options)]
    else:
        found = list(_read(options.files))
        if options.runner or options.device or options.devices or options.dataset:
            raise UsageError(
                f"--runner, --device, --devices and --dataset are for {SERVING}: write {SERVING} before the files"
            )
    for path, data, imported in found:
        folder, new = write_run(imported, path, data, options.into, options.project)
        done = fields_of(imported.records) if new else "there already"
        print(f"{folder}: {done}")
        for note in imported.notes if new else ():
            print(f"harness: {note if note.startswith(str(path)) else f'{path}: {note}'}", file=sys.stderr)
        if options.store:
            print(history.add(folder, options.store))
    return 0


def _read_serving(options: argparse.Namespace) -> tuple[Path, bytes, Imported]:
    """All files as one run: they are of one machine."""
    from harness.exchange import vllm_bench
    from harness.exchange.imported import ImportFault

    paths: list[Path] = options.files[1:]
    if not paths:
        raise UsageError(f"{SERVING}: no file; name what `vllm bench serve --save-result` saved")
    for option, word in (("--runner", options.runner), ("--device", options.device)):
        if word is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}", word):
            raise UsageError(f"{option} {word!r:.100}: write letters, digits and _.+-, as in gfx942")
    if options.devices is not None and options.devices < 1:
        raise UsageError(f"--devices {options.devices}: write how many devices served, 1 or more")
    told = vllm_bench.Told(
        options.runner or "imported",
        options.device or "unknown",
        options.devices,
        options.dataset,
        _is_emulated(options.runner),
    )
    held: list[tuple[Path, bytes]] = []
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ImportFault(f"{path}: {error.strerror}; name a file that can be read") from None
        if any(data == other for _, other in held):
            raise ImportFault(f"{path}: the same as a file before; name each once, or it would count twice")
        held.append((path, data))
    found = vllm_bench.read([(p, vllm_bench.read_objects(data, p)) for p, data in held], told)
    # What was told is part of the run: told otherwise, it is another one.
    return paths[0], b"\0".join([*(data for _, data in held), repr(told).encode()]), found


def _is_emulated(runner: str | None) -> bool:
    """Whether runs of this runner are emulated; of one that is not known here, they are not."""
    from harness import runners

    return runner in runners.names() and runners.get(runner).emulated


def _read(paths: list[Path]) -> Iterator[tuple[Path, bytes, Imported]]:
    from harness.exchange import asv, pytest_benchmark, vllm_bench
    from harness.exchange.imported import ImportFault, read_json

    for path in paths:
        files = asv.find_files(path) if path.is_dir() else [path]
        if not files:
            raise ImportFault(f"{path}: holds no JSON file; name asv's results folder or a file")
        for file in files:
            data, value = read_json(file)
            if pytest_benchmark.is_mine(value):
                yield file, data, pytest_benchmark.read(value, file)
            elif asv.is_mine(value):
                yield file, data, asv.read(value, file, asv.read_units(file))
            elif vllm_bench.is_mine(value):
                raise ImportFault(f"{file}: of vLLM's serving benchmark; write {SERVING} before its files")
            else:
                raise ImportFault(f"{file}: neither of pytest-benchmark (benchmarks) nor of asv (results)")
