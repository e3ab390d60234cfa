"""Changes of level are found where they are, and seldom where there are none; the plot shows every value."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import stats

from harness.history import segments
from harness.history.plot import DOTS, render_plot
from harness.history.segments import find_segments
from harness.series import tail_test

NOISE = 0.01


def draw(generator: np.random.Generator, count: int, *, heavy: bool = False) -> np.ndarray:
    """Logarithms with noise of 1 %, of which 2 % are outliers of 3 to 8 %."""
    noise = generator.standard_t(3, count) / math.sqrt(3) if heavy else generator.normal(size=count)
    outliers = (generator.random(count) < 0.02) * generator.uniform(0.03, 0.08, count)
    return np.asarray(noise * NOISE + outliers)


def found(logs: np.ndarray) -> list[segments.Change]:
    """The changes of a series."""
    return list(find_segments(np.exp(logs).tolist()).changes)


@pytest.mark.parametrize(("heavy", "most"), [(False, 0.02), (True, 0.04)])
@pytest.mark.parametrize("count", [12, 30, 60, 120])
def test_noise_is_no_change(count: int, heavy: bool, most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of series without a change at most 2 in 100 show one, 4 in 100 with heavy tails."""
    monkeypatch.setattr(segments, "tail_test", lambda values: None)
    generator = np.random.default_rng(count)
    false = sum(bool(found(draw(generator, count, heavy=heavy))) for _ in range(400))
    assert false / 400 <= most


@pytest.mark.parametrize(("step", "least"), [(0.03, 0.9), (-0.03, 0.9), (0.05, 0.97)])
def test_a_step_is_found_where_it_is(step: float, least: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of 3 noises is found within two runs of its place in 9 of 10 series, with about its size."""
    monkeypatch.setattr(segments, "tail_test", lambda values: None)
    generator = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        logs = draw(generator, 45)
        logs[30:] += step
        near = [c for c in found(logs) if abs(c.index - 30) <= 2 and abs(math.log(c.ratio) - step) < 0.015]
        hits += len(near) == 1
    assert hits / 200 >= least


@given(seed=st.integers(0, 1000), before=st.integers(4, 12), after=st.integers(4, 12))
def test_neighbors_are_told_apart_by_the_usual_t(seed: int, before: int, after: int) -> None:
    """The p of two segments is that of Student's pooled t, with n - 1 in the variances."""
    generator = np.random.default_rng(seed)
    a, b = generator.normal(0, 1, before), generator.normal(1, 1, after)
    assert segments._t_p(a, b, 1e-9) == pytest.approx(float(stats.ttest_ind(a, b).pvalue))


@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 20))
def test_units_do_not_matter(scale: float, seed: int) -> None:
    """The same series in another unit has the same changes and the same tail."""
    values = np.exp(draw(np.random.default_rng(seed), 40) + 0.05 * (np.arange(40) >= 20))
    one, other = find_segments(values.tolist()), find_segments((values * scale).tolist())
    assert [c.index for c in one.changes] == [c.index for c in other.changes]
    assert [c.ratio for c in one.changes] == pytest.approx([c.ratio for c in other.changes])


@given(st.lists(st.one_of(st.floats(), st.just(1.0), st.floats(0.9, 1.1)), max_size=40))
def test_any_series_has_an_answer(values: list[float]) -> None:
    """Any list of numbers is answered: equal ones show no change, and one that is not positive and finite none at all."""
    answer = find_segments(values)
    if not all(math.isfinite(v) and v > 0 for v in values) or len(set(values)) < 2:
        assert answer.changes == ()
    assert all(segments.SHORTEST <= c.index <= len(values) - segments.SHORTEST for c in answer.changes)


def test_a_clean_step_without_noise_is_found() -> None:
    """Values without any noise have a change where they step, once."""
    (change,) = find_segments([2.0] * 10 + [2.1] * 10).changes
    assert change.index == 10
    assert change.ratio == pytest.approx(1.05)


def test_the_tail_starts_after_the_last_change() -> None:
    """Only the runs since the last change are asked whether the newest differ."""
    generator = np.random.default_rng(3)
    logs = generator.normal(0, NOISE, 50)
    logs[30:] += 0.1
    answer = find_segments(np.exp(logs).tolist())
    assert [c.index for c in answer.changes] == [30]
    assert answer.tail == tail_test(np.exp(logs[30:]).tolist())
    assert not answer.tail_changed


@pytest.mark.parametrize(
    ("after", "low", "high"), [(0, 0.0, 0.03), (2, 0.97, 1.0)], ids=["no step", "two runs after a step"]
)
def test_rates_of_the_tail(after: int, low: float, high: float) -> None:
    """Without a step few tails are told as changed; two runs after one of 4 noises nearly all are."""
    generator = np.random.default_rng(11)
    told = 0
    for _ in range(200):
        logs = generator.normal(0, NOISE, 100)
        logs[100 - after :] += 4 * NOISE if after else 0
        tail = tail_test(np.exp(logs).tolist())
        assert tail is not None
        told += tail.p < segments.TAIL_LEVEL
    assert low <= told / 200 <= high


def dots(lines: list[str]) -> int:
    """How many dots a plot has."""
    return sum(bin(ord(c) - 0x2800).count("1") for line in lines for c in line if 0x2800 <= ord(c) < 0x2900)


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=300),
    width=st.integers(20, 120),
    height=st.integers(2, 12),
)
def test_plots_fit_and_show_every_value(values: list[float], width: int, height: int) -> None:
    """A plot has the height asked for, fits the width, and has a dot a value while there is a column for each."""
    lines = render_plot(values, width=width, height=height, unit="s")
    assert len(lines) == height
    assert max(map(len, lines)) <= max(width, 30)
    assert dots(lines) >= 1
    if len(values) <= 20 and width >= 50:
        assert dots(lines) == len(values)
    assert f"{max(values):.4g} s" in lines[0]


def test_a_plot_rises_and_marks_the_change() -> None:
    """Higher values stand higher, and a stroke stands where the level changes."""
    lines = render_plot([1.0] * 6 + [2.0] * 6, changes=[6], width=40, height=4)
    assert [any(c in line for c in "⠁⠉⠈") for line in lines] == [True, False, False, False]
    assert "⡀" in lines[3] or "⣀" in lines[3]
    assert any("│" in line for line in lines)
    assert len(DOTS) == 2
    assert "│" not in "".join(render_plot([1.0, 2.0], width=40))
    assert render_plot([]) == []
