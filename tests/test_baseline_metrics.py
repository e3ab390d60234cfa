"""What accepting times promises: one environment, nothing unknown, a diff to review first, and files git can diff."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import runs
from builders import case, make_record, make_run
from harness import ROOT, baseline_files, baselines
from harness.baseline_diff import render_diff
from harness.errors import BaselineError
from harness.records import Metric, Run, Selection
from harness.verdicts import Baseline, BaselineMetric
from runs import write
from test_baselines import REASON, RULES, accept, good, judged

A, B = case("a"), case("b")


def timed(*values: float, unit: str = "s", test: str = A, processes: int | None = None, **header: Any) -> Run:
    """A run whose test kept one value in each of its processes, as metric `m`."""
    records = [
        make_record(test, repeat=n, metrics=(Metric("m", unit, (v,) * 3),)) for n, v in enumerate(values, 1)
    ]
    return make_run(records, repeats=processes or len(values), **header)


def edited(path: Path, **changes: Any) -> None:
    """Changes top-level keys of a baseline file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"machine": {"processor": "another", "cpu_usable": 2}}, "processor is another, a processor in"),
        ({"machine": {"processor": "a processor", "cpu_usable": 64}}, "cpu_usable is 64, 2 in"),
        ({"software": {"python": "3.11.9", "torch": "2.12.0"}}, "torch is 2.12.0, 2.13.0 in"),
        ({"software": {"python": "3.11.9", "torch": "2.13.0", "driver": "6.3"}}, "driver is 6.3, None in"),
        ({"runner": {"device_count": 2}}, "device count differs"),
        ({"runner": {"emulated": True}}, "is emulated"),
        ({"runner": {"stand_in": True}}, "stand-in"),
        ({"target": {"commit": "d" * 40}}, "target commit differs"),
    ],
)
def test_mixed_environments(tmp_path: Path, second: dict[str, Any], words: str) -> None:
    """Times of another machine, other software, other devices, or emulated ones never join a measured baseline."""
    first = timed(1.0, 1.1)
    other = timed(1.0, 1.1, run_id="second", started="2027-01-16T10:00:00+00:00", **second)
    with pytest.raises(BaselineError) as caught:
        accept(tmp_path, first, other)
    assert words in str(caught.value)
    assert "second" in str(caught.value)
    assert not list(tmp_path.iterdir())
    with pytest.raises(BaselineError):
        accept(tmp_path, other, first)


def test_one_environment(tmp_path: Path) -> None:
    """Runs of one machine and one software are one baseline: a value for each process of each run, in their order."""
    second = timed(
        2.0,
        2.1,
        run_id="second",
        started="2027-01-16T10:00:00+00:00",
        machine={**timed(1.0).header.machine, "host": "twin"},
    )
    accept(tmp_path, second, timed(1.0, 1.1))
    found, _ = baselines.find(tmp_path, second.header)
    assert found is not None
    assert found.metrics[f"{A}::m"].medians == (1.0, 1.1, 2.0, 2.1)
    assert [p["processes"] for p in found.measured] == [2, 2]


@pytest.mark.parametrize(
    ("unknown", "words"),
    [
        ({"machine": {"processor": None, "cpu_usable": 2}}, "processor is unknown"),
        ({"machine": {"processor": "a processor"}}, "cpu_usable is unknown"),
        ({"software": {"python": "3.11.9", "torch": None}}, "torch is unknown"),
        ({"harness_commit": None}, "no harness commit"),
        ({"target": {"commit": None}}, "no commit"),
    ],
)
def test_times_of_nowhere(tmp_path: Path, unknown: dict[str, Any], words: str) -> None:
    """Times whose machine, software or commits nobody knows are refused; outcomes need no processor."""
    with pytest.raises(BaselineError, match=words):
        accept(tmp_path, timed(1.0, 1.1, **unknown))
    if "machine" in unknown:
        assert accept(tmp_path, good(**unknown))


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (timed(1.0, processes=3), "is lost"),
        (timed(1.0, float("nan")), "1 of 2 processes gave a value (3 of 3 samples not finite"),
        (timed(1.0, runner={"emulated": True}), "emulated"),
        (dataclasses.replace(timed(1.0), pairs=object()), "two revisions"),  # type: ignore[arg-type]
    ],
)
def test_refused_times(tmp_path: Path, run: Run, words: str) -> None:
    """Lost processes, values that are none, emulated times and comparisons of two revisions become no baseline."""
    judgement = judged(dataclasses.replace(run, pairs=None), tmp_path)[1]
    with pytest.raises(BaselineError) as caught:
        baselines.accept(tmp_path, [(run, judgement)], REASON, RULES)
    assert words in str(caught.value)


