"""What a judgement says in words: the headline, and the notes; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.pair_words import render_pair_notes
from harness.records import Header, Run
from harness.verdicts import ORDER, VERDICTS, Baseline, MetricVerdict, TestVerdict


def render_headline(
    status: str,
    run: Run,
    tests: Sequence[TestVerdict],
    reasons: Sequence[str],
    metrics: Sequence[MetricVerdict] = (),
) -> str:
    header = run.header
    count = {v: sum(t.verdict == v for t in tests) for v in VERDICTS}
    passed = sum(t.record is not None and t.record.outcome == "passed" for t in tests)
    parts = [f"{passed} passed"]
    parts += [f"{count[v]} {v.replace('_', ' ')}" for v in ORDER if count[v]]
    settled = (
        ("known", "known issues"),
        ("skipped", "skipped"),
        ("lacking", "not run: this machine lacks what they need"),
    )
    parts += [f"{count[v]} {w}" for v, w in settled if count[v]]
    if worse := [m for m in metrics if m.red]:
        first = max(worse, key=lambda m: abs(m.change or 0))
        name = f"{first.test.rpartition('::')[2]} {first.metric}"
        parts.append(f"{_counted(len(worse), 'metric')} regressed ({name} by {first.change or 0:+.1%})")
    if count["fixed"]:
        parts.append(f"{count['fixed']} fixed since the baseline")
    why = ", ".join(parts)
    if status == "no_verdict":
        why = "; ".join(reasons) + f" ({why})"
    elif status == "red" and reasons:
        why += "; besides: " + "; ".join(reasons)
    elif status == "green" and header.selection.partial:
        why += f"; partial: only {_selection(header)}"
    marks = ["EMULATED"] if header.runner.emulated else []
    if header.runner.stand_in:
        marks = ["EMULATED BY A STAND-IN (proves the harness, not a device)"]
    if header.defect is not None:
        marks.append(f"DEFECT {header.defect} PLANTED")
    if header.selection.partial or count["lacking"]:
        marks.append("PARTIAL")
    word = {"green": "GREEN", "red": "RED", "no_verdict": "NO VERDICT"}[status]
    return f"{' '.join([*marks, word])}: {why}"


def render_notes(
    run: Run,
    baseline: Baseline | None,
    incomparable: Mapping[str, tuple[str, str]] | None,
    metrics: Sequence[MetricVerdict],
) -> list[str]:
    header, notes = run.header, []
    if header.target.note:
        notes.append(f"target: {header.target.note}")
    if header.selection.partial:
        notes.append(f"partial: only what {_selection(header)} selects was planned; the rest was not run")
    if baseline is None and incomparable is None and header.runner.emulated:
        notes.append("emulated: judged by outcome alone; only measured runs become baselines")
    elif baseline is None and incomparable is None:
        notes.append(
            f"no baseline for {header.target.name} on {header.runner.key}: every passing test is new; "
            f"accept one with: harness baseline accept RUN --reason TEXT"
        )
    if baseline is not None:
        notes += _differences(header, baseline)
    notes += _lacks(run)
    notes += render_pair_notes(run, metrics)
    notes += _metric_notes(metrics, "the baseline" if run.pairs is None else "the base")
    return notes


def metric_reasons(metrics: Sequence[MetricVerdict]) -> list[str]:
    """Why the metrics keep a run that is not red from being green."""
    found = []
    for verdict in ("missing", "incomparable", "inconclusive"):
        rows = [m for m in metrics if m.unsettled and m.verdict == verdict]
        if rows:
            found.append(f"{_counted(len(rows), 'metric')} {verdict} ({rows[0].why})")
    return found


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _metric_notes(metrics: Sequence[MetricVerdict], against: str) -> list[str]:
    notes = []
    new = [m for m in metrics if m.verdict == "new"]
    if new:
        notes.append(
            f"{_counted(len(new), 'metric')} without a baseline: measured and not judged; accept one of several runs"
        )
    better = [m for m in metrics if m.verdict == "improved"]
    if better:
        first = max(better, key=lambda m: abs(m.change or 0))
        notes.append(
            f"{_counted(len(better), 'metric')} improved beyond {against} ({first.test}: {first.metric} by "
            f"{first.change or 0:+.1%}): if that is meant, accept a new baseline"
        )
    notes += [f"{m.test}: {m.metric}: {m.why}" for m in metrics if "not finite" in m.why]
    notes += [f"{m.test}: {m.metric}: {m.why.partition('; ')[2]}" for m in metrics if "still trend" in m.why]
    return notes


def _lacks(run: Run) -> list[str]:
    """What the machine lacks, with the number of tests that it cost."""
    reasons = [
        r.reason or "" for r in run.by_test().values() if r.outcome == "skipped" and r.kind == "capability"
    ]
    return [f"{reasons.count(r)} tests did not run: {r}" for r in dict.fromkeys(sorted(reasons))]


def _selection(header: Header) -> str:
    s = header.selection
    parts = [f"-k '{s.keyword}'" if s.keyword else "", f"-m '{s.markers}'" if s.markers else "", *s.arguments]
    return " ".join(p for p in parts if p)


def provenance_of(header: Header) -> dict[str, Any]:
    """What a baseline keeps of a run: enough to say what differs from a later one."""
    return {
        "run_id": header.run_id,
        "started": header.started,
        "target_commit": header.target.commit,
        "patches": list(header.target.patches),
        "harness_commit": header.harness_commit,
        "host": header.machine.get("host"),
        "processor": header.machine.get("processor"),
        "cpu_usable": header.machine.get("cpu_usable"),
        "software": dict(header.software),
    }


def _differences(header: Header, baseline: Baseline) -> list[str]:
    """What differs from any of the baseline's runs and may, in words."""
    here = provenance_of(header)
    pairs: list[tuple[str, Any, list[Any]]] = []
    for name in ("target_commit", "patches", "host", "processor"):
        olds = [p[name] for p in baseline.provenance if name in p]
        pairs.append((name.replace("_", " "), here[name], olds))
    software = [p.get("software") or {} for p in baseline.provenance]
    for name in sorted(set(here["software"]).union(*software)):
        pairs.append((name, here["software"].get(name), [s.get(name) for s in software]))
    notes = []
    for name, now, olds in pairs:
        others = list(dict.fromkeys(str(old) for old in olds if old != now))
        if others:
            notes.append(f"differs from the baseline: {name}: {now}, was {' and '.join(others)}")
    return notes
