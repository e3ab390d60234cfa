"""Reads traces for `harness parity`: from a JSON file, or from a record of a run folder."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness import rundir
from harness.errors import UsageError
from harness.parity import ENVELOPES, Series, family_of

MINIMUM_DIGITS = 6
"""Fewer significant digits are no measurement of parity: with five, one unit of a loss of 8 is 1.2e-5, twice the
greatest difference of agreeing pairs in the first steps."""
FULL_PRECISION = 8
"""Significant digits from which a value counts as printed in full (float32 needs 9, less trailing zeros)."""


class _Written(str):
    """A number of a JSON file as it was written."""


def read_pair(a: str, b: str, noise: str | None = None) -> tuple[Series, Series]:
    """Both traces; UsageError for what cannot be read, or when the two name different models.

    `noise` is the family whose envelopes hold, in place of the one that the model's name says.
    """
    if noise is not None and noise not in ENVELOPES:
        raise UsageError(f"--noise {noise}: no such family; there are: {', '.join(ENVELOPES)}")
    (left, left_emulated), (right, right_emulated) = _read(a), _read(b)
    if left.model and right.model and left.model != right.model:
        raise UsageError(
            f"{b}: a trace of {right.model}, and {a} of {left.model}; name two traces of one model"
        )
    if None not in (left_emulated, right_emulated) and left_emulated != right_emulated:
        doubt = "emulated and measured runs are not compared"
        left = dataclasses.replace(left, doubts=(*left.doubts, doubt))
    if noise is not None:
        left, right = (dataclasses.replace(s, family=noise) for s in (left, right))
    return left, right


def read(spec: str) -> Series:
    """The trace that a file or `RUN:TEST:TRACE` names; UsageError says what is wrong and what is there."""
    return _read(spec)[0]


def _read(spec: str) -> tuple[Series, bool | None]:
    """The trace, and whether it was emulated; None when its source does not say."""
    path = Path(spec)
    try:
        exists = path.exists()
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise UsageError(f"{spec[:200]}: {error.strerror}; name a file you can read") from None
    if not exists:
        folder, colon, rest = spec.partition(":suites/")
        if colon:
            test, _, trace = f"suites/{rest}".rpartition(":")
            return _from_run(spec, Path(folder), test, trace)
        raise UsageError(f"{spec}: no such file; {_there(path)}")
    if path.is_dir():
        return _from_run(spec, path, "", "")
    return _from_file(spec, path), None


def _there(path: Path) -> str:
    folder = path.parent
    try:
        found = sorted(p.name for p in folder.iterdir() if p.suffix == ".json")
    except OSError:
        return f"there is no folder {folder} either; name a JSON file, or a trace of a run as RUN:TEST:TRACE"
    return f"JSON files in {folder}: {_listed(found)}"


def _listed(names: Sequence[str], limit: int = 12) -> str:
    shown = ", ".join(names[:limit]) or "none"
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def _from_run(spec: str, folder: Path, test: str, trace: str) -> tuple[Series, bool]:
    run = rundir.load(folder)
    records = run.by_test()
    if test not in records or not records[test].traces:
        what = "name a trace in it as RUN:TEST:TRACE" if not test else f"no traces of {test} in the run"
        traced = sorted(f"{name}:{t.name}" for name, r in records.items() for t in r.traces)
        damage = f" ({run.problems[0]})" if run.problems else ""
        raise UsageError(f"{spec}: {what}; there are: {_listed(traced)}{damage}")
    found = {t.name: t for t in records[test].traces}
    if trace not in found:
        raise UsageError(f"{spec}: no trace {trace!r}; the test has: {_listed(sorted(found))}")
    values = found[trace].values
    first = found[trace].first_step
    if not isinstance(first, int):
        raise UsageError(f"{spec}: first_step {first!r} is no step number; the run folder is damaged")
    steps = tuple(range(first, first + len(values)))
    series = Series(spec, steps, values, doubts=doubts_of(values), noise=found[trace].noise)
    return series, run.header.runner.emulated


def _from_file(spec: str, path: Path) -> Series:
    def wrong(what: str) -> UsageError:
        return UsageError(
            f'{spec}: {what}; a trace is a JSON object {{"steps": [1, ...], "loss": [8.1, ...]}}'
        )

    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"), parse_float=_Written)
    except OSError as error:
        raise UsageError(f"{spec}: {error.strerror}; name a file you can read") from None
    except json.JSONDecodeError as error:
        raise wrong(f"no JSON (line {error.lineno}: {error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise wrong(f"no JSON ({' '.join(str(error).split())[:80]})") from None
    if not isinstance(data, dict):
        raise wrong(f"holds a {_kind(data)}")
    steps, losses = data.get("steps"), data.get("loss")
    for name, found in (("steps", steps), ("loss", losses)):
        if not isinstance(found, list) or not found:
            raise wrong(f"{name!r} is {'absent' if name not in data else 'no list, or empty'}")
    assert isinstance(steps, list)
    assert isinstance(losses, list)
    if len(steps) != len(losses):
        raise wrong(f"{len(steps)} steps and {len(losses)} values of loss")
    last: int | None = None
    for step in steps:
        if type(step) is not int or (last is not None and step <= last):
            raise wrong(f"steps must be whole numbers that increase, found {str(step)[:40]!r} after {last}")
        last = step
    values: list[float] = []
    for step, loss in zip(steps, losses, strict=True):
        if type(loss) not in (_Written, int, float):
            raise wrong(f"the loss of step {step} is a {_kind(loss)}")
        try:
            values.append(float(loss))
        except OverflowError:
            raise wrong(f"the loss of step {step} is too large") from None
    model = data.get("model")
    if model is not None and (not isinstance(model, str) or isinstance(model, _Written)):
        raise wrong(f"'model' is a {_kind(model)}")
    digits, resolution = _precision(losses)
    doubts = doubts_of(values, digits)
    return Series(spec, tuple(steps), tuple(values), family_of(model), resolution, doubts, model)


def _kind(value: Any) -> str:
    names = {_Written: "number", int: "number", float: "number", str: "text", list: "list", bool: "boolean"}
    return "null" if value is None else names.get(type(value), "object")


def _precision(written: Iterable[Any]) -> tuple[int | None, float]:
    """The most significant digits of any value, and half a unit of the last decimal printed; 0.0 in full.

    Trailing zeros may have been dropped, so the value with the most digits speaks for all. None: no number.
    """
    digits: int | None = None
    finest = 0
    for text in written:
        number = Decimal(str(text))
        if number.is_finite():
            _, figures, exponent = number.as_tuple()
            assert isinstance(exponent, int)
            digits = max(digits or 0, len(figures))
            finest = min(finest, exponent)
    if digits is None or digits >= FULL_PRECISION:
        return digits, 0.0
    return digits, float(Decimal(5).scaleb(finest - 1))


def doubts_of(values: Sequence[float], digits: int | None = None) -> tuple[str, ...]:
    """Why values look typed in or made up rather than measured; `digits`: the most significant ones printed."""
    doubts = []
    if digits is not None and digits < MINIMUM_DIGITS:
        doubts.append(
            f"at most {digits} significant digits, {MINIMUM_DIGITS} are needed; it may be a placeholder"
        )
    finite = [v for v in values if math.isfinite(v)]
    distinct = len(set(finite))
    if len(finite) > 2 and 2 * distinct <= len(finite):
        doubts.append(f"{distinct} distinct values in {len(finite)} steps; it may be a placeholder")
    elif len(finite) > 2 and len(finite) == len(values) and _straight(finite):
        doubts.append("the values lie on a straight line; it may be a placeholder")
    return tuple(doubts)


def _straight(values: Sequence[float]) -> bool:
    """Whether the differences from step to step are all equal but for rounding."""
    steps = [b - a for a, b in itertools.pairwise(values)]
    return max(steps) - min(steps) <= 1e-9 * max(abs(v) for v in values)
