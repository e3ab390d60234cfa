"""A launch says how every rank ended, and leaves nothing alive, whatever the ranks do."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from harness import ROOT, rank_logs
from harness.errors import UsageError
from harness.launch import Launched, launch
from harness.launched import Ending, conclude
from harness.rank_watch import WatchedRank

PROGRAMS = Path(__file__).with_name("rank_programs")
PLAIN, COLLECTIVE, SESSION = (PROGRAMS / f"{n}.py" for n in ("plain", "collective", "session"))
MARK = "HARNESS_TEST_MARK"
LONG_S = 240.0  # guards against a hang of the tests themselves


@pytest.fixture
def mark() -> Iterator[str]:
    """The value of a variable that all processes of the test carry; none may be alive when the test is over."""
    value = uuid.uuid4().hex
    yield value
    left = alive(value)
    for process in left:
        process.kill()
    assert left == []


@pytest.fixture
def start(mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launched]:
    def started(
        program: Path,
        *arguments: str,
        ranks: int = 2,
        limit_s: float = LONG_S,
        late_after: str | None = None,
        say: Callable[[str], None] | None = None,
    ) -> Launched:
        logs = tmp_path / "logs"
        if late_after:
            monkeypatch.setattr("harness.launch.time", LateClock(logs, ranks, late_after))
        done = launch(
            program, arguments, ranks=ranks, logs=logs, limit_s=limit_s, environment={MARK: mark}, say=say
        )
        assert alive(mark) == []
        return done

    return started


class LateClock:
    """Goes on by `LONG_S` two seconds after every rank has said a word, so that a limit needs no waiting for it."""

    sleep = staticmethod(time.sleep)

    def __init__(self, logs: Path, ranks: int, word: str) -> None:
        self.logs = [logs / f"rank-{n}.log" for n in range(ranks)]
        self.word, self.seen = word.encode(), math.inf

    def monotonic(self) -> float:
        now = time.monotonic()
        if self.seen == math.inf and all(p.exists() and self.word in p.read_bytes() for p in self.logs):
            self.seen = now
        return now + (LONG_S if now > self.seen + 2 else 0)


def alive(mark: str) -> list[psutil.Process]:
    """The processes that carry a mark, zombies apart."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def gone(pid: int) -> bool:
    """Whether a process is no more."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(true: Callable[[], object]) -> None:
    """Waits until something holds; fails when it does not within two minutes."""
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_all_well(start: Callable[..., Launched]) -> None:
    """When every rank leaves with 0 there is no kind; logs, last steps and lines told live are there."""
    lines: list[str] = []
    done = start(PLAIN, "take_steps", "all", ranks=3, say=lines.append)
    assert (done.kind, done.first_failed) == (None, None)
    assert [(r.exit_status, r.signal, r.state, r.last_step) for r in done.ranks] == [
        (0, None, "left", 517)
    ] * 3
    assert lines == done.ranks[0].log.read_text().splitlines()
    assert "said by a child" in lines
    assert sorted(p.name for p in done.ranks[0].log.parent.iterdir()) == [
        *(f"rank-{n}.log" for n in range(3)),
        "torchrun.log",
    ]


@pytest.mark.parametrize(
    ("fault", "state", "status", "number", "says"),
    [
        ("leave_with_3", "left", 3, None, "rank 1 of 2 left first, with exit status 3"),
        ("leave_at_once", "left", 7, None, "rank 1 of 2 left first, with exit status 7"),
        ("kill_itself", "killed", None, "SIGKILL", "rank 1 of 2 was ended first, by SIGKILL"),
    ],
)
def test_the_first_that_fails_is_named(
    fault: str, state: str, status: int | None, number: str | None, says: str, start: Callable[..., Launched]
) -> None:
    """A crash names the rank that failed first and how; the rest ended with it."""
    done = start(PLAIN, fault, "1")
    assert (done.kind, done.message, done.first_failed) == ("crash", says, 1)
    assert (done.ranks[1].state, done.ranks[1].exit_status, done.ranks[1].signal) == (state, status, number)
    assert (done.ranks[0].state, done.ranks[0].exit_status) == ("ended with the others", None)


def test_an_exception_is_in_the_tail(start: Callable[..., Launched]) -> None:
    """The traceback of an exception is told, in the tail of its rank and in the detail."""
    done = start(PLAIN, "fail", "0")
    assert (done.kind, done.first_failed, done.ranks[0].exit_status) == ("crash", 0, 1)
    assert done.ranks[0].tail.endswith("ValueError: the loss is not a number\n")
    assert "ValueError: the loss is not a number" in done.detail
    assert done.ranks[1].tail == ""


def test_the_victim_is_not_blamed(start: Callable[..., Launched]) -> None:
    """When a rank is killed and the others fail of it in a collective, the killed one is the first."""
    done = start(COLLECTIVE, "be_killed")
    assert (done.kind, done.first_failed) == ("crash", 1)
    assert done.ranks[1].signal == "SIGKILL"
    assert [r.last_step for r in done.ranks] == [2, 2]


def test_a_stopped_rank_is_told_as_stopped(start: Callable[..., Launched]) -> None:
    """At the time limit a rank that is stopped is named so, the one that waits for it is running, with its stack."""
    done = start(PLAIN, "stop_beside_a_recorder", "all", late_after="ready")
    assert (done.kind, done.message) == ("hang", "no end within 240 s; rank 1 is stopped")
    assert [r.state for r in done.ranks] == ["running", "stopped"]
    stack = done.ranks[0].stack or ""
    assert stack.startswith("Current thread")
    assert stack.index("in wait_for_the_others") < stack.index("in record")
    assert "rank_main" not in stack
    assert done.ranks[1].stack is None
    assert "dumps of the flight recorder: flight-recorder-0\n" in done.detail


def test_a_collective_left_out_shows_both_stacks(
    start: Callable[..., Launched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the time limit it can be read who waits in the collective and where the other one is instead."""
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\necho native frames, by $1 $2 $3\n")
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    done = start(COLLECTIVE, "leave_it_out", late_after="step 2")
    assert (done.kind, done.message) == ("hang", "no end within 240 s; ranks 0 and 1 of 2 are running")
    assert "in all_reduce" in (done.ranks[0].stack or "")
    assert "in leave_it_out" in (done.ranks[1].stack or "")
    for told in ("in all_reduce", "in leave_it_out", "native frames, by dump --native --pid"):
        assert told in done.detail
    assert len(done.detail) <= 8100


