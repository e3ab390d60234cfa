"""Log text in; known causes, root causes first, the line that shows each and the rank that showed it out. Pure.

A log is any number of blocks of bytes, cut anywhere: of any size, any encoding, with lines of any length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.records import Record
from harness.triage_lines import Sighting, excerpt, line_around, parts_of_launch, rank_of, without_escapes
from harness.triage_prefilter import prepared
from harness.triage_signatures import ROLES, Signature

LONG_LINE_BYTES = 128 << 10
OVERLAP_BYTES = 8 << 10
"""A longer line is looked at in pieces, each with so much of the next: no signature spans more."""
TAIL_BYTES = 64 << 10
MOST_RANKS = 4096

_LATE = re.compile(rb"no (?:end|answer) within|time limit|[Tt]imed out")
_ERROR_TOKENS = (b"Error: ", b"Exception: ", b"FAILED")


@dataclass(frozen=True)
class Finding:
    """One signature as it showed. `first` is its first line in its file, or the one with the least number that the
    signature asks for; `count` lines or ranks showed it; `follows` names found entries that explain it."""

    signature: Signature
    first: Sighting
    count: int
    ranks: tuple[int, ...] = ()
    follows: tuple[str, ...] = ()

    @property
    def role(self) -> str:
        """The signature's role; a consequence when what it follows from was found too."""
        return "consequence" if self.follows and self.signature.role != "hint" else self.signature.role


