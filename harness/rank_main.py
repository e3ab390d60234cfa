"""What runs on the far side of `harness.launch`: the keeper over torchrun, and the entry of every rank.

`rank_main.py --keep ARGUMENTS` runs torchrun with these arguments and ends with all that it started;
`rank_main.py --keep-command WORDS` does so with a command of an emulator, in which `rank_main.py --agent ARGUMENTS` is
torchrun; `rank_main.py FOLDER PROGRAM ARGUMENTS` is one rank. Of its own it imports no torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import runpy
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

AGENT = "HARNESS_AGENT"
"""The environment variable that carries the pid of torchrun to its ranks."""

_SUBREAPER, _DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG
_GIVE_UP_S = 15.0
_WATCH_S = 0.5


def keep(start: Callable[[], None]) -> int:
    """Forks and starts what is to be kept until it ends, stdin closes or SIGTERM comes, then kills all its descendants;
    its exit status."""
    stop = False

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        nonlocal stop
        stop = True

    libc = ctypes.CDLL(None)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)  # whoever loses its parent becomes a child of this process
    libc.prctl(_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    agent = os.fork()
    if agent == 0:
        _die_with(os.getppid())
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        start()
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGTERM, ask_to_stop)
    status = None
    while status is None and not stop:
        ready, _, _ = select.select([0, wake], [], [], 1.0)
        if wake in ready:
            os.read(wake, 4096)
        stop = stop or (0 in ready and not os.read(0, 1))
        status = _reap(agent)
    signal.set_wakeup_fd(-1)
    _end_descendants()
    return 1 if status is None else status


def _run_command(words: list[str]) -> None:
    try:
        os.execvp(words[0], words)
    except OSError as error:
        print(f"error: {words[0]} cannot be run: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def run_torchrun(arguments: list[str]) -> None:
    """Becomes torchrun, whose pid its ranks find in the environment."""
    os.environ[AGENT] = str(os.getpid())
    sys.argv = ["torchrun", *arguments]
    runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
    sys.exit(0)


def _reap(agent: int) -> int | None:
    """Takes leave of every child that ended; the status of torchrun when it is among them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == agent:
                status = os.waitstatus_to_exitcode(ended[1])
    return status


def _end_descendants() -> None:
    end = time.monotonic() + _GIVE_UP_S
    while time.monotonic() < end:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.01)
            continue
        return  # no child is left, so no descendant


def descendants(root: int) -> list[int]:
    """The processes below one, itself apart."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _die_with(parent: int) -> None:
    from harness.child import die_with_parent

    die_with_parent()
    if os.getppid() != parent:  # it ended before the kernel was asked
        os.kill(os.getpid(), signal.SIGKILL)


def _watch_parent() -> None:
    """Ends this process soon after its parent.

    The kernel would do so at once, but when the thread that started it ends: an emulator has threads that come and go.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_S)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="harness-watch", daemon=True).start()


def run_rank(folder: Path, program: Path, arguments: list[str]) -> None:
    """Runs a program as `__main__` with its output in the rank's log; leaves its pid, exit status and time as notes."""
    if AGENT in os.environ:
        _die_with(int(os.environ[AGENT]))
    else:  # started by an emulator
        _watch_parent()
    mine = f"rank-{os.environ['RANK']}"
    log = os.open(folder / f"{mine}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    stacks = (folder / f"{mine}.stack").open("ab", buffering=0)  # open as long as the process lives
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    pid = os.getpid()
    _note(folder / f"{mine}.pid", pid)
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.parent))
    status = 1
    really_exit = os._exit

    def exit_with_note(status: int) -> NoReturn:
        if os.getpid() == pid:
            _note(folder / f"{mine}.exit", status & 0xFF)
        really_exit(status)

    os._exit = exit_with_note
    try:
        runpy.run_path(str(program), run_name="__main__")
        status = 0
    except SystemExit as left:
        status = left.code & 0xFF if isinstance(left.code, int) else int(left.code is not None)
        raise
    finally:
        if os.getpid() == pid:  # not a fork of it that came here
            _note(folder / f"{mine}.exit", status)


def _note(path: Path, value: int) -> None:
    path.write_text(json.dumps([value, time.monotonic()]))


def main() -> None:
    """One of the roles, by the first argument."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if Path(p).resolve() != here]  # its modules must shadow nobody's
    sys.path.append(str(here.parent))
    role, rest = sys.argv[1], sys.argv[2:]
    if role == "--agent":
        _watch_parent()
        run_torchrun(rest)
    if role in ("--keep", "--keep-command"):
        status = keep(lambda: run_torchrun(rest) if role == "--keep" else _run_command(rest))
        if status < 0:
            with contextlib.suppress(OSError):  # SIGKILL has no handler to reset
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        sys.exit(status)
    run_rank(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])


if __name__ == "__main__":
    main()