def test_units_that_differ(tmp_path: Path) -> None:
    """One metric in two units is no row."""
    second = timed(1000.0, unit="ms", run_id="second", started="2027-01-16T10:00:00+00:00")
    with pytest.raises(BaselineError, match="unit ms, s in an earlier run"):
        accept(tmp_path, timed(1.0), second)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"provenance": []}, "names no run"),
        ({"provenance": [{"host": "x"}]}, "names no run"),
        ({"provenance": ["x"]}, "not a baseline"),
        ({"reason": "todo"}, "reason 'todo': says nothing"),
        ({"reason": "TBD"}, "says nothing"),
        ({"metrics": {"a::m": {"unit": "s", "row": ["a", "m", "median"], "medians": []}}}, "no value"),
        ({"metrics": {"a::m": {"unit": "s", "row": ["a", "m", "median"], "medians": ["1"]}}}, "no number"),
        ({"metrics": {"a::m": {"unit": "s", "row": ["a", "m", "median"], "medians": [True]}}}, "no number"),
        ({"metrics": {"a::m": {"unit": "s", "row": ["a", "m", "median"], "medians": "12"}}}, "no number"),
        ({"metrics": {"a::m": {"unit": 1, "row": ["a", "m", "median"], "medians": [1.0]}}}, "no unit"),
        ({"metrics": {"a::m": {"unit": "s", "row": ["a", "m"], "medians": [1.0]}}}, "not a baseline"),
        ({"metrics": {"a::m": {"unit": "s", "row": ["a", "m", "median"], "medians": [float("nan")]}}}, "NaN"),
        ({"metrics": []}, "not a baseline"),
        ({"traces": {"x": 1}}, "not a baseline"),
    ],
)  # fmt: skip
def test_placeholders_in_a_file(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """A file made by hand without runs, reason or numbers is refused whenever it is read."""
    (path,) = accept(tmp_path, timed(1.0, 1.1))
    edited(path, **changes)
    for look in (lambda: baselines.find(tmp_path, good().header), lambda: baseline_files.read(path)):
        with pytest.raises(BaselineError) as caught:
            look()
        assert words in str(caught.value)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", "||||||| base", "=======", ">>>>>>> other"])
def test_conflict_marker_among_metrics(tmp_path: Path, marker: str) -> None:
    """A conflict marker is an error with its line, wherever it stands."""
    (path,) = accept(tmp_path, timed(1.0, 1.1))
    lines = path.read_text().split("\n")
    number = next(n for n, line in enumerate(lines) if '"metrics"' in line) + 2
    path.write_text("\n".join([*lines[: number - 1], marker, *lines[number - 1 :]]))
    with pytest.raises(BaselineError, match=f"line {number}: conflict markers"):
        baselines.find(tmp_path, good().header)


def test_damage_has_its_line(tmp_path: Path) -> None:
    """JSON that breaks in a metric is an error with the line."""
    (path,) = accept(tmp_path, timed(1.0, 1.1))
    lines = path.read_text().split("\n")
    number = next(n for n, line in enumerate(lines, 1) if "::m" in line)
    lines[number - 1] = lines[number - 1].replace("[1.0, 1.1]", "[1.0 1.1]")
    path.write_text("\n".join(lines))
    with pytest.raises(BaselineError, match=f"line {number}: "):
        baselines.find(tmp_path, good().header)


def test_git_does_not_merge_baselines() -> None:
    """Git never mixes two sides of a baseline by itself."""
    done = subprocess.run(
        ["git", "check-attr", "merge", "baselines/cpu-x86_64-1/reference.throughput.json"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip().endswith("merge: unset")


def test_one_metric_is_one_line(tmp_path: Path) -> None:
    """Another value of one metric changes its line and that of the run, whatever the order of the records."""
    records = {t: [make_record(t, repeat=1, metrics=(Metric("m", "s", (1.0,)),))] for t in (A, B)}
    (one,) = accept(tmp_path / "one", make_run([*records[A], *records[B]]))
    other = make_record(B, repeat=1, metrics=(Metric("m", "s", (2.0,)),))
    (two,) = accept(tmp_path / "two", make_run([other, *records[A]], run_id="second"))
    before, after = one.read_text().split("\n"), two.read_text().split("\n")
    changed = [(x, y) for x, y in zip(before, after, strict=True) if x != y]
    assert len(changed) == 2
    assert [("run_id" in y, f"{B}::m" in y) for _, y in changed] == [(True, False), (False, True)]


def test_plan_writes_nothing_and_write_leaves_nothing(tmp_path: Path) -> None:
    """Planning writes no file; writing leaves the files alone, with what the plan said."""
    changes = baselines.plan(tmp_path / "b", [judged(timed(1.0), tmp_path)], REASON, RULES)
    assert not (tmp_path / "b").exists()
    baselines.write(changes)
    assert [p.name for p in (tmp_path / "b").rglob("*.json*")] == ["vitra.decoder.json"]
    assert changes[0].path.read_text() == changes[0].text
    assert baseline_files.read(changes[0].path) == changes[0].new


def test_a_write_that_fails_changes_no_file(tmp_path: Path) -> None:
    """When one of several files cannot be written the others stay as they were, and nothing is left over."""
    first, blocked = tmp_path / "a" / "x.json", tmp_path / "b" / "y.json"
    baseline_files.write({first: "old\n"})
    blocked.parent.write_text("a file where a folder must be")
    with pytest.raises(BaselineError, match="name a folder you can write to"):
        baseline_files.write({first: "new\n", blocked: "new\n"})
    assert first.read_text() == "old\n"
    assert [p.name for p in first.parent.iterdir()] == ["x.json"]


def make(metrics: dict[str, BaselineMetric], tests: dict[str, str], run_id: str, **source: Any) -> Baseline:
    provenance = (
        {"run_id": run_id, "started": "2027-01-15", "processes": 3, "harness_commit": "a" * 40, **source},
    )
    return Baseline({"runner": "cpu"}, tests, metrics, provenance, f"reason of {run_id}")


def row(*values: float, unit: str = "s", metric: str = "m") -> BaselineMetric:
    return BaselineMetric(unit, values, (A, metric, "median"), 0.01)


def test_diff() -> None:
    """The diff tells tests and metrics that come, go and change, old to new with change and processes, and the runs."""
    old = make(
        {"slower": row(1.0, 1.0), "same": row(1.0), "gone": row(1.0), "unit": row(1.0), "a little": row(1.0)},
        {A: "passed", B: "failed"},
        "first",
        software={"torch": "2.12.0"},
    )
    new = make(
        {
            "slower": row(1.1, 1.1, 1.1),
            "same": row(1.0),
            "come": row(0.5),
            "unit": row(1.0, unit="ms"),
            "a little": row(0.99),
        },
        {B: "passed", case("c"): "skipped"},
        "second",
        software={"torch": "2.13.0"},
    )
    lines = render_diff(old, new, RULES)
    text = "\n".join(lines)
    assert lines[:2] == ["reason: reason of second", "  was: reason of first"]
    for words in (
        "  - first, started 2027-01-15, 3 processes, harness aaaaaaaaaaaa",
        "  + second, started",
        "  ~ torch: 2.12.0 -> 2.13.0",
        "tests: 2: 1 added, 1 removed, 1 changed",
        f"  + {case('c')}: skipped",
        f"  - {A}: passed",
        f"  ~ {B}: failed -> passed",
        "metrics: 5: 1 added, 1 removed, 3 changed, 1 worse by more than the minimum",
        "  + come: 500 ms, 1 process, noise 1 %",
        "  - gone: 1 s, 1 process, noise 1 %",
        "  ~ slower: 1 s -> 1.1 s (+10.0 %), 2 -> 3 processes, noise 1 % -> 1 %, worse",
        "  ~ unit: 1 s -> 1 ms (unit changed), 1 -> 1 processes",
        "  ~ a little: 1 s -> 990 ms (-1.0 %), 1 -> 1 processes, noise 1 % -> 1 %",
    ):
        assert words in text
    assert "same" not in text
    metrics = [line for line in lines if line.startswith("  ") and " ms" in line]
    assert metrics == sorted(metrics, key=lambda line: line[4:])


def test_diff_knows_the_direction() -> None:
    """Of a rate more is better; swapping the two sides swaps the word."""
    slow, fast = (make({"r": row(v, metric="rate")}, {}, "x") for v in (1.0, 2.0))
    assert render_diff(slow, fast, RULES)[-1].endswith(", better")
    assert render_diff(fast, slow, RULES)[-1].endswith(", worse")


def test_accept_command(tmp_path: Path) -> None:
    """`accept` prints the diff; with --dry-run it writes nothing; without, what it printed."""
    run = timed(1.0, 1.1, selection=Selection(("decoder",)))
    folder, b = write(tmp_path / "run", run), tmp_path / "b"
    words = ("baseline", "accept", str(folder), "--reason", REASON, "--baselines", str(b))
    dry = runs.harness(*words, "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert "dry run: nothing is written" in dry.stdout
    assert not b.exists()
    done = runs.harness(*words)
    assert done.returncode == 0
    assert done.stdout.split("\n")[:-2] == dry.stdout.split("\n")[:-2]
    assert f"+ {A}: passed" in done.stdout
    path = b / "cpu-x86_64-1" / "vitra.decoder.json"
    assert str(path) in done.stdout
    again = runs.harness(*words, "--dry-run")
    assert "0 added, 0 removed, 0 changed" in again.stdout
    assert "new file" not in again.stdout
    path.write_text(path.read_text().replace('"tests"', "<<<<<<< HEAD\n"))
    bad = runs.harness(*words)
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)
    assert "line " in bad.stderr
