"""`harness checkpoint`: packs and verifies bundles of weights, optimizer and next steps."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "carry training from one machine to another"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's actions."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    pack = actions.add_parser("pack", help="train a few steps; write them and the next ones into a bundle")
    pack.add_argument("--target", metavar="NAME", help="vitra or reference (default: vitra if there is one)")
    pack.add_argument("--steps", type=int, default=3, metavar="N", help="until the checkpoint (default: 3)")
    pack.add_argument("--next", type=int, default=3, metavar="N", help="told after it (default: 3)")
    pack.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    verify = actions.add_parser(
        "verify", help="load a bundle, train on, compare: agree, differ, or why neither"
    )
    verify.add_argument("--format", choices=["terminal", "json"], default="terminal")
    verify.add_argument(
        "--into", type=Path, metavar="RUN", help="keep what was told in this run, for its report"
    )
    for action, run in ((pack, _pack), (verify, _verify)):
        action.add_argument("bundle", metavar="BUNDLE", type=Path, help="a folder, or a file NAME.tar")
        action.add_argument("--runner", default="cpu", metavar="NAME", help="kind of machine (default: cpu)")
        action.add_argument("--target-path", metavar="DIR", help="a checkout of the target")
        action.add_argument("--ranks", type=int, metavar="N", help="default: 2, or as packed")
        action.add_argument("--api", choices=["fsdp1", "fsdp2"], help="default: fsdp1, or as packed")
        action.set_defaults(run=run)


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
    if options.into is not None:
        from harness import rundir

        rundir.write_bundle(options.into, options.bundle.name, told)
    render = bundle_judge.render_json if options.format == "json" else bundle_judge.render_terminal
    print(render(told))
    return int(told["exit_status"])


def _progress(text: str) -> None:
    print(f"harness: {text}", file=sys.stderr, flush=True)
