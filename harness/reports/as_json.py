"""The report for programs; documented in docs/formats.md."""

from __future__ import annotations

import json

from harness.records import Run, finite, to_json
from harness.reports import parts
from harness.verdicts import Judgement

NAME = "json"


def render(run: Run, judgement: Judgement, *, width: int = 110, color: bool = False) -> str:
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
        "crossings": [to_json(c) for c in judgement.crossings],
        "notes": list(judgement.notes),
    }
    return json.dumps(finite(value), indent=1, allow_nan=False)
