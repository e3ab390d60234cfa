"""What a run's steps and actions cost at a price for an hour of a device; pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from harness.rates import Rate
from harness.records import RunnerInfo

STEP = "step_s"
"""The metric whose sample is an optimizer step."""

OLD_DAYS = 365


@dataclass(frozen=True)
class Price:
    """What an hour of one device costs, for runners whose key fits the pattern; where that is said, and on which day."""

    runner: str
    per_device_hour: float
    currency: str
    source: str
    day: str


@dataclass(frozen=True)
class Prices:
    """A price list. `epoch_samples`: how many samples one epoch of the buyer's training has; None is unknown."""

    prices: tuple[Price, ...]
    epoch_samples: float | None = None


@dataclass(frozen=True)
class Cost:
    """What one test's work costs, in the price's currency; None where it does no such work."""

    test: str
    metric: str
    devices: int
    per_step: float | None = None
    per_epoch: float | None = None
    per_million_samples: float | None = None
    per_million_actions: float | None = None


@dataclass(frozen=True)
class Costs:
    """The costs of a run at `price`, which was `days_old` on the run's day; `why` says why there are none, or what to
    mind about them."""

    price: Price | None
    rows: tuple[Cost, ...] = ()
    why: str = ""
    days_old: int | None = None
    epoch_samples: float | None = None


def cost_of(rates: Iterable[Rate], runner: RunnerInfo, prices: Prices, today: date) -> Costs:
    """Costs at the first price that fits the runner's key. `today`: the day of the run."""
    if runner.emulated or runner.stand_in:
        return Costs(None, why="emulated: its times say nothing of a device, so nothing of a cost")
    price = next((p for p in prices.prices if fnmatch.fnmatchcase(runner.key, p.runner)), None)
    if price is None:
        return Costs(None, why=f"no price fits the runner {runner.key}")
    days = (today - date.fromisoformat(price.day)).days
    rows = tuple(c for r in rates if (c := _cost(r, price.per_device_hour, prices.epoch_samples)) is not None)
    why = "" if rows else "no training step and no action was timed"
    if days > OLD_DAYS:
        why = "; ".join(filter(None, [why, f"the price was {days} days old on the day of the run"]))
    return Costs(price, rows, why, days, prices.epoch_samples)


def _cost(rate: Rate, per_device_hour: float, epoch_samples: float | None) -> Cost | None:
    once = rate.seconds * rate.devices * per_device_hour / 3600
    samples, actions = rate.work.get("samples"), rate.work.get("actions")
    if rate.metric == STEP and samples is not None:
        epoch = None if epoch_samples is None else once * epoch_samples / samples
        return Cost(rate.test, rate.metric, rate.devices, once, epoch, once * 1e6 / samples)
    if actions is not None:
        each = once * 1e6 / actions
        return Cost(rate.test, rate.metric, rate.devices, per_million_actions=each)
    return None
