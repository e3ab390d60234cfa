"""The `harness` command: each subcommand's steps in order. Exit status: 0 green, 1 red, 2 the user's mistake, 3 no verdict."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness import ROOT, __version__
from harness.errors import HarnessError, UsageError

if TYPE_CHECKING:
    from harness.records import Run
    from harness.verdicts import Judgement

# Imports stand inside the subcommands: `harness --help` must not wait for what it does not use.


def main(words: Sequence[str] | None = None) -> int:
    """Runs one subcommand; a user's mistake is one line on stderr and exit status 2."""
    options = _parser().parse_args(words)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        return int(getattr(error, "exit_status", 2))
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("harness: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="harness",
        description="Judges runs of the suites and reports.",
        epilog="Exit status: 0 green; 1 red; 2 a mistake in the call; 3 no verdict. Runs are made by `nox -s cpu`.",
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    report = commands.add_parser(
        "report", help="judge a run and report", description="Judges a run and reports."
    )
    report.add_argument("folder", metavar="RUN", type=Path, help="folder of the run")
    report.add_argument("--format", default="terminal", metavar="FORMAT", help="terminal, markdown or json")
    report.add_argument("--output", type=Path, metavar="FILE", help="write the report there, not to stdout")
    report.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    report.set_defaults(run=_report)

    baseline = commands.add_parser("baseline", help="accept a run as baseline; list baselines")
    actions = baseline.add_subparsers(required=True, metavar="ACTION")
    accept = actions.add_parser("accept", help="make runs the baseline that later runs are judged against")
    accept.add_argument("folders", metavar="RUN", type=Path, nargs="+")
    accept.add_argument("--reason", required=True, metavar="TEXT", help="why; it is written into the files")
    accept.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    accept.set_defaults(run=_accept)
    listing = actions.add_parser("list", help="what is accepted, when and why")
    listing.add_argument("--baselines", type=Path, default=ROOT / "baselines", metavar="DIR")
    listing.set_defaults(run=_list)

    parity = commands.add_parser(
        "parity",
        help="two loss traces: agree, differ or inconclusive, and from which step",
        description="Compares two loss traces of the same training.",
    )
    parity.add_argument("a", metavar="A", help="a JSON file, or RUN:TEST:TRACE for a trace of a run")
    parity.add_argument("b", metavar="B", help="the other one")
    parity.add_argument("--format", choices=["terminal", "json"], default="terminal")
    parity.add_argument(
        "--noise", metavar="FAMILY", help="whose noise holds: dense or moe (default: by the model)"
    )
    parity.set_defaults(run=_parity)

    _add_checkpoint(commands.add_parser("checkpoint", help="carry training from one machine to another"))

    defects = commands.add_parser("defects", help="plant each defect; exit 0 only if all are caught")
    defects.add_argument("--suite", metavar="NAME", help="only the defects of this suite")
    defects.add_argument("--format", choices=["terminal", "json"], default="terminal")
    defects.add_argument("--jobs", type=int, default=2, metavar="N", help="how many at once (default: 2)")
    defects.set_defaults(run=_defects)

    targets = commands.add_parser("targets", help="what can be tested here, from where, and if not, why")
    targets.add_argument("--fetch", metavar="NAME", help="clone this target into the cache first")
    targets.set_defaults(run=_targets)
    commands.add_parser("runners", help="kinds of machine, and whether this is one").set_defaults(
        run=_runners
    )
    return parser


def _add_checkpoint(checkpoint: argparse.ArgumentParser) -> None:
    actions = checkpoint.add_subparsers(required=True, metavar="ACTION")
    pack = actions.add_parser("pack", help="train a few steps; write them and the next ones into a bundle")
    pack.add_argument("--target", metavar="NAME", help="vitra or reference (default: vitra if there is one)")
    pack.add_argument("--steps", type=int, default=3, metavar="N", help="until the checkpoint (default: 3)")
    pack.add_argument("--next", type=int, default=3, metavar="N", help="told after it (default: 3)")
    pack.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    verify = actions.add_parser(
        "verify", help="load a bundle, train on, compare: agree, differ, or why neither"
    )
    verify.add_argument("--format", choices=["terminal", "json"], default="terminal")
    for action, run in ((pack, _pack), (verify, _verify)):
        action.add_argument("bundle", metavar="BUNDLE", type=Path, help="a folder, or a file NAME.tar")
        action.add_argument("--runner", default="cpu", metavar="NAME", help="kind of machine (default: cpu)")
        action.add_argument("--target-path", metavar="DIR", help="a checkout of the target")
        action.add_argument("--ranks", type=int, metavar="N", help="default: 2, or as packed")
        action.add_argument("--api", choices=["fsdp1", "fsdp2"], help="default: fsdp1, or as packed")
        action.set_defaults(run=run)


def _judged(folder: Path, baselines_folder: Path) -> tuple[Run, Judgement]:
    from datetime import datetime

    from harness import baselines, rundir
    from harness.judge import judge

    run = rundir.load(folder)
    baseline, incomparable = baselines.find(baselines_folder, run.header)
    # The day of the run, not of the report: a report made again later says the same.
    today = datetime.fromisoformat(run.header.started).date()
    others = baselines.find_others(baselines_folder, run.header)
    return run, judge(run, baseline, today=today, incomparable=incomparable, others=others)


def _report(options: argparse.Namespace) -> int:
    from harness import reports

    formats = reports.formats()
    if options.format not in formats:
        raise UsageError(
            f"--format {options.format}: no such format; there are: {', '.join(sorted(formats))}"
        )
    run, judgement = _judged(options.folder, options.baselines)
    to_terminal = options.output is None and sys.stdout.isatty()
    width = os.get_terminal_size().columns if to_terminal else 110
    color = to_terminal and "NO_COLOR" not in os.environ
    text = formats[options.format].render(run, judgement, width=width, color=color).rstrip("\n") + "\n"
    if options.output is None:
        sys.stdout.write(text)
    else:
        try:
            options.output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"--output {options.output}: {error.strerror}; name a file you can write"
            ) from None
    return judgement.exit_status


