"""Several runs in one report: who agrees, who is missing, what may not be compared, and the verdict on all."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runs
from builders import TODAY, case, make_record, make_run
from harness import rundir, switched_off
from harness.errors import UsageError
from harness.judge import judge
from harness.merged import NOT_RUN, NOTHING, Given, Merged, Off
from harness.merging import merge, one
from harness.policy import Rule
from harness.records import Metric, Record, Run, Trace
from harness.report_parts import merged_parts
from harness.reports import formats

A, B = case("a"), case("b")
CPU: dict[str, Any] = {}
GPU = {"name": "cuda", "device_arch": "sm_90"}
EMULATED = {"name": "mirage", "device_arch": "gfx950", "emulated": True}
RULES = (Rule("step_s", True, 0.02, True, ("median",)),)


def run_of(name: str, runner: dict[str, Any], *records: Record, **header: Any) -> Run:
    return make_run(records, run_id=name, runner=runner, **header)


def merged(*given_runs: Run, given: Given = NOTHING, **options: Any) -> Merged:
    found = [(run, judge(run, None, today=TODAY, rules=RULES), given) for run in given_runs]
    return merge(found, today=TODAY, **options)


def timed(seconds: float, unit: str = "s") -> list[Record]:
    """A repeated test of three processes."""
    return [make_record(A, metrics=(Metric("step_s", unit, (seconds,) * 3),), repeat=n) for n in (1, 2, 3)]


OUTCOMES = ("passed", "failed", "error", "skipped", None)


@given(st.lists(st.tuples(st.sampled_from(OUTCOMES), st.booleans()), min_size=1, max_size=5))
def test_agreement_is_of_measured_outcomes(cells: list[tuple[Any, bool]]) -> None:
    """Runs agree when all measured ones with an outcome have the same; errors, skips, lost and emulated ones say nothing."""
    made = []
    for n, (outcome, emulated) in enumerate(cells):
        records = [make_record(A, outcome)] if outcome else []
        kind = {**(EMULATED if emulated else GPU), "device_count": n + 1}
        made.append(run_of(f"r{n}", kind, *records))
    (line,) = [x for x in merged(*made).lines if x.test == A] or [None]
    known = [o for o, emulated in cells if o in ("passed", "failed") and not emulated]
    if line is None:
        assert all(o is None for o, _ in cells)
        return
    alone = sum(not e for _, e in cells) == 1
    wanted = (
        "none" if not known or (len(known) == 1 and alone) else "only_one" if len(known) == 1 else "agree"
    )
    assert line.agreement == (wanted if len(set(known)) < 2 else "differ")
    assert sum(c == NOT_RUN for c in line.cells) == sum(o is None for o, _ in cells)


@given(st.permutations([("cpu", "passed"), ("gpu", "failed"), ("emulated", "passed"), ("gpu2", "error")]))
def test_order_does_not_matter(order: list[tuple[str, str]]) -> None:
    """However the runs are named, the columns, lines and verdict are the same, measured runs first."""
    kinds = {"cpu": CPU, "gpu": GPU, "emulated": EMULATED, "gpu2": {**GPU, "device_count": 8}}
    found = merged(*(run_of(name, kinds[name], make_record(A, outcome)) for name, outcome in order))
    assert [c.name for c in found.columns] == [
        "cpu-x86_64-1",
        "cuda-sm_90-1",
        "cuda-sm_90-8",
        "mirage-gfx950-1-emulated",
    ]
    assert found.status == "red"


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        (("passed", "passed"), "green"),
        (("passed", "failed"), "red"),
        (("passed", "error"), "no_verdict"),
        (("error", "failed"), "red"),
    ],
)
def test_the_worst_run_decides(outcomes: tuple[str, str], status: str) -> None:
    """Red when any run is red, no verdict when any has none, green only when all are."""
    a, b = (
        run_of(f"r{n}", k, make_record(A, o))
        for n, (k, o) in enumerate(zip((CPU, GPU), outcomes, strict=True))
    )
    found = merged(a, b)
    assert found.status == status
    assert found.exit_status == {"green": 0, "red": 1, "no_verdict": 3}[status]


def test_a_runner_that_did_not_report_is_told() -> None:
    """Without the run of an expected runner there is no green, in every form; one that is switched off is told with why."""
    mine = run_of("r", CPU, make_record(A))
    gone = merged(mine, expected=["cpu", "rocm"])
    assert gone.status == "no_verdict"
    assert [a.runner for a in gone.absent] == ["rocm"]
    off = [Off("rocm", "its cable is being replaced", "2027-02-01")]
    told = merged(mine, expected=["cpu", "rocm"], off=off)
    assert (told.status, told.absent[0].off) == ("green", True)
    assert "PARTIAL GREEN" in told.headline
    late = merge([(mine, judge(mine, None, today=TODAY), NOTHING)], off=off, today=date(2027, 2, 2))
    assert (late.status, late.absent[0].off) == ("no_verdict", False)
    for name in ("terminal", "markdown", "json"):
        form = formats()[name]
        assert "did not report" in form.render(gone, width=200)
        assert "its cable is being replaced" in form.render(told, width=200)


def test_a_green_that_lacks_tests_is_partial() -> None:
    """What a machine lacks keeps the verdict of all runs partial, as it does that of its own run, and is told."""
    lacks = {"outcome": "skipped", "kind": "capability", "reason": "runner cuda lacks fp8: sm_90 has none"}
    found = merged(
        run_of("r", CPU, make_record(A), make_record(B)),
        run_of("g", GPU, make_record(A), make_record(B, **lacks)),
    )
    assert (found.status, found.headline.partition(":")[0]) == ("green", "PARTIAL GREEN")
    assert f"1 not run on {found.columns[1].name}, which lacks what they need" in found.headline
    assert [row[2] for row in merged_parts.run_rows(found)] == ["GREEN", "PARTIAL GREEN"]
    whole = merged(run_of("r", CPU, make_record(A)), run_of("g", GPU, make_record(A)))
    assert whole.headline.startswith("GREEN")
    assert [row[2] for row in merged_parts.run_rows(whole)] == ["GREEN", "GREEN"]


def test_a_planted_defect_is_in_the_headline() -> None:
    """No verdict on several runs hides that a defect was planted in one of them."""
    runs_ = (
        run_of("r", CPU, make_record(A)),
        run_of("g", GPU, make_record(A), defect="decode-slower-fivefold"),
    )
    assert merged(*runs_).headline.startswith("DEFECT decode-slower-fivefold PLANTED GREEN: ")


def test_one_commit() -> None:
    """Runs of different targets, commits or harness commits are refused, and so is the same run twice; the text names both."""
    mine = run_of("r1", CPU, make_record(A))
    for change in (
        {"target": {"commit": "d" * 40}},
        {"target": {"name": "reference"}},
        {"harness_commit": "b" * 40},
    ):
        with pytest.raises(UsageError, match="one report is of one commit"):
            merged(mine, run_of("r2", GPU, make_record(A), **change))
    with pytest.raises(UsageError, match="r1 again"):
        merged(mine, mine)


def test_columns_of_one_runner_have_names_of_their_own() -> None:
    """Two runs of one kind of machine are told apart by patches, else by run."""
    a, b = (
        run_of("r1", CPU, make_record(A)),
        run_of("r2", CPU, make_record(A), target={"patches": ("decoder-fix",)}),
    )
    assert [c.name for c in merged(a, b).columns] == ["cpu-x86_64-1", "cpu-x86_64-1 +decoder-fix"]
    c = run_of("r3", CPU, make_record(A))
    assert [x.name for x in merged(a, c).columns] == ["cpu-x86_64-1 r1", "cpu-x86_64-1 r3"]


def test_what_may_not_be_compared_has_no_ratio() -> None:
    """Ratios are to the first measured run; emulated, of another unit or configuration there is none, and why."""
    base, head = run_of("r1", CPU, *timed(2.0), repeats=3), run_of("r2", GPU, *timed(1.0), repeats=3)
    found = merged(
        base,
        head,
        run_of("r3", EMULATED, *timed(1.0), repeats=3),
        run_of("r4", {**GPU, "device_count": 2}, *timed(1.0, "ms"), repeats=3),
        run_of("r5", {**GPU, "device_count": 4}, *timed(1.0), repeats=3, configuration={"seed": 2}),
    )
    (row,) = found.beside
    told = dict(zip([c.name for c in found.columns], zip(row.ratios, row.whys, strict=True), strict=True))
    assert told["cpu-x86_64-1"] == (None, "")
    assert told["cuda-sm_90-1"] == (0.5, "")
    assert told["cuda-sm_90-2"] == (None, "not comparable: ms, not s")
    assert told["cuda-sm_90-4"] == (None, "not comparable: another configuration")
    assert told["mirage-gfx950-1-emulated"] == (None, "not comparable: emulated")
    assert "not comparable: emulated" in formats()["terminal"].render(found, width=300)


@pytest.mark.parametrize(("factor", "status"), [(1.0, "green"), (1.01, "red")])
def test_traces_of_two_runs_meet(factor: float, status: str) -> None:
    """The same loss agrees; one that leaves the envelope makes the report red, and is told with its step."""
    losses = [8.0 - 0.013 * n + 0.001 * (n % 3) for n in range(1, 7)]
    made = []
    for name, kind, values in (("r1", CPU, losses), ("r2", GPU, [v * factor for v in losses])):
        trace = Trace("loss", "1", tuple(values), 1, "fp32-loss")
        made.append(run_of(name, kind, make_record(A, traces=(trace,))))
    found = merged(*made)
    assert found.status == status
    assert [b.crossing.verdict for b in found.between] == ["agree" if factor == 1.0 else "differ"]
    emulated = run_of(
        "r3", EMULATED, make_record(A, traces=(Trace("loss", "1", (1.0,) * 6, 1, "fp32-loss"),))
    )
    assert merged(made[0], emulated).between == ()


@pytest.mark.parametrize(
    ("verdict", "status"), [("agree", "green"), ("differ", "red"), ("inconclusive", "no_verdict")]
)
def test_a_bundle_carried_across_counts(verdict: str, status: str, tmp_path: Path) -> None:
    """What was told of a checkpoint bundle is kept in the run, shown, and decides."""
    folder = tmp_path / "run"
    runs.write(folder, run_of("r", CPU, make_record(A)))
    told = {
        "verdict": verdict,
        "reason": "six steps",
        "packed": {"runner": "rocm", "device_arch": "gfx942", "world": 2},
    }
    rundir.write_bundle(folder, "from rocm.tar", told)
    run = rundir.load(folder)
    found = one(run, judge(run, None, today=TODAY), Given(bundles=tuple(rundir.read_bundles(folder))))
    assert found.status == status
    for name in ("terminal", "markdown", "json"):
        assert "six steps" in formats()[name].render(found, width=200)
    (folder / "bundles" / "x.json").write_text("[]")
    done = runs.harness("report", str(folder))
    assert done.returncode == 2
    assert "x.json" in done.stderr


def test_json_of_several_runs(tmp_path: Path) -> None:
    """`harness report RUN RUN --format json` holds what the runs are together and each one's own report."""
    for name, kind, outcome in (("r1", CPU, "passed"), ("r2", GPU, "failed")):
        runs.write(tmp_path / name, run_of(name, kind, make_record(A, outcome), make_record(B)))
    done = runs.harness(
        "report", str(tmp_path / "r1"), str(tmp_path / "r2"), "--format", "json", "--expect", "cpu",
        "--baselines", str(tmp_path / "none"),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    assert data["merged"] is True
    assert [r["run_id"] for r in data["runs"]] == ["r1", "r2"]
    assert {line["test"]: line["agreement"] for line in data["lines"]}[A] == "differ"
    assert {line["test"]: line["agreement"] for line in data["lines"]}[B] == "agree"


GOOD = '[[off]]\nrunner = "rocm"\nreason = "no machine"\nlast_day = 2027-03-31\n'


def test_switched_off(tmp_path: Path) -> None:
    """The file of runners that are switched off: none without it, its entries with a day, and one line for a mistake."""
    path = tmp_path / switched_off.NAME
    assert switched_off.load(path) == ()
    path.write_text(GOOD)
    assert switched_off.load(path) == (Off("rocm", "no machine", "2027-03-31"),)
    for text, says in (
        (GOOD + GOOD, "rocm is there already"),
        (GOOD.replace("2027-03-31", '"soon"'), "write a day as 2027-03-31"),
        (GOOD.replace('"no machine"', '" "'), "reason"),
        (GOOD.replace("last_day", "until"), "exactly runner, reason, last_day"),
        ("off = 1\n", r"only \[\[off\]\] tables"),
        (GOOD + "[on]\n", r"only \[\[off\]\] tables"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=says):
            switched_off.load(path)


def test_the_command_reads_who_is_switched_off(tmp_path: Path) -> None:
    """`--off FILE` keeps an expected runner from being missed until its last day, and the report says why."""
    folder = runs.write(tmp_path / "run", run_of("r", CPU, make_record(A)))
    off = tmp_path / switched_off.NAME
    off.write_text(GOOD)
    words = (
        "report",
        str(folder),
        "--expect",
        "cpu",
        "--expect",
        "rocm",
        "--baselines",
        str(tmp_path / "none"),
    )
    told = runs.harness(*words, "--off", str(off))
    assert told.returncode == 0
    assert told.stdout.startswith("PARTIAL GREEN")
    assert "switched off until 2027-03-31: no machine" in " ".join(told.stdout.split())
    assert runs.harness(*words, "--off", str(tmp_path / "none.toml")).returncode == 3
