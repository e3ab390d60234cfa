"""A series as a plot of text, for a terminal; pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of a braille letter, by column and row from above."""


def render_plot(
    values: Sequence[float],
    *,
    changes: Collection[int] = (),
    width: int = 72,
    height: int = 8,
    unit: str = "",
) -> list[str]:
    """Lines of a plot: a dot a value from left to right, a stroke where the level changes; values are finite.

    With more values than columns, each column shows the least, the middle and the greatest of its values.
    """
    if not values:
        return []
    low, high = min(values), max(values)
    labels = [f"{v:.4g} {unit}".rstrip() for v in (high, low)]
    margin = max(map(len, labels))
    columns = max(2, 2 * (width - margin - 3))
    across = 1 if len(values) <= 1 else (min(columns, max(len(values) * 2, 2)) - 1) / (len(values) - 1)
    used = math.ceil((round(across * (len(values) - 1)) + 1) / 2)
    cells = [[0] * used for _ in range(height)]
    for x, y in _dots(values, across, low, high, 4 * height):
        cells[y // 4][x // 2] |= DOTS[x % 2][y % 4]
    strokes = {round(across * (n - 0.5)) // 2 for n in changes if 0 < n < len(values)}
    lines = []
    for row, line in enumerate(cells):
        label = labels[0] if row == 0 else labels[1] if row == height - 1 else ""
        text = "".join(chr(0x2800 + c) if c else "│" if x in strokes else " " for x, c in enumerate(line))
        lines.append(f"{label:>{margin}} ┤{text}".rstrip())
    return lines


def _dots(
    values: Sequence[float], across: float, low: float, high: float, rows: int
) -> list[tuple[int, int]]:
    by_column: dict[int, list[float]] = {}
    for n, value in enumerate(values):
        by_column.setdefault(round(across * n), []).append(value)
    found, span = [], high / 2 - low / 2  # halves, so that no difference is infinite
    for x, own in by_column.items():
        ordered = sorted(own)
        for value in {ordered[0], ordered[len(ordered) // 2], ordered[-1]}:
            part = (high / 2 - value / 2) / span if span > 0 else 0.5
            found.append((x, min(rows - 1, int(part * rows))))
    return found
