"""What is said of a session that goes on: counts, what runs, the time left; nothing is invented."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import builders
from harness import progress_folder, rank_watch, rundir, terminal
from harness.pairs import Pairs, Process
from harness.progress import (
    Ledger,
    Ranks,
    Running,
    Seen,
    Suite,
    estimate_left_s,
    estimate_processes_s,
    find_stage,
)
from harness.progress_text import fit, render_heartbeat, render_left, render_ranks, render_region, render_time
from harness.progress_watch import Watch
from harness.records import Selection

SECONDS = st.floats(0, 1e5, allow_nan=False)
MAYBE = st.none() | SECONDS


@given(st.lists(MAYBE), st.lists(st.tuples(MAYBE, SECONDS)), st.integers(0, 64))
def test_time_left_is_never_negative(
    waiting: list[float | None], running: list[tuple[float | None, float]], workers: int
) -> None:
    """The time left is unknown or not below zero, and unknown as soon as one test's is."""
    left = estimate_left_s(waiting, running, workers)
    assert left is None or left >= 0
    if None in waiting or None in [expected for expected, _ in running]:
        assert left is None


@given(st.lists(SECONDS), st.lists(st.tuples(SECONDS, SECONDS), max_size=1))
def test_time_left_is_exact_with_one_worker(waiting: list[float], running: list[tuple[float, float]]) -> None:
    """Where all durations are known and one worker runs one test after the other, it is their sum."""
    rest = sum(waiting) + sum(max(0.0, expected - age) for expected, age in running)
    left = estimate_left_s(list(waiting), list(running), 1)
    assert left == (pytest.approx(rest) if rest > 0 or not running else None)


@given(st.lists(SECONDS, min_size=1), st.integers(1, 16))
def test_workers_share_the_time(waiting: list[float], workers: int) -> None:
    """Several workers take no longer than one, and no less than the longest test or an even share."""
    left = estimate_left_s(list(waiting), (), workers)
    assert left is not None
    assert max(sum(waiting) / workers, *waiting) * 0.999 <= left <= sum(waiting) * 1.001


def test_a_test_that_overruns_says_nothing_of_the_end() -> None:
    """When nothing is left but a test that runs longer than expected, the end is not known."""
    assert estimate_left_s([], [(5.0, 5.0)]) is None
    assert estimate_left_s([3.0], [(5.0, 50.0)]) == 3.0


@given(st.lists(SECONDS), MAYBE, SECONDS, st.integers(0, 100))
def test_time_left_of_processes(took: list[float], expected: float | None, age: float, after: int) -> None:
    """Unknown without any knowledge; never negative; each process to come counts whole."""
    left = estimate_processes_s(took, expected, age, after)
    if not took and expected is None:
        assert left is None
    if left is not None:
        each = sum(took) / len(took) if took else expected
        assert each is not None
        assert left >= after * each * 0.999


def test_paces() -> None:
    """A test is expected to take as long as last time, else as those of its suite, else as all; of two nothing follows."""
    a = [f"suites/a/test_a.py::test_{n}" for n in range(6)]
    b = "suites/b/test_b.py::test_b"
    ledger = Ledger()
    ledger.plan([*a, b])
    now = 0.0
    for test in a[:2]:
        ledger.start(test, now)
        now += 4
        ledger.finish(test, now)
    assert ledger.left_s(now, 1) is None
    ledger.start(a[2], now)
    now += 4
    ledger.finish(a[2], now)
    assert ledger.left_s(now, 1) == pytest.approx(3 * 4 + 4)
    ledger.past = {b: 100.0}
    assert ledger.left_s(now, 1) == pytest.approx(3 * 4 + 100)
    ledger.start(a[3], now)
    assert ledger.left_s(now + 1, 1) == pytest.approx(3 + 2 * 4 + 100)
    assert Ledger().left_s(0, 1) is None


