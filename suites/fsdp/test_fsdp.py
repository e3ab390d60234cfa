"""Training steps on several ranks: exact again, within noise of one rank and of float64, and as configured."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from suites.faults import judge
from suites.fsdp import checks
from suites.fsdp.checks import UNIT, highest, relative
from suites.fsdp.scenarios import EVERY, FREEZE, RATES, SCENARIOS
from suites.fsdp.worlds import Run, Worlds

pytestmark = pytest.mark.xdist_group("fsdp")

QUANTITIES = ("loss", "norm", "size")
NOISE = ("one-passes", "one-singles", "one-unsharded")
MARGIN = 10.0
"""How far beyond the noise measured on one rank a run on several may be."""
FACTORS = {
    ("fp32", "loss"): 16,
    ("fp32", "norm"): 128,
    ("fp32", "size"): 1,
    ("bf16", "loss"): 2,
    ("bf16", "norm"): 8,
    ("bf16", "size"): 0.05,
}
"""Allowed error against float64, in units of the precision's roundoff: four times or more what both targets show on
a CPU (fp32: loss 2, norm 29, size 0.01; bf16: loss 0.4, norm 1.3, size 2e-4). Gradient norms add up the errors of
every layer; at a first step AdamW turns the sign of the smallest gradient into a full step."""
VARIANTS = (
    "two",
    "two-full",
    "two-passes",
    "two-recompute",
    "two-full-recompute-passes",
    "two-fsdp2",
    "two-fsdp2-full-passes",
    "two-replicas",
    "four",
    "four-nodes",
)
REPLICAS = {"two-replicas": 2, "four-nodes": 2}
SHARDED = (*VARIANTS, "two-bf16", "two-freeze", "two-decay", "two-clip")


def of(names: Iterable[str], *more: str) -> list[Any]:
    """Parameters of a test by scenario; `more` are scenarios that it needs beside its own."""
    found = []
    for name in names:
        marks = [pytest.mark.needs(name, *more)]
        if SCENARIOS[name].targets != EVERY:
            marks.append(pytest.mark.targets(*SCENARIOS[name].targets))
        found.append(pytest.param(name, marks=marks, id=name))
    return found


@pytest.fixture(scope="session")
def worlds(request: pytest.FixtureRequest) -> Iterator[Worlds]:
    marks = [m for i in request.session.items for m in i.iter_markers("needs")]
    kept = Worlds(name for m in marks for name in m.args)
    yield kept
    kept.close()


class Trained:
    """Gives a scenario's run to a test."""

    def __init__(self, worlds: Worlds, launch: Any, record: Any) -> None:
        self.worlds, self.launch, self.record = worlds, launch, record

    def __call__(self, name: str) -> Run:
        return self.worlds.get(name, self.launch, self.record)

    def raw(self, name: str) -> Run:
        return self.worlds.raw(name, self.launch)


@pytest.fixture
def trained(worlds: Worlds, launch: Any, record: Any) -> Trained:
    return Trained(worlds, launch, record)


def noise(trained: Trained, quantity: str, steps: int) -> list[float]:
    """By step, how far equal runs on one rank are apart when sums are taken in another order; at least roundoff."""
    one = trained("one").trace(quantity)[:steps]
    apart = [relative(one, trained(n).trace(quantity)[:steps]) for n in NOISE]
    return highest([max(UNIT["fp32"], *column) for column in zip(*apart, strict=True)])


@pytest.mark.needs("two")
def test_control_faults_are_seen(trained: Trained, record: Any) -> None:
    """The checks must reject a run with one bit, one rank, one rate, one sample or one loss altered."""
    good = trained("two")

    def altered(rank: int, step: int, key: str, value: Any) -> Run:
        ranks = copy.deepcopy(good.ranks)
        ranks[rank]["steps"][step][key] = value
        return Run("two", ranks)

    loss = good.of("loss", 1)[2]
    moved = {"backbone": 0.0, "head": 1e-3}
    seen = {
        "a digest": checks.repeat_fault(good, altered(1, 2, "digest", "0" * 16)),
        "a loss": checks.envelope_fault(
            "loss", good.loss(), altered(1, 2, "loss", loss * 1.0001).loss(), [1e-6] * good.steps
        ),
        "a rank's norm": checks.agreement_fault(altered(1, 2, "norm", 1.5)),
        "a NaN": checks.finite_fault(altered(1, 2, "loss", float("nan"))),
        "a repeated batch": checks.batch_fault(altered(1, 2, "samples", good.of("samples", 0)[2]), 4),
        "a rate": checks.rates_fault(altered(0, 2, "rates", {"backbone": [0.0]}), [RATES] * good.steps),
        "a still backbone": checks.freeze_fault(altered(0, 2, "moved", moved), good.steps),
        "a norm past the limit": checks.clip_fault(altered(0, 2, "clipped", 100.0), 1.0),
    }
    unseen = [what for what, fault in seen.items() if fault is None]
    if unseen:
        record.fail("control", f"the checks do not see {', '.join(unseen)}")


