"""Reads the step lines of a training log, as progress bars, plain prints and whatever else was written between leave it.

VITRA's line: `=>> [Epoch 000] Global Step 000516 =>> Backbone LR :: 0.000000 - Loss :: 0.2664`. Fields have fixed
decimals and padding, so a line cut anywhere, or with anything but digits put into it, is damaged or still the same
line. What cannot be told from a line alone: a digit that was changed into another; a digit lost or gained before
the point of a loss of 10 and more, or in a step of 1,000,000 and more; a lost minus sign; two lines torn and joined
between the same two fields. Such a step is told where the bar was drawn again (`conflicts`) or by its number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EXAMPLES = 5
EXAMPLE_CHARACTERS = 160

_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_REAL = r"(?:0|[1-9]\d*)\.\d{%d}|inf|nan"
_LINE = re.compile(
    r"=>> \[Epoch (\d{3}|[1-9]\d{3,14})\] Global Step (\d{6}|[1-9]\d{6,14})"
    rf" =>> Backbone LR :: (-?(?:{_REAL % 6}))"
    # A bar puts ": " behind its description. Before the first step there is no loss, and only a bar shows that state.
    rf"(?: - Loss :: (-?(?:{_REAL % 4}))(?=: |:?\s*\Z)|(?=: ))",
    re.ASCII,
)
_TRACE_OF_ONE = re.compile(r"=>> \[Epoch|Global Step|Backbone LR|Loss ::")


@dataclass(frozen=True)
class Step:
    """What a line says of an optimizer step; `rate` is the backbone's learning rate."""

    epoch: int
    step: int
    rate: float
    loss: float


@dataclass(frozen=True)
class StepLog:
    """Steps in the order of their first lines, each once.

    `started`: numbers of the steps that bars stood at before any loss was known. `damaged` counts the places where
    a line was and cannot be read. `conflicts`: a step's first line and a later one with other values. `returned`:
    steps that came again after another one.
    """

    steps: tuple[Step, ...]
    started: tuple[int, ...]
    damaged: int
    examples: tuple[str, ...]
    conflicts: tuple[tuple[Step, Step], ...]
    returned: tuple[int, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(s.step for s in self.steps)


def text(data: bytes) -> str:
    """A log's text without terminal codes; bytes that are no UTF-8 become U+FFFD."""
    return _CODES.sub("", data.decode("utf-8", errors="replace"))


def parse(data: bytes) -> StepLog:
    """The steps that a log shows; never raises, whatever the bytes."""
    seen: dict[int, tuple[Step, tuple[str, ...]]] = {}
    started: list[int] = []
    bad: list[str] = []
    conflicts: dict[tuple[str, ...], tuple[Step, Step]] = {}
    returned: list[int] = []
    current = None
    for piece in re.split(r"[\r\n]+", text(data)):
        end = 0
        for found in _LINE.finditer(piece):
            _note_damage(piece[end : found.start()], bad)
            end = found.end()
            if found[4] is None:
                if int(found[2]) not in started:
                    started.append(int(found[2]))
                continue
            step = Step(int(found[1]), int(found[2]), float(found[3]), float(found[4]))
            first, said = seen.setdefault(step.step, (step, found.groups()))
            if said != found.groups():
                conflicts.setdefault(found.groups(), (first, step))
            if first is not step and current != step.step:
                returned.append(step.step)
            current = step.step
        _note_damage(piece[end:], bad)
    steps = tuple(step for step, _ in seen.values())
    return StepLog(
        steps, tuple(started), len(bad), tuple(bad[:EXAMPLES]), tuple(conflicts.values()), tuple(returned)
    )


def _note_damage(rest: str, bad: list[str]) -> None:
    place = _TRACE_OF_ONE.search(rest)
    if place is not None:
        start = max(0, place.start() - 20)
        bad.append(rest[start : start + EXAMPLE_CHARACTERS])
