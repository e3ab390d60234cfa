"""A pytest session becomes a run folder from which nothing is lost unnoticed."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from datetime import date
from pathlib import Path

import jsonschema
import pytest

import runs
from harness import ROOT, rundir
from harness.judge import judge

TODAY = date(2026, 12, 1)
CONTROL = "def test_control(): pass\n"


def verdicts(done: runs.Done) -> dict[str, str]:
    found = judge(done.run, None, today=TODAY)
    return {t.test.partition("::")[2]: t.verdict for t in found.tests}


def exit_status(done: runs.Done) -> int:
    return judge(done.run, None, today=TODAY).exit_status


def test_outcomes_and_kinds(tmp_path: Path) -> None:
    """Pass, failure with a kind, assertion, broken test, skips and a broken fixture are told apart."""
    text = (
        CONTROL
        + """
import pytest
@pytest.fixture
def broken(): raise OSError("no disk")
def test_pass(record): record.metric("rate", "1/s", [1, 2, 3])
def test_kind(record): record.fail("wrong_frame", "asked for 1, got 2", "own text")
def test_assert(): assert 1 == 2
def test_bug(): raise KeyError("x")
def test_fixture(broken): pass
def test_skip(record): record.skip("no compiler", "2099-01-01")
def test_bare_skip(): pytest.skip("later")
"""
    )
    done = runs.made_up(tmp_path, text)
    records = {t.partition("::")[2]: r for t, r in done.run.by_test().items()}
    got = {t: (r.outcome, r.kind) for t, r in records.items()}
    assert got == {
        "test_control": ("passed", None),
        "test_pass": ("passed", None),
        "test_kind": ("failed", "wrong_frame"),
        "test_assert": ("failed", "assertion"),
        "test_bug": ("error", "harness"),
        "test_fixture": ("error", "harness"),
        "test_skip": ("skipped", None),
        "test_bare_skip": ("skipped", None),
    }
    assert records["test_kind"].detail == "own text"
    assert records["test_pass"].metrics[0].samples == (1.0, 2.0, 3.0)
    assert records["test_skip"].last_day == "2099-01-01"
    assert verdicts(done)["test_skip"] == "skipped"
    assert verdicts(done)["test_bare_skip"] == "skip_unaccepted"
    assert done.run.header.finished is not None
    assert exit_status(done) == 1


def test_a_failure_that_does_not_come_again_keeps_its_kind(tmp_path: Path) -> None:
    """A failure that hypothesis calls flaky is a failure of its kind, not a broken test."""
    text = (
        CONTROL
        + """
from hypothesis import given, strategies as st
seen = []
def test_once(record):
    @given(st.integers())
    def holds(n):
        seen.append(n)
        if len(seen) == 3: record.fail("wrong_frame", "once")
    holds()
"""
    )
    done = runs.made_up(tmp_path, text)
    assert [r.kind for r in done.run.records if r.outcome != "passed"] == ["wrong_frame"]


def test_no_test_selected_is_no_verdict(tmp_path: Path) -> None:
    """A selection that matches nothing runs nothing, and that is not green."""
    done = runs.made_up(tmp_path, CONTROL, "-k", "nothing_like_it")
    assert exit_status(done) == 3


def test_controls_run_with_any_selection(tmp_path: Path) -> None:
    """A selection leaves tests out, never the positive control."""
    done = runs.made_up(tmp_path, CONTROL + "def test_a(): pass\ndef test_b(): pass\n", "-k", "test_a")
    assert verdicts(done) == {"test_control": "new", "test_a": "new"}
    assert done.run.header.selection.partial


def test_a_control_that_does_not_hold_is_no_verdict(tmp_path: Path) -> None:
    """When the control fails, passes prove nothing: no verdict, not green and not red."""
    done = runs.made_up(
        tmp_path, "def test_control(record): record.fail('control', 'x')\ndef test_a(): pass\n"
    )
    assert verdicts(done)["test_control"] == "control_failed"
    assert exit_status(done) == 3


def test_a_suite_without_control_is_no_verdict(tmp_path: Path) -> None:
    """A suite that has no positive control is inconclusive."""
    assert exit_status(runs.made_up(tmp_path, "def test_a(): pass\n")) == 3


def test_stopping_at_the_first_failure_loses_the_rest(tmp_path: Path) -> None:
    """What `-x` leaves out was planned: it is lost."""
    done = runs.made_up(tmp_path, CONTROL + "def test_a(): assert 0\ndef test_b(): pass\n", "-x")
    assert verdicts(done)["test_b"] == "lost"


DIES = (
    CONTROL
    + """
