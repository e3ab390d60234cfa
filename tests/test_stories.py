"""How metrics went over the runs of a store, as a report is given them: of the same kind of run alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import history_runs
import runs
from builders import TODAY
from harness import history, stories
from harness.errors import HarnessError
from harness.judge import judge
from harness.policy import Rule
from harness.records import Run

RULES = (Rule("step_s", True, 0.02, True, ("median",)),)
OTHERS: dict[str, dict[str, Any]] = {
    "configuration": {"configuration": {"seed": 2}},
    "runner": {"runner": {"name": "rocm", "device_arch": "gfx942"}},
    "target": {"target": {"name": "reference"}},
    "patches": {"target": {"patches": ("decoder-fix",)}},
}


def keep(folder: Path, place: Path, *made: Run) -> None:
    for run in made:
        history.add(runs.write(folder / run.header.run_id, run), str(place))


def told(place: Path, run: Run) -> dict[str, tuple[str, ...]]:
    """The runs of each story, by test."""
    judgement = judge(run, None, today=TODAY, rules=RULES)
    return {s.test: s.runs for s in stories.read(str(place), run.header, judgement)}


def test_one_story_a_judged_metric(tmp_path: Path) -> None:
    """Of each test with a judged metric its runs, oldest first, with a value in the metric's unit and the commit."""
    made = [history_runs.make_run(n) for n in (3, 1, 2)]
    keep(tmp_path / "runs", tmp_path / "store", *made)
    judgement = judge(made[0], None, today=TODAY, rules=RULES)
    found = stories.read(str(tmp_path / "store"), made[0].header, judgement)
    assert [s.test for s in found] == [f"{history_runs.TEST}[{n}]" for n in (0, 1)]
    for story in found:
        assert (story.metric, story.unit, story.runs) == ("step_s", "s", ("run1", "run2", "run3"))
        assert [round(v) for v in story.values] == [1, 2, 3]
        assert story.commits == tuple(f"{n:040x}" for n in (1, 2, 3))
        assert list(story.started) == sorted(story.started)
    shown_alone = judge(made[0], None, today=TODAY)
    assert stories.read(str(tmp_path / "store"), made[0].header, shown_alone) == ()


@pytest.mark.parametrize("what", OTHERS)
def test_other_kinds_of_run_are_other_stories(what: str, tmp_path: Path) -> None:
    """A run of another configuration, machine, target or patch stands in no story of this one."""
    mine, other = history_runs.make_run(1), history_runs.make_run(2, **OTHERS[what])
    keep(tmp_path / "runs", tmp_path / "store", mine, other)
    assert set(told(tmp_path / "store", mine).values()) == {("run1",)}
    assert set(told(tmp_path / "store", other).values()) == {("run2",)}


def test_a_store_without_runs_is_an_error(tmp_path: Path) -> None:
    """`harness report RUN --store PLACE` names a place that holds no run."""
    run = history_runs.make_run(1)
    with pytest.raises(HarnessError, match="holds no run"):
        told(tmp_path / "none", run)


def test_the_page_draws_the_history_of_a_store(tmp_path: Path) -> None:
    """With `--store` the page has the metrics over time; without it, it has not."""
    made = [history_runs.make_run(n) for n in (1, 2, 3)]
    keep(tmp_path / "runs", tmp_path / "store", *made)
    words = (
        "report",
        str(tmp_path / "runs" / "run3"),
        "--format",
        "html",
        "--baselines",
        str(tmp_path / "none"),
    )
    assert "Metrics over time" in runs.harness(*words, "--store", str(tmp_path / "store")).stdout
    assert "Metrics over time" not in runs.harness(*words).stdout
