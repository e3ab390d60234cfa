"""Runs and prices become the page of a buyer; pure."""

from __future__ import annotations

import fnmatch
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from harness.buy_costs import NO_PRICES, apart, make_cell, make_flip
from harness.buy_joining import Taking, is_imported, join, take_all
from harness.buy_quality import parity_of, struck_by, traces_of
from harness.buy_taking import KINDS, why_not
from harness.buying import COSTS, FLIPS, Cell, Flip, Line, Machine, Offer, Page
from harness.cost import OLD_DAYS, Price, Prices
from harness.errors import UsageError
from harness.rates import precision_of

Sides = tuple[tuple[Machine, Cell], tuple[Machine, Cell]]


def make_page(offers: Sequence[Offer], prices: Prices | None, *, tests: str = "*") -> Page:
    """The page of these runs, in the order they were named; UsageError when one is named twice.

    Imported runs that have the name of another are of its machine. The reference of parity is the first run that the
    harness measured. `tests`: a pattern of the tests that are shown. Without prices no cost is told.
    """
    _check(offers)
    offers = join(offers)
    names = names_of(offers)
    measured = [(o, n) for o, n in zip(offers, names, strict=True) if not _emulated(o)]
    reference, called = next((m for m in measured if not is_imported(m[0].run)), (None, ""))
    machines = tuple(_machine(o, n, reference, called, prices) for o, n in zip(offers, names, strict=True))
    taken = [take_all(o) for o in offers]
    keys = sorted(
        {k for t in taken for k in t if fnmatch.fnmatchcase(k[1], tests)},
        key=lambda k: (KINDS.index(k[0]), k[1]),
    )
    lines: list[Line] = []
    flips: list[Flip] = []
    for kind, test in keys:
        line, found = _line(kind, test, offers, machines, taken, prices)
        lines.append(line)
        flips += found
    said = tuple(_apart(lines, machines))
    chosen = {kind: n for kind in KINDS if (n := _chosen(lines, kind)) is not None}
    return Page(machines, tuple(lines), tuple(flips), said, called or None, prices, chosen)


def names_of(offers: Sequence[Offer]) -> list[str]:
    """The user's names, else runner keys; where several share one, with their runs."""
    names = [o.name or o.run.header.runner.key for o in offers]
    count = Counter(names)
    return [n if count[n] == 1 else f"{n} {o.run.header.run_id}" for n, o in zip(names, offers, strict=True)]


def _check(offers: Sequence[Offer]) -> None:
    if not offers:
        raise UsageError("no run to compare; name the folders of some")
    seen: set[str] = set()
    for offer in offers:
        run_id = offer.run.header.run_id
        if run_id in seen:
            raise UsageError(f"the run {run_id} again; name each run once")
        seen.add(run_id)


def _emulated(offer: Offer) -> bool:
    runner = offer.run.header.runner
    return runner.emulated or runner.stand_in


def _machine(offer: Offer, name: str, reference: Offer | None, called: str, prices: Prices | None) -> Machine:
    header = offer.run.header
    runner = header.runner
    parity, why = parity_of(offer, reference, called)
    if parity == "reference" and not traces_of(offer.run):
        parity = "unknown"
    price, price_why, days = _price(offer, name, prices)
    imported = header.configuration.get("imported_from")
    commit = "" if header.target.commit is None else f" at {header.target.commit[:12]}"
    made = "emulated by a stand-in" if runner.stand_in else "emulated" if runner.emulated else "measured"
    told = imported is None or header.machine.get("devices_told") is not False
    return Machine(
        name,
        runner.key,
        header.run_id,
        header.started[:10],
        f"{header.target.name}{commit}",
        header.harness_commit,
        made,
        _emulated(offer),
        imported if isinstance(imported, str) else None,
        runner.device_count if told else None,
        offer.status,
        offer.why,
        header.selection.partial,
        parity,
        why,
        struck_by(offer, parity, why),
        price,
        price_why,
        days,
        days is not None and days > OLD_DAYS,
        tuple(run.header.run_id for run in offer.served),
    )


def _price(offer: Offer, name: str, prices: Prices | None) -> tuple[Price | None, str, int | None]:
    """The first price whose pattern fits the machine's name or its runner's key, why there is none, and its age in days
    on the day of the run."""
    if _emulated(offer):
        return None, "emulated: no cost", None
    if prices is None:
        return None, NO_PRICES, None
    header = offer.run.header
    for price in prices.prices:
        if any(fnmatch.fnmatchcase(text, price.runner) for text in (name, header.runner.key)):
            run_day = date.fromisoformat(header.started[:10])
            return price, "", (run_day - date.fromisoformat(price.day)).days
    return None, f"no price fits {header.runner.key}", None


