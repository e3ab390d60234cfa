"""What every form of a buyer's page says, in the order it says it; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.buying import COSTS, FIGURES, Cell, Figure, Flip, Line, Machine, Page
from harness.estimates import Estimate
from harness.merged import WORDS
from harness.quantities import percent, quantity, scale_of

TITLE = "What machines cost for what they do"
KIND_TITLES = {"training": "Training", "inference": "Inference", "serving": "Serving"}
STRUCK = "struck through"
READING = (
    "A number is where the values of fresh processes lie, in brackets its 95 % interval. A cost is seconds x devices x "
    "price of an hour and device. A cost is struck through when the machine is not shown to compute the same as the "
    "reference, or its run is not green: it has no place in the order.",
    "The order of two machines is told only where the interval of the ratio of their costs leaves out 1.",
)


@dataclass(frozen=True)
class Said:
    """A piece of text. `struck`: shown struck through, and said to be; `marks`: words beside it that are not."""

    text: str
    struck: bool = False
    marks: tuple[str, ...] = ()


MACHINE_COLUMNS = ("machine", "made", "run", "target", "status", "parity", "price")


def machine_rows(page: Page) -> Iterator[tuple[Said, ...]]:
    """One row a machine, under MACHINE_COLUMNS."""
    for m in page.machines:
        origin = f"imported from {m.imported}" if m.imported else m.made.upper() if m.emulated else m.made
        status = f"PARTIAL {WORDS[m.status]}" if m.partial else WORDS[m.status]
        yield (
            Said(m.name),
            Said(origin),
            Said("; ".join([f"{m.run_id}, {m.day}", *(f"serving: {run}" for run in m.served)])),
            Said(m.target),
            Said(status),
            Said({"unknown": "not shown"}.get(m.parity, m.parity)),
            _price(m),
        )


def _price(m: Machine) -> Said:
    if m.price is None:
        return Said(f"none: {m.price_why}")
    marks = (f"stale: {m.days_old} days old on the day of the run",) if m.stale else ()
    p = m.price
    return Said(f"{p.per_device_hour:.4g} {p.currency} an hour and device, {p.source}, {p.day}", marks=marks)


def machine_notes(page: Page) -> list[str]:
    """Why costs are struck through, and what parity rests on: a line each."""
    what = "quality" if page.prices is None else f"its costs are {STRUCK}"
    lines = [f"{m.name}: {what}: {reason}" for m in page.machines if not m.emulated for reason in m.struck]
    return lines + [f"{m.name}: {m.parity_why}" for m in page.machines if m.parity in ("reference", "agree")]


def headline(page: Page) -> str:
    """The first sentence: who is cheapest at what, or why that cannot be said."""
    found = [
        f"{line.cheapest[unit]} is cheapest per {unit} in {short(line.test)}"
        for kind, n in page.chosen.items()
        for line in (page.lines[n],)
        for unit in COSTS[kind]
        if unit in line.cheapest
    ]
    if found:
        return f"{'; '.join(found)}."
    if page.prices is None:
        return "No prices given, so no costs: name a file with --prices."
    if len(page.machines) == 1:
        return "One machine: nothing to compare it with."
    if not page.comparable:
        return "No two machines may be compared."
    bad = [m.name for m in page.machines if m.struck]
    if bad:
        return f"No machine is shown to be cheapest: quality is not shown for {', '.join(bad)}."
    return "No machine is shown to be cheapest."


def summary(page: Page, n: int) -> list[tuple[str, str, list[Said]]]:
    """The three numbers of a machine: kind, the test they are of, and what is said."""
    found = []
    for kind, title in KIND_TITLES.items():
        if kind not in page.chosen:
            if page.machines[n].emulated:
                found.append((title, "", [Said("none: emulated")]))
            else:
                found.append((title, "", [Said("none: not measured")]))
            continue
        line = page.lines[page.chosen[kind]]
        cell = line.cells[n]
        found.append((title, short(line.test), _in_short(page, line, cell, page.machines[n])))
    return found


def short(test: str) -> str:
    """A test's id without its file."""
    return test.rpartition("::")[2] if "::" in test else test


IN_SHORT = {
    "training": (("time per step", "a step"), ("samples/s", "samples/s"), ("MFU", "MFU")),
    "inference": (("actions/s", "actions/s"), ("p50", "p50"), ("p95", "p95")),
    "serving": (
        ("output tokens/s", "output tokens/s"),
        ("TTFT p50", "TTFT p50"),
        ("inter-token p50", "inter-token p50"),
    ),
}


def _in_short(page: Page, line: Line, cell: Cell, machine: Machine) -> list[Said]:
    if not cell.there:
        return [Said(f"none: {cell.why}")]
    by_name = {f.name: f for f in cell.figures}
    said = []
    for name, words in IN_SHORT[line.kind]:
        figure = by_name[name]
        if figure.estimate is not None:
            said.append(Said(f"{number(figure)} {words}"))
        elif name == "MFU":
            said.append(Said(f"MFU unknown: {figure.why}"))
    if cell.apart:
        said.append(Said(f"not compared: {cell.apart}"))
    for cost in cell.costs:
        if cost.estimate is not None:
            told = cost_of(cost, cell, line, machine)
            said.append(Said(f"{told.text} per {cost.name}", told.struck, told.marks))
    if page.prices is not None and cell.cost_why:
        said.append(Said(f"no cost: {cell.cost_why}"))
    return said


