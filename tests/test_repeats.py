"""Repeated tests run in fresh processes of their own, and a repeat that gave nothing is told."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import runs
from harness.judge import judge

HEAD = """
import os, signal, pathlib
import pytest
HERE = pathlib.Path(__file__).parent
def test_control(): pass
def test_once(record): record.metric("pid", "1", [os.getpid()])
def place():
    "How many processes called this before the one that calls it."
    before = len(list(HERE.glob("*.seen")))
    (HERE / f"{before}.seen").touch()
    return before
"""


def verdicts(done: runs.Done) -> dict[str, str]:
    found = judge(done.run, None, today=date(2026, 12, 1))
    return {t.test.partition("::")[2]: t.verdict for t in found.tests}


@pytest.mark.parametrize("parallel", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_each_repeat_is_a_fresh_process(parallel: tuple[str, ...], tmp_path: Path) -> None:
    """A repeated test runs as often as asked, each time in another process and never in a worker."""
    text = """
@pytest.mark.repeated
@pytest.mark.parametrize("n", [1, 2])
def test_many(record, n):
    assert not os.environ.get("PYTEST_XDIST_WORKER")
    record.metric("pid", "1", [os.getpid()])
"""
    done = runs.made_up(tmp_path, HEAD + text, "--repeat", "3", *parallel)
    assert done.status == 0, done.output
    run = done.run
    assert run.header.repeats == 3
    pids: dict[int | None, set[float]] = {}
    for record in run.records:
        for metric in record.metrics:
            pids.setdefault(record.repeat, set()).update(metric.samples)
    assert set(pids) == {None, 1, 2, 3}
    assert all(len(p) == 1 for p in pids.values()), "the tests of one repeat share its process"
    assert len(set().union(*pids.values())) == 4
    counts = [sum(r.test.endswith(f"test_many[{n}]") for r in run.records) for n in (1, 2)]
    assert counts == [3, 3]
    assert sum(r.test.endswith("test_once") for r in run.records) == 1
    assert verdicts(done) == dict.fromkeys(
        ["test_control", "test_once", "test_many[1]", "test_many[2]"], "new"
    )
    assert "process 3 of 3" in done.output
    assert "3 fresh processes of repeated tests passed in" in done.output


def test_the_last_line_tells_of_repeats(tmp_path: Path) -> None:
    """pytest's last line counts the processes by how they ended, also where nothing else ran."""
    text = """
@pytest.mark.repeated
def test_first_is_bad(record):
    record.metric("x", "s", [1.0])
    assert place() > 0
"""
    head = HEAD.replace("def test_once(", "def not_a_test(").replace(
        "def test_control(", "def no_test_either("
    )
    done = runs.made_up(tmp_path, head + text, "--repeat", "3")
    assert done.status == 1
    assert "no tests ran" not in done.output
    assert "1 fresh process of repeated tests not passed" in done.output
    assert "2 fresh processes of repeated tests passed in" in done.output


def test_a_repeat_that_died_is_lost(tmp_path: Path) -> None:
    """What a killed process had finished stays; a test that it did not finish is lost although others passed it."""
    text = """
@pytest.mark.repeated
def test_before(record): record.metric("x", "s", [1.0])
@pytest.mark.repeated
def test_dies(record):
    if place() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    record.metric("x", "s", [1.0])
"""
    done = runs.made_up(tmp_path, HEAD + text, "--repeat", "3")
    assert done.status == 1
    assert "process 2 of 3" in done.output
    assert "ended with status -9: see logs/repeat-2.log" in done.output
    assert sorted(r.repeat or 0 for r in done.run.records if r.test.endswith("test_dies")) == [1, 3]
    assert sorted(r.repeat or 0 for r in done.run.records if r.test.endswith("test_before")) == [1, 2, 3]
    assert verdicts(done)["test_dies"] == "lost"
    assert verdicts(done)["test_before"] == "new"


