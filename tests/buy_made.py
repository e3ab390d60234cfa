"""Runs of made-up machines for the tests of a buyer's page. Every time and every price here is invented."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from builders import case, make_header, make_record
from harness.buying import Offer
from harness.cost import Price, Prices
from harness.records import Metric, Record, Run, Trace

FILE = "suites/throughput/test_throughput.py"
FP32 = f"{FILE}::test_training[one-fp32-shard-grad-op]"
BF16 = f"{FILE}::test_training[one-bf16-shard-grad-op]"
TWO = f"{FILE}::test_concurrent_inference[concurrency-2]"
LOSS = "suites/fsdp/test_fsdp.py::test_steps_are_finite[one]"
PRICES = Prices(
    (
        Price("cheap*", 2.0, "USD", "invented", "2026-12-01"),
        Price("dear*", 6.0, "USD", "invented", "2026-12-01"),
    ),
    1000.0,
)


def spread(middle: float, count: int = 5, noise: float = 0.01, seed: int = 0) -> list[float]:
    """One value a process around a middle."""
    draw = random.Random(seed)
    return [middle * (1 + noise * draw.uniform(-1, 1)) for _ in range(count)]


def step(seconds: Sequence[float], test: str = FP32, **work: float) -> list[Record]:
    """A training in so many processes, with a warm-up that is long, and ten times as slow."""
    done = {"samples": 4.0, "devices": 1.0, "flop": 1e12, **work}
    return [
        make_record(test, repeat=n, metrics=(Metric("step_s", "s", (*[10 * s] * 8, *[s] * 6), 8, done),))
        for n, s in enumerate(seconds, 1)
    ]


def turns(seconds: Sequence[float], callers: int = 2, tail: float = 1.0, test: str = TWO) -> list[Record]:
    """Turns of 8 calls by so many callers; one call in eight takes `tail` times as long as the others, and those
    of the warm-up fifty times."""
    done = {"actions": 64.0, "chunks": 8.0, "inferences": 8.0, "concurrency": float(callers), "devices": 1.0}
    records = []
    for n, s in enumerate(seconds, 1):
        call = s * callers / 8
        calls = tuple(call * (50 if k < 8 else tail if k % 8 == 7 else 1) for k in range(40))
        metrics = (
            Metric("turn_s", "s", (s, s, s, s, s), 1, done),
            Metric("call_s", "s", calls, 8, {"concurrency": float(callers)}),
        )
        records.append(make_record(test, repeat=n, metrics=metrics))
    return records


def loss(scale: float = 1.0, steps: int = 60, first: int = 1) -> Record:
    """A test with a trace whose noise is known."""
    values = tuple(scale * 3 / (n + 1) for n in range(steps))
    return make_record(LOSS, traces=(Trace("loss", "", values, first, "fp32-loss"),))


def make_offer(name: str, *records: Record, traces: bool = True, **changes: Any) -> Offer:
    """A green, measured run of these records under this name, with a trace that agrees with everybody's."""
    told = {k: changes.pop(k) for k in ("status", "why", "peaks") if k in changes}
    runner = {
        "name": name.partition(" ")[0],
        "device_arch": "x",
        "device_count": 1,
        **changes.pop("runner", {}),
    }
    every = [*records, *([loss()] if traces else [])]
    held = [f"suites/{suite}/test_it.py::test_control" for suite in sorted({r.suite for r in every})]
    every += [make_record(test, control=True) for test in held]
    values = {"run_id": f"run-{name.replace(' ', '-')}", "repeats": 5, **changes}
    planned = tuple(sorted({r.test for r in every}))
    header = make_header(runner=runner, planned=planned, **{"controls": tuple(held), **values})
    return Offer(Run(header, tuple(every)), **{"status": "green", **told})


def cheap(seconds: float = 0.2, **changes: Any) -> Offer:
    """A slow machine of 2 USD an hour."""
    records = (*step(spread(seconds)), *turns(spread(seconds, seed=3)))
    return make_offer("cheap", *changes.pop("records", records), **changes)


def dear(seconds: float = 0.1, **changes: Any) -> Offer:
    """A fast machine of 6 USD an hour."""
    records = (*step(spread(seconds, seed=1)), *turns(spread(seconds, seed=4)))
    return make_offer("dear", *changes.pop("records", records), **changes)


def failing(test: str) -> Record:
    """A test that failed in its second process."""
    return make_record(test, "failed", repeat=2)


def note(name: str = "a") -> str:
    """A test of another suite."""
    return case(name)
