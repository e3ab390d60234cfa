"""The report for programs; documented in docs/formats.md."""

from __future__ import annotations

import json
from typing import Any

from harness.records import Run, finite, to_json
from harness.reports import metric_parts, parts
from harness.reports.metric_parts import Given
from harness.verdicts import Judgement

NAME = "json"
NOTHING = Given()


def render(
    run: Run, judgement: Judgement, *, width: int = 110, color: bool = False, given: Given = NOTHING
) -> str:
    """One JSON object; keys are added in later versions, never removed or given another meaning."""
    del width, color
    header = run.header
    tests = [
        {
            "test": t.test,
            "suite": t.suite,
            "verdict": t.verdict,
            "green": t.green,
            "why": t.why,
            "kind": t.record.kind if t.record else None,
            "outcome": t.record.outcome if t.record else None,
            "duration_s": t.record.duration_s if t.record else None,
            "known_issue": t.issue.id if t.issue else None,
            "causes": [
                {
                    "id": f.signature.id,
                    "role": f.role,
                    "where": f.signature.where,
                    "infrastructure": f.signature.infrastructure,
                    "cause": f.signature.cause,
                    "remedy": f.signature.remedy,
                    "line": f.first.text,
                    "log": f.first.file,
                    "rank": f.first.rank,
                    "links": list(f.signature.links),
                }
                for f in t.findings
            ],
            "rerun": parts.rerun(header, t.test),
        }
        for t in judgement.tests
    ]
    suites = [{**to_json(s), "counts": dict(s.counts)} for s in judgement.suites]
    rates = metric_parts.rates(run, judgement, given)
    costs = metric_parts.costs(run, rates, given)
    better = metric_parts.new_baseline(run, judgement, given)
    value = {
        "report": 1,
        "run_id": header.run_id,
        "status": judgement.status,
        "exit_status": judgement.exit_status,
        "headline": judgement.headline,
        "reasons": list(judgement.reasons),
        "emulated": header.runner.emulated,
        "runner": {**to_json(header.runner), "key": header.runner.key},
        "target": to_json(header.target),
        "tests": tests,
        "suites": suites,
        "metrics": [to_json(m) for m in judgement.metrics],
        "rates": [to_json(r) for r in rates],
        "costs": None if costs is None else to_json(costs),
        "new_baseline": None if better is None else {"why": better[0], "command": better[1]},
        "crossings": [to_json(c) for c in judgement.crossings],
        "notes": list(judgement.notes),
    }
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {_lines(part)}" for name, part in value.items()) + "\n}"


def _lines(part: Any) -> str:
    """JSON with a line for each row of a list."""
    if isinstance(part, list) and part:
        return "[\n  " + ",\n  ".join(map(_strict, part)) + "\n ]"
    return _strict(part)


def _strict(value: Any) -> str:
    """JSON on one line, with null for numbers that it has no form for."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), allow_nan=False)