def test_what_ignores_sigterm_ends_soon_after_another_failed(start: Callable[..., Launched]) -> None:
    """A rank that fails ends the launch as a crash though another ignores SIGTERM; the failure is still the first."""
    done = start(PLAIN, "one_fails_one_ignores", "all")
    assert (done.kind, done.first_failed) == ("crash", 1)
    assert (done.ranks[0].state, done.ranks[0].signal) == ("ended with the others", "SIGKILL")
    log = (done.ranks[0].log.parent / "torchrun.log").read_text()
    assert "closing signal" in log
    assert "forcefully exiting" not in log  # what torchrun does itself, after half a minute


def test_much_output_is_cut(start: Callable[..., Launched]) -> None:
    """A log of 200 MB is cut to its head and tail with a line that says how much is missing; steps are still found."""
    done = start(PLAIN, "print_200_mb", "all", ranks=1, say=lambda line: None)
    assert (done.kind, done.ranks[0].last_step) == (None, 1)
    log = done.ranks[0].log.read_bytes()
    assert len(log) <= rank_logs.LOG_LIMIT_BYTES
    assert log.startswith(b"HARNESS-STEP 1\n")
    assert log.endswith(b"the end of the noise\n")
    assert b"of 200000036 bytes left out here" in log


def test_output_without_end_is_ended(start: Callable[..., Launched]) -> None:
    """A rank that prints without end is a crash long before the disk is full."""
    done = start(PLAIN, "print_without_end", "1")
    assert (done.kind, done.first_failed) == ("crash", 1)
    assert done.message == "rank 1 of 2 printed more than 256 MiB and was ended with the others"
    assert done.ranks[1].log.stat().st_size <= rank_logs.LOG_LIMIT_BYTES


def test_bytes_that_are_no_text(start: Callable[..., Launched]) -> None:
    """Output that is not UTF-8 is told as far as it can be."""
    lines: list[str] = []
    done = start(PLAIN, "print_bytes", "all", ranks=1, say=lines.append)
    assert done.ranks[0].exit_status == 5
    assert "before \ufffd\ufffd" in done.ranks[0].tail
    assert "after" in lines[0]


def test_a_fork_of_a_rank_is_no_rank(start: Callable[..., Launched]) -> None:
    """The exit status of a fork that left through the rank's own code is not taken for the rank's."""
    done = start(PLAIN, "fork_and_leave", "all")
    assert (done.kind, [r.exit_status for r in done.ranks]) == (None, [0, 0])


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("leave_a_stubborn_child", None),
        ("leave_a_bare_stubborn_child", None),
        ("hang_beside_a_stubborn_child", "hang"),
    ],
)
def test_grandchildren_end_too(fault: str, kind: str | None, start: Callable[..., Launched]) -> None:
    """A child of a rank in a session of its own that ignores SIGTERM ends with the launch, whatever its environment."""
    done = start(PLAIN, fault, "all", ranks=1, late_after="child" if kind else None)
    assert done.kind == kind
    assert gone(int(done.ranks[0].tail.split()[1]))


def test_two_launches_do_not_meet(mark: str, tmp_path: Path) -> None:
    """Launches at the same time have ports and processes of their own; the end of one does not touch the other."""

    def one(name: str, *arguments: str) -> Launched:
        return launch(
            COLLECTIVE, arguments, ranks=2, logs=tmp_path / name, limit_s=LONG_S, environment={MARK: mark}
        )

    with ThreadPoolExecutor() as pool:
        bad, good = pool.submit(one, "bad", "be_killed"), pool.submit(one, "good", "join_in")
        assert bad.result().first_failed == 1
        assert good.result().kind is None


