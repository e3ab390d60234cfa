"""The report as the summary of a GitHub step, which takes 1 MiB of markdown."""

from __future__ import annotations

from harness.merged import Merged
from harness.report_parts.fitting import fit
from harness.report_parts.markdown_text import cached
from harness.report_parts.sections import sections, style

NAME = "summary"
LIMIT_BYTES = 1_048_576
_ROOM = 48_576
"""For what other commands of the same step write."""


def render(merged: Merged, *, width: int = 110, color: bool = False) -> str:
    """Markdown for the file that GITHUB_STEP_SUMMARY names; what was cut is said."""
    del width, color
    elsewhere = "the other forms of this report have them all, see `harness report RUN --format markdown`"
    return fit(sections(merged, style(cached, fold=False)), LIMIT_BYTES - _ROOM, elsewhere).lstrip("\n")
