"""Asks a store: which metrics it holds, and one metric over its runs, each run once and by its repeats' medians."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import harness.history.holdings as holdings
from harness.history.place import TRIES, Place, StoreError
from harness.history.store import relation

KEY = (
    "runner",
    "emulated",
    "stand_in",
    "configuration",
    "target",
    "patches",
    "suite",
    "test",
    "metric",
    "unit",
)
"""What must be equal for values to stand in one series: measured never beside emulated."""


@dataclass(frozen=True)
class Point:
    """One run's values of a series, one a repeat, in order; a repeat with a sample that is not finite has None."""

    run_id: str
    started: datetime
    target_commit: str | None
    target_dirty: bool | None
    harness_commit: str | None
    defect: str | None
    repeats: tuple[float | None, ...]

    @property
    def value(self) -> float | None:
        """The run's value: the median of its repeats; None when one of them has none."""
        known = [v for v in self.repeats if v is not None]
        return statistics.median(known) if known and len(known) == len(self.repeats) else None


@dataclass(frozen=True)
class Series:
    """One metric of one test on one kind of machine, in the order of time; fields as in the rows."""

    runner: str
    emulated: bool
    stand_in: bool
    configuration: str
    target: str
    patches: str
    suite: str
    test: str
    metric: str
    unit: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Listed:
    """A metric that the store holds: in how many runs and tests, and when last."""

    metric: str
    unit: str
    runner: str
    target: str
    tests: int
    runs: int
    last: datetime


class Reader:
    """A store as it lies there when this is made. `problems`: ids under which there is more than one run, in words.

    `connection`: one of `place.connect()`, to go on with; a new one takes some 30 ms to make.
    """

    def __init__(self, place: Place, connection: Any | None = None) -> None:
        self.place = place
        self.connection = connection or place.connect()
        self._look()

    def _look(self) -> None:
        files = self.place.files(self.connection)
        self.parts = holdings.choose_parts(files)
        self.problems = tuple(
            f"{run_id}: {len(runs)} different runs have this id, the one of digest {runs[0].digest} is read; "
            f"move the other's file away ({', '.join(f.path for f in files if runs[-1] in f.runs)})"
            for run_id, runs in sorted(holdings.conflicts(files).items())
        )

    @property
    def runs(self) -> int:
        return sum(len(p.runs) for p in self.parts)

    def metrics(self) -> list[Listed]:
        """Every metric by runner and target, in order of name."""
        rows = self.ask(
            "SELECT metric, unit, runner, target, count(DISTINCT test), count(DISTINCT run_id), max(epoch_us(started)) "
            "FROM $rows WHERE metric IS NOT NULL GROUP BY metric, unit, runner, target "
            "ORDER BY metric, runner, target, unit"
        )
        return [Listed(r[0], r[1], r[2], r[3], r[4], r[5], _moment(r[6])) for r in rows]

    def series(
        self,
        metric: str,
        *,
        test: str | None = None,
        runner: str | None = None,
        last: int = 50,
        defects: bool = False,
    ) -> list[Series]:
        """The last runs of a metric, test by test; `test`: an id, a part of it, or a pattern with `*` and `?`.

        Samples of tests that passed count, after their warm-up; runs of a planted defect only with `defects`.
        """
        for condition, values in _conditions(test):
            found = self._series(metric, condition, values, runner, last, defects)
            if found:
                return found
        return []

    def latest(
        self, metric: str, test: str, runner: str, *, values: int = 30
    ) -> list[tuple[str, int | None, float]]:
        """The latest medians of one test's metric on one runner, newest first, as (run, repeat, median)."""
        for newest in (values, None):  # the runs that are newest hold enough, as a rule; all of them, else
            rows = self.ask(
                f"SELECT run_id, repeat, median(value) FROM $rows "
                f"WHERE test = ? AND metric = ? AND outcome = 'passed' AND NOT warmup AND defect IS NULL "
                f"{self._since(runner, newest)} GROUP BY started, run_id, repeat "
                f"ORDER BY started DESC, run_id DESC, repeat DESC LIMIT ?",
                [test, metric, values],
                runner,
            )
            if len(rows) == values:
                break
        return [(str(r[0]), r[1], float(r[2])) for r in rows]

    def _series(
        self, metric: str, condition: str, values: Sequence[str], runner: str | None, last: int, defects: bool
    ) -> list[Series]:
        key = ", ".join(KEY)
        rows = self.ask(
            f"WITH repeats AS (SELECT {key}, started, run_id, repeat, defect, any_value(target_commit) AS target_commit, "
            f"any_value(target_dirty) AS target_dirty, any_value(harness_commit) AS harness_commit, "
            f"CASE WHEN bool_and(isfinite(value)) THEN median(value) END AS value FROM $rows "
            f"WHERE metric = ? AND {condition} AND outcome = 'passed' AND NOT warmup AND value IS NOT NULL "
            f"{'' if defects else 'AND defect IS NULL'} GROUP BY {key}, started, run_id, repeat, defect), "
            f"runs AS (SELECT {key}, run_id, epoch_us(started) AS began, any_value(target_commit), "
            f"any_value(target_dirty), any_value(harness_commit), defect, list(value ORDER BY repeat) "
            f"FROM repeats GROUP BY {key}, run_id, started, defect "
            f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY started DESC, run_id DESC) <= ?) "
            f"SELECT * FROM runs ORDER BY {key}, began, run_id",
            [metric, *values, last],
            runner,
        )
        return _grouped(rows)

    def ask(self, query: str, values: Sequence[Any] = (), runner: str | None = None) -> list[tuple[Any, ...]]:
        """The answer to a query over `$rows`; asked again when a compaction took a file away meanwhile."""
        for last in (False,) * TRIES + (True,):
            parts = [p for p in self.parts if runner in (None, p.file.runner)]
            try:
                whole = query.replace("$rows", relation(self.place, parts))
                return list(self.connection.execute(whole, list(values)).fetchall())
            except self.place.errors as error:
                paths = [p.file.path for p in parts]
                if last or not self.place.gone(paths):
                    raise self.place.damaged(self.connection, paths, error) from error
                self._look()
        raise AssertionError

    def _since(self, runner: str, newest: int | None) -> str:
        """SQL that keeps to the newest runs, by which whole row groups are passed over."""
        starts = [run.started_us for p in self.parts if p.file.runner == runner for run in p.runs]
        if newest is None or len(starts) <= newest:
            return ""
        return f"AND started >= make_timestamptz({heapq.nlargest(newest, starts)[-1]})"


