"""Approved runs on disk: find the comparable one, accept new ones with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import accepting, baseline_files
from harness.policy import Rule
from harness.records import Header, Run, Trace, differing
from harness.verdicts import AcceptedTraces, Baseline, BaselineMetric, Judgement


@dataclass(frozen=True)
class Change:
    """A baseline file as it is (None: not there) and as accepting makes it, with its text."""

    path: Path
    old: Baseline | None
    new: Baseline
    text: str


def find(folder: Path, header: Header) -> tuple[Baseline | None, Mapping[str, tuple[str, str]] | None]:
    """The baseline that a run may be compared with, over the run's suites; None when there is none.

    Beside it, for the suites that have baselines of this runner and target but no comparable one: what differs
    from the nearest; None when there is no such suite.
    """
    here = header.comparability
    comparable: dict[str, Baseline] = {}
    others: dict[str, list[dict[str, tuple[str, str]]]] = {}
    for path in baseline_files.paths(folder, header.target.name, header.selection.suites):
        if not path.parent.name.startswith(f"{header.runner.name}-"):
            continue  # unread: a file of another runner may be large
        suite = path.stem.partition(".")[2]
        baseline = baseline_files.read(path)
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
    for path in baseline_files.paths(folder, header.target.name, header.selection.suites):
        if path.parent.name == header.runner.key:
            continue
        baseline = baseline_files.read(path)
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
    changes = plan(folder, judged, reason, rules)
    write(changes)
    return [c.path for c in changes]


def plan(
    folder: Path, judged: Sequence[tuple[Run, Judgement]], reason: str, rules: Sequence[Rule] = ()
) -> list[Change]:
    """What accepting these runs would change, file by file; nothing is written."""
    changes = []
    for suite, content in accepting.contents(judged, reason, rules).items():
        first = judged[0][0].header
        path = folder / first.runner.key / f"{first.target.name}.{suite}.json"
        old = baseline_files.read(path) if path.exists() else None
        new = baseline_files.parse(content, path)
        changes.append(Change(path, old, new, baseline_files.render(content)))
    return changes


def write(changes: Sequence[Change]) -> None:
    """Writes what was planned."""
    baseline_files.write({c.path: c.text for c in changes})


def listing(folder: Path) -> list[str]:
    """One line for each baseline file: where, how many tests, when accepted from what, and why."""
    lines = []
    for path in baseline_files.paths(folder):
        baseline = baseline_files.read(path)
        last = baseline.provenance[-1] if baseline.provenance else {}
        lines.append(
            f"{path.parent.name}/{path.stem}: {len(baseline.tests)} tests, "
            f"{len(baseline.provenance)} run(s), last {last.get('started', 'unknown')} "
            f"({last.get('run_id', 'unknown')}): {baseline.reason}"
        )
    return lines or [f"no baselines in {folder}"]
