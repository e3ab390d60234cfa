"""What `verdicts.py` prints and writes."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from datetime import date

from verdict_counts import (
    CHANGED,
    DETECTABLE,
    FIVE,
    MARGIN,
    NOTHING,
    PROMISED,
    TEN,
    Cell,
    Cells,
    mean_and_error,
)
from verdict_rules import (
    CLEARED,
    MINIMUM,
    PROCESSES,
    REGRESSED,
    SCREEN_BASE,
    SCREEN_HEAD,
    SCREEN_LEVEL,
    Rule,
    versions,
)
from verdict_worlds import BASE_PROCESSES, METRICS, SAMPLE_NOISE, SAMPLES, World

from harness import judge_pairs, looks

Broken = Sequence[tuple[str, str, str]]


def rate(mean: float, error: float, count: int) -> str:
    """A share with its standard error; where none or all were seen, the bound that 95 % confidence leaves."""
    if math.isnan(mean):
        return ""
    if mean == 0:
        return f"0 (<{3 / count:.3f})"
    if mean == 1:
        return f"1 (>{1 - 3 / count:.3f})"
    return f"{mean:.2f} ±{error:.2f}" if 0.1 < mean < 0.9 else f"{mean:.3f} ±{error:.3f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Markdown, aligned for a terminal."""
    widths = [max(len(str(row[n])) for row in (head, *rows)) for n in range(len(head))]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in (head, *rows)]
    lines.insert(1, ["-" * width for width in widths])
    return [f"| {' | '.join(line)} |" for line in lines]


def render_tables(cells: Cells, asked: Sequence[Rule], worlds: Sequence[World]) -> list[str]:
    """All tables, each under its title."""
    lines = [
        f"**False alarms: chance of at least one `worse` in a report of {METRICS} where nothing changed**",
        "",
    ]
    lines += _by_world(asked, worlds, lambda w, r: _flags(cells[w, NOTHING, r].worse))
    for truth in (FIVE, TEN):
        lines += ["", f"**Power: chance that a metric with {truth} is called worse**", ""]
        lines += _by_world(asked, worlds, lambda w, r, t=truth: _share(cells[w, t, r], REGRESSED))  # type: ignore[misc]
    lines += [
        "",
        "**Cost: new processes a report, where nothing changed / 5 metrics changed by +5 % / by +10 %**",
        "",
    ]
    lines += _by_world(
        asked, worlds, lambda w, r: " / ".join(_mean(cells[w, t, r].processes) for t in (NOTHING, FIVE, TEN))
    )
    for rule in asked:
        if rule.ours:
            lines += ["", f"**{rule.name[0].upper()}{rule.name[1:]}: everything else it says**", ""]
            lines += _ours(cells, rule, worlds)
    return lines


def _by_world(asked: Sequence[Rule], worlds: Sequence[World], cell: object) -> list[str]:
    rows = []
    for rule in asked:
        if rule.judge is None:
            rows.append([rule.name, rule.remedy, *[""] * (len(worlds) - 1)])
        else:
            rows.append([rule.name, *(cell(w.name, rule.name) for w in worlds)])  # type: ignore[operator]
    return table(["rule", *(w.name for w in worlds)], rows)


def _ours(cells: Cells, rule: Rule, worlds: Sequence[World]) -> list[str]:
    def row(title: str, say: object) -> list[str]:
        return [title, *(say(w.name) for w in worlds)]  # type: ignore[operator]

    def share(truth: str, verdict: str) -> object:
        return lambda w: _share(cells.get((w, truth, rule.name), Cell()), verdict)

    rows = [
        row(
            "a report with a false `improved`, nothing changed",
            lambda w: _flags(cells[w, NOTHING, rule.name].better),
        ),
        row(
            f"a report with a `regressed`, all at +{MINIMUM:.0%}",
            lambda w: _flags(cells[w, MARGIN, rule.name].worse),
        ),
        row(f"false `equivalent` at +{MINIMUM:.0%}", share(MARGIN, "equivalent")),
        row("false `equivalent` at +5 %", share(FIVE, "equivalent")),
        row("`equivalent`, nothing changed", share(NOTHING, "equivalent")),
        row("`inconclusive`, nothing changed", share(NOTHING, "inconclusive")),
        row("`inconclusive` at +5 %", share(FIVE, "inconclusive")),
        row("`inconclusive` at +10 %", share(TEN, "inconclusive")),
    ]
    if any(CLEARED in s for w in worlds for s in cells[w.name, NOTHING, rule.name].shares):
        rows += [
            row("not flagged, nothing changed", share(NOTHING, CLEARED)),
            row("not flagged at +5 %", share(FIVE, CLEARED)),
            row("not flagged at +10 %", share(TEN, CLEARED)),
        ]
    rows.append(
        row("detectable change that it prints (median)", lambda w: _detectable(cells[w, NOTHING, rule.name]))
    )
    if rule.one_look:
        rows.append(row("power there (0.80 meant, if all have one noise)", share(DETECTABLE, REGRESSED)))
    rows.append(row("tests run anew, nothing changed", lambda w: _mean(cells[w, NOTHING, rule.name].tests)))
    rows.append(row("tests run anew, +5 % in 5 metrics", lambda w: _mean(cells[w, FIVE, rule.name].tests)))
    return table(["", *(w.name for w in worlds)], rows)


def _flags(values: Sequence[bool]) -> str:
    return rate(*mean_and_error(values), len(values))


