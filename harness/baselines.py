"""Approved runs on disk: find the comparable one, accept new ones with a reason."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import BaselineError
from harness.judge_metrics import SAME_MACHINE, collect
from harness.judge_words import provenance_of
from harness.policy import Rule, rule_of
from harness.records import SCHEMA, Header, Run, Trace, differing, to_json, trace_from_json
from harness.verdicts import AcceptedTraces, Baseline, BaselineMetric, Judgement

_PLACEHOLDERS = {"todo", "tbd", "placeholder", "none", "reason", "text", "because"}
_SETTLED = re.compile(
    r"incomparable with .*|\d+ missing|\d+ metrics? (inconclusive|incomparable|missing) .*", re.DOTALL
)
"""Reasons for no verdict that accepting settles: the run differs from what was accepted before."""
_WORST = {"skipped": 0, "passed": 1, "failed": 2}


def find(folder: Path, header: Header) -> tuple[Baseline | None, Mapping[str, tuple[str, str]] | None]:
    """The baseline that a run may be compared with, over the run's suites; None when there is none.

    Beside it, for the suites that have baselines of this runner and target but no comparable one: what differs
    from the nearest; None when there is no such suite.
    """
    here = header.comparability
    comparable: dict[str, Baseline] = {}
    others: dict[str, list[dict[str, tuple[str, str]]]] = {}
    for path in sorted(folder.glob("*/*.json")):
        target, _, suite = path.stem.partition(".")
        if target != header.target.name or suite not in header.selection.suites:
            continue
        baseline = _read(path)
        if baseline.key.get("runner") != here["runner"]:
            continue
        differences = differing(here, baseline.key)
        if differences:
            others.setdefault(suite, []).append(differences)
        else:
            comparable[suite] = baseline
    left = [d for suite, found in others.items() if suite not in comparable for d in found]
    nearest = min(left, key=len) if left else None
    if comparable:
        tests: dict[str, str] = {}
        metrics: dict[str, BaselineMetric] = {}
        for baseline in comparable.values():
            tests.update(baseline.tests)
            metrics.update(baseline.metrics)
        runs = {str(p.get("run_id")): p for baseline in comparable.values() for p in baseline.provenance}
        reasons = dict.fromkeys(baseline.reason for baseline in comparable.values())
        measured = tuple(
            p for baseline in comparable.values() if baseline.metrics for p in baseline.provenance
        )
        text = "; ".join(reasons)
        return Baseline(here, tests, metrics, tuple(runs.values()), text, measured=measured), nearest
    return None, nearest


def find_others(folder: Path, header: Header) -> tuple[AcceptedTraces, ...]:
    """The traces accepted on other runners, device architectures or counts for the run's suites, by runner key."""
    found: dict[str, dict[str, Trace]] = {}
    for path in sorted(folder.glob("*/*.json")):
        target, _, suite = path.stem.partition(".")
        if target != header.target.name or suite not in header.selection.suites:
            continue
        if path.parent.name == header.runner.key:
            continue
        baseline = _read(path)
        differences = differing(header.comparability, baseline.key)
        if not set(differences) - {"runner", "device architecture", "device count"}:
            found.setdefault(path.parent.name, {}).update(baseline.traces)
    return tuple(AcceptedTraces(key, traces) for key, traces in found.items())


def accept(
    folder: Path, judged: Sequence[tuple[Run, Judgement]], reason: str, rules: Sequence[Rule] = ()
) -> list[Path]:
    """Writes runs of one kind as the baseline of their suites; BaselineError says why they may not be.

    `rules`: which metrics of repeated tests are kept, and by which statistics.
    """
    reason = " ".join(reason.split())
    if len(reason) < 8 or reason.lower().strip(".! ") in _PLACEHOLDERS:
        raise BaselineError(
            f"--reason {reason!r}: says nothing; write why these runs are right, in a sentence"
        )
    if not judged:
        raise BaselineError("no run was named; name the folder of at least one")
    for run, judgement in judged:
        _refuse(run, judgement)
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
    written = []
    for suite in sorted({r.suite for run, _ in judged for r in run.records}):
        path = folder / first.runner.key / f"{first.target.name}.{suite}.json"
        _write(path, _content([run for run, _ in judged], suite, reason, rules))
        written.append(path)
    return written


def _refuse_other_machine(first: Header, run: Run) -> None:
    """Times of two machines, or of two builds of torch, are no one baseline."""
    if not any(r.repeat is not None for r in run.records):
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
            tests[record.test] = max(old, record.outcome, key=_WORST.__getitem__)
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


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """One line for each test and each metric, sorted: a change of one is a change of one line."""
    lines = []
    for name in ("schema", "key", "reason"):
        lines.append(f" {json.dumps(name)}: {json.dumps(content[name], sort_keys=True)}")
    rows = ",\n".join(f"  {json.dumps(p, sort_keys=True)}" for p in content["provenance"])
    lines.append(f' "provenance": [\n{rows}\n ]')
    for name in ("tests", "metrics", "traces"):
        pairs = sorted(content[name].items())
        rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in pairs)
        lines.append(f' "{name}": {{\n{rows}\n }}')
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    temporary.replace(path)


def _read(path: Path) -> Baseline:
    """A baseline file; BaselineError names file and line of what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(f"{path}: {error}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("<<<<<<<", "|||||||", "=======", ">>>>>>>")):
            raise BaselineError(
                f"{path}: line {number}: conflict markers; take one side whole, then accept anew"
            )
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise BaselineError(
                f"{path}: schema {data['schema']!r}, this harness reads {SCHEMA}; accept a new run"
            )
        metrics = {str(k): _metric(v) for k, v in data["metrics"].items()}
        key = {str(k): str(v) for k, v in data["key"].items()}
        tests = {str(k): str(v) for k, v in data["tests"].items()}
        if odd := sorted(set(tests.values()) - set(_WORST)):
            raise BaselineError(
                f"{path}: outcome {odd[0]!r} is none of {', '.join(_WORST)}; restore it from git"
            )
        traces = {str(k): trace_from_json(v) for k, v in data.get("traces", {}).items()}
        provenance = tuple(dict(p) for p in data["provenance"])
        return Baseline(key, tests, metrics, provenance, str(data["reason"]), traces)
    except json.JSONDecodeError as error:
        raise BaselineError(f"{path}: line {error.lineno}: {error.msg}; restore the file from git") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BaselineError(f"{path}: {error!r}: not a baseline file; restore it from git") from None


def _metric(data: Mapping[str, Any]) -> BaselineMetric:
    test, metric, statistic = (str(part) for part in data["row"])
    noise = None if data.get("noise") is None else float(data["noise"])
    values = tuple(float(m) for m in data["medians"])
    return BaselineMetric(str(data["unit"]), values, (test, metric, statistic), noise)


def listing(folder: Path) -> list[str]:
    """One line for each baseline file: where, how many tests, when accepted from what, and why."""
    lines = []
    for path in sorted(folder.glob("*/*.json")):
        baseline = _read(path)
        last = baseline.provenance[-1] if baseline.provenance else {}
        lines.append(
            f"{path.parent.name}/{path.stem}: {len(baseline.tests)} tests, "
            f"{len(baseline.provenance)} run(s), last {last.get('started', 'unknown')} "
            f"({last.get('run_id', 'unknown')}): {baseline.reason}"
        )
    return lines or [f"no baselines in {folder}"]
