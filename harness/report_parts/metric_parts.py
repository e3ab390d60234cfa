"""What every text report says of metrics: those that are judged, those that are shown, rates and costs; pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from datetime import date

from harness.cost import Costs, cost_of
from harness.merged import Given
from harness.quantities import percent, quantity, scale_of
from harness.rates import KINDS, Rate, rates_of
from harness.records import Run
from harness.report_parts.parts import FOLD, one_line, plain
from harness.verdicts import Judgement, MetricVerdict

NEEDS_PERSON = ("regressed", "missing", "incomparable", "inconclusive")
ORDER = {v: n for n, v in enumerate((*NEEDS_PERSON, "improved", "new", "equivalent", "unflagged"))}

Row = tuple[str, ...]
Say = Callable[[str], str]
"""How a report writes text from tests: what makes it harmless there. All else in a row is the harness's own."""


JUDGED_COLUMNS = ("test", "metric", "base", "this run", "change (95 %)", "verdict", "detectable", "noise")
JUDGED_CAPTION = (
    "Medians, with the number of processes. Detectable: the smallest change for the worse that would have been "
    "found."
)


def judged(judgement: Judgement) -> list[MetricVerdict]:
    """The metrics that have a verdict, first those that need a person, of these first those with the largest change."""
    rows = [m for m in judgement.metrics if m.verdict != "shown"]
    return sorted(rows, key=_place)


def _place(m: MetricVerdict) -> tuple[int, bool, float, str, str, bool, str]:
    size = abs(m.change or 0.0) if m.verdict in ("regressed", "improved") else 0.0
    median = m.statistic == "median"
    return ORDER.get(m.verdict, -1), not m.gate, -size, m.test, m.metric, not median, m.statistic


def judged_row(m: MetricVerdict, say: Say = one_line) -> Row:
    """One metric under JUDGED_COLUMNS."""
    scale = scale_of(say(m.unit), m.median if m.baseline_median is None else m.baseline_median)
    no_base = "none" if m.verdict == "new" else "unknown"
    return (
        say(m.test),
        say(name_of(m)),
        no_base
        if m.baseline_median is None
        else f"{quantity(m.baseline_median, scale)} ({m.baseline_processes})",
        "unknown" if m.median is None else f"{quantity(m.median, scale)} ({m.processes})",
        no_base if m.change is None else _change(m),
        m.verdict if m.gate else f"{m.verdict}, no gate",
        percent(m.detectable),
        percent(m.noise),
    )


def name_of(m: MetricVerdict) -> str:
    """`metric`, with `@statistic` for another one than the median."""
    return m.metric if m.statistic == "median" else f"{m.metric}@{m.statistic}"


def _change(m: MetricVerdict) -> str:
    assert m.change is not None
    if m.low is None or m.high is None:
        return f"{_signed(m.change)} %"
    return f"{_signed(m.change)} % ({_signed(m.low)} to {_signed(m.high)})"


def _signed(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:+.1f}"  # with 0 added there is no -0.0


def whys(rows: Iterable[MetricVerdict]) -> list[str]:
    """Why the metrics that need a person do: one line for all that say the same."""
    groups: dict[tuple[str, str], list[MetricVerdict]] = {}
    for m in rows:
        if m.verdict in NEEDS_PERSON:
            groups.setdefault((m.verdict, m.why), []).append(m)
    lines = []
    for (verdict, why), members in groups.items():
        tests: dict[str, list[str]] = {}
        for m in members[:FOLD]:
            tests.setdefault(m.test, []).append(name_of(m))
        names = "; ".join(f"{test}: {', '.join(metrics)}" for test, metrics in tests.items())
        more = f"; and {len(members) - FOLD} more" if len(members) > FOLD else ""
        count = "" if len(members) == 1 else f" ({len(members)})"
        lines.append(plain(f"{verdict}{count}: {why}: {names}{more}"))
    return lines


