"""Pairs of fresh processes judged at a few looks, with the chance of a false alarm split over them; pure.

The sides of a pair are one process of the base and one of the head, which ran one after the other. Values that flagged a
metric at the screen do not enter: what is judged here has not been chosen by its own luck.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.stats import EQUIVALENCE_LEVEL, Finding, Series, compare_pairs

if TYPE_CHECKING:
    import random

LOOKS = (4, 6, 10)
"""After so many pairs the flagged metrics are judged; who is not settled after the last stays inconclusive."""

SIDES = ("base", "head")


@dataclass(frozen=True)
class Decided:
    """What the looks say of one metric: the finding, and after how many pairs it was made; 0: no look was reached."""

    finding: Finding
    pairs: int


def judge_pairs(series: Sequence[Series], *, alpha: float = 0.05, looks: int = len(LOOKS)) -> list[Finding]:
    """One look at all flagged metrics as one family, at the level that a plan of `looks` looks leaves to each.

    Both the chance of a false alarm and that of a false equivalence are divided by the number of looks, so that over
    all of them neither exceeds what one look would have (Bonferroni).
    """
    return compare_pairs(series, alpha=alpha / looks, equivalence=EQUIVALENCE_LEVEL / looks)


def undecided(findings: Sequence[Finding]) -> list[int]:
    """Places of the metrics that need more pairs."""
    return [n for n, finding in enumerate(findings) if finding.verdict == "inconclusive"]


def decide(series: Sequence[Series], *, alpha: float = 0.05, looks: Sequence[int] = LOOKS) -> list[Decided]:
    """What all looks say together, of the pairs in the order they ran: a metric is settled by the first that decides.

    The family is at every look all the flagged metrics: one that was settled before enters with the pairs it had then.
    A metric with fewer pairs than the next look asks for stays as the last look left it.
    """
    for s in series:
        if len(s.base) != len(s.head):
            raise ValueError(f"{len(s.base)} values of the base, {len(s.head)} of the head: no pairs")
    unseen = Finding("inconclusive", f"fewer than {looks[0]} pairs: no look was reached")
    found = [Decided(unseen, 0) for _ in series]
    for look in looks:
        now = [
            n
            for n, s in enumerate(series)
            if found[n].finding.verdict == "inconclusive" and len(s.base) >= look
        ]
        if not now:
            continue
        used = [look if n in now else min(found[n].pairs, len(s.base)) for n, s in enumerate(series)]
        family = [
            dataclasses.replace(s, base=s.base[:count], head=s.head[:count])
            for s, count in zip(series, used, strict=True)
        ]
        findings = judge_pairs(family, alpha=alpha, looks=len(looks))
        for n in now:
            found[n] = Decided(findings[n], look)
    return found


def order(rng: random.Random, pairs: int) -> list[tuple[str, str]]:
    """Which side runs first in each pair, drawn anew for each: a drift of the machine then favors neither."""
    return [SIDES if rng.random() < 0.5 else (SIDES[1], SIDES[0]) for _ in range(pairs)]
