"""pytest glue: options, fixtures, hooks. Turns a pytest session into a run folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Generator, Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

import pytest

from harness import ROOT, fingerprint, known_issues, matching, rundir, runners, targets
from harness.child import Child, ChildFailure
from harness.errors import HarnessError, UsageError
from harness.records import KINDS, Header, KnownIssue, Metric, Record, Selection, TargetInfo
from harness.targets import base
from harness.targets.base import TargetSpec

_DETAIL_BYTES = 8000
_STATE = pytest.StashKey["State"]()
_PHASES = pytest.StashKey[dict[str, Any]]()


class Failure(Exception):
    """A suite found the target at fault; `kind` is a key of records.KINDS."""

    def __init__(self, kind: str, message: str, detail: str) -> None:
        assert kind in KINDS, kind
        super().__init__(f"{kind}: {message}")
        self.kind, self.message, self.detail = kind, message, detail


class Notes:
    """What a test says of itself: metrics, logs, and how it failed or why it did not run."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []
        self.logs: list[Path] = []
        self.last_day: str | None = None

    def metric(self, name: str, unit: str, samples: Iterable[float], higher_is_better: bool = True) -> None:
        """Keeps raw samples in the order they were taken."""
        self.metrics.append(Metric(name, unit, tuple(float(s) for s in samples), higher_is_better))

    def fail(self, kind: str, message: str, detail: str = "") -> NoReturn:
        """Fails the test with a named kind and the failing part's own text."""
        raise Failure(kind, message, detail)

    def skip(self, reason: str, last_day: str | None = None) -> NoReturn:
        """Skips the test; without a last day (ISO date) the run has no verdict."""
        self.last_day = last_day
        pytest.skip(reason)


class State:
    """What one process of the session knows of its run."""

    def __init__(self, folder: Path, spec: TargetSpec, header: Header, worker: str) -> None:
        self.folder, self.spec, self.worker = folder, spec, worker
        self.runner, self.issues = header.runner.name, header.known_issues
        self.writer = rundir.Writer(folder, worker)
        self.children: dict[tuple[str, str], Child] = {}
        self.started = ""

    def known(self, test: str) -> KnownIssue | None:
        """The known issue of a test that holds in this run and is not past its day."""
        issue = matching.matching(
            self.issues, test=test, runner=self.runner, target=self.spec.name, patches=self.spec.patches
        )
        today = datetime.now(timezone.utc).date()
        return None if issue is None or matching.expired(issue, today) else issue


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("harness")
    group.addoption("--runner", default="cpu", help="kind of machine (default: cpu)")
    group.addoption("--target", default=None, help="code base under test (default: vitra, else reference)")
    group.addoption("--target-path", default=None, help="a checkout of the target")
    group.addoption("--patch", action="append", default=[], help="patch to put in force; may be repeated")
    group.addoption("--defect", default=None, help="defect to plant in the target")
    group.addoption("--run-dir", default=None, help="new folder for this run (default: a new one in runs/)")
    group.addoption("--time-limit", type=float, default=60.0, help="seconds until a child counts as hanging")


def pytest_configure(config: pytest.Config) -> None:
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    _hypothesis_profile()
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        folder, spec = Path(worker["harness_folder"]), TargetSpec.from_text(worker["harness_spec"])
        config.stash[_STATE] = State(folder, spec, rundir.read_header(folder), worker["workerid"])
        return
    if config.option.collectonly or config.option.help:
        return
    try:
        config.stash[_STATE] = _start(config)
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None


