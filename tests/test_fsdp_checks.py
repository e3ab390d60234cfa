"""The checks of suite fsdp, and the utils3d stand-in that its augmented runs lean on."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.targets.standins import utils3d
from suites.fsdp import checks
from suites.fsdp.worlds import Run

RATES = {"backbone": 1e-4, "head": 1e-3}


def step(number: int, rank: int) -> dict[str, Any]:
    return {
        "step": number,
        "loss": 1.0 / number + rank / 100,
        "norm": 2.0,
        "clipped": 1.0,
        "rates": {p: [r] for p, r in RATES.items()},
        "moved": {"backbone": 1e-4, "head": 1e-3},
        "samples": [4 * number + 2 * rank, 4 * number + 2 * rank + 1],
        "digest": f"{number}-{rank}",
        "size": 10.0,
    }


def sound() -> Run:
    def rank(r: int) -> dict[str, Any]:
        return {
            "steps": [step(n, r) for n in range(1, 5)],
            **{"start": "a", "weights": "b", "finite": True, "moments": f"m{r}"},
            **{"count": 100, "local_count": 50, "replicas": 1.0, "groups": [1, 1, 1, 1]},
            **{"decay": {"w": 0.1, "b": 0.0}, "sizes": {"w": 90, "b": 10}},
        }

    return Run("two", [rank(0), rank(1)])


@pytest.fixture
def good() -> Run:
    return sound()


def altered(run: Run, rank: int, number: int, **values: Any) -> Run:
    ranks = copy.deepcopy(run.ranks)
    ranks[rank]["steps"][number].update(values)
    return Run("two", ranks)


def told(run: Run, rank: int, **values: Any) -> Run:
    ranks = copy.deepcopy(run.ranks)
    ranks[rank].update(values)
    return Run("two", ranks)


def test_a_good_run_has_no_fault(good: Run) -> None:
    """Nothing is found in a run in which nothing is wrong."""
    other = told(good, 0)
    assert checks.repeat_fault(good, other) is None
    assert checks.agreement_fault(good) is None
    assert checks.finite_fault(good) is None
    assert checks.shards_fault(good, 1) is None
    assert checks.batch_fault(good, 4) is None
    assert checks.order_fault(good, other) is None
    assert checks.rates_fault(good, [RATES] * 4) is None
    assert checks.freeze_fault(good, 0) is None
    assert checks.decay_fault(good, other) is None
    assert checks.clip_fault(good, 1.0) is None


@given(
    rank=st.sampled_from([0, 1]),
    number=st.integers(0, 3),
    key=st.sampled_from(["samples", "loss", "norm", "rates", "digest"]),
)
def test_any_altered_value_is_no_repeat(rank: int, number: int, key: str) -> None:
    """Whatever differs in any step on any rank, two runs are not the same, and the step is named."""
    run = sound()
    fault = checks.repeat_fault(run, altered(run, rank, number, **{key: "other"}))
    assert fault is not None
    assert fault.kind == "not_repeatable"
    assert f"{key} differs at step {number + 1} on rank {rank}" in fault.message


def test_each_check_sees_its_fault(good: Run) -> None:
    """Each fault that a check is for is found, under its kind."""
    nan = float("nan")
    found = [
        (checks.repeat_fault(good, told(good, 1, moments="x")), "not_repeatable"),
        (checks.agreement_fault(told(good, 1, start="x")), "replicas_differ"),
        (checks.agreement_fault(told(good, 1, weights="x")), "replicas_differ"),
        (checks.agreement_fault(altered(good, 1, 2, norm=2.5)), "replicas_differ"),
        (checks.finite_fault(altered(good, 1, 2, size=nan)), "not_finite"),
        (checks.finite_fault(told(good, 1, finite=False)), "not_finite"),
        (checks.shards_fault(told(good, 0, replicas=2.0), 1), "replicas_differ"),
        (checks.batch_fault(altered(good, 1, 2, samples=[1]), 4), "wrong_batch"),
        (checks.batch_fault(altered(good, 1, 2, samples=[12, 13]), 4), "wrong_batch"),
        (checks.order_fault(good, altered(good, 1, 2, samples=[90, 91])), "wrong_batch"),
        (
            checks.rates_fault(altered(good, 0, 3, rates={"backbone": [0.0], "head": [1e-3]}), [RATES] * 4),
            "wrong_rate",
        ),
        (checks.freeze_fault(good, 1), "wrong_rate"),
        (checks.decay_fault(told(good, 0, decay={"w": 0.0, "b": 0.0}), good), "wrong_rate"),
        (checks.clip_fault(altered(good, 0, 1, clipped=2.0), 1.0), "wrong_rate"),
        (checks.clip_fault(altered(good, 0, 1, clipped=nan), 1.0), "wrong_rate"),
        (checks.clip_fault(altered(good, 0, 1, norm=0.5, clipped=0.25), 1.0), "wrong_rate"),
    ]
    assert [(None if f is None else f.kind, kind) for f, kind in found if f is None or f.kind != kind] == []


def test_a_frozen_part_that_stays_frozen_is_a_fault(good: Run) -> None:
    """A backbone that does not move after its freeze is found."""
    still = {"backbone": 0.0, "head": 1e-3}
    run = good
    for rank in (0, 1):
        for number in range(4):
            run = altered(run, rank, number, moved=still)
    assert checks.freeze_fault(run, 4) is None
    fault = checks.freeze_fault(run, 2)
    assert fault is not None
    assert "stood still" in fault.message


@given(
    values=st.lists(st.floats(0.1, 1e3), min_size=1, max_size=8),
    at=st.integers(0, 7),
    allowed=st.floats(1e-7, 1e-2),
)
def test_the_envelope_is_the_limit(values: list[float], at: int, allowed: float) -> None:
    """A trace inside the envelope agrees; one step outside is found and named, whichever trace comes first."""
    at %= len(values)
    limits = [allowed] * len(values)
    inside = [v * (1 + allowed * 0.5) for v in values]
    assert checks.envelope_fault("loss", values, inside, limits) is None
    outside = [v * (1 + (3 * allowed if n == at else 0)) for n, v in enumerate(values)]
    for pair in ((values, outside), (outside, values)):
        fault = checks.envelope_fault("loss", *pair, limits)
        assert fault is not None
        assert f"at step {at + 1}" in fault.message


def test_what_is_not_finite_never_agrees() -> None:
    """A NaN or an infinity is infinitely far from anything, itself included."""
    assert checks.relative([math.nan, math.inf, 1.0], [math.nan, math.inf, 1.0]) == [math.inf, math.inf, 0.0]


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=3), st.lists(st.floats(-1, 1), min_size=3, max_size=3))
def test_the_rotation_turns_one_direction_into_the_other(source: list[float], target: list[float]) -> None:
    """The stand-in's rotation is a rotation, and carries source to target."""
    a, b = np.array(source), np.array(target)
    if min(np.linalg.norm(a), np.linalg.norm(b)) < 0.1:
        return
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    if a @ b < -0.99:
        return
    turn = utils3d.rotation_matrix_from_vectors(a, b)
    assert np.allclose(turn @ turn.T, np.eye(3), atol=1e-8)
    assert np.allclose(turn @ a, b, atol=1e-8)


