"""The marker by which a comment of the harness is known, and how long a comment may be; pure."""

from __future__ import annotations

import re

KEY = "report"
"""The key of a comment unless its writer names another."""
LIMIT_BYTES = 65_536
"""GitHub takes so many characters; so many bytes are never more."""
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MARKED = re.compile(r"<!-- harness-report: ([A-Za-z0-9][A-Za-z0-9._-]{0,99}) -->(?:\r?\n|$)")


def is_key(key: str) -> bool:
    """Whether the text may stand in a marker: letters, digits, `.`, `_`, `-`, at most 100, a letter or digit first."""
    return _KEY.fullmatch(key) is not None and "--" not in key


def marker(key: str) -> str:
    """The first line of a comment; GitHub does not show it."""
    return f"<!-- harness-report: {key} -->"


def key_of(body: str) -> str | None:
    """The key of a comment; None when it does not begin with a marker."""
    found = _MARKED.match(body)
    return found[1] if found is not None and is_key(found[1]) else None


def with_key(body: str, key: str) -> str:
    """The same comment under this key, whatever marker it had."""
    found = _MARKED.match(body)
    return f"{marker(key)}\n{body[found.end() :] if found is not None else body}"
