"""What a person sees while a session runs, in a real terminal; and that a pipe sees nothing of it."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runs
import terminals
from harness import ROOT, rundir
from harness.terminal import GIVE_BACK, Foot

SUITE = """
import pathlib, time, pytest
FOLDER = pathlib.Path(__file__).parents[2]
def wait(name):
    while not (FOLDER / name).exists():
        time.sleep(0.02)
def test_control(): pass
def test_fails(): assert 1 == 2
def test_waits():
    print("told by the test")
    wait("go")
"""
LIVE = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONUTF8": "1"}
Begin = Callable[..., terminals.Terminal]
SGR = re.compile(rb"\x1b\[([0-9;]*)m")


def suite(folder: Path, text: str = SUITE, conftest: str = "") -> None:
    """A made-up suite that runs until files appear in `folder`."""
    (folder / "suites" / "demo").mkdir(parents=True)
    (folder / "suites" / "demo" / "test_demo.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(conftest)


def variables(**more: str) -> dict[str, str]:
    dropped = ("PYTEST", "COV", "CI", "NO_COLOR", "FORCE_COLOR", "PY_COLORS", "GITHUB_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    return {**kept, **LIVE, "PYTHONPATH": str(ROOT), **more}


def command(folder: Path, *options: str) -> list[str]:
    return runs.command(folder / "run", "suites", "--target", "reference", *options)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., terminals.Terminal]]:
    """Starts a session in a terminal, which is taken away when the test is over."""
    begun = []

    def start(*options: str, **more: str) -> terminals.Terminal:
        begun.append(terminals.Terminal(command(tmp_path, *options), tmp_path, variables(**more)))
        return begun[-1]

    yield start
    for terminal in begun:
        terminal.close()


def ends_clean(terminal: terminals.Terminal) -> None:
    """Nothing of the display is left: no line of it, no region, and a prompt would come under pytest's last line."""
    assert terminal.screen.margins is None
    assert "now:" not in terminal.text()
    assert "so far" not in terminal.text()
    below = terminal.screen.display[terminal.screen.cursor.y :]
    assert not "".join(below).strip()
    assert not terminal.screen.cursor.hidden


@pytest.mark.parametrize("options", [(), ("-n", "2", "--dist", "loadgroup"), ("-s",)])
def test_a_terminal_shows_what_runs(options: tuple[str, ...], tmp_path: Path, begin: Begin) -> None:
    """Counts of the suite, its failures and the running test stand below pytest's own output, and leave at the end."""
    suite(tmp_path)
    terminal = begin(*options)
    shown = terminal.wait_for(
        lambda text: "demo/test_demo.py::test_waits" in text and "2 of 3 tests done, 1 failed" in text
    )
    assert re.search(r"^demo +\S+ 2 of 3  1 failed$", shown, re.MULTILINE)
    assert re.search(r"^now: +\d+ s  demo/test_demo.py::test_waits$", shown, re.MULTILINE)
    assert re.search(r"so far, time left unknown$", shown, re.MULTILINE)
    (tmp_path / "go").touch()
    assert terminal.wait() == 1
    ends_clean(terminal)
    text = terminal.text()
    assert "1 failed, 2 passed" in text
    assert "assert 1 == 2" in text
    assert ("told by the test" in text) is (options == ("-s",))
    outcomes = {t.partition("::")[2]: r.outcome for t, r in rundir.load(tmp_path / "run").by_test().items()}
    assert outcomes == {"test_control": "passed", "test_fails": "failed", "test_waits": "passed"}


def test_repeated_tests_are_shown(tmp_path: Path, begin: Begin) -> None:
    """Of repeated tests it is shown which process of how many runs, and the test in it; then how long the rest takes."""
    text = SUITE.replace("def test_fails(): assert 1 == 2", "").replace(
        "def test_waits():",
        "@pytest.mark.repeated\ndef test_waits(record):\n    record.metric('a', 's', [1.0])",
    )
    text = text.replace('wait("go")', 'wait("go" if not (FOLDER / "first").exists() else "on")')
    suite(
        tmp_path,
        text + "\n    (FOLDER / 'first').touch()\n",
        "from harness import progress_live as p; p.MEASURING_S = 0.2",
    )
    terminal = begin("--repeat", "2")
    shown = terminal.wait_for(lambda t: "repeated tests, process 1 of 2" in t and "::test_waits" in t)
    assert "1 of 3 tests done" in shown
    (tmp_path / "go").touch()
    shown = terminal.wait_for(lambda t: "repeated tests, process 2 of 2" in t and "::test_waits" in t)
    assert "2 of 3 tests done" in shown
    (tmp_path / "on").touch()
    assert terminal.wait() == 0
    ends_clean(terminal)
    for number in (1, 2):
        assert re.search(rf"^repeated tests: process {number} of 2: [\d.]+ s$", terminal.text(), re.MULTILINE)


