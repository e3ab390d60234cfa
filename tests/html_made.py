"""Merged runs, made up, with one of everything that an HTML report shows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from builders import CONTROL, TODAY, make_issue, make_record, make_run
from harness import policy, triage, triage_files
from harness.judge import judge
from harness.merged import Given, Merged, Off, Story
from harness.merging import merge
from harness.pairs import Pairs, Process
from harness.records import Metric, Record, Run, Trace
from harness.verdicts import Baseline, BaselineMetric

MACHINE = {"processor": "a processor", "cpu_usable": 2}
NASTY = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'` &amp; &lt;b&gt; <!-- --> ]]> "
    "\x1b[31mred\x1b]0;title\x07 \x00\x9b\u202e {{x}} ${y} javascript:alert(3)"
)
SLOW = "suites/throughput/test_speed.py::test_step"
STEPS = 60


def case(name: str, suite: str = "decoder") -> str:
    """A test id below `suites/`."""
    return f"suites/{suite}/test_{suite}.py::test_it[{name}]"


def trace(name: str, *, off_from: int | None = None, scale: float = 1.0, steps: int = STEPS) -> Trace:
    """A falling curve; from a step on it lies 2e-3 off."""
    values = [
        scale
        * (1 + math.exp(-n / 20))
        * (1 + 1e-7 * math.sin(7 * n))
        * (1.002 if off_from and n >= off_from else 1)
        for n in range(1, steps + 1)
    ]
    return Trace(name, "", tuple(values), 1, f"fp32-{name}")


def samples(middle: float, process: int, count: int = 30) -> tuple[float, ...]:
    """Step times in seconds around a middle, other ones in each process, always the same."""
    return tuple(
        middle * (1 + 0.004 * math.sin(process * 5 + n * 1.7) + 0.002 * (process % 3)) for n in range(count)
    )


def metrics(middle: float, process: int) -> tuple[Metric, ...]:
    """What one process measured."""
    work = {"samples": 8.0}
    return (
        Metric("step_s", "s", samples(middle, process), 3, work),
        Metric("host_memory_bytes", "bytes", (3.1e8 + 1e5 * process,)),
    )


def of_processes(middle: float, count: int = 5, test: str = SLOW) -> list[Record]:
    """A repeated test of several fresh processes."""
    return [make_record(test, metrics=metrics(middle, n), repeat=n) for n in range(1, count + 1)]


def make_baseline(middle: float = 0.1, **changes: Any) -> Baseline:
    """Accepted times and traces of the builders' machine."""
    medians = tuple(middle * (1 + 0.001 * n) for n in (-2, -1, 0, 1, 2, 1, 0))
    values: dict[str, Any] = {
        "tests": {SLOW: "passed", CONTROL: "passed", case("same"): "passed", case("broken"): "passed"},
        "metrics": {f"{SLOW}::step_s": BaselineMetric("s", medians, (SLOW, "step_s", "median"))},
        "traces": {f"{case('two', 'fsdp')}::loss": trace("loss")},
        "measured": (MACHINE,),
        "provenance": ({"run": "r"},),
    }
    return Baseline({}, reason="first", **{**values, **changes})


def make_story(change: int = 20) -> Story:
    """Forty runs of a metric, of which the twentieth begins a slower level."""
    values = tuple(0.1 * (1.1 if n >= change else 1.0) * (1 + 0.004 * math.sin(3.3 * n)) for n in range(40))
    return Story(
        SLOW,
        "step_s",
        "s",
        tuple(f"run-{n:02}" for n in range(40)),
        tuple(f"2027-01-{n % 28 + 1:02}T10:00:00+00:00" for n in range(40)),
        values,
        tuple(f"{n:040x}" for n in range(40)),
        (change,),
    )


def judged(run: Run, baseline: Baseline | None = None, **given: Any) -> tuple[Run, Any, Given]:
    """A run with its verdict, as `merge` takes it; causes are told from the reasons alone."""
    failed = [r for r in run.records if r.outcome in ("failed", "error")]
    known = triage_files.load_signatures()
    found = {r.test: triage.triage_record(r, {}, known) for r in failed}
    judgement = judge(run, baseline, today=TODAY, triaged=found, rules=policy.load())
    return run, judgement, Given(baseline=baseline, **given)


def cpu(extra: Iterable[Record] = (), **header: Any) -> Run:
    """The measured run that others are held against."""
    records = [
        make_record(case("same")),
        make_record(case("broken"), "failed", detail="\n".join(f"line {n}" for n in range(40)), line=12),
        make_record(case("hangs"), "failed", kind="hang", reason="no answer in 20 s"),
        make_record(case("skipped"), "skipped", reason="no device", last_day="2027-03-31"),
        make_record(case("lacks", "fsdp"), "skipped", kind="capability", reason="one device, two are needed"),
        make_record(case("two", "fsdp"), traces=(trace("loss"), trace("norm", scale=40))),
        make_record(case("late", "fsdp"), traces=(trace("loss"),)),
        *of_processes(0.1),
        *extra,
    ]
    planned = [*(r.test for r in records), case("lost")]
    known = (make_issue(tests=(case("hangs"),), reason="superframes hang"),)
    return make_run(records, planned=planned, known_issues=known, **{"repeats": 5, **header})


def other(**header: Any) -> Run:
    """A run of another vendor: a test the other way round, a trace that leaves the envelope, slower steps."""
    runner = {"name": "rocm", "device_arch": "gfx942", "device_count": 8}
    records = [
        make_record(case("same"), "failed", reason="RuntimeError: hipErrorNoBinaryForGpu"),
        make_record(case("broken")),
        make_record(case("hangs")),
        make_record(case("two", "fsdp"), traces=(trace("loss"), trace("norm", scale=40))),
        make_record(case("late", "fsdp"), traces=(trace("loss", off_from=24),)),
        *of_processes(0.112),
    ]
    return make_run(
        records, **{"runner": runner, "run_id": "20270115-110000-rocm-abcdef", "repeats": 5, **header}
    )


