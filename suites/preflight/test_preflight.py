"""The machine is what the session's runner promised, computes right, and holds what it is given; else it is at fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fixtures import clips
from suites.faults import judge
from suites.preflight import cases, checks

LOOK = Path(__file__).with_name("look.py")
RANKS = Path(__file__).with_name("rank_preflight.py")
LIMIT_S = 180
LAST_DAY = "2027-06-30"
pytestmark = pytest.mark.xdist_group("preflight")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each of the doctor's checks that concerns this session's runner."""
    if "check" in metafunc.fixturenames:
        metafunc.parametrize("check", cases.doctor_checks(metafunc.config.getoption("--runner")))


class Once:
    """Answers that all tests of a session share: what the ranks of one launch found, and what the doctor found."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[Any, list[Path]]] = {}

    def get(self, name: str, record: Any, make: Any) -> Any:
        """The answer; where the machine let its process die or hang, that is the machine's fault in every test."""
        if name not in self.kept:
            try:
                found = make()
            except Exception as error:  # noqa: BLE001 - it is the answer of every test
                found = error
            self.kept[name] = found, list(record.logs)
        found, logs = self.kept[name]
        record.logs[:] = logs
        if isinstance(found, Exception):
            if getattr(found, "kind", None) in ("crash", "hang"):
                record.fail(checks.KIND, f"{name}: {found}", getattr(found, "detail", ""))
            raise found
        return found


@pytest.fixture(scope="session")
def once() -> Once:
    return Once()


def rank_count(machine: Any) -> int:
    """A rank on every device, also on one that is imitated; on a CPU two."""
    decision = machine.decision
    if decision.device == "cpu" and not machine.runner.emulated:
        return cases.CPU_RANKS
    return len(decision.devices)


@pytest.fixture
def answers(once: Once, machine: Any, launch: Any, record: Any) -> list[dict[str, Any]]:
    """What each rank found, by rank."""
    device = machine.decision.device
    request = {
        "memory_bytes": cases.memory_bytes(device, machine.runner.emulated),
        "shared_bytes": cases.shared_bytes(device),
    }
    limit_s = max(LIMIT_S, launch.limit_s)
    found: list[dict[str, Any]] = once.get(
        "ranks", record, lambda: launch(RANKS, request, ranks=rank_count(machine), limit_s=limit_s)
    )
    return found


def part(answers: list[dict[str, Any]], name: str, record: Any) -> list[dict[str, Any]]:
    """One part of what the ranks found; a rank that did not get that far had no device."""
    for rank, found in enumerate(answers):
        if name not in found:
            seen = len(found["seen"]["devices"])
            record.fail(checks.KIND, f"rank {rank} has no device to sit on: it sees {seen}", str(found))
    return [found[name] for found in answers]


def test_control_altered_results(answers: list[dict[str, Any]], machine: Any, record: Any) -> None:
    """Results off by one unit in the last place, one bit or one device must be seen as wrong, and sound ones as right."""
    missed = checks.control_missed(part(answers, "control", record))
    archs, emulated = promised(machine), machine.runner.emulated
    sound = {"devices": [{"arch": a} for a in archs], "emulation": ["planted"] * emulated}
    for told in (
        {**sound, "devices": sound["devices"][1:]},
        {**sound, "emulation": ["planted"] * (not emulated)},
    ):
        if checks.seen_fault("a process", told, archs, emulated) is None:
            missed.append(f"nothing is seen in {told}")
    if missed:
        record.fail("control", "; ".join(missed))


def promised(machine: Any, count: int | None = None) -> list[str]:
    """Architectures of the devices that the runner promised, all or the first of them."""
    return [d.arch for d in machine.decision.devices[:count]]


def test_child_sees_what_was_promised(machine: Any, ask: Any, record: Any) -> None:
    """A fresh child sees the devices it was given, of the architecture promised, emulated or not as promised."""
    if machine.runner.emulated:
        record.skip("a session's children run beside the emulator, not in it; ranks are asked", LAST_DAY)
    seen = ask(LOOK, "look", {"do": "seen"})
    given = 1 if machine.decision.device != "cpu" and machine.runner.pin([0]) else None
    archs = promised(machine, given)
    judge(record, checks.seen_fault("a child", seen, archs, machine.runner.emulated))


