"""The report as a comment on a pull request: markdown that fits, under a marker by which the comment is found again."""

from __future__ import annotations

import functools

from harness.merged import Merged
from harness.report_parts.comments import KEY, LIMIT_BYTES, marker
from harness.report_parts.fitting import fit
from harness.report_parts.markdown_text import text
from harness.report_parts.sections import sections, style

NAME = "pull_request"
_ROOM = 600
"""For a longer key, which `harness comment` may put into the marker."""


def render(merged: Merged, *, width: int = 110, color: bool = False) -> str:
    """Markdown of at most the characters, and the bytes, that a comment may have; what was cut is said."""
    del width, color
    first = f"{marker(KEY)}\n"
    found = sections(merged, style(_write, fold=True))
    elsewhere = "the other forms of this report have them all, see `harness report RUN --format markdown`"
    return first + fit(found, LIMIT_BYTES - _ROOM - len(first), elsewhere)


@functools.lru_cache(maxsize=1 << 16)
def _write(value: str) -> str:
    # A comment that names an issue of another repository would be told in that issue, each time it is written.
    return text(value.replace("//github.com/", "//redirect.github.com/"))
