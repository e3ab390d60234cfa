"""`harness doctor`: preflight of this machine for a runner."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HELP = "preflight of this machine for a runner; exit 1 when something is wrong"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = (
        "Looks at this machine and says what is wrong for a runner, why it matters, and the remedy. "
        "Exit status: 0 nothing wrong; 1 something is; 3 not such a machine, or it cannot be told."
    )
    parser.add_argument(
        "--runner", metavar="NAME", help="kind of machine (default: the best one of this machine)"
    )
    parser.add_argument(
        "--target", metavar="NAME", help="code base under test (default: vitra, else reference)"
    )
    parser.add_argument("--devices", type=int, metavar="N", help="how many devices there must be")
    parser.add_argument("--format", choices=["terminal", "json"], default="terminal")
    parser.add_argument(
        "--snapshot", type=Path, metavar="FILE", help="judge a recorded machine, not this one"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="write down what was seen, without secrets")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from harness import doctor, doctor_edge, doctor_text, runners, terminal
    from harness.errors import UsageError

    if options.devices is not None and options.devices < 1:
        raise UsageError(f"--devices {options.devices}: a number of devices, 1 or more")
    if options.runner is not None:
        runners.get(options.runner)
    if options.snapshot is not None:
        seen, around, recorded = doctor_edge.read_snapshot(options.snapshot)
        machine, chosen = doctor_edge.recorded_machine(seen, options.runner or recorded)
    else:
        machine, chosen = doctor_edge.find_machine(options.runner)
        around = doctor_edge.collect_surroundings(options.target)
    if options.save is not None:
        doctor_edge.write_snapshot(options.save, machine, around)
    findings = doctor.judge_machine(machine, asked=options.devices, around=around)
    if options.format == "json":
        print(doctor_text.render_json(machine, findings, chosen))
    else:
        to_terminal = sys.stdout.isatty()
        width = min(os.get_terminal_size().columns, 110) if to_terminal else 80
        color = terminal.has_color(to_terminal, os.environ)
        print(doctor_text.render_terminal(machine, findings, chosen, width=width, color=color))
    return doctor.exit_status(findings)
