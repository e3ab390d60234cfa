"""Results of other tools become runs, and runs their files: by their own samples and, for the way back, their own programs."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import given, settings
from pytest_benchmark.stats import Stats

from builders import make_header, make_record
from harness import ROOT, cli, rundir
from harness.errors import HarnessError
from harness.exchange import asv, bencher, pytest_benchmark
from harness.exchange.imported import ImportFault
from harness.exchange.values import Measured, measured
from harness.records import Metric, Run
from history_runs import write_folder

DATA = Path(__file__).parent / "data" / "exchange"
BENCHMARKS = sorted(DATA.glob("pytest-benchmark-*.json"))
ASV_NEW = next((DATA / "asv" / "box").glob("*-existing-*.json"))
ASV_OLD = next((DATA / "asv" / "old").glob("*.json"))
BMF_SCHEMA = {
    # As documented at https://bencher.dev/docs/reference/bencher-metric-format/.
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {n: {"type": "number"} for n in ("value", "lower_value", "upper_value")},
                    "required": ["value"],
                }
            },
        }
    },
}


def load(path: Path) -> Any:
    """The JSON value of a sample."""
    return json.loads(path.read_text())


def do(*given_words: str | Path) -> int:
    """Exit status of the harness command."""
    return cli.main(list(map(str, given_words)))


def test_samples_of_every_layout_are_there() -> None:
    """There is a sample of each layout that pytest-benchmark has had."""
    versions = {load(p)["version"] for p in BENCHMARKS}
    assert versions == {"3.0.0", "3.1.1", "3.2.3", "3.4.1", "4.0.0", "5.3.1"}
    assert any("data" not in b["stats"] for p in BENCHMARKS for b in load(p)["benchmarks"])


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda p: p.stem)
def test_pytest_benchmark_becomes_a_run(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of any version becomes a run that can be loaded: raw rounds, or the median where there are none, said so."""
    assert do("import", path, "--into", tmp_path) == 0
    err = capsys.readouterr().err
    (folder,) = tmp_path.iterdir()
    run, value = rundir.load(folder), load(path)
    assert run.problems == ()
    header = run.header
    assert header.target.name == value["commit_info"].get("project", "imported")
    assert header.target.commit == value["commit_info"]["id"]
    assert header.runner.key == "imported-x86_64-1"
    assert header.started[:19] == value["datetime"][:19]
    assert header.software["pytest-benchmark"] == value["version"]
    assert header.finished is not None
    assert set(header.planned or ()) == {b["fullname"] for b in value["benchmarks"]}
    for benchmark in value["benchmarks"]:
        (metric,) = run.by_test()[benchmark["fullname"]].metrics
        stats = benchmark["stats"]
        assert metric == Metric("time_s", "s", tuple(stats.get("data", [stats["median"]])))
        assert statistics.median(metric.samples) == pytest.approx(stats["median"])
    assert ("their median stands for them" in err) is ("data" not in value["benchmarks"][0]["stats"])
    schema = load(ROOT / "docs" / "run.schema.json")
    jsonschema.validate(load(folder / "run.json"), schema)


def test_asv_of_the_new_form_becomes_a_run(tmp_path: Path) -> None:
    """Form 2: a test a combination, its samples, units from benchmarks.json, failures and skips as such."""
    assert do("import", ASV_NEW, "--into", tmp_path, "--project", "my proj") == 0
    (folder,) = tmp_path.iterdir()
    run, value = rundir.load(folder), load(ASV_NEW)
    assert run.header.target.name == "my-proj"
    assert run.header.target.commit == value["commit_hash"]
    tests = run.by_test()
    (metric,) = tests["b.Suite.time_sum(1000, 'b')"].metrics
    assert metric == Metric("time_s", "s", tuple(value["results"]["b.Suite.time_sum"][11][3]))
    assert tests["b.peakmem_list"].metrics == (Metric("memory_bytes", "bytes", (27959296.0,)),)
    assert tests["b.Suite.track_len(1000, 'a')"].metrics == (Metric("value", "unit", (1000.0,)),)
    assert tests["b.Suite.track_len(10, 'b')"].outcome == "skipped"
    assert tests["b.time_fails"].outcome == "failed"
    assert len(tests) == 11


