"""What a store answers: each series by itself, values as plain Python computes them, on any mixture of files."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from builders import make_record
from harness import cli
from harness.history import query, rows, store, words
from harness.history.place import Place, StoreError
from harness.history.query import Reader
from harness.records import Metric, Run
from history_runs import TEST, make_run, write_folder


def put(place: Place, *runs: Run, compact: bool = False) -> Reader:
    """A reader of a store to which these runs were added."""
    for run in runs:
        store.add_rows(place, rows.rows_of(run))
    if compact:
        store.compact(place)
    return Reader(place)


def run_with(number: int, *samples: Sequence[float], outcome: str = "passed", **changes: Any) -> Run:
    """A run of one test with these samples, one list a repeat, each after one of warm-up."""
    records = [
        make_record(f"{TEST}[0]", outcome, repeat=k, metrics=(Metric("step_s", "s", (99.0, *own), 1),))
        for k, own in enumerate(samples, 1)
    ]
    return replace(make_run(number, **changes), records=tuple(records))


samples = st.lists(
    st.lists(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=4), min_size=1, max_size=3),
    min_size=1,
    max_size=6,
)


@settings(max_examples=15)
@given(every=samples, compacted=st.integers(0, 6), last=st.integers(1, 7))
def test_values_are_medians_of_medians(
    every: list[list[list[float]]], compacted: int, last: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A run's value is the median of its repeats' medians without warm-up, the last runs in the order of time, compacted or
    not."""
    place = Place(str(tmp_path_factory.mktemp("store")))
    runs = [run_with(n, *own) for n, own in enumerate(every)]
    put(place, *runs[:compacted], compact=True)
    reader = put(place, *runs[compacted:])
    (series,) = reader.series("step_s", last=last)
    medians = [tuple(map(statistics.median, own)) for own in every]
    assert [p.repeats for p in series.points] == medians[-last:]
    assert [p.value for p in series.points] == [statistics.median(m) for m in medians[-last:]]
    flat = [(f"run{n}", k, v) for n, own in enumerate(medians) for k, v in enumerate(own, 1)]
    assert reader.latest("step_s", f"{TEST}[0]", "cpu-x86_64-1", values=last) == flat[::-1][:last]


def test_latest_goes_back_when_the_newest_runs_lack_the_metric(tmp_path: Path) -> None:
    """The latest values are found also when newer runs have none of them."""
    old = [run_with(n, [float(n)]) for n in range(3)]
    new = [replace(make_run(n), records=(make_record("suites/a/b.py::c"),)) for n in range(3, 20)]
    reader = put(Place(str(tmp_path)), *old, *new, compact=True)
    assert reader.latest("step_s", f"{TEST}[0]", "cpu-x86_64-1", values=3) == [
        ("run2", 1, 2.0),
        ("run1", 1, 1.0),
        ("run0", 1, 0.0),
    ]


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {"runner": {"emulated": True}},
        {"runner": {"emulated": True, "stand_in": True}},
        {"runner": {"device_count": 2}},
        {"configuration": {"seed": 2}},
        {"target": {"name": "reference"}},
        {"target": {"patches": ("decoder-fix",)}},
    ],
)
def test_what_may_not_be_compared_stands_apart(
    changes: dict[str, Any], compact: bool, tmp_path: Path
) -> None:
    """Emulated and measured runs, and other machines, configurations, targets and patches, are never in one series."""
    reader = put(
        Place(str(tmp_path)),
        run_with(1, [1.0]),
        run_with(2, [2.0], **changes),
        run_with(3, [3.0]),
        compact=compact,
    )
    found = sorted([p.value for p in s.points] for s in reader.series("step_s"))
    assert found == [[1.0, 3.0], [2.0]]


def test_what_failed_or_has_a_defect_is_left_out(tmp_path: Path) -> None:
    """Values of tests that failed never count, those of a planted defect only when asked for; one that is not finite is
    told as none."""
    runs = [
        run_with(1, [1.0]),
        run_with(2, [2.0], outcome="failed"),
        run_with(3, [3.0], defect="slow"),
        run_with(4, [4.0], [math.inf]),
    ]
    reader = put(Place(str(tmp_path)), *runs)
    assert [(p.run_id, p.value) for p in reader.series("step_s")[0].points] == [("run1", 1.0), ("run4", None)]
    points = reader.series("step_s", defects=True)[0].points
    assert [(p.run_id, p.defect) for p in points] == [("run1", None), ("run3", "slow"), ("run4", None)]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, "[a]|[a_]|[ab]|[a%]"),
        (f"{TEST}[a]", "[a]"),
        ("[a", "[a]|[a_]|[ab]|[a%]"),
        ("[a_", "[a_]"),
        ("[a%", "[a%]"),
        ("*[a?]", "[a_]|[ab]|[a%]"),
        ("*::test_step[ab]", "[ab]"),
        ("step", "[a]|[a_]|[ab]|[a%]"),
        ("step?", ""),
        ("' OR true --", ""),
    ],
)
def test_patterns_of_tests(pattern: str | None, found: str, tmp_path: Path) -> None:
    """A whole id is that test; else a part of one; `*` and `?` are wildcards, and nothing else is."""
    metrics = (Metric("step_s", "s", (1.0,)),)
    records = [make_record(f"{TEST}{end}", metrics=metrics) for end in ("[a]", "[a_]", "[ab]", "[a%]")]
    reader = put(Place(str(tmp_path)), replace(make_run(1), records=tuple(records)))
    tests = {s.test.removeprefix(TEST) for s in reader.series("step_s", test=pattern)}
    assert tests == set(filter(None, found.split("|")))