def test_counts() -> None:
    """A test counts where it belongs: planned once however many workers tell it, done, failed, running with its age."""
    one, two, other = "suites/a/test_a.py::test_1", "suites/a/test_a.py::test_2", "suites/b/test_b.py::test_1"
    ledger = Ledger()
    ledger.plan([one, two, other])
    ledger.plan([one, two, other])
    ledger.start(one, 10.0)
    ledger.start(other, 11.0)
    ledger.fail(one)
    ledger.fail(one)
    ledger.finish(one, 12.0)
    assert ledger.suites() == (Suite("a", 1, 2, 1), Suite("b", 0, 1, 0))
    assert ledger.running(15.0) == [Running(other, 4.0)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599, "59 min 59 s"),
        (3720, "1 h 02 min"),
    ],
)
def test_times_in_words(seconds: float, text: str) -> None:
    """Durations are rounded down, so that no test is said to be older than it is."""
    assert render_time(seconds) == text


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (None, "time left unknown"),
        (0.0, "about 5 s left"),
        (61.0, "about 1 min 05 s left"),
        (120.0, "about 2 min left"),
        (121.0, "about 3 min left"),
        (3601.0, "about 1 h 01 min left"),
    ],
)
def test_time_left_in_words(left: float | None, text: str) -> None:
    """The time left is as coarse as it is sure, never 0, and said to be unknown where it is."""
    assert render_left(left) == text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        (Ranks(2, 0, 0, None, 1.0, 60.0), "2 ranks, starting, 1 s of at most 1 min"),
        (Ranks(4, 3, 0, None, 2.0, 90.0), "4 ranks, 3 started, 2 s of at most 1 min 30 s"),
        (Ranks(1, 1, 0, 12, 3.0, 60.0), "1 rank, step 12, 3 s of at most 1 min"),
        (Ranks(2, 2, 1, 12, 3.0, 60.0), "1 of 2 ranks ended, step 12, 3 s of at most 1 min"),
    ],
)
def test_ranks_in_words(ranks: Ranks, text: str) -> None:
    """Of a launch it is said how many ranks there are, how far they are, and how long they may take."""
    assert render_ranks(ranks) == text


SUITES = st.lists(
    st.builds(
        Suite,
        st.sampled_from(["decoder", "fsdp", "a-suite-of-a-very-long-name"]),
        st.integers(0, 500),
        st.none() | st.integers(0, 500),
        st.integers(0, 9),
    ),
    max_size=12,
    unique_by=lambda s: s.name,
)
RANKS = st.none() | st.just(Ranks(2, 2, 0, 7, 8.0, 60.0))
TESTS = st.text(min_size=1, max_size=150)
RUNNING = st.lists(st.builds(Running, TESTS, SECONDS, RANKS), max_size=8)
PHASE = st.none() | st.just("repeated tests, process 1 of 2")
SEEN = st.builds(Seen, SECONDS, SUITES.map(tuple), RUNNING.map(tuple), PHASE, MAYBE)


@settings(max_examples=50)
@given(SEEN, st.integers(1, 200), st.integers(1, 40), st.booleans())
def test_lines_fit_the_terminal(seen: Seen, width: int, height: int, color: bool) -> None:
    """Whatever is known, the lines fit, the sum is among them, and there are no escape codes without color."""
    lines = render_region(seen, width=width, height=height, color=color)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert 1 <= len(lines) <= height
    assert all(cell_len(line) <= width for line in plain)
    assert all(line.isprintable() for line in plain)
    assert color or lines == plain
    if width >= 120:
        assert f"{render_time(seen.elapsed_s)} so far" in plain[-1]


def test_what_goes_on_comes_before_what_is_over() -> None:
    """Where room is short, suites that are done or have not begun leave first, and what runs now stays."""
    suites = (Suite("done", 5, 5), Suite("going", 2, 5), Suite("later", 0, 5), Suite("red", 5, 5, 1))
    seen = Seen(1.0, suites, (Running("suites/going/test_x.py::test_x", 1.0),))
    lines = render_region(seen, width=80, height=4, color=False)
    assert [line.split()[0] for line in lines] == ["going", "red", "now:", "12"]
    assert [line.split()[0] for line in render_region(seen, width=80, height=3, color=False)] == [
        "going",
        "now:",
        "12",
    ]
    assert [line.split()[0] for line in render_region(seen, width=80, height=9, color=False)][:4] == [
        s.name for s in suites
    ]


