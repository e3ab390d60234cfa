"""What ranks give one another arrives whole, summed right, and the same each time; bandwidth is measured, not judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from suites.collectives import cases, checks
from suites.faults import judge

PROGRAM = Path(__file__).with_name("rank_collectives.py")
WORKLOADS = Path(__file__).with_name("rank_workload.py")
LIMIT_S = 180
LAST_DAY = "2027-06-30"
pytestmark = pytest.mark.xdist_group("collectives")

ALTERED = {
    "sound": None,
    "sum": "wrong_sum",
    "sum-bf16": "wrong_sum",
    "sum-int64": "wrong_sum",
    "copy": "wrong_sum",
    "unwritten": "wrong_sum",
    "spilled": "wrong_sum",
    "one-rank": "replicas_differ",
}
"""Results that the ranks alter on purpose, most of them in the last element alone, and what the checks must say."""


class Asked(NamedTuple):
    """A case, and on how many ranks and nodes."""

    program: Path
    ranks: int
    case: str
    nodes: int = 1

    @property
    def launch(self) -> tuple[Path, int, int]:
        """What the cases that are answered by one launch share."""
        return self.program, self.ranks, self.nodes


def asked(
    *names: str, worlds: tuple[int, ...] = cases.WORLDS, program: Path = PROGRAM, nodes: int = 1
) -> Any:
    """A parametrization over cases and numbers of ranks."""
    every = [Asked(program, w, n, nodes) for w in worlds for n in names]
    where = f"-on-{nodes}-nodes" if nodes > 1 else ""
    ids = [f"{w.ranks}-ranks{where}-{_id(w.case)}" for w in every]
    return pytest.mark.parametrize("wanted", every, ids=ids)


def _id(case: str) -> str:
    return "-".join(case.split("/")[1:]) or case


class Launches:
    """One launch for each program and number of ranks answers all the cases of it that this session selected."""

    def __init__(self, items: list[pytest.Item]) -> None:
        parameters = [getattr(i, "callspec", None) for i in items]
        every = [p.params.get("wanted") for p in parameters if p is not None]
        self.wanted = [w for w in every if isinstance(w, Asked)]
        self.done: dict[tuple[Path, int, int], tuple[Any, list[Path]]] = {}

    def answers(self, wanted: Asked, launch: Any, record: Any) -> list[dict[str, Any]]:
        """What each rank found; the launch's failure, for every case that not all ranks had answered before it."""
        key = wanted.launch
        if key not in self.done:
            names = list(dict.fromkeys(w.case for w in self.wanted if w.launch == key))
            names.sort(
                key=lambda n: n == "buckets"
            )  # where an emulator stalls: after all that it can still answer
            request = {"cases": names, "nodes": wanted.nodes}
            options = {"ranks": wanted.ranks, "limit_s": max(LIMIT_S, launch.limit_s)}
            if wanted.nodes > 1:
                options["nodes"] = wanted.nodes
            try:
                ended = launch(wanted.program, request, **options)
            except Exception as error:  # noqa: BLE001 - it is the answer of every case that was not reached
                running = [a and a.get("running") for a in getattr(error, "answers", ())]
                error.detail = f"{getattr(error, 'detail', '')}\nby rank, the ranks were in: {running}"
                ended = error
            self.done[key] = ended, list(record.logs)
        ended, logs = self.done[key]
        record.logs[:] = logs
        answers = getattr(ended, "answers", None) if isinstance(ended, Exception) else ended
        if isinstance(ended, Exception) and not (
            answers and all(a and wanted.case in a["done"] for a in answers)
        ):
            raise ended
        assert answers is not None
        return list(answers)


@pytest.fixture(scope="session")
def launches(request: pytest.FixtureRequest) -> Launches:
    return Launches(request.session.items)


