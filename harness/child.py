"""One child process that answers requests; may hang or crash without harm to the one that asks.

The parent's end is `Child`; the child's end is `serve`. Requests and answers are JSON, one a line. The child
and all that it started are killed as a group after a time limit, and die with the parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

START_LIMIT_S = 180.0
_TAIL_BYTES = 6000


class ChildFailure(Exception):
    """The child gave no answer; `kind` is `hang`, `crash` or `harness`, `detail` the end of its log."""

    def __init__(self, kind: str, message: str, detail: str) -> None:
        super().__init__(message)
        self.kind, self.detail = kind, detail


class Child:
    """The parent's end. A child that hung or died is started anew for the next request."""

    def __init__(
        self,
        program: Path,
        arguments: list[str],
        log: Path,
        environment: Mapping[str, str],
        start_limit_s: float = START_LIMIT_S,
    ) -> None:
        self.program, self.arguments, self.log = program, arguments, log
        self.environment, self.start_limit_s = dict(environment), start_limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def call(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """The child's answer; ChildFailure when it does not come within `limit_s` seconds."""
        process = self._process or self._start()
        self._send(process, request)
        answer = self._receive(process, limit_s, f"no answer within {limit_s:g} s")
        if "broken" in answer:
            raise ChildFailure("harness", "the program that should ask the target broke", answer["broken"])
        return answer

    def close(self) -> None:
        """Ends the child and all that it started."""
        process, self._process, self._buffer = self._process, None, b""
        if process is None:
            return
        _kill_group(process.pid)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-u", str(self.program), *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        self._receive(self._process, self.start_limit_s, f"did not start within {self.start_limit_s:g} s")
        return self._process

    def _send(self, process: subprocess.Popen[bytes], request: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died while idle; the missing answer tells
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()

    def _receive(self, process: subprocess.Popen[bytes], limit_s: float, late: str) -> dict[str, Any]:
        assert process.stdout is not None
        end = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            left = end - time.monotonic()
            ready = select.select([process.stdout], [], [], max(left, 0))[0]
            if not ready:
                self._dump_stacks(process)
                self.close()
                raise ChildFailure("hang", late, self._tail())
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                status = _exit_status(process)
                self.close()
                raise ChildFailure("crash", f"the process {status}", self._tail())
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _dump_stacks(self, process: subprocess.Popen[bytes]) -> None:
        try:
            os.kill(process.pid, signal.SIGUSR1)
        except ProcessLookupError:
            return
        time.sleep(0.3)

    def _tail(self) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def _exit_status(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return "closed its output and goes on"
    return f"was ended by {signal_name(-code)}" if code < 0 else f"left with exit status {code}"


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11; `signal 99` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def die_with_parent() -> None:
    """Makes the kernel kill this process when the one that started it ends (Linux)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def serve(handlers: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """The child's end: answers each request `{"do": name, ...}` by `handlers[name](**rest)` until input ends.

    What libraries print goes to the log. An exception in a handler is answered as `broken`, with its trace.
    """
    die_with_parent()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    answers.write(b'{"ready": true}\n')
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request.pop("do")](**request)
        except Exception:  # noqa: BLE001 - whatever broke is the answer
            answer = {"broken": traceback.format_exc()}
        answers.write(json.dumps(answer).encode() + b"\n")
    # Threads that hang in a decoder must not keep the process.
    os._exit(0)
