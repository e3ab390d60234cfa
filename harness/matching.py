"""Which known issue holds for a test, and until when; pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from datetime import date

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from harness.records import Header, KnownIssue


@functools.lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str]:
    """`*` and `?` are the only wildcards: test ids hold brackets, which fnmatch would read as sets."""
    text = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.compile(text, re.DOTALL)


def matches(pattern: str, test: str) -> bool:
    """Whether the whole test id fits the pattern."""
    return _pattern(pattern).fullmatch(test) is not None


def matching(issues: Iterable[KnownIssue], *, test: str, header: Header) -> KnownIssue | None:
    """The first known issue that names this test and holds in that run."""
    return next((i for i in issues if any(matches(p, test) for p in i.tests) and holds(i, header)), None)


def holds(issue: KnownIssue, header: Header) -> bool:
    """Whether runner, architecture, versions, target and patches of a run are those that the issue speaks of."""
    return (
        (not issue.runners or header.runner.name in issue.runners)
        and (not issue.archs or bool(set(issue.archs) & set(header.runner.device_arch.split("+"))))
        and (not issue.targets or header.target.name in issue.targets)
        and not set(issue.unless_patches) & set(header.target.patches)
        and all(_version_holds(v, header.software) for v in issue.versions)
    )


def requirement(text: str) -> Requirement:
    """A condition such as `torch>=2.13`; ValueError for what is none."""
    try:
        found = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(str(error)) from None
    if not found.specifier or found.url or found.extras or found.marker:
        raise ValueError("only a name and versions, as in torch>=2.13")
    return found


def _version_holds(text: str, software: Mapping[str, str | None]) -> bool:
    """A version that is unknown or no version holds for nothing: the failure then shows."""
    wanted = requirement(text)
    there = software.get(wanted.name)
    try:
        return there is not None and wanted.specifier.contains(Version(there), prereleases=True)
    except InvalidVersion:
        return False


def expired(issue: KnownIssue, today: date) -> bool:
    """Whether the issue's last day is over."""
    return not holds_until(issue.last_day, today)


def holds_until(last_day: str | None, today: date) -> bool:
    """Whether `today` is no later than an ISO day; no day, or text that is no day, never holds."""
    try:
        return last_day is not None and today <= date.fromisoformat(last_day)
    except (TypeError, ValueError):
        return False
