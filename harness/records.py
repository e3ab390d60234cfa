"""What a run is made of: header, records, metrics, traces; pure data with a JSON form and a schema version.

A record holds what was measured. Whatever can be computed from it (verdicts, ratios, medians) is not here.
"""

# long: the whole schema of a run folder, kept in one place.

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from harness import typed
from harness.errors import RunFolderError

if TYPE_CHECKING:
    from harness.pairs import Pairs

SCHEMA = 1
"""Version of the run folder's files; two runs of different schemas are incomparable."""

Outcome = Literal["passed", "failed", "error", "skipped"]
OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "error", "skipped")

KINDS: Mapping[str, str] = {
    "exception": "the target raised where it should have answered",
    "wrong_frame": "a frame came back that is not the one asked for",
    "missing_frame": "fewer or more frames came back than were asked for",
    "no_error": "bad input or a bad index was answered instead of refused",
    "masked_error": "the decoder's own error was hidden behind another one, or lost",
    "partial_data": "part of a window came back although the rest could not be read",
    "silent_damage": "a damaged file was read as if it were whole",
    "attempts": "more or fewer attempts, or longer pauses, than the target promises",
    "not_recovered": "a transient failure was not retried, or retrying did not recover",
    "leak": "file descriptors or threads were left open",
    "not_repeatable": "two runs of one configuration gave different bits",
    "drift": "a trace left the envelope of measured or implied noise",
    "replicas_differ": "ranks that must hold the same hold different values",
    "wrong_sum": "a collective gave another result than its inputs imply",
    "early": "a rank passed a barrier before the last one came",
    "not_finite": "a loss, a gradient norm or a parameter is not finite",
    "wrong_rate": "a learning rate, weight decay, clipping or freeze differs from what was configured",
    "wrong_batch": "another set of samples was trained on than was asked for",
    "checkpoint": "a checkpoint is missing, torn, stale, or not where it is due",
    "wrong_state": "what was loaded differs from what was saved",
    "bad_log": "the training program's own log lacks steps, repeats them or holds values that are not finite",
    "hang": "no answer within the time limit",
    "stall": "no answer within the time limit: all ranks wait for one another in collectives",
    "crash": "the process died by a signal or left without an answer",
    "assertion": "an assertion of the test failed",
    "control": "the positive control did not fail where it must",
    "harness": "the harness or its fixtures broke; says nothing of the target",
    "infrastructure": "the machine is at fault: device, memory, driver or network; says nothing of the target",
    "capability": "the runner lacks what the test needs, and says why",
}
"""Kinds of failure, by name."""


@dataclass(frozen=True)
class Metric:
    """Raw samples of one quantity, in the order they were taken; unknown is an empty tuple, never 0.

    The first `warmup` samples are kept and enter no median. `work`: what one sample did, by name, for example
    `{"samples": 4.0, "flop": 1.2e9}`; rates are computed from it.
    """

    name: str
    unit: str
    samples: tuple[float, ...]
    warmup: int = 0
    work: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """One value per step of one quantity, for example loss by step."""

    name: str
    unit: str
    values: tuple[float, ...]
    first_step: int = 0
    noise: str | None = None
    """What noise it has, for example `fp32-loss`: a key of harness.crossing.BY_NOISE; None is not compared."""


@dataclass(frozen=True)
class Record:
    """One test, on one runner, in one run.

    `duration_s` is wall time in seconds over set-up, call and tear-down. `detail` is the text of the failure
    as the failing part gave it. `control` marks a positive control. `last_day` (ISO date) is the day until
    which a skip is accepted. `line`: where in the test's file it did not pass, from 1. `repeat`: which of the fresh
    processes of a repeated test, counted from 1; None for a test that is not repeated.
    """

    test: str
    suite: str
    outcome: Outcome
    duration_s: float
    kind: str | None = None
    reason: str | None = None
    detail: str | None = None
    last_day: str | None = None
    control: bool = False
    worker: str = "main"
    started: str | None = None
    metrics: tuple[Metric, ...] = ()
    traces: tuple[Trace, ...] = ()
    logs: tuple[str, ...] = ()
    repeat: int | None = None
    line: int | None = None


