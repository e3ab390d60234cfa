"""Where a command's text goes: stdout, or the file that the user named."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.errors import UsageError


def write(text: str, output: Path | None, option: str = "--output") -> None:
    """Writes the text to the file, or to stdout without one; UsageError when the file that `option` named cannot be
    written."""
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option} {output}: {error.strerror}; name a file you can write") from None
