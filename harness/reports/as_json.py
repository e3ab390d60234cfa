"""The report for programs; documented in docs/formats.md."""

from __future__ import annotations

import json
from typing import Any

from harness.merged import Column, Merged
from harness.records import finite, to_json
from harness.report_parts import metric_parts, parts
from harness.verdicts import MetricVerdict

NAME = "json"


def render(merged: Merged, *, width: int = 110, color: bool = False) -> str:
    """One JSON object; keys are added in later versions, never removed or given another meaning.

    Of one run its report; of several what they are side by side, and `runs`, the report of each.
    """
    del width, color
    if merged.single:
        return _object(_column(merged.columns[0]))
    value = {
        "report": 1,
        "merged": True,
        "status": merged.status,
        "exit_status": merged.exit_status,
        "headline": merged.headline,
        "reasons": list(merged.reasons),
        "columns": [c.name for c in merged.columns],
        "absent": [to_json(a) for a in merged.absent],
        "lines": [to_json(line) for line in merged.lines],
        "between": [{"here": b.here, **to_json(b.crossing)} for b in merged.between],
        "beside": [
            {
                "test": b.test,
                "metric": b.metric,
                "statistic": b.statistic,
                "unit": b.unit,
                "cells": [_cell(*each) for each in zip(b.cells, b.ratios, b.whys, strict=True)],
            }
            for b in merged.beside
        ],
        "runs": [_column(c) for c in merged.columns],
    }
    return _object(value)


def _cell(m: MetricVerdict | None, ratio: float | None, why: str) -> dict[str, Any] | None:
    if m is None:
        return None
    return {
        "median": m.median,
        "processes": m.processes,
        "unit": m.unit,
        "ratio": ratio,
        "why_no_ratio": why or None,
    }


def _column(column: Column) -> dict[str, Any]:
    run, judgement, given, header = column.run, column.judgement, column.given, column.run.header
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
    return {
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
        "bundles": [dict(b) for b in given.bundles],
        "notes": list(judgement.notes),
    }


def _object(value: dict[str, Any]) -> str:
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
