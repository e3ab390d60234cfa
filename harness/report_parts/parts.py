"""What every text report says, in the order it says it; pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.records import KINDS, Header, Run
from harness.verdicts import VERDICTS, Judgement, TestVerdict

DETAIL_LINES = 12
FOLD = 5
"""More tests than this that fail alike are shown as one, with their number."""


@dataclass(frozen=True)
class Trouble:
    """One thing for a person to look at: an example test, and all that went the same way."""

    first: TestVerdict
    tests: tuple[str, ...]
    kind_meaning: str
    detail: str
    rerun: str
    causes: tuple[tuple[str, str, str], ...] = ()
    """What its text and logs show: cause, the line that shows it and where, remedy."""


def plain(text: str) -> str:
    """Text from tests and logs without escape sequences and control characters."""
    if text.isprintable():  # nearly all of it, and a report may have many thousand rows
        return text
    text = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?", "", text)
    return "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text)


def one_line(text: str) -> str:
    """The same on one line, for a row of a table."""
    return text if text.isprintable() else " ".join(plain(text).split())


def where(header: Header) -> list[tuple[str, str]]:
    """Target, runner, machine and run, by name."""
    target, machine = header.target, header.machine
    commit = f" at {target.commit[:12]}" if target.commit else ""
    dirty = _dirt(target.dirty) if target.commit else ""
    gib = f"{machine['memory_bytes'] / 2**30:.0f} GiB" if machine.get("memory_bytes") else "unknown memory"
    software = ", ".join(f"{n} {v}" for n, v in header.software.items() if v is not None)
    rows = [
        ("target", f"{target.name}{commit}{dirty}"),
        ("supplies", "; ".join(target.supplies) or "none"),
        ("patches", ", ".join(target.patches) or "none"),
        ("runner", f"{header.runner.key}, {how_made(header)}"),
        (
            "machine",
            f"{machine.get('host')}, {machine.get('processor')}, {machine.get('cpu_usable')} processors, {gib}",
        ),
        ("software", software),
        (
            "harness",
            f"{(header.harness_commit or 'unknown')[:12]}{_dirt(header.harness_dirty)}",
        ),
        ("run", f"{header.run_id}, started {header.started}"),
    ]
    if target.note:
        rows.insert(1, ("note", target.note))
    if header.explore is not None:
        rows.append(("examples", f"new ones for property tests, seed {header.explore}"))
    return [(n, plain(v)) for n, v in rows]


def how_made(header: Header) -> str:
    """Whether devices were measured, emulated, or imitated by a stand-in of the emulator."""
    runner = header.runner
    return "EMULATED BY A STAND-IN" if runner.stand_in else "EMULATED" if runner.emulated else "measured"


def _dirt(dirty: bool | None) -> str:
    return {True: " (DIRTY)", False: "", None: " (dirty or not: unknown)"}[dirty]


def rerun(header: Header, test: str) -> str:
    """The command that runs just this test again."""
    words = ["python", "-m", "nox", "-s", header.runner.name, "--", "--target", header.target.name]
    for patch in header.target.patches:
        words += ["--patch", patch]
    again = shlex.join([*words, plain(test)])
    return again if header.explore is None else f"HARNESS_EXPLORE={header.explore} {again}"


def troubles(run: Run, judgement: Judgement) -> list[Trouble]:
    """What needs a person, worst first; many tests of one function that fail alike are one."""
    groups: dict[tuple[str, str, str | None, str], list[TestVerdict]] = {}
    for t in judgement.needs_person:
        function = t.test.partition("[")[0]
        kind = t.record.kind if t.record is not None else None
        what = "" if t.record is None else (t.record.reason or "")[:20]
        groups.setdefault((t.verdict, function, kind, what if t.verdict != "lost" else ""), []).append(t)
    found = []
    for members in groups.values():
        shown = [members] if len(members) > FOLD else [[m] for m in members]
        found += [_trouble(run, group) for group in shown]
    return found


def _trouble(run: Run, members: Sequence[TestVerdict]) -> Trouble:
    first = members[0]
    record = first.record
    lines = plain(record.detail or "").strip().splitlines() if record is not None else []
    if len(lines) > DETAIL_LINES:
        lines = [
            *lines[:4],
            f"... {len(lines) - DETAIL_LINES} lines left out ...",
            *lines[4 - DETAIL_LINES :],
        ]
    lines = [line if len(line) <= 400 else f"{line[:400]}..." for line in lines]
    kind = record.kind if record is not None else None
    meaning = f"{kind}: {KINDS.get(kind, kind)}" if kind else VERDICTS[first.verdict]
    return Trouble(
        first,
        tuple(m.test for m in members),
        meaning,
        "\n".join(lines),
        rerun(run.header, first.test),
        causes(first),
    )


def causes(verdict: TestVerdict) -> tuple[tuple[str, str, str], ...]:
    """Up to three causes that a failure's text and logs show: cause and whose, the line, remedy with a link."""
    told = []
    for f in [f for f in verdict.findings if f.role != "hint"][:3]:
        s, seen = f.signature, f.first
        whose = {"code": "code", "machine": "the machine", "network": "the network"}[s.where]
        rank = "" if seen.rank is None else f"rank {seen.rank}, "
        line = f"{plain(seen.text)}  ({rank}{plain(seen.file)}:{seen.line_number})"
        told.append((f"{s.id}, {whose}: {s.cause}", line, f"{s.remedy} ({s.links[0]})"))
    return tuple(told)


