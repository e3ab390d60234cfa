"""How old baselines are, and which come from another environment than the one that is here now; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from harness.baseline_diff import facts
from harness.judge_words import provenance_of
from harness.records import Header, differing
from harness.verdicts import Baseline


@dataclass(frozen=True)
class Environment:
    """What a baseline is held against: `name` says what it is, `started` when it was (ISO time; None is now).

    `facts` by name, unknown left out; `key`: what must be equal for runs to be comparable, empty when unknown.
    """

    name: str
    facts: Mapping[str, str]
    key: Mapping[str, str] = field(default_factory=dict)
    started: str | None = None


@dataclass(frozen=True)
class Age:
    """One baseline file: `days` since its newest run (None: unknown), its runs and facts, and what differs `there`
    (in it) from `here`. `verdict` is current, older, other (the environment is the earlier one) or unchecked."""

    name: str
    days: float | None
    runs: tuple[str, ...]
    processes: int | None
    facts: Mapping[str, str]
    verdict: str
    against: str | None
    differences: Mapping[str, tuple[str, str]]


VERDICTS: Mapping[str, str] = {
    "current": "of this environment",
    "older": "older than its environment",
    "other": "of a later environment",
    "unchecked": "not checked",
}
NOT_ENVIRONMENT = ("host",)
"""Facts that may differ: another machine of the same kind is the same environment."""


def environment_of(header: Header) -> Environment:
    """The environment of a run."""
    return Environment(
        f"run {header.run_id}", facts(provenance_of(header)), header.comparability, header.started
    )


def judge_age(name: str, baseline: Baseline, environment: Environment | None, now: datetime) -> Age:
    """What differs from any run of the baseline, of the facts that both sides recorded."""
    newest = max((t for p in baseline.provenance if (t := _time(p.get("started"))) is not None), default=None)
    processes = [p["processes"] for p in baseline.provenance if isinstance(p.get("processes"), int)]
    differences: dict[str, tuple[str, str]] = {}
    if environment is not None:
        for source in baseline.provenance:
            there = facts(source)
            for fact in sorted({*there} & {*environment.facts} - {*NOT_ENVIRONMENT}):
                if there[fact] != environment.facts[fact]:
                    differences.setdefault(fact, (there[fact], environment.facts[fact]))
        if environment.key:
            differences.update(differing(baseline.key, environment.key))
    return Age(
        name,
        None if newest is None else (now - newest).total_seconds() / 86400,
        tuple(str(p.get("run_id")) for p in baseline.provenance),
        sum(processes) if processes else None,
        facts(baseline.provenance[-1]) if baseline.provenance else {},
        _verdict(environment, newest, differences),
        None if environment is None else environment.name,
        differences,
    )


def _verdict(
    environment: Environment | None, newest: datetime | None, differences: Mapping[str, tuple[str, str]]
) -> str:
    if environment is None:
        return "unchecked"
    if not differences:
        return "current"
    then = None if environment.started is None else _time(environment.started)
    return "other" if then is not None and newest is not None and then < newest else "older"


def _time(text: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)


def render_ages(ages: Sequence[Age]) -> list[str]:
    """For each file its age, runs, machine and software, and in what its environment differs."""
    lines = []
    for a in ages:
        days = "of unknown age" if a.days is None else f"{max(0.0, a.days):.0f} days old"
        processes = "" if a.processes is None else f" of {a.processes} processes"
        runs = f"{len(a.runs)} run{'' if len(a.runs) == 1 else 's'}{processes}"
        lines.append(f"{a.name}: {days}, {runs}: {_told(a)}")
        known = ", ".join(f"{n} {v}" for n, v in a.facts.items() if v != "none")
        lines.append(f"  {known or 'nothing is known of its environment'}")
    return lines


def _told(age: Age) -> str:
    words = VERDICTS[age.verdict]
    if age.verdict == "unchecked":
        return f"{words}: no run of its runner and target is known here; name one with --run"
    pairs = [f"{name} {there} there, {here} here" for name, (there, here) in age.differences.items()]
    against = f" (beside {age.against})"
    return f"{words}: {'; '.join(pairs)}{against}" if pairs else f"{words}{against}"
