"""Reads TOML files that a person wrote; a mistake in one is one line that names the file and the remedy."""

from __future__ import annotations

import re
import sys
from datetime import date, datetime
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


def day(value: Any) -> str | None:
    """A day as 2027-03-31, from TOML's own date or a text of that form; None when it is neither."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    try:
        # Later Pythons also take 20270331 and week dates; the file means the same under all of them.
        if re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            return date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        pass
    return None
