"""What reports promise of metrics: who needs a person first, every row with what could have been seen, rates, costs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import case, make_record, make_run
from harness.cost import Price, Prices
from harness.judge import judge
from harness.merged import Given
from harness.merging import one
from harness.policy import Rule
from harness.records import Metric
from harness.report_parts.metric_parts import NEEDS_PERSON, judged
from harness.reports import as_json, markdown, terminal
from harness.verdicts import METRIC_VERDICTS, Baseline, BaselineMetric
from metric_rows import SPEED, make_judgement, make_verdict
from test_reports import TEXTS, TODAY, WIDE, flat

RUN = make_run([make_record(case("a"))])
INVENTED = Prices((Price("cpu-*", 3.6, "USD", "invented for this test", "2026-12-01"),), 1000.0)
FULL = {"samples": 4.0, "flop": 2e12}


def show(module: Any, *metrics: Any, given: Given | None = None, run: Any = RUN, **changes: Any) -> str:
    """A report of these metrics in one format, wide enough that nothing wraps."""
    judgement = make_judgement(*metrics, **changes)
    text: str = module.render(one(run, judgement, given or Given()), width=WIDE)
    return text


@pytest.mark.parametrize("module", TEXTS)
def test_judged_row(module: Any) -> None:
    """A judged metric shows both medians with their processes, the change with its interval, verdict, what could
    have been detected, and noise."""
    text = flat(show(module, make_verdict(verdict="regressed")))
    row = text[text.index("step_s") :]
    places = [
        row.index(words)
        for words in (
            "100 ms (7)",
            "104 ms (5)",
            "+4.0 % (+3.0 to +5.0)",
            "regressed",
            "6.1 %",
            "1.2 %",
        )
    ]
    assert places == sorted(places)
    assert SPEED + "test_step" in text


@pytest.mark.parametrize("module", TEXTS)
def test_unknown_is_said(module: Any) -> None:
    """What a row does not know reads `unknown`, never 0; what a new metric cannot have reads `none`."""
    nothing = dict.fromkeys(("baseline_median", "ratio", "change", "low", "high", "detectable", "noise"))
    new = flat(show(module, make_verdict(verdict="new", **nothing)))
    gone = flat(show(module, make_verdict(verdict="missing", median=None, **nothing)))
    for text, words in ((new, {"none": 2, "unknown": 2}), (gone, {"none": 0, "unknown": 5})):
        row = (
            re.split(r"\bnoise\b", text, maxsplit=1)[1].partition("missing: within")[0].partition("Rates")[0]
        )
        assert {w: len(re.findall(rf"\b{w}\b", row)) for w in words} == words
        assert " 0 " not in row


@given(st.permutations(sorted(set(METRIC_VERDICTS) - {"shown"})))
def test_who_needs_a_person_comes_first(verdicts: list[str]) -> None:
    """However they come, rows that need a person stand first, then improved, new, and the settled; shown are apart."""
    rows = [make_verdict(f"test_{n}", verdict=v) for n, v in enumerate(verdicts)]
    found = [m.verdict for m in judged(make_judgement(*rows, make_verdict(verdict="shown")))]
    assert found == [*NEEDS_PERSON, "improved", "new", "equivalent", "unflagged"]


def test_largest_change_first() -> None:
    """Of the regressed the largest change stands first, the gate's before others; of the rest the name decides."""
    rows = [
        make_verdict("test_a", verdict="regressed", change=0.05),
        make_verdict("test_b", verdict="regressed", change=0.5),
        make_verdict("test_c", verdict="regressed", change=0.9, gate=False),
        make_verdict("test_z", verdict="equivalent"),
        make_verdict("test_y", verdict="equivalent", change=0.02),
    ]
    found = [m.test.removeprefix(SPEED) for m in judged(make_judgement(*rows))]
    assert found == ["test_b", "test_a", "test_c", "test_y", "test_z"]
    assert "regressed, no gate" in flat(show(markdown, *rows))


