"""What a comparison with a base says in words: why there is no verdict, what ran, and what it cost; pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.pairs import Pairs
from harness.records import Run
from harness.verdicts import MetricVerdict


def pair_reasons(run: Run, metrics: Sequence[MetricVerdict]) -> list[str]:
    """Why the comparison itself keeps a run from being green."""
    pairs, reasons = run.pairs, []
    if pairs is None:
        return []
    if not pairs.ended:
        reasons.append("the comparison with the base was interrupted: go on with harness resume RUN")
    if not pairs.tests:
        reasons.append("nothing was compared with the base: no repeated test was selected")
    elif not any(m.verdict != "shown" for m in metrics):
        reasons.append("nothing was compared with the base: no process gave a value that is judged")
    if pairs.base is not None:
        controls = pairs.base.header.controls
        unheld = {n for c in controls for n in pairs.numbers("base", c) if not _held(pairs.base, c, n)}
        count = len(pairs.numbers("base"))
        if unheld:
            reasons.append(
                f"a positive control did not hold in {len(unheld)} of {count} processes of the base"
            )
    return reasons


def _held(run: Run, test: str, number: int) -> bool:
    return any(r.test == test and r.repeat == number and r.outcome == "passed" for r in run.records)


def render_screen(pairs: Pairs, rows: int) -> str:
    """How many of the metrics went on to the pairs, and why."""
    blind = len(pairs.unseen)
    text = f"screen: {len(pairs.flagged or ()) - blind} of {rows} metrics flagged"
    return f"{text}, {blind} more too noisy for it" if blind else text


def render_pair_notes(run: Run, metrics: Sequence[MetricVerdict]) -> list[str]:
    """What was run to compare with the base, and what it cost, in words."""
    pairs = run.pairs
    if pairs is None or not pairs.tests:
        return []
    base = None if pairs.base is None else pairs.base.header.target
    commit = f" ({base.name} {base.commit[:12]})" if base is not None and base.commit else ""
    sides = {side: sum(p.side == side for p in pairs.processes) for side in ("base", "head")}
    rows = sum(m.verdict != "shown" for m in metrics)
    notes = [
        f"compared with the base {pairs.asked}{commit} on this machine: {sum(sides.values())} processes "
        f"({sides['base']} of the base, {sides['head']} of the head), {pairs.seconds():.0f} machine seconds"
    ]
    if pairs.flagged is not None:
        kept = render_screen(pairs, rows)
        last = max((p.pair for p in pairs.processes if p.pair is not None), default=0)
        notes.append(f"{kept}; they were judged by up to {last} fresh pairs" if pairs.flagged else kept)
    groups: dict[str, list[str]] = {}
    for m in metrics:
        if m.verdict in ("regressed", "improved", "equivalent"):
            statistic = "" if m.statistic == "median" else f" {m.statistic}"
            name = f"{m.test.rpartition('::')[2]} {m.metric}{statistic}"
            groups.setdefault(f"{m.verdict} {m.why.partition(':')[0]}", []).append(name)
    return notes + [f"{what}: {_listed(names)}" for what, names in groups.items()]


def _listed(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
