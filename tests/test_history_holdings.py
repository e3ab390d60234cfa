"""Which file a run is read from: nothing told as added is lost or read twice, whoever is killed, in any order of steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

import hypothesis.strategies as st
from hypothesis import assume, given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from harness.history import holdings
from harness.history.holdings import File, Held

RUNNER = "cpu-x86_64-1"
NONCES = st.integers(0, 2**64 - 1).map(lambda n: f"{n:016x}")


def held(run: int, digest: int = 0) -> Held:
    """A run by number; the same digest is the same content."""
    return Held(f"run{run}", 1_700_000_000_000_000 + run, f"{digest:016x}")


class Many(RuleBasedStateMachine):
    """A store that writers and compactors change step by step, each of which may be killed between any two steps.

    Their steps are those of harness.history.store, with files as names and sets of runs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, File] = {}
        self.actors: list[Iterator[None]] = []
        self.told: set[Held] = set()
        self.nonces: set[str] = set()

    def use(self, nonce: str) -> None:
        assume(nonce not in self.nonces)
        self.nonces.add(nonce)

    def write(self, name: str, runs: frozenset[Held]) -> None:
        assert name not in self.files
        self.files[name] = File(RUNNER, name, runs, 100 * len(runs))

    def adding(self, run: Held, nonce: str) -> Iterator[None]:
        there = {r for f in self.files.values() for r in f.runs if r.run_id == run.run_id}
        if there:
            self.told |= there if there == {run} else set()
            return
        yield
        self.write(holdings.run_name(run, nonce), frozenset([run]))
        yield
        there = {r for f in self.files.values() for r in f.runs if r.run_id == run.run_id}
        self.told |= there if there == {run} else set()

    def compacting(self, nonce: str) -> Iterator[None]:
        listed = list(self.files.values())
        yield
        sources = holdings.choose_sources(listed)
        if sources:
            if any(p.file.name not in self.files for p in sources):
                return
            yield
            self.write(holdings.compacted_name(listed, nonce), frozenset().union(*(p.runs for p in sources)))
            yield
        garbage = holdings.choose_garbage(list(self.files.values()))
        for file in garbage:
            yield
            self.files.pop(file.name, None)

    @rule(run=st.integers(0, 3), digest=st.integers(0, 1), nonce=NONCES)
    def start_adding(self, run: int, digest: int, nonce: str) -> None:
        self.use(nonce)
        self.actors.append(self.adding(held(run, digest), nonce))

    @rule(nonce=NONCES)
    def start_compacting(self, nonce: str) -> None:
        self.use(nonce)
        self.actors.append(self.compacting(nonce))

    @rule(which=st.integers(0, 5), steps=st.integers(1, 4))
    def go_on(self, which: int, steps: int) -> None:
        if self.actors:
            actor = self.actors[which % len(self.actors)]
            for _ in range(steps):
                if next(actor, self) is self:
                    self.actors.remove(actor)
                    break

    @rule(which=st.integers(0, 5))
    def kill(self, which: int) -> None:
        if self.actors:
            self.actors.pop(which % len(self.actors))

    @invariant()
    def every_run_is_read_once(self) -> None:
        files = list(self.files.values())
        read = [run for part in holdings.choose_parts(files) for run in part.runs]
        ids = {run.run_id for f in files for run in f.runs}
        assert sorted(run.run_id for run in read) == sorted(ids)
        kept = {run for f in files for run in f.runs}
        assert self.told <= kept, "a run that was told as added is gone"
        disputed = holdings.conflicts(files)
        assert {run for run in self.told if run.run_id not in disputed} <= set(read)

    @invariant()
    def parts_lie_in_their_files(self) -> None:
        assert all(part.runs <= part.file.runs for part in holdings.choose_parts(list(self.files.values())))


Many.TestCase.settings = settings(max_examples=250, stateful_step_count=40, deadline=None)


class TestMany(Many.TestCase):  # type: ignore[misc,name-defined]
    """No order of steps and kills loses a run that was told as added, or reads one twice."""


@given(sizes=st.lists(st.integers(1, 10**6), max_size=40), data=st.data())
def test_compaction_ends_in_few_files(sizes: list[int], data: st.DataObject) -> None:
    """Compacting until there is nothing to gain ends, and leaves files of which each is much larger than those before."""
    files = [
        File(RUNNER, holdings.run_name(held(n), f"{n:016x}"), frozenset([held(n)]), size)
        for n, size in enumerate(sizes)
    ]
    for number in range(100):
        sources = holdings.choose_sources(files)
        if not sources:
            break
        runs = frozenset().union(*(p.runs for p in sources))
        name = holdings.compacted_name(files, data.draw(NONCES))
        files.append(File(RUNNER, name, runs, sum(p.file.size_bytes for p in sources)))
        garbage = holdings.choose_garbage(files)
        assert {p.file for p in sources} <= set(garbage)
        files = [f for f in files if f not in garbage]
        assert number < 99
    assert set().union(*(f.runs for f in files)) == {held(n) for n in range(len(sizes))}
    assert len(files) <= 2 + math.log(1 + sum(sizes), holdings.TIER)


def test_more_files_than_go_at_once() -> None:
    """Of very many files no more than MOST are put into one at a time."""
    many = [
        File(RUNNER, holdings.run_name(held(n), "0" * 16), frozenset([held(n)]), 9)
        for n in range(holdings.MOST + 5)
    ]
    assert len(holdings.choose_sources(many)) == holdings.MOST


@given(
    run_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}", fullmatch=True),
    started=st.integers(0, 10**17 - 1),
    digest=NONCES,
    nonce=NONCES,
)
def test_names_say_which_run(run_id: str, started: int, digest: str, nonce: str) -> None:
    """A run's file says by its name which run it holds, and sorts before every compacted file."""
    run = Held(run_id, started, digest)
    name = holdings.run_name(run, nonce)
    assert holdings.run_of(name) == run
    assert len(name) < 255
    compacted = holdings.compacted_name([], nonce)
    assert holdings.run_of(compacted) is None
    assert File(RUNNER, compacted, frozenset()).compacted
    assert name < compacted < holdings.compacted_name([File(RUNNER, compacted, frozenset())], "0" * 16)


def test_disputed_runs_stay_apart() -> None:
    """Two runs under one id are told, the first is read, and neither is compacted."""
    two = [File(RUNNER, holdings.run_name(held(1, d), "0" * 16), frozenset([held(1, d)])) for d in (0, 1)]
    rest = [File(RUNNER, holdings.run_name(held(n), "0" * 16), frozenset([held(n)])) for n in (2, 3)]
    assert holdings.conflicts(two + rest) == {"run1": [held(1, 0), held(1, 1)]}
    assert [p.file for p in holdings.choose_parts(two)] == two[:1]
    assert {p.file for p in holdings.choose_sources(two + rest)} == set(rest)


def test_of_equal_files_the_last_stays() -> None:
    """Of files that hold one run all but the last by name are garbage; one with a run of its own is none."""
    twice = [File(RUNNER, holdings.run_name(held(1), f"{n:016x}"), frozenset([held(1)])) for n in (0, 1)]
    assert holdings.choose_garbage(twice[::-1]) == twice[:1]
    whole = File(RUNNER, holdings.compacted_name(twice, "0" * 16), frozenset([held(1), held(2)]))
    later = File(RUNNER, holdings.compacted_name([whole], "0" * 16), frozenset([held(1), held(3)]))
    assert holdings.choose_garbage([later, whole, *twice]) == twice
