"""A checkpoint holds what the ranks held and gives it back at any world size; a killed or damaged one is never taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from suites.checkpoint import cases, checks
from suites.checkpoint.bench import Bench
from suites.checkpoint.cases import APIS, CASES, ELSEWHERE, FREEZE, RESUMED_AT, SAVED_AT, WORLDS, Shape
from suites.faults import Fault, judge

pytestmark = pytest.mark.xdist_group("checkpoint")

NOISE = 1e-5
"""How far a run resumed at another world size may be from the one that went on, relative."""


def needs(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.needs(*names)


def only(*shapes: Shape) -> list[Any]:
    """The mark of a test that needs more than FSDP1."""
    return [pytest.mark.targets("reference")] if any(s.api != "fsdp1" for s in shapes) else []


def pairs(how: str, chosen: list[tuple[Shape, Shape]]) -> list[Any]:
    """Parameters of a test: states as saved and as loaded, and the names of their jobs."""
    found = []
    for s, t in chosen:
        marks = [needs(f"save/{s}", f"{how}/{t}/{s}"), *only(s, t)]
        apis = [] if s.api == t.api == "fsdp1" else [f"{s.api}-to-{t.api}"]
        found.append(pytest.param(s, t, marks=marks, id="-".join([f"{s.world}-to-{t.world}", *apis])))
    return found


def journeys(apis: tuple[str, ...]) -> pytest.MarkDecorator:
    """What every way within these APIs needs."""
    return needs(*(f"load/{t}/{s}" for s, t in cases.PAIRS if s.api in apis and t.api in apis))


def saved_in(shapes: list[Shape]) -> list[Any]:
    """Parameters of a test that looks at saved states."""
    return [pytest.param(s, marks=[needs(f"save/{s}"), *only(s)], id=str(s)) for s in shapes]


@pytest.fixture(scope="session")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    marks = [m for i in request.session.items for m in i.iter_markers("needs") if "checkpoint" in i.nodeid]
    kept = Bench(name for m in marks for name in m.args)
    yield kept
    kept.close()


class Did:
    """Gives a job's answers to a test."""

    def __init__(self, bench: Bench, launch: Any, record: Any) -> None:
        self.bench, self.launch, self.record = bench, launch, record

    def __call__(self, name: str, *, raw: bool = False) -> list[dict[str, Any]]:
        return self.bench.get(name, self.launch, self.record, raw=raw)

    def loaded(self, how: str, saved: Shape, loaded: Shape) -> Fault | None:
        """What is wrong with a state saved in one shape and loaded in another."""
        want = self(f"save/{saved}")[0]["held"]
        ranks = self(f"{how}/{loaded}/{saved}")
        return checks.loaded_fault(f"saved by {saved}, loaded by {loaded}", ranks, want, SAVED_AT)


@pytest.fixture
def did(bench: Bench, launch: Any, record: Any) -> Did:
    return Did(bench, launch, record)


@needs("series")
def test_control_altered_states(did: Did, record: Any) -> None:
    """The comparison must reject a state with one flipped bit, with swapped moments, or without one parameter."""
    (answer,) = did("series")
    held = answer["held"]
    if (fault := checks.state_fault("itself", held, held)) is not None:
        record.fail("control", f"a state differs from itself: {fault.message}", fault.detail)
    unseen = [w for w, s in answer["altered"].items() if checks.state_fault(w, s, held) is None]
    if unseen:
        record.fail("control", f"the comparison does not see {', '.join(unseen)}")


@pytest.mark.parametrize(("saved", "loaded"), pairs("load", cases.PAIRS))
def test_loaded_equals_saved(saved: Shape, loaded: Shape, did: Did, record: Any) -> None:
    """Weights and moments loaded by the target at one world size are those saved at another, bit by bit."""
    judge(record, did.loaded("load", saved, loaded))


@pytest.mark.parametrize(("saved", "loaded"), pairs("dcp", cases.BY_DCP))
def test_distributed_checkpoint(saved: Shape, loaded: Shape, did: Did, record: Any) -> None:
    """Weights and moments go through torch.distributed.checkpoint from one world size to another, bit by bit."""
    judge(record, did.loaded("dcp", saved, loaded))


@pytest.mark.parametrize(
    "apis",
    [
        pytest.param(APIS[:1], marks=journeys(APIS[:1]), id="fsdp1"),
        pytest.param(APIS, marks=[journeys(APIS), *only(*cases.SAVED)], id="across"),
    ],
)
def test_any_journey(apis: tuple[str, ...], did: Did, record: Any) -> None:
    """Any two states that were loaded from one checkpoint are equal, whatever worlds, shardings and APIs they went to."""
    worlds, api = st.sampled_from(WORLDS), st.sampled_from(apis)
    loaded = st.builds(cases.loaded, worlds, api)

    @given(st.builds(cases.saved, worlds, api), loaded, loaded)
    def journey(saved: Shape, here: Shape, there: Shape) -> None:
        one, two = (did(f"load/{t}/{saved}", raw=True)[0] for t in (here, there))
        assume("error" not in one and "error" not in two)  # test_loaded_equals_saved tells of those
        what = f"saved by {saved}, loaded by {here} and by {there}"
        judge(record, checks.state_fault(what, one["held"], two["held"]))

    journey()


