"""Metric verdicts and judgements, made up, for the tests of reports, rates and costs."""

from __future__ import annotations

from typing import Any

from harness.verdicts import Judgement, MetricVerdict

SPEED = "suites/throughput/test_speed.py::"


def make_verdict(test: str = "test_step", metric: str = "step_s", **changes: Any) -> MetricVerdict:
    """A judged metric of the throughput suite: equivalent, 5 processes beside 5, unless told otherwise."""
    values: dict[str, Any] = {
        "unit": "s",
        "samples": 50,
        "median": 0.104,
        "baseline_median": 0.1,
        "ratio": 1.04,
        "verdict": "equivalent",
        "why": "within 0.03 either way",
        "processes": 5,
        "baseline_processes": 7,
        "gate": True,
        "change": 0.04,
        "low": 0.0301,
        "high": 0.0502,
        "detectable": 0.061,
        "noise": 0.012,
        "minimum": 0.03,
    }
    return MetricVerdict(SPEED + test, metric, **{**values, **changes})


def make_judgement(*metrics: MetricVerdict, **changes: Any) -> Judgement:
    """A green judgement of these metrics and nothing else."""
    values: dict[str, Any] = {"status": "green", "headline": "GREEN: 1 passed", "reasons": ()}
    values |= {"tests": (), "suites": (), "metrics": metrics}
    return Judgement(**{**values, **changes})
