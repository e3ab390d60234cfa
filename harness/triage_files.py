"""Reads what triage works on: the list of signatures, and logs of any size as blocks of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from harness import toml_files
from harness.errors import UsageError
from harness.triage import Triage, judge_log, merge_triages
from harness.triage_signatures import Signature, signatures_from

SIGNATURES = Path(__file__).with_name("signatures.toml")
BLOCK_BYTES = 1 << 20


@lru_cache(maxsize=8)
def load_signatures(path: Path = SIGNATURES) -> tuple[Signature, ...]:
    """The signatures of a TOML file; UsageError in one line for any mistake in it."""
    data = toml_files.read(path, UsageError, "the list of signatures comes with the harness")
    return signatures_from(data, str(path))


def triage_files(paths: Sequence[Path], signatures: Sequence[Signature] | None = None) -> Triage:
    """What several logs of one failure tell together; UsageError for one that cannot be read."""
    known = load_signatures() if signatures is None else tuple(signatures)
    return merge_triages(
        [judge_log(_blocks(path), known, name=str(path), rank=rank_of_path(path)) for path in paths], known
    )


def rank_of_path(path: Path) -> int | None:
    """The rank that a log's name tells: `rank-3.log`, `rank_3.err`, or torchrun's `.../attempt_0/3/stderr.log`."""
    found = re.search(r"(?:^|[^a-z])rank[-_]?(\d{1,5})(?!\d)", path.name)
    if not found and path.name in ("stdout.log", "stderr.log"):
        found = re.fullmatch(r"(\d{1,5})", path.parent.name)
    return int(found.group(1)) if found else None


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb", buffering=0) as file:
            while block := file.read(BLOCK_BYTES):
                yield block
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; name a log") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: is a folder; name the logs in it, for example {path}/*.log") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name a log that can be read") from None
