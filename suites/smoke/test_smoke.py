"""The target's own training program runs to its end, says so in its log, saves where due, and resumes by itself."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures import clips, dataset
from suites.faults import judge
from suites.smoke import checks, steplog
from suites.smoke.forms import Form, wanted

PROGRAM = Path(__file__).with_name("rank_smoke.py")
CLIP = "vp9-plain"
PARTS = ("first", "resumed")
DEFAULT_RATE = 1e-4
pytestmark = pytest.mark.xdist_group("smoke")


@dataclass(frozen=True)
class Ran:
    """A launch that ended well: its ranks' answers and logs, all checkpoints on disk when it had ended, as torch's own
    loader reads them, and its first and last planned step."""

    answers: list[dict[str, Any]]
    logs: list[bytes]
    checkpoints: list[dict[str, Any]]
    first: int
    last: int

    @property
    def log(self) -> steplog.StepLog:
        return steplog.parse(self.logs[0])


@dataclass
class Kept:
    """What became of a launch, for every test that needs it."""

    ran: Ran | None
    error: Exception | None
    paths: list[Path]


class Trainings:
    """Both launches of each form, made when first asked for, once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kept: dict[tuple[str, str], Kept] = {}
        self.devices: int | None = None

    def ran(self, form: Form, part: str, launch: Any, ask: Any, record: Any) -> Ran:
        """The launch; raises what it ended with when it did not end well."""
        if part == "resumed":
            self.ran(form, "first", launch, ask, record)
        key = form.name, part
        if key in self.kept:
            record.logs += self.kept[key].paths
        else:
            self.kept[key] = self._launch(form, part, launch, ask, record)
        kept = self.kept[key]
        if kept.ran is None:
            assert kept.error is not None
            raise kept.error.with_traceback(None)
        return kept.ran

    def _launch(self, form: Form, part: str, launch: Any, ask: Any, record: Any) -> Kept:
        first, last = form.planned(part)
        plan = {"data": str(self._data(form)), **form.plan, "folder": str(self.folder(form)), "steps": last}
        request = {"plan": plan, "statistics": part == "first" and "data" not in form.plan}
        before = len(record.logs)
        limit_s = form.limit_s or 4 * launch.limit_s
        paths: list[Path] = []
        try:
            answers = launch(PROGRAM, request, ranks=form.ranks, limit_s=limit_s)
            paths = record.logs[before:]
            ask.limit_s = max(ask.limit_s, form.limit_s or 0)
            found = ask(PROGRAM, "main", {"do": "inspect", "folder": plan["folder"]})["checkpoints"]
        except Exception as error:  # noqa: BLE001 - every test that needs the launch fails with it
            return Kept(None, error, record.logs[before:])
        ran = Ran(answers, [p.read_bytes() for p in paths], found, first, last)
        return Kept(ran, None, paths)

    def folder(self, form: Form) -> Path:
        return self.root / form.name / "out"

    def _data(self, form: Form) -> Path:
        root = self.root / form.name / "data"
        if not root.exists():
            clip = clips.get(CLIP)
            dataset.make(root, [(clip.path, clip.frames)] * form.episodes)
        return root


