"""Whether what a machine computes can be relied on: its run's status, and its traces beside those of the reference; pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.buying import Offer
from harness.crossing import BY_NOISE, judge_crossings
from harness.merged import WORDS
from harness.records import Run, Trace
from harness.verdicts import AcceptedTraces, Crossing


def traces_of(run: Run) -> dict[str, Trace]:
    """The traces of tests that passed whose noise is known, by `test::trace`."""
    return {
        f"{test}::{trace.name}": trace
        for test, record in run.by_test().items()
        if record.outcome == "passed"
        for trace in record.traces
        if trace.noise in BY_NOISE
    }


def parity_of(offer: Offer, reference: Offer | None, name: str) -> tuple[str, str]:
    """`reference`, `agree`, `differ`, `inconclusive` or `unknown`, and why; `name` is the reference's."""
    header = offer.run.header
    if header.runner.emulated or header.runner.stand_in:
        return "unknown", "emulated: compared with none"
    mine = traces_of(offer.run)
    if not mine:
        if "imported_from" in header.configuration:
            return "unknown", "imported; name it as a run of the harness on its machine, with --name"
        return "unknown", "no trace of a known noise in the run: nothing to compare"
    if reference is None or reference is offer:
        return "reference", f"the others are held against {_count(len(mine), 'trace')} of it"
    if said := other_code(offer, reference):
        return "unknown", f"not compared with {name}: {said}"
    theirs = traces_of(reference.run)
    found = [
        c
        for c in judge_crossings(offer.run, [AcceptedTraces(name, theirs)])
        if f"{c.test}::{c.trace}" in mine
    ]
    if not found:
        return "unknown", f"no trace in common with {name}"
    for verdict, words in (("differ", "differ from"), ("inconclusive", "are inconclusive beside")):
        bad = [c for c in found if c.verdict == verdict]
        if bad:
            return (
                verdict,
                f"{len(bad)} of {_count(len(found), 'trace')} {words} those of {name}: {_first(bad)}",
            )
    lacking = len(set(theirs) - set(mine))
    more = f"; {_count(lacking, 'other')} of it not here" if lacking else ""
    return "agree", f"agrees with {name} in {_count(len(found), 'trace')}{more}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _first(bad: Sequence[Crossing]) -> str:
    c = bad[0]
    step = "" if c.first_step is None else f", from step {c.first_step} on"
    return f"{c.test} {c.trace}{step} ({c.reason})"


def other_code(a: Offer, b: Offer) -> str:
    """In what the code or the configuration of two runs differ; empty: in nothing that is known."""
    here, there = a.run.header, b.run.header
    for what, x, y in (
        ("target", here.target.name, there.target.name),
        ("target commit", here.target.commit, there.target.commit),
        ("patches", _patches(a), _patches(b)),
    ):
        if x != y:
            return f"another {what}: {x or 'none'}, not {y or 'none'}"
    imported = "imported_from" in here.configuration and "imported_from" in there.configuration
    # Of imported runs each row tells its own settings.
    if not imported and here.configuration_digest != there.configuration_digest:
        return "another configuration"
    return ""


def _patches(offer: Offer) -> str:
    return ", ".join(sorted(offer.run.header.target.patches))


def struck_by(offer: Offer, parity: str, why: str) -> tuple[str, ...]:
    """Why no cost of this run may be relied on; empty: nothing speaks against it."""
    header = offer.run.header
    reasons = [] if header.defect is None else [f"the defect {header.defect} was planted"]
    if offer.status != "green":
        reasons.append(f"its run is {WORDS[offer.status].lower()}: {offer.why or 'no reason told'}")
    if parity == "unknown":
        reasons.append(f"not shown to agree: {why}")
    elif parity not in ("agree", "reference"):
        reasons.append(f"parity {parity}: {why}")
    for run in offer.served:
        if bad := next((r for r in run.records if r.outcome != "passed"), None):
            reasons.append(
                f"{run.header.run_id}: {bad.outcome}: {bad.reason or bad.kind or 'no reason told'}"
            )
    return tuple(reasons)
