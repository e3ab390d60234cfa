"""`harness parity`: compares two loss traces."""

from __future__ import annotations

import argparse

HELP = "two loss traces: agree, differ or inconclusive, and from which step"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = "Compares two loss traces of the same training."
    parser.add_argument("a", metavar="A", help="a JSON file, or RUN:TEST:TRACE for a trace of a run")
    parser.add_argument("b", metavar="B", help="the other one")
    parser.add_argument("--format", choices=["terminal", "json"], default="terminal")
    parser.add_argument(
        "--noise", metavar="FAMILY", help="whose noise holds: dense or moe (default: by the model)"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from harness import crossing, parity, traces

    a, b = traces.read_pair(options.a, options.b, options.noise)
    noise = None if options.noise else crossing.shared_envelopes(a, b)
    judged = parity.judge_parity(a, b, envelopes=noise)
    print(parity.render_json(a, b, judged) if options.format == "json" else parity.render_terminal(judged))
    return parity.EXIT_STATUS[judged.verdict]