@pytest.fixture(scope="session")
def trainings() -> Iterator[Trainings]:
    root = Path(tempfile.mkdtemp(prefix="smoke-"))
    try:
        yield Trainings(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


@dataclass(frozen=True)
class Runs:
    """The launches of one form, for one test."""

    form: Form
    trainings: Trainings
    launch: Any
    ask: Any
    record: Any

    def of(self, part: str) -> Ran:
        return self.trainings.ran(self.form, part, self.launch, self.ask, self.record)


@pytest.fixture
def runs(form: Form, trainings: Trainings, launch: Any, ask: Any, record: Any) -> Runs:
    if trainings.devices is None:
        trainings.devices = ask(PROGRAM, "main", {"do": "devices"})["devices"]
    if form.ranks > trainings.devices:
        record.skip(f"the form '{form.name}' needs {form.ranks} devices, {trainings.devices} are here")
    return Runs(form, trainings, launch, ask, record)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "form" in metafunc.fixturenames:
        try:
            forms = wanted(bool(metafunc.config.getoption("--full", default=False)))
        except ValueError as error:
            raise pytest.Collector.CollectError(str(error)) from None
        metafunc.parametrize("form", forms, ids=[f.name for f in forms])


@pytest.mark.parametrize("part", PARTS)
def test_ends_well(part: str, runs: Runs, record: Any) -> None:
    """The program ends with exit status 0 on every rank, after the planned number of optimizer steps."""
    ran = runs.of(part)
    times = [s["at_s"] for s in ran.answers[0]["steps"]]
    record.metric("step_s", "s", [b - a for a, b in itertools.pairwise(times)])
    judge(record, checks.made_fault(ran.answers, ran.last - ran.first + 1))


@pytest.mark.parametrize("part", PARTS)
def test_no_trouble_in_logs(part: str, runs: Runs, record: Any) -> None:
    """No rank's log shows a traceback, a lost data-loader worker, a decoder's error, data or state that could not be
    read, or a value that is not a number."""
    judge(record, checks.problems_fault([steplog.text(data) for data in runs.of(part).logs]))


@pytest.mark.parametrize("part", PARTS)
def test_steps_are_logged(part: str, runs: Runs, record: Any) -> None:
    """The log has a line for each step, in order, without gaps, repeats or damage, up to the last but one."""
    ran = runs.of(part)
    judge(record, checks.steps_fault(ran.log, ran.first, ran.last))


@pytest.mark.parametrize("part", PARTS)
def test_last_step_is_logged(part: str, runs: Runs, record: Any) -> None:
    """The log has a line for the last step, whose checkpoint is the one that is kept."""
    ran = runs.of(part)
    judge(record, checks.last_fault(ran.log, ran.last))


@pytest.mark.parametrize("part", PARTS)
def test_losses(part: str, runs: Runs, record: Any) -> None:
    """Losses are finite, on every rank and in the log, and over a long run they fall."""
    ran = runs.of(part)
    fault = checks.finite_fault(ran.answers, ran.log, ran.first)
    if fault is None and part == "first":
        means = [sum(s["losses"]) / max(1, len(s["losses"])) for s in ran.answers[0]["steps"]]
        record.trace("loss", "", means, first_step=ran.first)
        fault = checks.falls_fault(ran.log, runs.form.falls_over)
    judge(record, fault)


@pytest.mark.parametrize("part", PARTS)
def test_logged_losses_are_true(part: str, runs: Runs, record: Any) -> None:
    """The loss in a step's line is one that the ranks computed in that step, or lies between theirs."""
    ran = runs.of(part)
    judge(record, checks.printed_fault(ran.answers, ran.log, ran.first))


@pytest.mark.parametrize("part", PARTS)
def test_logged_rates_are_planned(part: str, runs: Runs, record: Any) -> None:
    """The learning rates in the log are the planned ones: 0 while the backbone is frozen, then the full rate."""
    plan = {"rate": DEFAULT_RATE, **runs.form.plan}
    judge(record, checks.rates_fault(runs.of(part).log, plan))


@pytest.mark.parametrize("part", PARTS)
def test_checkpoints(part: str, runs: Runs, record: Any) -> None:
    """After each launch checkpoints stand where they are due, whole, finite, each with weights and optimizer state of
    its own."""
    ran = runs.of(part)
    due = [step for step in runs.form.due if step <= ran.last]
    judge(record, checks.checkpoints_fault(ran.checkpoints, due))


@pytest.mark.parametrize("part", PARTS)
def test_start(part: str, runs: Runs, record: Any) -> None:
    """The first launch starts anew; the second finds the last checkpoint by itself and goes on after it, with the
    optimizer's state."""
    ran = runs.of(part)
    judge(record, checks.start_fault(ran.answers, ran.log, ran.first - 1))


def test_control_damaged_log(runs: Runs, record: Any) -> None:
    """The checks must refuse a log with a gap, a loss that is not a number, and a missing checkpoint."""
    ran = runs.of("first")
    found = ran.checkpoints
    if len(ran.log.steps) < 3 or not found:
        record.fail(
            "control", f"too little to damage: {checks.show(ran.log.numbers)}, {len(found)} checkpoints"
        )
    step = ran.log.steps[len(ran.log.steps) // 2]
    mark = f"Global Step {step.step:06d}".encode()
    pieces = ran.logs[0].replace(b"\r", b"\n").split(b"\n")
    gap = steplog.parse(b"\n".join(p for p in pieces if mark not in p))
    fault = checks.steps_fault(gap, ran.first, ran.last)
    if fault is None or fault == checks.steps_fault(ran.log, ran.first, ran.last):
        record.fail("control", f"a log without step {step.step} passes", str(fault))
    nan = steplog.parse(ran.logs[0].replace(f"Loss :: {step.loss:.4f}".encode(), b"Loss :: nan"))
    steps = [s for s in nan.steps if s.step == step.step]
    fault = checks.finite_fault([], dataclasses.replace(nan, steps=tuple(steps)), ran.first)
    if fault is None or fault.kind != "not_finite":
        record.fail("control", f"a log with loss nan at step {step.step} passes", str(fault))
    if not checks.problems_fault(["Global Step 000004 =>> Backbone LR :: 0.0 - Loss :: nan: "]):
        record.fail("control", "the text of a loss that is not a number passes as no trouble")
    lost = found[0]["step"]
    fault = checks.checkpoints_fault(found[1:], [c["step"] for c in found])
    if fault is None or f"after step {lost}" not in fault.message:
        record.fail("control", f"a missing checkpoint of step {lost} passes", str(fault))