def test_asv_of_the_old_form_becomes_a_run(tmp_path: Path) -> None:
    """Form 1: objects, bare results and bare numbers; time is told from the name where no benchmarks.json tells."""
    value = load(ASV_OLD)
    found = asv.read(value, ASV_OLD, {})
    tests = {r.test: r for r in found.records}
    (metric,) = tests["b.Suite.time_sum(10, 'a')"].metrics
    assert metric == Metric("time_s", "s", tuple(value["results"]["b.Suite.time_sum"]["samples"][0]))
    assert tests["b.time_sort"].metrics == (Metric("time_s", "s", (1.5e-06,)),)
    assert tests["b.peakmem_list"].metrics == (Metric("memory_bytes", "bytes", (27959296.0,)),)
    assert tests["b.time_fails"].outcome == "failed"
    assert f"{found.started:%Y-%m-%d}" == "2017-07-14"
    assert found.configuration == {"machine": "box", "environment": "virtualenv-py3.6-numpy1.13"}


def test_both_forms_of_asv_say_the_same() -> None:
    """The same results in form 1 and form 2 become the same records."""
    new = load(ASV_NEW)
    old = {k: v for k, v in new.items() if k != "result_columns"}
    fields = {
        name: dict(zip(new["result_columns"], row, strict=False)) for name, row in new["results"].items()
    }
    old["results"] = {
        name: {"result": f["result"], "params": f["params"], "samples": f.get("samples")}
        for name, f in fields.items()
    }
    old["started_at"] = {name: f["started_at"] for name, f in fields.items()}
    old["duration"] = {name: f["duration"] for name, f in fields.items()}
    assert asv.read(old, ASV_NEW, {}) == asv.read(new, ASV_NEW, {})


def test_a_folder_of_asv_is_imported_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """asv's results folder gives a run a file; imported again, nothing is made, and history holds each once."""
    words = ("import", DATA / "asv", *BENCHMARKS, "--into", tmp_path / "runs", "--store", tmp_path / "store")
    assert do(*words) == 0
    count = len(BENCHMARKS) + 2
    assert len(list((tmp_path / "runs").iterdir())) == count
    assert do(*words) == 0
    assert capsys.readouterr().out.count("there already") == count
    assert len(list((tmp_path / "runs").iterdir())) == count
    assert (
        do("history", "time_s", "--test", "test_sort", "--format", "json", "--store", tmp_path / "store") == 0
    )
    series = json.loads(capsys.readouterr().out)["series"]
    assert {p["run_id"][:8] for s in series for p in s["runs"]} >= {"20151109", "20170801"}
    assert do("report", next((tmp_path / "runs").iterdir())) in (1, 3)


