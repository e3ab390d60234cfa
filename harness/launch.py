"""Starts N ranks with torchrun under a time limit, says of each how it ended, and leaves nothing of it alive.

launch -> keeper (`rank_main.py --keep`) -> torchrun -> ranks. Each dies with the one before it; the keeper adopts
and kills what lost its parent; what escapes even that is found by a marker in its environment.
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
from dataclasses import dataclass
from pathlib import Path

from harness import rank_logs
from harness.child import signal_name
from harness.errors import UsageError
from harness.rank_watch import WatchedRank

MARKER = "HARNESS_LAUNCH"
"""The environment variable that every process of a launch carries."""

NOISE_LIMIT_BYTES = 256 << 20
DETAIL_LIMIT = 8000
_GRACE_S = 3.0
_AFTER_FAILURE_S = 5.0
_GIVE_UP_S = 20.0
_POLL_S = 0.05
_HEAD_START_S = 0.5
_REPORTED = re.compile(r"rank\s*:\s*(\d+)[^\n]*\n\s*exitcode\s*:\s*(-?\d+)")
_CLOSING = b"closing signal"


@dataclass(frozen=True)
class RankOutcome:
    """How one rank ended, and what it left."""

    rank: int
    exit_status: int | None
    signal: str | None
    state: str
    log: Path
    tail: str
    last_step: int | None
    stack: str | None


@dataclass(frozen=True)
class Launched:
    """How a launch ended: `kind` is None when every rank left with 0, else "crash" or "hang"."""

    kind: str | None
    message: str
    first_failed: int | None
    ranks: tuple[RankOutcome, ...]
    duration_s: float
    detail: str


def launch(
    program: Path,
    arguments: Sequence[str] = (),
    *,
    ranks: int,
    logs: Path,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
    say: Callable[[str], None] | None = None,
) -> Launched:
    """Runs a program as `ranks` ranks for at most `limit_s` seconds; when it returns or raises, all are gone.

    The ranks' output is in `logs/rank-N.log`; `say` is told the lines of rank 0 while it runs.
    UsageError when there is no such program or no rank to start.
    """
    if ranks < 1:
        raise UsageError(f"cannot start {ranks} ranks: ask for one or more")
    program = Path(program).absolute()
    if not program.is_file():
        raise UsageError(f"there is no program {program} to launch: check the path")
    logs = Path(logs).absolute()
    logs.mkdir(parents=True, exist_ok=True)
    started = _Launch(ranks, logs, limit_s, say)
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
        self.torchrun_log = logs / "torchrun.log"
        self.ranks = [WatchedRank(logs, n) for n in range(ranks)]
        self.follower = rank_logs.Follower(self.ranks[0].log, say) if say else None
        self.keeper: subprocess.Popen[bytes] | None = None
        self.began = time.monotonic()
        self.ended: float | None = None
        self.late = False
        self.noisy: WatchedRank | None = None
        self.remarks: list[str] = []

    def start(self, program: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts the keeper, which starts torchrun, which starts the ranks."""
        for old in self.logs.iterdir():
            if re.fullmatch(r"rank-\d+\.(log|pid|exit|stack)|torchrun\.log|flight-recorder-\S+", old.name):
                old.unlink()
        main = str(Path(__file__).with_name("rank_main.py"))
        torchrun = ["--standalone", "--nproc-per-node", str(len(self.ranks))]
        torchrun += ["--log-dir", str(self.logs / "torchrun")]  # else it leaves folders in /tmp
        given = {**_flight_recorder(self.logs), **os.environ, **environment, MARKER: self.marker}
        with self.torchrun_log.open("wb") as log:
            self.keeper = subprocess.Popen(
                [sys.executable, main, "--keep", *torchrun, main, str(self.logs), str(program), *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=given,
                start_new_session=True,
            )

    def watch(self) -> None:
        """Waits for the end of all; ends them itself at the time limit, and when one prints without end."""
        assert self.keeper is not None
        failed_at: float | None = None
        while self.keeper.poll() is None:
            self._wait()
            now = time.monotonic()
            if self.follower:
                self.follower.follow()
            if failed_at is None and self._one_failed():
                failed_at = now
            if self.noisy is None:
                self.noisy = next((r for r in self.ranks if _size(r.log) > NOISE_LIMIT_BYTES), None)
            if self.noisy:
                return
            if now - self.began > self.limit_s:
                self._at_the_limit()
                return
            if failed_at is not None and now - failed_at > _AFTER_FAILURE_S:
                for rank in self.ranks:  # what ignores torchrun's SIGTERM, which would wait 30 s
                    rank.kill()

    def _wait(self) -> None:
        poll = select.poll()
        for rank in self.ranks:
            if rank.descriptor is not None:
                poll.register(rank.descriptor, select.POLLIN)
        poll.poll(_POLL_S * 1000)
        now = time.monotonic()
        for rank in self.ranks:
            rank.look(now)

    def _one_failed(self) -> bool:
        if any(r.left and r.left[0] for r in self.ranks):
            return True
        return _CLOSING in rank_logs.read_tail(self.torchrun_log).encode()

    def _at_the_limit(self) -> None:
        self.late = True
        for rank in self.ranks:
            if rank.alive():
                rank.late = "stopped" if rank.state() in ("T", "t") else "running"
        self._collect_evidence([r for r in self.ranks if r.late == "running"])
        _signal_all(self.marker, signal.SIGTERM, but=self.keeper.pid if self.keeper else 0)
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.keeper:
                self.keeper.wait(_GRACE_S)

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
        for rank in self.ranks:
            rank.look(time.monotonic())
        if self.keeper is not None:
            assert self.keeper.stdin is not None
            self.keeper.stdin.close()  # the keeper kills all that descends from it
            try:
                self.keeper.wait(_GIVE_UP_S)
            except subprocess.TimeoutExpired:
                self.keeper.kill()
                self.keeper.wait()
        end = time.monotonic() + _GIVE_UP_S
        while left := _signal_all(self.marker, signal.SIGKILL):
            if time.monotonic() > end:
                self.remarks.append(f"process {left} did not end after SIGKILL")
                break
            time.sleep(_POLL_S)
        for rank in self.ranks:
            rank.look(time.monotonic())
            rank.close()
        self.ended = time.monotonic()

    def outcome(self) -> Launched:
        """What is known when all is over."""
        raise NotImplementedError