@given(st.floats(0.2, 3.0), st.floats(0.2, 3.0), st.floats(-0.4, 1.4), st.floats(-0.4, 1.4))
def test_unprojected_points_are_seen_where_they_were(fx: float, fy: float, u: float, v: float) -> None:
    """A point unprojected and projected again is where it was; angles of view and focal lengths invert."""
    intrinsics = utils3d.intrinsics_from_focal_center(fx, fy, 0.5, 0.5)
    point = utils3d.unproject_cv(np.array([[u, v]]), np.array([2.0]), intrinsics=intrinsics)[0]
    seen = intrinsics @ point
    assert np.allclose(seen[:2] / seen[2], [u, v], atol=1e-5)
    assert math.isclose(utils3d.fov_to_focal(utils3d.focal_to_fov(fx)), fx, rel_tol=1e-9)


def test_lines_meet_and_pixels_have_centres() -> None:
    """Two lines meet where geometry says, and the uv of a pixel gives that pixel back."""
    where, far = utils3d.numpy.ray_intersection(
        np.zeros(2), np.array([[1.0, 1.0]]), np.array([0.0, 2.0]), np.array([1.0, -1.0])
    )
    assert np.allclose(where, [[1, 1]])
    assert np.allclose(far, [1])
    uv = utils3d.numpy.image_uv(5, 3)
    assert uv.shape == (3, 5, 2)
    assert np.allclose(utils3d.numpy.uv_to_pixel(uv, 5, 3)[2, 4], [4, 2], atol=1e-6)
    with pytest.raises(NotImplementedError, match=r"utils3d\.rasterize"):
        _ = utils3d.rasterize