@pytest.mark.parametrize("name", of([*SHARDED, "one", "one-bf16", "oracle"]))
def test_steps_are_finite(name: str, trained: Trained, record: Any) -> None:
    """Losses, gradient norms and parameters are finite in every step, on every rank."""
    run = trained(name)
    numbers = run.scenario.plan.get("precision", "fp32")
    numbers = "tf32" if numbers == "fp32" and run.ranks[0]["tf32"] else numbers
    for quantity, noise in (("loss", "loss"), ("norm", "norm"), ("size", None)):
        exact = noise is None or numbers == "fp64"
        record.trace(quantity, "", run.trace(quantity), noise=None if exact else f"{numbers}-{noise}")
    for part in RATES:
        record.trace(f"rate-{part}", "", [r[part][0] for r in run.of("rates")])
    judge(record, checks.finite_fault(run))


@pytest.mark.parametrize(
    ("name", "again"),
    [
        pytest.param(n, f"{n}-again", id=n, marks=m.marks)
        for n in ("two", "two-bf16", "two-random", "two-augmented")
        for m in of([n], f"{n}-again")
    ],
)
def test_same_run_same_bits(name: str, again: str, trained: Trained, record: Any) -> None:
    """Two runs of one configuration have equal samples, losses, norms, rates, parameters and moments, bit by bit."""
    judge(record, checks.repeat_fault(trained(name), trained(again)))


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("name", of(VARIANTS, "one", *NOISE))
def test_same_steps_as_on_one_rank(name: str, quantity: str, trained: Trained, record: Any) -> None:
    """At one effective batch, the trace is the one of one rank, to ten times the noise of one rank."""
    here = trained(name).trace(quantity)
    there = trained("one").trace(quantity)[: len(here)]
    usual = noise(trained, quantity, len(here))
    record.metric(f"{quantity}-difference", "relative", relative(there, here))
    record.metric(f"{quantity}-noise", "relative", usual)
    allowed = [MARGIN * n for n in usual]
    judge(record, checks.envelope_fault(f"{quantity} of {name} beside one rank", there, here, allowed))


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("name", of(["one", "two", "one-bf16", "two-bf16"], "oracle"))
def test_error_against_float64(name: str, quantity: str, trained: Trained, record: Any) -> None:
    """The trace stays within a small multiple of its precision's roundoff from the same steps in float64."""
    precision = SCENARIOS[name].plan.get("precision", "fp32")
    here, there = trained(name).trace(quantity), trained("oracle").trace(quantity)
    unit = UNIT["tf32" if precision == "fp32" and trained(name).ranks[0]["tf32"] else precision]
    errors = [e / unit for e in relative(there, here)]
    record.metric(f"{quantity}-error", "roundoffs", errors)
    allowed = [FACTORS[precision, quantity] * unit] * len(here)
    judge(record, checks.envelope_fault(f"{quantity} of {name} beside float64", there, here, allowed))


@pytest.mark.parametrize("name", of(["one-bf16", "two-bf16"], "one"))
def test_precision_is_in_force(name: str, trained: Trained, record: Any) -> None:
    """A run in bf16 differs from fp32 by what only bf16 explains: it was not silently done in fp32."""
    apart = relative(trained("one").loss(), trained(name).loss())
    record.metric("difference", "relative", apart)
    if max(apart) < 64 * UNIT["fp32"]:
        record.fail("drift", f"bf16 losses differ from fp32 by {max(apart):.2g} at most: bf16 had no effect")


