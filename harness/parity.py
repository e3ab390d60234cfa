"""Two traces of the same training -> agree, differ or inconclusive, and from which step; pure."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Literal

Verdict = Literal["agree", "differ", "inconclusive"]
Envelopes = Mapping[tuple[int, int], float]
"""(first step, last step) -> greatest relative difference that is noise."""

EXIT_STATUS: Mapping[Verdict, int] = {"agree": 0, "differ": 1, "inconclusive": 3}

ENVELOPES: Mapping[str, Envelopes] = MappingProxyType(
    {
        "dense": {(1, 1): 1.2e-5, (2, 5): 1.9e-5, (6, 10): 3.8e-5, (11, 50): 1e-4, (51, 100): 1e-4},
        "moe": {(1, 1): 4e-5, (2, 5): 2e-4, (6, 10): 5e-4, (11, 50): 3.5e-3, (51, 100): 3.8e-3},
    }
)
"""Envelopes by family of model, counted from the first step as 1; docs/parity.md has the measurements.

From the second step on: 2.5 times the greatest relative difference of agreeing pairs (torchtitan's debug models,
8 devices of two vendors, 2026-02 to 2026-06; dense 7.5e-6, 1.5e-5, 4e-5, 4e-5; mixture of experts 8e-5, 2e-4,
1.4e-3, 1.5e-3). 2.5 because no group of agreeing traces, left out, exceeded the others by more than 2.43.
Step 1 holds one forward pass and no growth of noise (dense 3.6e-7, mixture of experts 2.0e-6): less than half of
the least by which a changed model moved it (2.7e-5, 8.7e-5).
"""

FIRST_STEPS = 10
"""The gate `first` judges up to this step, counted from 1; the gate `late` judges what follows."""
MINIMUM_STEPS = 50
"""Fewer common steps never agree: a changed data order has been seen to show first at step 24."""

_MOE = re.compile(r"moe|mixtral|deepseek|llama4|gpt.oss|[-_]a\d+b")
_DENSE = re.compile(r"llama2|llama3|qwen2|qwen3|gemma|gpt2")


@dataclass(frozen=True)
class Series:
    """One value per step. `resolution` is half a unit of the last printed digit, 0.0 for full precision.

    `steps` increase strictly. `doubts` say in words why the trace is no evidence; with any, nothing is judged.
    """

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    family: str | None = None
    resolution: float = 0.0
    doubts: tuple[str, ...] = ()
    model: str | None = None
    noise: str | None = None

    def __post_init__(self) -> None:
        if len(self.steps) != len(self.values):
            raise ValueError(f"{self.name}: {len(self.steps)} steps, {len(self.values)} values")
        if any(b <= a for a, b in itertools.pairwise(self.steps)):
            raise ValueError(f"{self.name}: steps do not increase")


@dataclass(frozen=True)
class Window:
    """The common steps from `first` to `last`: how many, the largest relative difference, at which step.

    `rounding` is what the printed precision adds to the envelope, relative. `measured` is False for steps that
    the envelopes do not cover: these are held to the nearest one, and cannot show that traces differ.
    """

    first: int
    last: int
    steps: int
    largest: float | None
    at_step: int | None
    envelope: float
    rounding: float
    measured: bool
    inside: bool

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True)
class Parity:
    """What is said of two traces. `first_step` is the first that leaves its envelope, None when none does.

    `gate` is what decided: `first`, `late` or `finite` when they differ; `provenance`, `steps`, `rounding`,
    `finite`, `unmeasured` or `family` when inconclusive; None when they agree. `steps` counts common steps.
    """

    verdict: Verdict
    reason: str
    first_step: int | None
    largest: float | None
    largest_step: int | None
    gate: str | None
    windows: tuple[Window, ...]
    steps: int
    family: str | None


def family_of(model: str | None) -> str | None:
    """`moe` or `dense` by the name of a model; None for one that is not known."""
    name = (model or "").lower()
    return "moe" if _MOE.search(name) else "dense" if _DENSE.search(name) else None


def judge_parity(a: Series, b: Series, *, envelopes: Envelopes | None = None) -> Parity:
    """Compares two traces step by step; the order of the two changes nothing but names.

    `envelopes` replace the built-in ones, for example by the noise that a suite measured itself, and take the
    step numbers as they stand. The built-in ones count from the first step, be it numbered 0 or 1. A family
    that is not known, or not the same, is judged by both: agree within the narrower, differ outside the wider.
    """
    if envelopes is not None:
        return _judge(a, b, _checked(envelopes), None, 1)
    start = 0 if 0 in (*a.steps[:1], *b.steps[:1]) else 1
    numbered = {
        name: {(first + start - 1, last + start - 1): t for (first, last), t in windows.items()}
        for name, windows in ENVELOPES.items()
    }
    families = {s.family for s in (a, b) if s.family is not None}
    if unheard := sorted(families - set(numbered)):
        raise ValueError(f"family {unheard[0]!r}: none of {', '.join(ENVELOPES)}")
    if len(families) == 1:
        family = families.pop()
        return _judge(a, b, numbered[family], family, start)
    narrow = _judge(a, b, numbered["dense"], None, start)
    if narrow.verdict != "differ":
        return narrow
    wide = _judge(a, b, numbered["moe"], None, start)
    if wide.verdict == "differ":
        return wide
    reason = f"{narrow.reason}; mixtures of experts may differ so, and the model's family is not known"
    return replace(narrow, verdict="inconclusive", gate="family", reason=reason)


@dataclass(frozen=True)
class _Steps:
    """What the comparison found: windows, and the steps outside of them, finite in one only, finite in neither."""

    common: tuple[int, ...]
    windows: tuple[Window, ...]
    outside: Mapping[int, str]
    measured: frozenset[int]
    one_sided: Mapping[int, str]
    no_number: tuple[int, ...]


def _compare(a: Series, b: Series, envelopes: Envelopes) -> _Steps:
    left, right = (dict(zip(s.steps, s.values, strict=True)) for s in (a, b))
    common = sorted(left.keys() & right.keys())
    rounding = a.resolution + b.resolution
    windows: list[Window] = []
    outside: dict[int, str] = {}
    measured_steps: set[int] = set()
    one_sided: dict[int, str] = {}
    no_number: list[int] = []
    for first, last, tolerance, measured in _spans(envelopes, common):
        here = [s for s in common if first <= s <= last]
        found: dict[int, float] = {}
        inside, added = True, 0.0
        for step in here:
            x, y = left[step], right[step]
            if not (math.isfinite(x) and math.isfinite(y)):
                inside = False
                if math.isfinite(x) or math.isfinite(y):
                    which = b.name if math.isfinite(x) else a.name
                    one_sided[step] = f"step {step}: {which} is not finite, the other is"
                else:
                    no_number.append(step)
                continue
            scale = max(abs(x), abs(y))
            found[step] = min(abs(x - y) / scale, 2.0) if scale else 0.0
            if rounding:
                added = max(added, rounding / scale if scale else math.inf)
            if abs(x - y) > tolerance * scale + rounding:
                inside = False
                outside[step] = (
                    f"relative difference {found[step]:.1e} at step {step}, the envelope is {tolerance:.1e}"
                )
        measured_steps |= set(here) if measured else set()
        at = max(found, key=lambda s: found[s]) if found else None
        largest = None if at is None else found[at]
        windows.append(Window(first, last, len(here), largest, at, tolerance, added, measured, inside))
    return _Steps(
        tuple(common), tuple(windows), outside, frozenset(measured_steps), one_sided, tuple(no_number)
    )


def _judge(a: Series, b: Series, envelopes: Envelopes, family: str | None, start: int) -> Parity:
    """The verdict, by envelopes that are in order; `start` is the number of the first step of training."""
    found = _compare(a, b, envelopes)
    top = max(found.windows, key=lambda w: -1.0 if w.largest is None else w.largest)
    leaves = {**found.outside, **found.one_sided}
    proven = [s for s in leaves if s in found.measured or s in found.one_sided]

    def say(verdict: Verdict, gate: str | None, reason: str) -> Parity:
        step = min(proven or leaves, default=None)
        steps = len(found.common)
        return Parity(verdict, reason, step, top.largest, top.at_step, gate, found.windows, steps, family)

    doubts = [f"{s.name}: {d}" for s in (a, b) for d in s.doubts]
    if doubts:
        return say("inconclusive", "provenance", "; ".join(dict.fromkeys(doubts)))
    if not found.common:
        return say("inconclusive", "steps", f"no common step ({_extent(a)}; {_extent(b)})")
    if proven:
        step = min(proven)
        gate = "finite" if step in found.one_sided else "first" if step - start < FIRST_STEPS else "late"
        starts = "" if a.steps[0] == b.steps[0] else f" ({_extent(a)}; {_extent(b)})"
        return say("differ", gate, leaves[step] + starts)
    if found.no_number:
        return say("inconclusive", "finite", f"neither is finite at step {found.no_number[0]}")
    if leaves:
        return say("inconclusive", "unmeasured", f"{leaves[min(leaves)]}, and no noise was measured there")
    needed = min(MINIMUM_STEPS, (sum(last - first + 1 for first, last in envelopes) + 1) // 2)
    if len(found.measured) < needed:
        return say(
            "inconclusive", "steps", f"{len(found.measured)} common steps, {needed} are needed to agree"
        )
    origin = min(envelopes)
    if not any(origin[0] <= s <= origin[1] for s in found.common):
        return say("inconclusive", "steps", f"step {origin[0]} is not in both, so a changed start may hide")
    for w in found.windows:
        if w.rounding > w.envelope:
            reason = f"printed to {w.rounding:.1e} in steps {w.label}, the envelope is {w.envelope:.1e}"
            return say("inconclusive", "rounding", reason)
    most = f"largest relative difference {top.largest:.1e} at step {top.at_step}"
    return say("agree", None, f"{len(found.common)} common steps inside the envelopes, {most}")


def _checked(envelopes: Envelopes) -> Envelopes:
    """The same in order; ValueError for windows that overlap, run backwards or hold no tolerance."""
    windows = sorted(envelopes)
    if not windows:
        raise ValueError("envelopes: empty")
    for first, last in windows:
        tolerance = envelopes[first, last]
        if first > last or not (math.isfinite(tolerance) and tolerance >= 0):
            raise ValueError(f"envelopes: {first}-{last}: {tolerance} is no window with a tolerance")
    for (_, last), (first, _) in itertools.pairwise(windows):
        if first <= last:
            raise ValueError(f"envelopes: windows overlap at step {first}")
    return {w: envelopes[w] for w in windows}


def _spans(envelopes: Envelopes, common: Sequence[int]) -> list[tuple[int, int, float, bool]]:
    """The windows, and between, before and after them what else there is to compare, at the nearest tolerance."""
    spans: list[tuple[int, int, float, bool]] = []
    if not common:
        return [(first, last, t, True) for (first, last), t in envelopes.items()]
    next_step = min(common)
    nearest = envelopes[min(envelopes)]
    for (first, last), tolerance in sorted(envelopes.items()):
        if any(next_step <= s < first for s in common):
            spans.append((next_step, first - 1, min(nearest, tolerance), False))
        spans.append((first, last, tolerance, True))
        next_step, nearest = last + 1, tolerance
    if common[-1] >= next_step:
        spans.append((next_step, common[-1], nearest, False))
    return spans


def _extent(series: Series) -> str:
    if not series.steps:
        return f"{series.name} is empty"
    return f"{series.name} has steps {series.steps[0]} to {series.steps[-1]}"


def render_json(a: Series, b: Series, parity: Parity) -> str:
    """One JSON object; keys are added in later versions, never removed or given another meaning."""
    value = {"parity": 1, "a": a.name, "b": b.name, **asdict(parity)}
    value["exit_status"] = EXIT_STATUS[parity.verdict]
    for window in value["windows"]:
        if not math.isfinite(window["rounding"]):
            window["rounding"] = None
    return json.dumps(value, indent=1, allow_nan=False)


def render_terminal(parity: Parity) -> str:
    """The verdict and why on the first line, then a table by window."""
    lines = [f"{parity.verdict.upper()}: {parity.reason}", ""]
    lines.append(f"{'steps':>9} {'common':>7} {'largest':>9} {'at step':>8} {'envelope':>9}")
    for w in parity.windows:
        largest = "-" if w.largest is None else f"{w.largest:.1e}"
        at = "-" if w.at_step is None else str(w.at_step)
        state = "-" if not w.steps else "in" if w.inside else "OUT"
        state += f", rounding adds {w.rounding:.1e}" if w.rounding else ""
        state += "" if w.measured else ", noise not measured here"
        lines.append(f"{w.label:>9} {w.steps:>7} {largest:>9} {at:>8} {w.envelope:>9.1e} {state}")
    return "\n".join(lines)