@dataclass(frozen=True)
class Triage:
    """What a log tells: findings, root causes first; `last_error` is its last error line, known or not."""

    findings: tuple[Finding, ...]
    last_error: Sighting | None = None
    files: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether a cause was found; a hint alone, which healthy runs print as well, is none."""
        return any(f.role != "hint" for f in self.findings)


@dataclass
class _Hit:
    first: Sighting
    count: int = 0
    ranks: set[int] = field(default_factory=set)
    least: int | None = None


def judge_log(
    blocks: Iterable[bytes | str],
    signatures: Sequence[Signature],
    *,
    name: str = "",
    rank: int | None = None,
    late: bool = False,
) -> Triage:
    """The causes that one log shows. `rank`: whose log it is, where lines do not tell; `late`: a time limit ran out."""
    scanner = Scanner(signatures, name=name, rank=rank, late=late)
    for block in blocks:
        scanner.feed(block.encode("utf-8", "surrogateescape") if isinstance(block, str) else block)
    return scanner.end()


class Scanner:
    """Takes a log in blocks, in bounded memory, and tells its causes at the end."""

    def __init__(
        self, signatures: Sequence[Signature], *, name: str = "", rank: int | None = None, late: bool = False
    ) -> None:
        self._signatures, self._name, self._rank, self._late = tuple(signatures), name, rank, late
        self._prefilter, self._plan = prepared(self._signatures, _ERROR_TOKENS)
        self._hits: dict[str, _Hit] = {}
        self._parts: dict[tuple[str, int | None], dict[int, Sighting]] = {}
        self._rest, self._tail = b"", b""
        self._number = 1
        self._error: Sighting | None = None

    def feed(self, block: bytes) -> None:
        """Looks at the next block; a line that is not over yet waits for the rest of it."""
        self._tail = (self._tail + block)[-TAIL_BYTES:]
        data = self._rest + block
        cut = data.rfind(b"\n") + 1
        self._lines(data[:cut])
        self._rest = data[cut:]
        while len(self._rest) > LONG_LINE_BYTES + OVERLAP_BYTES:
            self._look(self._rest[: LONG_LINE_BYTES + OVERLAP_BYTES], LONG_LINE_BYTES)
            self._rest = self._rest[LONG_LINE_BYTES:]

    def turn_to(self, name: str, rank: int | None, number: int = 1) -> None:
        """What is fed from now on is another text of the same failure, from line `number` on; signatures of several
        lines may span both."""
        self._close()
        self._name, self._rank, self._number = name, rank, number
        self._rest, self._tail = b"", b""

    def end(self) -> Triage:
        """What the log tells, after its last block."""
        self._close()
        hits = [(s, self._hits[s.id]) for s in self._signatures if s.id in self._hits]
        findings = [Finding(s, h.first, h.count, tuple(sorted(h.ranks))) for s, h in hits]
        return Triage(in_order(findings), self._error, (self._name,))

    def _close(self) -> None:
        self._lines(self._rest)
        self._rest = b""
        self._stalls()

    def _lines(self, data: bytes) -> None:
        """Looks at whole lines, in runs that are short enough for the cache; at a long one in pieces."""
        at = 0
        while at < len(data):
            end = data.rfind(b"\n", at, at + LONG_LINE_BYTES + 1) + 1
            if not end:
                end = data.find(b"\n", at) + 1 or len(data)
                for start in range(at, end, LONG_LINE_BYTES):
                    piece = data[start : min(end, start + LONG_LINE_BYTES + OVERLAP_BYTES)]
                    self._look(piece, LONG_LINE_BYTES)
            else:
                self._look(data[at:end], end - at)
            self._number += data.count(b"\n", at, end)
            at = end

    def _look(self, text: bytes, limit: int) -> None:
        """Looks at a run of lines that begins at the current line; matches from `limit` on belong to the next piece."""
        text = without_escapes(text)
        number, counted, end, error = self._number, 0, -1, -1
        for at, literal in self._prefilter.find(text):
            if at > end:
                start, end = line_around(text, at)
                number += text.count(b"\n", counted, start)
                counted, line = start, text[start:end]
                tried: set[bytes] = set()
                seen: set[str] = set()
            if literal not in tried:
                tried.add(literal)
                self._judge_line(line, literal, number, limit - start, seen)
            if literal in _ERROR_TOKENS:
                error = start
        if error >= 0:
            self._last_error(text, error)

    def _judge_line(self, line: bytes, literal: bytes, number: int, limit: int, seen: set[str]) -> None:
        """Tries the signatures that need a literal on the line it stands in; `seen` on it already counts once."""
        for signature, rule, place in self._plan.get(literal, ()):
            if place is None and signature.id in seen:
                continue
            match = rule.regex.search(line)
            if match is None or match.start() >= limit:
                continue
            if place is None:
                seen.add(signature.id)
                self._note_again(signature, line, number, match)
            else:
                self._note_part(signature, self._sighting(line, match.start(), number), place)

    def _note_again(self, signature: Signature, line: bytes, number: int, match: re.Match[bytes]) -> None:
        """Counts a line; what it shows is kept of the first, or of the one with the least number asked for."""
        hit = self._hits.get(signature.id)
        least = int(match["least"]) if "least" in match.re.groupindex else None
        better = least is not None and hit is not None and hit.least is not None and least < hit.least
        if hit is None or better:
            shown = self._sighting(line, match.start(), number)
            hit = self._note(signature, shown)
            hit.first, hit.least = shown, least
        else:
            self._count(hit, rank_of(line))

    def _note(self, signature: Signature, shown: Sighting) -> _Hit:
        hit = self._hits.setdefault(signature.id, _Hit(shown))
        self._count(hit, shown.rank)
        return hit

    def _count(self, hit: _Hit, rank: int | None) -> None:
        rank = self._rank if rank is None else rank
        hit.count += 1
        if rank is not None and len(hit.ranks) < MOST_RANKS:
            hit.ranks.add(rank)

    def _note_part(self, signature: Signature, shown: Sighting, place: int) -> None:
        key = (signature.id, shown.rank)
        if key not in self._parts and len(self._parts) >= MOST_RANKS:
            return
        parts = self._parts.setdefault(key, {})
        if place not in parts:
            parts[place] = shown
            if len(parts) == len(signature.all_of):
                self._note(signature, parts[0])

    def _last_error(self, text: bytes, start: int) -> None:
        line = text[start : line_around(text, start)[1]]
        number = self._number + text.count(b"\n", 0, start)
        at = min(line.find(token) for token in _ERROR_TOKENS if token in line)
        self._error = self._sighting(line, at, number)

    def _sighting(self, line: bytes, at: int, number: int) -> Sighting:
        rank = rank_of(line)
        return Sighting(excerpt(line, at), number, self._name, self._rank if rank is None else rank)

    def _stalls(self) -> None:
        """A rank's last line, when a time limit ran out: what cannot be seen before the log's end."""
        wanted = [s for s in self._signatures if s.stall is not None]
        newlines = without_escapes(self._tail).split(b"\n")
        lines = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in newlines]
        if not (self._late or any(_LATE.search(line) for line in lines)):
            return
        last: dict[int | None, tuple[int, bytes]] = {}
        for back, line in enumerate(reversed(lines)):
            if line.strip() and not _LATE.search(line):
                rank = rank_of(line)
                last.setdefault(self._rank if rank is None else rank, (back, line))
        for signature in wanted:
            assert signature.stall is not None
            for rank, (back, line) in sorted(last.items(), key=lambda item: -item[1][0]):
                if match := signature.stall.search(line):
                    number = max(1, self._number - back)
                    self._note(signature, Sighting(excerpt(line, match.start()), number, self._name, rank))


def in_order(findings: Iterable[Finding], sources: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Root causes first, then causes, consequences and hints; of one role, what showed in an earlier one of `sources`
    and, within it or without them, on an earlier line."""
    found = {f.signature.id: f for f in findings}
    place = {name: n for n, name in reversed(list(enumerate(sources)))}
    told = []
    for f in found.values():
        follows = tuple(i for i in f.signature.consequence_of if i in found)
        told.append(Finding(f.signature, f.first, f.count, f.ranks, follows))

    def key(f: Finding) -> tuple[int, int, int, str, str]:
        shown = f.first
        source = place.get(shown.file, len(place))
        return ROLES.index(f.role), source, shown.line_number, f.signature.id, shown.file

    return tuple(sorted(told, key=key))