def test_ranks_see_what_was_promised(answers: list[dict[str, Any]], machine: Any, record: Any) -> None:
    """So does each rank."""
    for rank, found in enumerate(answers):
        archs, emulated = promised(machine), machine.runner.emulated
        judge(record, checks.seen_fault(f"rank {rank}", found["seen"], archs, emulated))


def test_each_rank_has_its_own_device(answers: list[dict[str, Any]], record: Any) -> None:
    """No two ranks sit on one device; on a CPU none share a process."""
    judge(record, checks.seats_fault(part(answers, "seat", record)))


def test_product_of_ones(answers: list[dict[str, Any]], record: Any) -> None:
    """On every device the bfloat16 product of two matrices of ones is exact in every element and in its norm."""
    judge(record, checks.product_fault(part(answers, "product", record)))


def test_product_against_float64(answers: list[dict[str, Any]], record: Any) -> None:
    """On every device a float32 product is within its own rounding of the float64 one."""
    judge(record, checks.rounding_fault(part(answers, "rounding", record)))


def test_product_repeated(answers: list[dict[str, Any]], record: Any) -> None:
    """On every device the same product has the same bits each time."""
    judge(record, checks.repeats_fault(part(answers, "repeats", record)))


def test_memory_keeps_a_pattern(answers: list[dict[str, Any]], record: Any) -> None:
    """A pattern and its complement are the same on the device and back on the host."""
    judge(record, checks.memory_fault(part(answers, "memory", record)))


def test_one_sum(answers: list[dict[str, Any]], record: Any) -> None:
    """Ranks start, join, add their numbers in one all_reduce, and leave."""
    judge(record, checks.sum_fault(part(answers, "sum", record)))


def test_shared_memory(answers: list[dict[str, Any]], machine: Any, record: Any) -> None:
    """/dev/shm takes, of all ranks at once, a segment as large as the collectives' largest buffer."""
    least = cases.shared_bytes(machine.decision.device)
    judge(record, checks.stored_fault("/dev/shm", part(answers, "shared", record), least))


def test_run_folder_is_written(answers: list[dict[str, Any]], record: Any) -> None:
    """A file in the run's folder is written through to the disk and reads as it was written."""
    judge(record, checks.stored_fault("run folder", part(answers, "disk", record), cases.DISK_BYTES))


def test_ffmpeg_answers(ask: Any, record: Any) -> None:
    """The ffmpeg that makes the clips is there and runs."""
    answer = ask(LOOK, "look", {"do": "ffmpeg"})
    if not str(answer.get("version", "")).startswith("ffmpeg"):
        record.fail(checks.KIND, f"ffmpeg: {answer}", str(answer))


def test_decoder_gives_its_frames(ask: Any, record: Any) -> None:
    """decord gives the frames asked for of one clip, in their order."""
    path = str(clips.get(cases.DECODED).path)
    answer = ask(LOOK, "look", {"do": "decode", "path": path, "indices": list(cases.FRAMES)})
    judge(record, checks.frames_fault(answer, cases.FRAMES))


@pytest.fixture
def findings(once: Once, machine: Any, ask: Any, record: Any) -> Mapping[str, Any]:
    """The doctor's findings on the session's own look at the machine, by check."""
    request = {"do": "doctor", "runner": machine.runner.name, "snapshot": dataclasses.asdict(machine.seen)}
    found: Mapping[str, Any] = once.get("doctor", record, lambda: ask(LOOK, "look", request))["findings"]
    return found


def test_doctor(check: str, findings: Mapping[str, Any], record: Any) -> None:
    """The doctor finds nothing wrong here."""
    judge(record, checks.finding_fault(findings.get(check), check))


def test_doctor_others(findings: Mapping[str, Any], machine: Any, record: Any) -> None:
    """Nor in what the runner of another package has it look at."""
    known = cases.doctor_checks(machine.runner.name)
    for name, finding in findings.items():
        if name not in known:
            judge(record, checks.finding_fault(finding, name))