def test_an_empty_store_says_how_to_fill_it(tmp_path: Path) -> None:
    """A place without runs is an error that names the command."""
    with pytest.raises(StoreError, match="holds no run; put one in with `harness history add RUN"):
        query.read(str(tmp_path / "nothing"))


def test_runs_of_one_id_are_told(tmp_path: Path) -> None:
    """When a killed writer left a second run under an id, the first is read and the file of the other is named."""
    here, there = Place(str(tmp_path / "a")), Place(str(tmp_path / "b"))
    put(here, run_with(1, [1.0]))
    put(there, run_with(1, [2.0]))
    for file in (tmp_path / "b").rglob("*.parquet"):
        file.rename(tmp_path / "a" / file.relative_to(tmp_path / "b"))
    reader = Reader(here)
    (point,) = reader.series("step_s")[0].points
    (problem,) = reader.problems
    other = next(p for p in (tmp_path / "a").rglob("*.parquet") if p.name in problem)
    other.unlink()
    assert Reader(here).problems == ()
    assert Reader(here).series("step_s")[0].points == (point,)


@pytest.fixture
def stepped(tmp_path: Path) -> tuple[Path, Callable[..., int]]:
    """A store of 40 runs of which the last 12 are 4 % slower, and the command on it."""
    draw = random.Random(1)
    place = tmp_path / "store"
    for number in range(40):
        level = 0.2 * (1.04 if number >= 28 else 1)
        own = [[level * math.exp(draw.gauss(0, 0.005)) for _ in range(5)] for _ in range(3)]
        folder = write_folder(
            tmp_path / "runs", run_with(number, *own, target={"commit": f"{number:02}" * 20})
        )
        assert cli.main(["history", "add", str(folder), "--store", str(place)]) == 0
    return place, lambda *given: cli.main(["history", *given, "--store", str(place)])


def test_the_command_shows_the_step(
    stepped: tuple[Path, Callable[..., int]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A planted step is told with its run, date, both commits and ratio; JSON and CSV hold the same numbers."""
    _, command = stepped
    capsys.readouterr()
    assert command("step_s") == 0
    text = capsys.readouterr().out
    assert re.search(
        r"change of \+[34]\.\d% at 2027-01-02 04:00, run run28, commit 2727272727 -> 2828282828 ", text
    )
    assert text.count("\n>") == 1
    assert "⠂" in text or "⠄" in text
    assert "tail: the last runs are like those before" in text
    assert command("compact") == 0
    capsys.readouterr()
    assert command("step_s", "--format", "json") == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    (change,) = series["changes"]
    assert (change["run_before"], change["run_id"]) == ("run27", "run28")
    assert (change["commit_before"], change["commit"]) == ("27" * 20, "28" * 20)
    assert change["started"] == "2027-01-02T04:00:00+00:00"
    assert 1.03 < change["ratio"] < 1.05
    assert [len(r["repeats"]) for r in series["runs"]] == [3] * 40
    assert command("step_s", "--format", "csv") == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(line["median"]) for line in lines] == [r["median"] for r in series["runs"]]
    assert [line["run_id"] for line in lines if line["change"] == "1"] == ["run28"]
    assert command("step_s", "--last", "30", "--format", "json") == 0
    (fewer,) = json.loads(capsys.readouterr().out)["series"]
    assert fewer["runs"] == series["runs"][-30:]


def test_the_last_runs_alone_are_seen(
    stepped: tuple[Path, Callable[..., int]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two runs after a new step, too few for a segment, are told by the tail test."""
    _, command = stepped
    for number in (40, 41):
        folder = write_folder(tmp_path / "more", run_with(number, [0.19, 0.19], [0.1901, 0.19], [0.1902]))
        assert command("add", str(folder)) == 0
    capsys.readouterr()
    assert command("step_s", "--format", "json") == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert [c["run_id"] for c in series["changes"]] == ["run28"]
    assert series["tail"]["changed"] is True
    assert series["tail"]["points"] == 2
    assert series["tail"]["change"] < -0.07


def test_the_command_lists_and_says_what_is_wrong(
    stepped: tuple[Path, Callable[..., int]], capsys: pytest.CaptureFixture[str]
) -> None:
    """`list` names the metrics; a name that is not there, and words in the wrong place, are one line and status 2."""
    place, command = stepped
    capsys.readouterr()
    assert command("list") == 0
    out, err = capsys.readouterr()
    assert out.split("\n")[1].split() == [
        "step_s",
        "s",
        "cpu-x86_64-1",
        "vitra",
        "1",
        "40",
        "2027-01-02",
        "15:00",
    ]
    assert err == f"40 runs in {place}\n"
    for given_words, message in {
        ("stepp_s",): "no such metric .* for example: step_s",
        ("step_s", "--runner", "nobody"): r"it is there on cpu-x86_64-1\)",
        ("step_s", "--last", "0"): "--last 0: a number of runs",
        ("step_s", "run"): "only `harness history add` takes runs",
        ("add",): "name the folders",
        ("add", "nowhere"): "name the folder of a run",
    }.items():
        assert command(*given_words) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(err)


def test_emulated_runs_are_named_so() -> None:
    """The text of an emulated series says that it is emulated, and a stand-in's that it is one."""
    series = query.Series("k", True, False, "c", "t", "[]", "s", "x", "m", "s", ())
    assert "k, emulated, t" in words.render_terminal(words.tell([series]))
    assert "emulated by a stand-in" in words.render_terminal(words.tell([replace(series, stand_in=True)]))