@pytest.mark.parametrize("module", TEXTS)
def test_why(module: Any) -> None:
    """Metrics that need a person say why, alike ones in one line with their number; settled ones say nothing."""
    alike = [make_verdict(f"test_{n}", verdict="inconclusive", why="nothing is shown") for n in range(9)]
    text = flat(
        show(
            module,
            make_verdict("test_slow", verdict="regressed", why="worse by far", statistic="first"),
            make_verdict("test_fine", why="all is well"),
            *alike,
        )
    )
    assert f"regressed: worse by far: {SPEED}test_slow: step_s@" in text.replace("\u200b", "")
    assert text.count("nothing is shown") == 1
    assert "inconclusive (9): nothing is shown" in text
    assert "; and 4 more" in text
    assert "all is well" not in text


@pytest.mark.parametrize("module", TEXTS)
def test_improvement_asks_for_a_new_baseline(module: Any) -> None:
    """What improved names the command that accepts it, with a reason that accepting refuses; the run stays green."""
    better = make_verdict(verdict="improved", change=-0.1)
    text = show(module, better, given=Given(folder="runs/it's"))
    assert "harness baseline accept 'runs/it'\"'\"'s' --reason TEXT" in text
    assert "1 metric is better than the baseline; if that is meant, accept a new one:" in flat(text)
    assert "baseline accept" not in show(module, make_verdict())
    partial = flat(show(module, better, status="red"))
    assert "accept a new one, from a run of whole suites with clean checkouts that is not red:" in partial


def test_improvement_is_green() -> None:
    """A metric that improved beyond its baseline does not fail the run."""
    rules = (Rule("step_s", lower_is_better=True, minimum=0.03, gate=True, statistics=("median",)),)
    base = BaselineMetric("s", (0.1, 0.101, 0.099, 0.1, 0.1005), (case("a"), "step_s", "median"))
    values = (0.08, 0.0801, 0.0799, 0.0802, 0.08)
    records = [
        make_record(case("a"), repeat=n, metrics=(Metric("step_s", "s", (v,) * 3),))
        for n, v in enumerate(values, 1)
    ]
    run = make_run(records, repeats=5)
    source = ({"processor": "a processor", "cpu_usable": 2, "host": "box", **run.header.software},)
    baseline = Baseline(
        run.header.comparability,
        {case("a"): "passed"},
        {f"{case('a')}::step_s": base},
        source,
        "why not",
        measured=source,
    )
    found = judge(run, baseline, today=TODAY, rules=rules)
    assert [m.verdict for m in found.metrics] == ["improved"]
    assert (found.status, found.exit_status) == ("green", 0)
    assert "baseline accept runs/x" in terminal.render(one(run, found, Given(folder="runs/x")), width=WIDE)


@pytest.mark.parametrize("module", TEXTS)
def test_shown_metrics_are_grouped(module: Any) -> None:
    """Metrics that are only shown are one row a function, with their number, middle and span."""
    rows = [make_verdict(f"test_x[{n}]", "wait", verdict="shown", median=n / 1000) for n in (1, 2, 3)]
    text = flat(show(module, *rows))
    assert "Metrics that are only shown" in text
    assert re.search(r"wait \|? ?3 \|? ?2 ms \|? ?1 ms to 3 ms", text)
    assert "test_x[" not in text.partition("Rates")[0]


@pytest.mark.parametrize("module", TEXTS)
def test_rates(module: Any) -> None:
    """Rates of this run and MFU stand in a table of their own; without a peak MFU reads `unknown`, and why."""
    step = make_verdict("test_step[one-bf16]", work=FULL, median=0.1)
    text = flat(show(module, step, given=Given({"bf16": 100.0})))
    assert "40 samples/s" in text
    assert "20 % of bf16" in text
    text = flat(show(module, step))
    assert "Unknown: the peak of this device is not known" in text
    assert "% of bf16" not in text
    assert "Rates" not in flat(show(module, make_verdict()))


