"""How far a session is: counts by suite, what runs now, the time left; pure, the clock is passed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.pairs import Pairs
from harness.records import suite_of

ENOUGH_TESTS = 3
"""So many finished tests make a pace; of fewer nothing is concluded."""


@dataclass(frozen=True)
class Ranks:
    """A launch that runs now: `started` of `count` ranks are there, `left` of them have ended, `step` is the last one that
    rank 0 told, None when it told none; age and time limit in seconds."""

    count: int
    started: int
    left: int
    step: int | None
    age_s: float
    limit_s: float


@dataclass(frozen=True)
class Running:
    """A test that runs now, for `age_s` seconds; `ranks` when it has launched some."""

    test: str
    age_s: float
    ranks: Ranks | None = None


@dataclass(frozen=True)
class Suite:
    """Tests of one suite: `planned` is None when it is not known how many will run."""

    name: str
    done: int
    planned: int | None
    failed: int = 0


@dataclass(frozen=True)
class Seen:
    """All that is shown of a session at one moment.

    `phase`: in words what goes on besides tests of this process; None for these. `left_s` is None when not known.
    """

    elapsed_s: float
    suites: tuple[Suite, ...] = ()
    running: tuple[Running, ...] = ()
    phase: str | None = None
    left_s: float | None = None

    @property
    def done(self) -> int:
        return sum(s.done for s in self.suites)

    @property
    def failed(self) -> int:
        return sum(s.failed for s in self.suites)

    @property
    def planned(self) -> int | None:
        """How many tests there are in all; None when that of one suite is not known, or there is none yet."""
        counts = [s.planned for s in self.suites]
        return sum(c or 0 for c in counts) if counts and None not in counts else None


def estimate_left_s(
    waiting: Iterable[float | None], running: Iterable[tuple[float | None, float]], workers: int = 1
) -> float | None:
    """Seconds until all tests are done, from what each is expected to take; None when one is not known.

    `running`: expected duration and age of each test that runs now. With several workers the work is taken to be shared
    evenly, and no less than the longest test. None as well when nothing is left but tests that run longer than expected.
    """
    left: list[float] = []
    runs = False
    for expected, age_s in running:
        if expected is None:
            return None
        runs = True
        left.append(max(0.0, expected - age_s))
    for expected in waiting:
        if expected is None:
            return None
        left.append(max(0.0, expected))
    total = sum(left)
    if runs and total <= 0:
        return None
    return max([total / max(1, workers), *left], default=0.0)


def estimate_processes_s(
    took_s: Sequence[float], expected_s: float | None, age_s: float, after: int
) -> float | None:
    """Seconds until this process and `after` more are done, from what those before took, else from `expected_s`."""
    each = sum(took_s) / len(took_s) if took_s else expected_s
    if each is None or (not after and age_s >= each):
        return None
    return max(0.0, each - age_s) + after * each


@dataclass
class Ledger:
    """What one session was told of its tests, by plain id; times are seconds of one clock, `past` seconds by test."""

    past: Mapping[str, float] = field(default_factory=dict)
    planned: frozenset[str] = frozenset()
    started: dict[str, float] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def plan(self, tests: Iterable[str]) -> None:
        """These tests are to run; workers each tell the same ones."""
        self.planned = self.planned | frozenset(tests)

    def start(self, test: str, now: float) -> None:
        self.started[test] = now

    def fail(self, test: str) -> None:
        self.failed.add(test)

    def finish(self, test: str, now: float) -> None:
        """The test is over; one that never started took no time that is known."""
        begin = self.started.pop(test, None)
        self.took_s[test] = 0.0 if begin is None else max(0.0, now - begin)

    def suites(self) -> tuple[Suite, ...]:
        """Counts by suite, in the order of their names."""
        names: dict[str, list[int]] = {}
        for test in self.planned | self.took_s.keys() | self.started.keys():
            count = names.setdefault(suite_of(test), [0, 0, 0])
            for at, found in enumerate((test in self.took_s, True, test in self.failed)):
                count[at] += found
        return tuple(Suite(name, *count) for name, count in sorted(names.items()))

    def running(self, now: float) -> list[Running]:
        """The tests that run now, the oldest first."""
        found = [Running(test, max(0.0, now - begin)) for test, begin in self.started.items()]
        return sorted(found, key=lambda r: -r.age_s)

    def left_s(self, now: float, workers: int) -> float | None:
        """Seconds until the planned tests are done; None when that is not known."""
        if not self.planned:
            return None
        pace = self._paces()
        waiting = self.planned - self.took_s.keys() - self.started.keys()
        running = [(self._expect(t, pace), now - begin) for t, begin in self.started.items()]
        return estimate_left_s((self._expect(t, pace) for t in waiting), running, workers)

    def _expect(self, test: str, pace: Mapping[str, float]) -> float | None:
        """As long as it took last time, else as tests of its suite take in this session, else as all do."""
        known = self.past.get(test)
        return known if known is not None else pace.get(suite_of(test), pace.get(""))

    def _paces(self) -> dict[str, float]:
        """Mean seconds of a finished test by suite, and under no name of all; without those of too few."""
        by_suite: dict[str, list[float]] = {"": list(self.took_s.values())}
        for test, seconds in self.took_s.items():
            by_suite.setdefault(suite_of(test), []).append(seconds)
        return {n: sum(s) / len(s) for n, s in by_suite.items() if len(s) >= ENOUGH_TESTS}


@dataclass(frozen=True)
class Stage:
    """Which fresh process of repeated tests runs: `number` of `side`, `place` in words; `after` more are to come, None when
    that depends on what is found."""

    place: str
    side: str
    number: int
    after: int | None


def find_stage(pairs: Pairs | None, ran: int, repeats: int) -> Stage:
    """The process that runs now. `ran`: highest number of a process that has begun; `repeats`: how many were asked for.

    With a comparison, what stands in its pairs tells it.
    """
    if pairs is None:
        number = max(1, ran)
        return Stage(f"process {number} of {repeats}", "head", number, max(0, repeats - number))
    done = len([p for p in pairs.counted if p.pair is None])
    if done < len(pairs.screen):
        side = pairs.screen[done]
        return Stage(
            f"screen, process {done + 1} of {len(pairs.screen)} ({side})", side, _next(pairs, side), None
        )
    counted = [p.pair for p in pairs.counted if p.pair is not None]
    last = max(counted, default=0)
    half = counted.count(last) == 1
    pair = last if half else last + 1
    if pairs.ended or pairs.flagged is None or pair > len(pairs.order):
        return Stage("judging", "head", 0, 0)
    side = pairs.order[pair - 1][1 if half else 0]
    return Stage(f"pair {pair} of at most {pairs.looks[-1]} ({side})", side, _next(pairs, side), None)


def _next(pairs: Pairs, side: str) -> int:
    return max((p.number for p in pairs.processes if p.side == side), default=0) + 1
