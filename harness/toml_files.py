"""Reads TOML files that a person wrote; a mistake in one is one line that names the file and the remedy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from harness.errors import HarnessError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(path: Path, error: type[HarnessError], absent: str) -> dict[str, Any]:
    """The tables of the file; `error` for one that is not there (`absent` says what that means), no text or no TOML."""
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return found
    except FileNotFoundError:
        raise error(f"{path}: not there; {absent}") from None
    except (OSError, UnicodeDecodeError) as wrong:
        raise error(f"{path}: {wrong}; it must be readable UTF-8 text") from None
    except tomllib.TOMLDecodeError as wrong:
        raise error(f"{path}: {wrong}; mend the TOML there") from None
