"""Cuts a report to a size: sections and rows are kept whole or left out, and what was left out is said; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.report_parts.markdown_text import ready, text
from harness.report_parts.parts import plain

Lines = tuple[str, ...]
FIRST = 10
_NAMED = 12
"""So many of the sections that were left out are named; the others are counted."""
_NAME_LENGTH = 80
_NOTE_BYTES = _NAMED * (6 * _NAME_LENGTH + 20) + 200
"""What the note on sections left out may take: 6 bytes is the most that one character of a name becomes."""


@dataclass(frozen=True)
class Part:
    """One section: `head` and `tail` stand whenever one of its `items` does; a part without items stands by itself.

    `title` is plain text, for the note when the part is left out. Head, items and tail are lines of markdown.
    """

    title: str
    head: Lines
    items: tuple[Lines, ...] = ()
    tail: Lines = ()
    first: int = FIRST
    """So many items come before any section gets more."""


def short(value: str, most: int) -> str:
    """At most so many characters of a text, with a sign that there was more."""
    return value if len(value) <= most else f"{value[: most - 3]}..."


def section(
    title: str, items: Iterable[Lines], *, folded: bool = False, head: Lines = (), first: int = FIRST
) -> Part:
    """A part under a heading with the number of its items, or one that GitHub shows folded; the title is the form's own."""
    found = tuple(items)
    name = f"{title} ({len(found)})"
    if folded:
        opened = ("", f"<details><summary>{name}</summary>", "", *head)
        return Part(title, opened, found, ("", "</details>"), first)
    return Part(title, ("", f"## {name}", "", *head), found, (), first)


def rows_section(
    title: str, columns: Lines, rows: Iterable[Lines], *, folded: bool = False, caption: str = ""
) -> Part:
    """A section that is a table, of cells that are markdown already."""
    head, rule, *lines = ready(columns, rows)
    before = (caption, "") if caption else ()
    return section(title, ((line,) for line in lines), folded=folded, head=(*before, head, rule))


def fit(parts: Sequence[Part], limit_bytes: int, elsewhere: str) -> str:
    """The parts as one text of at most `limit_bytes` in UTF-8; `elsewhere` says where to find what was left out.

    First each part in turn gets its first few items, then each in turn the rest, so that one long section does not
    push out all that follow it. The limit must hold the note that says what was left out.
    """
    left = limit_bytes - _NOTE_BYTES - _bytes((elsewhere,))
    kept: list[int | None] = [None] * len(parts)
    for all_ in (False, True):
        for n, part in enumerate(parts):
            have = kept[n]
            if all_ and have is None:
                continue  # it had no room for its first item
            count = have or 0
            if have is None:
                first = part.items[0] if part.items else ()
                cost = _bytes(part.head) + _bytes(part.tail) + _bytes(_more(len(part.items), elsewhere))
                if cost + _bytes(first) > left:
                    continue
                left -= cost
            goal = len(part.items) if all_ else min(part.first, len(part.items))
            while count < goal and (cost := _bytes(part.items[count])) <= left:
                left -= cost
                count += 1
            kept[n] = count
    lines: list[str] = []
    out = []
    for part, held in zip(parts, kept, strict=True):
        if held is None:
            out.append(part)
            continue
        lines += part.head
        for item in part.items[:held]:
            lines += item
        if held < len(part.items):
            lines += _more(len(part.items) - held, elsewhere)
        lines += part.tail
    if out:
        lines += _left_out(out, elsewhere)
    return "\n".join(lines) + "\n"


def _more(count: int, elsewhere: str) -> Lines:
    return ("", f"And {count} more, left out for size: {elsewhere}.") if count else ()


def _left_out(parts: Sequence[Part], elsewhere: str) -> Lines:
    names = [_name(p) for p in parts[:_NAMED]]
    rest = f" and {len(parts) - _NAMED} more sections" if len(parts) > _NAMED else ""
    return ("", f"Left out for size: {', '.join(names)}{rest}: {elsewhere}.")


def _name(part: Part) -> str:
    count = f" ({len(part.items)})" if part.items else ""
    return text(short(plain(part.title), _NAME_LENGTH)) + count


def _bytes(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)
