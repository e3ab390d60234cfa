"""What the suite `collectives` calls a fault, and how it compares: tensors and answers made up, no ranks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from suites.collectives import cases, checks
from suites.collectives.compare import compare, relative_bound, sentinel, spilled

LENGTHS = st.sampled_from([1, 2, 7, 1023])


def inputs(dtype: torch.dtype, count: int, ranks: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(count, generator=generator) for _ in range(ranks)]
    return [(m * 2**40).long() if dtype is torch.int64 else m.to(dtype) for m in made]


def added(terms: list[torch.Tensor]) -> torch.Tensor:
    total = terms[0].clone()
    for term in terms[1:]:
        total += term
    return total


@given(st.sampled_from([torch.float32, torch.bfloat16, torch.int64]), LENGTHS, st.integers(1, 8), st.data())
def test_any_order_of_a_sum_is_right(dtype: torch.dtype, count: int, ranks: int, data: st.DataObject) -> None:
    """A sum in its own type is right in whatever order its terms are added; one wrong element is seen and placed."""
    terms = inputs(dtype, count, ranks, data.draw(st.integers(0, 99)))
    got = added(data.draw(st.permutations(terms)))
    assert compare(got, terms)["wrong"] == 0
    place = data.draw(st.integers(0, count - 1))
    got[place] += 1 if dtype is torch.int64 else float(sum(t[place].abs() for t in terms)) * 0.5 + 1
    found = compare(got, terms)
    assert (found["wrong"], found["first"]) == (1, place)
    assert found["last_wrong"] is (place == count - 1)


def test_sums_rounded_to_another_type_are_wrong() -> None:
    """A sum of fp32 that went through bf16, and one of int64 that went through float64, are seen."""
    terms = inputs(torch.float32, 1023, 2, 1)
    assert compare(added(terms).bfloat16().float(), terms)["wrong"] > 900
    large = [torch.tensor([2**60 + 1]), torch.tensor([2**59 + 1])]
    assert compare(added([t.double() for t in large]).long(), large)["wrong"] == 1


def test_copies_are_exact_to_the_bit() -> None:
    """One unit in the last place, an unwritten element and a zero of the other sign are wrong in a copy."""
    (sent,) = inputs(torch.float32, 7, 1, 2)
    sent[3] = 0.0
    for place, wrong in ((6, torch.nextafter(sent[6], torch.tensor(9.0))), (0, float("nan")), (3, -0.0)):
        got = sent.clone()
        got[place] = wrong
        assert compare(got, [sent])["wrong"] == 1
    assert compare(sent.clone(), [sent])["wrong"] == 0


def test_every_chunk_is_compared() -> None:
    """In a tensor of several chunks the last element counts like the first."""
    terms = inputs(torch.float32, (2 << 20) + 3, 2, 3)
    got = added(terms)
    got[-1] += 1
    got[0] += 1
    found = compare(got, terms)
    assert (found["wrong"], found["first"], found["last_wrong"]) == (2, 0, True)


def test_bounds() -> None:
    """The bound grows with the additions and is that of the type; a single term has none."""
    assert relative_bound(torch.float32, 1) == 0
    assert relative_bound(torch.float32, 2) == pytest.approx(2**-24, rel=1e-6)
    assert relative_bound(torch.bfloat16, 4) == pytest.approx(3 / 256 / (1 - 3 / 256))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_write_past_the_end_is_seen(dtype: torch.dtype) -> None:
    """A guard keeps its sentinel until one of its elements is written to."""
    guard = torch.full((8,), sentinel(dtype), dtype=dtype)
    assert not spilled(guard)
    guard[7] = 0
    assert spilled(guard)


def result(**changes: Any) -> dict[str, Any]:
    one = {"what": "all_reduce of 7 fp32", "same": True, "spilled": False, "digest": "a", "elements": 7,
           "wrong": 0, "last_wrong": False, **changes}  # fmt: skip
    return {"found": [one]}


WRONG = {"wrong": 1, "last_wrong": True, "first": 6, "got": "1", "expected": "2"}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, None),
        (WRONG, "wrong_sum"),
        ({"spilled": True}, "wrong_sum"),
        ({"digest": "b"}, "replicas_differ"),
        ({"digest": "b", "same": False}, None),
        ({"elements": 0}, "harness"),
    ],
)
def test_results(changes: dict[str, Any], kind: str | None) -> None:
    """One rank's wrong element, write past the end or other bits make a fault; so does comparing nothing."""
    fault = checks.results_fault([result(), result(**changes)])
    assert (fault.kind if fault else None) == kind
    nothing = checks.results_fault([{"found": []}, result()])
    assert nothing is not None
    assert nothing.kind == "harness"