def faults(value: Any, path: Path) -> str | None:
    """What the reader says is wrong with a value; None when nothing is."""
    try:
        if pytest_benchmark.is_mine(value):
            pytest_benchmark.read(value, path)
        elif asv.is_mine(value):
            asv.read(value, path, {})
    except ImportFault as fault:
        return str(fault)
    return None


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        (BENCHMARKS[0], lambda v: v.update(benchmarks=[]), "benchmarks is empty"),
        (BENCHMARKS[0], lambda v: v.update(benchmarks={}), "benchmarks must be a list, not {}"),
        (BENCHMARKS[0], lambda v: v.pop("datetime"), "datetime is missing"),
        (BENCHMARKS[0], lambda v: v.update(datetime="yesterday"), "datetime 'yesterday' is no ISO time"),
        (
            BENCHMARKS[0],
            lambda v: v["benchmarks"][1]["stats"].pop("median"),
            r"benchmarks\[1\]: stats: median is missing",
        ),
        (
            BENCHMARKS[-1],
            lambda v: v["benchmarks"][0]["stats"]["data"].insert(2, "x"),
            r"data\[2\] must be a number, not 'x'",
        ),
        (BENCHMARKS[-1], lambda v: v["benchmarks"][0].update(fullname=3), "fullname must be text, not 3"),
        (BENCHMARKS[-1], lambda v: v.update(commit_info=[]), r"commit_info must be an object, not \[\]"),
        (ASV_NEW, lambda v: v.update(results={}), "results is empty"),
        (ASV_NEW, lambda v: v["result_columns"].clear(), "but there are 0 result_columns"),
        (
            ASV_NEW,
            lambda v: v["results"]["b.Suite.time_sum"][0].pop(),
            "result has 3 values for 4 combinations",
        ),
        (
            ASV_NEW,
            lambda v: v["results"]["b.time_sort"].__setitem__(0, ["x"]),
            "result must be a number, not 'x'",
        ),
        (
            ASV_OLD,
            lambda v: v["results"]["b.Suite.time_sum"].pop("result"),
            "b.Suite.time_sum: result is missing",
        ),
        (ASV_OLD, lambda v: (v.pop("started_at"), v.update(date=1e300)), "1e.300 is no time"),
    ],
)
def test_bad_files_are_named(source: Path, change: Any, message: str) -> None:
    """A file that is not as it should be is refused in one line that names the file, the place in it and what is wrong."""
    value = load(source)
    assert faults(deepcopy(value), source) is None
    change(value)
    said = faults(value, source)
    assert said is not None
    assert said.startswith(f"{source}: ")
    assert "\n" not in said
    with pytest.raises(ImportFault, match=message):
        raise ImportFault(said)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "line 1: Expecting property name.*no JSON or damaged"),
        (b"\xff\xfe\x00", "no text|no JSON"),
        (b"[]", "neither of pytest-benchmark .benchmarks. nor of asv .results."),
        (b"[" * 100_000, "nested too deep"),
        (None, "holds no JSON file"),
    ],
)
def test_other_files_write_nothing(
    text: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One bad file among good ones: one line, status 2, and no run is made at all."""
    bad = tmp_path / "bad.json"
    bad.mkdir() if text is None else bad.write_bytes(text)
    assert do("import", BENCHMARKS[0], bad, "--into", tmp_path / "runs") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    with pytest.raises(HarnessError, match=message):
        raise HarnessError(err)
    assert not (tmp_path / "runs").exists()


leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
anything = st.recursive(
    leaves, lambda c: st.lists(c, max_size=3) | st.dictionaries(st.text(max_size=5), c, max_size=3)
)


@settings(max_examples=300)
@given(data=st.data(), source=st.sampled_from([*BENCHMARKS, ASV_NEW, ASV_OLD]), wrong=anything)
def test_any_damage_is_a_run_or_a_line(data: st.DataObject, source: Path, wrong: Any) -> None:
    """Whatever value stands anywhere in a file, it is read or refused in one line, never a traceback."""
    value = load(source)
    place, key = value, data.draw(st.sampled_from(sorted(value)))
    while isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
        place = place[key]
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
    place[key] = wrong
    said = faults(value, source)
    assert said is None or said.startswith(f"{source}: ")


def test_the_way_out_and_back_changes_nothing(tmp_path: Path) -> None:
    """A run imported, exported and imported again has the same tests and samples."""
    path = DATA / "pytest-benchmark-5.3.1.json"
    first = pytest_benchmark.read(load(path), path)
    assert do("import", path, "--into", tmp_path / "runs") == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert do("export", folder, "--format", "pytest-benchmark", "--output", tmp_path / "out.json") == 0
    again = pytest_benchmark.read(load(tmp_path / "out.json"), path)
    assert [(r.test, r.metrics) for r in again.records] == sorted((r.test, r.metrics) for r in first.records)
    assert (again.commit, again.dirty, again.project, again.started) == (
        first.commit,
        first.dirty,
        first.project,
        first.started,
    )


@given(st.lists(st.floats(1e-9, 1e6), min_size=1, max_size=30))
def test_statistics_are_those_of_pytest_benchmark(values: list[float]) -> None:
    """The statistics in an export are what pytest-benchmark's own code computes of the same rounds."""
    theirs = Stats()
    for value in values:
        theirs.update(value)
    ours, expected = pytest_benchmark._stats(values), theirs.as_dict()
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        if name in ("stddev_outliers", "iqr_outliers", "outliers", "ld15iqr", "hd15iqr"):
            continue  # a value on the very fence falls to either side by rounding
        assert ours[name] == pytest.approx(value, rel=1e-6, abs=1e-15), name


def test_outliers_are_those_of_pytest_benchmark() -> None:
    """Away from the fences outliers and the ends within them are told as pytest-benchmark tells them."""
    for values in (
        [1.0],
        [1.0, 1.1, 1.2, 1.15, 9.0],
        [5.0, 1.0, 1.1, 1.05, 1.02, 0.1, 1.04],
        [2.0, 2.0, 2.0, 7.0],
    ):
        theirs = Stats()
        for value in values:
            theirs.update(value)
        assert pytest_benchmark._stats(values) == pytest.approx(theirs.as_dict())


def timed_run(repeats: int = 2) -> Run:
    """A run with times, bytes, a failed test and one that is not finite."""
    records = []
    for k in range(1, repeats + 1):
        times = (9.0, 0.2 * k, 0.3 * k, 0.4 * k)
        metrics = (Metric("step_ms", "ms", times, 1), Metric("peak_bytes", "bytes", (7.0 * k,)))
        records.append(make_record("suites/throughput/test_a.py::test_a[x]", repeat=k, metrics=metrics))
    bad = make_record(
        "suites/throughput/test_a.py::test_b", metrics=(Metric("time_s", "s", (1.0, math.nan)),)
    )
    failed = make_record(
        "suites/throughput/test_a.py::test_c", "failed", metrics=(Metric("time_s", "s", (1.0,)),)
    )
    return Run(make_header(), (*records, bad, failed))


def test_values_of_repeats_are_medians() -> None:
    """With repeats a value is a fresh process's median, without they are the samples after warm-up; failed tests have none."""
    found = {(m.test[-7:], m.metric): m for m in measured(timed_run())}
    assert found["st_a[x]", "step_ms"].values == (0.3, 0.6)
    assert found["st_a[x]", "peak_bytes"].values == (7.0, 14.0)
    alone = replace(timed_run(1).records[0], repeat=None)
    assert measured(Run(make_header(), (alone,)))[1].values == (0.2, 0.3, 0.4)
    assert not any("test_c" in m.test for m in measured(timed_run()))


def test_pytest_benchmark_compares_our_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The real `pytest-benchmark compare` shows our export beside a file of its own, in seconds; what is no time is told."""
    folder = write_folder(tmp_path / "runs", timed_run())
    out = tmp_path / "ours.json"
    assert do("export", folder, "--format", "pytest-benchmark", "--output", out) == 0
    err = capsys.readouterr().err
    assert "peak_bytes is in bytes, and pytest-benchmark knows only seconds" in err
    assert "time_s has no value, or one that is no positive number" in err
    theirs = tmp_path / "theirs.json"
    theirs.write_text(BENCHMARKS[-1].read_text())
    program = "import sys; from pytest_benchmark.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "compare", out, theirs, "--csv", tmp_path / "table"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "test_a[x]::step_ms" in done.stdout
    lines = [line.split(",") for line in (tmp_path / "table.csv").read_text().splitlines()]
    (ours,) = [dict(zip(lines[0], line, strict=True)) for line in lines[1:] if "::step_ms" in line[0]]
    assert float(ours["median"]) == pytest.approx(0.45e-3)
    assert float(ours["rounds"]) == 2


def test_bencher_takes_our_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An export in Bencher's form fits its documented schema, with median and bounds; emulated benchmarks say so."""
    folder = write_folder(tmp_path, timed_run())
    assert do("export", folder, "--format", "bencher") == 0
    out, err = capsys.readouterr()
    value = json.loads(out)
    jsonschema.validate(value, BMF_SCHEMA)
    assert value == {
        "suites/throughput/test_a.py::test_a[x]": {
            "peak_bytes": {"value": 10.5, "lower_value": 7.0, "upper_value": 14.0},
            "step_ms": {"value": pytest.approx(0.45), "lower_value": 0.3, "upper_value": 0.6},
        }
    }
    assert "not finite" in err
    emulated = make_header(runner={"emulated": True})
    text, _ = bencher.render(emulated, measured(timed_run()))
    assert list(json.loads(text)) == ["suites/throughput/test_a.py::test_a[x] (emulated)"]


@given(
    st.lists(
        st.builds(
            Measured,
            st.text(min_size=1, max_size=3000),
            st.text(min_size=1, max_size=200),
            st.just("s"),
            st.lists(st.floats(), max_size=4).map(tuple),
            st.just("sample"),
        ),
        max_size=6,
    )
)
def test_bencher_files_always_fit_the_schema(found: Sequence[Measured]) -> None:
    """Any names and values give a file of the schema with names of the allowed lengths, or a line that says what is left."""
    text, left = bencher.render(make_header(), found)
    value = json.loads(text)
    jsonschema.validate(value, BMF_SCHEMA)
    assert sum(map(len, value.values())) + len(left) == len(found)
    assert all(len(b) <= 1024 and all(len(m) <= 64 for m in own) for b, own in value.items())


@pytest.mark.parametrize("form", ["bencher", "pytest-benchmark"])
def test_a_run_without_metrics_is_refused(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that measured nothing gives no empty file but a line that says so."""
    folder = write_folder(tmp_path, Run(make_header(), (make_record("suites/a/b.py::c"),)))
    assert do("export", folder, "--format", form, "--output", tmp_path / "out") == 2
    assert "has no metric that" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_long_names_stay_apart_in_bencher_files() -> None:
    """Names that are too long there are cut with a digest, so that two of one beginning remain two."""
    long = [Measured("t" * 2000 + end, "m" * 100 + end, "s", (1.0,), "sample") for end in "ab"]
    text, left = bencher.render(make_header(), long)
    value = json.loads(text)
    assert left == []
    assert [len(name) for name in value] == [1024, 1024]
    assert [len(measure) for own in value.values() for measure in own] == [64, 64]
