"""A child that hangs, crashes or babbles does no harm to the one that asks."""

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

from harness import ROOT
from harness.child import Child, ChildFailure

PROGRAM = """
import os, signal, subprocess, sys, time
from harness.child import serve

def hang(): time.sleep(600)
def die(number): os.kill(os.getpid(), number)
def leave(): os._exit(7)
def babble(): print("noise" * 1000); os.write(1, b"more \\xff noise\\n"); return {"ok": 1}
def fail(): raise ValueError("broken inside")
def spawn(): return {"pid": subprocess.Popen(["sleep", "600"]).pid}
serve({"hang": hang, "die": die, "leave": leave, "babble": babble, "fail": fail, "spawn": spawn,
       "pid": lambda: {"pid": os.getpid()}})
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    made = Child(program, [], tmp_path / "log", {"PYTHONPATH": str(ROOT)})
    yield made
    made.close()


def gone(pid: int) -> bool:
    """Whether a process is no more, or only waits to be reaped; waits up to ten seconds for it."""
    for _ in range(100):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.1)
    return False


def test_noise_is_no_answer(child: Child) -> None:
    """What libraries print goes to the log, never into the answers."""
    assert child.call({"do": "babble"}, 30) == {"ok": 1}
    assert b"noise" in child.log.read_bytes()


def test_a_hang_is_named_with_its_stack(child: Child) -> None:
    """No answer in time is a hang, with the place where it hangs; the process is gone afterwards."""
    pid = child.call({"do": "pid"}, 30)["pid"]
    with pytest.raises(ChildFailure) as caught:
        child.call({"do": "hang"}, 0.5)
    assert caught.value.kind == "hang"
    assert "in hang" in caught.value.detail
    assert gone(pid)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"do": "die", "number": int(signal.SIGSEGV)}, "SIGSEGV"),
        ({"do": "die", "number": int(signal.SIGKILL)}, "SIGKILL"),
        ({"do": "leave"}, "exit status 7"),
    ],
)
def test_a_crash_is_named(request_: dict[str, object], says: str, child: Child) -> None:
    """A process that dies without an answer is a crash, with signal or exit status; the next request is served."""
    with pytest.raises(ChildFailure) as caught:
        child.call(request_, 30)
    assert caught.value.kind == "crash"
    assert says in str(caught.value)
    assert child.call({"do": "babble"}, 30) == {"ok": 1}


def test_a_broken_program_is_the_harness(child: Child) -> None:
    """An exception of the asking program itself says nothing of the target."""
    with pytest.raises(ChildFailure) as caught:
        child.call({"do": "fail"}, 30)
    assert caught.value.kind == "harness"
    assert "broken inside" in caught.value.detail


def test_closing_ends_grandchildren(child: Child) -> None:
    """All that the child started ends with it."""
    pid = child.call({"do": "spawn"}, 30)["pid"]
    child.close()
    assert gone(pid)


def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    """kill -9 of the asking process leaves no child behind."""
    (tmp_path / "program.py").write_text(PROGRAM)
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import sys, time\nfrom pathlib import Path\nfrom harness.child import Child\n"
        "c = Child(Path(sys.argv[1]), [], Path(sys.argv[2]), {})\n"
        "print(c.call({'do': 'pid'}, 30)['pid'], flush=True)\ntime.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(parent), str(tmp_path / "program.py"), str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.wait()
    assert gone(pid)
