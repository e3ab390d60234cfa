"""The metrics of a run that was compared with a base in two stages: screened, and the flagged ones judged by pairs; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.judge_metrics import Taken, collect, judged_row, mark_trends, shown
from harness.pairs import Pairs
from harness.policy import Rule, rule_of
from harness.records import Run
from harness.verdicts import MetricVerdict

if TYPE_CHECKING:
    from harness.looks import Decided
    from harness.stats import Finding, Series


REACH = 2.5
"""A metric of which the screen would not have seen a change of so many times the minimum (four times in five) goes on to
the pairs as well: that nothing was seen of it says nothing."""


@dataclass
class Row:
    """One metric by one statistic on both sides: a value a process, of the screen and of the pairs in their order.

    `lost`: why there is no verdict on it; None when all processes that were to give a value did. `taken`: the head's, to
    be shown.
    """

    key: str
    taken: Taken
    rule: Rule
    screen: dict[str, list[float]] = field(default_factory=dict)
    pairs: list[tuple[float, float]] = field(default_factory=list)
    lost: str | None = None
    odd: str | None = None
    """Why its values cannot be compared at all."""

    def series(self) -> Series:
        """The values of the screen, as the statistics take them."""
        return self._series(tuple(self.screen["base"]), tuple(self.screen["head"]))

    def paired(self) -> Series:
        """The values of the pairs, as the statistics take them."""
        return self._series(tuple(b for b, _ in self.pairs), tuple(h for _, h in self.pairs))

    def _series(self, base: tuple[float, ...], head: tuple[float, ...]) -> Series:
        from harness.stats import Series  # numpy and scipy: only where there is something to judge

        rule = self.rule
        return Series(base, head, rule.minimum, rule.lower_is_better, rule.gate, self.taken.kind)


def rows_of(run: Run, rules: Sequence[Rule]) -> dict[str, Row]:
    """Every row that is judged, by key, of a run whose pairs are loaded with their base."""
    pairs = run.pairs
    if pairs is None or pairs.base is None:
        return {}
    sides = {
        "base": _by_process(pairs.base, pairs.numbers("base"), rules),
        "head": _by_process(run, pairs.numbers("head"), rules),
    }
    rows: dict[str, Row] = {}
    for side in ("head", "base"):
        for found in sides[side].values():
            for key, taken in found.items():
                rule = rule_of(rules, taken.metric)
                if key not in rows and rule is not None and taken.test in pairs.tests:
                    rows[key] = _row(key, taken, rule, pairs, sides)
    return rows


def _by_process(run: Run, numbers: Sequence[int], rules: Sequence[Rule]) -> dict[int, dict[str, Taken]]:
    """The rows of each process, by its number and the row's key."""
    groups: dict[int, list[int]] = {n: [] for n in numbers}
    for place, record in enumerate(run.records):
        if record.repeat in groups:
            groups[record.repeat].append(place)
    return {
        n: collect(dataclasses.replace(run, records=tuple(run.records[p] for p in places)), rules)
        for n, places in groups.items()
    }


def _row(
    key: str, like: Taken, rule: Rule, pairs: Pairs, sides: Mapping[str, Mapping[int, Mapping[str, Taken]]]
) -> Row:
    row = Row(key, Taken(like.test, like.metric, like.statistic, kind=like.kind), rule)
    units: dict[str, set[str]] = {"base": set(), "head": set()}

    def value(side: str, number: int) -> float | None:
        taken = sides[side][number].get(key)
        if taken is None:
            return None
        units[side].update(taken.units)
        return taken.values[0] if taken.values else None

    for side in ("base", "head"):
        numbers = pairs.screened(side)
        found = [value(side, n) for n in numbers]
        row.screen[side] = [v for v in found if v is not None]
        if len(row.screen[side]) < len(found):
            row.lost = f"{len(row.screen[side])} of {len(found)} processes of the {side} gave a value"
    for count, (base, head) in enumerate(pairs.paired(like.test), 1):
        a, b = value("base", base), value("head", head)
        if a is None or b is None:
            sides_lost = " and ".join(n for n, v in (("base", a), ("head", b)) if v is None)
            row.lost = row.lost or f"the {sides_lost} gave no value in pair {count}"
            break
        row.pairs.append((a, b))
    if len(units["base"] | units["head"]) > 1:
        row.odd = f"units differ: {' and '.join(sorted(units['base'] | units['head']))}"
    # What is shown is what is judged: the pairs where there are any.
    chosen = [h for _, h in pairs.paired(like.test)] if row.pairs else pairs.screened("head")
    for number in chosen:
        if (taken := sides["head"][number].get(key)) is not None:
            row.taken.units += taken.units
            row.taken.values += taken.values
            row.taken.samples += taken.samples
            row.taken.bad += taken.bad
            row.taken.timed += taken.timed
            row.taken.work = taken.work
    row.taken.units = row.taken.units or sorted(units["base"]) or [like.units[0]]
    return row


