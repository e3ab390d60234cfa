"""Element by element: what came out of a collective against what its inputs imply."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch

GUARD = 8
"""Elements kept behind a buffer, to see a write past its end."""

_CHUNK = 1 << 20
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_DIGITS = {torch.float32: 24, torch.bfloat16: 8}


def sentinel(dtype: torch.dtype) -> float | int:
    """What no input holds: an element that was never written keeps it."""
    return float("nan") if dtype.is_floating_point else torch.iinfo(dtype).min


def relative_bound(dtype: torch.dtype, terms: int) -> float:
    """By how much of the sum of magnitudes a sum of `terms` terms may be off, in whatever order it is made.

    Each of its terms - 1 additions rounds once, by at most u = 2**-digits: (n-1)u / (1 - (n-1)u), after Higham,
    Accuracy and Stability of Numerical Algorithms, section 4.2. One term is not rounded at all.
    """
    least = (terms - 1) * 2.0 ** -_DIGITS[dtype]
    return least / (1 - least)


def compare(got: torch.Tensor, terms: Sequence[torch.Tensor]) -> dict[str, Any]:
    """What differs in `got` from the sum of the terms, over every element: how many, the first, the last.

    Integers are exact, and single terms to the bit. Sums of floats are held against float64 within the rounding that their
    own type allows; a NaN is wrong.
    """
    got = got.detach().reshape(-1).cpu()
    count = got.numel()
    found: dict[str, Any] = {"elements": count, "wrong": 0, "last_wrong": False, "digest": digest(got)}
    for start in range(0, count, _CHUNK):
        here = slice(start, min(start + _CHUNK, count))
        wrong, expected = _wrong(got[here], [t[here] for t in terms])
        if (number := int(wrong.sum())) == 0:
            continue
        if not found["wrong"]:
            first = int(wrong.nonzero()[0])
            found["first"] = start + first
            found["got"], found["expected"] = repr(got[here][first].item()), repr(expected[first].item())
        found["wrong"] += number
        found["last_wrong"] = here.stop == count and bool(wrong[-1])
    return found


def _wrong(got: torch.Tensor, terms: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Which elements are wrong, and what they should be."""
    if len(terms) == 1:
        bits = _BITS[got.element_size()]
        return got.view(bits) != terms[0].view(bits), terms[0]
    if not got.dtype.is_floating_point:
        exact = sum(terms[1:], terms[0])
        return got != exact, exact
    total = torch.zeros(got.numel(), dtype=torch.float64)
    magnitude = torch.zeros_like(total)
    for term in terms:
        wide = term.double()
        total += wide
        magnitude += wide.abs_()
    error = (got.double() - total).abs_()
    return ~(error <= magnitude * relative_bound(got.dtype, len(terms))), total


def digest(values: torch.Tensor) -> str:
    """Sixteen hex digits over the bytes of a tensor on the CPU."""
    return hashlib.sha256(values.contiguous().view(torch.uint8).numpy()).hexdigest()[:16]


def spilled(guard: torch.Tensor) -> bool:
    """Whether the elements behind a buffer were written to."""
    kept = sentinel(guard.dtype)
    untouched = guard.isnan() if guard.dtype.is_floating_point else guard == kept
    return not bool(untouched.all())
