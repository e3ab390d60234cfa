"""How much work a second a run did, and what share of its devices' peak: from seconds and what one sample did; pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.verdicts import MetricVerdict

KINDS: Mapping[str, tuple[str, float]] = {
    "samples": ("samples/s", 1.0),
    "frames": ("frames/s", 1.0),
    "actions": ("actions/s", 1.0),
    "inferences": ("inferences/s", 1.0),
    "batches": ("batches/s", 1.0),
    "bytes": ("MB/s", 1e6),
}
"""What of `work` becomes a rate: its unit, and how much of it is one of that unit."""

SECONDS: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8")


@dataclass(frozen=True)
class Rate:
    """One quantity of a test: `seconds` a sample took (median over `processes`), and what it did in them.

    `per_second`: by a name of KINDS, in that name's unit. `devices`: how many the sample occupied. `mfu`: share of
    the devices' peak at `precision`; None is unknown, and `why` says why; where no operations were counted `why` is
    empty too.
    """

    test: str
    metric: str
    seconds: float
    processes: int
    devices: int
    per_second: Mapping[str, float] = field(default_factory=dict)
    work: Mapping[str, float] = field(default_factory=dict)
    mfu: float | None = None
    precision: str | None = None
    why: str = ""


def rates_of(
    metrics: Iterable[MetricVerdict],
    *,
    device_count: int = 1,
    peaks: Mapping[str, float] | None = None,
    emulated: bool = False,
) -> tuple[Rate, ...]:
    """A rate for each duration whose work is known. `device_count`: how many the run had; ranks that share one occupy
    one. `peaks`: 1e12 operations a second of one device, by precision; None when its model is not known."""
    found = []
    for m in metrics:
        scale = SECONDS.get(m.unit)
        if m.statistic != "median" or scale is None or not m.work or not _positive(m.median):
            continue
        assert m.median is not None
        seconds = m.median * scale
        work = {name: amount for name, amount in m.work.items() if _positive(amount)}
        per_second = {name: work[name] / size / seconds for name, (_, size) in KINDS.items() if name in work}
        if not per_second and "flop" not in work:
            continue
        devices = max(1, min(round(work.get("devices", 1)), device_count))
        precision = precision_of(m.test)
        mfu, why = _mfu(work.get("flop"), seconds, devices, precision, {} if emulated else peaks or {})
        why = "emulated: its times say nothing of a device" if why and emulated else why
        found.append(
            Rate(m.test, m.metric, seconds, m.processes, devices, per_second, work, mfu, precision, why)
        )
    return tuple(found)


def precision_of(test: str) -> str | None:
    """The precision that a test's id names, as in `test_training[one-bf16-shard-grad-op]`; None for none or several."""
    words = set(re.split(r"[^a-z0-9]+", test.lower())) & set(PRECISIONS)
    return words.pop() if len(words) == 1 else None


def _mfu(
    flop: float | None, seconds: float, devices: int, precision: str | None, peaks: Mapping[str, float]
) -> tuple[float | None, str]:
    if flop is None:
        return None, ""
    if not peaks:
        return None, "the peak of this device is not known"
    if precision is None:
        return None, "the test's id names no precision"
    peak = peaks.get(precision)
    if peak is None:
        return None, f"the peak of this device for {precision} is not known"
    return flop / (seconds * devices * peak * 1e12), ""


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0