@pytest.mark.parametrize("saved", saved_in(cases.SAVED))
def test_files_equal_state(saved: Shape, did: Did, record: Any) -> None:
    """The files hold what the ranks held, gathered another way; the moments are two, and some dimension is odd to the ranks."""
    ranks = did(f"save/{saved}")
    held = ranks[0]["held"]
    if saved.world > 1:
        assert checks.indivisible(held, saved.world), f"{saved.world} ranks divide every dimension"
    judge(record, checks.moments_fault(held))
    judge(record, checks.loaded_fault("on the saving ranks", ranks, held, SAVED_AT))
    judge(record, checks.state_fault("in the files", ranks[0]["content"], held))


@pytest.mark.parametrize("saved", saved_in(cases.SAVED))
def test_files_load_anywhere(saved: Shape, did: Did, record: Any) -> None:
    """The files load by torch's loader of weights, name nothing else, and hold tensors of the CPU alone."""
    judge(record, checks.files_fault(did(f"save/{saved}")[0]["described"], ("cpu",)))


def losses(ranks: list[dict[str, Any]], key: str) -> list[float]:
    """One value a step, the mean over ranks."""
    columns = zip(*([s[key] for s in r["steps"]] for r in ranks), strict=True)
    return [sum(c) / len(c) for c in columns]


@pytest.mark.parametrize("case", [pytest.param(c, marks=needs(f"resume/{c}"), id=c) for c in CASES])
def test_resume_equals_continuing(case: str, did: Did, record: Any) -> None:
    """A run resumed in new processes makes the steps of the one that went on: samples, loss, norm, rates, weights, bit by bit."""
    through, resumed = did(f"through/{case}"), did(f"resume/{case}")
    for key in ("loss", "norm"):
        record.trace(key, "", losses(through, key))
        record.trace(f"{key}-resumed", "", losses(resumed, key), first_step=RESUMED_AT + 1)
    judge(record, checks.resumed_fault(through, resumed, RESUMED_AT))


@pytest.mark.parametrize("case", [pytest.param(c, marks=needs(f"resume/{c}"), id=c) for c in CASES])
def test_resume_reads_on(case: str, did: Did, record: Any) -> None:
    """A resumed run reads the samples that the run that went on read in the same steps."""
    judge(record, checks.samples_fault(did(f"through/{case}"), did(f"resume/{case}"), RESUMED_AT))


@needs("resume/schedule")
def test_resume_keeps_freeze(did: Did, record: Any) -> None:
    """A run resumed inside its frozen start keeps the backbone still to the end of it, and moves it after."""
    for rank in did("resume/schedule"):
        judge(record, checks.freeze_fault(rank["steps"], FREEZE))


@pytest.mark.parametrize(
    "world", [pytest.param(w, marks=needs(f"resume/plain-{w}"), id=str(w)) for w in ELSEWHERE]
)
def test_resume_elsewhere(world: int, did: Did, record: Any) -> None:
    """A run resumed at another world size reads the same samples, and its losses and norms stay within noise."""
    through, resumed = did("through/plain"), did(f"resume/plain-{world}")
    judge(record, checks.samples_fault(through, resumed, RESUMED_AT))
    for key in ("loss", "norm"):
        want, have = losses(through, key)[RESUMED_AT:], losses(resumed, key)
        record.trace(key, "", have, first_step=RESUMED_AT + 1)
        judge(record, checks.near_fault(key, want, have, RESUMED_AT + 1, NOISE))


@needs("kills")
def test_killed_save(did: Did, record: Any) -> None:
    """A save killed at any moment leaves a whole checkpoint to resume from: the one before or the new one."""
    (answer,) = did("kills")
    judge(record, checks.killed_fault(answer))


@pytest.mark.parametrize("name", [pytest.param(n, marks=needs(f"damage/{n}"), id=n) for n in cases.DAMAGES])
def test_damage_is_refused(name: str, did: Did, record: Any) -> None:
    """Loading a checkpoint with a damaged file ends in an error that names the file."""
    (answer,) = did(f"damage/{name}")
    judge(record, checks.damage_fault(answer, cases.DAMAGES[name]))


@needs("order")
@pytest.mark.parametrize("case", cases.ORDERS)
def test_newest_is_resumed(case: str, did: Did, record: Any) -> None:
    """The whole checkpoint of the highest step is resumed, whatever its age and whatever lies beside it."""
    (answer,) = did("order")
    judge(record, checks.order_fault(answer[case]))
