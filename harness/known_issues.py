"""Reads the list of known issues; a mistake in it is one line that names file, entry and remedy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import toml_files
from harness.errors import KnownIssuesError
from harness.matching import requirement
from harness.records import KINDS, KnownIssue

_TEXTS = ("id", "reason", "link")
_LISTS = ("tests", "runners", "archs", "versions", "targets", "unless_patches", "kinds")
_KEYS = (*_TEXTS, *_LISTS, "last_day")


def load(path: Path) -> tuple[KnownIssue, ...]:
    """The entries of a TOML file of `[[issue]]` tables, in order; KnownIssuesError for any mistake in it."""
    data = toml_files.read(path, KnownIssuesError, "an empty file means no known issues")
    if unknown := sorted(set(data) - {"issue"}):
        raise KnownIssuesError(f"{path}: {unknown[0]!r}: only [[issue]] tables belong here")
    entries = data.get("issue", [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise KnownIssuesError(f"{path}: write [[issue]], with two brackets")
    issues: list[KnownIssue] = []
    for number, entry in enumerate(entries, 1):
        name = " ".join(str(entry.get("id", "no id")).split())
        issue = _entry(entry, f"{path}: entry {number} ({name})")
        if issue.id in {i.id for i in issues}:
            raise KnownIssuesError(f"{path}: entry {number} ({issue.id}): the id is taken; give it another")
        issues.append(issue)
    return tuple(issues)


def _entry(entry: Mapping[str, Any], where: str) -> KnownIssue:
    if unknown := sorted(set(entry) - set(_KEYS)):
        raise KnownIssuesError(f"{where}: unknown key {unknown[0]!r}; keys are {', '.join(_KEYS)}")
    for key in (*_TEXTS, "tests", "last_day"):
        if not entry.get(key):
            raise KnownIssuesError(f"{where}: {key} is missing; every known issue has one")
    values: dict[str, Any] = {}
    for key in _TEXTS:
        if not isinstance(entry[key], str) or not entry[key].strip():
            raise KnownIssuesError(f"{where}: {key} = {entry[key]!r}: must be text")
        values[key] = entry[key]
    for key in _LISTS:
        value = entry.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise KnownIssuesError(f"{where}: {key} = {value!r}: must be a list of texts")
        values[key] = tuple(value)
    for kind in values["kinds"]:
        if kind not in KINDS:
            raise KnownIssuesError(f"{where}: kind {kind!r} is none of {', '.join(KINDS)}")
    for version in values["versions"]:
        try:
            requirement(version)
        except ValueError as error:
            text = str(error).partition("\n")[0]
            raise KnownIssuesError(
                f"{where}: versions: {version!r}: {text}; write it as torch>=2.13"
            ) from None
    return KnownIssue(last_day=_day(entry["last_day"], where), **values)


def _day(value: Any, where: str) -> str:
    found = toml_files.day(value)
    if found is None:
        raise KnownIssuesError(f"{where}: last_day = {value!r}: write a day as 2027-03-31")
    return found
