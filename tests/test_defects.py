"""Every planted defect is caught, and the clean target passes the tests that catch them."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

import pytest

import runs
from builders import make_record, make_run
from fixtures import defects
from harness import ROOT, planting, planting_repeated, policy
from harness.planting import Planted
from harness.planting_repeated import (
    BASE,
    BASE_PROCESSES,
    HEAD,
    HEAD_PROCESSES,
    Bench,
    altered,
    decide,
    joined,
    judge_planted,
    schedule,
)
from harness.records import Metric, Run
from harness.verdicts import MetricVerdict


def test_every_defect_is_caught() -> None:
    """`harness defects` plants each, catches all that its power allows, and exits with 0; the clean target is clean."""
    done = runs.harness("defects", "--format", "json")
    found = json.loads(done.stdout)
    assert {d["defect"] for d in found} == set(defects.names())
    suites = {p.parent.name for p in (ROOT / "suites").glob("*/__init__.py")}
    assert {d["suite"] for d in found} == suites, "a suite has no defects"
    allowed = {n for n in defects.names() if defects.get(n).expect == "power"}
    missed = [d for d in found if d["result"] != "caught"]
    assert [d for d in missed if d["result"] != "inconclusive" or d["defect"] not in allowed] == []
    assert done.stderr.count("clean target: clean") == len(suites)
    assert done.returncode == 0


def nothing(_target: object) -> None:
    """A defect that does nothing."""


@pytest.mark.parametrize("result", ["missed", "broken"])
def test_a_fault_that_no_test_sees_is_missed(result: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect without effect is missed, and one whose run gives no answer is broken: neither is caught."""
    defect = defects.Defect("idle", "decoder", "does nothing", "test_frame_count", nothing)
    # The run is in another process, which knows its defects by name: this one stands in for a planted one.
    real = planting.run_suite
    if result == "missed":
        monkeypatch.setattr(planting, "run_suite", lambda suite, select, options: real(suite, select, []))
    else:
        broken = ["--defect", "off-by-one-frame", "--time-limit", "0"]
        monkeypatch.setattr(
            planting, "run_suite", lambda suite, select, options: real(suite, "nothing_such", broken)
        )
    planted = planting._plant(defect, lambda _line: None)
    assert isinstance(planted, Planted)
    assert planted.result == result


# Defects of speed, judged from records in memory.

TIMES = {"decode_s": 16, "latency_s": 30, "batch_s": 10, "step_s": 12, "save_s": 4, "host_memory_bytes": 12}
TIMED = [d for d in map(defects.get, defects.names()) if d.metric is not None]


def measured(processes: int, *, noise: float = 0.01, seed: int = 0, **factors: float) -> Run:
    """A run of a test for each metric, in so many processes; `factors` by metric make it slower."""
    draw = random.Random(seed)
    records = []
    for name, count in TIMES.items():
        for repeat in range(1, processes + 1):
            level = factors.get(name, 1.0) * draw.lognormvariate(0, noise)
            samples = tuple(level * draw.lognormvariate(0, noise) for _ in range(count))
            metric = Metric(name, "bytes" if name.endswith("_bytes") else "s", samples)
            test = f"suites/throughput/test_throughput.py::test[{name}]"
            records.append(make_record(test, metrics=(metric,), repeat=repeat))
    return make_run(records, control=False, repeats=processes)


def bench(**options: Any) -> Bench:
    return Bench(measured(5, seed=1, **options), measured(3, seed=2, **options), policy.load())


