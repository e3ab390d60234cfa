"""A run's traces beside those accepted for other runners: agree, differ or inconclusive; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.parity import ENVELOPES, Envelopes, Series, judge_parity
from harness.records import Run, Trace
from harness.verdicts import AcceptedTraces, Crossing

_LOSS = ENVELOPES["dense"]
_ROUGH = {"tf32": 5e-4, "bf16": 4e-3}


def _times(envelopes: Envelopes, factor: float) -> Envelopes:
    return {span: tolerance * factor for span, tolerance in envelopes.items()}


BY_NOISE: Mapping[str, Envelopes] = {
    "fp32-loss": _LOSS,
    "fp32-norm": _times(_LOSS, 8),
    "tf32-loss": {(1, 100): _ROUGH["tf32"]},
    "tf32-norm": {(1, 100): 6 * _ROUGH["tf32"]},
    "bf16-loss": {(1, 100): _ROUGH["bf16"]},
    "bf16-norm": {(1, 100): 6 * _ROUGH["bf16"]},
}
"""Envelopes by what a trace says of its noise.

fp32-loss: what two vendors were apart (harness.parity); fp32-norm eight times that: beside float64, norms were 29
roundoffs off where losses were 2. bf16: beside float64, five steps of both targets on a CPU were up to 1.5e-3 off in
loss and 5e-3 in norm (0.4 and 1.3 roundoffs); two runners may each be so, and a quarter more. tf32 has an eighth of
bf16's roundoff.
"""


def judge_crossings(run: Run, others: Sequence[AcceptedTraces]) -> tuple[Crossing, ...]:
    """Each trace with a known noise beside the same one of every other runner; the wider noise of the two holds.

    An emulated run is compared with none.
    """
    if run.header.runner.emulated:
        return ()
    found = []
    for record in run.by_test().values():
        for trace in record.traces:
            for other in others:
                there = other.traces.get(f"{record.test}::{trace.name}")
                if there is not None and {trace.noise, there.noise} <= set(BY_NOISE):
                    found.append(_cross(record.test, run.header.runner.key, trace, other.runner, there))
    return tuple(sorted(found, key=lambda c: (c.test, c.trace, c.other)))


def crossing_reasons(crossings: Sequence[Crossing]) -> list[str]:
    """What traces of other runners say against a green."""
    found = []
    for verdict, words in (("differ", "differ from"), ("inconclusive", "are inconclusive beside")):
        mine = [c for c in crossings if c.verdict == verdict]
        if mine:
            where = ", ".join(sorted({c.other for c in mine}))
            found.append(
                f"{len(mine)} traces {words} those of {where} (first: {mine[0].test} {mine[0].trace})"
            )
    return found


def shared_envelopes(a: Series, b: Series) -> Envelopes | None:
    """The wider envelopes of two traces, over the steps they share; None when the noise of either is not known."""
    known = [BY_NOISE[s.noise] for s in (a, b) if s.noise is not None and s.noise in BY_NOISE]
    if len(known) < 2:
        return None
    wider = max(known, key=lambda e: max(e.values()))
    final = min(a.steps[-1], b.steps[-1]) if a.steps and b.steps else 0
    return {(first, min(last, final)): t for (first, last), t in wider.items() if first <= final} or None


def _cross(test: str, here: str, trace: Trace, other: str, there: Trace) -> Crossing:
    mine, beside = _series(here, trace), _series(other, there)
    found = judge_parity(mine, beside, envelopes=shared_envelopes(mine, beside))
    return Crossing(
        test,
        trace.name,
        other,
        found.verdict,
        found.reason,
        found.largest,
        found.largest_step,
        found.first_step,
    )


def _series(name: str, trace: Trace) -> Series:
    steps = tuple(range(trace.first_step, trace.first_step + len(trace.values)))
    return Series(name, steps, trace.values, noise=trace.noise)