def known(judgement: Judgement) -> list[tuple[str, int, str, str, str, str]]:
    """Known issues that showed: id, number of tests, reason, link, last day, an example of what was seen."""
    counts: dict[str, list[TestVerdict]] = {}
    for t in judgement.tests:
        if t.verdict == "known" and t.issue is not None:
            counts.setdefault(t.issue.id, []).append(t)
    rows = []
    for name, members in sorted(counts.items()):
        issue, record = members[0].issue, members[0].record
        assert issue is not None
        assert record is not None
        seen = f"{record.kind}: {record.reason}"
        if record.kind in ("exception", "masked_error"):
            seen += f": {without_places(record.detail or '')}"
        seen = " ".join(plain(seen).split())
        seen = seen if len(seen) <= 300 else f"{seen[:300]}..."
        rows.append((name, len(members), issue.reason, issue.link, issue.last_day, seen))
    return rows


def without_places(text: str) -> str:
    """A decoder's text without the clock, and with the file's name alone for its path."""
    text = re.sub(r"\[\d\d:\d\d:\d\d\]\s*", "", text.partition("Stack trace")[0])
    return re.sub(r"(?:/[\w.-]+)+/([\w.-]+:\d+)", r"\1", text)


def skipped(judgement: Judgement) -> list[tuple[str, str]]:
    """Skipped tests with why."""
    return [(plain(t.test), plain(t.why)) for t in judgement.tests if t.verdict in _SKIPS]


_SKIPS = ("skipped", "skip_unaccepted", "capability_lost")

SUITE_COLUMNS = (
    "suite",
    "control",
    "planned",
    "passed",
    "known",
    "failed",
    "skipped",
    "lost",
    "error",
    "time",
)


def suite_rows(judgement: Judgement) -> Iterator[tuple[str, ...]]:
    """One row a suite, under SUITE_COLUMNS; time is the sum over its tests, in seconds."""
    for s in judgement.suites:
        c = s.counts
        passed = sum(c.get(v, 0) for v in ("same", "fixed", "new", "known_fixed"))
        failed = sum(c.get(v, 0) for v in _FAILED)
        skips = sum(c.get(v, 0) for v in (*_SKIPS, "lacking"))
        control = s.inconclusive or "holds"
        numbers = (s.planned, passed, c.get("known", 0), failed, skips, c.get("lost", 0), c.get("error", 0))
        yield (s.suite, control, *(str(n) for n in numbers), f"{s.duration_s:.1f} s")


_FAILED = ("newly_failing", "failing", "known_expired", "control_failed", "infrastructure")

CROSSING_COLUMNS = ("trace", "beside", "verdict", "largest difference", "why")


def crossing_rows(judgement: Judgement) -> Iterator[tuple[str, ...]]:
    """Traces beside those accepted on other runners: all that do not agree, and one row for those that do."""
    agree: dict[str, list[float]] = {}
    for c in judgement.crossings:
        if c.verdict == "agree":
            agree.setdefault(c.other, []).append(c.largest or 0.0)
            continue
        largest = "unknown" if c.largest is None else f"{c.largest:.1e} at step {c.largest_step}"
        yield f"{c.test}::{c.trace}", c.other, c.verdict, largest, c.reason
    for other, values in sorted(agree.items()):
        yield f"{len(values)} traces", other, "agree", f"{max(values):.1e}", ""
