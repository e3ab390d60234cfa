"""The comparison with a base: a screen by a few fresh processes of either side, then pairs for what it flagged.

All runs on one machine, one process after the other. What ran stands in `pairs.json`, written after each process, so
that an interrupted comparison goes on from there.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import random
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock, Timeout

from harness import ROOT, fingerprint, redaction, revisions, rundir, targets
from harness.comparison import Comparison, finish
from harness.errors import RunFolderError, UsageError
from harness.outcomes import is_control
from harness.pairs import Pairs
from harness.records import Header, Selection, TargetInfo, suite_of
from harness.targets import base as finding
from harness.targets.base import TargetSpec

if TYPE_CHECKING:
    from harness.session import State

BASE = pytest.StashKey[TargetSpec]()
"""Of a session's config: the target to compare with, where one was named."""
SCREEN_BASE = 4
SCREEN_HEAD = 2
"""Processes of either side in the screen; those of the head unless --repeat says another number."""
SCREEN_LEVEL = 0.10
OPTIONS = ("runner", "time_limit", "require", "full", "without_controls")
"""What the processes need of the session's options."""


def prepare(config: pytest.Config) -> None:
    """Finds the base before anything runs, and settles how often repeated tests run; UsageError for a bad base."""
    option = config.option
    if option.repeat is None:
        option.repeat = 1 if option.base is None else SCREEN_HEAD
    if option.base is not None:
        head = finding.locate(option.target, option.target_path, option.patch, clone=True, say=_say)
        config.stash[BASE] = revisions.locate_base(option.base, head, _say)


def _say(text: str) -> None:
    # pytest captures nothing while it configures: what is said here is seen.
    print(f"harness: {text}", file=sys.__stderr__, flush=True)


def run(state: State, base: TargetSpec, option: argparse.Namespace, say: Callable[[str], None]) -> list[int]:
    """Compares the session's repeated tests with the base; exit statuses of the head's processes."""
    from harness.looks import LOOKS, SIDES, order

    seed = secrets.randbits(32)
    rng = random.Random(seed)
    screen = [SIDES[0]] * SCREEN_BASE + [SIDES[1]] * option.repeat
    rng.shuffle(screen)
    pairs = Pairs(
        asked=option.base,
        seed=seed,
        level=SCREEN_LEVEL,
        screen=tuple(screen),
        order=tuple(order(rng, LOOKS[-1])),
        looks=LOOKS,
        tests=state.repeated,
        head_spec=state.spec.to_text(),
        base_spec=base.to_text(),
        options={name: getattr(option, name) for name in OPTIONS},
        ended=not state.repeated,
    )
    if not state.repeated:
        rundir.write_pairs(state.folder, pairs)
        say("--base: no repeated test was selected: there is nothing to compare")
        return []
    rundir.claim(state.folder / rundir.BASE)
    header = rundir.read_header(state.folder)
    rundir.write_header(state.folder / rundir.BASE, _base_header(header, base, state.repeated))
    rundir.write_pairs(state.folder, pairs)
    with _alone(state.folder):
        return Comparison(state, pairs, say).go()


def resume(folder: Path, say: Callable[[str], None]) -> list[int]:
    """Goes on with an interrupted comparison, from the processes that had ended; exit statuses of the head's processes.

    UsageError when there is none to go on with, or when machine, target or harness are not those that it began with.
    """
    from harness.session import State

    header = rundir.read_header(folder)
    with _alone(folder):
        pairs = rundir.read_pairs(folder)
        if pairs is None:
            raise UsageError(f"{folder}: no comparison with a base began there; run again with --base REF")
        if pairs.ended:
            raise UsageError(f"{folder}: the comparison has ended; see it with: harness report {folder}")
        specs = [TargetSpec.from_text(text) for text in (pairs.head_spec, pairs.base_spec)]
        _refuse_changed(folder, header, specs)
        state = State(folder.resolve(), specs[0], header, "main", pairs.options.get("require") or ())
        pairs = _without_halves(folder, pairs)
        rundir.write_pairs(folder, pairs)
        say(f"going on after {len(pairs.processes)} processes, {pairs.seconds():.0f} machine seconds")
        found = Comparison(state, pairs, say).go()
        redaction.redact_files((folder / "logs").rglob("*"), state.secrets)
        finish(folder, found)
        return found


def _refuse_changed(folder: Path, header: Header, specs: Sequence[TargetSpec]) -> None:
    """Processes of another machine or of other code must not join those that are there."""
    here = fingerprint.collect_machine()
    now = [(name, header.machine.get(name), here[name]) for name in ("host", "processor", "cpu_usable")]
    commit, dirty = fingerprint.collect_git(ROOT)
    now += [("harness commit", header.harness_commit, commit), ("harness dirty", header.harness_dirty, dirty)]
    for spec in specs:
        if spec.path is not None:
            found = fingerprint.collect_git(Path(spec.path))
            now.append((f"{spec.name} in {spec.path}", (spec.commit, spec.dirty), found))
    for name, then, value in now:
        if then != value:
            raise UsageError(
                f"{folder}: {name} was {then}, it is {value}: the comparison cannot go on; run it again from the start"
            )


def _without_halves(folder: Path, pairs: Pairs) -> Pairs:
    """The plan without what the interruption left half done: a process without an end, a pair with one side."""
    ran = {p.pair for p in pairs.counted if p.pair is not None}
    half = {n for n in ran if len([p for p in pairs.counted if p.pair == n]) < 2}
    processes = tuple(dataclasses.replace(p, dropped=p.dropped or p.pair in half) for p in pairs.processes)
    pairs = dataclasses.replace(pairs, processes=processes)
    for side, place in (("head", folder), ("base", folder / rundir.BASE)):
        counted = set(pairs.numbers(side))
        for path in place.glob("records-repeat-*.jsonl"):
            number = path.stem.removeprefix("records-repeat-")
            if number.isdigit() and int(number) not in counted:
                rundir.set_aside(place, int(number))
    return pairs


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time runs a comparison; the lock goes with its process, however that ends."""
    if not folder.is_dir():
        raise RunFolderError(f"{folder}: no {rundir.HEADER} there; name the folder of a run")
    try:
        with FileLock(folder / "pairs.lock", timeout=0):
            yield
    except Timeout:
        raise UsageError(
            f"{folder}: its comparison is being run by another process; wait for its end"
        ) from None


def _base_header(header: Header, base: TargetSpec, tests: Sequence[str]) -> Header:
    """The header of the base's run: that of the head with another target, and with the repeated tests alone."""
    supplies: tuple[str, ...] = targets.module(base.name).supplies()
    chosen = header.selection
    return dataclasses.replace(
        header,
        run_id=f"{header.run_id}-base",
        target=TargetInfo(base.name, base.commit, base.dirty, supplies, base.patches, base.note),
        selection=Selection(
            tuple(sorted({suite_of(t) for t in tests})), chosen.keyword, chosen.markers, chosen.arguments
        ),
        planned=tuple(sorted(tests)),
        controls=tuple(t for t in sorted(tests) if is_control(t)),
        defect=base.defect,
        repeats=SCREEN_BASE,
    )