def _line(
    kind: str,
    test: str,
    offers: Sequence[Offer],
    machines: Sequence[Machine],
    taken: Sequence[Taking],
    prices: Prices | None,
) -> tuple[Line, list[Flip]]:
    epoch = None if prices is None else prices.epoch_samples
    cells: list[Cell] = []
    sources: list[Offer] = []
    for offer, machine, own in zip(offers, machines, taken, strict=True):
        found, source = own.get((kind, test), (None, offer))
        sources.append(source)
        if found is None:
            why = (
                "emulated: its times say nothing of a device"
                if machine.emulated
                else why_not(offer.run, test)
            )
            cells.append(Cell(why=why))
        else:
            cells.append(make_cell(found, source, machine, epoch))
    base = next((n for n, c in enumerate(cells) if c.there), None)
    flips = []
    for i, j in itertools.combinations(range(len(cells)), 2):
        if not (cells[i].there and cells[j].there):
            continue
        said = apart(kind, test, (sources[j], cells[j]), (sources[i], cells[i]))
        if i == base:
            uneven = _uneven(kind, cells[i], cells[j], machines[i].name)
            cells[j] = replace(cells[j], apart=said, uneven="" if said else uneven)
        if said:
            continue
        for unit in FLIPS[kind]:
            flip = make_flip(kind, test, unit, ((machines[i], cells[i]), (machines[j], cells[j])))
            flips += [] if flip is None else [flip]
    return Line(kind, test, tuple(cells), _cheapest(kind, flips)), flips


def _uneven(kind: str, first: Cell, other: Cell, name: str) -> str:
    """What of two comparable cells says nothing side by side."""
    if None in (first.devices, other.devices) or first.devices == other.devices:
        return ""
    return f"{other.devices} devices, {first.devices} of {name}: compare by device and by cost"


def _cheapest(kind: str, flips: Sequence[Flip]) -> dict[str, str]:
    """By unit, who is shown to be cheaper than every other that has a place in the order."""
    found = {}
    for unit in COSTS[kind]:
        mine = [f for f in flips if f.unit == unit and f.ranked]
        names = list(dict.fromkeys(n for f in mine for n in (f.first, f.second)))
        for name in names:
            own = [f for f in mine if name in (f.first, f.second)]
            if len(own) == len(names) - 1 and all(f.cheaper == name for f in own):
                found[unit] = name
    return found


def _chosen(lines: Sequence[Line], kind: str) -> int | None:
    best, most = None, 0
    for n, line in enumerate(lines):
        count = sum(c.there and not c.apart for c in line.cells)
        if line.kind == kind and count > most:
            best, most = n, count
    return best


def _apart(lines: Sequence[Line], machines: Sequence[Machine]) -> list[str]:
    """What was not compared, in sentences: each once."""
    said = [
        f"{m.name} is {m.made}: it has no place beside measured machines, and no cost."
        for m in machines
        if m.emulated
    ]
    alike: dict[str, list[str]] = {}
    for line in lines:
        base = next((m.name for m, c in zip(machines, line.cells, strict=True) if c.there), "")
        for machine, cell in zip(machines, line.cells, strict=True):
            if cell.apart:
                alike.setdefault(f"{machine.name} is not compared with {base}: {cell.apart}", []).append(
                    line.test
                )
            elif cell.uneven:
                alike.setdefault(f"{machine.name}: {cell.uneven}", []).append(line.test)
    for words, tests in alike.items():
        more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
        said.append(f"{words} (in {tests[0]}{more}).")
    for a, b in itertools.combinations(range(len(machines)), 2):
        said += _without_common(lines, machines, a, b)
    for machine in machines:
        if machine.stale and machine.price is not None:
            said.append(
                f"The price of {machine.name} was {machine.days_old} days old on the day of its run: its costs are "
                "stale, and it has no place in the order."
            )
    for x, y in itertools.combinations(machines, 2):
        if x.price is not None and y.price is not None and x.price.currency != y.price.currency:
            said.append(
                f"The price of {x.name} is in {x.price.currency}, that of {y.name} in {y.price.currency}: no order of "
                "costs between them."
            )
        if not (x.imported or y.imported or x.emulated or y.emulated) and x.harness != y.harness:
            said.append(
                f"{x.name} and {y.name} were measured by two commits of the harness: mind what changed between them."
            )
    return list(dict.fromkeys(said))


def _without_common(lines: Sequence[Line], machines: Sequence[Machine], a: int, b: int) -> list[str]:
    """Kinds that both machines measured, in no test in common, or in precisions that only one has."""
    if machines[a].emulated or machines[b].emulated:
        return []
    said = []
    for kind in KINDS:
        mine = [line.test for line in lines if line.kind == kind and line.cells[a].there]
        theirs = [line.test for line in lines if line.kind == kind and line.cells[b].there]
        if not mine or not theirs:
            continue
        here, there = machines[a].name, machines[b].name
        if not set(mine) & set(theirs):
            said.append(
                f"{kind}: {here} and {there} have no test in common ({mine[0]}; {theirs[0]}): not compared."
            )
        for name, own, other in ((here, mine, theirs), (there, theirs, mine)):
            alone = {precision_of(t) for t in own} - {precision_of(t) for t in other} - {None}
            for precision in sorted(p for p in alone if p is not None):
                said.append(
                    f"{kind}: only {name} ran in {precision}: no other precision is compared with it."
                )
    return said