def _hypothesis_profile() -> None:
    from hypothesis import HealthCheck, settings

    # A suite judges today's code against yesterday's: both must see the same examples.
    settings.register_profile(
        "harness",
        deadline=None,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("harness")


def _start(config: pytest.Config) -> State:
    """Finds runner and target, claims the run folder and writes the header."""
    option = config.option
    runner = runners.get(option.runner)
    if (why := runner.unavailable()) is not None:
        raise UsageError(why)
    for name, value in runner.environment().items():
        os.environ.setdefault(name, value)
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    try:
        spec = base.locate(option.target, option.target_path, option.patch, clone=True, say=_say)
    finally:
        if capture is not None:
            capture.resume_global_capture()
    if option.defect is not None:
        spec = TargetSpec(**{**json.loads(spec.to_text()), "patches": spec.patches, "defect": option.defect})
        _check_defect(option.defect)
    issues = known_issues.load(ROOT / "suites" / "known_issues.toml")
    now = datetime.now(timezone.utc)
    folder = rundir.claim(Path(option.run_dir)) if option.run_dir else None
    folder = folder or rundir.create(Path("runs"), runner.name, now)
    header = _header(config, folder.resolve().name, now, spec, issues)
    rundir.write_header(folder, header)
    return State(folder.resolve(), spec, header, "main")


def _check_defect(name: str) -> None:
    from fixtures import defects

    if name not in defects.names():
        raise UsageError(f"--defect {name}: no such defect; there are: {', '.join(defects.names())}")


def _header(
    config: pytest.Config, run_id: str, now: datetime, spec: TargetSpec, issues: tuple[KnownIssue, ...]
) -> Header:
    from fixtures import clips

    runner = runners.get(config.option.runner)
    supplies = getattr(targets.module(spec.name), "supplies", tuple)()
    commit, dirty = fingerprint.collect_git(ROOT)
    return Header(
        run_id=run_id,
        started=now.isoformat(timespec="seconds"),
        runner=fingerprint.collect_runner(runner),
        target=TargetInfo(spec.name, spec.commit, spec.dirty, supplies, spec.patches, spec.note),
        selection=_selection(config),
        configuration={"fixtures": clips.recipe_digest()},
        machine=fingerprint.collect_machine(),
        software=fingerprint.collect_software(),
        harness_commit=commit,
        harness_dirty=dirty,
        command=(shlex.join(config.invocation_params.args),),
        known_issues=issues,
        defect=spec.defect,
    )


def _selection(config: pytest.Config) -> Selection:
    """Which suites were asked for, and whether parts of them were left out."""
    root = ROOT / "suites"
    every = tuple(sorted(p.name for p in root.iterdir() if (p / "__init__.py").exists()))
    suites: set[str] = set()
    arguments: list[str] = []
    for argument in config.args:
        path = Path(argument.partition("::")[0]).resolve()
        if path == root:
            suites.update(every)
        elif path.parent == root and "::" not in argument:
            suites.add(path.name)
        else:
            arguments.append(argument)
            suites.update(s for s in every if (root / s) in path.parents)
    arguments += [f"--deselect {d}" for d in config.option.deselect or ()]
    return Selection(
        tuple(sorted(suites)), config.option.keyword or "", config.option.markexpr or "", tuple(arguments)
    )


def _say(text: str) -> None:
    print(f"harness: {text}", file=sys.__stderr__, flush=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    state = node.config.stash[_STATE]
    node.workerinput["harness_folder"] = str(state.folder)
    node.workerinput["harness_spec"] = state.spec.to_text()


def is_control(test: str) -> bool:
    """Positive controls are the tests whose function is named `test_control...`."""
    return "::test_control" in test


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """A suite's positive controls run with whatever part of it is selected."""
    controls = [i for i in items if is_control(i.nodeid)]
    yield
    chosen = {id(i) for i in items}
    suites = {suite_of(i.nodeid) for i in items}
    items[:0] = [c for c in controls if id(c) not in chosen and suite_of(c.nodeid) in suites]


def suite_of(test: str) -> str:
    """The suite of a test id: the folder below `suites/`."""
    parts = test.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "suites" else parts[0]


def plain_id(nodeid: str) -> str:
    """A test id without the group that xdist appends to it."""
    return re.sub(r"@[\w.-]+$", "", nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    _plan(node.config, ids)


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    if not hasattr(config, "workerinput") and not getattr(config.option, "tx", None):
        _plan(config, [i.nodeid for i in session.items])


def _plan(config: pytest.Config, ids: Iterable[str]) -> None:
    state = config.stash.get(_STATE, None)
    if state is not None:
        tests = tuple(sorted({plain_id(i) for i in ids}))
        rundir.update_header(state.folder, planned=tests, controls=tuple(t for t in tests if is_control(t)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    state = item.config.stash[_STATE]
    state.started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    item.stash[_PHASES] = {"notes": Notes(), "begin": time.monotonic(), "outcome": "passed"}
    state.writer.running(plain_id(item.nodeid))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    state, phases = item.config.stash[_STATE], item.stash[_PHASES]
    if report.outcome != "passed" and phases["outcome"] in ("passed", "skipped"):
        phases.update(_failed_phase(report, call))
        issue = state.known(plain_id(item.nodeid))
        covered = issue is not None and (not issue.kinds or phases.get("kind") in issue.kinds)
        if issue is not None and covered and phases["outcome"] == "failed" and not is_control(item.nodeid):
            # pytest shows it as xfailed; the record keeps what happened.
            report.outcome, report.wasxfail = "skipped", f"known issue {issue.id}"
    if report.when == "teardown":
        state.writer.append(_record(item, state, phases))
    return report


def _failed_phase(report: pytest.TestReport, call: pytest.CallInfo[None]) -> dict[str, Any]:
    """Outcome, kind, reason and detail of a phase that did not pass."""
    error = call.excinfo.value if call.excinfo is not None else None
    if report.outcome == "skipped":
        return {"outcome": "skipped", "reason": str(error).removeprefix("Skipped: ")}
    if isinstance(error, Failure):
        found = {"outcome": "failed", "kind": error.kind, "reason": error.message, "detail": error.detail}
    elif isinstance(error, ChildFailure) and error.kind != "harness":
        found = {"outcome": "failed", "kind": error.kind, "reason": str(error), "detail": error.detail}
    elif isinstance(error, AssertionError) and report.when == "call":
        found = {"outcome": "failed", "kind": "assertion", "reason": str(error).partition("\n")[0]}
        found["detail"] = report.longreprtext
    else:
        found = {"outcome": "error", "kind": "harness", "reason": f"{type(error).__name__}: {error}"}
        found["detail"] = getattr(error, "detail", "") or report.longreprtext
    found["reason"] = found["reason"][:1000]
    found["detail"] = found["detail"][-_DETAIL_BYTES:]
    return found


def _record(item: pytest.Item, state: State, phases: Mapping[str, Any]) -> Record:
    test, notes = plain_id(item.nodeid), phases["notes"]
    kind = phases.get("kind")
    control = is_control(test)
    if control and phases["outcome"] == "failed":
        kind = "control"
    return Record(
        test=test,
        suite=suite_of(test),
        outcome=phases["outcome"],
        duration_s=round(time.monotonic() - phases["begin"], 4),
        kind=kind,
        reason=phases.get("reason"),
        detail=phases.get("detail"),
        last_day=notes.last_day,
        control=control,
        worker=state.worker,
        started=state.started,
        metrics=tuple(notes.metrics),
        logs=rundir.relative(state.folder, notes.logs) if phases["outcome"] in ("failed", "error") else (),
    )


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """A worker process died: what it had finished is on disk, the test it was in is an error."""
    state = sched.config.stash[_STATE]
    test = plain_id(crashitem)
    state.writer.append(
        Record(
            test=test,
            suite=suite_of(test),
            outcome="error",
            duration_s=0.0,
            kind="crash",
            reason="the worker process that ran it died",
            detail=report.longreprtext[-_DETAIL_BYTES:],
            control=is_control(test),
        )
    )


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    state = session.config.stash.get(_STATE, None)
    if state is None:
        return
    for child in state.children.values():
        child.close()
    ended_by_itself = int(exitstatus) in (0, 1, 5)
    if not hasattr(session.config, "workerinput") and ended_by_itself:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        rundir.update_header(state.folder, finished=now, exit_status=int(exitstatus))


def pytest_report_header(config: pytest.Config) -> list[str]:
    state = config.stash.get(_STATE, None)
    if state is None:
        return []
    patches = f", patches {', '.join(state.spec.patches)}" if state.spec.patches else ""
    return [f"target: {state.spec.name}{patches}   runner: {state.runner}   run folder: {state.folder}"]


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Notes:
    """What this test keeps beside its outcome."""
    notes: Notes = request.node.stash[_PHASES]["notes"]
    return notes


@pytest.fixture(scope="session")
def target_spec(request: pytest.FixtureRequest) -> TargetSpec:
    """The target under test, as children load it."""
    return request.config.stash[_STATE].spec


class Asker:
    """Starts the program that a suite names, one child for each `role`, and asks it."""

    def __init__(self, state: State, notes: Notes, limit_s: float) -> None:
        self._state, self._notes, self.limit_s = state, notes, limit_s

    def __call__(
        self,
        program: Path,
        role: str,
        request: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The answer to `request`; ChildFailure (hang, crash, harness) when there is none in time."""
        state = self._state
        log = rundir.log_path(state.folder, f"{state.worker}-{program.stem}-{role}.log")
        key = (str(program), role)
        if key not in state.children:
            variables = {"PYTHONPATH": str(ROOT), **(environment or {})}
            state.children[key] = Child(program, [state.spec.to_text()], log, variables)
        if log not in self._notes.logs:
            self._notes.logs.append(log)
        return state.children[key].call(request, self.limit_s)


@pytest.fixture
def ask(request: pytest.FixtureRequest, record: Notes) -> Asker:
    """Asks the target in a child process: `ask(program, role, {"do": ...})`."""
    return Asker(request.config.stash[_STATE], record, request.config.option.time_limit)
