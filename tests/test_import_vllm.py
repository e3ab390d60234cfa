"""Results of vLLM's serving benchmark become runs: of every layout, with their own samples, and nothing of what they lack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings

import vllm_made
from harness import ROOT, cli, rundir
from harness.exchange import vllm_bench
from harness.exchange.imported import Imported, ImportFault
from harness.exchange.vllm_bench import Told
from harness.records import Run

FILE = Path("served.json")
DEVICES = ("--runner", "rocm", "--device", "gfx942", "--devices", "8")
SUMMARIES = ("2025", "2025-serve", "2026")


def read(*values: Any, told: Told = Told()) -> Imported:  # noqa: B008 - frozen
    """The objects of one file, read."""
    return vllm_bench.read([(FILE, values)], told)


def metrics(found: Imported) -> dict[str, tuple[float, ...]]:
    """The samples of the only record, by metric."""
    (record,) = found.records
    return {m.name: m.samples for m in record.metrics}


def run(folder: Path, *words: str | Path, values: Any = None) -> tuple[int, Run | None]:
    """Imports a file of these values by the command: status, and the run that was made."""
    path = folder / "served.json"
    path.write_text("\n".join(json.dumps(v) for v in (values or [vllm_made.make()])), encoding="utf-8")
    words = ("import", "vllm-bench", path, "--into", folder / "runs", *words)
    status = cli.main(list(map(str, words)))
    made = sorted((folder / "runs").glob("*")) if (folder / "runs").is_dir() else []
    return status, rundir.load(made[-1]) if made else None


@pytest.mark.parametrize("layout", vllm_made.LAYOUTS)
def test_every_layout_becomes_a_run(layout: str, tmp_path: Path) -> None:
    """A file of each layout becomes a run that can be loaded and fits the schema, and says from where it was imported."""
    value = vllm_made.make(layout)
    status, made = run(tmp_path, *DEVICES, values=[value])
    assert status == 0
    assert made is not None
    assert made.problems == ()
    assert made.header.runner.key == "rocm-gfx942-8"
    assert made.header.configuration["imported_from"] == "vllm-bench"
    assert made.header.started == "2026-01-31T12:00:00+00:00"
    assert made.header.finished is not None
    (record,) = made.records
    served = next(m for m in record.metrics if m.name == "serve_s")
    assert served.samples == (20.0,)
    assert served.work == {
        "requests": 200,
        "input_tokens": 25600,
        "output_tokens": 3200,
        "tokens": 28800,
        "devices": 8,
    }
    schema = json.loads((ROOT / "docs" / "run.schema.json").read_text())
    (folder,) = (tmp_path / "runs").iterdir()
    jsonschema.validate(json.loads((folder / "run.json").read_text()), schema)


@pytest.mark.parametrize("layout", ["2024", "2025-detailed", "2026-detailed"])
def test_single_requests_are_samples(layout: str) -> None:
    """Where the file has the times of single requests they are the samples, and no summary of them is kept beside."""
    value = vllm_made.make(layout)
    found = metrics(read(value))
    assert found["ttft_s"] == tuple(value["ttfts"])
    assert found["itl_s"] == tuple(v for own in value["itls"] for v in own)
    assert not any(name.endswith(("_ttft_ms", "_itl_ms")) for name in found)
    assert found["p99_tpot_ms"] == (value["p99_tpot_ms"],)


@pytest.mark.parametrize("layout", SUMMARIES)
def test_summaries_keep_their_names(layout: str) -> None:
    """Without single times every statistic is kept under its own name: a mean stays a mean, a percentile a percentile."""
    value = vllm_made.make(layout)
    found = metrics(read(value))
    for quantity in ("ttft", "tpot", "itl"):
        for statistic in ("mean", "median", "std", "p95", "p99"):
            key = f"{statistic}_{quantity}_ms"
            assert found[key] == (value[key],), key
    assert "ttft_s" not in found


def test_the_exchanged_mean_of_2024_is_left_out() -> None:
    """The layout of 2024 has mean and median of e2el in each other's place: neither is taken, and that is told."""
    found = read(vllm_made.make("2024"))
    assert {"mean_e2el_ms", "median_e2el_ms"}.isdisjoint(metrics(found))
    assert metrics(found)["p99_e2el_ms"] == (vllm_made.make("2024")["p99_e2el_ms"],)
    assert any("exchanged them" in note for note in found.notes)
    assert metrics(read(vllm_made.make("2025")))["median_e2el_ms"] == (
        vllm_made.make("2025")["median_e2el_ms"],
    )