def test_ascii_only() -> None:
    """A terminal without Unicode gets none."""
    seen = Seen(1.0, (Suite("a", 1, 2),), (Running("x" * 300, 1.0),))
    assert all(n.isascii() for n in render_region(seen, width=80, height=9, color=True, ascii_only=True))


@given(st.text(max_size=200), st.integers(0, 100))
def test_long_names_keep_both_ends(text: str, room: int) -> None:
    """A name is cut in its middle, only when it must be."""
    short = fit(text, room)
    assert len(short) <= room or short == text
    assert len(text) > room or short == text
    if len(text) > room >= 12:
        assert text.startswith(short.partition("...")[0])
        assert short.endswith(text[-4:])


def test_heartbeat() -> None:
    """The line for a log names the test in full, since when it runs, and how far the session is."""
    seen = Seen(
        130.0,
        (Suite("a", 34, 120, 2),),
        (Running("suites/a/test_a.py::test_x", 125.0), Running("suites/a/test_a.py::test_y", 1.0)),
        None,
        300.0,
    )
    assert render_heartbeat(seen) == (
        "still running: suites/a/test_a.py::test_x since 2 min 05 s and 1 more "
        "(34 of 120 tests done, 2 failed, about 5 min left)"
    )
    none = Seen(61.0, (), (), None, None)
    assert render_heartbeat(none) == "still running: no test at the moment (0 tests done)"


def process(side: str, number: int, pair: int | None, dropped: bool = False) -> Process:
    return Process(side, number, pair, ("suites/a/t.py::t",), 0, 1.0, "", dropped)


def pairs(*processes: Process, flagged: tuple[str, ...] | None = None, ended: bool = False) -> Pairs:
    return Pairs(
        "main", 1, 0.1, ("base", "head", "base"), (("head", "base"), ("base", "head")), (1, 2),
        ("suites/a/t.py::t",), "", "", {}, processes, flagged, ended=ended,
    )  # fmt: skip


SCREEN = (process("base", 1, None), process("head", 1, None), process("base", 2, None))


@pytest.mark.parametrize(
    ("found", "place", "side", "number"),
    [
        (pairs(), "screen, process 1 of 3 (base)", "base", 1),
        (pairs(SCREEN[0]), "screen, process 2 of 3 (head)", "head", 1),
        (pairs(SCREEN[0], process("head", 1, None, True)), "screen, process 2 of 3 (head)", "head", 2),
        (pairs(*SCREEN), "judging", "head", 0),
        (pairs(*SCREEN, flagged=("x",)), "pair 1 of at most 2 (head)", "head", 2),
        (pairs(*SCREEN, process("head", 2, 1), flagged=("x",)), "pair 1 of at most 2 (base)", "base", 3),
        (
            pairs(*SCREEN, process("head", 2, 1), process("base", 3, 1), flagged=("x",)),
            "pair 2 of at most 2 (base)",
            "base",
            4,
        ),
        (pairs(*SCREEN, flagged=(), ended=True), "judging", "head", 0),
    ],
)
def test_stages_of_a_comparison(found: Pairs, place: str, side: str, number: int) -> None:
    """The process that runs is the one that the plan names after those that have ended; how many follow is not known."""
    stage = find_stage(found, 0, 5)
    assert (stage.place, stage.side, stage.number) == (place, side, number)


def test_stages_of_repeats() -> None:
    """Without a comparison it is the highest process that has begun, of as many as were asked for."""
    assert (find_stage(None, 0, 3).place, find_stage(None, 0, 3).after) == ("process 1 of 3", 2)
    assert (find_stage(None, 3, 3).place, find_stage(None, 3, 3).after) == ("process 3 of 3", 0)