import os, signal, time
def test_a(): pass
def test_dies(): os.kill(os.getpid(), signal.%s)
def test_b(): pass
def test_c(): pass
"""
)


def test_a_segfault_loses_no_finished_record(tmp_path: Path) -> None:
    """pytest itself dies by a signal: what was finished is kept, the rest is lost, and it is said where it died."""
    done = runs.made_up(tmp_path, DIES % "SIGSEGV", "-p", "no:faulthandler")
    assert done.status == -signal.SIGSEGV
    assert verdicts(done) == {
        "test_control": "new",
        "test_a": "new",
        "test_dies": "lost",
        "test_b": "lost",
        "test_c": "lost",
    }
    assert done.run.running == ("suites/demo/test_demo.py::test_dies",)
    assert exit_status(done) == 3


def test_a_killed_worker_loses_no_finished_record(tmp_path: Path) -> None:
    """kill -9 of an xdist worker: the test it was in is an error, everything else is recorded."""
    done = runs.made_up(tmp_path, DIES % "SIGKILL", "-n", "2")
    found = verdicts(done)
    assert found.pop("test_dies") == "error"
    assert set(found.values()) == {"new"}
    assert len(found) == 4
    assert exit_status(done) == 3


def test_a_killed_session_is_told(tmp_path: Path) -> None:
    """kill -9 of pytest in the middle: what was finished is kept, the rest is lost."""
    suite = tmp_path / "suites" / "demo"
    suite.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (suite / "test_demo.py").write_text(CONTROL + "import time\ndef test_long(): time.sleep(600)\n")
    command = runs.command(tmp_path / "run", "suites", "--target", "reference", "-n", "2")
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(0.1)
        if (tmp_path / "run" / "run.json").exists() and rundir.load(tmp_path / "run").records:
            break
    process.kill()
    process.wait()
    done = runs.Done(tmp_path / "run", -9, "")
    assert verdicts(done) == {"test_control": "new", "test_long": "lost"}
    assert done.run.header.finished is None
    assert exit_status(done) == 3


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    """A folder that holds a run is refused to another, with exit status 4 and one line, and is left as it was."""
    first = runs.made_up(tmp_path, CONTROL)
    before = (first.folder / "run.json").read_bytes()
    second = runs._pytest(tmp_path, first.folder, ("suites", "--target", "reference"), None)
    assert second.status == 4
    assert "belongs to another run" in second.output
    assert "Traceback" not in second.output
    assert (first.folder / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--target", "nope"), "--target nope: no such target; there are: reference, vitra"),
        (("--runner", "nope"), "--runner nope: no such runner"),
        (("--target", "reference", "--patch", "nope"), "--patch nope: target reference has no such patch"),
        (("--target", "reference", "--defect", "nope"), "--defect nope: no such defect; there are:"),
        (("--target-path", "/nonexistent"), "--target-path /nonexistent: no checkout of vitra there"),
    ],
)
def test_mistakes_are_one_clear_line(options: tuple[str, ...], says: str, tmp_path: Path) -> None:
    """A user's mistake is named with its value and the remedy; no traceback, no run."""
    done = runs.suites(tmp_path / "run", "suites", *options)
    assert done.status == 4
    assert says in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "run").exists()


def without_git(tmp_path: Path) -> dict[str, str]:
    """Variables of a machine that is offline and has an empty cache: git fails as it does there."""
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin" / "git"
    git.write_text("#!/bin/sh\necho 'fatal: unable to access: Could not resolve host' >&2\nexit 128\n")
    git.chmod(0o755)
    cache = tmp_path / "cache"
    return {"PATH": f"{git.parent}:/usr/bin:/bin", "HARNESS_CACHE": str(cache), "HARNESS_VITRA": ""}


def test_offline_falls_back_and_says_so(tmp_path: Path) -> None:
    """Without VITRA and without a name given, the reference is tested, and header and console say so."""
    options = ("suites/failfast", "-k", "control")
    done = runs.suites(tmp_path / "run", *options, variables=without_git(tmp_path))
    header = done.run.header
    assert header.target.name == "reference"
    assert header.target.note is not None
    assert header.target.note.startswith("fallback: vitra cannot be cloned")
    assert "Falling back to the target 'reference'" in done.output


def test_offline_by_name_is_an_error(tmp_path: Path) -> None:
    """VITRA asked for by name and not to be had is an error with the remedies."""
    done = runs.suites(tmp_path / "run", "suites", "--target", "vitra", variables=without_git(tmp_path))
    assert done.status == 4
    assert "--target-path" in done.output
    assert "HARNESS_VITRA" in done.output


def test_run_folder_fits_its_schema(tmp_path: Path) -> None:
    """Every line that a real run writes is as docs/formats.md's schema says; unknown keys are refused."""
    schema = json.loads((ROOT / "docs" / "run.schema.json").read_text())
    done = runs.suites(
        tmp_path / "run",
        "suites",
        "--target",
        "reference",
        "-n",
        "2",
        "-k",
        "h264-b-threads-1 or text or truncated",
    )
    header = json.loads((done.folder / "run.json").read_text())
    definitions = {"$defs": schema["$defs"]}
    jsonschema.validate(header, {**definitions, "$ref": "#/$defs/header"})
    lines = [json.loads(x) for p in done.folder.glob("records-*.jsonl") for x in p.read_text().splitlines()]
    assert sum(x["type"] == "record" for x in lines) > 8
    for line in lines:
        jsonschema.validate(line, {**definitions, "$ref": "#/$defs/line"})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**lines[0], "extra": 1}, {**definitions, "$ref": "#/$defs/line"})
    assert exit_status(done) == 0


def test_groups_stay_on_one_worker(tmp_path: Path) -> None:
    """Tests of one xdist group run in one worker process: they share a child there."""
    text = (
        CONTROL
        + """
import pytest, time
@pytest.mark.parametrize("n", range(12))
@pytest.mark.parametrize("group", [pytest.param(g, marks=pytest.mark.xdist_group(g)) for g in ("a", "b")])
def test_x(group, n): time.sleep(0.02)
"""
    )
    done = runs.made_up(tmp_path, text, "-n", "2", "--dist", "loadgroup")
    for group in ("a", "b"):
        assert len({r.worker for r in done.run.records if f"[{group}-" in r.test}) == 1
    assert len(done.run.records) == 25
    assert all("@" not in r.test for r in done.run.records)


def test_a_suite_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    """A broken import is pytest's own message, and the report of that run is no verdict."""
    done = runs.made_up(tmp_path, "import nothing_such\n")
    assert "No module named 'nothing_such'" in done.output
    assert "closed file" not in done.output
    assert runs.harness("report", str(done.folder)).returncode == 3
