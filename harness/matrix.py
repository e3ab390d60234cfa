"""Which runners a workflow starts, on which machines and for how long, and which ones must report; pure.

What is given: the runners there are, the repository's variables, and `runners_off.toml`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from harness.errors import UsageError
from harness.merged import Off

HOSTED = "ubuntu-24.04"
"""The hosted machine of a runner that needs no device, unless a variable says otherwise."""
SUITES_MINUTES = 60
"""For the suites of a runner whose time limits are not multiplied."""
MOST_MINUTES = 300
LONGEST_MINUTES = 4000
"""What a variable may ask for; a machine of one's own may work for five days."""
OTHER_MINUTES: Mapping[str, int] = {"preflight": 30, "pack": 30, "carry": 60}
REST_MINUTES = 30
"""For checking out, installing, and uploading artifacts."""
ENVIRONMENT = "HARNESS_FORK_ENVIRONMENT"
"""The variable that names the environment whose reviewers let a fork's pull request onto one's own machines."""


@dataclass(frozen=True)
class Kind:
    """What the matrix must know of a runner. `plain`: any machine will do, also a hosted one."""

    name: str
    plain: bool
    emulated: bool
    image: str | None = None
    options: tuple[str, ...] = ()
    time_factor: float = 1.0


@dataclass(frozen=True)
class Plan:
    """`include`: one entry for each runner to start; `expected`: those the merging job asks for, also ones that are not
    started; `notes`: why a runner is not started, and other things a person must know."""

    include: tuple[Mapping[str, Any], ...]
    expected: tuple[str, ...]
    notes: tuple[str, ...]


def plan(
    kinds: Sequence[Kind],
    variables: Mapping[str, str],
    off: Iterable[Off] = (),
    *,
    today: date,
    untrusted: bool = False,
    only: Sequence[str] = (),
) -> Plan:
    """Every runner is started, or is switched off, or is expected and will be missed; UsageError names a bad variable.

    `untrusted`: the code comes from somebody else's fork, so that one's own machines need an approval. `only`: not all.
    """
    there = [k.name for k in kinds]
    switched = {o.runner: o for o in off}
    for name, where in [(n, "runners_off.toml") for n in switched] + [(n, "runners") for n in only]:
        if name not in there:
            raise UsageError(f"{where}: {name}: no such runner; there are: {', '.join(there)}")
    include: list[Mapping[str, Any]] = []
    notes: list[str] = []
    chosen = [k for k in kinds if not only or k.name in only]
    for kind in chosen:
        o = switched.get(kind.name)
        if o is not None:
            if date.fromisoformat(o.last_day) >= today:
                notes.append(f"{kind.name} is switched off until {o.last_day}: {o.reason}")
                continue
            notes.append(
                f"{kind.name} is started again: its last day off was {o.last_day} ({o.reason}); take it out of "
                "runners_off.toml, or give another last day"
            )
        why_not = _why_not(kind, variables, untrusted)
        if why_not is None:
            include.append(_entry(kind, variables, untrusted))
        else:
            notes.append(why_not)
    return Plan(tuple(include), tuple(k.name for k in chosen), tuple(notes))


def variable(runner: str, what: str) -> str:
    """The name of a repository variable, for example HARNESS_CPU_LABELS."""
    return f"HARNESS_{re.sub('[^A-Z0-9]', '_', runner.upper())}_{what}"


def _why_not(kind: Kind, variables: Mapping[str, str], untrusted: bool) -> str | None:
    """Why a runner that is on cannot be started, with the remedy."""
    name = variable(kind.name, "LABELS")
    labels = _labels(name, variables)
    if labels is None and not kind.plain:
        return (
            f"{kind.name} has no machine and will be missed: set the repository variable {name} to the labels of one, "
            f'as ["self-hosted", "{kind.name}"], or switch it off in runners_off.toml'
        )
    if untrusted and labels is not None and not variables.get(ENVIRONMENT):
        return (
            f"{kind.name} is not started for a pull request from a fork and will be missed: set {ENVIRONMENT} to an "
            "environment with required reviewers"
        )
    return None


def _entry(kind: Kind, variables: Mapping[str, str], untrusted: bool) -> dict[str, Any]:
    labels = _labels(variable(kind.name, "LABELS"), variables)
    image = variables.get(variable(kind.name, "IMAGE"), "") or kind.image or ""
    options = [*(kind.options if image == kind.image else ()), *_options(kind, variables)]
    minutes = {**OTHER_MINUTES, "suites": _minutes(kind, variables)}
    return {
        "runner": kind.name,
        "labels": [HOSTED] if labels is None else labels,
        "hosted": labels is None,
        "container": "" if image in ("", "none") else {"image": image, "options": shlex.join(options)},
        "environment": variables[ENVIRONMENT] if untrusted and labels is not None else "",
        "emulated": kind.emulated,
        "index": variables.get(variable(kind.name, "INDEX"), ""),
        "minutes": {**minutes, "job": sum(minutes.values()) + REST_MINUTES},
    }


def _labels(name: str, variables: Mapping[str, str]) -> list[str] | None:
    text = variables.get(name, "").strip()
    if not text:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    good = isinstance(found, list) and found and all(isinstance(w, str) and w.strip() for w in found)
    if not good:
        raise UsageError(f'{name}={text}: write labels as a JSON list, ["self-hosted", "gpu"]')
    return [str(w) for w in found]


def _options(kind: Kind, variables: Mapping[str, str]) -> list[str]:
    name = variable(kind.name, "OPTIONS")
    try:
        return shlex.split(variables.get(name, ""))
    except ValueError as error:
        raise UsageError(f"{name}={variables[name]}: {error}; write options as for docker create") from None


def _minutes(kind: Kind, variables: Mapping[str, str]) -> int:
    name = variable(kind.name, "MINUTES")
    text = variables.get(name, "").strip()
    if not text:
        return max(1, min(MOST_MINUTES, round(SUITES_MINUTES * kind.time_factor)))
    if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= LONGEST_MINUTES:
        raise UsageError(f"{name}={text}: a number of minutes, 1 to {LONGEST_MINUTES}")
    return int(text)


def render_outputs(made: Plan) -> str:
    """Lines of a step's outputs: `matrix` for fromJSON, `any` (true, false: something is started), `expect`."""
    lines = {
        "matrix": json.dumps({"include": list(made.include)}),
        "any": "true" if made.include else "false",
        "expect": json.dumps(list(made.expected)),
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def render_json(made: Plan) -> str:
    """The plan as the merging job reads it."""
    told = {
        "matrix": {"include": list(made.include)},
        "expect": list(made.expected),
        "notes": list(made.notes),
    }
    return json.dumps(told, indent=1) + "\n"