def test_a_process_is_read_while_it_writes(tmp_path: Path) -> None:
    """Half a line is left for later; the test that runs is the one without a record."""
    path = tmp_path / "records-repeat-1.jsonl"
    process = progress_folder.Process(path, 0.0)
    process.look(1.0)
    assert (process.test, process.done) == (None, {})
    lines = [{"type": "running", "test": "a"}, {"type": "record", "test": "a", "outcome": "failed"}]
    text = "".join(json.dumps(x) + "\n" for x in [*lines, {"type": "running", "test": "b"}])
    path.write_text(text[:-10])
    process.look(2.0)
    assert (process.test, process.done) == (None, {"a": True})
    path.write_text(text)
    process.look(3.0)
    assert (process.test, process.since, process.done) == ("b", 3.0, {"a": True})
    assert progress_folder.last_process(tmp_path) == 1


def test_a_launch_is_seen_while_it_goes_on(tmp_path: Path) -> None:
    """Of a worker's launches the latest is looked at, and only while its note is there."""
    for number in (9, 10):
        logs = tmp_path / "logs" / f"gw1-demo-program-{number}"
        logs.mkdir(parents=True)
        rank_watch.note_launch(logs, 2, 60.0, 100.0)
    (logs / "rank-0.pid").touch()
    (logs / "rank-0.log").write_text("step 1\nstep 4\n")
    assert progress_folder.collect_ranks(tmp_path, "gw1", 107.0) == Ranks(2, 1, 0, 4, 7.0, 60.0)
    assert progress_folder.collect_ranks(tmp_path, "gw0", 107.0) is None
    (logs / rank_watch.LAUNCH).unlink()
    assert progress_folder.collect_ranks(tmp_path, "gw1", 107.0) is None


def test_earlier_runs_of_this_runner_and_target_count(tmp_path: Path) -> None:
    """Times come from the latest run beside this one that is of its kind; a damaged folder is passed over."""
    test = "suites/demo/test_demo.py::test_a"
    for name, seconds, target in (
        ("old", 5.0, "reference"),
        ("other", 9.0, "vitra"),
        ("new", 7.0, "reference"),
    ):
        folder = tmp_path / name
        rundir.claim(folder)
        rundir.write_header(folder, builders.make_header(target={"name": target}))
        writer = rundir.Writer(folder, "main")
        writer.append(builders.make_record(test, duration_s=seconds))
        writer.close()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text("{")
    (tmp_path / "none").mkdir()
    for at, name in enumerate(("old", "new", "other", "damaged")):
        os.utime(tmp_path / name / "run.json", (1000 + at, 1000 + at))
    mine = rundir.read_header(tmp_path / "old")
    assert progress_folder.collect_past(tmp_path / "mine", mine) == ({test: 7.0}, {})


TIMED = "suites/throughput/test_t.py::test_timed"
PLAIN = "suites/preflight/test_p.py::test_plain"


def watch(folder: Path, repeats: int = 3, compared: bool = False, **selection: Any) -> Watch:
    """A session that began at 0 with one repeated test; no failure is known."""
    chosen = Selection(("preflight", "throughput"), **selection)
    state: Any = SimpleNamespace(
        repeated=(TIMED,),
        known=lambda _: None,
        header=builders.make_header(repeats=repeats, selection=chosen),
    )
    return Watch(folder, state, compared, 0.0)


def write(path: Path, *outcomes: str, running: bool = False) -> None:
    """What a fresh process leaves that had one test after the other with these outcomes."""
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps({"type": "record", "test": TIMED, "outcome": o}) for o in outcomes]
    lines += [json.dumps({"type": "running", "test": TIMED})] if running else []
    path.write_text("".join(f"{line}\n" for line in lines))


