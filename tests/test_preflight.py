"""The suite `preflight`: its checks see what they must, its list of the doctor's checks is whole, its faults the machine's."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures import defects
from harness import doctor, runners
from harness.outcomes import Failure, Notes
from harness.records import KINDS
from suites.faults import Fault
from suites.preflight import cases, checks
from suites.preflight.test_preflight import Once

SEEN = {
    "devices": [{"arch": "gfx942", "identity": "a"}, {"arch": "gfx942", "identity": "b"}],
    "emulation": [],
}
PRODUCT = {"elements": 65536, "norm": 65536.0, "wrong": 0}
ROUNDING = {"elements": cases.SHAPE[0] * cases.SHAPE[2], "wrong": 0}
REPEATS = {"bfloat16": ["a"] * cases.REPETITIONS, "float32": ["b"] * cases.REPETITIONS}
MEMORY = {"words": 4096, "wrong": 0}
WRONG = {"wrong": 1, "first": 7, "got": "258.0", "bits": 512, "where": "on the device"}


def kind(fault: Fault | None) -> str | None:
    """The kind of a fault; None for none."""
    return None if fault is None else fault.kind


@pytest.mark.parametrize("runner", sorted({*runners.names(), "mirage"}))
def test_the_list_of_the_doctors_checks_is_whole(runner: str) -> None:
    """A test of the suite exists for each check that the doctor makes on a runner, and for no other."""
    there = {c.name for c in doctor.checks(runner, emulated=runner == "mirage")}
    names = cases.doctor_checks(runner)
    assert set(names) == there
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("changes", "archs", "emulated", "words"),
    [
        ({}, ["gfx942", "gfx942"], False, None),
        ({"emulation": ["maps"]}, ["gfx942", "gfx942"], True, None),
        ({}, ["gfx942"], False, "sees 2 devices"),
        ({}, ["gfx942"] * 3, False, "sees 2 devices"),
        ({"devices": []}, ["gfx942"], False, "sees 0 devices"),
        ({}, ["gfx950", "gfx942"], False, "promised gfx950"),
        ({"emulation": ["MIRAGE_SESSION"]}, ["gfx942", "gfx942"], False, "emulator"),
        ({}, ["gfx942", "gfx942"], True, "no sign"),
    ],
)
def test_what_was_promised(
    changes: dict[str, Any], archs: list[str], emulated: bool, words: str | None
) -> None:
    """Another number of devices, another architecture, an emulator unsaid, and none where one was promised are seen."""
    fault = checks.seen_fault("rank 0", {**SEEN, **changes}, archs, emulated)
    assert kind(fault) == (checks.KIND if words else None)
    assert words is None or (fault is not None and words in fault.message)


FAULTS: list[tuple[str, Any, Any, dict[str, Any], str | None]] = [
    ("product", checks.product_fault, PRODUCT, {}, None),
    ("product", checks.product_fault, PRODUCT, WRONG, checks.KIND),
    ("product", checks.product_fault, PRODUCT, {"norm": 65535.99}, checks.KIND),
    ("product", checks.product_fault, PRODUCT, {"norm": float("nan")}, checks.KIND),
    ("product", checks.product_fault, PRODUCT, {"elements": 0}, "harness"),
    ("rounding", checks.rounding_fault, ROUNDING, {}, None),
    ("rounding", checks.rounding_fault, ROUNDING, WRONG, checks.KIND),
    ("rounding", checks.rounding_fault, ROUNDING, {"elements": 1}, "harness"),
    ("repeats", checks.repeats_fault, REPEATS, {}, None),
    ("repeats", checks.repeats_fault, REPEATS, {"float32": [*"b" * 9, "c"]}, checks.KIND),
    ("repeats", checks.repeats_fault, REPEATS, {"bfloat16": ["a"]}, "harness"),
    ("memory", checks.memory_fault, MEMORY, {}, None),
    ("memory", checks.memory_fault, MEMORY, WRONG, checks.KIND),
    ("memory", checks.memory_fault, MEMORY, {"error": "out of memory"}, checks.KIND),
    ("memory", checks.memory_fault, MEMORY, {"words": 0}, "harness"),
    ("seats", checks.seats_fault, {"identity": "x"}, {"identity": "y"}, None),
    ("seats", checks.seats_fault, {"identity": "x"}, {}, checks.KIND),
]


@pytest.mark.parametrize(
    ("judge", "sound", "changes", "told"),
    [case[1:] for case in FAULTS],
    ids=[f"{n}-{case[0]}" for n, case in enumerate(FAULTS)],
)
def test_each_fault_is_the_machines(
    judge: Any, sound: dict[str, Any], changes: Any, told: str | None
) -> None:
    """One thing off on the second of two ranks is a fault of the machine; nothing compared is one of the harness."""
    assert kind(judge([sound, {**sound, **changes}])) == told


@pytest.mark.parametrize(("sums", "told"), [([3.0, 3.0], None), ([3.0, 2.0], checks.KIND), ([1.0], None)])
def test_the_sum(sums: list[float], told: str | None) -> None:
    """Every rank must hold the sum of all ranks' numbers."""
    assert kind(checks.sum_fault([{"sum": s} for s in sums])) == told


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"bytes": 64}, None),
        ({"bytes": 63}, checks.KIND),
        ({"bytes": 64, "same": False}, checks.KIND),
        ({"error": "No space left on device"}, checks.KIND),
    ],
)
def test_what_is_stored(found: dict[str, Any], told: str | None) -> None:
    """Less than asked for, other bytes and an error are the machine's fault."""
    assert kind(checks.stored_fault("/dev/shm", [{"bytes": 64}, found], 64)) == told


