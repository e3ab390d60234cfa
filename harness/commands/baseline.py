"""`harness baseline`: accepts runs as baseline, lists what is accepted, and tells how old it is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness import ROOT
from harness.commands.report import judged

if TYPE_CHECKING:
    from harness.baseline_age import Environment
    from harness.records import Header
    from harness.verdicts import Baseline

HELP = "accept a run as baseline; list baselines; tell their age"

LOOK_AT = 100
"""So many of the newest runs are looked at for one of a baseline's kind."""


def add(parser: argparse.ArgumentParser) -> None:
    """The command's actions."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    accept = actions.add_parser("accept", help="make runs the baseline that later runs are judged against")
    accept.add_argument("folders", metavar="RUN", type=Path, nargs="+")
    accept.add_argument("--reason", required=True, metavar="TEXT", help="why; it is written into the files")
    accept.add_argument("--dry-run", action="store_true", help="print what would change; write nothing")
    accept.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    accept.set_defaults(run=_accept)
    listing = actions.add_parser("list", help="what is accepted, when and why")
    listing.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    listing.set_defaults(run=_list)
    age = actions.add_parser("age", help="which baselines are older than their environment")
    age.add_argument(
        "--run",
        type=Path,
        metavar="RUN",
        dest="run_folder",
        help="run to hold them against (default: the newest of their kind in runs/, else this machine)",
    )
    age.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    age.add_argument("--format", choices=["terminal", "json"], default="terminal")
    age.set_defaults(run=_age)


def _accept(options: argparse.Namespace) -> int:
    from harness import baselines, policy
    from harness.baseline_diff import render_diff

    rules = policy.load()
    runs = [judged(folder, options.baselines) for folder in options.folders]
    changes = baselines.plan(options.baselines, runs, options.reason, rules)
    for change in changes:
        print(f"{change.path}:{' new file' if change.old is None else ''}")
        for line in render_diff(change.old, change.new, rules):
            print(f"  {line}")
    if options.dry_run:
        print("dry run: nothing is written")
    else:
        baselines.write(changes)
        for change in changes:
            print(f"written, commit it: {change.path}")
    return 0


def _list(options: argparse.Namespace) -> int:
    from harness import baselines

    for line in baselines.listing(options.baselines):
        print(line)
    return 0


def _age(options: argparse.Namespace) -> int:
    import json
    from datetime import datetime, timezone

    from harness import baseline_age, baseline_files, rundir
    from harness.records import to_json

    given = None
    if options.run_folder is not None:
        given = baseline_age.environment_of(rundir.read_header(options.run_folder))
    headers = list(_newest(Path("runs"))) if given is None else []
    now = datetime.now(timezone.utc)
    ages = []
    for path in baseline_files.paths(options.baselines):
        baseline = baseline_files.read(path)
        if given is None:
            environment = _environment(baseline, headers)
        else:
            same = all(baseline.key.get(n) == given.key[n] for n in KIND)
            environment = given if same else None
        name = f"{path.parent.name}/{path.stem}"
        ages.append(baseline_age.judge_age(name, baseline, environment, now))
    if options.format == "json":
        print(json.dumps([to_json(a) for a in ages], indent=1))
    elif not ages:
        print(f"no baselines in {options.baselines}")
    for line in baseline_age.render_ages(ages) if options.format == "terminal" else ():
        print(line)
    return 0


KIND = ("runner", "emulated", "device architecture", "target")
"""What a run must share with a baseline to say anything of its age."""


def _environment(baseline: Baseline, headers: list[Header]) -> Environment | None:
    """The newest run of the baseline's kind; else this machine, where its processors are the baseline's devices."""
    import platform

    from harness import baseline_age, baseline_diff, fingerprint

    for header in headers:
        if all(header.comparability[n] == baseline.key.get(n) for n in KIND):
            return baseline_age.environment_of(header)
    if baseline.key.get("device architecture") != platform.machine():
        return None
    machine = fingerprint.collect_machine()
    source = {
        **{n: machine[n] for n in ("processor", "cpu_usable")},
        "software": fingerprint.collect_software(),
    }
    return baseline_age.Environment("this machine", baseline_diff.facts(source))


def _newest(folder: Path) -> Iterator[Header]:
    """The headers of the newest runs below a folder, newest first; a folder that is none is passed over."""
    from harness import rundir
    from harness.errors import RunFolderError

    found = sorted(folder.glob("*/run.json"), key=lambda p: p.stat().st_mtime, reverse=True)
    for path in found[:LOOK_AT]:
        try:
            yield rundir.read_header(path.parent)
        except RunFolderError:
            continue