@pytest.fixture
def found(wanted: Asked, launches: Launches, launch: Any, record: Any) -> list[dict[str, Any]]:
    """The case's answers by rank; skips what this backend or this machine does not have."""
    answers = launches.answers(wanted, launch, record)
    if "devices" in answers[0]:
        needed = wanted.ranks // wanted.nodes
        record.skip(f"{needed} ranks need as many devices, here: {answers[0]['devices']}", LAST_DAY)
    if wanted.nodes > 1:
        local = [a["local"] for a in answers]
        every = list(range(wanted.ranks // wanted.nodes)) * wanted.nodes
        if local != every:
            record.fail("infrastructure", f"ranks are {local} on their nodes, {every} was asked for")
    found = [a["done"][wanted.case] for a in answers]
    if (why := checks.unsupported(found)) is not None:
        words = wanted.case.split("/")
        record.skip(f"backend {answers[0]['backend']} lacks {' '.join(words[1:])}: {why}", LAST_DAY)
    return found


@asked("control", worlds=(2,))
def test_control_altered_results(found: list[dict[str, Any]], record: Any) -> None:
    """Results altered on purpose, in the last element, past the end or on one rank alone, must be seen as wrong."""
    if missed := checks.control_missed(found, ALTERED):
        record.fail("control", "; ".join(missed))


@asked(*(f"sizes/{op}/{dtype}" for op in cases.OPS for dtype in cases.DTYPES))
def test_sizes(found: list[dict[str, Any]], record: Any) -> None:
    """From one element on, at odd and even lengths, every element is what the inputs imply: sums within their
    rounding, integers and copies to the bit."""
    judge(record, checks.results_fault(found))


@asked(*(f"large/{op}" for op in cases.TIMED), worlds=(2,))
def test_large(found: list[dict[str, Any]], record: Any) -> None:
    """So it is in a buffer of 64 MiB."""
    judge(record, checks.results_fault(found))


@asked("buckets")
def test_buckets(found: list[dict[str, Any]], record: Any) -> None:
    """Fifty times the uneven buckets of DDP, all in flight at once, give right sums and the same bits."""
    judge(record, checks.repetitions_fault(found, cases.REPETITIONS))


@asked("barrier")
def test_barrier(found: list[dict[str, Any]], record: Any) -> None:
    """No rank leaves a barrier before the last one has come."""
    judge(record, checks.barrier_fault(found))


@asked(*(f"group/{name}/{op}" for name in cases.GROUPS for op in cases.GROUPED), worlds=(4,))
def test_group(found: list[dict[str, Any]], record: Any) -> None:
    """Inside sub-groups, be they disjoint, overlapping or of one rank, only their own members take part."""
    judge(record, checks.results_fault(found))


@pytest.mark.capability("timing")
@asked(*(f"bandwidth/{op}" for op in cases.TIMED))
def test_bandwidth(wanted: Asked, found: list[dict[str, Any]], record: Any) -> None:
    """The bus bandwidth of every repetition is kept; no speed is asked for."""
    op = wanted.case.split("/")[1]
    for name, size in cases.BANDWIDTH_BYTES.items():
        seconds = checks.slowest(found, name)
        assert len(seconds) == cases.TIMINGS
        samples = [checks.bus_bandwidth(op, size, wanted.ranks, s) for s in seconds]
        record.metric(f"busbw {op} {name} {wanted.ranks} ranks", "GB/s", samples)


@asked("workload/dist_smoke", program=WORKLOADS)
def test_one_collective(wanted: Asked, found: list[dict[str, Any]], record: Any) -> None:
    """The smallest workload: one all_reduce gives every rank the sum of all ranks' numbers."""
    _judge_sum(wanted, found, record)


@asked("workload/ddp_mlp", program=WORKLOADS)
def test_ddp_replicas(found: list[dict[str, Any]], record: Any) -> None:
    """Ranks that train on data of their own under DDP end with the same parameters to the byte, and a lower loss."""
    _judge_replicas(found, record)


@pytest.mark.nodes(2)
@asked("workload/dist_smoke", program=WORKLOADS, worlds=(4,), nodes=2)
def test_one_collective_between_nodes(wanted: Asked, found: list[dict[str, Any]], record: Any) -> None:
    """So does one all_reduce over ranks on two nodes."""
    _judge_sum(wanted, found, record)


@pytest.mark.nodes(2)
@asked("workload/ddp_mlp", program=WORKLOADS, worlds=(4,), nodes=2)
def test_ddp_replicas_between_nodes(found: list[dict[str, Any]], record: Any) -> None:
    """So do ranks on two nodes."""
    _judge_replicas(found, record)


def _judge_sum(wanted: Asked, found: list[dict[str, Any]], record: Any) -> None:
    total = float(sum(range(1, wanted.ranks + 1)))
    if any(f["sum"] != total for f in found):
        record.fail("wrong_sum", f"{[f['sum'] for f in found]} on the ranks, {total} is right")


def _judge_replicas(found: list[dict[str, Any]], record: Any) -> None:
    digests = [f["digest"] for f in found]
    if len(set(digests)) > 1:
        record.fail("replicas_differ", f"parameters after {found[0]['steps']} steps: {digests}")
    for rank, f in enumerate(found):
        if not f["last_loss"] < f["first_loss"]:
            record.fail("drift", f"rank {rank}: the loss went from {f['first_loss']:g} to {f['last_loss']:g}")