def stand_in(**header: Any) -> Run:
    """A run that a stand-in of the emulator made."""
    runner = {
        "name": "mirage",
        "device_arch": "gfx950",
        "device_count": 2,
        "emulated": True,
        "stand_in": True,
    }
    records = [
        make_record(case("same")),
        make_record(case("broken")),
        make_record(case("two", "fsdp"), traces=(trace("loss"),)),
    ]
    return make_run(records, **{"runner": runner, "run_id": "20270115-120000-mirage-abcdef", **header})


def everything(**given: Any) -> Merged:
    """Two measured runs and an emulated one, one runner missing and one switched off."""
    tails = {case("broken"): {"logs/x/rank-0.log": "\n".join(f"log line {n}" for n in range(60))}}
    bundle = {
        "verdict": "differ",
        "reason": "2 of 12 tensors differ",
        "packed": {"runner": "rocm", "device_arch": "gfx942", "world": 8},
    }
    base = make_baseline()
    return merge(
        [
            judged(cpu(), base, tails=tails, stories=(make_story(),), folder="runs/cpu", **given),
            judged(
                other(),
                make_baseline(metrics={f"{SLOW}::step_s": base.metrics[f"{SLOW}::step_s"]}),
                bundles=(bundle,),
            ),
            judged(stand_in()),
        ],
        expected=("cpu", "rocm", "cuda", "tpu"),
        off=(Off("tpu", "the lease ended", "2027-02-28"),),
        today=TODAY,
    )


def paired() -> Merged:
    """A run that was compared with a base in pairs: slower by a tenth."""
    numbers = range(1, 13)
    base = make_run(of_processes(0.1, 12), run_id="base", repeats=12)
    head = make_run(of_processes(0.11, 12), repeats=12)
    processes = [
        Process(side, n, None if n <= 4 else n - 4, (SLOW,), 0, 1.0, "2027-01-15T10:00:00+00:00")
        for n in numbers
        for side in ("base", "head")
    ]
    pairs = Pairs(
        "main",
        1,
        0.2,
        ("base", "head") * 4,
        (("base", "head"),) * 8,
        (8,),
        (SLOW,),
        "reference",
        "reference",
        {},
        tuple(processes),
        (f"{SLOW}::step_s",),
        ended=True,
        base=base,
    )
    return merge([judged(dataclasses.replace(head, pairs=pairs))])


def many(count: int = 10_000, suites: int = 8) -> Merged:
    """So many tests on three runners; one in fifty fails on the second, one in forty is a known issue."""

    def records(column: int) -> list[Record]:
        found = []
        for n in range(count):
            stuck = "stuck" if n % 40 == 3 else "usual"
            test = f"suites/suite{n % suites}/test_many.py::test_case[a-name-of-{stuck}-length-{n:05}]"
            if column == 1 and n % 50 == 7:
                found.append(
                    make_record(test, "failed", reason=f"AssertionError: frame {n} is not the one asked for")
                )
            elif stuck == "stuck":
                found.append(make_record(test, "failed", kind="hang", reason="no answer in 20 s"))
            else:
                found.append(make_record(test))
        return found

    known = (make_issue(tests=("suites/*-stuck-*",)),)
    runners = [
        {},
        {"name": "rocm", "device_arch": "gfx942", "device_count": 8},
        {"name": "cuda", "device_arch": "sm_90", "device_count": 8},
    ]
    return merge(
        [
            judged(make_run(records(n), runner=r, run_id=f"run-{n}", known_issues=known), None)
            for n, r in enumerate(runners)
        ]
    )


def nasty() -> Merged:
    """A report in which every text from tests and logs is markup."""
    bad = case(f"n{NASTY}")
    records = [
        make_record(bad, "failed", reason=NASTY, detail=f"{NASTY}\n{NASTY}", logs=("logs/x/y.log",)),
        make_record(case(f"s{NASTY}"), "skipped", reason=NASTY, last_day="2027-03-31"),
        make_record(case(f"k{NASTY}"), "failed", kind="hang", reason=NASTY),
        make_record(
            case(f"m{NASTY}"),
            metrics=(Metric(f"time {NASTY}", "s", samples(0.1, 1)), Metric("m", NASTY, (1.0, 2.0))),
            traces=(dataclasses.replace(trace("loss"), name=f"t{NASTY}", unit=NASTY),),
        ),
    ]
    issue = make_issue(
        id=f"i{NASTY}", tests=("suites/decoder/*[[]k*",), reason=NASTY, link="javascript:alert(4)"
    )
    second = [
        make_record(
            case(f"m{NASTY}"), traces=(dataclasses.replace(trace("loss", off_from=5), name=f"t{NASTY}"),)
        )
    ]
    target = {"note": NASTY, "supplies": (NASTY,)}
    run = make_run(
        records, known_issues=(issue,), target=target, software={"python": NASTY}, problems=(NASTY,)
    )
    runner = {"name": "rocm", "device_arch": "gfx942"}
    return merge(
        [
            judged(run, tails={bad: {f"logs/{NASTY}": f"{NASTY}\n" * 3}}, folder=NASTY),
            judged(
                make_run(second, runner=runner, run_id="other"),
                bundles=({"verdict": NASTY, "reason": NASTY},),
            ),
        ],
        expected=(f"cuda {NASTY}",),
        today=TODAY,
    )
