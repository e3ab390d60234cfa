"""Whether the values of a dataclass are of the types it declares: JSON from elsewhere is data to be looked at; pure."""

from __future__ import annotations

import collections.abc
import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def read(kind: type[T], data: Mapping[str, Any]) -> T:
    """A flat dataclass from JSON values; unknown keys are left out, lists become tuples; ValueError for no object."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{kind.__name__}: a JSON object is needed")
    names = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    values = {n: tuple(data[n]) if isinstance(data[n], list) else data[n] for n in names if n in data}
    return kind(**values)


def mistyped(value: Any, where: str = "") -> str | None:
    """The first value of a dataclass, or below it, that is not of its declared type, in words; None when all are."""
    hints = typing.get_type_hints(type(value))
    for field in dataclasses.fields(value):
        name = f"{where}{field.name}"
        if (wrong := _mistyped(hints[field.name], getattr(value, field.name), name)) is not None:
            return wrong
    return None


def _mistyped(hint: Any, value: Any, where: str) -> str | None:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return None
    if origin in (typing.Union, types.UnionType):
        found = [_mistyped(a, value, where) for a in arguments]
        return None if None in found else found[0]
    if origin is typing.Literal:
        return None if value in arguments else f"{where} must be one of {', '.join(map(str, arguments))}"
    if origin is tuple:
        return _tuple(arguments, value, where)
    if origin is collections.abc.Mapping:
        if not isinstance(value, Mapping):
            return f"{where} must be an object, not {value!r:.60}"
        inner = (_mistyped(arguments[1], v, f"{where}.{k}"[:100]) for k, v in value.items())
        return next((w for w in inner if w is not None), None)
    if dataclasses.is_dataclass(hint):
        return mistyped(value, f"{where}.") if isinstance(value, hint) else f"{where} must be an object"  # type: ignore[arg-type]
    kinds = (int, float) if hint is float else hint
    if isinstance(value, kinds) and (hint is bool or not isinstance(value, bool)):
        return None
    return f"{where} must be {getattr(hint, '__name__', hint)}, not {value!r:.60}"


def _tuple(arguments: tuple[Any, ...], value: Any, where: str) -> str | None:
    if not isinstance(value, tuple):
        return f"{where} must be a list, not {value!r:.60}"
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        inner = (_mistyped(arguments[0], v, f"{where}[{n}]") for n, v in enumerate(value))
    elif len(arguments) != len(value):
        return f"{where} must have {len(arguments)} values, not {len(value)}"
    else:
        inner = (
            _mistyped(a, v, f"{where}[{n}]") for n, (a, v) in enumerate(zip(arguments, value, strict=True))
        )
    return next((w for w in inner if w is not None), None)
