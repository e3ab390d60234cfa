"""Ranks behind the emulator's command, played by its stand-in: told apart how they end, and nothing of them is left."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import ROOT
from harness.errors import UsageError
from harness.launch import Launched, launch
from harness.runners.mirage import RUNNER
from mirage_machines import MIRAGE, call
from test_launch import MARK, LateClock, alive, wait_until

PLAIN = ROOT / "tests" / "rank_programs" / "plain.py"
SMOKE, MLP = ROOT / "fixtures" / "dist_smoke.py", ROOT / "fixtures" / "ddp_mlp.py"
LONG_S = 240.0


class Session:
    """Launches behind the stand-in, with a mark that every process of them carries."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder, self.runtime, self.mark = folder, runtime, uuid.uuid4().hex
        self.cleaned = 0

    def clean_up(self) -> None:
        self.cleaned += 1
        RUNNER.clean_up()

    def __call__(
        self, program: Path, *arguments: str, ranks: int = 2, nodes: int = 1, **more: Any
    ) -> Launched:
        wrap = more.pop("wrap", lambda w: RUNNER.command(w, devices=ranks // nodes, nodes=nodes))
        options = {"limit_s": LONG_S, "wrap": wrap, "clean_up": self.clean_up, **more}
        variables = {MARK: self.mark, "PYTHONPATH": str(ROOT)}
        done = launch(
            program,
            arguments,
            ranks=ranks,
            nodes=nodes,
            logs=self.folder / "logs",
            environment=variables,
            **options,
        )
        self.all_is_gone()
        return done

    def all_is_gone(self) -> None:
        assert alive(self.mark) == []
        assert [p for p in self.runtime.rglob("*") if not p.is_dir()] == []


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(prefix="hm", dir="/tmp") as folder:
        monkeypatch.setenv("HARNESS_MIRAGE", str(MIRAGE))
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setattr("harness.launch._TEARDOWN_S", 1.0)  # for ranks that ignore it, in the tests below
        yield Session(tmp_path, Path(folder))
        assert call(Path(folder), "cleanup").stdout == "nothing to clean up\n"


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("do_nothing", "ranks 0 and 1 left with exit status 0"),
        ("leave_with_3", "rank 1 of 2 left first, with exit status 3"),
        ("kill_itself", "rank 1 of 2 was ended first, by SIGKILL"),
    ],
)
def test_how_ranks_end_is_told(session: Session, nodes: int, fault: str, message: str) -> None:
    """Behind torchrun and started by the emulator itself: the first rank to fail is named with its status or signal."""
    rank = "all" if fault == "do_nothing" else "1"
    done = session(PLAIN, fault, rank, nodes=nodes)
    assert done.message == message
    assert done.kind == (None if fault == "do_nothing" else "crash")
    assert session.cleaned == 0


def test_the_log_speaks_where_no_torchrun_does(session: Session, tmp_path: Path) -> None:
    """A rank that aborts beside one that must be killed is told by its own fault, not by the status that is left."""
    program = tmp_path / "aborts.py"
    program.write_text(
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "time.sleep(0.5)\nif os.environ['RANK'] == '1': os.abort()\ntime.sleep(600)\n"
    )
    done = session(program, nodes=2)
    assert done.message == "rank 1 of 2 was ended first, by SIGABRT"
    assert done.ranks[0].signal == "SIGKILL"


def test_the_programs_own_ends_are_told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own error is the machine's fault, a refused command line the harness's, and neither is a rank's."""

    def spoiled(*words: str) -> Callable[[list[str]], list[str]]:
        return lambda inner: [str(MIRAGE), "run", *words, "--", *inner]

    done = session(PLAIN, "do_nothing", "all", wrap=spoiled("--profile", "mi355x"))
    assert done.kind == "infrastructure"
    assert done.message.startswith("mirage failed itself (exit status 1): profile not found: mi355x")
    done = session(PLAIN, "do_nothing", "all", wrap=spoiled("--gpus", "2"))
    assert done.kind == "harness"
    assert done.message.startswith("mirage refused its command line (exit status 2)")
    done = session(
        PLAIN, "do_nothing", "all", wrap=lambda inner: [str(MIRAGE), "run", "--", "/not/there", *inner]
    )
    assert (done.kind, "could not start a rank (exit status 127)" in done.message) == ("crash", True)
    done = session(PLAIN, "do_nothing", "all", wrap=lambda inner: ["/not/there/mirage", *inner])
    assert "/not/there/mirage cannot be run: No such file" in done.message
    monkeypatch.setenv("MIRAGE_STANDIN_FAULT", "session")
    done = session(PLAIN, "do_nothing", "all", nodes=2)
    assert (done.kind, "session failed to start" in done.message) == ("infrastructure", True)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("fault", ["do_nothing", "ignore_term_and_hang", "hang_beside_a_stubborn_child"])
