"""A failure in a report comes with its cause and remedy, and one that the machine caused is no regression."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import runs
from builders import TODAY, case, make_issue, make_record, make_run
from harness.judge import judge
from harness.records import Record
from harness.triage import triage_record
from harness.triage_files import load_signatures
from harness.verdicts import Baseline

FULL = "Error while creating shared memory segment /dev/shm/nccl-aBc (size 9637888)"
CONSEQUENCE = "torch.distributed.DistBackendError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
TORN = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"


def failed(detail: str, **changes: object) -> Record:
    return make_record(
        case("a"), "failed", kind="crash", reason="rank 1 left first", detail=detail, **changes
    )


def verdict(record: Record, base: str | None = "passed", **header: object) -> tuple[str, str]:
    triaged = {record.test: triage_record(record, {}, load_signatures())}
    baseline = None if base is None else Baseline({}, {record.test: base}, {}, (), "ok")
    found = judge(make_run([record], **header), baseline, today=TODAY, triaged=triaged)  # type: ignore[arg-type]
    return next(t.verdict for t in found.tests if t.test == record.test), found.status


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (f"{CONSEQUENCE}\n{FULL}", ("infrastructure", "no_verdict")),
        (CONSEQUENCE, ("newly_failing", "red")),
        (TORN, ("newly_failing", "red")),
        ("nothing that is known", ("newly_failing", "red")),
    ],
)
def test_the_machines_fault_is_no_regression(detail: str, expected: tuple[str, str]) -> None:
    """Only a cause that lies in the machine makes a failure `infrastructure`; a consequence or code does not."""
    assert verdict(failed(detail)) == expected


@pytest.mark.parametrize("kind", ["wrong_frame", "drift", "wrong_sum", "wrong_state", "not_finite"])
def test_a_wrong_answer_is_never_the_machines(kind: str) -> None:
    """What answered, and wrongly, is a failure of the target even if its log shows trouble of the machine."""
    record = make_record(case("a"), "failed", kind=kind, reason="wrong", detail=FULL)
    assert verdict(record) == ("newly_failing", "red")


def test_a_known_issue_speaks_before_the_machine() -> None:
    """A failure that a known issue covers stays known, whatever its log shows."""
    assert verdict(failed(FULL), known_issues=(make_issue(),)) == ("known", "green")


def test_no_cause_makes_a_pass_of_a_failure() -> None:
    """With or without causes, a failure is never green, and a passing test is not looked at."""
    assert verdict(failed(FULL), base=None)[1] != "green"
    assert verdict(make_record(case("a"), reason=FULL))[0] == "same"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run on disk in which one test failed, with its cause in a log alone."""
    run = make_run(
        [
            failed(
                "no answer",
                logs=("logs/l-1/rank-1.log", "logs/l-1/gone.log", "logs/l-1/link.log", "logs/main-probe.log"),
            )
        ]
    )
    place = runs.write(tmp_path / "run", run)
    (place / "logs/l-1").mkdir(exist_ok=True, parents=True)
    (place / "logs/main-probe.log").write_text("Bus error, of another test: HW Exception by GPU node-1")
    (place / "logs/l-1/rank-1.log").write_text(f"healthy line\n{FULL}\x1b[2J\n{CONSEQUENCE}\n")
    (tmp_path / "elsewhere").write_text("Memory access fault by GPU node-1 on address 0x1. Reason: Unknown.")
    (place / "logs/l-1/link.log").symlink_to(tmp_path / "elsewhere")
    return place


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
def test_every_report_gives_cause_line_and_remedy(form: str, folder: Path, tmp_path: Path) -> None:
    """Cause, the line that shows it, its log and rank, and the remedy stand in each form; the status is 3."""
    done = runs.harness("report", str(folder), "--format", form, "--baselines", str(tmp_path / "none"))
    assert done.returncode == 3
    words = " ".join(done.stdout.replace("\\", "").split())
    for part in ("S15", "/dev/shm/nccl-aBc", "rank-1.log", "--shm-size", "infrastructure"):
        assert part in words, part
    assert "\x1b" not in done.stdout
    assert "Memory access fault" not in done.stdout
    assert "HW Exception" not in done.stdout
    if form == "json":
        test = next(t for t in json.loads(done.stdout)["tests"] if t["verdict"] == "infrastructure")
        assert test["causes"][0]["id"] == "S15"
        assert test["causes"][0]["rank"] == 1