def screen_rows(rows: Mapping[str, Row], level: float) -> dict[str, Finding]:
    """What the screen says of each row that has all its values, by key: `flagged`, `unseen` or `unflagged`.

    The first two go on to the pairs: `unseen` is a row too noisy for the screen.
    """
    from harness.stats import screening

    usable = [row for row in rows.values() if row.lost is None and row.odd is None]
    found = screening([row.series() for row in usable], level=level)
    return {row.key: _unseen(row, finding) for row, finding in zip(usable, found, strict=True)}


def _unseen(row: Row, f: Finding) -> Finding:
    if f.verdict == "flagged" or (f.detectable is not None and f.detectable <= REACH * row.rule.minimum):
        return f
    return dataclasses.replace(f, verdict="unseen", why="too noisy for the screen")


def decide_rows(rows: Mapping[str, Row], flagged: Sequence[str], looks: Sequence[int]) -> dict[str, Decided]:
    """What the looks say of the flagged rows so far, by key. A lost one counts in the family with the pairs before."""
    from harness.looks import decide

    there = [rows[key] for key in flagged if key in rows]
    found = decide([row.paired() for row in there], looks=looks)
    return {row.key: decided for row, decided in zip(there, found, strict=True)}


def undecided_rows(rows: Mapping[str, Row], decided: Mapping[str, Decided]) -> list[str]:
    """Keys of the flagged rows that more pairs may settle: not those that lost a value."""
    return [
        key
        for key, d in decided.items()
        if d.finding.verdict == "inconclusive" and rows[key].lost is None and rows[key].odd is None
    ]


def judge_two_stages(run: Run, rules: Sequence[Rule]) -> tuple[MetricVerdict, ...]:
    """A verdict for each row; rows of tests that are not compared with the base are only shown."""
    pairs = run.pairs
    if pairs is None:
        raise ValueError("the run was not compared with a base")
    rows = rows_of(run, rules)
    others = [taken for key, taken in collect(run, rules).items() if key not in rows]
    mark_trends([*(row.taken for row in rows.values()), *others])
    found = [shown(taken, "shown", "stored and shown, not judged") for taken in others]
    usable = {key: row for key, row in rows.items() if row.odd is None and row.lost is None}
    screened = screen_rows(usable, pairs.level)
    decided = decide_rows(rows, pairs.flagged or (), pairs.looks)
    for key, row in rows.items():
        if row.odd is not None:
            found.append(shown(row.taken, "incomparable", row.odd, row.rule))
        elif row.lost is not None and not _settled(decided.get(key)):
            found.append(shown(row.taken, "missing", row.lost, row.rule))
        elif pairs.flagged is None:
            found.append(shown(row.taken, "missing", "the screen was interrupted", row.rule))
        elif key in decided:
            found.append(_by_pairs(row, decided[key], pairs))
        else:
            found.append(_unflagged(row, screened[key], pairs.level))
    return tuple(sorted(found, key=lambda m: (m.test, m.metric, m.statistic)))


def _settled(decided: Decided | None) -> bool:
    """Whether a look decided: what is lost after it changes nothing."""
    return decided is not None and decided.finding.verdict != "inconclusive"


def _unflagged(row: Row, f: Finding, level: float) -> MetricVerdict:
    reach = "" if f.detectable is None else f"; {f.detectable:.1%} would have been seen four times in five"
    why = f"no sign of a change beyond {row.rule.minimum:.3g} at the screen (level {level:.2f}){reach}"
    base, head = row.screen["base"], row.screen["head"]
    return judged_row(row.taken, row.rule, base, head, f, verdict="unflagged", why=why)


def _by_pairs(row: Row, decided: Decided, pairs: Pairs) -> MetricVerdict:
    f, count, looks = decided.finding, len(row.pairs), len(pairs.looks)
    least = f"{row.rule.minimum:.3g}"
    said = {
        "regressed": f"worse than the base by more than {least}",
        "improved": f"better than the base by more than {least}",
        "equivalent": f"within {least} of the base either way",
        "inconclusive": f"neither a change beyond {least} nor its absence is shown",
    }[f.verdict]
    more = "" if f.verdict != "inconclusive" or count >= pairs.looks[-1] else "; interrupted"
    used = row.pairs[: decided.pairs] if f.verdict != "inconclusive" else row.pairs
    return judged_row(
        row.taken,
        row.rule,
        [b for b, _ in used],
        [h for _, h in used],
        f,
        verdict=f.verdict,
        why=f"after {len(used)} pairs: {said}{more}",
        # Over all looks, so that it is below 0.05 where the verdict says so.
        p=None if f.p_gate is None else min(1.0, f.p_gate * looks),
        q=None if f.q is None else min(1.0, f.q * looks),
    )