def test_timed_defects_come_last_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite with defects of a metric is left out of what runs at the same time, and comes after all of it, whole."""
    calls: list[tuple[str, set[str]]] = []

    def at_once(chosen: list[Any], _say: object, _jobs: int) -> tuple[list[Any], list[Any]]:
        calls.append(("at once", {d.suite for d in chosen}))
        return [], list(chosen)

    def alone(suite: str, chosen: list[Any], _say: object) -> tuple[Any, list[Any]]:
        calls.append(("alone", {d.suite for d in chosen}))
        return suite, list(chosen)

    monkeypatch.setattr(planting_repeated, "plant_all", at_once)
    monkeypatch.setattr(planting_repeated, "plant_repeated", alone)
    every = [defects.get(n) for n in defects.names()]
    _, planted = planting_repeated.plant_every(every, lambda _line: None)
    others = {d.suite for d in every} - {"throughput"}
    assert calls == [("at once", others), ("alone", {"throughput"})]
    assert sorted(d.name for d in planted) == sorted(defects.names())


@pytest.mark.parametrize("name", [d.name for d in TIMED])
def test_a_defect_of_speed_without_effect_is_missed(name: str) -> None:
    """A planted run that is as fast as the clean one is a miss, whatever the defect was meant to slow down."""
    clean = bench(noise=0.0005)
    planted = judge_planted(defects.get(name), clean.head, clean)
    assert planted.result == "missed"
    assert planted.by is None


@pytest.mark.parametrize("change", [("decode_s", 5.0, "caught"), ("latency_s", 5.0, "missed")])
def test_only_its_own_metric_catches_a_defect(change: tuple[str, float, str]) -> None:
    """A defect of decoding is caught when decoding becomes slower, and not when something else does."""
    name, factor, result = change
    slower = measured(3, seed=3, **{name: factor})
    planted = judge_planted(defects.get("decode-slower-fivefold"), slower, bench())
    assert planted.result == result
    assert (planted.by or "").endswith("test[decode_s]") == (result == "caught")


def test_a_defect_may_have_a_minimum_of_its_own() -> None:
    """A change of 3 % where 5 % is the least that matters is found by a defect that asks for 1 %, on quiet processes."""
    defect, clean = defects.get("decode-slower-3"), bench(noise=0.001)
    slower = measured(3, noise=0.001, seed=3, decode_s=1.03)
    assert judge_planted(defect, slower, clean).result == "caught"
    assert judge_planted(dataclasses.replace(defect, minimum=None), slower, clean).result == "missed"


def test_a_failing_test_catches_and_a_broken_one_does_not() -> None:
    """A test that failed has seen the defect; an error, or no record at all, is no answer."""
    defect, clean = defects.get("sample-dropped"), bench()
    first = clean.head.records[0]
    for outcome, result in (("failed", "caught"), ("error", "broken"), ("passed", "missed")):
        run = dataclasses.replace(clean.head, records=(make_record(first.test, outcome, repeat=1),))
        assert judge_planted(defect, run, clean).result == result
    assert judge_planted(defect, dataclasses.replace(clean.head, records=()), clean).result == "broken"
    assert judge_planted(defects.get("save-slow"), make_run([first], control=False), clean).result == "broken"


def test_a_changed_unit_is_caught() -> None:
    """Seconds that come as milliseconds are not compared, and that is told."""
    defect, clean = defects.get("seconds-in-milliseconds"), bench()
    planted = judge_planted(defect, altered(clean.head, defect.alter), clean)
    assert planted.result == "caught"
    assert "the unit is ms here, s in the baseline" in planted.why


@pytest.mark.parametrize("noise", [0.002, 0.02, 0.2])
def test_scatter_alone_has_no_verdict(noise: float) -> None:
    """Processes that scatter more around the same mean are neither worse nor shown to be the same, and the noise that is
    told has at least doubled; without the scatter the defect is missed."""
    defect, clean = defects.get("noise-doubled"), bench(noise=noise)
    planted = judge_planted(defect, altered(clean.head, defect.alter), clean)
    assert planted.result == "inconclusive", planted.why
    assert judge_planted(defect, clean.head, clean).result == "missed"


def test_small_effects_take_turns_with_the_clean_target() -> None:
    """Where an effect is small, clean and planted processes alternate; everything runs in as many processes as asked."""
    every = [d for d in map(defects.get, defects.names()) if d.suite == "throughput"]
    small = [d for d in every if d.select == defects.get("decode-slower-3").select]
    turns = schedule(small)
    assert {count for _, count in turns} == {1}
    live = [d.name for d in small if d.alter is None]
    assert [who for who, _ in turns[: len(live) + 2]] == [BASE, HEAD, *live]
    totals = {who: sum(n for w, n in turns if w == who) for who, _ in turns}
    assert totals == {BASE: BASE_PROCESSES, **dict.fromkeys([HEAD, *live], HEAD_PROCESSES)}
    large = [d for d in every if d.select == defects.get("sample-dropped").select]
    counts = {d.name: 1 if d.name == "sample-dropped" else HEAD_PROCESSES for d in large}
    assert schedule(large) == [(BASE, BASE_PROCESSES), *counts.items()]


def test_turns_are_joined_to_one_run() -> None:
    """Joined runs hold each process once, under numbers that do not repeat, and say how many there were."""
    one, two = measured(2, seed=4), measured(1, seed=5)
    whole = joined([one, two])
    assert whole.header.repeats == 3
    assert [r.metrics for r in whole.records] == [r.metrics for r in (*one.records, *two.records)]
    for test in {r.test for r in whole.records}:
        assert sorted(r.repeat or 0 for r in whole.records if r.test == test) == [1, 2, 3]


def row(verdict: str, detectable: float | None = None, noise: float | None = None) -> MetricVerdict:
    """A row of its verdict; `incomparable by unit` and `by machine` are the two kinds of that verdict."""
    verdict, _, what = verdict.partition(" by ")
    why = {"unit": "the unit is ms here, s in the baseline", "machine": "another machine: cpu_usable 2 here"}
    return MetricVerdict(
        "t",
        "decode_s",
        "s",
        3,
        1.0,
        verdict=verdict,
        why=why.get(what, ""),
        detectable=detectable,
        noise=noise,
    )


@pytest.mark.parametrize(
    ("verdict", "detectable", "result"),
    [
        ("regressed", 0.2, "caught"),
        ("incomparable by unit", None, "caught"),
        ("incomparable by machine", None, "missed"),
        ("inconclusive", 0.2, "inconclusive"),
        ("inconclusive", 9.0, "inconclusive"),
        ("inconclusive", 0.06, "inconclusive"),
        ("inconclusive", 0.05, "missed"),
        ("inconclusive", None, "missed"),
        ("equivalent", 0.2, "missed"),
        ("improved", 0.2, "missed"),
        ("new", None, "missed"),
        ("shown", None, "missed"),
        ("missing", None, "missed"),
    ],
)
def test_what_is_too_small_to_see_may_be_left_open(
    verdict: str, detectable: float | None, result: str
) -> None:
    """A change of 10 % may be without a verdict where the judge says that it could not see it, never green; where half
    of it was detectable it must be found. A defect that must be caught is never left open."""
    small, large = defects.get("decode-slower-10"), defects.get("decode-slower-fivefold")
    assert decide(small, row(verdict, detectable), 0.01) == result
    assert decide(large, row(verdict, detectable), 0.01) == ("caught" if result == "caught" else "missed")


@pytest.mark.parametrize("verdict", ["regressed", "improved", "equivalent"])
def test_a_verdict_on_scatter_alone_is_a_miss(verdict: str) -> None:
    """Where only the scatter grew, a change that is claimed is as wrong as its absence."""
    assert decide(defects.get("noise-doubled"), row(verdict, 0.5, 0.9), 0.01) == "missed"
    assert decide(defects.get("noise-doubled"), row("inconclusive", 0.5, 0.9), 0.01) == "inconclusive"
    assert decide(defects.get("noise-doubled"), row("inconclusive", 0.5, 0.015), 0.01) == "missed"
