"""What other tools' rules say of the same real runs, for `real_aa.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from verdict_rules import REGRESSED, rules
from verdict_worlds import Report

from harness.policy import Rule, rule_of
from harness.records import Run


def alarms(base: Run, heads: Sequence[Run], policy: Sequence[Rule]) -> dict[str, list[int]]:
    """By rule of another tool, how many metrics it calls slower in each head; medians' rows in seconds alone.

    A rule that is not installed is left out.
    """
    there, found = _samples(base, policy), {}
    for rule in rules():
        if rule.ours or rule.judge is None:
            continue
        found[rule.name] = [
            sum(
                REGRESSED in rule.judge(Report(None, None, there[key], here[key]), [0]).verdicts  # type: ignore[arg-type]
                for key in sorted(set(there) & set(here))
            )
            for here in (_samples(head, policy) for head in heads)
        ]
    return found


def _samples(run: Run, policy: Sequence[Rule]) -> dict[str, Any]:
    """Processes x 1 x samples after warm-up, by test and metric, in the order of the processes."""
    taken: dict[str, dict[int, tuple[float, ...]]] = {}
    for record in run.records:
        for m in record.metrics if record.outcome == "passed" and record.repeat is not None else ():
            if m.unit == "s" and rule_of(policy, m.name) is not None:
                taken.setdefault(f"{record.test}::{m.name}", {})[record.repeat] = m.samples[m.warmup :]
    found = {}
    for key, by_repeat in taken.items():
        shortest = min(map(len, by_repeat.values()))
        if shortest:
            found[key] = np.array([by_repeat[r][:shortest] for r in sorted(by_repeat)])[:, None, :]
    return found