def test_ranks_are_shown(tmp_path: Path, begin: Begin) -> None:
    """Of a launch it is shown how many ranks there are, which step rank 0 told last, and the time limit."""
    suite(
        tmp_path,
        SUITE.replace("def test_fails(): assert 1 == 2", "")
        + """
def test_ranks(launch):
    launch(FOLDER / "program.py", {}, ranks=2, limit_s=100)
""",
    )
    (tmp_path / "program.py").write_text(
        "import pathlib, time\nfrom harness import ranks\n"
        "def answer(rank):\n    print('step 3', flush=True)\n"
        "    while not (pathlib.Path(__file__).parent / 'end').exists(): time.sleep(0.05)\n    return {}\n"
        "ranks.serve(answer)\n"
    )
    (tmp_path / "go").touch()
    terminal = begin("-n", "1")
    terminal.wait_for(lambda t: re.search(r"2 ranks, step 3, \d+ s of at most 1 min 40 s", t) is not None)
    (tmp_path / "end").touch()
    assert terminal.wait() == 0
    ends_clean(terminal)
    assert not list((tmp_path / "run").rglob("launch.json"))


def test_ctrl_c_leaves_a_clean_terminal(tmp_path: Path, begin: Begin) -> None:
    """An interrupted session ends as pytest's own does, and gives the terminal back."""
    suite(tmp_path)
    terminal = begin()
    terminal.wait_for(lambda t: "now:" in t and "test_waits" in t)
    terminal.type("\x03")
    assert terminal.wait() == 2
    ends_clean(terminal)
    assert "KeyboardInterrupt" in terminal.text()


def test_a_killed_session_can_be_wiped(tmp_path: Path, begin: Begin) -> None:
    """After a kill the session of nox gives the terminal back: no region, and the output stays."""
    suite(tmp_path)
    terminal = begin()
    terminal.wait_for(lambda t: "now:" in t and "test_waits" in t)
    terminal.kill()
    assert terminal.screen.margins is not None
    pyte.Stream(terminal.screen).feed(GIVE_BACK)
    ends_clean(terminal)
    assert ".F" in terminal.text()


def test_no_color(tmp_path: Path, begin: Begin) -> None:
    """With NO_COLOR the display is drawn without one color."""
    suite(tmp_path)
    for value, colored in (("1", False), ("", True)):
        for name in ("go", "run"):
            subprocess.run(["rm", "-rf", str(tmp_path / name)], check=True)
        terminal = begin(NO_COLOR=value)
        terminal.wait_for(lambda t: "now:" in t and "test_waits" in t)
        (tmp_path / "go").touch()
        assert terminal.wait() == 1
        ends_clean(terminal)
        assert any(code not in (b"", b"0") for code in SGR.findall(terminal.printed)) is colored


@pytest.mark.parametrize("more", [{"TERM": "dumb"}, {"CI": "true"}])
def test_a_terminal_that_is_none(more: dict[str, str], tmp_path: Path, begin: Begin) -> None:
    """A dumb terminal and a CI that gives one get no cursor movement, and the line of a log."""
    suite(tmp_path, conftest="from harness import progress_live as p; p.HEARTBEAT_S = 0.3")
    terminal = begin(**more)
    terminal.wait_for(lambda t: "still running: suites/demo/test_demo.py::test_waits since" in t)
    (tmp_path / "go").touch()
    assert terminal.wait() == 1
    assert not re.search(rb"\x1b[^\[]|\x1b\[[^m]*[^m0-9;]", terminal.printed)