def merge_triages(triages: Sequence[Triage], signatures: Sequence[Signature]) -> Triage:
    """What several logs tell together, in whichever order they come; between files, the earlier line counts first."""
    merged: list[Finding] = []
    for signature in signatures:
        same = [f for t in triages for f in t.findings if f.signature.id == signature.id]
        if same:
            first = min((f.first for f in same), key=lambda s: (s.line_number, s.file))
            ranks = sorted({r for f in same for r in f.ranks})
            merged.append(Finding(signature, first, sum(f.count for f in same), tuple(ranks)))
    errors = [t.last_error for t in triages if t.last_error is not None]
    error = max(errors, key=lambda s: (s.line_number, s.file), default=None)
    return Triage(in_order(merged), error, tuple(f for t in triages for f in t.files))


def triage_record(
    record: Record, tails: Mapping[str, str], signatures: Sequence[Signature]
) -> tuple[Finding, ...]:
    """The causes that a record's reason and detail and the ends of its logs show, root causes first.

    `tails`: text by log name. The parts of a launch's detail count for the ranks that they are of.
    """
    parts: list[tuple[str, int | None, int, str]] = [("reason", None, 1, record.reason or "")]
    parts += [("detail", *part) for part in parts_of_launch(record.detail or "")]
    for name, text in tails.items():
        named = re.search(r"rank[-_]?(\d{1,5})(?!\d)", name)
        parts.append((name, int(named[1]) if named else None, 1, text))
    scanner = Scanner(signatures, late=record.kind == "hang")
    for source, whose, number, text in parts:
        scanner.turn_to(source, whose, number)
        scanner.feed(text.encode("utf-8", "surrogateescape"))
    return in_order(scanner.end().findings, ["reason", "detail", *tails])


def is_infrastructure(findings: Sequence[Finding]) -> bool:
    """Whether a failure's cause is the machine or the network, so that it says nothing of the target.

    Only a cause decides, never a consequence or a hint; and one that is not a root cause only while no other cause
    lies in the code: a regression must not hide behind a noisy machine.
    """
    causes = [f for f in findings if f.role in ("root", "cause")]
    if not causes or not _of_machine(causes[0]):
        return False
    return causes[0].role == "root" or all(_of_machine(f) for f in causes)


def _of_machine(finding: Finding) -> bool:
    return finding.signature.infrastructure and finding.signature.where in ("machine", "network")
