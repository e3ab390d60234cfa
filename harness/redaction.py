"""Keeps tokens and keys of the environment out of what is written down; pure but for one rewriting of files."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from harness.records import Header, Record, header_from_json, to_json

_NAME = re.compile(r"(?<![A-Z])(TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|DSN)(?![A-Z])")
_LEAST = 8
"""Shorter values are no secrets, and cutting them out would tear words apart."""

_BLOCK = 1 << 20

T = TypeVar("T")


def find(environment: Mapping[str, str]) -> dict[str, str]:
    """What must not be written down: values of the variables whose names speak of secrets, each with its name.

    Paths of files that hold a secret are none themselves. A value of several lines counts line by line too.
    """
    found: dict[str, str] = {}
    for name, value in environment.items():
        if _NAME.search(name.upper()):
            for part in {value, *value.splitlines()}:
                if len(part) >= _LEAST and not re.fullmatch(r"(/[\w.@+-]+)+/?", part):
                    found[part] = name
    return found


def redact(text: T, secrets: Mapping[str, str]) -> T:
    """The text with each secret replaced by the name of its variable; what is no text comes back as it is."""
    if isinstance(text, str):
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, f"[{secrets[secret]}]")  # type: ignore[assignment]
    return text


def redact_record(record: Record, secrets: Mapping[str, str]) -> Record:
    """The record without secrets in its reason and detail."""
    if not secrets:
        return record
    return dataclasses.replace(
        record, reason=redact(record.reason, secrets), detail=redact(record.detail, secrets)
    )


def redact_header(header: Header, secrets: Mapping[str, str]) -> Header:
    """The header without secrets in any of its texts: a call can hold one, as can a selection."""
    return header_from_json(_deep(to_json(header), secrets)) if secrets else header


def _deep(value: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {k: _deep(v, secrets) for k, v in value.items()}
    return [_deep(v, secrets) for v in value] if isinstance(value, list) else redact(value, secrets)


def redact_files(paths: Iterable[Path], secrets: Mapping[str, str]) -> list[Path]:
    """Overwrites secrets in files with `*`, in place and in bounded memory; the files that held one."""
    changed = []
    needles = [s.encode(errors="surrogateescape") for s in sorted(secrets, key=len, reverse=True)]
    longest = max(map(len, needles), default=0)
    for path in paths:
        if needles and path.is_file() and not path.is_symlink() and _overwrite(path, needles, longest):
            changed.append(path)
    return changed


def _overwrite(path: Path, needles: list[bytes], longest: int) -> bool:
    found = False
    with path.open("r+b") as file:
        begin = 0
        while True:
            file.seek(begin)
            block = file.read(_BLOCK + longest)
            if not block:
                return found
            cleaned = block
            for needle in needles:
                cleaned = cleaned.replace(needle, b"*" * len(needle))
            if cleaned != block:
                found = True
                file.seek(begin)
                file.write(cleaned)
            begin += _BLOCK
