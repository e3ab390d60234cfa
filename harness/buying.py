"""The page of a buyer: machines, what each measured and what that costs, who is cheaper and up to which price; pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.cost import Price, Prices
from harness.estimates import Estimate
from harness.merged import Status
from harness.records import Run

FIGURES: Mapping[str, tuple[str, ...]] = {
    "training": ("time per step", "samples/s", "samples/s and device", "MFU"),
    "inference": ("actions/s", "actions/s and device", "p50", "p95"),
    "serving": (
        "output tokens/s",
        "tokens/s",
        "output tokens/s and device",
        *(f"{what} {share}" for what in ("TTFT", "inter-token") for share in ("p50", "p95", "p99")),
    ),
}
"""What is shown of each kind beside costs, in this order; times are in seconds."""
COSTS: Mapping[str, tuple[str, ...]] = {
    "training": ("step", "epoch", "million samples"),
    "inference": ("million action chunks",),
    "serving": ("million input tokens", "million output tokens", "million tokens"),
}
"""What a cost is of."""
FLIPS: Mapping[str, tuple[str, ...]] = {
    "training": ("million samples",),
    "inference": ("million action chunks",),
    "serving": ("million output tokens", "million tokens"),
}
"""By which costs machines are put in order; an epoch and a step have the order of a million samples."""


@dataclass(frozen=True)
class Offer:
    """One run as a buyer brings it: judged, with its price. `name`: the user's own for it, else None. `peaks`: 1e12
    operations a second of one device, by precision. `why`: why its status is not green. `served`: imported runs of the
    same machine."""

    run: Run
    status: Status
    why: str = ""
    peaks: Mapping[str, float] | None = None
    name: str | None = None
    served: tuple[Run, ...] = ()


@dataclass(frozen=True)
class Machine:
    """One column of the page.

    `parity`: `reference`, `agree`, `differ`, `inconclusive` or `unknown` (nothing was compared), and `parity_why`.
    `struck`: why its costs are struck through; empty: they hold. `price` None: `price_why` says why. `stale`: the price
    was older than a year on the day of the run. `served`: ids of imported runs of this machine, which stand by its quality.
    """

    name: str
    key: str
    run_id: str
    day: str
    target: str
    harness: str | None
    made: str
    emulated: bool
    imported: str | None
    devices: int | None
    status: Status
    status_why: str
    partial: bool
    parity: str
    parity_why: str
    struck: tuple[str, ...]
    price: Price | None
    price_why: str
    days_old: int | None
    stale: bool
    served: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """One number of a cell. `estimate` None is unknown, and `why` says why; `unit` is empty for a share."""

    name: str
    unit: str
    estimate: Estimate | None
    why: str = ""


@dataclass(frozen=True)
class Cell:
    """What one machine has in a row. Without `figures`: nothing, and `why` says why.

    `apart`: why it is not compared with the row's first measured cell; `uneven`: what of it is not to be compared as it
    stands. `unit_seconds`: device-seconds of one unit of each cost, a value a process. `cost_why`: why there is no cost.
    """

    figures: tuple[Figure, ...] = ()
    costs: tuple[Figure, ...] = ()
    why: str = ""
    note: str = ""
    apart: str = ""
    uneven: str = ""
    devices: int | None = None
    processes: int = 0
    work: Mapping[str, float] = field(default_factory=dict)
    unit_seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    cost_why: str = ""

    @property
    def there(self) -> bool:
        return bool(self.figures)


@dataclass(frozen=True)
class Line:
    """One test over the machines. `cheapest`: by the unit of a cost, the name of the machine that is shown to be cheaper
    than every other that it may be compared with; a machine whose cost is struck or stale is never it."""

    kind: str
    test: str
    cells: tuple[Cell, ...]
    cheapest: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Flip:
    """Two machines by one cost of one test. `price`: of an hour and device of the `second`, at which its cost equals the
    first's, in `currency`; None: `why` says why.

    `ratio`: cost of the second over the first's at their own prices; None where one has none, or in another currency.
    `cheaper`: the name of the one that is shown to be; None when neither is, and `why` says why. `ranked`: both have a
    place in an order: fresh prices of one currency, and quality shown. `struck`: names and why nothing follows
    from it.
    """

    kind: str
    test: str
    unit: str
    first: str
    second: str
    price: Estimate | None
    currency: str | None
    own: float | None
    own_currency: str | None
    ratio: Estimate | None
    cheaper: str | None
    ranked: bool = False
    why: str = ""
    struck: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Page:
    """All that a buyer is told. `apart`: what was not compared, in sentences. `chosen`: by kind, the place in `lines` of
    the one that stands for it: the first that most machines may be compared in."""

    machines: tuple[Machine, ...]
    lines: tuple[Line, ...]
    flips: tuple[Flip, ...]
    apart: tuple[str, ...]
    reference: str | None
    prices: Prices | None
    chosen: Mapping[str, int]

    @property
    def comparable(self) -> bool:
        """Whether two machines stand beside each other in any row."""
        return any(sum(c.there and not c.apart for c in line.cells) > 1 for line in self.lines)

    @property
    def exit_status(self) -> int:
        """0; 3 when there is no number, or several machines and none may be compared with another."""
        there = any(c.there for line in self.lines for c in line.cells)
        return 0 if there and (self.comparable or len(self.machines) == 1) else 3