@pytest.mark.parametrize("module", TEXTS)
def test_costs(module: Any) -> None:
    """With prices a table tells costs with currency, source and day; without there is none."""
    step = make_verdict("test_step[one-bf16]", work=FULL, median=0.1)
    text = flat(show(module, step, given=Given(prices=INVENTED)))
    row = text[text.index("Costs") :]
    for words in ("0.0001", "0.025", " 25", "USD", "invented for this test", "2026-12-01", "1000 samples"):
        assert words in row
    assert "Costs" not in flat(show(module, step))
    assert "no price fits the runner cpu-x86_64-1" in flat(
        show(
            module, step, given=Given(prices=Prices((Price("gpu-*", 1.0, "USD", "invented", "2026-12-01"),)))
        )
    )


@pytest.mark.parametrize("module", [*TEXTS, as_json])
def test_no_cost_of_an_emulated_run(module: Any) -> None:
    """An emulated run has neither MFU nor cost, and says why."""
    run = make_run([make_record(case("a"))], runner={"emulated": True})
    step = make_verdict("test_step[one-bf16]", work=FULL)
    text = show(module, step, run=run, given=Given({"bf16": 100.0}, INVENTED))
    assert "emulated: its times say nothing of a device, so nothing of a cost" in text
    assert "USD" not in text
    assert "% of bf16" not in text


def test_json_of_metrics() -> None:
    """The JSON holds every metric as it was judged, its rates and costs by name, and null for what is unknown."""
    step = make_verdict("test_step[one-bf16]", verdict="improved", work=FULL, median=0.1, noise=float("nan"))
    value = json.loads(show(as_json, step, make_verdict(), given=Given({"bf16": 100.0}, INVENTED, "runs/x")))
    metric = value["metrics"][0]
    assert (metric["verdict"], metric["detectable"], metric["noise"]) == ("improved", 0.061, None)
    (rate,) = value["rates"]
    assert rate["per_second"] == {"samples": pytest.approx(40)}
    assert (rate["mfu"], rate["precision"], rate["devices"]) == (pytest.approx(0.2), "bf16", 1)
    costs = value["costs"]
    assert costs["price"]["currency"] == "USD"
    assert costs["rows"][0]["per_step"] == pytest.approx(1e-4)
    assert costs["rows"][0]["per_million_actions"] is None
    assert value["new_baseline"]["command"] == "harness baseline accept runs/x --reason TEXT"
    bare = json.loads(show(as_json, make_verdict()))
    assert (bare["rates"], bare["costs"], bare["new_baseline"]) == ([], None, None)


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_name(text: str) -> None:
    """Whatever a test or a metric is called, every row of a table has as many cells as its head, and no control
    character."""
    rows = [make_verdict(text, text, unit=text, verdict=v, why=text) for v in ("regressed", "shown", "new")]
    out = show(markdown, *rows, make_verdict(text, work=FULL), given=Given(prices=INVENTED))
    bars = 0
    for line in out.split("\n"):
        bare = re.sub(r"\\.", "", line)
        if line.startswith("| "):
            assert bars in (0, bare.count("|"))
        bars = bare.count("|") if line.startswith("|") else 0
    for width in (50, WIDE):
        plain = terminal.render(one(RUN, make_judgement(*rows)), width=width)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", plain)


def test_lines_keep_to_the_width() -> None:
    """Tables of metrics wrap in a narrow terminal, and color marks what needs a person."""
    rows = [make_verdict("test_long_name" * 5, verdict=v, work=FULL) for v in ("regressed", "equivalent")]
    out = terminal.render(one(RUN, make_judgement(*rows)), width=60)
    assert all(len(line) <= 60 for line in out.splitlines() if "baseline accept" not in line)
    assert "\x1b[31m" in terminal.render(one(RUN, make_judgement(*rows)), width=110, color=True)
