"""Which known issue holds for a test, and until when; pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from datetime import date

from harness.records import KnownIssue


@functools.lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str]:
    """`*` and `?` are the only wildcards: test ids hold brackets, which fnmatch would read as sets."""
    text = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.compile(text, re.DOTALL)


def matches(pattern: str, test: str) -> bool:
    """Whether the whole test id fits the pattern."""
    return _pattern(pattern).fullmatch(test) is not None


def matching(
    issues: Iterable[KnownIssue], *, test: str, runner: str, target: str, patches: Sequence[str]
) -> KnownIssue | None:
    """The first known issue that names this test and holds for runner, target and patches in force."""
    for issue in issues:
        if issue.runners and runner not in issue.runners:
            continue
        if issue.targets and target not in issue.targets:
            continue
        if set(issue.unless_patches) & set(patches):
            continue
        if any(matches(p, test) for p in issue.tests):
            return issue
    return None


def expired(issue: KnownIssue, today: date) -> bool:
    """Whether the issue's last day is over."""
    return not holds_until(issue.last_day, today)


def holds_until(last_day: str | None, today: date) -> bool:
    """Whether `today` is no later than an ISO day; no day, or text that is no day, never holds."""
    try:
        return last_day is not None and today <= date.fromisoformat(last_day)
    except (TypeError, ValueError):
        return False