@pytest.mark.parametrize("layout", ["2024", "2025", "2025-detailed", "2026", "2026-detailed"])
def test_failed_requests_are_never_green(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests without an answer make the record a failure, whether the file counts them or not; their zeros are no
    samples."""
    value = vllm_made.make(layout, failed=3)
    status, made = run(tmp_path, values=[value])
    assert status == 0
    assert made is not None
    (record,) = made.records
    assert record.outcome == "failed"
    assert record.reason == "3 of 200 requests gave no answer"
    assert "3 of 200 requests gave no answer: the run is not green" in capsys.readouterr().err
    taken = {m.name: m.samples for m in record.metrics}
    if "ttft_s" in taken:
        assert len(taken["ttft_s"]) == 197
        assert min(taken["ttft_s"]) > 0.05
        assert max(taken["ttft_s"]) < 9
        assert len(taken["itl_s"]) == 197 * 15
        assert record.detail is not None
        assert "TimeoutError: 0" in record.detail
    if "e2el_s" in taken:
        assert min(taken["e2el_s"]) > 0.05
    assert cli.main(["report", str(next((tmp_path / "runs").iterdir()))]) == 1


def test_fewer_answers_than_prompts_are_a_failure() -> None:
    """Answers that are missing without a count of failures are as bad."""
    assert read(vllm_made.make("2025", completed=199)).records[0].outcome == "failed"


def test_pooling_models_have_no_output_tokens() -> None:
    """A result without output tokens is taken, and none are invented."""
    value = vllm_made.make("2026", tokenizer_id=None)
    for key in ("total_output_tokens", "output_throughput", "failed"):
        del value[key]
    (record,) = read(value).records
    assert record.metrics[0].work == {"requests": 200.0, "input_tokens": 25600.0}


def test_zeros_are_unknown() -> None:
    """A back end that does not stream has a first token after 0 ms: that is unknown."""
    value = vllm_made.make(
        "2025", **{f"{s}_ttft_ms": 0.0 for s in ("mean", "median", "std", "p50", "p95", "p99")}
    )
    assert not any("ttft" in name for name in metrics(read(value)) if not name.startswith("std"))
    streams = vllm_made.make("2026-detailed", ttfts=[0.0] * 200)
    assert "ttft_s" not in metrics(read(streams))


def test_repeats_are_objects_of_one_workload(tmp_path: Path) -> None:
    """Several objects of one workload, appended in one file, are fresh processes of one test, in the order they began; another
    rate is another test."""
    values = [vllm_made.make(seed=n, duration=20.0 + n, date=f"20260131-12000{n}") for n in (1, 0, 2)]
    slow = vllm_made.make(request_rate=4.0)
    status, made = run(tmp_path, *DEVICES, values=[*values, slow])
    assert status == 0
    assert made is not None
    assert made.header.repeats == 3
    tests = made.each_by_test
    assert [len(r) for r in tests.values()] == [3, 1]
    repeated, single = tests.values()
    assert [r.repeat for r in repeated] == [1, 2, 3]
    assert [r.metrics[0].samples for r in repeated] == [(20.0,), (21.0,), (22.0,)]
    assert single[0].repeat is None
    assert set(made.header.configuration["workloads"]) == set(tests)
    assert "rate-4.0-" in single[0].test


def test_files_of_one_call_are_one_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files named together become one run, made once; told otherwise of its devices it is another one."""
    paths = []
    for n in range(3):
        paths.append(str(tmp_path / f"{n}.json"))
        Path(paths[-1]).write_text(json.dumps(vllm_made.make(seed=n, duration=20.0 + n)))
    words = ["import", "vllm-bench", *paths, "--into", str(tmp_path / "runs")]
    assert cli.main([*words, *DEVICES]) == 0
    assert cli.main([*words, *DEVICES]) == 0
    assert "there already" in capsys.readouterr().out
    assert cli.main([*words, "--runner", "rocm", "--device", "gfx950", "--devices", "8"]) == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2
    assert cli.main([*words[:2], paths[0], *words[2:]]) == 2
    assert "the same as a file before" in capsys.readouterr().err


def test_unknown_devices_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --devices the run is made, holds no number of devices, and both lacks are told."""
    status, made = run(tmp_path)
    assert status == 0
    assert made is not None
    assert "devices" not in made.records[0].metrics[0].work
    assert made.header.machine["devices_told"] is False
    assert made.header.runner.key == "imported-unknown-1"
    err = capsys.readouterr().err
    assert "import with --devices N" in err
    assert "no version of the tool names its data set" in err


def test_emulated_runners_stay_emulated(tmp_path: Path) -> None:
    """What is said to come from the emulated runner is emulated."""
    _, made = run(tmp_path, "--runner", "mirage")
    assert made is not None
    assert made.header.runner.emulated


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["import", "vllm-bench"], "vllm-bench: no file"),
        (["import", "vllm-bench", "absent.json"], "absent.json: No such file"),
        (["import", "FILE"], "of vLLM's serving benchmark; write vllm-bench before its files"),
        (["import", "vllm-bench", "FILE", "--devices", "0"], "--devices 0: write how many"),
        (["import", "vllm-bench", "FILE", "--device", "a b"], "--device 'a b': write letters"),
        (["import", "PYTEST", "--devices", "2"], "are for vllm-bench"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake in the call is one line with its remedy and status 2, and nothing is made."""
    path = tmp_path / "served.json"
    path.write_text(json.dumps(vllm_made.make()))
    other = ROOT / "tests" / "data" / "exchange" / "pytest-benchmark-5.3.1.json"
    named = [{"FILE": str(path), "PYTEST": str(other)}.get(w, w) for w in words]
    assert cli.main([*named, "--into", str(tmp_path / "runs")]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"duration": 0}, "duration must be above 0"),
        ({"duration": "20"}, "duration must be a number, not '20'"),
        ({"duration": float("nan")}, "duration must be a number from 0 up, not nan"),
        ({"completed": 1.5}, "completed must be a whole number from 0 up, not 1.5"),
        ({"completed": -1}, "completed must be a number|completed must be a whole number from 0 up"),
        ({"completed": 201}, "completed is 201 and failed 0, of num_prompts 200"),
        ({"failed": 1}, "completed is 200 and failed 1"),
        ({"total_input_tokens": None}, "total_input_tokens must be a number, not None"),
        ({"date": "yesterday"}, "date 'yesterday' is no time"),
        ({"model_id": 3}, "model_id must be text, not 3"),
        ({"request_rate": "fast"}, "request_rate must be a number, not 'fast'"),
        ({"request_rate": 0}, "request_rate must be above 0"),
        ({"max_concurrency": "all"}, "max_concurrency must be a number"),
        ({"p99_itl_ms": "x"}, "p99_itl_ms must be a number, not 'x'"),
        ({"p99_itl_ms": -1.0}, "p99_itl_ms must be a number from 0 up"),
        ({"p99_itl_ms": 0.1}, r"p99_itl_ms is 0.1, below p95_itl_ms [\d.]+; the file is damaged"),
        ({"p101_itl_ms": 99.0}, "p101_itl_ms: no percentile is above 100"),
        ({"ttfts": [0.1]}, "lists of single requests have different lengths"),
        ({"latencies": [0.1] * 199 + ["x"]}, r"latencies\[199\] must be a number, not 'x'"),
        ({"itls": [3] * 200}, r"itls\[0\] must be a list, not 3"),
        ({"errors": "none"}, "errors must be a list"),
    ],
)
def test_bad_files_name_the_key(changes: dict[str, Any], message: str) -> None:
    """A value that cannot be is refused in one line that names the file and the key."""
    value = {**vllm_made.make("2026"), **changes}
    with pytest.raises(ImportFault, match=message) as caught:
        read(value)
    assert str(caught.value).startswith("served.json: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "key", ["model_id", "num_prompts", "duration", "completed", "total_input_tokens", "date"]
)
def test_missing_keys_are_named(key: str) -> None:
    """What every version writes must be there."""
    value = vllm_made.make()
    del value[key]
    with pytest.raises(ImportFault, match=f"served.json: {key} is missing"):
        read(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "line 1: Expecting property name"),
        (b'{"a": 1}\n{"b"', "line 2: "),
        (b"\xff\xfe\x00", "no text"),
        (b"", "is empty"),
        (b"[" * 100_000, "nested too deep|line 1"),
    ],
)
def test_damaged_files_are_named(data: bytes, message: str) -> None:
    """What is no JSON is refused with the line, also in the second object of a file."""
    with pytest.raises(ImportFault, match=message):
        vllm_bench.read_objects(data, FILE)


