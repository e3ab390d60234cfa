"""`harness runners`: the kinds of machine, whether this is one, and what it can do."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness import ROOT

if TYPE_CHECKING:
    from harness.matrix import Kind

Json = TypeVar("Json", "dict[str, object]", "list[object]")
HELP = "kinds of machine, whether this is one, and what it can do"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--format", choices=["terminal", "json"], default="terminal")
    parser.add_argument(
        "--container", metavar="NAME", help="print the command that starts the container of this runner"
    )
    parser.add_argument(
        "--matrix",
        action="store_true",
        help="print what a workflow starts, as outputs of a step (json: with notes); variables: HARNESS_MATRIX_VARS",
    )
    parser.add_argument(
        "--off",
        type=Path,
        default=ROOT / "runners_off.toml",
        metavar="FILE",
        help="for --matrix: runners that are switched off",
    )
    parser.add_argument(
        "--plan",
        type=Path,
        metavar="DIR",
        help="for --matrix: also write there what the merging job needs",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    import dataclasses

    from harness import runners

    if options.container is not None:
        return _container(options.container)
    if options.matrix:
        return _matrix(options)
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


def _matrix(options: argparse.Namespace) -> int:
    """Standard library only: the job that prepares a workflow installs nothing.

    HARNESS_MATRIX_VARS: the repository's variables, a JSON object; HARNESS_MATRIX_ONLY: a JSON list of runners, all
    when empty; HARNESS_MATRIX_UNTRUSTED=true: the code comes from a fork.
    """
    import os
    import sys
    from datetime import datetime, timezone

    from harness import matrix, runners, switched_off

    made = matrix.plan(
        [_kind(name) for name in runners.names()],
        {k: str(v) for k, v in _from_json("HARNESS_MATRIX_VARS", dict).items()},
        switched_off.load(options.off),
        today=datetime.now(timezone.utc).date(),
        untrusted=os.environ.get("HARNESS_MATRIX_UNTRUSTED", "") not in ("", "false"),
        only=[str(n) for n in _from_json("HARNESS_MATRIX_ONLY", list)],
    )
    render = matrix.render_json if options.format == "json" else matrix.render_outputs
    print(render(made), end="")
    if options.plan is not None:
        _write_plan(options.plan, matrix.render_json(made), options.off)
    for note in made.notes:
        # A line of this form becomes an annotation of the workflow's run.
        mark = "::warning title=runners::" if os.environ.get("GITHUB_ACTIONS") == "true" else "harness: "
        print(mark + note.replace("%", "%25").replace("\r", " ").replace("\n", " "), file=sys.stderr)
    return 0


def _write_plan(folder: Path, text: str, off: Path) -> None:
    """The plan with what runs of this commit are judged by, for a job that may have another commit checked out."""
    import shutil

    from harness import switched_off
    from harness.errors import UsageError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plan.json").write_text(text, encoding="utf-8")
        shutil.copytree(ROOT / "baselines", folder / "baselines", dirs_exist_ok=True)
        if off.exists():
            shutil.copyfile(off, folder / switched_off.NAME)
    except OSError as error:
        raise UsageError(f"--plan {folder}: {error.strerror}; name a folder you can write to") from None


def _kind(name: str) -> Kind:
    from harness import runners
    from harness.matrix import Kind

    runner = runners.get(name)
    there = runner.container
    return Kind(
        runner.name,
        runner.torch_build == "cpu",
        runner.emulated,
        None if there is None else there.image,
        () if there is None else there.options,
        runner.time_factor,
    )


def _from_json(name: str, kind: type[Json]) -> Json:
    """The value of an environment variable that holds JSON; the empty one when it is unset or empty."""
    import os

    from harness.errors import UsageError

    text = os.environ.get(name, "").strip()
    if not text:
        return kind()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, kind):
        raise UsageError(f"{name}={text[:60]}: must hold a JSON {'object' if kind is dict else 'list'}")
    return found


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