def session(mark: str, logs: Path, fault: str) -> subprocess.Popen[str]:
    """A process that launches; both ranks have said who their child is when this returns."""
    process = subprocess.Popen(
        [sys.executable, str(SESSION), str(logs), str(PLAIN), fault, "all"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), MARK: mark},
    )
    wait_until(lambda: len(children(logs)) == 2)
    return process


def children(logs: Path) -> list[int]:
    return [int(text.split()[1]) for p in logs.glob("rank-*.log") if (text := p.read_text()).endswith("\n")]


def test_ctrl_c_ends_all(mark: str, tmp_path: Path) -> None:
    """Ctrl-C goes on to the caller once everything is ended."""
    process = session(mark, tmp_path, "hang_beside_a_stubborn_child")
    pids = children(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "interrupted\n"
    assert [gone(pid) for pid in pids] == [True, True]
    assert process.communicate(timeout=60) == ("", None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_all_dies_with_the_session(number: signal.Signals, mark: str, tmp_path: Path) -> None:
    """When the launching process is killed, everything ends, also what ignores SIGTERM in a session of its own."""
    process = session(mark, tmp_path, "hang_beside_a_stubborn_child")
    pids = children(tmp_path)
    process.send_signal(number)
    process.communicate(timeout=60)
    wait_until(lambda: not alive(mark) and all(gone(pid) for pid in pids))


def test_what_the_keeper_no_longer_sees_is_found(mark: str, tmp_path: Path) -> None:
    """Even when keeper and torchrun are killed, the launch ends what they left, and says what happened."""
    killed = []

    def kill_the_keeper(line: str) -> None:
        if line.startswith("child") and not killed:
            for process in alive(mark):
                if "--keep" in process.cmdline():
                    killed.append(process.pid)
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    done = launch(
        PLAIN,
        ["leave_a_marked_child_and_hang", "all"],
        ranks=1,
        logs=tmp_path,
        limit_s=LONG_S,
        environment={MARK: mark},
        say=kill_the_keeper,
    )
    assert killed
    assert (done.kind, done.message) == ("crash", "torchrun was ended by SIGKILL")
    assert alive(mark) == []


def test_torchrun_itself_may_fail(tmp_path: Path) -> None:
    """When torchrun fails before it starts a rank, its own words are in the detail."""
    bad = {"PET_NNODES": "no number"}
    done = launch(PLAIN, ["do_nothing", "all"], ranks=1, logs=tmp_path, limit_s=LONG_S, environment=bad)
    assert (done.kind, done.message) == ("crash", "torchrun left with exit status 1 before any rank started")
    assert done.ranks[0].state == "never started"
    assert "no number" in done.detail


def test_a_limit_before_the_start(start: Callable[..., Launched]) -> None:
    """A time limit that comes before the ranks is told so."""
    done = start(PLAIN, "do_nothing", "all", limit_s=0.01)
    assert (done.kind, done.message) == ("hang", "no end within 0.01 s; ranks 0 and 1 never started")
    assert [r.state for r in done.ranks] == ["never started", "never started"]


@pytest.mark.parametrize(
    ("program", "ranks", "says"),
    [(PLAIN, 0, "cannot start 0 ranks"), (PROGRAMS / "absent.py", 1, "there is no program")],
)
def test_mistakes_are_told(program: Path, ranks: int, says: str, tmp_path: Path) -> None:
    """A call that cannot work is the user's mistake, in one sentence."""
    with pytest.raises(UsageError, match=says):
        launch(program, ranks=ranks, logs=tmp_path, limit_s=1)


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (b"", None),
        (b"no number: step\n", None),
        (b"timestep 4\nsteps 5\n", None),
        (b"HARNESS-STEP 0\n", 0),
        (b"Step: 12/100\rstep 13/100", 13),
        (b"Global Step 000516\n" + b"x" * (9 << 20), 516),
        (b" " * ((4 << 20) - 3) + b"step 12345\n" + b"x" * ((4 << 20) - 8), 12345),
    ],
    ids=[
        "empty",
        "no number",
        "other words",
        "our own",
        "the last of two",
        "far from the end",
        "across blocks",
    ],
)
def test_the_last_step(text: bytes, step: int | None, tmp_path: Path) -> None:
    """The last step of a log is found wherever it stands, and no other number is taken for one."""
    (tmp_path / "log").write_bytes(text)
    found = rank_logs.find_last_step(tmp_path / "log")
    assert found == step


def test_the_detail_keeps_every_rank(tmp_path: Path) -> None:
    """Of many ranks with long logs each has its line and its end; the first to fail has the most room."""
    ranks = [WatchedRank(tmp_path, n) for n in range(8)]
    for rank in ranks:
        rank.log.write_text("noise\n" * 5000 + f"the end of {rank.number}\n")
        rank.pid, rank.left, rank.gone_at = 1, (1, 5.0 - (rank.number == 6)), 6.0
    detail = conclude(ranks, Ending(status=1, torchrun_log=tmp_path / "none")).detail
    assert len(detail) <= 8100
    assert detail.startswith(
        "rank 6 of 8 left first, with exit status 1\nfirst to fail: rank 6\nrank 0: left, exit status 1"
    )
    assert all(f"the end of {n}" in detail for n in range(8))
