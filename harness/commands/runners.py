"""`harness runners`: the kinds of machine, whether this is one, and what it can do."""

from __future__ import annotations

import argparse
import json

HELP = "kinds of machine, whether this is one, and what it can do"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--format", choices=["terminal", "json"], default="terminal")
    parser.add_argument(
        "--container", metavar="NAME", help="print the command that starts the container of this runner"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    import dataclasses

    from harness import runners

    if options.container is not None:
        return _container(options.container)
    found = {name: runners.machine(name) for name in runners.names()}
    if options.format == "json":
        told = {
            name: {
                **dataclasses.asdict(m.decision),
                "available": m.decision.why_not is None,
                "emulated": m.runner.emulated,
                "arch": m.decision.arch,
            }
            for name, m in found.items()
        }
        print(json.dumps(told, indent=1))
        return 0
    for name, m in found.items():
        decision = m.decision
        if decision.why_not is not None:
            print(f"{name}: not available: {decision.why_not}")
            continue
        mark = ", EMULATED BY A STAND-IN" if decision.stand_in else ", EMULATED" if m.runner.emulated else ""
        print(f"{name}: available: {len(decision.devices)} x {decision.arch}{mark}")
        for label, version in decision.software.items():
            if version is not None:
                print(f"  {label}: {version}")
        for label, capability in decision.capabilities.items():
            form = f" ({capability.form})" if capability.form else ""
            print(f"  {label}: {'yes' if capability.there else 'no'}{form}: {capability.reason}")
        for note in decision.notes:
            print(f"  note: {note}")
    return 0


def _container(name: str) -> int:
    import shlex
    import sys
    from pathlib import Path

    from harness import runners
    from harness.errors import UsageError
    from harness.runners.facts import container

    machine = runners.machine(name)
    if machine.runner.container is None:
        raise UsageError(f"--container {name}: this runner has no container; run it as it is: nox -s {name}")
    print(shlex.join(container.container_command(machine.runner, machine.seen, Path.cwd())))
    print(
        "start it in the folder of the harness; inside: python -m pip install nox && python -m nox -s "
        + name,
        file=sys.stderr,
    )
    return 0
