"""What rates promise: work a second from the seconds of one sample, and no share of a peak that is not known."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_header
from harness import ROOT
from harness.commands.report import peaks_of
from harness.rates import KINDS, Rate, precision_of, rates_of
from metric_rows import SPEED, make_verdict

POSITIVE = st.floats(1e-6, 1e9)
WORK = st.dictionaries(st.sampled_from([*KINDS, "flop", "devices", "other"]), POSITIVE, max_size=6)


def one(**changes: object) -> Rate:
    """The rate of one metric; `test` is named with its precision."""
    options = {n: changes.pop(n) for n in ("device_count", "peaks", "emulated") if n in changes}
    values = {"test": "test_step[bf16]", "median": 0.5, **changes}
    (found,) = rates_of([make_verdict(**values)], **options)  # type: ignore[arg-type]
    return found


def test_every_kind_of_work() -> None:
    """A sample of half a second that did two of everything did four a second of everything; bytes are told in MB."""
    work = {**dict.fromkeys(KINDS, 2.0), "bytes": 2e6}
    found = one(work=work)
    assert found.per_second == dict.fromkeys(KINDS, 4.0)
    assert (found.seconds, found.processes, found.test) == (0.5, 5, SPEED + "test_step[bf16]")
    assert (found.mfu, found.why) == (None, "")


@pytest.mark.parametrize(("unit", "seconds"), [("s", 0.5), ("ms", 5e-4), ("us", 5e-7), ("ns", 5e-10)])
def test_units_of_time(unit: str, seconds: float) -> None:
    """Durations in other units of time are brought to seconds."""
    assert one(unit=unit, work={"samples": 1.0}).seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": "bytes"},
        {"unit": "ratio", "statistic": "growth"},
        {"statistic": "p95"},
        {"median": None},
        {"median": 0.0},
        {"median": math.inf},
        {"work": {}},
        {"work": {"devices": 2.0}},
        {"work": {"samples": 0.0}},
        {"work": {"samples": math.nan}},
    ],
)
def test_no_rate(changes: dict[str, object]) -> None:
    """What is no duration, not the median, unknown, or did no known work has no rate."""
    assert rates_of([make_verdict(**{"work": {"samples": 4.0}, **changes})]) == ()


def test_mfu() -> None:
    """Operations over seconds, devices and the peak at the precision that the test's id names."""
    work = {"flop": 4e12, "samples": 4.0, "devices": 2.0}
    found = one(work=work, peaks={"bf16": 10.0, "fp8": 20.0}, device_count=8)
    assert (found.mfu, found.precision, found.devices, found.why) == (pytest.approx(0.4), "bf16", 2, "")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "the peak of this device is not known"),
        ({"peaks": {}}, "the peak of this device is not known"),
        ({"peaks": {"fp8": 20.0}}, "the peak of this device for bf16 is not known"),
        ({"peaks": {"bf16": 20.0}, "test": "test_step"}, "the test's id names no precision"),
        ({"peaks": {"bf16": 20.0}, "emulated": True}, "emulated: its times say nothing of a device"),
    ],
)
def test_mfu_is_unknown(changes: dict[str, object], why: str) -> None:
    """Without the very peak MFU is None with the reason; never another precision's or another device's."""
    found = one(work={"flop": 4e12}, **changes)
    assert (found.mfu, found.why) == (None, why)


@pytest.mark.parametrize(
    ("ranks", "count", "devices"), [(None, 8, 1), (1, 8, 1), (4, 8, 4), (4, 1, 1), (8, 4, 4)]
)
def test_devices(ranks: float | None, count: int, devices: int) -> None:
    """Ranks that share devices occupy no more than the run had; one when it is not told."""
    work = {"samples": 1.0} if ranks is None else {"samples": 1.0, "devices": float(ranks)}
    assert one(work=work, device_count=count).devices == devices