@dataclass(frozen=True)
class KnownIssue:
    """An expected failure with its reason, link and last day; `runners`, `targets` empty means any.

    `unless_patches`: the entry does not hold when one of these patches is in force. `kinds` empty means any.
    `archs`: device architectures, of which one is enough; `versions`: requirements such as `torch>=2.13`, all of
    which must hold.
    """

    id: str
    tests: tuple[str, ...]
    reason: str
    link: str
    last_day: str
    runners: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    unless_patches: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetInfo:
    """The code base under test as it ran: name, commit, whether the checkout was dirty, what was supplied."""

    name: str
    commit: str | None
    dirty: bool | None
    supplies: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class RunnerInfo:
    """The kind of machine: runner name, device architecture and count, emulated or measured.

    `stand_in`: even the emulator was imitated, by a fixture of the harness.
    """

    name: str
    device_arch: str
    device_count: int
    emulated: bool
    stand_in: bool = False

    @property
    def key(self) -> str:
        """Name of the folder of its baselines, for example `cpu-x86_64-1`."""
        end = "-stand-in" if self.stand_in else "-emulated" if self.emulated else ""
        return f"{self.name}-{self.device_arch}-{self.device_count}{end}"


@dataclass(frozen=True)
class Selection:
    """Which part of the suites was asked for; `partial` when a test of them was left out by the user."""

    suites: tuple[str, ...]
    keyword: str = ""
    markers: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        return bool(self.keyword or self.markers or self.arguments)