def test_a_pipe_is_quiet(tmp_path: Path) -> None:
    """Into a pipe goes what pytest prints, without escape codes and without one line of the display."""
    suite(tmp_path)
    (tmp_path / "go").touch()
    done = subprocess.run(
        command(tmp_path, "-n", "1"),
        cwd=tmp_path,
        env=variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "\x1b" not in done.stdout
    assert "still running" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_a_log_is_not_dead(options: tuple[str, ...], tmp_path: Path) -> None:
    """In a log a line by itself says now and then what runs; no test captures it."""
    suite(tmp_path, conftest="from harness import progress_live as p; p.HEARTBEAT_S = 0.3")
    with subprocess.Popen(
        command(tmp_path, *options), cwd=tmp_path, env=variables(), stdout=subprocess.PIPE, text=True
    ) as process:
        limit = threading.Timer(terminals.LIMIT_S, process.kill)
        limit.start()
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if re.fullmatch(
                r"still running: suites/demo/test_demo.py::test_waits since \d+ s "
                r"\(2 of 3 tests done, 1 failed\)",
                lines[-1],
            ):
                (tmp_path / "go").touch()
        limit.cancel()
    assert (tmp_path / "go").exists()
    assert process.returncode == 1
    assert any(re.fullmatch(r"1 failed, 2 passed in .*s", line) for line in lines), lines
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize("what", ["render_region", "render_heartbeat"])
def test_a_fault_of_the_display_fails_no_run(what: str, tmp_path: Path, begin: Begin) -> None:
    """What goes wrong in the display is told once on stderr; the run ends as it would without it."""
    conftest = f"""
import pathlib
from harness import progress_live, progress_text
progress_live.HEARTBEAT_S = 0.1
def broken(*_, **__):
    (pathlib.Path(__file__).parent / "go").touch()
    raise RuntimeError("planted")
progress_text.{what} = broken
"""
    suite(tmp_path, conftest=conftest)
    line = "harness: progress is not shown any more, the run goes on: RuntimeError: planted"
    if what == "render_region":
        terminal = begin()
        assert terminal.wait() == 1
        printed = terminal.text()
        ends_clean(terminal)
    else:
        done = subprocess.run(
            command(tmp_path), cwd=tmp_path, env=variables(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        printed = done.stderr + done.stdout
        assert done.stderr.strip() == line
    assert printed.count(line) == 1
    assert "1 failed, 2 passed" in printed


def test_a_fault_in_a_hook_fails_no_run(tmp_path: Path) -> None:
    """A fault where the display listens to pytest ends the display alone."""
    conftest = """
import pathlib
from harness.progress_watch import Watch
(pathlib.Path(__file__).parent / "go").touch()
def broken(*_, **__):
    raise RuntimeError("planted")
Watch.start = broken
"""
    suite(tmp_path, conftest=conftest)
    done = subprocess.run(
        command(tmp_path), cwd=tmp_path, env=variables(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("planted") == 1
    assert "1 failed, 2 passed" in done.stdout


LINES = st.lists(st.text("abcdef", min_size=1, max_size=50), max_size=6)
STEPS = st.lists(
    st.tuples(st.just("print"), st.lists(st.text("xyz", max_size=9), max_size=9).map("\n".join))
    | st.tuples(st.just("draw"), LINES)
    | st.tuples(st.just("grow"), LINES),
    max_size=30,
)


@settings(max_examples=100)
@given(STEPS)
def test_output_is_whole_whatever_is_drawn(steps: list[tuple[str, Any]]) -> None:
    """Whatever is printed and drawn in whatever order, all that was printed is there in the end, and nothing else."""
    columns, lines = 60, 14
    master, slave = pty.openpty()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, master)
        stack.callback(os.close, slave)
        terminals.resize(slave, columns, lines)
        screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=0.01)
        stream = pyte.ByteStream(screen)

        def show() -> None:
            while select.select([master], [], [], 0)[0]:
                stream.feed(os.read(master, 65536))

        foot, printed = Foot(slave), ""
        for what, value in steps:
            if what == "print":
                os.write(slave, value.encode())
                printed += value
            else:
                if what == "grow":
                    lines += 1
                    terminals.resize(slave, columns, lines)
                    screen.resize(lines, columns)
                foot.draw(value)
            show()
            if what != "print":
                assert [line.rstrip() for line in screen.display[lines - len(value) :]] == value
        foot.close()
        show()
        gone = ["".join(line[x].data for x in range(columns)) for line in screen.history.top]
        found = [line.rstrip() for line in [*gone, *screen.display]]
        wanted = [
            line[at : at + columns]
            for line in printed.split("\n")
            for at in range(0, max(1, len(line)), columns)
        ]
        assert found[: len(wanted)] == wanted
        assert not "".join(found[len(wanted) :])
        assert screen.margins is None