@pytest.mark.parametrize(
    ("test", "precision"),
    [
        ("suites/x/test_y.py::test_training[one-bf16-shard-grad-op]", "bf16"),
        ("suites/x/test_y.py::test_training[two-fp32-full-shard]", "fp32"),
        ("suites/x/test_y.py::test_training[FP8]", "fp8"),
        ("suites/x/test_y.py::test_training[bf16-to-fp32]", None),
        ("suites/x/test_y.py::test_training[one]", None),
        ("suites/x/test_y.py::test_training[xbf16]", None),
        ("suites/x/test_y.py::test_training[bf16-bf16]", "bf16"),
    ],
)
def test_precision_of_a_test(test: str, precision: str | None) -> None:
    """The id's own word names the precision; none, or two of them, name none."""
    assert precision_of(test) == precision


@given(WORK, POSITIVE, st.floats(0.5, 8.0))
def test_scaling(work: dict[str, float], seconds: float, factor: float) -> None:
    """Twice the time is half of every rate and of MFU; rates and MFU are positive and finite, or there are none."""
    peaks = {"bf16": 1000.0}
    found, slower = (
        rates_of([make_verdict("test_step[bf16]", median=m, work=work)], peaks=peaks)
        for m in (seconds, seconds * factor)
    )
    assert len(found) == len(slower) == bool({*work} & {*KINDS, "flop"})
    for a, b in zip(found, slower, strict=True):
        assert set(a.per_second) == set(work) & set(KINDS)
        for name, value in a.per_second.items():
            assert 0 < value < math.inf
            assert b.per_second[name] * factor == pytest.approx(value)
        assert (a.mfu is None) == ("flop" not in work)
        if a.mfu is not None and b.mfu is not None:
            assert b.mfu * factor == pytest.approx(a.mfu)


def snapshot(name: str) -> Any:
    """A machine as its runner saw it, in the form of a run's header."""
    return json.loads((ROOT / "tests" / "data" / "snapshots" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("runner", "name", "peaks"),
    [
        ("cuda", "h200", {"bf16": 989, "fp8": 1979}),
        ("cuda", "h100_8", {"bf16": 989, "fp8": 1979}),
        ("cuda", "a100", {"bf16": 312}),
        ("rocm", "mi300x_8", {"bf16": 1307, "fp8": 2615}),
        ("rocm", "mi355x", {"bf16": 2517, "fp8": 5033}),
        ("rocm", "mi308x", None),
        ("cuda", "l4", None),
        ("cuda", "trap_mig", None),
        ("rocm", "trap_cpx", None),
        ("cuda", "mixed", None),
        ("cpu", "this_cpu", None),
        ("not-installed-here", "h200", None),
    ],
)
def test_peaks_of_a_run(runner: str, name: str, peaks: dict[str, float] | None) -> None:
    """The peak is that of the model in the run's own snapshot; a part of a device, another model, mixed devices, a
    CPU, or a runner that is not here have none."""
    header = make_header(runner={"name": runner}, machine={"snapshot": snapshot(name)})
    assert peaks_of(header) == peaks


def test_devices_that_differ_have_no_common_peak() -> None:
    """One device of eight that is of an unknown model leaves the run without a peak."""
    seen = snapshot("h100_8")
    seen["devices"][7]["device_id"] = "0x2331"
    assert peaks_of(make_header(runner={"name": "cuda"}, machine={"snapshot": seen})) is None


@pytest.mark.parametrize(
    "machine", [{}, {"snapshot": None}, {"snapshot": {"system": 3}}, {"peak_tflops": {}}]
)
def test_peaks_of_a_folder_from_elsewhere(machine: dict[str, Any]) -> None:
    """A header without a snapshot, or with one that is none, has no peak; it is no error."""
    assert peaks_of(make_header(runner={"name": "cuda"}, machine=machine)) is None


def test_peaks_in_the_header() -> None:
    """A peak that the header itself names holds before what the snapshot means today."""
    machine = {"peak_tflops": {"bf16": 500.0, "fp8": None}, "snapshot": snapshot("h200")}
    assert peaks_of(make_header(runner={"name": "cuda"}, machine=machine)) == {"bf16": 500.0}
