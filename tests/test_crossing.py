"""Traces of a run beside those that were accepted on other runners."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runs
from builders import TODAY, case, make_record, make_run
from harness import baselines
from harness.crossing import BY_NOISE, judge_crossings
from harness.judge import judge
from harness.merging import one
from harness.records import Run, Trace
from harness.reports import formats
from harness.verdicts import AcceptedTraces

TEST = case("two")
LOSS = (1.1, 1.05, 1.01, 0.99, 0.98)


def run(
    values: tuple[float, ...] = LOSS, noise: str | None = "fp32-loss", name: str = "loss", **header: Any
) -> Run:
    trace = Trace(name, "", values, 1, noise)
    return make_run([make_record(TEST, traces=(trace,))], **header)


def there(values: tuple[float, ...] = LOSS, noise: str | None = "fp32-loss") -> tuple[AcceptedTraces, ...]:
    return (AcceptedTraces("other-gfx942-8", {f"{TEST}::loss": Trace("loss", "", values, 1, noise)}),)


def moved(step: int, by: float) -> tuple[float, ...]:
    return tuple(v * (1 + (by if n == step else 0)) for n, v in enumerate(LOSS, 1))


def test_equal_traces_agree() -> None:
    """The same trace on another runner agrees, and the run is as green as without it."""
    found = judge_crossings(run(), there())
    assert [c.verdict for c in found] == ["agree"]
    assert judge(run(), None, today=TODAY, others=there()).status == "green"


@given(step=st.integers(1, 5), sign=st.sampled_from([-1, 1]), noise=st.sampled_from(sorted(BY_NOISE)))
def test_one_step_outside_is_red_and_named(step: int, sign: int, noise: str) -> None:
    """A step three times outside the wider envelope differs, whichever runner has it, and turns the run red."""
    widest = max(BY_NOISE[noise].values())
    values = moved(step, sign * 3 * widest)
    for mine, other in ((values, LOSS), (LOSS, values)):
        judged = judge(run(mine, noise), None, today=TODAY, others=there(other, noise))
        assert judged.status == "red"
        assert judged.crossings[0].first_step == step
        assert "other-gfx942-8" in judged.headline


@given(step=st.integers(1, 5), noise=st.sampled_from(sorted(BY_NOISE)))
def test_noise_is_not_a_difference(step: int, noise: str) -> None:
    """A step within half of the narrowest envelope agrees."""
    values = moved(step, 0.5 * min(BY_NOISE[noise].values()))
    assert judge_crossings(run(values, noise), there(LOSS, noise))[0].verdict == "agree"


def test_the_wider_noise_holds() -> None:
    """A bf16 trace beside an fp32 one is held against bf16's envelope."""
    values = moved(3, 0.5 * BY_NOISE["bf16-loss"][1, 100])
    assert judge_crossings(run(values, "bf16-loss"), there())[0].verdict == "agree"
    assert judge_crossings(run(values), there())[0].verdict == "differ"


@pytest.mark.parametrize(
    ("mine", "others"),
    [
        (run(noise=None), there()),
        (run(), there(noise=None)),
        (run(name="other"), there()),
        (run(runner={"emulated": True}), there()),
    ],
    ids=["no noise here", "no noise there", "another trace", "emulated"],
)
def test_what_is_not_compared(mine: Run, others: Any) -> None:
    """Traces without a known noise, of another name, or of an emulated run are compared with nothing."""
    assert judge_crossings(mine, others) == ()


def test_a_value_that_is_not_finite_differs() -> None:
    """A NaN on one runner only is a difference."""
    values = (*LOSS[:3], math.nan, LOSS[4])
    assert judge_crossings(run(values), there())[0].verdict == "differ"


def test_accepted_on_one_runner_found_from_another(tmp_path: Path) -> None:
    """What is accepted on one runner is held against a run of another; reports show it in every format."""
    accepted = run(runner={"name": "other", "device_arch": "gfx942", "device_count": 8})
    baselines.accept(
        tmp_path, [(accepted, judge(accepted, None, today=TODAY))], "measured on the other machine"
    )
    mine = run(moved(4, 0.1))
    others = baselines.find_others(tmp_path, mine.header)
    assert [(o.runner, list(o.traces)) for o in others] == [("other-gfx942-8", [f"{TEST}::loss"])]
    assert baselines.find_others(tmp_path, accepted.header) == ()
    other_configuration = run(configuration={"seed": 2})
    assert baselines.find_others(tmp_path, other_configuration.header) == ()
    judged = judge(mine, None, today=TODAY, others=others)
    for name, form in formats().items():
        text = form.render(one(mine, judged))
        if name == "badge":  # it has room for the verdict alone
            assert json.loads(text)["color"] == "red"
            continue
        assert "other-gfx942-8" in text, name
        assert "differ" in text, name
    data = json.loads(formats()["json"].render(one(mine, judged)))
    assert data["crossings"][0]["first_step"] == 4
    good = judge(run(), None, today=TODAY, others=others)
    assert "agree" in formats()["terminal"].render(one(run(), good))


def test_the_command_knows_the_noise_of_a_run_s_trace(tmp_path: Path) -> None:
    """Five steps of two runs agree or differ by the noise that their traces name; without one they are inconclusive."""
    for name, values, noise in (
        ("a", LOSS, "fp32-loss"),
        ("b", moved(3, 1e-3), "fp32-loss"),
        ("c", LOSS, None),
    ):
        runs.write(tmp_path / name, run(values, noise))
    specs = {n: f"{tmp_path / n}:{TEST}:loss" for n in "abc"}
    found = {
        pair: runs.harness("parity", specs[pair[0]], specs[pair[1]]).returncode for pair in ("aa", "ab", "ac")
    }
    assert found == {"aa": 0, "ab": 1, "ac": 3}
