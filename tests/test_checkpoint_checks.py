"""What the checkpoint suite calls a fault: answers made up, and which jobs a test needs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suites.checkpoint import cases, checks


def held(**more: Any) -> dict[str, Any]:
    pair = {"exp_avg": "float32[3, 2] cc", "exp_avg_sq": "float32[3, 2] dd"}
    return {
        "weights": {"a": "float32[3, 2] aa", "b": "float32[4] bb"},
        "moments": {"a": dict(pair), "b": dict(pair)},
        "digest": "0123",
        "steps": [2.0],
        "frozen": [],
        **more,
    }


def ranks(count: int = 2, **more: Any) -> list[dict[str, Any]]:
    first = {"held": held(), "first_step": 3, **more}
    return [first, *({**first, "held": {"digest": "0123", "steps": [2.0]}} for _ in range(count - 1))]


def test_equal_states_pass() -> None:
    """A state that is the saved one on every rank, also on one that holds nothing, is no fault."""
    found = ranks(3)
    found[2]["held"]["steps"] = []
    assert checks.loaded_fault("x", found, held(), 2) is None


@pytest.mark.parametrize(
    "alter",
    [
        lambda r: r[0]["held"]["weights"].update(a="float32[3, 2] ab"),
        lambda r: r[0]["held"]["weights"].update(a="bfloat16[3, 2] aa"),
        lambda r: r[0]["held"]["weights"].pop("b"),
        lambda r: r[0]["held"]["weights"].update(c="float32[1] ee"),
        lambda r: r[0]["held"]["moments"].pop("b"),
        lambda r: r[0]["held"]["moments"]["b"].pop("exp_avg"),
        lambda r: r[0]["held"]["moments"]["b"].update(exp_avg="float32[3, 2] dd"),
        lambda r: r[1]["held"].update(digest="other"),
        lambda r: r[1]["held"].update(steps=[0.0]),
        lambda r: r[0]["held"].update(steps=[2.0, 3.0]),
        lambda r: r[0].update(first_step=1),
    ],
)
def test_other_states_are_faults(alter: Any) -> None:
    """Any bit, type, name, count or rank that differs is one."""
    found = ranks()
    alter(found)
    fault = checks.loaded_fault("x", found, held(), 2)
    assert fault is not None
    assert fault.kind == "wrong_state"


def test_moments_must_be_two() -> None:
    """One moment missing, or both the same everywhere, is a fault; the same in one parameter may be chance."""
    assert checks.moments_fault(held()) is None
    one = held()
    one["moments"]["a"]["exp_avg_sq"] = one["moments"]["a"]["exp_avg"]
    assert checks.moments_fault(one) is None
    one["moments"]["b"]["exp_avg_sq"] = one["moments"]["b"]["exp_avg"]
    assert checks.moments_fault(one) is not None
    del one["moments"]["b"]
    assert checks.moments_fault(one) is not None
    lacking = held(frozen=["b"])
    del lacking["moments"]["b"]
    assert checks.moments_fault(lacking) is None


def test_indivisible() -> None:
    """Names whose first dimension is no multiple of the ranks; a number alone counts as one row."""
    state = {"weights": {"a": "float32[3, 2] aa", "b": "float32[4] bb", "c": "float32[] cc"}}
    assert checks.indivisible(state, 2) == ["a", "c"]
    assert checks.indivisible(state, 3) == ["b", "c"]


def run(first: int, last: int) -> list[dict[str, Any]]:
    steps = [
        {"step": s, "samples": [s, s + 10], "loss": 1 / s, "norm": 2 / s, "digest": f"d{s}",
         "rates": {"backbone": [0.0 if s <= 4 else 1e-4]}, "moved": {"backbone": 0.0 if s <= 4 else 1e-4}}
        for s in range(first, last + 1)
    ]  # fmt: skip
    return [{"steps": copy.deepcopy(steps), "held": {"digest": "end"}} for _ in range(2)]


def test_a_resumed_run() -> None:
    """A run that goes on as the other did is no fault, by any check."""
    through, resumed = run(1, 6), run(4, 6)
    assert checks.resumed_fault(through, resumed, 3) is None
    assert checks.samples_fault(through, resumed, 3) is None
    assert all(checks.freeze_fault(r["steps"], 4) is None for r in resumed)


@given(
    st.integers(0, 1),
    st.integers(0, 2),
    st.sampled_from(
        [("samples", "wrong_batch"), ("loss", "not_repeatable"), ("norm", "not_repeatable"),
         ("rates", "wrong_rate"), ("digest", "wrong_state")]
    ),
)  # fmt: skip
def test_another_run_is_a_fault(rank: int, step: int, what: tuple[str, str]) -> None:
    """One value that differs, in any step on any rank, is found under its own kind and step."""
    resumed = run(4, 6)
    resumed[rank]["steps"][step][what[0]] = [99]
    fault = checks.resumed_fault(run(1, 6), resumed, 3)
    assert fault is not None
    assert fault.kind == what[1]
    assert f"step {step + 4} on rank {rank}" in fault.message
    assert (checks.samples_fault(run(1, 6), resumed, 3) is not None) == (what[0] == "samples")


def test_missing_steps_are_a_fault() -> None:
    """A resumed run that makes fewer steps, or starts at another, is one."""
    for resumed in (run(5, 6), run(1, 3), run(4, 7)):
        assert checks.resumed_fault(run(1, 6), resumed, 3) is not None
    assert checks.samples_fault(run(1, 6), run(5, 6), 3) is not None
    other = run(4, 6)
    other[1]["held"]["digest"] = "elsewhere"
    assert checks.resumed_fault(run(1, 6), other, 3) is not None


def test_samples_of_all_ranks_together() -> None:
    """At another world size the ranks' samples are put together before they are compared."""
    through, alone = run(1, 6), run(4, 6)[:1]
    for step in alone[0]["steps"]:
        step["samples"] = [step["step"] + 10, step["step"], step["step"], step["step"] + 10]
    assert checks.samples_fault(through, alone, 3) is None


