"""What a comparison with a base ran: its plan, its processes in their order, and what was flagged; pure data.

The records are where every run has them: those of the head in the run folder, those of the base in `base/` inside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import typed
from harness.errors import RunFolderError
from harness.records import Run, to_json

SCHEMA = 1


@dataclass(frozen=True)
class Process:
    """One fresh process: of which side, its number there (`Record.repeat`), its pair (counted from 1; None: it was of the
    screen), its tests, exit status and wall seconds. `dropped`: its values do not count, since the comparison was
    interrupted before the other side of its pair had run."""

    side: str
    number: int
    pair: int | None
    tests: tuple[str, ...]
    status: int
    seconds: float
    started: str
    dropped: bool = False


@dataclass(frozen=True)
class Pairs:
    """Plan and state of a comparison in two stages.

    `asked`: the base as the user named it. `screen`: the side of each process of the first stage, in their order;
    `order`: of each pair of the second, which side runs first. Both were drawn from `seed`. `flagged`: rows that went on
    to the pairs, since the screen found them suspicious at `level`, or (`unseen`) was too noisy for them; None before it
    ended. `ended`: nothing is left to run. `head_spec`, `base_spec`: the targets as processes load them. `base`: the
    loaded run of the base; None: not there, or not loaded.
    """

    asked: str
    seed: int
    level: float
    screen: tuple[str, ...]
    order: tuple[tuple[str, str], ...]
    looks: tuple[int, ...]
    tests: tuple[str, ...]
    head_spec: str
    base_spec: str
    options: Mapping[str, Any]
    processes: tuple[Process, ...] = ()
    flagged: tuple[str, ...] | None = None
    unseen: tuple[str, ...] = ()
    ended: bool = False
    schema: int = SCHEMA
    base: Run | None = field(default=None, compare=False)

    @property
    def counted(self) -> tuple[Process, ...]:
        """The processes whose values count."""
        return tuple(p for p in self.processes if not p.dropped)

    def numbers(self, side: str, test: str | None = None) -> tuple[int, ...]:
        """Numbers of one side's processes that count, all or those that were to run this test."""
        return tuple(p.number for p in self.counted if p.side == side and (test is None or test in p.tests))

    def screened(self, side: str) -> tuple[int, ...]:
        """Numbers of one side's processes in the screen, in their order."""
        return tuple(p.number for p in self.counted if p.side == side and p.pair is None)

    def paired(self, test: str) -> tuple[tuple[int, int], ...]:
        """Numbers of the base's and of the head's process of each whole pair that was to run this test, in their order."""
        found: dict[int, dict[str, int]] = {}
        for p in self.counted:
            if p.pair is not None and test in p.tests:
                found.setdefault(p.pair, {})[p.side] = p.number
        return tuple((f["base"], f["head"]) for _, f in sorted(found.items()) if len(f) == 2)

    def seconds(self) -> float:
        """Wall seconds of all processes, those that do not count among them."""
        return sum(p.seconds for p in self.processes)


def pairs_to_json(pairs: Pairs) -> dict[str, Any]:
    """The JSON form, without the base's run."""
    data: dict[str, Any] = to_json(dataclasses.replace(pairs, base=None))
    del data["base"]
    return data


def pairs_from_json(data: Any) -> Pairs:
    """Pairs from their JSON form; RunFolderError says what is wrong with it."""
    try:
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']!r}, this harness reads {SCHEMA}")
        pairs = typed.read(Pairs, {k: v for k, v in data.items() if k != "base"})
        pairs = dataclasses.replace(
            pairs,
            order=tuple((str(a), str(b)) for a, b in pairs.order),
            processes=tuple(typed.read(Process, p) for p in pairs.processes),  # type: ignore[arg-type]
        )
        if wrong := typed.mistyped(pairs):
            raise ValueError(wrong)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(f"pairs.json: {error}; the file is not of this harness") from None
    for test in {*pairs.tests, *(t for p in pairs.processes for t in p.tests)}:
        # They become arguments of pytest.
        if test.startswith(("-", "@")) or "::" not in test:
            raise RunFolderError(f"pairs.json: {test!r:.200} is no test; do not trust this folder")
    return pairs
