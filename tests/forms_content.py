"""Content of reports with one of everything, for the tests of the report forms."""

from __future__ import annotations

import dataclasses

from builders import TODAY, case, make_issue, make_record, make_run
from harness.judge import judge
from harness.judge_words import metric_reasons, render_headline
from harness.merged import Given, Merged, Off
from harness.merging import merge, one
from harness.records import Run, Trace
from harness.verdicts import Baseline, Crossing, Judgement
from metric_rows import make_verdict

LINE = 42
LOSS = case("loss", "training")


def _trace(scale: float) -> Trace:
    return Trace("loss", "1", tuple(scale / (n + 1) for n in range(20)), noise="fp32-loss")


def every_run() -> tuple[Run, Judgement]:
    """A run that has a test of each verdict, a repeated one, and a metric of each; and what the judge says of it."""
    names = (
        "same fixed new known skipped lacking newly_failing failing known_expired known_fixed lost error "
        "infrastructure capability_lost skip_unaccepted repeated retried"
    )
    t = {name: case(name) for name in names.split()}
    held = case("other_control")
    skip = {"reason": "no device", "kind": "capability"}
    records = [
        make_record(t["same"]),
        make_record(t["fixed"]),
        make_record(t["new"]),
        make_record(t["known"], "failed", line=7),
        make_record(t["skipped"], "skipped", reason="too long here", last_day="2027-03-31"),
        make_record(t["lacking"], "skipped", **skip),
        make_record(
            t["newly_failing"],
            "failed",
            line=LINE,
            kind="drift",
            detail="first: the loss left\nthe envelope",
            logs=("logs/launch/rank-0.log",),
        ),
        make_record(t["failing"], "failed", kind="hang", reason="no answer in 20 s"),
        make_record(t["known_expired"], "failed"),
        make_record(t["known_fixed"]),
        make_record(t["error"], "error"),
        make_record(t["infrastructure"], "failed", kind="infrastructure", reason="the device is gone"),
        make_record(t["capability_lost"], "skipped", **skip),
        make_record(t["skip_unaccepted"], "skipped"),
        make_record(held, "failed", kind="control", reason="did not fail", control=True),
        *(make_record(t["repeated"], repeat=n) for n in (1, 2, 3)),
        make_record(t["retried"], "failed", kind="crash"),
        make_record(t["retried"], worker="gw1"),
        make_record(LOSS, traces=(_trace(1.0),)),
    ]
    run = make_run(
        records,
        planned=[*t.values(), held, LOSS],
        known_issues=(
            make_issue(tests=(t["known"], t["known_fixed"])),
            make_issue(id="old", tests=(t["known_expired"],), last_day="2026-03-31"),
        ),
        repeats=3,
    )
    past = dict.fromkeys((t["same"], t["newly_failing"], t["capability_lost"], case("missing")), "passed")
    baseline = Baseline(run.header.comparability, {**past, t["fixed"]: "failed"}, {}, (), "a reason")
    return run, with_metrics(run, judge(run, baseline, today=TODAY))


def with_metrics(run: Run, judgement: Judgement) -> Judgement:
    """The judgement with a metric of each verdict, gated and not, and traces beside another runner."""
    metrics = tuple(
        make_verdict(
            f"test_{verdict}",
            "step_s" if gate else "load_s",
            verdict=verdict,
            gate=gate,
            why=f"why it is {verdict}",
            **more,
        )
        for gate in (True, False)
        for verdict, more in (
            ("regressed", {"change": 0.25 if gate else 0.125}),
            ("missing", {"median": None}),
            ("incomparable", {}),
            ("inconclusive", {}),
            ("improved", {"change": -0.5}),
            ("equivalent", {}),
            ("unflagged", {}),
            ("new", {"baseline_median": None}),
            ("shown", {}),
        )
    )
    crossings = tuple(
        Crossing(LOSS, name, "other-arch-8", verdict, f"why {name} is {verdict}", 0.5, 3, 3)
        for name, verdict in (("a", "differ"), ("b", "inconclusive"), ("c", "agree"))
    )
    reasons = (*judgement.reasons, *metric_reasons(metrics), "a reason of its own")
    headline = render_headline(judgement.status, run, judgement.tests, reasons, metrics)
    return dataclasses.replace(
        judgement, metrics=metrics, crossings=crossings, reasons=reasons, headline=headline
    )


def every_single() -> Merged:
    """The content of a report on that run."""
    run, judgement = every_run()
    test = case("newly_failing")
    given = Given(folder="runs/every", tails={test: {"logs/launch/rank-0.log": "the log's last line"}})
    return one(run, judgement, given)


def every_merged() -> Merged:
    """That run beside a green one of other outcomes, an emulated one, one that did not report, and one switched off."""
    run, judgement = every_run()
    tests = [make_record(case("newly_failing")), make_record(LOSS, traces=(_trace(3.0),))]
    other = make_run(tests, runner={"device_arch": "aarch64"}, run_id="20270115-110000-cpu-bbbbbb")
    told = make_run(
        [make_record(case("same"))],
        runner={"name": "mirage", "device_arch": "gfx942", "device_count": 8, "emulated": True},
        run_id="20270115-120000-mirage-cccccc",
    )
    bundles = (
        {"verdict": "differ", "reason": "the loss differs at step 7", "packed": {"runner": "cpu"}},
        {"verdict": "agree", "reason": "equal", "packed": {"runner": "cpu"}},
    )
    judged = [
        (run, judgement, Given(folder="runs/every")),
        (other, judge(other, None, today=TODAY), Given(bundles=bundles)),
        (told, judge(told, None, today=TODAY), Given()),
    ]
    off = [Off("idle", "no machine of that kind", "2027-03-31")]
    return merge(judged, expected=("cpu", "absent-runner"), off=off, today=TODAY)


def green_single() -> Merged:
    """A whole, measured run that is green."""
    run = make_run([make_record(case("a"))])
    return one(run, judge(run, None, today=TODAY))


def no_verdict_single() -> Merged:
    """A run whose own end is unknown: nothing in it failed."""
    run = make_run([make_record(case("a"))], finished=None)
    return one(run, judge(run, None, today=TODAY))


def many_merged(failures: int, name: str = "case") -> Merged:
    """A run with many tests of functions of their own that fail, are known, or are skipped."""
    records = []
    for n in range(failures):
        test = f"suites/decoder/test_frames.py::test_{name}_{n}"
        detail = "\n".join(f"line {k} of ``` {n} | <b>" + name[-1] * 300 for k in range(30))
        records.append(make_record(test, "failed", reason=f"{name} broke {n}", detail=detail))
        records.append(make_record(f"{test}_skipped", "skipped", reason=f"no {n}", last_day="2027-03-31"))
    run = make_run(records)
    return one(run, judge(run, None, today=TODAY))
