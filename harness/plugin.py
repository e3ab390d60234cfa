"""pytest glue: options, fixtures, hooks. Turns a pytest session into a run folder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from harness import ROOT, exploring, progress_live, redaction, repeats, rundir, two_stage
from harness.askers import Asker, Launcher
from harness.child import die_with_parent
from harness.errors import HarnessError, UsageError
from harness.options import add_options
from harness.outcomes import DETAIL_BYTES, Notes, failed_phase, is_control, line_of, plain_id, record_of
from harness.records import Record, suite_of
from harness.runners.base import Machine
from harness.session import State, join, start
from harness.targets import base
from harness.targets.base import Target, TargetSpec

_STATE = pytest.StashKey[State]()
_PHASES = pytest.StashKey[dict[str, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(name, ...): what a test needs prepared, for its suite")
    config.addinivalue_line("markers", "capability(name, ...): what the runner must be able to do")
    config.addinivalue_line("markers", "nodes(count): the test exists where ranks start on so many nodes")
    config.addinivalue_line("markers", "repeated: the test runs in fresh processes of its own, by --repeat")
    config.addinivalue_line("markers", "targets(name, ...): the test exists for these targets only")
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    _hypothesis_profile()
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        folder, spec = Path(worker["harness_folder"]), TargetSpec.from_text(worker["harness_spec"])
        header = rundir.read_header(folder)
        config.stash[_STATE] = State(folder, spec, header, worker["workerid"], config.option.require)
        return
    if config.option.collectonly or config.option.help:
        return
    try:
        joins = config.option.join is not None
        if joins:
            die_with_parent()
        else:
            two_stage.prepare(config)
        config.stash[_STATE] = join(config) if joins else start(config)
        if not joins:
            progress_live.attach(config, config.stash[_STATE])
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None


def _hypothesis_profile() -> None:
    from hypothesis import HealthCheck

    try:
        seed = exploring.read_seed(os.environ)
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None
    # A suite judges today's code against yesterday's: both see the same examples, unless new ones are asked for.
    exploring.load_profile(
        "harness",
        seed,
        deadline=None,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    state = node.config.stash[_STATE]
    node.workerinput["harness_folder"] = str(state.folder)
    node.workerinput["harness_spec"] = state.spec.to_text()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """A suite's positive controls run with whatever part of it is selected; tests for other targets do not exist."""
    state = config.stash.get(_STATE, None)
    if state is not None:
        items[:] = [i for i in items if state.spec.name in _targets(i, state.spec.name)]
        items[:] = [i for i in items if all(state.has_nodes(m.args[0]) for m in i.iter_markers("nodes"))]
    controls = [i for i in items if is_control(i.nodeid)]
    yield
    if config.option.without_controls:
        items[:] = [i for i in items if not is_control(i.nodeid)] or items
    else:
        chosen = {id(i) for i in items}
        suites = {suite_of(i.nodeid) for i in items}
        items[:0] = [c for c in controls if id(c) not in chosen and suite_of(c.nodeid) in suites]
    if state is not None and state.repeat is None:
        state.repeated = tuple(plain_id(i.nodeid) for i in items if _is_repeated(i))
        items[:] = [i for i in items if not _is_repeated(i)]


def _is_repeated(item: pytest.Item) -> bool:
    return item.get_closest_marker("repeated") is not None


def _targets(item: pytest.Item, here: str) -> tuple[str, ...]:
    marker = item.get_closest_marker("targets")
    return (here,) if marker is None else marker.args


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    _plan(node.config, ids)


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    if not hasattr(config, "workerinput") and not getattr(config.option, "tx", None):
        _plan(config, [i.nodeid for i in session.items])


