"""The report as a badge: the JSON that shields.io takes from an endpoint."""

from __future__ import annotations

import json
from collections import Counter

from harness.merged import WORDS, Merged, is_partial
from harness.report_parts.fitting import short
from harness.report_parts.parts import plain
from harness.verdicts import RED

NAME = "badge"
_COLOR = {"red": "red", "no_verdict": "lightgrey"}


def render(merged: Merged, *, width: int = 110, color: bool = False) -> str:
    """One JSON object: `brightgreen` only for a green of whole, measured runs; what was emulated or partial says so."""
    del width, color
    marks = _marks(merged)
    message = f"{''.join(f'{mark}: ' for mark in marks)}{WORDS[merged.status].lower()}{_counts(merged)}"
    green = "yellowgreen" if marks else "brightgreen"
    value = {
        "schemaVersion": 1,
        "label": short(" ".join(plain(merged.columns[0].run.header.target.name).split()), 60) or "target",
        "message": message,
        "color": _COLOR.get(merged.status, green),
        "isError": merged.status != "green",
    }
    return json.dumps(value) + "\n"


def _marks(merged: Merged) -> list[str]:
    """What keeps the verdict from being one on whole, measured runs."""
    columns = merged.columns
    marks = []
    if any(c.run.header.defect is not None for c in columns):
        marks.append("defect planted")
    if all(c.emulated for c in columns):
        stand_in = all(c.run.header.runner.stand_in for c in columns)
        marks.append("stand-in" if stand_in else "emulated")
    elif any(c.emulated for c in columns):
        marks.append("partly emulated")
    if is_partial(columns, merged.absent):
        marks.append("partial")
    return marks


def _counts(merged: Merged) -> str:
    """Of one run its tests; of several how many are green."""
    if not merged.single:
        of = len(merged.columns) + sum(not a.off for a in merged.absent)
        return f", {sum(c.judgement.status == 'green' for c in merged.columns)} of {of} runs green"
    judgement = merged.columns[0].judgement
    count = Counter(t.verdict for t in judgement.tests)
    passed = sum(t.record is not None and t.record.outcome == "passed" for t in judgement.tests)
    failed = sum(count[v] for v in RED)
    regressed = sum(m.red for m in judgement.metrics)
    found = [f"{failed} failed"] * bool(failed) + [f"{regressed} regressed"] * bool(regressed)
    return f", {', '.join(found or [f'{passed} passed'])}"