def test_nothing_is_left_after_a_time_limit(session: Session, nodes: int, fault: str) -> None:
    """Whatever hangs, stubborn ranks and children of theirs, is gone with its session, and is called a hang."""
    done = session(PLAIN, fault, "1", nodes=nodes, limit_s=0.01 if fault == "do_nothing" else 6.0)
    assert done.kind == "hang"
    assert session.cleaned == 1


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("victim", ["emulator", "keeper", "both"])
def test_nothing_is_left_after_a_kill(session: Session, nodes: int, victim: str) -> None:
    """When the emulator or the keeper over it is killed from outside, ranks and scratch are gone all the same."""

    def kill() -> None:
        notes = [session.folder / "logs" / f"rank-{n}.pid" for n in range(2)]
        wait_until(lambda: all(n.exists() for n in notes))
        ours = [(p, p.cmdline()) for p in alive(session.mark)]
        emulators = [p for p, words in ours if str(MIRAGE) in words[:2]]
        keepers = [p for p, words in ours if "--keep-command" in words]
        assert len(emulators) == len(keepers) == 1
        for process in {"emulator": emulators, "keeper": keepers, "both": keepers + emulators}[victim]:
            with contextlib.suppress(psutil.NoSuchProcess):  # it may have died of the other's end
                process.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    done = session(PLAIN, "do_nothing", "9", nodes=nodes)
    killer.join()
    assert done.kind == "crash"
    assert "SIGKILL" in done.message
    assert session.cleaned == 1


def test_a_launch_that_is_interrupted_cleans_up(session: Session) -> None:
    """An exception in the caller ends all of the launch, and what the session left is removed."""

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session(PLAIN, "take_steps", "0", say=interrupt)
    session.all_is_gone()
    assert session.cleaned == 1


def test_without_an_emulator_nothing_changes(tmp_path: Path) -> None:
    """A command that leaves the words as they are is none: torchrun is told as before, and several nodes are refused."""
    for wrap in (None, lambda words: list(words)):
        done = launch(
            PLAIN, ["leave_with_3", "1"], ranks=2, logs=tmp_path / "logs", limit_s=LONG_S, wrap=wrap
        )
        assert (done.kind, done.message) == ("crash", "rank 1 of 2 left first, with exit status 3")
        with pytest.raises(UsageError, match="choose a runner that emulates them"):
            launch(PLAIN, ranks=2, nodes=2, logs=tmp_path / "logs", limit_s=LONG_S, wrap=wrap)
    with pytest.raises(UsageError, match="3 ranks on 2 nodes"):
        launch(PLAIN, ranks=3, nodes=2, logs=tmp_path / "logs", limit_s=LONG_S)


def test_ranks_on_two_nodes_train_together(session: Session) -> None:
    """Two nodes of two ranks, started by the emulator: DDP replicas are equal, over gloo, by the variables it sets."""
    done = session(MLP, ranks=4, nodes=2)
    assert done.kind is None, done.detail
    assert "ddp_mlp_ok" in done.ranks[0].tail
    assert "ranks=4" in done.ranks[0].tail


def test_the_documented_stall_is_told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """One collective completes; repeated ones end at the time limit as a stall, by where all ranks stand."""
    monkeypatch.setenv("MIRAGE_STANDIN_FAULT", "stall-after-allreduce")
    done = session(SMOKE)
    assert (done.kind, "dist_smoke_ok" in done.ranks[0].tail) == (None, True), done.detail
    monkeypatch.setattr("harness.launch.time", LateClock(session.folder / "logs", 2, "post all_reduce"))
    done = session(MLP)
    assert done.kind == "stall"
    assert done.message.endswith("ranks 0 and 1 of 2 are running, all of them in all_reduce")
    assert session.cleaned == 1
