"""One line of a log: whose it is, how it is shown, and where it begins and ends; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

EXCERPT_CHARACTERS = 400

_ANSI = re.compile(rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])")
_NAMED_RANK = re.compile(rb"^(?:\[[^\]\n]{0,24}\] ?:?){0,2}? ?\[(?:rank ?|Rank |default)(\d{1,5})\b")
_INLINE_RANK = re.compile(rb"\[(?:PG [^\]\n]{1,60} )?Rank (\d{1,5})\]")
_BARE_RANK = re.compile(rb"^\s{0,8}(?:\[(\d{1,4})\]:? |\[\d{1,4},(\d{1,5})\]<std)")


_PART_OF_RANK = re.compile(
    r"^--- (?:rank (\d{1,5})|torchrun): (?:last lines|stack at the time limit)$", re.MULTILINE
)


@dataclass(frozen=True)
class Sighting:
    """A line of a log: `line_number` counts newlines from 1; `rank` is None where the log does not tell."""

    text: str
    line_number: int
    file: str
    rank: int | None


def without_escapes(text: bytes) -> bytes:
    """The same without terminal escape sequences; none of them spans lines."""
    return _ANSI.sub(b"", text) if b"\x1b" in text else text


def line_around(text: bytes, at: int) -> tuple[int, int]:
    """Where the line around a place begins and ends; a progress bar's carriage return ends a line as well."""
    start = text.rfind(b"\n", 0, at) + 1
    start = max(start, text.rfind(b"\r", start, at) + 1)
    end = text.find(b"\n", at)
    end = len(text) if end < 0 else end
    turn = text.find(b"\r", at, end)
    return start, end if turn < 0 else turn


def rank_of(line: bytes) -> int | None:
    """The rank that a line says it is of: `[rank3]:`, `[default3]:`, `[Rank 3]`, `[3] `, `[1,3]<stdout>`; else None."""
    head = line[:120]
    for pattern in (_NAMED_RANK, _INLINE_RANK, _BARE_RANK):
        if found := pattern.search(head):
            return int(found[found.lastindex or 1])
    return None


def excerpt(line: bytes, at: int) -> str:
    """The part of a line around a match, within 400 characters, with control characters made visible."""
    start = 0 if len(line) <= EXCERPT_CHARACTERS else max(0, at - EXCERPT_CHARACTERS // 4)
    return visible(line[start : start + 4 * EXCERPT_CHARACTERS].decode("utf-8", "replace"))


def visible(text: str) -> str:
    """At most 400 characters of text as data: escape sequences, control and direction marks are spelled out."""
    cut = text[:EXCERPT_CHARACTERS].replace("\t", " ")
    spelled = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return spelled.strip()[:EXCERPT_CHARACTERS]


def parts_of_launch(detail: str) -> list[tuple[int | None, int, str]]:
    """The parts of what is told of a launch: whose each one is, the line that it begins on, and its text."""
    parts: list[tuple[int | None, int, str]] = []
    at, rank = 0, None
    for head in [*_PART_OF_RANK.finditer(detail), None]:
        end = len(detail) if head is None else head.start()
        parts.append((rank, detail.count("\n", 0, at) + 1, detail[at:end]))
        if head is not None:
            at, rank = head.end() + 1, int(head[1]) if head[1] else None
    return parts
