"""What every text report says of several runs side by side; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.merged import WORDS, Column, Merged, is_partial
from harness.quantities import quantity, scale_of
from harness.report_parts.metric_parts import Row, Say, name_of
from harness.report_parts.parts import how_made, one_line, plain

RUN_COLUMNS = ("run", "made", "verdict", "passed", "failed", "known", "not run", "no verdict")
_PASSED = ("same", "fixed", "new", "known_fixed")
_FAILED = ("newly_failing", "failing", "known_expired")
_NOT_RUN = ("skipped", "lacking", "skip_unaccepted", "capability_lost")
MANY = 50
"""More rows than this are counted, not listed, in a text for people."""


def run_rows(merged: Merged, say: Say = one_line) -> Iterator[Row]:
    """One row a run, and one for each runner that did not report, under RUN_COLUMNS."""
    for c in merged.columns:
        count = Counter(t.verdict for t in c.judgement.tests)
        groups = [sum(count[v] for v in group) for group in (_PASSED, _FAILED, ("known",), _NOT_RUN)]
        rest = sum(count.values()) - sum(groups)
        made = how_made(c.run.header)
        verdict = f"{'PARTIAL ' * is_partial([c], ())}{WORDS[c.judgement.status]}"
        yield say(c.name), made, verdict, *map(str, (*groups, rest))
    for a in merged.absent:
        yield say(a.runner), "no run", "OFF" if a.off else "DID NOT REPORT", *[""] * 5


def run_whys(merged: Merged) -> list[str]:
    """Why a run has no verdict, and why a runner did not report: a line each."""
    lines = [f"{c.name}: {'; '.join(c.judgement.reasons)}" for c in merged.columns if c.judgement.reasons]
    return [plain(line) for line in (*lines, *(f"{a.runner} {a.why}" for a in merged.absent))]


def line_columns(merged: Merged) -> Row:
    """Names of the columns of `line_rows`."""
    return ("test", *(c.name for c in merged.columns))


def line_rows(merged: Merged, agreement: str, say: Say = one_line) -> Iterator[Row]:
    """Tests whose runs agree so: their verdicts by run."""
    for line in merged.lines:
        if line.agreement == agreement:
            yield say(line.test), *(c.replace("_", " ") for c in line.cells)


def agreements(merged: Merged) -> str:
    """How many tests agree between measured runs, in a sentence; empty when there is nothing to compare."""
    count = Counter(line.agreement for line in merged.lines)
    if sum(not c.emulated for c in merged.columns) < 2:
        return (
            "Fewer than two measured runs: nothing is compared between runners." if merged.columns[1:] else ""
        )
    return (
        f"Between measured runs {count['agree']} tests end alike, {count['differ']} differ, {count['only_one']} have an "
        f"outcome on one alone, {count['none']} on none."
    )


BETWEEN_COLUMNS = ("trace", "of", "beside", "verdict", "largest difference", "why")


def between_rows(merged: Merged, say: Say = one_line) -> Iterator[Row]:
    """Traces of two runs: all that do not agree, and one row for those that do."""
    agree: dict[tuple[str, str], list[float]] = {}
    for b in merged.between:
        c = b.crossing
        if c.verdict == "agree":
            agree.setdefault((b.here, c.other), []).append(c.largest or 0.0)
            continue
        largest = "unknown" if c.largest is None else f"{c.largest:.1e} at step {c.largest_step}"
        yield say(f"{c.test}::{c.trace}"), say(b.here), say(c.other), c.verdict, largest, say(c.reason)
    for (here, other), values in sorted(agree.items()):
        count = f"{len(values)} trace{'s' * (len(values) != 1)}"
        yield count, say(here), say(other), "agree", f"{max(values):.1e}", ""


def beside_columns(merged: Merged) -> Row:
    """Names of the columns of `beside_rows`."""
    return ("test", "metric", *(c.name for c in merged.columns))


def beside_rows(merged: Merged, say: Say = one_line) -> Iterator[Row]:
    """Each judged metric over the runs: its median, and its ratio to the first measured one or why it has none."""
    for row in merged.beside:
        known = [m for m in row.cells if m is not None]
        cells = []
        for m, ratio, why in zip(row.cells, row.ratios, row.whys, strict=True):
            value = "none"
            if m is not None and m.median is not None:
                value = quantity(m.median, scale_of(say(m.unit), m.median))
            more = (
                f" ({ratio:.3g} times)"
                if ratio is not None
                else f" ({why})"
                if why and value != "none"
                else ""
            )
            cells.append(value + more)
        yield say(row.test), say(name_of(known[0])), *cells


BUNDLE_COLUMNS = ("packed on", "loaded on", "verdict", "why")


def bundle_rows(column: Column, say: Say = one_line) -> Iterator[Row]:
    """Checkpoint bundles that were carried to the machine of a run."""
    for told in column.given.bundles:
        packed = told.get("packed") or {}
        name = "-".join(str(packed.get(k, "unknown")) for k in ("runner", "device_arch", "world"))
        verdict = str(told.get("verdict")).replace("_", " ")
        yield say(name), say(column.name), say(verdict), say(str(told.get("reason")))
