"""What the doctor says, as text for a terminal, as JSON, and as the page of its checks; pure."""

from __future__ import annotations

import dataclasses
import io
import json
import textwrap
from collections.abc import Sequence

from harness.doctor import exit_status
from harness.runners.base import Machine
from harness.runners.facts.checks_base import STATES, Check, Finding

FORMAT = 1
"""Version of the JSON form: keys are added, never removed or given another meaning."""

_STYLES = {"wrong": "bold red", "doubtful": "yellow", "unknown": "cyan", "fine": "green"}


def headline(machine: Machine, findings: Sequence[Finding]) -> str:
    """The verdict in a line."""
    name, decision = machine.runner.name, machine.decision
    status = exit_status(findings)
    count = {s: sum(f.state == s for f in findings) for s in STATES}
    if status == 1:
        text = f"WRONG: {count['wrong']} of {len(findings)} checks"
    elif status == 3:
        undecided = [f.check for f in findings if f.state == "unknown" and f.essential]
        text = f"CANNOT BE TOLD: {', '.join(undecided) or 'nothing was looked at'}"
    else:
        text = "FINE" + (f", with {count['doubtful']} doubtful" if count["doubtful"] else "")
    mark = (
        "; imitated by a stand-in" if decision.stand_in else "; emulated" if machine.runner.emulated else ""
    )
    return f"{text} - runner {name}{mark}"


def render_terminal(
    machine: Machine, findings: Sequence[Finding], chosen: str, *, width: int = 80, color: bool = False
) -> str:
    """A short table, what is wrong first; with escape codes only when `color` is set."""
    lines = [_wrap(headline(machine, findings), width)]
    if chosen:
        lines.append(_wrap(f"runner {machine.runner.name}, {chosen}", width))
    indent = max((len(f.check) for f in findings), default=0) + 12
    indent = min(indent, 32)
    for f in findings:
        head = f"{f.state:<10}{f.check} "
        text = _wrap(plain(f.seen), width, head.ljust(indent), " " * indent)
        lines.append(_colored(text, f.state) if color else text)
        if f.state != "fine":
            lines.append(_wrap(f"why: {plain(f.why)}", width, " " * 12, " " * 17))
            lines.append(_wrap(f"do:  {plain(f.remedy)}", width, " " * 12, " " * 17))
    return "\n".join(lines)


def _colored(text: str, state: str) -> str:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=io.StringIO(), width=1000, force_terminal=True, color_system="standard")
    console.print(Text(state, style=_STYLES[state]), end="")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue() + text[len(state) :]


def plain(text: str) -> str:
    """The text in one line and without control characters: what a machine says of itself is data."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _wrap(text: str, width: int, first: str = "", rest: str = "    ") -> str:
    found = textwrap.wrap(
        text, max(width, 40), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return "\n".join(found)


def render_json(machine: Machine, findings: Sequence[Finding], chosen: str) -> str:
    """One object: what was judged, the exit status, and every finding."""
    decision = machine.decision
    told = {
        "doctor": FORMAT,
        "runner": machine.runner.name,
        "chosen": chosen or None,
        "available": decision.why_not is None,
        "arch": decision.arch or None,
        "devices": len(decision.devices),
        "emulated": machine.runner.emulated,
        "stand_in": decision.stand_in,
        "exit_status": exit_status(findings),
        "headline": headline(machine, findings),
        "findings": [dataclasses.asdict(f) for f in findings],
    }
    return json.dumps(told, indent=1)


def render_page(checks: Sequence[Check]) -> str:
    """The list of checks, in Markdown."""
    lines = []
    for check in checks:
        whom = ", ".join(check.runners) or (f"all but {', '.join(check.besides)}" if check.besides else "all")
        lines += ["", f"### {check.name}", f"{check.looked_at[0].upper()}{check.looked_at[1:]}.", ""]
        lines += [f"- runners: {whom}" + ("; decides" if check.essential else "")]
        lines += [f"- why: {check.why}", f"- remedy: {check.remedy}"]
        lines += [f"- source: <{check.link}>"] if check.link else []
    return "\n".join(lines) + "\n"