@dataclass(frozen=True)
class Header:
    """What is true of a whole run. `planned` is None until the tests were collected; `finished` until pytest
    ended by itself. `machine` and `software` are shown, and not compared. `repeats`: in how many fresh processes
    each repeated test was to run. `explore`: the seed of property tests' new examples; None for the same ones."""

    run_id: str
    started: str
    runner: RunnerInfo
    target: TargetInfo
    selection: Selection
    configuration: Mapping[str, Any]
    machine: Mapping[str, Any]
    software: Mapping[str, str | None]
    harness_commit: str | None
    harness_dirty: bool | None
    command: tuple[str, ...] = ()
    planned: tuple[str, ...] | None = None
    controls: tuple[str, ...] = ()
    known_issues: tuple[KnownIssue, ...] = ()
    defect: str | None = None
    finished: str | None = None
    exit_status: int | None = None
    repeats: int = 1
    explore: int | None = None
    schema: int = SCHEMA

    @property
    def configuration_digest(self) -> str:
        """Twelve hex digits over the configuration's canonical JSON."""
        text = json.dumps(self.configuration, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def comparability(self) -> dict[str, str]:
        """What must be equal before two runs may be compared, by name."""
        return {
            "runner": self.runner.name,
            "emulated": "by a stand-in" if self.runner.stand_in else str(self.runner.emulated).lower(),
            "device architecture": self.runner.device_arch,
            "device count": str(self.runner.device_count),
            "configuration": self.configuration_digest,
            "target": self.target.name,
            "schema": str(self.schema),
        }


def differing(a: Mapping[str, str], b: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The names under which two comparability keys differ, each with both values; empty: comparable."""
    names = sorted(set(a) | set(b))
    return {n: (a.get(n, "absent"), b.get(n, "absent")) for n in names if a.get(n) != b.get(n)}


@dataclass(frozen=True)
class Run:
    """A run folder as loaded. `problems` are things that were wrong with its files, in words. `pairs`: what was run to
    compare it with a base; None when it was not."""

    header: Header
    records: tuple[Record, ...]
    running: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=())
    pairs: Pairs | None = None

    @functools.cached_property
    def each_by_test(self) -> Mapping[str, Sequence[Record]]:
        """All records of each test, in their order: of a repeated test one a process."""
        out: dict[str, list[Record]] = {}
        for record in self.records:
            out.setdefault(record.test, []).append(record)
        return out

    def by_test(self) -> dict[str, Record]:
        """Records by test; when a test left several (a retried worker), the worst one counts."""
        rank = {"passed": 0, "skipped": 1, "failed": 2, "error": 3}
        out: dict[str, Record] = {}
        for record in self.records:
            old = out.get(record.test)
            if old is None or rank[record.outcome] >= rank[old.outcome]:
                out[record.test] = record
        return out


def suite_of(test: str) -> str:
    """The suite of a test id: the folder below `suites/`."""
    parts = test.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "suites" else parts[0]


T = TypeVar("T")


def to_json(value: Any) -> Any:
    """The JSON form of a dataclass of this module: plain dicts, lists, numbers, strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    return value


def finite(value: Any) -> Any:
    """The same plain value with null for numbers that JSON has no form for."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _strings(value: Iterable[Any]) -> tuple[str, ...]:
    return tuple(str(v) for v in value)


def _fields(cls: type[T], data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The entries of `data` that `cls` knows; RunFolderError when a required one is absent."""
    if not isinstance(data, Mapping):
        raise RunFolderError(f"{where}: expected an object, found {type(data).__name__}")
    fields = dataclasses.fields(cast(Any, cls))
    missing = [
        f.name
        for f in fields
        if f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
        and f.name not in data
    ]
    if missing:
        raise RunFolderError(f"{where}: {', '.join(missing)} missing; the file is not of this harness")
    return {f.name: data[f.name] for f in fields if f.name in data}


def record_from_json(data: Mapping[str, Any]) -> Record:
    """A Record from its JSON form; RunFolderError names what is wrong with it."""
    try:
        f = _fields(Record, data, "record")
        if f["outcome"] not in OUTCOMES:
            raise RunFolderError(f"record: outcome {f['outcome']!r} is none of {', '.join(OUTCOMES)}")
        f["metrics"] = tuple(_metric_from_json(m) for m in f.get("metrics", ()))
        f["traces"] = tuple(trace_from_json(t) for t in f.get("traces", ()))
        f["logs"] = _strings(f.get("logs", ()))
        f["duration_s"] = float(f["duration_s"])
        record = _checked(Record(**f), "record")
    except (TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(f"record: {error}; the file is not of this harness") from error
    for log in record.logs:
        if not log.startswith("logs/") or ".." in log.split("/") or "\0" in log:
            raise RunFolderError(
                f"record: log {log!r:.200} leads out of the run's logs; do not trust this folder"
            )
    _check_name(record.suite, "record: suite")
    return record


def _checked(value: T, where: str) -> T:
    wrong = typed.mistyped(value)
    if wrong is not None:
        raise RunFolderError(f"{where}: {wrong}; the file is not of this harness")
    return value


def _check_name(name: str, where: str) -> None:
    """Names from a run folder become names of files: they may hold nothing that leads elsewhere."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}", name):
        raise RunFolderError(f"{where}: {name!r:.200} is no name; the file is not of this harness")


def _metric_from_json(data: Mapping[str, Any]) -> Metric:
    f = _fields(Metric, data, "metric")
    f["samples"] = tuple(float(x) for x in data["samples"])
    f["work"] = {str(k): float(v) for k, v in f.get("work", {}).items()}
    return Metric(**f)


def trace_from_json(data: Mapping[str, Any]) -> Trace:
    """A Trace from its JSON form."""
    return Trace(**{**_fields(Trace, data, "trace"), "values": tuple(float(x) for x in data["values"])})


def known_issue_from_json(data: Mapping[str, Any]) -> KnownIssue:
    """A KnownIssue from its JSON form."""
    f = _fields(KnownIssue, data, "known issue")
    for name in ("tests", "runners", "targets", "unless_patches", "kinds", "archs", "versions"):
        f[name] = _strings(f.get(name, ()))
    return KnownIssue(**f)


def header_from_json(data: Mapping[str, Any]) -> Header:
    """A Header from its JSON form; RunFolderError for another schema or a file that is no header."""
    f = _fields(Header, data, "run.json")
    if f.get("schema") != SCHEMA:
        raise RunFolderError(
            f"run.json: schema {f.get('schema')!r}, this harness reads {SCHEMA}; "
            "use the harness version that wrote it"
        )
    try:
        f["runner"] = RunnerInfo(**_fields(RunnerInfo, f["runner"], "run.json: runner"))
        t = _fields(TargetInfo, f["target"], "run.json: target")
        t["supplies"], t["patches"] = _strings(t.get("supplies", ())), _strings(t.get("patches", ()))
        f["target"] = TargetInfo(**t)
        s = _fields(Selection, f["selection"], "run.json: selection")
        s["suites"], s["arguments"] = _strings(s["suites"]), _strings(s.get("arguments", ()))
        f["selection"] = Selection(**s)
        f["known_issues"] = tuple(known_issue_from_json(k) for k in f.get("known_issues", ()))
        f["command"], f["controls"] = _strings(f.get("command", ())), _strings(f.get("controls", ()))
        if f.get("planned") is not None:
            f["planned"] = _strings(f["planned"])
        header = _checked(Header(**f), "run.json")
    except (TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(f"run.json: {error}; the file is not of this harness") from error
    for where, name in (
        ("runner", header.runner.name),
        ("architecture", header.runner.device_arch),
        ("target", header.target.name),
    ):
        _check_name(name, f"run.json: {where}")
    return header
