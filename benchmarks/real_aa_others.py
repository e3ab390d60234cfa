"""What other tools' rules say of the same real runs, for `real_aa.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from verdict_rules import REGRESSED, Judge, rules
from verdict_worlds import Report

from harness.judge_metrics import collect
from harness.policy import Rule, rule_of
from harness.records import Run


def alarms(base: Run, heads: Sequence[Run], policy: Sequence[Rule]) -> dict[str, list[int]]:
    """By rule of another tool, how many metrics it calls slower in each head; medians' rows in seconds alone.

    A rule that is not installed is left out.
    """
    there = _samples(base, policy)
    here = [_samples(head, policy) for head in heads]
    return {
        rule.name: [sum(_slower(rule.judge, there[k], head[k]) for k in there if k in head) for head in here]
        for rule in rules()
        if not rule.ours and rule.judge is not None
    }


def _slower(judge: Judge, base: Any, head: Any) -> bool:
    return REGRESSED in judge(Report(None, None, base, head), [0]).verdicts  # type: ignore[arg-type]


def _samples(run: Run, policy: Sequence[Rule]) -> dict[str, Any]:
    """Processes x 1 x samples after warm-up, by row, in the order of the processes."""
    records = sorted(run.records, key=lambda r: r.repeat or 0)
    found = {}
    for key, row in collect(dataclasses.replace(run, records=tuple(records)), policy).items():
        shortest = min(map(len, row.timed), default=0)
        if shortest and rule_of(policy, row.metric) is not None:
            found[key] = np.array([samples[:shortest] for samples in row.timed])[:, None, :]
    return found
