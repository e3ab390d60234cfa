"""What a runner can do decides what runs on it, and its devices are lent to one test at a time."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import runs
import third_party
from builders import TODAY, case, make_record, make_run
from harness.judge import judge
from harness.verdicts import Baseline

CONTROL = "import json, os, pathlib, pytest\ndef test_control(): pass\n"
PROGRAM = '''
PROGRAM = pathlib.Path(__file__).with_name("rank_twin.py")
PROGRAM.write_text("""
import os
from harness.ranks import Rank
rank = Rank()
rank.write({"device": rank.device, "visible": os.environ["TWINS_VISIBLE"]})
""")
'''


def twins(folder: Path, text: str, *options: str, count: int = 2) -> runs.Done:
    variables = {**third_party.install(folder), "TWINS_COUNT": str(count)}
    return runs.made_up(folder, CONTROL + text, "--runner", "twins", *options, variables=variables)


def told(done: runs.Done) -> dict[str, tuple[str, str, str | None]]:
    found = judge(done.run, None, today=TODAY)
    return {
        t.test.partition("::")[2]: (t.verdict, t.why, t.record.kind if t.record else None)
        for t in found.tests
        if "test_control" not in t.test
    }


NEEDS = """
@pytest.mark.capability("fp8")
def test_lacks(): raise SystemError("must not run")
@pytest.mark.capability("timing", "multi_device")
def test_has(): assert os.environ["TWINS_READY"] == "1"
"""


def test_a_lacking_capability_is_told_by_the_runner(tmp_path: Path) -> None:
    """A test that needs what the machine lacks does not run and says so; the report is green and partial."""
    done = twins(tmp_path, NEEDS)
    assert told(done) == {
        "test_lacks": ("lacking", "runner twins lacks fp8: twins have none", "capability"),
        "test_has": ("new", "passed", None),
    }
    found = judge(done.run, None, today=TODAY)
    words = "PARTIAL GREEN: 2 passed, 1 not run: this machine lacks what they need; partial: only suites"
    assert found.headline == words
    assert "1 tests did not run: runner twins lacks fp8: twins have none" in found.notes
    assert done.run.header.runner.key == "twins-twin1-2"
    assert done.run.header.software["driver"] == "7.1"


def test_a_capability_that_is_asked_for_fails(tmp_path: Path) -> None:
    """`--require` turns the skip into a failure of the machine: no regression, and not green."""
    done = twins(tmp_path, NEEDS, "--require", "fp8")
    verdict, why, kind = told(done)["test_lacks"]
    assert (verdict, kind) == ("infrastructure", "infrastructure")
    assert "runner twins must have fp8" in why
    assert judge(done.run, None, today=TODAY).exit_status == 3


def test_a_capability_that_its_kind_must_have_fails(tmp_path: Path) -> None:
    """Where the runner says that such a device must have it, its lack is no reason to skip."""
    done = twins(tmp_path, '@pytest.mark.capability("bf16")\ndef test_must(): pass\n')
    assert told(done)["test_must"][0] == "infrastructure"


def test_an_unknown_capability(tmp_path: Path) -> None:
    """A name that no runner answers is an error of the test, and of the call."""
    done = twins(tmp_path, '@pytest.mark.capability("wings")\ndef test_x(): pass\n')
    assert told(done)["test_x"][0] == "error"
    done = twins(tmp_path / "b", NEEDS, "--require", "wings")
    assert "--require wings: no such capability" in done.output
    assert done.status == 4


def test_a_machine_that_is_not_of_the_kind(tmp_path: Path) -> None:
    """Without a device nothing starts: one line with the runner's remedy."""
    done = twins(tmp_path, NEEDS, count=0)
    assert done.status == 4
    assert "no twin is here; plug one in" in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "run").exists()