def test_the_same_object_counts_once() -> None:
    """An object that stands in a file twice would be two processes: refused."""
    with pytest.raises(ImportFault, match="object 2: the same as one before it"):
        read(vllm_made.make(), vllm_made.make())


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"burstiness": 0.5}, "burstiness"), ({"total_input_tokens": 90_000}, "total_input_tokens")],
)
def test_repeats_of_other_requests_are_refused(changes: dict[str, Any], key: str) -> None:
    """Objects under one name that asked something else are no repeats."""
    with pytest.raises(ImportFault, match=f"object 2: {key} is"):
        read(vllm_made.make(seed=1), vllm_made.make(seed=2, **changes))


def test_a_mean_is_no_percentile() -> None:
    """A percentile that is the mean to the last digit is left out and told; the true one is kept."""
    value = vllm_made.make("2025")
    value["p95_ttft_ms"] = value["mean_ttft_ms"]
    found = read(value)
    assert "p95_ttft_ms" not in metrics(found)
    assert "p99_ttft_ms" in metrics(found)
    assert any("p95_ttft_ms left out: it is the mean" in note for note in found.notes)


def test_summaries_are_held_against_samples() -> None:
    """A summary that the file's own samples contradict is told, and the samples are used."""
    value = vllm_made.make("2026-detailed")
    value["p95_itl_ms"] = value["mean_itl_ms"]
    found = read(value)
    assert any("p95_itl_ms is" in n and "its own samples give" in n for n in found.notes)
    assert not any("median_itl_ms" in n for n in found.notes)
    assert float(np.percentile(metrics(found)["itl_s"], 95)) > value["mean_itl_ms"] / 1000


