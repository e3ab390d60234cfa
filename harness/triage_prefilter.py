"""Finds where any of many literals stands in a text, fast in texts that hold none; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from harness.triage_signatures import Rule, Signature, literals_of

LEAST_BYTES = 6
"""So much of a literal, or all of it, from where its search begins, is looked for at least."""

# Bytes of healthy logs, most frequent first: a search that begins at a rare one seldom stops.
_BY_FREQUENCY = b" 0et:osr4a.51n23ild'6pc[]h_-/\n8g>u,7CvbRNELkSPmwIOFM=f9Az{}yDj%UGBx@V()^T\"<"


class Prefilter:
    """Literals to look for. Each is cut to begin at a byte of a small set of rare ones: the engine stops at those alone."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        weights = {byte: 1 / (place + 3) for place, byte in enumerate(_BY_FREQUENCY)}
        rare = min(weights.values()) / 2
        chosen = _cover(literals, weights, rare)
        tails: dict[bytes, list[tuple[bytes, int]]] = {}
        for literal in dict.fromkeys(literals):
            begin = _begin(literal, chosen, weights, rare)
            tails.setdefault(literal[begin:], []).append((literal, begin))
        # Of two tails, one of which begins with the other, the engine sees the shorter.
        self._meant = {
            short: tuple(x for tail, found in tails.items() if tail.startswith(short) for x in found)
            for short in tails
        }
        heads: dict[bytes, set[bytes]] = {}
        for tail in tails:
            heads.setdefault(tail[:1], set()).add(tail[1:])
        # The rest is looked ahead at, not taken: a literal that begins within another one is found as well.
        parts = [re.escape(head) + b"(?=(" + _trie(rests) + b"))" for head, rests in sorted(heads.items())]
        self._regex = re.compile(b"|".join(parts) if parts else b"(?!)")

    def find(self, text: bytes) -> Iterator[tuple[int, bytes]]:
        """Each place at which a literal begins in `text`, with the literal; in the order of their rare bytes."""
        for hit in self._regex.finditer(text):
            at = hit.start()
            for literal, begin in self._meant[hit[0] + hit[hit.lastindex or 0]]:
                if begin <= at and text.startswith(literal, at - begin):
                    yield at - begin, literal


def _cover(literals: Iterable[bytes], weights: dict[int, float], rare: float) -> set[int]:
    """First bytes that suffice for all literals, of little weight together."""
    left, chosen = set(literals), set()
    while left:
        options: dict[int, list[bytes]] = {}
        for literal in left:
            for byte in set(_starts(literal)):
                options.setdefault(byte, []).append(literal)
        best = min(options, key=lambda b: (weights.get(b, rare) / len(options[b]), b))
        chosen.add(best)
        left.difference_update(options[best])
    return chosen


def _starts(literal: bytes) -> bytes:
    return literal[: max(1, len(literal) - LEAST_BYTES + 1)]


def _begin(literal: bytes, chosen: set[int], weights: dict[int, float], rare: float) -> int:
    places = [i for i, byte in enumerate(_starts(literal)) if byte in chosen]
    return min(places, key=lambda i: (weights.get(literal[i], rare), i))


def _trie(words: Iterable[bytes]) -> bytes:
    """The alternation of words, with what they begin with in common written once."""
    words = set(words)
    if b"" in words:
        return b""
    branches: dict[bytes, set[bytes]] = {}
    for word in words:
        branches.setdefault(word[:1], set()).add(word[1:])
    parts = [re.escape(head) + _trie(rests) for head, rests in sorted(branches.items())]
    return parts[0] if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"


@lru_cache(maxsize=4)
def prepared(
    signatures: tuple[Signature, ...], besides: tuple[bytes, ...]
) -> tuple[Prefilter, Mapping[bytes, Sequence[tuple[Signature, Rule, int | None]]]]:
    """What finds the literals of signatures and some more, and what to try where one is found: which rule of which
    signature, and its place among parts that must all be there. Made once, since it takes longest."""
    plan: dict[bytes, list[tuple[Signature, Rule, int | None]]] = {}
    for s in signatures:
        for place, rule in [*((None, r) for r in s.rules), *enumerate(s.all_of)]:
            plan.setdefault(rule.literal, []).append((s, rule, place))
    return Prefilter([*literals_of(signatures), *besides]), plan