def test_fresh_processes_are_followed(tmp_path: Path) -> None:
    """A process counts to its end though the next one has begun; the rest takes as long as those before."""
    found = watch(tmp_path)
    found.plan([PLAIN])
    found.start(PLAIN, 1.0)
    found.finish(PLAIN, 2.0)
    seen = found.look(3.0)
    assert seen.suites == (Suite("preflight", 1, 1), Suite("throughput", 0, 3))
    found.ending = True
    write(tmp_path / "records-repeat-1.jsonl", running=True)
    seen = found.look(10.0)
    assert (seen.phase, seen.left_s) == ("repeated tests, process 1 of 3", None)
    assert seen.running == (Running(TIMED, 0.0),)
    assert found.look(14.0).running == (Running(TIMED, 4.0),)
    with (tmp_path / "records-repeat-1.jsonl").open("a") as file:
        file.write(json.dumps({"type": "record", "test": TIMED, "outcome": "failed"}) + "\n")
    write(tmp_path / "records-repeat-2.jsonl", running=True)
    seen = found.look(20.0)
    assert seen.suites == (Suite("preflight", 1, 1), Suite("throughput", 1, 3, 1))
    assert (seen.phase, seen.left_s) == ("repeated tests, process 2 of 3", 20.0)
    assert found.look(24.0).left_s == 16.0


def test_a_comparison_is_followed(tmp_path: Path) -> None:
    """Of a comparison the process of the side that runs is read, and no time left is said."""
    found = watch(tmp_path, compared=True)
    found.ending = True
    assert found.look(1.0).phase == "repeated tests: starting"
    rundir.write_pairs(tmp_path, pairs())
    write(tmp_path / "base" / "records-repeat-1.jsonl", "passed", running=True)
    seen = found.look(2.0)
    assert seen.phase == "repeated tests, screen, process 1 of 3 (base)"
    assert (seen.suites, seen.left_s) == ((Suite("throughput", 1, None),), None)
    assert seen.running == (Running(TIMED, 0.0),)


def test_repeated_tests_are_part_of_the_time_left(tmp_path: Path) -> None:
    """They are expected as in the last run, also before a worker has told of them, and unknown without one."""
    found = watch(tmp_path / "mine")
    found.plan([PLAIN])
    old = tmp_path / "old"
    rundir.claim(old)
    rundir.write_header(old, builders.make_header())
    writer = rundir.Writer(old, "main")
    writer.append(builders.make_record(PLAIN, duration_s=5.0))
    assert found.look(1.0).left_s is None
    found.remember()
    assert found.look(1.0).left_s is None
    for repeat, seconds in ((1, 10.0), (2, 20.0)):
        writer.append(builders.make_record(TIMED, duration_s=seconds, repeat=repeat))
    writer.close()
    found.remember()
    assert found.look(1.0).left_s == 5.0 + 3 * 15.0
    found._state.repeated = ()
    assert found.look(1.0).left_s == 5.0 + 3 * 15.0
    part = watch(tmp_path / "mine", keyword="plain")
    part._state.repeated = ()
    part.plan([PLAIN])
    part.remember()
    assert part.look(1.0).left_s == 5.0


@pytest.mark.parametrize(
    ("to_terminal", "variables", "color", "live"),
    [
        (True, {"TERM": "xterm"}, True, True),
        (False, {"TERM": "xterm"}, False, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True, True),
        (True, {"TERM": "dumb"}, False, False),
        (True, {}, False, False),
        (False, {"FORCE_COLOR": "1"}, True, False),
        (True, {"TERM": "xterm", "FORCE_COLOR": "1", "NO_COLOR": "1"}, False, True),
        (True, {"TERM": "xterm", "CI": "true"}, True, False),
        (True, {"TERM": "xterm", "CI": "false"}, True, True),
    ],
)
def test_what_an_output_can_show(
    to_terminal: bool, variables: dict[str, str], color: bool, live: bool
) -> None:
    """NO_COLOR wins over FORCE_COLOR, an empty variable is unset, and a pipe, a dumb terminal or a CI draws nothing anew."""
    assert terminal.has_color(to_terminal, variables) is color
    assert terminal.is_live(to_terminal, variables) is live