def test_throughputs_are_held_against_tokens() -> None:
    """A throughput that the file's own tokens and duration contradict is told."""
    assert any("output_throughput is 1" in n for n in read(vllm_made.make(output_throughput=1.0)).notes)
    assert not any("throughput" in n for n in read(vllm_made.make()).notes)


def fault(value: Any) -> str | None:
    """What the reader says is wrong with a value; None when it made one record of it."""
    try:
        found = read(value)
    except ImportFault as error:
        return str(error)
    return None if len(found.records) == 1 else "no record"


leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
anything = st.recursive(
    leaves, lambda c: st.lists(c, max_size=3) | st.dictionaries(st.text(max_size=5), c, max_size=3)
)


@settings(max_examples=150)
@given(data=st.data(), layout=st.sampled_from(vllm_made.LAYOUTS), wrong=anything)
def test_any_damage_is_a_run_or_a_line(data: st.DataObject, layout: str, wrong: Any) -> None:
    """Whatever value stands at any key, the file is read or refused in one line that names it."""
    value = vllm_made.make(layout, requests=4)
    value[data.draw(st.sampled_from(sorted(value)))] = wrong
    said = fault(value)
    assert said is None or (said.startswith("served.json: ") and "\n" not in said)


@given(anything)
def test_any_json_is_a_run_or_a_line(value: Any) -> None:
    """Any other JSON is refused."""
    with pytest.raises(ImportFault):
        read(value)
