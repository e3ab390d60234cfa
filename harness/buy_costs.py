"""Numbers and costs of one machine's test, what makes two not comparable, and the price at which their order flips; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.buy_quality import other_code
from harness.buy_taking import Taken
from harness.buying import COSTS, FIGURES, Cell, Figure, Flip, Machine, Offer
from harness.estimates import Estimate, estimate, ratio
from harness.rates import rates_of
from harness.verdicts import MetricVerdict

SAME_INPUT, SAME_OUTPUT = 0.02, 0.05
"""By how much the tokens of two servings may differ and still be the same requests: answers vary, questions hardly."""
NO_PRICES = "no prices given"


def make_cell(taken: Taken, offer: Offer, machine: Machine, epoch_samples: float | None) -> Cell:
    """What this machine has to say of a test, with its costs where it has a price."""
    if taken.why:
        return Cell(why=taken.why)
    if machine.emulated:
        return Cell(why="emulated: its times say nothing of a device")
    seconds = estimate(taken.seconds)
    assert seconds is not None
    work = dict(taken.works[0])
    devices = _devices(taken, machine)
    figures = {
        "training": _training,
        "inference": _inference,
        "serving": _serving,
    }[taken.kind](taken, seconds, devices, offer)
    units = {} if devices is None else _units(taken, devices, epoch_samples)
    why = machine.price_why
    if devices is None:
        why = "how many devices served is not told: import it again with --devices N"
    costs = []
    for unit in COSTS[taken.kind]:
        cost = estimate(units[unit]) if unit in units and machine.price is not None else None
        said = why or (
            "epoch_samples is not in the price file" if unit == "epoch" else "no such tokens counted"
        )
        if cost is not None and machine.price is not None:
            cost, said = cost.times(machine.price.per_device_hour / 3600), ""
        costs.append(Figure(unit, "" if machine.price is None else machine.price.currency, cost, said))
    return Cell(
        tuple(figures),
        tuple(costs),
        note=taken.note,
        devices=devices,
        processes=len(taken.seconds),
        work=work,
        unit_seconds=units,
        cost_why=why,
    )


def _devices(taken: Taken, machine: Machine) -> int | None:
    """How many devices the work occupied; None is unknown."""
    told = taken.works[0].get("devices")
    if taken.kind == "serving":
        return None if told is None else max(1, round(told))
    return max(1, min(round(1.0 if told is None else told), machine.devices or 1))


def _units(taken: Taken, devices: int, epoch_samples: float | None) -> dict[str, tuple[float, ...]]:
    """Device-seconds of one unit of each cost, a value a process."""
    sizes = {
        "million samples": ("samples", 1e6),
        "epoch": ("samples", epoch_samples),
        "million action chunks": ("chunks", 1e6),
        "million input tokens": ("input_tokens", 1e6),
        "million output tokens": ("output_tokens", 1e6),
        "million tokens": ("tokens", 1e6),
    }
    found: dict[str, tuple[float, ...]] = {}
    for unit in COSTS[taken.kind]:
        if unit == "step":
            found[unit] = tuple(s * devices for s in taken.seconds)
            continue
        key, size = sizes[unit]
        amounts = [w.get(key, 0.0) for w in taken.works]
        if size is not None and min(amounts) > 0:
            found[unit] = tuple(s * devices * size / a for s, a in zip(taken.seconds, amounts, strict=True))
    return found


def _rate(taken: Taken, key: str, devices: int = 1) -> Estimate | None:
    """So much of that work a second, by process; None when one did none of it or does not tell."""
    return estimate([w.get(key, 0.0) / s / devices for w, s in zip(taken.works, taken.seconds, strict=True)])


def _named(kind: str, found: Mapping[str, tuple[str, Estimate | None, str]]) -> list[Figure]:
    return [Figure(name, *found[name]) for name in FIGURES[kind]]


def _training(taken: Taken, seconds: Estimate, devices: int | None, offer: Offer) -> list[Figure]:
    runner = offer.run.header.runner
    row = MetricVerdict(taken.test, "step_s", "s", 1, seconds.value, work=taken.works[0])
    rate = next(iter(rates_of([row], device_count=runner.device_count, peaks=offer.peaks)), None)
    mfu, why = (None, "") if rate is None else (rate.mfu, rate.why)
    share = None if mfu is None else seconds.under(mfu * seconds.value)
    said = "" if share is not None else why or "the operations of a step were not counted"
    return _named(
        "training",
        {
            "time per step": ("s", seconds, ""),
            "samples/s": ("/s", _rate(taken, "samples"), ""),
            "samples/s and device": ("/s", _rate(taken, "samples", devices or 1), ""),
            "MFU": ("", share, said),
        },
    )


def _inference(taken: Taken, seconds: Estimate, devices: int | None, offer: Offer) -> list[Figure]:
    lags = {share: estimate(taken.lags.get(share, ())) for share in ("p50", "p95")}
    why = "fewer than 20 calls of a process: no 95th percentile"
    return _named(
        "inference",
        {
            "actions/s": ("/s", _rate(taken, "actions"), ""),
            "actions/s and device": ("/s", _rate(taken, "actions", devices or 1), ""),
            "p50": ("s", lags["p50"], "" if lags["p50"] else "single calls were not timed"),
            "p95": ("s", lags["p95"], "" if lags["p95"] else why),
        },
    )


def _serving(taken: Taken, seconds: Estimate, devices: int | None, offer: Offer) -> list[Figure]:
    each = None if devices is None else _rate(taken, "output_tokens", devices)
    none = "no output tokens were counted"
    found: dict[str, tuple[str, Estimate | None, str]] = {
        "output tokens/s": ("/s", _rate(taken, "output_tokens"), none),
        "tokens/s": ("/s", _rate(taken, "tokens"), none),
        "output tokens/s and device": (
            "/s",
            each,
            "how many devices served is not told" if devices is None else none,
        ),
    }
    for words, name in (("TTFT", "ttft"), ("inter-token", "itl")):
        for share in ("p50", "p95", "p99"):
            lag = estimate(taken.lags.get(f"{name} {share}", ()))
            found[f"{words} {share}"] = ("s", lag, f"the file holds neither {share} nor enough single times")
    return _named("serving", {k: (u, e, "" if e else w) for k, (u, e, w) in found.items()})


def apart(kind: str, test: str, a: tuple[Offer, Cell], b: tuple[Offer, Cell]) -> str:
    """Why what two machines did in one test must not be compared; empty when it may be."""
    if said := other_code(a[0], b[0]):
        return said
    here, there = a[1].work, b[1].work
    if kind == "serving":
        return _other_requests(test, a[0], b[0]) or _other_tokens(here, there)
    for key, words in (
        ("samples", "another global batch"),
        ("concurrency", "another concurrency"),
        ("actions", "another number of actions"),
        ("chunks", "another number of action chunks"),
    ):
        if here.get(key) != there.get(key):
            return f"{words}: {_amount(here.get(key))}, not {_amount(there.get(key))}"
    return ""


def _other_requests(test: str, a: Offer, b: Offer) -> str:
    """In what the settings of two servings differ."""
    both = []
    for offer in (a, b):
        workloads = offer.run.header.configuration.get("workloads")
        own = workloads.get(test) if isinstance(workloads, Mapping) else None
        both.append(own if isinstance(own, Mapping) else {})
    for key in sorted(set(both[0]) | set(both[1])):
        if both[0].get(key) != both[1].get(key):
            return f"another {key}: {both[0].get(key)}, not {both[1].get(key)}"
    return ""


def _other_tokens(here: Mapping[str, float], there: Mapping[str, float]) -> str:
    # Of requests that failed the tokens are not counted: then the mean of those that were answered is compared.
    for key, most in (("input_tokens", SAME_INPUT), ("output_tokens", SAME_OUTPUT)):
        mine, theirs = (w.get(key, 0.0) / max(1.0, w.get("requests", 0.0)) for w in (here, there))
        if abs(mine - theirs) > most * max(mine, theirs):
            words = key.replace("_", " ")
            return f"other requests: {mine:.4g} {words} each, not {theirs:.4g}"
    return ""


def _amount(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def make_flip(kind: str, test: str, unit: str, sides: Sequence[tuple[Machine, Cell]]) -> Flip | None:
    """The two machines by this cost; None when there is no such work, or neither's price is known.

    The second is the later one, unless only its price can be relied on: then the earlier one is held against it.
    """
    (first, one), (second, two) = sides
    if (first.price is None or first.stale) and second.price is not None and not second.stale:
        (first, one), (second, two) = (second, two), (first, one)
    if unit not in one.unit_seconds or unit not in two.unit_seconds:
        return None
    if first.price is None and second.price is None:
        return None
    times = ratio(one.unit_seconds[unit], two.unit_seconds[unit])
    if times is None:
        return None
    struck = tuple((m.name, reason) for m in (first, second) for reason in m.struck)
    p, q = first.price, second.price
    price = None if p is None or first.stale else times.times(p.per_device_hour)
    costs = None
    if p is not None and q is not None and p.currency == q.currency:
        costs = times.under(q.per_device_hour / p.per_device_hour)
    cheaper, why = None, ""
    if p is None or q is None:
        why = f"no price for {(first if p is None else second).name}"
    elif p.currency != q.currency:
        why = f"the prices are in {p.currency} and {q.currency}"
    elif first.stale or second.stale:
        why = f"the price of {(first if first.stale else second).name} is stale"
    elif struck:
        why = "quality is not shown"
    elif costs is None or costs.low is None or costs.high is None:
        why = "" if costs is None else costs.why
    elif costs.low <= 1 <= costs.high:
        why = "no difference in cost is shown"
    else:
        cheaper = first.name if costs.low > 1 else second.name
    return Flip(
        kind,
        test,
        unit,
        first.name,
        second.name,
        price,
        None if p is None else p.currency,
        None if q is None else q.per_device_hour,
        None if q is None else q.currency,
        costs,
        cheaper,
        costs is not None and not struck and not (first.stale or second.stale),
        why,
        struck,
    )