def new_baseline(run: Run, judgement: Judgement, given: Given) -> tuple[str, str] | None:
    """A sentence and a command: how to accept what improved beyond the baseline; None when nothing did."""
    count = sum(m.verdict == "improved" for m in judgement.metrics)
    header = run.header
    if not count or header.runner.emulated or run.pairs is not None:
        return None  # a run beside a base of its own is held against no baseline
    words = ["harness", "baseline", "accept", given.folder or "RUN", "--reason", "TEXT"]
    good = not header.selection.partial and header.harness_dirty is False and not header.target.dirty
    good = good and judgement.status != "red"
    of = "" if good else ", from a run of whole suites with clean checkouts that is not red"
    which = "1 metric is" if count == 1 else f"{count} metrics are"
    said = f"{which} better than the baseline; if that is meant, accept a new one{of}:"
    return said, plain(shlex.join(words))


SHOWN_COLUMNS = ("test", "metric", "tests", "median", "least to greatest")


def shown_rows(judgement: Judgement, say: Say = one_line) -> Iterator[Row]:
    """One row for each test function and metric that is not judged: the median over its tests, and their span.

    Every sample is in the run folder; one row a test would bury the rest.
    """
    groups: dict[tuple[str, str, str], list[MetricVerdict]] = {}
    for m in judgement.metrics:
        if m.verdict == "shown":
            groups.setdefault((m.test.partition("[")[0], name_of(m), m.unit), []).append(m)
    for (test, metric, unit), members in sorted(groups.items()):
        values = sorted(m.median for m in members if m.median is not None)
        middle, span = "unknown", "unknown"
        if values:
            scale = scale_of(say(unit), values[len(values) // 2])
            middle = quantity(values[len(values) // 2], scale)
            span = f"{quantity(values[0], scale)} to {quantity(values[-1], scale)}"
        yield say(test), say(metric), str(len(members)), middle, span


RATE_COLUMNS = ("test", "metric", "duration", "rates", "devices", "MFU")
MFU_CAPTION = (
    "MFU: operations a second as a share of the devices' peak at the precision that the test's id names."
)


def rates(run: Run, judgement: Judgement, given: Given) -> tuple[Rate, ...]:
    """The rates of this run."""
    runner = run.header.runner
    return rates_of(
        judgement.metrics, device_count=runner.device_count, peaks=given.peaks, emulated=runner.emulated
    )


def rate_rows(found: Iterable[Rate], say: Say = one_line) -> Iterator[Row]:
    """One row a rate, under RATE_COLUMNS; MFU is empty where no operations were counted."""
    for r in found:
        values = ", ".join(f"{value:.4g} {KINDS[name][0]}" for name, value in r.per_second.items())
        mfu = ("unknown" if r.why else "") if r.mfu is None else f"{percent(r.mfu)} of {r.precision}"
        took = quantity(r.seconds, scale_of("s", r.seconds))
        yield say(r.test), say(r.metric), took, values, str(r.devices), mfu


def rate_notes(found: Iterable[Rate]) -> list[str]:
    """What MFU is, and why it is unknown where it is."""
    whys = list(dict.fromkeys(r.why for r in found if r.why))
    if not whys and all(r.mfu is None for r in found):
        return []
    return [f"{MFU_CAPTION}{' Unknown: ' if whys else ''}{'; '.join(whys)}"]


COST_COLUMNS = ("test", "metric", "devices", "a step", "an epoch", "a million samples", "a million actions")


def costs(run: Run, found: Iterable[Rate], given: Given) -> Costs | None:
    """What the run's work costs, as of its day; None without prices."""
    if given.prices is None:
        return None
    day = date.fromisoformat(run.header.started[:10])
    return cost_of(found, run.header.runner, given.prices, day)


def cost_rows(found: Costs, say: Say = one_line) -> Iterator[Row]:
    """One row a cost, under COST_COLUMNS; empty where the test does no such work."""
    for c in found.rows:
        each = (c.per_step, c.per_epoch, c.per_million_samples, c.per_million_actions)
        yield say(c.test), say(c.metric), str(c.devices), *("" if v is None else f"{v:.4g}" for v in each)


def cost_notes(found: Costs) -> list[str]:
    """Currency, price, source and day; what one epoch is; and why there are no costs, or what to mind about them."""
    notes = []
    if (p := found.price) is not None:
        notes.append(
            f"in {p.currency}, at {p.per_device_hour:.4g} {p.currency} an hour and device: {plain(p.source)}, {p.day}"
        )
        if found.epoch_samples is not None:
            notes.append(f"an epoch is {found.epoch_samples:.12g} samples")
    return notes + ([plain(found.why)] if found.why else [])