def test_the_worst_repeat_counts(tmp_path: Path) -> None:
    """A test that failed in one of its processes failed, whatever the others say."""
    text = """
@pytest.mark.repeated
def test_one_bad(record):
    record.metric("x", "s", [1.0])
    if place() == 1:
        record.fail("wrong_batch", "one of two", "")
"""
    done = runs.made_up(tmp_path, HEAD + text, "--repeat", "3")
    assert done.status == 1
    assert verdicts(done)["test_one_bad"] == "failing"


def test_no_result_is_an_error(tmp_path: Path) -> None:
    """A repeated test that passes and keeps no metric, or one twice, is an error: no value a process."""
    twice = """
@pytest.mark.repeated
def test_twice(record):
    for _ in range(2):
        record.metric("x", "s", [1.0])
"""
    done = runs.made_up(tmp_path, HEAD + "@pytest.mark.repeated\ndef test_empty(): pass\n" + twice)
    assert verdicts(done)["test_twice"] == "error"
    (record,) = [r for r in done.run.records if r.test.endswith("test_empty")]
    assert (record.outcome, record.kind, record.reason) == (
        "error",
        "harness",
        "passed, and kept no result",
    )
    assert verdicts(done)["test_empty"] == "error"


MEASURE = """
CALLS = []
@pytest.mark.repeated
def test_timed(measure, machine, record, monkeypatch):
    monkeypatch.setattr(type(machine.runner), "synchronize", lambda self: CALLS.append("end"))
    found = measure("call_s", lambda: CALLS.append("call"), rounds=5, warmup=2, work={"frames": 3})
    assert CALLS == ["call", "end"] * 7
    assert len(found) == 7
"""


def test_measure_keeps_raw_seconds(tmp_path: Path) -> None:
    """Warm-up and rounds are kept apart, each call is waited for on the device, and an outer option that switches
    timing off does not reach in."""
    done = runs.made_up(
        tmp_path, HEAD + MEASURE, variables={"PYTEST_ADDOPTS": "--benchmark-disable -p no:randomly"}
    )
    assert done.status == 0, done.output
    (record,) = [r for r in done.run.records if r.test.endswith("test_timed")]
    (metric,) = record.metrics
    assert (metric.name, metric.unit, metric.warmup, metric.work) == ("call_s", "s", 2, {"frames": 3.0})
    assert len(metric.samples) == 7
    assert min(metric.samples) > 0


def test_timing_switched_off_is_no_pass(tmp_path: Path) -> None:
    """Where pytest-benchmark takes no samples the test is an error, not a pass without figures."""
    (tmp_path / "conftest.py").write_text(
        "import pytest\n@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_configure(config): config.option.benchmark_disable = True\n"
    )
    done = runs.made_up(tmp_path, HEAD + MEASURE.replace("    assert", "    #"))
    (record,) = [r for r in done.run.records if r.test.endswith("test_timed")]
    assert record.outcome == "error"
    assert "switched off" in (record.detail or "")


def test_target_is_for_repeated_tests_only(tmp_path: Path) -> None:
    """Other tests ask a child: the target in their own process would outlive them."""
    text = """
def test_asks_for_it(target): pass
@pytest.mark.repeated
def test_has_it(target, record): record.metric("x", "1", [1.0])
"""
    done = runs.made_up(tmp_path, HEAD + text)
    got = {r.test.partition("::")[2]: r for r in done.run.records}
    assert got["test_has_it"].outcome == "passed"
    assert got["test_asks_for_it"].outcome == "error"
    assert "use the fixture ask" in (got["test_asks_for_it"].detail or "")


@pytest.mark.parametrize("count", ["0", "-1"])
def test_a_number_of_repeats_below_one_is_refused(count: str, tmp_path: Path) -> None:
    """Nothing would be measured: one line says so."""
    done = runs.made_up(tmp_path, HEAD, "--repeat", count)
    assert done.status == 4
    assert f"--repeat {count}" in done.output
    assert not (tmp_path / "run" / "run.json").exists()