@pytest.mark.parametrize(("moved", "step"), [(1e-4, 4), (0.0, 5)])
def test_freeze(moved: float, step: int) -> None:
    """Movement in the frozen part of a run and standstill after it are faults."""
    steps = run(4, 6)[0]["steps"]
    steps[step - 4]["moved"]["backbone"] = moved
    fault = checks.freeze_fault(steps, 4)
    assert fault is not None
    assert f"in step {step}" in fault.message


def test_near() -> None:
    """Within the noise, beyond it, not a number, and of another length."""
    assert checks.near_fault("loss", [1.0, 2.0], [1.0, 2.000001], 4, 1e-5) is None
    fault = checks.near_fault("loss", [1.0, 2.0], [1.0, 2.001], 4, 1e-5)
    assert fault is not None
    assert "step 5" in fault.message
    assert checks.near_fault("loss", [1.0], [float("nan")], 4, 1e-5) is not None
    assert checks.near_fault("loss", [1.0], [], 4, 1e-5) is not None


@pytest.mark.parametrize(("state", "bad"), [("old", False), ("new", False), ("torn", True), ("none", True)])
def test_killed(state: str, bad: bool) -> None:
    """The old and the new checkpoint are both right after a kill; a torn one and none are not."""
    moments = [{"delay_s": 0.1, "state": "old", "why": ""}, {"delay_s": 0.2, "state": state, "why": "why"}]
    fault = checks.killed_fault({"saved": True, "save_s": 0.2, "moments": moments})
    assert (fault is not None) == bad
    if fault is not None:
        assert fault.kind == "checkpoint"
        assert "1 of 2" in fault.message


def test_a_save_of_something_else() -> None:
    """A whole save that holds another state than was there to save is a fault whatever the kills leave."""
    assert checks.killed_fault({"saved": False, "save_s": 0.2, "moments": []}) is not None


def test_damage() -> None:
    """Damage must end in an error, of which one in the chain names the file."""
    loaded = checks.damage_fault({"loaded": {}, "first_step": 3}, "weights.pt")
    assert loaded is not None
    assert loaded.kind == "no_error"
    masked = checks.damage_fault({"chain": ["RuntimeError: bad zip"]}, "weights.pt")
    assert masked is not None
    assert masked.kind == "masked_error"
    chain = ["RuntimeError: no", "OSError: /x/weights.pt is cut"]
    assert checks.damage_fault({"chain": chain}, "weights.pt") is None


@pytest.mark.parametrize(
    ("change", "bad"),
    [
        ({}, False),
        ({"error": "UnpicklingError: no"}, True),
        ({"places": ["cpu", "xpu:0"]}, True),
        (
            {"names": ["collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch FloatStorage"]},
            False,
        ),
        ({"names": ["pathlib PosixPath"]}, True),
        ({"names": ["torch.distributed.tensor DTensor"]}, True),
        ({"names": ["STACK_GLOBAL"]}, True),
    ],
)
def test_files(change: dict[str, Any], bad: bool) -> None:
    """Files that need more than torch's loader of weights, or a device, are faults."""
    file = {"error": None, "places": ["cpu"], "names": [], **change}
    assert (checks.files_fault({"weights.pt": file}, ("cpu",)) is not None) == bad


def test_no_files() -> None:
    """A folder without a file of torch's is no checkpoint."""
    assert checks.files_fault({}, ("cpu",)) is not None


def test_order() -> None:
    """The chosen folder must be the expected one; none is not."""
    assert checks.order_fault({"chosen": "ten", "expected": "ten"}) is None
    for chosen in ("nine", None):
        assert checks.order_fault({"chosen": chosen, "expected": "ten"}) is not None


def test_jobs_bring_what_they_use() -> None:
    """What a job uses is of the phase before, and comes with it; jobs of one world follow one another."""
    for job in cases.JOBS.values():
        assert all(cases.JOBS[b].phase < job.phase for b, _ in job.uses.values())
    jobs = cases.closure(["resume/plain-4", f"dcp/{cases.LOADED[0]}/{cases.SAVED[1]}"])
    assert [j.name for j in jobs] == [
        f"save/{cases.SAVED[1]}", "through/plain", f"dcp/{cases.LOADED[0]}/{cases.SAVED[1]}", "resume/plain-4",
    ]  # fmt: skip


def test_every_journey_is_there() -> None:
    """Each pair of world sizes is loaded by the target, and of different ones by torch, under both shardings on either side."""
    for table in (cases.PAIRS, cases.BY_DCP):
        plain = [(s, t) for s, t in table if s.api == t.api == "fsdp1"]
        same = table is cases.PAIRS
        every = {(a, b) for a in cases.WORLDS for b in cases.WORLDS if same or a != b}
        assert {(s.world, t.world) for s, t in plain} == every
        assert len({(s.sharding, t.sharding) for s, t in plain}) == 4
        assert {(s.api, t.api) for s, t in table} == {(a, b) for a in cases.APIS for b in cases.APIS}