@pytest.mark.parametrize("name", of(SHARDED))
def test_ranks_agree(name: str, trained: Trained, record: Any) -> None:
    """All ranks start from, end with and see the same weights, and have equal gradient norms in every step."""
    judge(record, checks.agreement_fault(trained(name)))


@pytest.mark.parametrize("name", of(SHARDED))
def test_sharded_as_asked(name: str, trained: Trained, record: Any) -> None:
    """Each parameter is held once by the ranks together, or once by each group of replicas."""
    judge(record, checks.shards_fault(trained(name), REPLICAS.get(name, 1)))


@pytest.mark.parametrize("name", of(["two", "four"]))
def test_moments_are_two(name: str, trained: Trained, record: Any) -> None:
    """AdamW's two moments are different numbers on every rank."""
    if not all(r["moments_differ"] for r in trained(name).ranks):
        record.fail("wrong_state", "exp_avg equals exp_avg_sq in every parameter")


@pytest.mark.targets("vitra")
@pytest.mark.parametrize("name", of(["one", "two", "four"]))
def test_target_knows_its_world(name: str, trained: Trained, record: Any) -> None:
    """The target itself counts as many ranks as were launched."""
    run = trained(name)
    told = [r["told_world"] for r in run.ranks]
    if told != [len(run.ranks)] * len(run.ranks):
        record.fail("replicas_differ", f"{len(run.ranks)} ranks were launched, the target counts {told}")


@pytest.mark.parametrize("name", of([*VARIANTS, "two-random"], "one"))
def test_effective_batch(name: str, trained: Trained, record: Any) -> None:
    """Each step trains on as many different samples as asked for, the same ones at every world size."""
    run = trained(name)
    judge(record, checks.batch_fault(run, 4))
    judge(record, checks.order_fault(run, trained("one")))


@pytest.mark.needs("three")
def test_batch_that_ranks_do_not_divide(trained: Trained, record: Any) -> None:
    """A global batch of 8 on three ranks of 2 samples is refused, or trained on as 8."""
    run = trained.raw("three")
    if run.error is None:
        judge(record, checks.batch_fault(run, 8))


@pytest.mark.parametrize("name", of(["two", "two-full", "four"]))
def test_rates_as_configured(name: str, trained: Trained, record: Any) -> None:
    """Without a freeze, every step uses the two configured learning rates."""
    run = trained(name)
    judge(record, checks.rates_fault(run, [RATES] * run.steps))


@pytest.mark.needs("two-freeze")
def test_freeze_rates(trained: Trained, record: Any) -> None:
    """The backbone's rate is 0 in the first steps and the configured one after; the head's is always as configured."""
    run = trained("two-freeze")
    planned = [{**RATES, "backbone": 0.0 if s < FREEZE else RATES["backbone"]} for s in range(run.steps)]
    judge(record, checks.rates_fault(run, planned))


@pytest.mark.needs("two-freeze")
def test_freeze_holds(trained: Trained, record: Any) -> None:
    """The backbone does not move while frozen and moves after; the head moves in every step."""
    judge(record, checks.freeze_fault(trained("two-freeze"), FREEZE))


@pytest.mark.needs("two")
def test_everything_moves(trained: Trained, record: Any) -> None:
    """Without a freeze, backbone and head move in every step."""
    judge(record, checks.freeze_fault(trained("two"), 0))


@pytest.mark.needs("two-decay", "unsharded-decay")
def test_weight_decay_sharded(trained: Trained, record: Any) -> None:
    """Weight decay falls on the same parameters sharded as unsharded."""
    judge(record, checks.decay_fault(trained("two-decay"), trained("unsharded-decay")))


@pytest.mark.parametrize("name", of(["two-clip", "two"]))
def test_gradients_are_clipped(name: str, trained: Trained, record: Any) -> None:
    """The optimizer sees gradients of the limited norm, and untouched ones below the limit."""
    judge(record, checks.clip_fault(trained(name), SCENARIOS[name].plan.get("clip", 1.0)))


@pytest.mark.targets("vitra")
@pytest.mark.parametrize("name", of(["mixed-precision", "constant-rate", "jsonl-metrics"]))
def test_configuration_trains(name: str, trained: Trained, record: Any) -> None:
    """A configuration that the target offers trains."""
    judge(record, checks.finite_fault(trained(name)))
