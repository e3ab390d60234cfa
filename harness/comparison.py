"""Runs what is left of a comparison with a base: the screen, then pairs until the looks have settled all."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import policy, redaction, repeats, rundir
from harness.outcomes import is_control
from harness.pair_words import render_screen
from harness.pairs import Pairs, Process
from harness.records import suite_of
from harness.targets.base import TargetSpec

if TYPE_CHECKING:
    from harness.looks import Decided
    from harness.session import State


def finish(folder: Path, statuses: Sequence[int]) -> None:
    """Notes in a run's header that its processes have come to their end."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    rundir.update_header(folder, finished=now, exit_status=int(any(statuses)))


class Comparison:
    """Runs what is left of a comparison, and keeps `pairs.json` true after each process."""

    def __init__(self, state: State, pairs: Pairs, say: Callable[[str], None]) -> None:
        self.folder, self.pairs, self.say = state.folder, pairs, say
        self.limit_s, self.secrets = state.limit_s(repeats.LIMIT_S), state.secrets
        self.words = repeats.options_of(argparse.Namespace(**pairs.options))
        self.rules = policy.load()

    def go(self) -> list[int]:
        """Exit statuses of the head's processes."""
        try:
            if self.pairs.flagged is None:
                self._screen()
            self._pair()
        except KeyboardInterrupt:
            self.say(f"interrupted; go on with: harness resume {self.folder}")
            raise
        base = self.folder / rundir.BASE
        redaction.redact_files((base / "logs").rglob("*"), self.secrets)
        finish(base, [p.status for p in self.pairs.counted if p.side == "base"])
        self._keep(ended=True)
        sides = {side: sum(p.side == side for p in self.pairs.processes) for side in ("base", "head")}
        self.say(
            f"two stages: {sum(sides.values())} processes ({sides['base']} of the base, {sides['head']} of the head), "
            f"{self.pairs.seconds():.0f} machine seconds"
        )
        return [p.status for p in self.pairs.counted if p.side == "head"]

    def _keep(self, **changes: Any) -> None:
        self.pairs = dataclasses.replace(self.pairs, **changes)
        rundir.write_pairs(self.folder, self.pairs)

    def _screen(self) -> None:
        from harness.judge_pairs import rows_of, screen_rows

        plan = self.pairs.screen
        done = len([p for p in self.pairs.counted if p.pair is None])
        if not done:
            sides = f"{plan.count('base')} of the base {self.pairs.asked}, {plan.count('head')} of the head"
            self.say(f"screen: {len(plan)} processes ({sides}), {len(self.pairs.tests)} tests each")
        for place in range(done, len(plan)):
            p = self._run(plan[place], None, self.pairs.tests)
            self.say(f"screen: process {place + 1} of {len(plan)} ({p.side}): {_spent(p)}")
        rows = rows_of(rundir.load(self.folder), self.rules)
        found = screen_rows(rows, self.pairs.level)
        flagged = tuple(key for key, f in sorted(found.items()) if f.verdict != "unflagged")
        self._keep(flagged=flagged, unseen=tuple(k for k in flagged if found[k].verdict == "unseen"))
        self.say(render_screen(self.pairs, len(rows)))
        for key in flagged:
            self.say(f"    {_name(key)}: {found[key].change or 0:+.1%}, {found[key].why}")

    def _pair(self) -> None:
        """Pair after pair for the tests that hold undecided metrics, judged at the looks."""
        left = self._left(self._ran())
        while left:
            number = self._ran() + 1
            order = self.pairs.order[number - 1]
            ran = [self._run(side, number, left) for side in order]
            self.say(f"pair {number}: " + ", ".join(f"{p.side} {_spent(p)}" for p in ran))
            if number in self.pairs.looks:
                left = self._left(number, tell=True)

    def _ran(self) -> int:
        return max((p.pair for p in self.pairs.counted if p.pair is not None), default=0)

    def _left(self, ran: int, tell: bool = False) -> tuple[str, ...]:
        """The tests that the next pair runs: those of metrics that no look so far has settled, with their controls."""
        from harness.judge_pairs import decide_rows, rows_of, undecided_rows

        if ran >= self.pairs.looks[-1] and not tell:
            return ()
        rows = rows_of(rundir.load(self.folder), self.rules)
        decided = decide_rows(rows, self.pairs.flagged or (), self.pairs.looks)
        open_rows = undecided_rows(rows, decided)
        if tell:
            self.say(f"look after {ran} pairs: {_counts(decided)}")
        if ran >= self.pairs.looks[-1]:
            return ()
        tests = {rows[key].taken.test for key in open_rows}
        suites = {suite_of(t) for t in tests}
        return tuple(t for t in self.pairs.tests if t in tests or (is_control(t) and suite_of(t) in suites))

    def _run(self, side: str, pair: int | None, tests: tuple[str, ...]) -> Process:
        """One fresh process; it stands in pairs.json when it has ended."""
        base = side == "base"
        folder = self.folder / rundir.BASE if base else self.folder
        spec = TargetSpec.from_text(self.pairs.base_spec if base else self.pairs.head_spec)
        number = max((p.number for p in self.pairs.processes if p.side == side), default=0) + 1
        started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        begin = time.monotonic()
        status = repeats.run_one(folder, spec, tests, self.words, number, self.limit_s)
        seconds = round(time.monotonic() - begin, 3)
        process = Process(side, number, pair, tests, status, seconds, started)
        self._keep(processes=(*self.pairs.processes, process))
        return process


def _spent(process: Process) -> str:
    log = f"{'base/' if process.side == 'base' else ''}logs/repeat-{process.number}.log"
    how = "" if process.status == 0 else f", ended with status {process.status}: see {log}"
    return f"{process.seconds:.1f} s{how}"


def _name(key: str) -> str:
    return key.partition("::")[2].replace("::", " ").replace("@", " ")


def _counts(decided: dict[str, Decided]) -> str:
    verdicts = [d.finding.verdict for d in decided.values()]
    names = ("regressed", "improved", "equivalent", "inconclusive")
    words = [f"{verdicts.count(v)} {v}" for v in names if v in verdicts]
    return ", ".join(words).replace("inconclusive", "still open")