@pytest.mark.parametrize(
    ("answer", "told"),
    [({"numbers": [0, 5]}, None), ({"numbers": [0, 6]}, checks.KIND), ({"error": "no decord"}, checks.KIND)],
)
def test_the_decoders_frames(answer: dict[str, Any], told: str | None) -> None:
    """Other frames than asked for, and none, are the machine's fault here."""
    assert kind(checks.frames_fault(answer, [0, 5])) == told


@pytest.mark.parametrize(
    ("state", "told"), [("wrong", checks.KIND), ("doubtful", None), ("unknown", None), ("fine", None)]
)
def test_only_what_is_wrong_fails(state: str, told: str | None) -> None:
    """A finding that is doubtful or unknown fails nothing; a check that was not made is the harness's fault."""
    finding = {"state": state, "seen": "64 MiB", "why": "w", "remedy": "r"}
    fault = checks.finding_fault(finding, "shm-size")
    assert kind(fault) == told
    assert fault is None or "64 MiB" in fault.message
    assert kind(checks.finding_fault(None, "shm-size")) == "harness"


def test_the_control_must_see_each_alteration() -> None:
    """The control tells which alteration was not seen, and which sound result was taken for wrong."""
    sound = {
        "product": PRODUCT,
        "rounding": ROUNDING,
        "repeats": REPEATS,
        "memory": MEMORY,
        "sum": {"sum": 1.0},
    }
    altered = {
        "product": {**PRODUCT, **WRONG},
        "rounding": {**ROUNDING, **WRONG},
        "repeats": {**REPEATS, "float32": [*"b" * 9, "c"]},
        "memory": {**MEMORY, **WRONG},
        "sum": {"sum": 2.0},
    }
    assert checks.control_missed([{"sound": sound, "altered": altered}]) == []
    for name in sound:
        blind = {"sound": sound, "altered": {**altered, name: sound[name]}}
        assert [m.split(":")[0] for m in checks.control_missed([blind])] == [f"{name} altered"]
        seeing_ghosts = {"sound": {**sound, name: altered[name]}, "altered": altered}
        assert [m.split(":")[0] for m in checks.control_missed([seeing_ghosts])] == [f"{name} sound"]


@pytest.mark.parametrize(("died", "told"), [("crash", checks.KIND), ("hang", checks.KIND), ("harness", None)])
def test_a_process_that_dies_is_the_machines_fault(died: str, told: str | None) -> None:
    """When the ranks crash or hang, every test says that the machine is at fault; a broken harness stays one; and they
    are started once."""

    class Died(Exception):
        kind, detail = died, "the end of the log"

    calls = []

    def make() -> None:
        calls.append(1)
        raise Died("no answer")

    once = Once()
    for _ in range(2):
        with pytest.raises(Failure if told else Died) as caught:
            once.get("ranks", Notes(), make)
        assert told is None or caught.value.kind == told
    assert calls == [1]
    assert checks.KIND in KINDS


def test_defects_are_of_every_part() -> None:
    """Each test of the suite is meant to see at least one planted defect."""
    planted = [defects.get(n) for n in defects.names() if defects.get(n).suite == "preflight"]
    selected = {d.select.split(" ")[0] for d in planted}
    tests = {"test_child_sees", "test_ranks_see", "test_each_rank", "test_product_of_ones", "test_product_against",
             "test_product_repeated", "test_memory", "test_one_sum", "test_shared", "test_run_folder", "test_ffmpeg",
             "test_decoder", "test_doctor"}  # fmt: skip
    assert all(any(s.startswith(t) for s in selected) for t in tests)
