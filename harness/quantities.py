"""Numbers with units as people read them; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SCALES: Mapping[str, Sequence[tuple[float, str]]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes")),
    "ratio": ((1.0, ""),),
}


def scale_of(unit: str, value: float | None) -> tuple[float, str]:
    """What to divide values of this unit by so that this one reads well, and the unit's name then."""
    scales = SCALES.get(unit, ((1.0, unit),))
    fitting = [s for s in scales if value is None or abs(value) >= s[0]]
    return fitting[0] if fitting else scales[-1]


def quantity(value: float, scale: tuple[float, str]) -> str:
    """Four digits of a value, in the scale's unit."""
    return f"{value / scale[0]:.4g} {scale[1]}".rstrip()


def percent(share: float | None) -> str:
    """Two digits of a share; unknown for None."""
    if share is None:
        return "unknown"
    return f"{100 * share:.0f} %" if abs(share) >= 1 else f"{100 * share:.2g} %"
