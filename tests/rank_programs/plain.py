"""One rank without torch: `plain.py FAULT RANK` makes that rank do it while the others wait, or all of them for `all`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def leave_with_3() -> None:
    sys.exit(3)


def leave_at_once() -> None:
    os._exit(7)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop_itself() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def fail() -> None:
    raise ValueError("the loss is not a number")


def ignore_term_and_hang() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wait_for_the_others()


def print_200_mb() -> None:
    print("HARNESS-STEP 1")
    for _ in range(200):
        os.write(1, (b"x" * 99 + b"\n") * 10_000)
    print("the end of the noise")


def print_without_end() -> None:
    while True:
        os.write(1, (b"x" * 99 + b"\n") * 10_000)


def print_bytes() -> None:
    os.write(1, b"before \xff\xfe\x00 after\n")
    sys.exit(5)


def take_steps() -> None:
    print("timestep 99")
    for step in range(515, 518):
        print(f"[ train ] Global Step {step:06d} loss 0.5")
    print("steps 7, then nothing")
    os.system("echo said by a child")


def fork_and_leave() -> None:
    if os.fork() == 0:
        sys.exit(9)
    os.wait()


def leave_a_stubborn_child(environment: dict[str, str] | None = None) -> None:
    child = subprocess.Popen([sys.executable, "-c", STUBBORN], start_new_session=True, env=environment)
    print(f"child {child.pid}", flush=True)


def leave_a_bare_stubborn_child() -> None:
    leave_a_stubborn_child({})


def hang_beside_a_stubborn_child() -> None:
    leave_a_bare_stubborn_child()
    wait_for_the_others()


def leave_a_marked_child_and_hang() -> None:
    leave_a_stubborn_child()
    wait_for_the_others()


def one_fails_one_ignores() -> None:
    if os.environ["RANK"] == "1":
        time.sleep(1)  # until the other one ignores SIGTERM
        sys.exit(3)
    ignore_term_and_hang()


def stop_beside_a_recorder() -> None:
    print("ready", flush=True)
    if os.environ["RANK"] == "1":
        stop_itself()
    threading.Thread(target=record, daemon=True).start()
    wait_for_the_others()


def record() -> None:
    """Does what torch's flight recorder does: listens on a pipe, and writes a dump when something comes."""
    pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + os.environ["RANK"] + ".pipe"
    os.mkfifo(pipe)
    Path(pipe).read_bytes()
    Path(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + os.environ["RANK"]).write_text("a dump")


def do_nothing() -> None:
    pass


def wait_for_the_others() -> None:
    while True:
        time.sleep(600)


fault: Callable[[], None] = globals()[sys.argv[1]]
if sys.argv[2] == "all" or int(sys.argv[2]) == int(os.environ["RANK"]):
    fault()
else:
    wait_for_the_others()