def _accept(options: argparse.Namespace) -> int:
    from harness import baselines

    judged = [_judged(folder, options.baselines) for folder in options.folders]
    for path in baselines.accept(options.baselines, judged, options.reason):
        print(path)
    return 0


def _list(options: argparse.Namespace) -> int:
    from harness import baselines

    for line in baselines.listing(options.baselines):
        print(line)
    return 0


def _parity(options: argparse.Namespace) -> int:
    from harness import crossing, parity, traces

    a, b = traces.read_pair(options.a, options.b, options.noise)
    noise = None if options.noise else crossing.shared_envelopes(a, b)
    judged = parity.judge_parity(a, b, envelopes=noise)
    print(parity.render_json(a, b, judged) if options.format == "json" else parity.render_terminal(judged))
    return parity.EXIT_STATUS[judged.verdict]


def _pack(options: argparse.Namespace) -> int:
    from harness import bundle

    told = bundle.pack(
        options.bundle,
        runner=options.runner,
        target=options.target,
        target_path=options.target_path,
        world=options.ranks,
        steps=options.steps,
        following=options.next,
        precision=options.precision,
        api=options.api or "fsdp1",
        say=_progress,
    )
    if told["verdict"] != "agree":
        print(f"harness: not packed, does not resume here: {told['reason']}", file=sys.stderr)
    else:
        how = "bit for bit" if told["exact"] else "within the envelopes"
        print(f"{options.bundle}: {told['target']} on ranks: {told['world']}; resumes here {how}")
    return int(told["exit_status"])


def _verify(options: argparse.Namespace) -> int:
    from harness import bundle, bundle_judge

    told = bundle.verify(
        options.bundle,
        runner=options.runner,
        target_path=options.target_path,
        world=options.ranks,
        api=options.api,
        say=_progress,
    )
    render = bundle_judge.render_json if options.format == "json" else bundle_judge.render_terminal
    print(render(told))
    return int(told["exit_status"])


def _progress(text: str) -> None:
    print(f"harness: {text}", file=sys.stderr, flush=True)


def _defects(options: argparse.Namespace) -> int:
    sys.path.insert(0, str(ROOT))
    from fixtures import defects
    from harness import planting

    every = [defects.get(n) for n in defects.names()]
    chosen = [d for d in every if options.suite in (None, d.suite)]
    if not chosen:
        there = ", ".join(sorted({d.suite for d in every}))
        raise UsageError(f"--suite {options.suite}: no defects for it; there are defects for: {there}")
    clean, planted = planting.plant_all(
        chosen, lambda line: print(line, file=sys.stderr, flush=True), max(1, options.jobs)
    )
    if options.format == "json":
        print(json.dumps([vars(p) for p in planted], indent=1))
    else:
        for p in planted:
            print(f"{p.result:7} {p.suite:10} {p.defect:26} {p.why}")
        caught = sum(p.result == "caught" for p in planted)
        print(
            f"{caught} of {len(planted)} caught; clean target: {'clean' if all(c.ok for c in clean) else 'NOT CLEAN'}"
        )
    if not all(c.ok for c in clean):
        print(
            "harness: the clean target did not pass the same tests, so 'caught' means nothing",
            file=sys.stderr,
        )
        return 3
    return 0 if all(p.result == "caught" for p in planted) else 1


def _targets(options: argparse.Namespace) -> int:
    from harness import targets
    from harness.errors import TargetUnavailable

    if options.fetch is not None:
        targets.module(options.fetch).locate(
            None, clone=True, say=lambda t: print(t, file=sys.stderr, flush=True)
        )
    for name in targets.names():
        try:
            spec = targets.module(name).locate(None, clone=False, say=lambda _: None)
        except TargetUnavailable as error:
            print(f"{name}: not available: {error}")
            continue
        where = (
            f"{spec.path} at {spec.commit}{' (dirty)' if spec.dirty else ''}"
            if spec.path
            else "part of the harness"
        )
        print(f"{name}: available: {where}{f'; {spec.note}' if spec.note else ''}")
        for patch, what in targets.module(name).PATCHES.items():
            print(f"  --patch {patch}: {what}")
    return 0


def _runners(options: argparse.Namespace) -> int:
    del options
    from harness import runners

    for name in runners.names():
        runner = runners.get(name)
        why = runner.unavailable()
        arch = f"{runner.device_count()} x {runner.device_arch()}"
        print(f"{name}: {f'not available: {why}' if why else f'available: {arch}'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
