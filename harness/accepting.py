"""Runs become a baseline: what is refused, and what of them is kept; pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any

from harness.baseline_files import WORST, says_nothing
from harness.errors import BaselineError
from harness.judge_metrics import SAME_MACHINE, collect
from harness.judge_words import provenance_of
from harness.policy import Rule, rule_of
from harness.records import SCHEMA, Header, Run, differing, to_json
from harness.verdicts import Judgement

_SETTLED = re.compile(
    r"incomparable with .*|\d+ missing|\d+ metrics? (inconclusive|incomparable|missing) .*", re.DOTALL
)
"""Reasons for no verdict that accepting settles: the run differs from what was accepted before."""


def contents(
    judged: Sequence[tuple[Run, Judgement]], reason: str, rules: Sequence[Rule] = ()
) -> dict[str, dict[str, Any]]:
    """The content of a baseline file for each suite of these runs; BaselineError says why they may be none.

    `rules`: which metrics of repeated tests are kept, and by which statistics.
    """
    reason = " ".join(reason.split())
    if says_nothing(reason):
        raise BaselineError(
            f"--reason {reason!r}: says nothing; write why these runs are right, in a sentence"
        )
    if not judged:
        raise BaselineError("no run was named; name the folder of at least one")
    for run, judgement in judged:
        _refuse(run, judgement)
        _refuse_unknown_machine(run)
    # In the order they started, so that the order of naming them changes nothing in the files.
    judged = sorted(judged, key=lambda pair: (pair[0].header.started, pair[0].header.run_id))
    first = judged[0][0].header
    for number, (run, _) in enumerate(judged[1:], 1):
        if run.header.run_id in {r.header.run_id for r, _ in judged[:number]}:
            raise BaselineError(f"{run.header.run_id}: named twice; name each run once")
        differences = differing(first.comparability, run.header.comparability)
        if differences or run.header.target.commit != first.target.commit:
            what = ", ".join(differences) or "target commit"
            raise BaselineError(f"{run.header.run_id}: {what} differs from {first.run_id}; accept them apart")
        _refuse_other_machine(first, run)
    runs = [run for run, _ in judged]
    return {
        s: _content(runs, s, reason, rules) for s in sorted({r.suite for run in runs for r in run.records})
    }


def _repeated(run: Run) -> bool:
    return any(r.repeat is not None for r in run.records)


def _refuse_unknown_machine(run: Run) -> None:
    """Times of a machine that nobody can name belong to none."""
    if not _repeated(run):
        return
    known = {
        **{n: run.header.machine.get(n) for n in SAME_MACHINE},
        "torch": run.header.software.get("torch"),
    }
    for name, value in known.items():
        if value is None:
            raise BaselineError(
                f"{run.header.run_id}: {name} is unknown: nobody could tell what its times may be compared with; "
                "run again where it is known"
            )


def _refuse_other_machine(first: Header, run: Run) -> None:
    """Times of two machines, or of two builds of torch, are no one baseline."""
    if not _repeated(run):
        return
    here = {**{n: first.machine.get(n) for n in SAME_MACHINE}, **first.software}
    there = {**{n: run.header.machine.get(n) for n in SAME_MACHINE}, **run.header.software}
    for name in sorted(set(here) | set(there)):
        if here.get(name) != there.get(name):
            raise BaselineError(
                f"{run.header.run_id}: {name} is {there.get(name)}, {here.get(name)} in {first.run_id}: its times "
                "are of another environment; accept them apart"
            )


def _refuse(run: Run, judgement: Judgement) -> None:
    header, name = run.header, run.header.run_id
    if header.runner.stand_in:
        raise BaselineError(
            f"{name}: was made by a stand-in of the emulator; only measured runs become baselines"
        )
    if header.runner.emulated:
        raise BaselineError(f"{name}: is emulated; only measured runs become baselines")
    if header.defect is not None:
        raise BaselineError(f"{name}: the defect {header.defect} is planted in it; accept a run without")
    if run.pairs is not None:
        raise BaselineError(
            f"{name}: compares two revisions, with some tests repeated more often than others; accept a run of one"
        )
    if header.selection.partial:
        raise BaselineError(f"{name}: is partial; accept a run of whole suites")
    if header.harness_commit is None:
        raise BaselineError(f"{name}: has no harness commit; run from a git checkout of the harness")
    if header.harness_dirty is not False:
        raise BaselineError(f"{name}: the harness was dirty; commit your changes and run again")
    # The reference is part of the harness: the harness's commit is its own.
    own = header.target.name != "reference"
    if own and header.target.commit is None:
        raise BaselineError(f"{name}: the target has no commit; run on a git checkout of it")
    if header.target.dirty or (own and header.target.dirty is None):
        raise BaselineError(f"{name}: the target's checkout is dirty; commit or undo there and run again")
    unmeasured = [m for m in judgement.metrics if m.verdict == "missing" and m.processes]
    if unmeasured:
        raise BaselineError(
            f"{name}: {unmeasured[0].test}: {unmeasured[0].metric}: {unmeasured[0].why}; run again"
        )
    bad = [t for t in judgement.needs_person if t.verdict != "missing"]
    if bad:
        raise BaselineError(
            f"{name}: {bad[0].test} is {bad[0].verdict}; only a run without failures or losses may be"
        )
    other = [r for r in judgement.reasons if not _SETTLED.fullmatch(r)]
    if other or not run.records:
        raise BaselineError(f"{name}: {(other or ['nothing ran'])[0]}; run again")


def _content(runs: Sequence[Run], suite: str, reason: str, rules: Sequence[Rule]) -> dict[str, Any]:
    tests: dict[str, str] = {}
    traces: dict[str, Any] = {}
    for run in runs:
        for record in run.by_test().values():
            if record.suite != suite:
                continue
            old = tests.get(record.test, record.outcome)
            tests[record.test] = max(old, record.outcome, key=WORST.__getitem__)
            for trace in record.traces:
                if trace.noise is not None:  # of several runs the last: traces are held against an envelope
                    traces[f"{record.test}::{trace.name}"] = to_json(trace)
    return {
        "schema": SCHEMA,
        "key": runs[0].header.comparability,
        "reason": reason,
        "provenance": [_source(run, suite) for run in runs],
        "tests": tests,
        "metrics": _metrics(runs, suite, rules),
        "traces": traces,
    }


def _source(run: Run, suite: str) -> dict[str, Any]:
    """Where a run comes from; with the number of its processes when its tests are repeated."""
    repeated = any(r.repeat is not None for r in run.records if r.suite == suite)
    return {**provenance_of(run.header), **({"processes": run.header.repeats} if repeated else {})}


def _metrics(runs: Sequence[Run], suite: str, rules: Sequence[Rule]) -> dict[str, dict[str, Any]]:
    """By row: a value for each process, in the order of the runs, and how far they scatter."""
    rows: dict[str, dict[str, Any]] = {}
    for run in runs:
        repeated = {r.test for r in run.records if r.suite == suite and r.repeat is not None}
        for key, taken in collect(run, rules).items():
            if taken.test not in repeated or rule_of(rules, taken.metric) is None or not taken.values:
                continue
            if len(taken.values) < run.header.repeats:
                why = f" ({taken.bad[0]})" if taken.bad else ""
                raise BaselineError(
                    f"{run.header.run_id}: {key}: {len(taken.values)} of {run.header.repeats} processes gave a value"
                    f"{why}; run again"
                )
            if len(set(taken.units)) > 1:
                raise BaselineError(
                    f"{run.header.run_id}: {key}: units differ between its processes; run again"
                )
            new = {"unit": taken.units[0], "row": [taken.test, taken.metric, taken.statistic], "medians": []}
            entry = rows.setdefault(key, new)
            if entry["unit"] != taken.units[0]:
                raise BaselineError(
                    f"{run.header.run_id}: {key}: unit {taken.units[0]}, {entry['unit']} in an earlier run; accept "
                    "them apart"
                )
            entry["medians"] += [float(f"{v:.6g}") for v in taken.values]
    for entry in rows.values():
        entry["noise"] = _scatter(entry["medians"])
    return rows


def _scatter(values: Sequence[float]) -> float | None:
    """Relative standard deviation, from the median of deviations; None for fewer than 3 values."""
    middle = statistics.median(values)
    if len(values) < 3 or middle <= 0:
        return None
    return float(f"{1.4826 * statistics.median(abs(v - middle) for v in values) / middle:.3g}")