def _share(cell: Cell, verdict: str) -> str:
    # Metrics of a report may depend on one another: the bound counts reports, the cautious way.
    return rate(*cell.share(verdict), len(cell.shares))


def _mean(values: Sequence[int]) -> str:
    mean, _ = mean_and_error(values)
    return f"{mean:.0f}" if mean == round(mean) or mean >= 100 else f"{mean:.1f}"


def _detectable(cell: Cell) -> str:
    values = sorted(cell.detectable)
    return f"{values[len(values) // 2]:.1%}" if values else ""


def render_broken(cells: Cells, over: Broken) -> list[str]:
    """Where our rules give more false alarms than promised, in sentences."""
    lines = []
    for world, truth, rule in over:
        seen = _flags(cells[world, truth, rule].worse)
        where = (
            "where nothing changed"
            if truth == NOTHING
            else f"where every metric changed by just +{MINIMUM:.0%}"
        )
        lines.append(
            f"- {rule}, {world}: {seen} of the reports {where} have a false alarm, {PROMISED} is promised."
        )
    return lines or [
        f"- None: no rule of ours exceeds {PROMISED} by more than the error of this measurement."
    ]


def render_document(
    cells: Cells,
    asked: Sequence[Rule],
    worlds: Sequence[World],
    over: Broken,
    reports: int,
    seed: int,
    took_s: float,
) -> str:
    """The document: what was measured, how, and what of it."""
    software = ", ".join(f"{name} {version}" for name, version in versions().items())
    lines = [
        "# How often the verdicts are wrong",
        "",
        f"Measured on {date.today().isoformat()} with `python benchmarks/verdicts.py --reports {reports} --seed {seed} "
        f"--output docs/verdict_rates.md` ({took_s / 60:.0f} minutes, one processor; Python {platform.python_version()}, "
        f"{software}).",
        "",
        f"{reports} made-up reports for each rule, machine and truth; all rules see the same ones. `±` is one standard "
        "error over reports; where nothing (or everything) was seen, the bound is the one that 95 % confidence leaves. "
        "Other tools are called as installed from PyPI, none is written anew.",
        "",
        "## The machines",
        "",
        f"A report has {METRICS} metrics, a process gives {SAMPLES} samples of each, with a noise of {SAMPLE_NOISE:.0%} "
        f"inside the process. The base has {BASE_PROCESSES} processes, which ran before; the head's come after them.",
        "",
        *table(
            ["machine", "what processes do on it, where nothing changed"], [[w.name, w.what] for w in worlds]
        ),
        "",
        "## The rules",
        "",
        *_RULES,
        "",
        "## The tables",
        "",
        *render_tables(cells, asked, worlds),
        "",
        "## Where our rules break their promise",
        "",
        f"Promised: in at most {PROMISED} of reports any metric is falsely called `regressed`. Asked at no change at all, "
        f"and where it is hardest: all {METRICS} metrics exactly at the minimum of {MINIMUM:.0%}, which is no regression yet.",
        "",
        *render_broken(cells, over),
        "",
        *_WHY,
    ]
    return "\n".join(lines) + "\n"


_RULES = [
    "- pytest-benchmark: `--benchmark-compare-fail=mean:5%`, by `pytest_benchmark.utils.parse_compare_fail`: one process "
    "of the head against the base's last.",
    f"- pyperf: `pyperf._compare.CompareResult` on `pyperf.Benchmark` objects, {PROCESSES} processes a side (its test asks "
    "for as many values on both; otherwise it calls any difference significant); called worse: significant, and slower.",
    f"- scipy: `scipy.stats.mannwhitneyu`, two-sided, no correction, {PROCESSES} processes of the head against "
    f"{BASE_PROCESSES} of the base, called worse when the head's median is higher; on all samples, and on process medians.",
    f"- Otava: `otava.series.Series.analyze` with its default options on the medians of {BASE_PROCESSES} processes of the "
    f"base and {PROCESSES} of the head; called worse: a change point upwards at one of the head's. It is made for long "
    "series of runs, not to gate one change.",
    f"- ours, {PROCESSES} (or 5) new processes: `harness.stats.compare` with a minimum of {MINIMUM:.0%}.",
    f"- ours, two stages (`--base`): as the harness runs it: a screen by {SCREEN_BASE} fresh processes of the base and "
    f"{SCREEN_HEAD} of the head in random order (`harness.judge_pairs.screen_rows`, level {SCREEN_LEVEL}); then pairs of "
    f"fresh processes in random order for what it flagged, or would not have seen at {judge_pairs.REACH:g} times the minimum, "
    "judged by `harness.looks.decide` after "
    f"{', '.join(map(str, looks.LOOKS))} pairs, until all is settled. It needs no base from before. A test here is one "
    "metric measured in one process: a pair runs the open ones alone.",
    f"- ours, two stages, screen of 1 process: a cheaper way that the harness does not go, for comparison: the screen is "
    f"`harness.stats.screen` with one process of the head against the base's {BASE_PROCESSES} from before; the same pairs.",
    f"- Power is counted on {CHANGED} changed metrics among {METRICS}. Where the machine slows too (the last three), a rule "
    "without pairs finds the machine's change together with the program's: its power there is no merit.",
]

_WHY = [
    "A rule that sets new processes beside old ones cannot tell a slower machine from a slower program: it promises its "
    "level for a machine that is the same for both. That is why there are two stages: the few processes of the first only "
    "choose what to look at, and the verdict comes from pairs that ran side by side in random order, where the machine's "
    "drift enters as noise and not as a change.",
]
