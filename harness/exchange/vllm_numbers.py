"""The numbers in a file of vLLM's serving benchmark: seconds of single requests, and what the tool computed itself; pure."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from harness.estimates import percentile
from harness.exchange.imported import ImportFault, checked, need
from harness.records import Metric

SUMMARY = re.compile(r"(mean|median|std|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)_ms")
APART = 0.02
"""By how much a number of the file may differ from what its own samples give: percentiles are drawn in several ways."""


def lists(
    value: Mapping[str, Any], where: str, completed: int, notes: list[str]
) -> tuple[dict[str, tuple[float, ...]], tuple[str, ...]]:
    """Seconds of the requests that were answered, by quantity, and the first errors of the others.

    A request that failed stands in the lists with a time of 0: it is no sample.
    """
    told = {
        k: need(value, k, list, where)
        for k in ("errors", "ttfts", "itls", "latencies")
        if value.get(k) is not None
    }
    lengths = {k: len(v) for k, v in told.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{k} {n}" for k, n in lengths.items())
        raise ImportFault(f"{where}: lists of single requests have different lengths: {said}")
    errors = [("" if e is None else str(e)) for e in told.get("errors", ())]
    bad = {n for n, e in enumerate(errors) if e}
    found: dict[str, tuple[float, ...]] = {}
    for key, name in (("ttfts", "ttft"), ("latencies", "e2el")):
        if key in told:
            numbers = [finite(v, f"{where}: {key}[{n}]") for n, v in enumerate(told[key])]
            found[name] = tuple(v for n, v in enumerate(numbers) if n not in bad and v > 0)
            if found[name] and len(found[name]) != completed:
                notes.append(f"{where}: {key} has {len(found[name])} times above 0, of {completed} completed")
    if "itls" in told:
        itls: list[float] = []
        for n, own in enumerate(told["itls"]):
            each = checked(own, list, f"{where}: itls[{n}]")
            seconds = [finite(v, f"{where}: itls[{n}][{k}]") for k, v in enumerate(each)]
            itls += [] if n in bad else seconds
        found["itl"] = tuple(itls)
    return found, tuple(dict.fromkeys(e.strip().splitlines()[-1][:300] for e in errors if e.strip()))[:5]


def summaries(
    value: Mapping[str, Any], where: str, held: Mapping[str, Sequence[float]], notes: list[str]
) -> list[Metric]:
    """What the tool computed itself, under its own names, of quantities whose samples the file does not hold."""
    found: dict[str, dict[str, float]] = {}
    for key in value:
        match = SUMMARY.fullmatch(key)
        if match and value[key] is not None:
            if match[1][0] == "p" and float(match[1][1:]) > 100:
                raise ImportFault(f"{where}: {key}: no percentile is above 100")
            found.setdefault(match[2], {})[match[1]] = finite(value[key], f"{where}: {key}")
    if "burstiness" not in value and found.get("e2el"):
        # Seen in the source of 2024: each of the two was computed as the other.
        for statistic in ("mean", "median"):
            found["e2el"].pop(statistic, None)
        notes.append(f"{where}: mean_e2el_ms and median_e2el_ms left out: this old version exchanged them")
    metrics = []
    for quantity, numbers in found.items():
        samples = sorted(held.get(quantity, ()))
        if samples:
            _compare(quantity, numbers, samples, where, notes)
            continue
        _ordered(quantity, numbers, where)
        for statistic, number in numbers.items():
            key = f"{statistic}_{quantity}_ms"
            if statistic[0] == "p" and statistic != "p50" and same_as_mean(number, numbers):
                notes.append(f"{where}: {key} left out: it is the mean to the last digit, and no percentile")
            elif number > 0 or statistic == "std":
                metrics.append(Metric(key, "ms", (number,)))
    return metrics


def same_as_mean(number: float, numbers: Mapping[str, float]) -> bool:
    """Whether a percentile is the mean to the last digit, of values that are not all alike."""
    return number == numbers.get("mean") and numbers.get("std", 0.0) > 0


def _compare(
    quantity: str, numbers: Mapping[str, float], samples: Sequence[float], where: str, notes: list[str]
) -> None:
    """Notes what the file says of its samples and they do not: the samples hold."""
    for statistic, said in numbers.items():
        if statistic == "median" or statistic[0] == "p":
            share = 0.5 if statistic == "median" else float(statistic[1:]) / 100
            drawn = percentile(samples, share)
            if drawn is None:
                continue
            here = 1000 * drawn
        else:
            here = 1000 * (statistics.fmean(samples) if statistic == "mean" else statistics.pstdev(samples))
        if not near(said, here):
            key = f"{statistic}_{quantity}_ms"
            notes.append(f"{where}: {key} is {said:.6g}, but its own samples give {here:.6g}: these are used")


def _ordered(quantity: str, numbers: Mapping[str, float], where: str) -> None:
    """ImportFault for percentiles that fall where they must rise."""
    known = [
        (50.0 if s == "median" else float(s[1:]), s, v)
        for s, v in numbers.items()
        if s == "median" or s[0] == "p"
    ]
    known.sort()
    for (_, below, low), (_, above, high) in itertools.pairwise(known):
        if high < low * (1 - 1e-9):
            raise ImportFault(
                f"{where}: {above}_{quantity}_ms is {high:.6g}, below {below}_{quantity}_ms {low:.6g}; the file is damaged"
            )


def near(a: float, b: float) -> bool:
    return abs(a - b) <= APART * max(abs(a), abs(b))


def finite(value: Any, where: str) -> float:
    number = checked(value, float, where)
    if not math.isfinite(number) or number < 0:
        raise ImportFault(f"{where} must be a number from 0 up, not {value!r:.60}")
    return number
