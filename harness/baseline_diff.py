"""What accepting changes, for a person to review: tests, metrics, and where they come from; pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from harness.policy import Rule, rule_of
from harness.quantities import percent, quantity, scale_of
from harness.verdicts import Baseline, BaselineMetric


def render_diff(old: Baseline | None, new: Baseline, rules: Sequence[Rule] = ()) -> list[str]:
    """Lines that start with `+` added, `-` removed, `~` changed, and a heading for each part with its counts.

    Of metrics that became worse or better by more than their rule's minimum it is said so.
    """
    before = old if old is not None else Baseline(new.key, {}, {}, (), "")
    lines = [f"reason: {new.reason}"] + ([f"  was: {old.reason}"] if old and old.reason != new.reason else [])
    lines += _provenance(before, new)
    lines += _part("tests", _tests(before.tests, new.tests), len(new.tests))
    lines += _part("metrics", _metrics(before.metrics, new.metrics, rules), len(new.metrics))
    return lines + _part("traces", _names(before.traces, new.traces), len(new.traces))


def _part(name: str, changes: Sequence[tuple[str, str]], count: int) -> list[str]:
    if not changes and not count:
        return []
    marks = [mark for mark, _ in changes]
    counts = f"{marks.count('+')} added, {marks.count('-')} removed, {marks.count('~')} changed"
    for word in ("worse", "better"):
        if many := sum(text.endswith(f", {word}") for _, text in changes):
            counts += f", {many} {word} by more than the minimum"
    return [f"{name}: {count}: {counts}", *(f"  {mark} {text}" for mark, text in changes)]


def _tests(old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, str]]:
    found = []
    for test in sorted(set(old) | set(new)):
        if test not in old:
            found.append(("+", f"{test}: {new[test]}"))
        elif test not in new:
            found.append(("-", f"{test}: {old[test]}"))
        elif old[test] != new[test]:
            found.append(("~", f"{test}: {old[test]} -> {new[test]}"))
    return found


def _metrics(
    old: Mapping[str, BaselineMetric], new: Mapping[str, BaselineMetric], rules: Sequence[Rule]
) -> list[tuple[str, str]]:
    found = []
    for key in sorted(set(old) | set(new)):
        if key not in old:
            found.append(("+", f"{key}: {_value(new[key])}, {_spread(new[key])}"))
        elif key not in new:
            found.append(("-", f"{key}: {_value(old[key])}, {_spread(old[key])}"))
        elif old[key] != new[key]:
            found.append(("~", _change(key, old[key], new[key], rules)))
    return found


def _change(key: str, old: BaselineMetric, new: BaselineMetric, rules: Sequence[Rule]) -> str:
    change, word = "unit changed", ""
    if old.unit == new.unit:
        was, now = statistics.median(old.medians), statistics.median(new.medians)
        change = "unknown change"
        if was > 0:
            ratio = now / was
            change = f"{100 * (ratio - 1):+.1f} %"
            word = _word(ratio, rule_of(rules, new.row[1]))
    counts = f"{len(old.medians)} -> {len(new.medians)} processes"
    noise = f"noise {percent(old.noise)} -> {percent(new.noise)}"
    return f"{key}: {_value(old)} -> {_value(new)} ({change}), {counts}, {noise}{word}"


def _word(ratio: float, rule: Rule | None) -> str:
    if rule is None or 1 / (1 + rule.minimum) <= ratio <= 1 + rule.minimum:
        return ""
    return ", worse" if (ratio > 1) == rule.lower_is_better else ", better"


def _value(metric: BaselineMetric) -> str:
    middle = float(statistics.median(metric.medians))
    return quantity(middle, scale_of(metric.unit, middle))


def _spread(metric: BaselineMetric) -> str:
    many = len(metric.medians)
    return f"{many} process{'' if many == 1 else 'es'}, noise {percent(metric.noise)}"


def _names(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str]]:
    marks = {n: "+" if n not in old else "-" if n not in new else "~" for n in {*old, *new}}
    return [(marks[n], n) for n in sorted(marks) if marks[n] != "~" or old[n] != new[n]]


def _provenance(old: Baseline, new: Baseline) -> list[str]:
    """The runs that go and that come, and in what they differ."""
    lines = [f"runs: {len(new.provenance)}"]
    kept = [p for p in old.provenance if p in new.provenance]
    lines += [f"  - {_run(p)}" for p in old.provenance if p not in kept]
    lines += [f"  {' ' if p in kept else '+'} {_run(p)}" for p in new.provenance]
    if not old.provenance:
        return lines
    was, now = facts(old.provenance[-1]), facts(new.provenance[-1])
    for name in sorted({*was, *now}):
        if was.get(name) != now.get(name):
            lines.append(f"  ~ {name}: {was.get(name, 'unknown')} -> {now.get(name, 'unknown')}")
    for name in sorted({*old.key, *new.key}):
        if old.key.get(name) != new.key.get(name):
            lines.append(f"  ~ {name}: {old.key.get(name, 'absent')} -> {new.key.get(name, 'absent')}")
    return lines


def _run(source: Mapping[str, Any]) -> str:
    processes = source.get("processes")
    many = "" if processes is None else f", {processes} process{'' if processes == 1 else 'es'}"
    harness = str(source.get("harness_commit") or "unknown")[:12]
    return f"{source.get('run_id')}, started {source.get('started')}{many}, harness {harness}"


def facts(source: Mapping[str, Any]) -> dict[str, str]:
    """What a run's values depend on, by name: target commit, patches, machine, software. What was not recorded is left
    out; software that was looked for and not found is `none`."""
    found: dict[str, Any] = {name.replace("_", " "): source.get(name) for name in FACTS}
    if "patches" in source:
        found["patches"] = ", ".join(source["patches"]) or "none"
    found.update({n: "none" if v is None else v for n, v in (source.get("software") or {}).items()})
    return {name: str(value) for name, value in found.items() if value is not None}


FACTS = ("target_commit", "host", "processor", "cpu_usable")
