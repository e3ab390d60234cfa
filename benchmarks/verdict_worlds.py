"""Made-up machines for `verdicts.py`: what fresh processes would measure on them, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

METRICS = 50
SAMPLES = 20
BASE_PROCESSES = 10
HEAD_PROCESSES = 5
"""So many of the head are drawn; most rules use the first few of them."""
SESSION = 64
"""Processes for which the machine's level is drawn: more than any rule runs."""
SAMPLE_NOISE = 0.01


@dataclass(frozen=True)
class World:
    """How processes differ where nothing changed; all numbers relative.

    `noise`: standard deviation between processes; with `noise_to` it is drawn for each metric, log-uniformly between
    the two. `tails`: degrees of freedom of Student's t in place of the normal, at the same scale. `outliers`: share of
    processes that are 3 to 8 % slower. `slope`: how much the machine slows with every process; `walk`: standard
    deviation of its random step from one process to the next; `day`: how much slower it is from the end of the base on.
    These three move all metrics together.
    """

    name: str
    what: str
    noise: float = 0.01
    noise_to: float | None = None
    tails: int | None = None
    outliers: float = 0.02
    slope: float = 0.0
    walk: float = 0.0
    day: float = 0.0

    @property
    def steady(self) -> bool:
        """Whether the machine is the same for base and head: what a rule without fresh pairs has to assume."""
        return not (self.slope or self.walk or self.day)


WORLDS = (
    World("clean", "1 % noise between processes, 2 % of them 3 to 8 % slower"),
    World("outliers", "as clean, with 10 % of the processes 3 to 8 % slower", outliers=0.10),
    World(
        "heavy tails",
        "noise 1 % times Student's t with 3 degrees (standard deviation 1.7 %)",
        tails=3,
        outliers=0.0,
    ),
    World(
        "unequal noise",
        "as clean, each metric with a noise of its own, 0.3 to 3 %",
        noise=0.003,
        noise_to=0.03,
    ),
    World("drift, linear", "as clean, and the machine slows by 0.5 % with every process", slope=0.005),
    World(
        "drift, walk",
        "as clean, and the machine's speed takes a random step of 0.5 % with every process",
        walk=0.005,
    ),
    World("another day", "as clean, and the machine is 4 % slower than on the day of the base", day=0.04),
)


class Session:
    """One session on such a machine: processes one after the other, drawn when they are asked for."""

    def __init__(self, world: World, seed: tuple[int, ...]) -> None:
        self.world = world
        self.rng = np.random.default_rng(seed)
        to = world.noise if world.noise_to is None else world.noise_to
        self.noise = np.exp(self.rng.uniform(np.log(world.noise), np.log(to), METRICS))
        steps = (
            self.rng.normal(world.slope, world.walk, SESSION) if world.walk else np.full(SESSION, world.slope)
        )
        self.level = np.cumsum(steps) + world.day * (np.arange(SESSION) >= BASE_PROCESSES)

    def process(self, place: int, effect: Any) -> Any:
        """Seconds, metrics x samples, of the process that runs as number `place`; `effect`: change by metric."""
        w, rng = self.world, self.rng
        drawn = rng.standard_normal(METRICS) if w.tails is None else rng.standard_t(w.tails, METRICS)
        slow = np.where(rng.random(METRICS) < w.outliers, rng.uniform(0.03, 0.08, METRICS), 0.0)
        middle = self.noise * drawn + np.log1p(slow) + np.log1p(effect) + self.level[place]
        return np.exp(middle[:, None] + SAMPLE_NOISE * rng.standard_normal((METRICS, SAMPLES)))


@dataclass
class Report:
    """What a rule gets: samples of base and head, processes x metrics x samples, and the session for more of them.

    The base runs first; `effect`: the true change by metric.
    """

    session: Session
    effect: Any
    base: Any
    head: Any


def make_report(world: World, effect: Any, seed: tuple[int, ...]) -> Report:
    session = Session(world, seed)
    none = np.zeros(METRICS)
    base = np.stack([session.process(n, none) for n in range(BASE_PROCESSES)])
    head = np.stack([session.process(BASE_PROCESSES + n, effect) for n in range(HEAD_PROCESSES)])
    return Report(session, effect, base, head)
