"""The `launch` fixture: a suite's program on several ranks, its answers, and what a record says when ranks fail."""

from __future__ import annotations

from pathlib import Path

import pytest

import runs

PROGRAM = """
import atexit, os, threading, time
from pathlib import Path
from harness.ranks import serve
def main(rank):
    rank.write({"first": rank.number})
    how = rank.request["how"]
    if how == "die" and rank.number == 1:
        os._exit(3)
    if how == "raise" and rank.number == 1:
        raise ValueError("told by the rank")
    if how == "hang" and rank.number == 1:
        time.sleep(600)
    if how == "late":
        threading.Thread(target=lambda: (time.sleep(1.5), Path(f"thread-{rank.number}").touch())).start()
        atexit.register(Path(f"exit-{rank.number}").touch)
    rank.join()
    return {"rank": rank.number, "world": rank.world, "device": rank.device, "asked": rank.request["n"],
            "target": rank.spec.name}
serve(main)
"""
SUITE = """
from pathlib import Path
import pytest
PROGRAM = Path(__file__).with_name("program.py")
def test_answers(launch):
    found = launch(PROGRAM, {"how": "well", "n": 7}, ranks=2)
    assert found == [
        {"rank": r, "world": 2, "device": "cpu", "asked": 7, "target": "reference"} for r in (0, 1)
    ]
def test_dies(launch):
    launch(PROGRAM, {"how": "die", "n": 0}, ranks=2)
def test_raises(launch):
    launch(PROGRAM, {"how": "raise", "n": 0}, ranks=2)
def test_hangs(launch):
    launch(PROGRAM, {"how": "hang", "n": 0}, ranks=2, limit_s=15)
def test_late(launch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    launch(PROGRAM, {"how": "late", "n": 0}, ranks=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["exit-0", "exit-1", "thread-0", "thread-1"]
def test_partial(launch):
    with pytest.raises(launch.failure) as caught:
        launch(PROGRAM, {"how": "die", "n": 0}, ranks=2)
    assert caught.value.kind == "crash"
    assert caught.value.answers[1] == {"first": 1}
@pytest.mark.targets("vitra")
def test_elsewhere():
    assert False
@pytest.mark.targets("vitra", "reference")
def test_here(record):
    record.trace("loss", "", [1.0, 0.5], noise="fp32-loss")
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> runs.Done:
    root = tmp_path_factory.mktemp("ranks")
    (root / "suites" / "demo").mkdir(parents=True)
    (root / "suites" / "demo" / "program.py").write_text(PROGRAM)
    return runs.made_up(root, SUITE)


def record(done: runs.Done, name: str):  # type: ignore[no-untyped-def]
    return next(r for r in done.run.records if r.test.endswith(f"::{name}"))


def test_every_rank_answers(done: runs.Done) -> None:
    """Each rank knows who it is, what it was asked and which target, and its answer comes back."""
    assert record(done, "test_answers").outcome == "passed", record(done, "test_answers").detail


def test_a_rank_that_dies_is_a_crash(done: runs.Done) -> None:
    """A rank that leaves with 3 fails the test as a crash that names it, with the ranks' logs."""
    found = record(done, "test_dies")
    assert (found.outcome, found.kind) == ("failed", "crash")
    assert "rank 1" in found.reason
    assert "3" in found.reason
    assert len(found.logs) == 2
    assert all((done.folder / log).is_file() for log in found.logs)


def test_what_a_rank_raised_is_in_the_record(done: runs.Done) -> None:
    """The exception of a rank stands in the record's detail."""
    found = record(done, "test_raises")
    assert (found.outcome, found.kind) == ("failed", "crash")
    assert "ValueError: told by the rank" in found.detail


def test_ranks_that_do_not_end_are_a_hang(done: runs.Done) -> None:
    """Ranks that do not end in time fail the test as a hang, with the stack of the one that sleeps."""
    found = record(done, "test_hangs")
    assert (found.outcome, found.kind) == ("failed", "hang")
    assert "program.py" in found.detail


def test_what_a_rank_still_does_is_waited_for(done: runs.Done) -> None:
    """Threads that still write, and exit handlers, come to their end before the rank does: a save is not torn."""
    assert record(done, "test_late").outcome == "passed", record(done, "test_late").detail


def test_answers_left_before_a_failure_are_kept(done: runs.Done) -> None:
    """What ranks had answered before one of them died can still be used."""
    assert record(done, "test_partial").outcome == "passed", record(done, "test_partial").detail


def test_tests_for_other_targets_do_not_exist(done: runs.Done) -> None:
    """A test marked for other targets is neither planned nor run; one marked for this target is."""
    assert not [t for t in done.run.header.planned or () if "test_elsewhere" in t]
    here = record(done, "test_here")
    assert here.outcome == "passed"
    assert (here.traces[0].first_step, here.traces[0].noise) == (1, "fp32-loss")


def test_every_launch_has_a_folder_of_its_own(done: runs.Done) -> None:
    """The requests and logs of each launch are kept apart in the run folder."""
    folders = [p for p in Path(done.folder, "logs").iterdir() if (p / "request.json").exists()]
    assert len(folders) == 6
