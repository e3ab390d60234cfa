"""The steps of a workflow that work on the machine: limits, bundles that nobody packed, words that are none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import runs
from builders import case, make_record, make_run
from harness import ROOT, workflow_session
from harness.errors import UsageError

PROGRAM = """
import pathlib, signal, subprocess, sys, time
here = pathlib.Path(sys.argv[1])
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(600)"])
def ask(*_):
    (here / "asked").write_text("asked")
    if sys.argv[2] == "ends":
        sys.exit(7)
signal.signal(signal.SIGINT, ask)
(here / "child").write_text(str(child.pid))
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Little patience between asking and killing, and the signals as they were."""
    monkeypatch.setattr(workflow_session, "GRACE_S", 0.5)
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    yield
    assert {n: signal.getsignal(n) for n in before} == before


def gone(pid: int) -> bool:
    for _ in range(200):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("how", ["ends", "stays"])
def test_at_the_limit_all_are_asked_then_killed(how: str, short: None, tmp_path: Path) -> None:
    """A session past its limit is asked to end, so that pytest writes what it has; then it and its children are killed."""
    status = workflow_session.run([sys.executable, "-c", PROGRAM, str(tmp_path), how], 4.0)
    assert status == 124
    assert (tmp_path / "asked").read_text() == "asked"
    assert gone(int((tmp_path / "child").read_text()))


def test_a_status_is_passed_on(short: None) -> None:
    """Within the limit it is the command's own status."""
    assert workflow_session.run([sys.executable, "-c", "import sys; sys.exit(3)"], 60.0) == 3


def test_a_cancelled_workflow_reaches_the_session(short: None, tmp_path: Path) -> None:
    """What GitHub sends to the step when a run is cancelled goes on to the session."""
    program = "import os, signal, sys, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(600)"
    assert workflow_session.run([sys.executable, "-c", program], 60.0) == -signal.SIGTERM


def test_no_bundle_is_no_success(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where nobody packed, nothing was verified, and that is said."""
    (tmp_path / "bundles").mkdir()
    status = workflow_session.carry(
        "cpu", tmp_path / "bundles", run_folder=tmp_path / "none", into=tmp_path / "copy", target=[]
    )
    assert status == 3
    assert "no bundle to carry to cpu" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("session", "tpu", "--part", "suites", "--folder", "x"), "--runner tpu: no such runner"),
        (
            ("session", "cpu", "--part", "suites", "--folder", "x", "--words", "-k a"),
            "--words -k a: write words as",
        ),
        (
            ("session", "cpu", "--part", "suites", "--folder", "x", "--target", "[1]"),
            "--target [1]: write words as",
        ),
        (("pack", "toaster", "--folder", "x"), "toaster/bin/python: not there; run `nox -s toaster` first"),
        (("merge", "nowhere", "--into", "x"), "nowhere: no such folder"),
        (("decide", "nowhere"), "nowhere: no reports there"),
        (("history", "nowhere", "--store", "x"), "nowhere: no such folder"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    """A name, a list or a folder that is none ends with 2 and one line that names it."""
    fixed = [str(tmp_path / w) if w in ("x", "nowhere") else w for w in words]
    done = runs.harness("workflows", *fixed)
    assert done.returncode == 2
    assert says in done.stderr.replace(str(tmp_path) + os.sep, "")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("answer", ["", "{}", '{"message": "Not Found"}', '[{"number": "7"}]', "[1]"])
def test_an_answer_that_is_no_list_is_refused(answer: str) -> None:
    """What GitHub did not say is no number of a pull request."""
    command = [sys.executable, "-m", "harness.cli", "workflows", "pull", "--commit", "a"]
    done = subprocess.run(command, input=answer, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "stdin: no list of pull requests" in done.stderr
    assert done.stdout == ""


def test_words_are_a_list_of_text() -> None:
    """Nothing but a JSON list of text is taken for words; an empty value is no word."""
    assert workflow_session.words_of("", "--words") == []
    assert workflow_session.words_of('["-k", "a b"]', "--words") == ["-k", "a b"]
    for text in ("{}", "[", '["a", 1]', '"a"', "[[]]"):
        with pytest.raises(UsageError, match="--words"):
            workflow_session.words_of(text, "--words")


def test_runs_that_cannot_be_merged_fail_the_step(tmp_path: Path) -> None:
    """Runs of two commits make no report: the step of the merge fails and says why, and so does the decision."""
    for name, commit in (("cpu", "a" * 40), ("rocm", "b" * 40)):
        made = make_run([make_record(case("a"))], run_id=name, runner={"name": name}, harness_commit=commit)
        (tmp_path / "found" / f"run-{name}").mkdir(parents=True)
        runs.write(tmp_path / "found" / f"run-{name}" / "suites", made)
    merged = runs.harness("workflows", "merge", str(tmp_path / "found"), "--into", str(tmp_path / "report"))
    assert merged.returncode == 2
    assert "one report is of one commit" in merged.stderr
    decided = runs.harness("workflows", "decide", str(tmp_path / "report"))
    assert decided.returncode == 2
    assert decided.stdout.startswith("NO REPORT")