def read(place: str) -> Reader:
    """The store at a place; StoreError when no run is there."""
    reader = Reader(Place(place))
    if not reader.parts:
        raise StoreError(
            f"--store {place}: holds no run; put one in with `harness history add RUN --store {place}`"
        )
    return reader


def _grouped(rows: Sequence[tuple[Any, ...]]) -> list[Series]:
    points: dict[tuple[Any, ...], list[Point]] = {}
    for row in rows:
        run_id, began, target_commit, target_dirty, harness_commit, defect, values = row[len(KEY) :]
        point = Point(
            run_id, _moment(began), target_commit, target_dirty, harness_commit, defect, tuple(values)
        )
        points.setdefault(row[: len(KEY)], []).append(point)
    return [Series(**dict(zip(KEY, key, strict=True)), points=tuple(found)) for key, found in points.items()]


def _conditions(test: str | None) -> list[tuple[str, list[str]]]:
    """Ways to understand a test pattern, as SQL with values, the narrowest first."""
    if test is None:
        return [("true", [])]
    if "*" in test or "?" in test:
        return [("test LIKE ? ESCAPE '!'", [_escaped(test).replace("*", "%").replace("?", "_")])]
    return [("test = ?", [test]), ("test LIKE ? ESCAPE '!'", [f"%{_escaped(test)}%"])]


def _escaped(text: str) -> str:
    return "".join(f"!{c}" if c in "!%_" else c for c in text)


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds // 1_000_000, timezone.utc).replace(
        microsecond=microseconds % 1_000_000
    )