def _plan(config: pytest.Config, ids: Iterable[str]) -> None:
    state = config.stash.get(_STATE, None)
    if state is not None and state.repeat is None:
        tests = tuple(sorted({plain_id(i) for i in ids} | set(state.repeated)))
        rundir.update_header(state.folder, planned=tests, controls=tuple(t for t in tests if is_control(t)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    state = item.config.stash[_STATE]
    state.started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    item.stash[_PHASES] = {"notes": Notes(), "begin": time.monotonic(), "outcome": "passed"}
    state.writer.running(plain_id(item.nodeid))
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs what the runner lacks does not run."""
    for marker in item.iter_markers("capability"):
        for name in marker.args:
            item.config.stash[_STATE].needs(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    state, phases = item.config.stash[_STATE], item.stash[_PHASES]
    if report.outcome != "passed" and phases["outcome"] in ("passed", "skipped"):
        phases.update(failed_phase(report, call), line=line_of(item, call))
        issue = state.known(plain_id(item.nodeid))
        covered = issue is not None and (not issue.kinds or phases.get("kind") in issue.kinds)
        if issue is not None and covered and phases["outcome"] == "failed" and not is_control(item.nodeid):
            # pytest shows it as xfailed; the record keeps what happened.
            report.outcome, report.wasxfail = "skipped", f"known issue {issue.id}"
    if report.when == "teardown":
        name, notes = plain_id(item.nodeid), phases["notes"]
        fault = repeats.find_fault(notes) if state.repeat is not None else None
        if fault is not None and phases["outcome"] == "passed":
            phases.update(outcome="error", kind="harness", reason=fault)
        state.keep(record_of(name, state.worker, state.started, state.folder, phases, state.repeat))
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """What a worker collected and left for processes of their own."""
    state = node.config.stash[_STATE]
    found = getattr(node, "workeroutput", {}).get("harness_repeated", ())
    state.repeated = state.repeated or tuple(found)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """A worker process died: what it had finished is on disk, the test it was in is an error."""
    state = sched.config.stash[_STATE]
    test = plain_id(crashitem)
    state.keep(
        Record(
            test=test,
            suite=suite_of(test),
            outcome="error",
            duration_s=0.0,
            kind="crash",
            reason="the worker process that ran it died",
            detail=report.longreprtext[-DETAIL_BYTES:],
            control=is_control(test),
        )
    )


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    state = session.config.stash.get(_STATE, None)
    if state is None:
        return
    for child in state.children.values():
        child.close()
    if state.repeat is not None:
        return
    if hasattr(session.config, "workerinput"):
        session.config.workeroutput["harness_repeated"] = list(state.repeated)  # type: ignore[attr-defined]
    elif (state.repeated or session.config.option.base) and int(exitstatus) in (0, 1, 5):
        exitstatus = session.exitstatus = _run_repeats(session, state, int(exitstatus))
    if not hasattr(session.config, "workerinput"):
        redaction.redact_files((state.folder / "logs").rglob("*"), state.secrets)
    ended_by_itself = int(exitstatus) in (0, 1, 5)
    if not hasattr(session.config, "workerinput") and ended_by_itself:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        rundir.update_header(state.folder, finished=now, exit_status=int(exitstatus))


def _run_repeats(session: pytest.Session, state: State, before: int) -> int:
    """Runs the repeated tests in their fresh processes; the session's exit status with theirs."""
    header = rundir.read_header(state.folder)
    planned = tuple(sorted({*(header.planned or ()), *state.repeated}))
    controls = tuple(t for t in planned if is_control(t))
    rundir.update_header(state.folder, planned=planned, controls=controls)
    say = repeats.Teller(session.config.pluginmanager.get_plugin("terminalreporter"))
    option = session.config.option
    compared = session.config.stash.get(two_stage.BASE, None)
    if compared is not None:
        statuses = two_stage.run(state, compared, option, say)
    else:
        statuses = repeats.run(state, repeats.options_of(option), option.repeat, say)
    say.count(statuses)
    return (
        max([1 if s else 0 for s in statuses], default=0)
        if before == 5
        else max(before, *map(bool, statuses))
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    state = config.stash.get(_STATE, None)
    if state is None:
        return []
    patches = f", patches {', '.join(state.spec.patches)}" if state.spec.patches else ""
    name = state.header.runner.key
    return [f"target: {state.spec.name}{patches}   runner: {name}   run folder: {state.folder}"]


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Notes:
    """What this test keeps beside its outcome."""
    notes: Notes = request.node.stash[_PHASES]["notes"]
    return notes


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Machine:
    """The runner of this session, what it saw of the machine, and what it makes of it."""
    return request.config.stash[_STATE].machine


@pytest.fixture
def ask(request: pytest.FixtureRequest, record: Notes) -> Asker:
    """Asks the target in a child process: `ask(program, role, {"do": ...})`."""
    return Asker(request.config.stash[_STATE], record, request.config.option.time_limit)


@pytest.fixture
def launch(request: pytest.FixtureRequest, record: Notes) -> Launcher:
    """Runs a program on several ranks: `launch(program, {"do": ...}, ranks=2)`."""
    return Launcher(request.config.stash[_STATE], record, request.config.option.time_limit)


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """The target, loaded in this process: for tests that run in fresh processes of their own."""
    state = request.config.stash[_STATE]
    if state.repeat is None:
        raise UsageError("the target is loaded only into a repeated test's own process; use the fixture ask")
    return base.load(state.spec)


@pytest.fixture
def measure(request: pytest.FixtureRequest, record: Notes, benchmark: Any) -> repeats.Measure:
    """Times a function: `measure(name, function, rounds=20)`; its raw seconds become a metric."""
    return repeats.Measure(request.config.stash[_STATE].machine, record, benchmark)
