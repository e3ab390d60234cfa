"""Whether the values of a dataclass are of the types it declares: JSON from elsewhere is data to be looked at; pure."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
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
    kind: Any = type(value)
    if _fits(kind)(value):
        return None
    hints = _hints(kind)
    for field in dataclasses.fields(value):
        name = f"{where}{field.name}"
        if (wrong := _mistyped(hints[field.name], getattr(value, field.name), name)) is not None:
            return wrong
    return None


@functools.cache
def _hints(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def _fits(hint: Any) -> Callable[[Any], bool]:
    """A quick test of a hint: who passes it is of the type; who does not is looked at again, for the words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return lambda value: True
    if origin in (typing.Union, types.UnionType):
        some = [_fits(a) for a in arguments]
        return lambda value: any(fits(value) for fits in some)
    if origin is typing.Literal:
        return lambda value: value in arguments
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        if arguments[0] in (float, int, str, bool):
            kinds = {float, int} if arguments[0] is float else {arguments[0]}
            return lambda value: type(value) is tuple and set(map(type, value)) <= kinds
        inner = _fits(arguments[0])
        return lambda value: type(value) is tuple and all(map(inner, value))
    if origin is collections.abc.Mapping:
        of_values = _fits(arguments[1])
        return lambda value: type(value) is dict and all(map(of_values, value.values()))
    if dataclasses.is_dataclass(hint):
        # Only when there is such a value: the names in a class may be there for the type checker alone.
        return lambda value: (
            type(value) is hint
            and all(fits(getattr(value, name)) for name, fits in _parts(typing.cast(Any, hint)))
        )
    if hint in (float, int, str, bool, type(None)):
        plain = (float, int) if hint is float else (hint,)
        return lambda value: type(value) in plain
    return lambda value: False  # the slow way knows


@functools.cache
def _parts(kind: Any) -> list[tuple[str, Callable[[Any], bool]]]:
    return [(f.name, _fits(_hints(kind)[f.name])) for f in dataclasses.fields(kind)]


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