def number(figure: Figure) -> str:
    """A figure with its interval, in a unit that reads well; unknown for none."""
    e = figure.estimate
    if e is None:
        return "unknown"
    if figure.unit == "s":
        scale = scale_of("s", e.value)
        return f"{quantity(e.value, scale)}{_interval(e, 1 / scale[0])}"
    if not figure.unit:
        ends = "" if e.low is None or e.high is None else f" ({percent(e.low)} to {percent(e.high)})"
        return f"{percent(e.value)}{ends}"
    if figure.unit == "/s":
        return f"{e.value:.4g}{_interval(e)}"
    return f"{e.value:.4g} {figure.unit}{_interval(e)}"


def _interval(e: Estimate, factor: float = 1.0) -> str:
    return "" if e.low is None or e.high is None else f" ({e.low * factor:.4g} to {e.high * factor:.4g})"


def cost_of(cost: Figure, cell: Cell, line: Line, machine: Machine) -> Said:
    """A cost as it is shown: struck through where quality is not shown, marked where its price is stale."""
    if cost.estimate is None:
        return Said("none")
    marks = [STRUCK] if machine.struck else []
    marks += ["stale"] if machine.stale else []
    marks += ["cheapest"] if line.cheapest.get(cost.name) == machine.name else []
    return Said(number(cost), bool(machine.struck), tuple(marks))


def line_columns(page: Page, line: Line) -> tuple[str, ...]:
    """Names of the columns of `line_rows`: those that any machine has a number for."""
    return (
        "machine",
        "processes",
        "devices",
        *_figures(line),
        *(f"cost per {c}" for c in _costs(page, line)),
    )


def _figures(line: Line) -> list[str]:
    uneven = any(c.devices not in (None, 1) for c in line.cells if c.there)
    there = {f.name for c in line.cells for f in c.figures if f.estimate is not None} | {"MFU"}
    return [n for n in FIGURES[line.kind] if n in there and (uneven or not n.endswith("device"))]


def _costs(page: Page, line: Line) -> list[str]:
    there = {f.name for c in line.cells for f in c.costs if f.estimate is not None}
    return [] if page.prices is None else [n for n in COSTS[line.kind] if n in there]


def line_rows(page: Page, line: Line) -> Iterator[tuple[Said, ...]]:
    """One row for each machine that has a number, under `line_columns`."""
    for machine, cell in zip(page.machines, line.cells, strict=True):
        if not cell.there:
            continue
        figures = {f.name: f for f in cell.figures}
        costs = {f.name: f for f in cell.costs}
        yield (
            Said(machine.name, marks=("not compared",) if cell.apart else ()),
            Said(str(cell.processes)),
            Said("unknown" if cell.devices is None else str(cell.devices)),
            *(Said(number(figures[name])) for name in _figures(line)),
            *(cost_of(costs[name], cell, line, machine) for name in _costs(page, line)),
        )


def line_notes(page: Page, line: Line) -> list[str]:
    """What to mind about a row: why a machine or a number is not there, and what is not compared."""
    alike: dict[str, list[str]] = {}
    for machine, cell in zip(page.machines, line.cells, strict=True):
        said = [cell.note, f"not compared: {cell.apart}" if cell.apart else "", cell.uneven]
        said += [f"no cost: {cell.cost_why}" if page.prices is not None and cell.cost_why else ""]
        said += [f"{f.name} unknown: {f.why}" for f in cell.figures if f.estimate is None and f.why]
        said += [f.estimate.why for f in cell.figures[:1] if f.estimate is not None and f.estimate.why]
        for words in dict.fromkeys(filter(None, said if cell.there else [f"none: {cell.why}"])):
            alike.setdefault(words, []).append(machine.name)
    return [f"{', '.join(names)}: {words}" for words, names in alike.items()]


def flip_said(flip: Flip) -> Said:
    """A sentence on who is cheaper and up to which price."""
    per = f"per {flip.unit}"
    if flip.price is None:
        return Said(
            f"No order of {flip.first} and {flip.second} {per}: {flip.why}.", bool(flip.struck), _marks(flip)
        )
    price = f"{flip.price.value:.4g} {flip.currency} an hour and device{_interval(flip.price)}"
    own = "its own price is not known" if flip.own is None else f"it is {flip.own:.4g} {flip.own_currency}"
    if flip.cheaper == flip.second:
        text = (
            f"{flip.second} is cheaper {per} than {flip.first} as long as it costs less than {price}; {own}."
        )
    elif flip.cheaper == flip.first:
        text = f"{flip.first} is cheaper {per} than {flip.second}, which would be if it cost less than {price}; {own}."
    else:
        why = "" if flip.struck else f" No order: {flip.why}."
        text = f"{flip.second} costs as much {per} as {flip.first} at {price}; {own}.{why}"
    return Said(text, bool(flip.struck), _marks(flip))


def _marks(flip: Flip) -> tuple[str, ...]:
    names = dict.fromkeys(name for name, _ in flip.struck)
    return (f"{STRUCK}: quality is not shown for {', '.join(names)}",) if names else ()


def flips_by_test(page: Page) -> Iterator[tuple[str, str, list[Flip]]]:
    """The prices at which an order flips: kind, test, and one for each two machines and cost."""
    for line in page.lines:
        mine = [f for f in page.flips if (f.kind, f.test) == (line.kind, line.test)]
        if mine:
            yield KIND_TITLES[line.kind], line.test, mine


def price_notes(page: Page) -> list[str]:
    """What the costs rest on."""
    if page.prices is None:
        return ["No prices given: no cost is told."]
    notes = [f"{m.name}: {_price(m).text}" for m in page.machines if m.price is not None]
    if page.prices.epoch_samples is None:
        return [*notes, "epoch_samples is not in the price file: no cost of an epoch is told."]
    return [*notes, f"An epoch is {page.prices.epoch_samples:.12g} samples."]
