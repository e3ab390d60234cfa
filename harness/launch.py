"""Starts N ranks with torchrun under a time limit, says of each how it ended, and leaves nothing of it alive.

launch -> keeper (`rank_main.py --keep`) -> torchrun -> ranks. Each dies with the one before it; the keeper adopts
and kills what lost its parent; what escapes even that is found by a marker in its environment. Behind an emulator:
launch -> keeper -> emulator -> torchrun -> ranks on one node, launch -> keeper -> emulator -> ranks on several.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness import rank_logs
from harness.errors import UsageError
from harness.launched import Ending, Launched, RankOutcome, conclude
from harness.rank_main import AGENT
from harness.rank_watch import LAUNCH, WatchedRank, note_launch

__all__ = ["MARKER", "Launched", "RankOutcome", "launch"]

MARKER = "HARNESS_LAUNCH"
"""The environment variable that every process of a launch carries."""

NOISE_LIMIT_BYTES = 256 << 20
_GRACE_S = 3.0
_TEARDOWN_S = 10.0
_AFTER_FAILURE_S = 5.0
_GIVE_UP_S = 20.0
_POLL_S = 0.05
_RECORDER = "flight-recorder-"
_CLOSING = b"closing signal"


def launch(
    program: Path,
    arguments: Sequence[str] = (),
    *,
    ranks: int,
    logs: Path,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
    say: Callable[[str], None] | None = None,
    wrap: Callable[[list[str]], list[str]] | None = None,
    clean_up: Callable[[], None] | None = None,
    nodes: int = 1,
) -> Launched:
    """Runs a program as `ranks` ranks for at most `limit_s` seconds; when it returns or raises, all are gone.

    The ranks' output is in `logs/rank-N.log`; `say` is told the lines of rank 0 while it runs. `wrap` puts a command
    before the words that start the ranks, or, on several nodes, before those of one rank, which it then starts
    `ranks / nodes` times on each; `clean_up` is called after it was killed.
    UsageError when there is no such program, no rank to start, or no command that starts several nodes.
    """
    if ranks < 1:
        raise UsageError(f"cannot start {ranks} ranks: ask for one or more")
    if nodes < 1 or ranks % nodes:
        raise UsageError(f"cannot start {ranks} ranks on {nodes} nodes: ask for as many on each")
    program = Path(program).absolute()
    if not program.is_file():
        raise UsageError(f"there is no program {program} to launch: check the path")
    logs = Path(logs).absolute()
    logs.mkdir(parents=True, exist_ok=True)
    started = _Launch(ranks, logs, limit_s, say)
    started.wrap, started.clean_up, started.nodes = wrap, clean_up, nodes
    try:
        started.start(program, arguments, environment or {})
        started.watch()
    finally:
        started.end()
    return started.outcome()


class _Launch:
    def __init__(self, ranks: int, logs: Path, limit_s: float, say: Callable[[str], None] | None) -> None:
        self.logs, self.limit_s = logs, limit_s
        self.marker = uuid.uuid4().hex
        self.ranks = [WatchedRank(logs, n) for n in range(ranks)]
        self.follower = rank_logs.Follower(self.ranks[0].log, say) if say else None
        self.wrap: Callable[[list[str]], list[str]] | None = None
        self.clean_up: Callable[[], None] | None = None
        self.nodes = 1
        self.keeper: subprocess.Popen[bytes] | None = None
        self.descriptor: int | None = None
        self.began = time.monotonic()
        self.ending = Ending(torchrun_log=logs / "torchrun.log", noise_limit_bytes=NOISE_LIMIT_BYTES)

    def start(self, program: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts the keeper, which starts torchrun, which starts the ranks."""
        for old in self.logs.iterdir():
            if re.fullmatch(r"rank-\d+\.(log|pid|exit|stack)|torchrun\.log|flight-recorder-\S+", old.name):
                old.unlink()
        note_launch(self.logs, len(self.ranks), self.limit_s, self.began)
        given = {**_flight_recorder(self.logs), **os.environ, **environment, MARKER: self.marker}
        given.pop(AGENT, None)
        with self.ending.torchrun_log.open("wb") as log:
            self.keeper = subprocess.Popen(
                self._words([str(program), *arguments]),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=given,
                start_new_session=True,
            )
        with contextlib.suppress(OSError, AttributeError):  # without it, the end is seen a little later
            self.descriptor = os.pidfd_open(self.keeper.pid)

    def _words(self, program: list[str]) -> list[str]:
        """The keeper's command line."""
        main = str(Path(__file__).with_name("rank_main.py"))
        rank = [main, str(self.logs), *program]
        torchrun = ["--standalone", "--nproc-per-node", str(len(self.ranks))]
        torchrun += ["--log-dir", str(self.logs / "torchrun")]  # else it leaves folders in /tmp
        words = [sys.executable, *(rank if self.nodes > 1 else [main, "--agent", *torchrun, *rank])]
        command = self.wrap(words) if self.wrap else words
        if command == words and self.nodes > 1:
            raise UsageError(f"cannot start {self.nodes} nodes: choose a runner that emulates them")
        if command == words:
            return [sys.executable, main, "--keep", *torchrun, *rank]
        self.ending.emulator, self.ending.nodes = Path(command[0]).name, self.nodes
        return [sys.executable, main, "--keep-command", *command]

    def watch(self) -> None:
        """Waits for the end of all; ends them itself at the time limit, and when one prints without end."""
        assert self.keeper is not None
        failed_at: float | None = None
        while self.keeper.poll() is None:
            now = self._wait()
            if self.follower:
                self.follower.follow()
            noisy = next((r for r in self.ranks if _size(r.log) > NOISE_LIMIT_BYTES), None)
            if noisy:
                self.ending.noisy = noisy
                self._note_the_late()
                return
            if now - self.began > self.limit_s:
                self.ending.late_s = self.limit_s
                self._note_the_late()
                self._collect_evidence([r for r in self.ranks if r.late == "running"])
                self._ask_to_end()
                return
            if failed_at is None and self._one_failed():
                failed_at = now
            if failed_at is not None and now - failed_at > _AFTER_FAILURE_S:
                for rank in self.ranks:  # what ignores torchrun's SIGTERM, for which it would wait 30 s
                    if rank.alive():
                        self.ending.killed.add(rank.number)
                    rank.kill()
        self.ending.status = self.keeper.returncode

    def _wait(self) -> float:
        poll = select.poll()
        for descriptor in (self.descriptor, *(rank.descriptor for rank in self.ranks)):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        poll.poll(_POLL_S * 1000)
        now = time.monotonic()
        for rank in self.ranks:
            rank.look(now)
        return now

    def _one_failed(self) -> bool:
        if any(r.left and r.left[0] for r in self.ranks):
            return True
        if self.nodes > 1 and any(r.gone_at is not None and r.left is None for r in self.ranks):
            return True
        return _CLOSING in rank_logs.read_tail(self.ending.torchrun_log).encode()

    def _note_the_late(self) -> None:
        for rank in self.ranks:
            if rank.alive():
                rank.late = "stopped" if rank.state() in ("T", "t") else "running"

    def _ask_to_end(self) -> None:
        assert self.keeper is not None
        _signal_all(self.marker, signal.SIGTERM, but=self.keeper.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.keeper.wait(_GRACE_S if self.ending.emulator is None else _TEARDOWN_S)

    def _collect_evidence(self, running: list[WatchedRank]) -> None:
        for rank in running:
            rank.ask_for_stack()
        asked = _ask_flight_recorder(self.logs)
        end = time.monotonic() + (_GRACE_S if asked else 1.0)
        while time.monotonic() < end and (asked or not all(_size(r.stack) for r in running)):
            time.sleep(_POLL_S)
        time.sleep(2 * _POLL_S)  # until the last one is written to its end
        if spy := shutil.which("py-spy"):
            for rank in running:
                with contextlib.suppress(subprocess.TimeoutExpired, OSError), rank.stack.open("ab") as file:
                    subprocess.run(
                        [spy, "dump", "--native", "--pid", str(rank.pid)],
                        stdout=file,
                        stderr=subprocess.DEVNULL,
                        timeout=10,
                        check=False,
                    )

    def end(self) -> None:
        """Ends whatever is left, at once."""
        if self.keeper is not None:
            assert self.keeper.stdin is not None
            self.keeper.stdin.close()  # the keeper kills all that descends from it
            try:
                self.keeper.wait(_GIVE_UP_S)
            except subprocess.TimeoutExpired:
                self.keeper.kill()
        end = time.monotonic() + _GIVE_UP_S
        while left := _signal_all(self.marker, signal.SIGKILL):
            if time.monotonic() > end:
                self.ending.remarks.append(f"did not end after SIGKILL: processes {left}")
                break
            time.sleep(0.01)
        if self.keeper is not None:
            self.keeper.wait()
            if self.clean_up is not None and (self.ending.status is None or self.ending.status < 0):
                self.clean_up()
        if self.descriptor is not None:
            os.close(self.descriptor)
        for rank in self.ranks:
            rank.look(time.monotonic())
            rank.close()

    def outcome(self) -> Launched:
        """What is known when all is over."""
        if self.follower:
            self.follower.follow(last=True)
        dumps = sorted(p.name for p in self.logs.glob(f"{_RECORDER}*") if p.is_file())
        if dumps:
            self.ending.remarks.append(f"dumps of the flight recorder: {', '.join(dumps)}")
        self.ending.duration_s = time.monotonic() - self.began
        told = conclude(self.ranks, self.ending)
        for rank in self.ranks:
            rank.forget_notes()
        (self.logs / LAUNCH).unlink(missing_ok=True)
        shutil.rmtree(self.logs / "torchrun", ignore_errors=True)
        return told


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _signal_all(marker: str, number: signal.Signals, but: int = 0) -> list[int]:
    """Sends a signal to every living process of a launch; their pids."""
    found = []
    needle = f"{MARKER}={marker}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        pid = int(path.parent.name)
        with contextlib.suppress(OSError):
            if pid != but and needle in path.read_bytes():  # a zombie's is empty
                os.kill(pid, number)
                found.append(pid)
    return found


def _flight_recorder(logs: Path) -> dict[str, str]:
    """What makes torch record its collectives, and dump the record into the logs at a timeout or when asked."""
    dump = str(logs / _RECORDER)
    try:
        renamed = [int(part) for part in version("torch").split(".")[:2]] >= [2, 9]
    except (PackageNotFoundError, ValueError):
        renamed = True
    if renamed:  # it warns of the old names in every rank's log
        names = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_FR_DUMP_TEMP_FILE": dump}
    else:
        names = {
            "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",  # vendor-ok: torch has this name on every vendor
            "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": dump,  # vendor-ok: torch has this name on every vendor
        }
    return {
        **names,
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",  # vendor-ok: torch has this name on every vendor
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": dump,  # vendor-ok: torch has this name on every vendor
    }


def _ask_flight_recorder(logs: Path) -> bool:
    """Asks every recorder that listens on a pipe for a dump; whether there is one."""
    asked = False
    for pipe in logs.glob(f"{_RECORDER}*.pipe"):
        with contextlib.suppress(OSError):
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            os.write(descriptor, b"1")
            os.close(descriptor)
            asked = True
    return asked
