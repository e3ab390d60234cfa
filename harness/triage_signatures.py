"""What a signature of a failure is, how an entry of signatures.toml becomes one, and which literal it needs; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError

WHERE = ("code", "machine", "network")
ROLES = ("root", "cause", "consequence", "hint")
"""In the order in which findings are told."""

LEAST_LITERAL = 5
LARGEST_GAP = 400
_TEXTS = ("id", "cause", "remedy", "where", "role", "example")
_LISTS = ("patterns", "all_of", "consequence_of", "links")
_KEYS = (*_TEXTS, *_LISTS, "stall", "example_note", "infrastructure")


@dataclass(frozen=True)
class Rule:
    """One regular expression over the bytes of a line, and a literal without which it cannot match."""

    regex: re.Pattern[bytes]
    literal: bytes


@dataclass(frozen=True)
class Signature:
    """One known failure. It is found by any of `rules`, by all of `all_of` from one rank, or by `stall` as a
    rank's last line beside a time limit. `infrastructure`: it says nothing of the target."""

    id: str
    rules: tuple[Rule, ...]
    all_of: tuple[Rule, ...]
    stall: re.Pattern[bytes] | None
    cause: str
    remedy: str
    where: str
    infrastructure: bool
    role: str
    consequence_of: tuple[str, ...]
    example: str
    example_note: str
    links: tuple[str, ...]


def signatures_from(data: Mapping[str, Any], source: str) -> tuple[Signature, ...]:
    """The `[[signature]]` tables of parsed TOML, in order; UsageError in one line for any mistake."""
    if unknown := sorted(set(data) - {"signature"}):
        raise UsageError(f"{source}: {unknown[0]!r}: only [[signature]] tables belong here")
    entries = data.get("signature", [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise UsageError(f"{source}: write [[signature]], with two brackets")
    found: dict[str, Signature] = {}
    for number, entry in enumerate(entries, 1):
        name = " ".join(str(entry.get("id", "no id")).split())
        where = f"{source}: entry {number} ({name})"
        signature = _entry(entry, where)
        if signature.id in found:
            raise UsageError(f"{where}: the id is taken; give it another")
        found[signature.id] = signature
    for signature in found.values():
        for other in signature.consequence_of:
            if other not in found or other == signature.id:
                raise UsageError(f"{source}: {signature.id}: consequence_of {other!r} is no other entry's id")
    return tuple(found.values())


def _entry(entry: Mapping[str, Any], where: str) -> Signature:
    if unknown := sorted(set(entry) - set(_KEYS)):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; keys are {', '.join(_KEYS)}")
    for key in (*_TEXTS, "links"):
        if not entry.get(key):
            raise UsageError(f"{where}: {key} is missing; every signature has one")
    for key in (*_TEXTS, "stall", "example_note"):
        if not isinstance(entry.get(key, "-"), str) or not entry.get(key, "-").strip():
            raise UsageError(f"{where}: {key} = {entry[key]!r}: must be text")
    for key in _LISTS:
        value = entry.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise UsageError(f"{where}: {key} = {value!r}: must be a list of texts")
    for key, allowed in (("where", WHERE), ("role", ROLES)):
        if entry[key] not in allowed:
            raise UsageError(f"{where}: {key} = {entry[key]!r} is none of {', '.join(allowed)}")
    if not isinstance(entry.get("infrastructure"), bool):
        raise UsageError(f"{where}: infrastructure is missing; write true or false")
    if not any(entry.get(key) for key in ("patterns", "all_of", "stall")):
        raise UsageError(f"{where}: nothing to look for; give it patterns, all_of or stall")
    if entry.get("all_of") and len(entry["all_of"]) < 2:
        raise UsageError(f"{where}: all_of has one part; write it as patterns")
    for link in entry["links"]:
        if not re.fullmatch(r"https://[\w./#=%+-]+", link):
            raise UsageError(f"{where}: link {link!r}: write a public https address")
    return Signature(
        id=entry["id"],
        rules=tuple(_rule(p, where) for p in entry.get("patterns", ())),
        all_of=tuple(_rule(p, where) for p in entry.get("all_of", ())),
        stall=_rule(entry["stall"], where).regex if "stall" in entry else None,
        cause=entry["cause"],
        remedy=entry["remedy"],
        where=entry["where"],
        infrastructure=entry["infrastructure"],
        role=entry["role"],
        consequence_of=tuple(entry.get("consequence_of", ())),
        example=entry["example"],
        example_note=entry.get("example_note", ""),
        links=tuple(entry["links"]),
    )


def _rule(pattern: str, where: str) -> Rule:
    try:
        regex = re.compile(pattern.encode("ascii"))
        literal = needed_literal(pattern)
    except UnicodeEncodeError:
        raise UsageError(f"{where}: pattern {pattern!r}: use ASCII, logs are matched as bytes") from None
    except (re.error, ValueError) as error:
        raise UsageError(f"{where}: pattern {pattern!r}: {error}") from None
    return Rule(regex, literal.encode())


def needed_literal(pattern: str) -> str:
    """The longest text that every match of a regular expression holds; ValueError with the remedy when it is short
    or when the expression could cost much on a hostile line."""
    runs = [""]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        width = 1
        if char == "\\":
            width = 2
            escaped = pattern[at + 1 : at + 2]
            plain = escaped if escaped and not escaped.isalnum() else None
        elif char in "([":
            width = _past(pattern, at) - at
            plain = None
        elif char == "|":
            raise ValueError("alternatives outside of a group; write two patterns")
        else:
            plain = None if char in ".^$" else char
        quantifier = _quantifier(pattern, at + width, of_group=char == "(")
        if plain is None or quantifier:
            runs.append("")
        else:
            runs[-1] += plain
        at += width + len(quantifier)
    longest = max(runs, key=len)
    if len(longest) < LEAST_LITERAL:
        raise ValueError(f"needs {LEAST_LITERAL} plain characters in a row, outside of groups")
    return longest


def _past(pattern: str, start: int) -> int:
    """The place after the class or group that begins at `start`; the quantifiers inside it are checked."""
    at = start + 1
    if pattern[start] == "[":
        at += pattern[at : at + 1] == "^"
        at += pattern[at : at + 1] == "]"
        while pattern[at : at + 1] not in ("]", ""):
            at += 2 if pattern[at] == "\\" else 1
        return at + 1
    if pattern[at : at + 1] == "?":
        at = next((i + 1 for i in range(at, len(pattern)) if pattern[i] in ":>=!"), at + 1)
    while pattern[at : at + 1] not in (")", ""):
        char = pattern[at]
        at = _past(pattern, at) if char in "([" else at + (2 if char == "\\" else 1)
        at += len(_quantifier(pattern, at, of_group=char == "("))
    return at + 1


def _quantifier(pattern: str, at: int, *, of_group: bool) -> str:
    found = re.match(r"[*+]|\?|\{(\d*)(,?)(\d*)\}", pattern[at:])
    if not found:
        return ""
    text = found.group()
    upper = found.group(3) or ("" if found.group(2) else found.group(1))
    if text != "?" and (text in "*+" or not upper or int(upper) > LARGEST_GAP):
        raise ValueError(f"{text} has no bound of {LARGEST_GAP} or less; write {{0,80}}, for example")
    if of_group and text != "?":
        raise ValueError("a group repeats; repeat single characters only")
    return text


def literals_of(signatures: Iterable[Signature]) -> tuple[bytes, ...]:
    """Every literal that a signature needs, once, in order."""
    rules = (rule for s in signatures for rule in (*s.rules, *s.all_of))
    return tuple(dict.fromkeys(rule.literal for rule in rules))