def test_ranks_sit_on_lent_devices(tmp_path: Path) -> None:
    """Ranks see the devices that were lent to them by the runner's one mask, and each has its own."""
    text = """
def test_two(launch):
    assert [a["device"] for a in launch(PROGRAM, {}, ranks=2)] == ["twin:0", "twin:1"]
    assert {a["visible"] for a in launch(PROGRAM, {}, ranks=2)} == {"0,1"}
def test_three(launch): launch(PROGRAM, {}, ranks=3)
"""
    found = told(twins(tmp_path, PROGRAM + text))
    assert found["test_two"][0] == "new"
    assert found["test_three"][:2] == ("lacking", "runner twins lacks devices: 3 are needed, 2 are here")


def test_one_device_is_not_shared_by_two_ranks(tmp_path: Path) -> None:
    """On a machine with one device, two ranks are not started on it."""
    found = told(twins(tmp_path, PROGRAM + "def test_two(launch): launch(PROGRAM, {}, ranks=2)\n", count=1))
    assert found["test_two"][:2] == ("lacking", "runner twins lacks multi_device: devices: 1")


def test_each_worker_has_its_device(tmp_path: Path) -> None:
    """Under xdist a worker's children see the device of the worker's number alone."""
    text = """
PROGRAM = pathlib.Path(__file__).parent / "child_twin.py"
PROGRAM.write_text("import os\\nfrom harness.child import serve\\n"
    "serve({'see': lambda: {'visible': os.environ['TWINS_VISIBLE']}})\\n")
@pytest.mark.parametrize("n", range(6))
def test_see(n, ask, worker_id):
    assert ask(PROGRAM, "see", {"do": "see"})["visible"] == worker_id.removeprefix("gw")
"""
    found = told(twins(tmp_path, text, "-n", "2"))
    assert {v for v, _, _ in found.values()} == {"new"}
    assert len(found) == 6


def test_time_limits_stretch(tmp_path: Path) -> None:
    """On a runner that is twice as slow, a child has twice the time before it counts as hanging."""
    text = """
PROGRAM = pathlib.Path(__file__).parent / "child_slow.py"
PROGRAM.write_text("import time\\nfrom harness.child import serve\\n"
    "serve({'sleep': lambda s: time.sleep(s) or {}})\\n")
def test_within(ask): ask(PROGRAM, "a", {"do": "sleep", "s": 3.0})
def test_beyond(ask): ask(PROGRAM, "b", {"do": "sleep", "s": 600})
"""
    found = told(twins(tmp_path, text, "--time-limit", "2"))
    assert found["test_within"][0] == "new"
    assert found["test_beyond"][2] == "hang"
    assert "no answer within 4 s" in found["test_beyond"][1]


def lacking(**changes: str | None) -> object:
    values = {"outcome": "skipped", "kind": "capability", "reason": "runner x lacks fp8: none", **changes}
    return make_record(case("a"), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base", "verdict", "status"),
    [
        (None, "lacking", "green"),
        ("skipped", "lacking", "green"),
        ("passed", "capability_lost", "no_verdict"),
    ],
)
def test_a_capability_that_was_there(base: str | None, verdict: str, status: str) -> None:
    """A test that the baseline ran on such a machine and that now lacks its capability is not green."""
    baseline = None if base is None else Baseline({}, {case("a"): base}, {}, (), "ok")
    found = judge(make_run([lacking()]), baseline, today=date(2027, 1, 15))  # type: ignore[list-item]
    assert {t.verdict for t in found.tests if t.test == case("a")} == {verdict}
    assert found.status == status


def test_a_lack_makes_a_whole_run_partial() -> None:
    """A run of whole suites in which a test lacked something never reads as a whole green."""
    found = judge(make_run([lacking(), make_record(case("b"))]), None, today=TODAY)  # type: ignore[list-item]
    words = "PARTIAL GREEN: 2 passed, 1 not run: this machine lacks what they need"
    assert found.headline == words


def test_a_lack_without_a_reason_is_not_accepted() -> None:
    """A capability skip that gives no reason is a skip without one."""
    found = judge(make_run([lacking(reason=" ")]), None, today=TODAY)  # type: ignore[list-item]
    assert found.status == "no_verdict"
    assert [t.verdict for t in found.needs_person] == ["skip_unaccepted"]