def test_refusals() -> None:
    """A refusal by all ranks before anything ran is torch's own words; one that came later or alone is a fault."""
    refused = {"found": [], "unsupported": "RuntimeError: Invalid scalar type"}
    assert checks.unsupported([refused, refused]) == refused["unsupported"]
    for answers in ([refused, result()], [{**result(), "unsupported": "no"}] * 2):
        assert checks.unsupported(answers) is None
        fault = checks.results_fault(answers)
        assert fault is not None
        assert fault.kind == "exception"


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (RuntimeError("Invalid scalar type"), True),
        (RuntimeError("Backend gloo does not support reduce_scatter"), True),
        (RuntimeError("ProcessGroupGloo::alltoall is not implemented"), True),
        (NotImplementedError(""), True),
        (RuntimeError("Connection closed by peer [127.0.0.1]:10974"), False),
        (RuntimeError("Timed out waiting 300000ms for recv operation to complete"), False),
    ],
)
def test_what_counts_as_a_refusal(error: Exception, lacks: bool) -> None:
    """A backend that lacks an operation is told from one that broke."""
    assert checks.is_unsupported(error) is lacks


def test_repetitions() -> None:
    """Another bit in one repetition is not repeatable, and fewer repetitions than asked for are no pass."""
    sound = {**result(), "repetitions": 50, "unlike": []}
    assert checks.repetitions_fault([sound, sound], 50) is None
    kinds = [
        checks.repetitions_fault([sound, {**sound, **change}], 50)
        for change in ({"unlike": [[31, 2]]}, {"repetitions": 49}, result(**WRONG))
    ]
    assert [k.kind for k in kinds if k] == ["not_repeatable", "harness", "wrong_sum"]


def test_barriers() -> None:
    """A rank that left before the last one came is a fault, in whichever round."""
    assert checks.barrier_fault([{"rounds": [[0.0, 0.3]]}, {"rounds": [[0.2, 0.2]]}]) is None
    early = [{"rounds": [[0.0, 0.3], [0.4, 0.41]]}, {"rounds": [[0.2, 0.25], [0.5, 0.51]]}]
    fault = checks.barrier_fault(early)
    assert fault is not None
    assert "barrier 1: rank 0" in fault.message


def test_bus_bandwidth() -> None:
    """The factors are those of nccl-tests, and a repetition lasts as long as on its slowest rank."""
    of = {op: checks.bus_bandwidth(op, 10**9, 4, 0.5) for op in cases.TIMED}
    assert of == {
        "all_reduce": 3.0,
        "all_gather": 1.5,
        "reduce_scatter": 1.5,
        "broadcast": 2.0,
        "all_to_all": 1.5,
    }
    assert checks.slowest([{"seconds": {"s": [1, 4]}}, {"seconds": {"s": [2, 3]}}], "s") == [2, 4]


def test_control() -> None:
    """An alteration that is not seen, and a sound result that is called wrong, are both told."""
    sound, wrong = result()["found"][0], result(**WRONG)["found"][0]
    expected = {"sum": "wrong_sum", "sound": None}
    assert checks.control_missed([{"altered": {"sum": wrong, "sound": sound}}] * 2, expected) == []
    assert len(checks.control_missed([{"altered": {"sum": sound, "sound": wrong}}] * 2, expected)) == 2


@given(st.sampled_from(cases.OPS), st.sampled_from(cases.LENGTHS), st.sampled_from(cases.WORLDS))
def test_cases_stay_inside_the_inputs(op: str, length: int, world: int) -> None:
    """No rank is asked to give more than there is, and larger buffers have the bytes they are named by."""
    most = max(sum(cases.split(length, s, d) for d in range(world)) for s in range(world))
    given_here = most if op == "all_to_all_uneven" else cases.given(op, length, world)
    assert given_here <= cases.given(op, length, world) <= cases.most_given([], world)
    if op in cases.TIMED:
        piece = cases.pieces(op, 64 << 20, world)
        assert piece * (1 if op in ("all_reduce", "broadcast") else world) * 4 == 64 << 20
