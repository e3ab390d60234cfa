"""What `harness triage` prints, and the table of signatures in its document; pure."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from harness.records import to_json
from harness.triage import Finding, Triage, is_infrastructure, judge_log
from harness.triage_lines import Sighting, visible
from harness.triage_signatures import Signature

MOST_RANKS_SHOWN = 8


def render_terminal(triage: Triage, *, width: int = 110) -> str:
    """Lines for a person: the first says what is known, then each finding with cause, remedy and its line."""
    hints = [f for f in triage.findings if f.role == "hint"]
    told = [f for f in triage.findings if f.role != "hint"]
    lines = [_headline(triage, told)]
    for finding in told:
        lines += ["", *_finding(finding, width)]
    if hints:
        lines += ["", "warnings that healthy runs print as well:"]
        for finding in hints:
            lines += ["", *_finding(finding, width)]
    return "\n".join(lines) + "\n"


def _headline(triage: Triage, told: Sequence[Finding]) -> str:
    if told:
        first = told[0]
        whose = (
            "infrastructure, not the target" if is_infrastructure(triage.findings) else first.signature.where
        )
        more = f"; {len(told) - 1} more below" if len(told) > 1 else ""
        return f"{first.signature.id} ({whose}): {first.signature.cause}{more}"
    error = triage.last_error
    if error is None:
        return "no known cause, and no line that looks like an error"
    return f"no known cause; the last error line, {_place(error)}:\n  {error.text}"


def _finding(finding: Finding, width: int) -> list[str]:
    s = finding.signature
    role = finding.role + (f" of {', '.join(finding.follows)}" if finding.follows else "")
    where = s.where + (", infrastructure" if s.infrastructure else "")
    lines = [f"{s.id}  {role}; {where}"]
    for name, text in (("cause", s.cause), ("remedy", s.remedy)):
        head = f"  {name + ':':8}"
        lines += textwrap.wrap(
            text, width, initial_indent=head, subsequent_indent=" " * 10, break_on_hyphens=False
        )
    lines.append(f"  {'line:':8}{finding.first.text}")
    lines.append(f"  {'at:':8}{_place(finding.first)}{_times(finding)}")
    lines.append(f"  {'link:':8}{s.links[0]}")
    return lines


def _place(shown: Sighting) -> str:
    rank = "" if shown.rank is None else f", rank {shown.rank}"
    return f"{visible(shown.file) or 'log'}:{shown.line_number}{rank}"


def _times(finding: Finding) -> str:
    if finding.count < 2:
        return ""
    ranks = ", ".join(map(str, finding.ranks[:MOST_RANKS_SHOWN]))
    ranks += ", ..." if len(finding.ranks) > MOST_RANKS_SHOWN else ""
    return f"; {finding.count} times" + (f", ranks {ranks}" if len(finding.ranks) > 1 else "")


def render_json(triage: Triage) -> str:
    """One object, stable: keys are added, never removed or given another meaning."""
    value: dict[str, Any] = {
        "triage": 1,
        "known": triage.known,
        "infrastructure": is_infrastructure(triage.findings),
        "files": [visible(f) for f in triage.files],
        "findings": [finding_json(f) for f in triage.findings],
        "last_error": to_json(triage.last_error),
    }
    return json.dumps(value, indent=1) + "\n"


def finding_json(finding: Finding) -> dict[str, Any]:
    """One finding as plain data, for the JSON of triage and of a report."""
    s = finding.signature
    return {
        "id": s.id,
        "role": finding.role,
        "cause": s.cause,
        "remedy": s.remedy,
        "where": s.where,
        "infrastructure": s.infrastructure,
        "line": finding.first.text,
        "line_number": finding.first.line_number,
        "file": visible(finding.first.file),
        "rank": finding.first.rank,
        "ranks": list(finding.ranks),
        "count": finding.count,
        "follows": list(finding.follows),
        "links": list(s.links),
    }


def render_table(signatures: Sequence[Signature]) -> str:
    """The table signature -> example -> found of docs/triage.md, as Markdown."""
    rows = [
        "| id | role | where | cause | example | found |",
        "|---|---|---|---|---|---|",
    ]
    for s in signatures:
        found = judge_log([s.example], signatures, name="example").findings
        ids = ", ".join(f.signature.id for f in found) or "nothing"
        where = f"{s.where}, infrastructure" if s.infrastructure else s.where
        example = " / ".join(_cell(line, 110) for line in s.example.strip().splitlines())
        mark = " (note)" if s.example_note else ""
        cells = (f"[{s.id}]({s.links[0]})", s.role, where, _plain(s.cause), example + mark, ids)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _cell(line: str, length: int) -> str:
    text = visible(line)
    text = text if len(text) <= length else text[: length - 3] + "..."
    return f"`{text.replace('`', chr(39)).replace('|', '/')}`"


def _plain(text: str) -> str:
    return text.replace("|", "/")


_TABLE = re.compile(r"(<!-- table -->\n).*(<!-- end of table -->\n)", re.DOTALL)


def with_table(page: str, signatures: Sequence[Signature]) -> str:
    """The page with the table between its two marks as the signatures now make it."""
    return _TABLE.sub(lambda marks: f"{marks[1]}{render_table(signatures)}{marks[2]}", page)
