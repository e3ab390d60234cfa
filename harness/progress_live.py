"""Shows how far a session is: at the foot of a terminal, or in a log one line a minute. pytest's own output stays as it is.

On a terminal the last lines are kept out of what scrolls (the scroll region that terminals know, DECSTBM): whatever
pytest, workers or tests print goes on above, unchanged, and no output has to be caught. Nothing here may end a run: what
goes wrong is told once on stderr, and the display is gone.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from harness import progress_text, terminal
from harness.outcomes import plain_id
from harness.progress_watch import Watch
from harness.terminal import Foot

if TYPE_CHECKING:
    from harness.session import State

INTERVAL_S = 0.5
MEASURING_S = 2.0
"""Between two drawings while repeated tests run: they measure, and the display must not be seen in what they measure."""
HEARTBEAT_S = 60.0
"""Between two lines in a log."""
SHARE = 2
"""The display takes one line of so many at the most."""

F = TypeVar("F", bound=Callable[..., Any])


def attach(config: pytest.Config, state: State) -> None:
    """Adds the display to the process of a session that the user sees."""
    try:
        descriptor = os.dup(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return  # the output is no file, as when a program calls pytest
    try:
        config.pluginmanager.register(Display(config, state, descriptor, os.environ), "harness-progress")
    except Exception as error:  # noqa: BLE001 - told on stderr, and the run goes on
        os.write(2, _farewell(error))


def _never_fatal(hook: F) -> F:
    """What goes wrong in the display ends the display, not the run."""

    @functools.wraps(hook)
    def guarded(self: Display, *given: Any, **named: Any) -> Any:
        if self.broken:
            return None
        try:
            return hook(self, *given, **named)
        except Exception as error:  # noqa: BLE001 - told on stderr, and the run goes on
            self.give_up(error)
            return None

    return cast(F, guarded)


class Display:
    """Listens to the session, and shows from a thread of its own what it has heard."""

    def __init__(
        self,
        config: pytest.Config,
        state: State,
        descriptor: int,
        variables: Any,
        clock: Any = time.monotonic,
    ) -> None:
        self._config, self._state, self._clock = config, state, clock
        self._descriptor, self._stderr = descriptor, os.dup(2)
        to_terminal = os.isatty(descriptor)
        self._foot = Foot(descriptor) if terminal.is_live(to_terminal, variables) else None
        self._color = terminal.has_color(to_terminal, variables)
        self._watch = Watch(state.folder, state, config.option.base is not None, clock())
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._go, name="harness-progress", daemon=True)
        self.broken = False

    # What the session tells.

    @_never_fatal
    def pytest_sessionstart(self) -> None:
        atexit.register(self.stop)
        self._thread.start()

    @_never_fatal
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._plan([i.nodeid for i in session.items])

    @pytest.hookimpl(optionalhook=True)
    @_never_fatal
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self._watch.workers.add(id(node))
        self._plan(ids)

    @pytest.hookimpl(optionalhook=True)
    @_never_fatal
    def pytest_testnodedown(self, node: Any) -> None:
        self._watch.workers.discard(id(node))

    def _plan(self, ids: list[str]) -> None:
        self._watch.plan(plain_id(i) for i in ids)

    @_never_fatal
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._watch.start(plain_id(nodeid), self._clock())

    @_never_fatal
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        worker = getattr(report, "worker_id", "main")
        self._watch.report(plain_id(report.nodeid), worker, report.failed)

    @_never_fatal
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._watch.finish(plain_id(nodeid), self._clock())

    @pytest.hookimpl(optionalhook=True)
    @_never_fatal
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        self._watch.finish(plain_id(crashitem), self._clock())

    @_never_fatal
    def pytest_enter_pdb(self) -> None:
        self.stop()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        # The repeated tests run inside; pytest's summary comes after it.
        self._watch.ending = True
        try:
            return (yield)
        finally:
            self.stop()

    def pytest_unconfigure(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Takes the display away; the second time nothing."""
        if not self._over.is_set():
            self._over.set()
            atexit.unregister(self.stop)
            if self._thread.is_alive() and self._thread is not threading.current_thread():
                self._thread.join(5)
            self._wipe()

    def _wipe(self) -> None:
        with self._lock:
            if self._foot is not None:
                with contextlib.suppress(OSError):  # the terminal has gone
                    self._foot.close()

    def give_up(self, error: Exception) -> None:
        """Ends the display and says why, once."""
        if not self.broken:
            self.broken = True
            self._over.set()
            self._wipe()
            os.write(self._stderr, _farewell(error))

    # What is shown.

    def _go(self) -> None:
        try:
            self._watch.remember()
            last = self._clock()
            while not self._over.wait(self._interval()):
                now = self._clock()
                if self._foot is not None:
                    self._draw(now)
                elif now - last >= HEARTBEAT_S:
                    last = now
                    self._beat(now)
        except Exception as error:  # noqa: BLE001 - told on stderr, and the run goes on
            self.give_up(error)

    def _interval(self) -> float:
        if self._foot is None:
            return min(1.0, HEARTBEAT_S)
        return MEASURING_S if self._watch.ending else INTERVAL_S

    def _draw(self, now: float) -> None:
        assert self._foot is not None
        width, height = self._foot.size()
        room = height // SHARE
        lines = progress_text.render_region(
            self._watch.look(now), width=width, height=room, color=self._color, ascii_only=_is_ascii()
        )
        with self._lock:
            if not self._over.is_set() and room:
                self._foot.draw(lines)

    def _beat(self, now: float) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        middle = reporter is not None and reporter._tw.width_of_current_line > 0
        text = f"{chr(10) if middle else ''}{progress_text.render_heartbeat(self._watch.look(now))}\n"
        os.write(self._descriptor, _encode(text))


def _farewell(error: Exception) -> bytes:
    text = f"harness: progress is not shown any more, the run goes on: {type(error).__name__}: {error}\n"
    return text.encode(errors="replace")


def _encode(text: str) -> bytes:
    return text.encode(sys.stdout.encoding or "utf-8", "replace")


def _is_ascii() -> bool:
    return not (sys.stdout.encoding or "").lower().startswith("utf")
