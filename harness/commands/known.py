"""`harness known`: known issues, and what is due."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness import ROOT

if TYPE_CHECKING:
    from harness.records import KnownIssue

HELP = "known issues that end soon or have ended; exit 1 when one has"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--within", type=int, default=30, metavar="DAYS", help="default: 30")
    parser.add_argument("--all", action="store_true", help="every entry, whenever it ends")
    parser.add_argument("--format", choices=["terminal", "json"], default="terminal")
    parser.add_argument(
        "--file",
        type=Path,
        default=ROOT / "suites" / "known_issues.toml",
        help="another list",
        metavar="TOML",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    import json
    from datetime import date, datetime, timezone

    from harness import known_issues, records
    from harness.errors import UsageError
    from harness.matching import expired

    if options.within < 0:
        raise UsageError(f"--within {options.within}: a number of days, 0 or more")
    today = datetime.now(timezone.utc).date()
    every = sorted(known_issues.load(options.file), key=lambda i: (i.last_day, i.id))
    days = {i.id: (date.fromisoformat(i.last_day) - today).days for i in every}
    due = [i for i in every if options.all or days[i.id] <= options.within]
    if options.format == "json":
        told = [{**records.to_json(i), "days_left": days[i.id]} for i in due]
        print(json.dumps(told, indent=1))
    else:
        for issue in due:
            left = days[issue.id]
            when = (
                f"ended {-left} days ago" if left < 0 else "ends today" if left == 0 else f"{left} days left"
            )
            print(f"{issue.last_day}  {when:18} {issue.id}: {_where(issue)}: {issue.reason}")
            print(f"{'':12}{issue.link}")
        print(
            f"{len(due)} of {len(every)} known issues"
            + ("" if options.all else f" end within {options.within} days")
        )
    return int(any(expired(i, today) for i in every))


def _where(issue: KnownIssue) -> str:
    lists = ((n, getattr(issue, n)) for n in ("targets", "runners", "archs", "versions"))
    found = [f"{name} {', '.join(values)}" for name, values in lists if values]
    return "; ".join(found) or "everywhere"
