"""What is known of a session as lines: those at the foot of a terminal, and the one for a log; pure."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.progress import Ranks, Seen, Suite

if TYPE_CHECKING:
    from rich.text import Text

BAR = 20


def render_time(seconds: float) -> str:
    """A duration in words, rounded down: `42 s`, `3 min 05 s`, `1 h 02 min`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min {whole % 60:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _round(seconds: float) -> str:
    return render_time(seconds).removesuffix(" 00 s")


def render_left(left_s: float | None) -> str:
    """The time left in words, as coarse as it is sure: rounded up to 5 seconds, from two minutes on to minutes."""
    if left_s is None:
        return "time left unknown"
    if left_s <= 120:
        return f"about {_round(max(5, math.ceil(left_s / 5) * 5))} left"
    return f"about {_round(math.ceil(left_s / 60) * 60)} left"


def render_ranks(ranks: Ranks) -> str:
    """A launch in words: how many ranks, how far, since when and how long it may take."""
    many = f"{ranks.count} rank{'s' if ranks.count > 1 else ''}"
    if ranks.left:
        how = f"{ranks.left} of {many} ended"
    elif ranks.started < ranks.count:
        how = f"{many}, {ranks.started} started" if ranks.started else f"{many}, starting"
    else:
        how = many
    step = "" if ranks.step is None else f", step {ranks.step}"
    return f"{how}{step}, {render_time(ranks.age_s)} of at most {_round(ranks.limit_s)}"


def render_counts(seen: Seen) -> str:
    """How many tests are done, and how many of them failed."""
    of = "" if seen.planned is None else f" of {seen.planned}"
    failed = f", {seen.failed} failed" if seen.failed else ""
    return f"{seen.done}{of} tests done{failed}"


def render_heartbeat(seen: Seen) -> str:
    """One line for a log: what has been running for the longest, and how far the session is."""
    phase = "" if seen.phase is None else f"{seen.phase}: "
    if seen.running:
        oldest, more = seen.running[0], len(seen.running) - 1
        what = f"{phase}{oldest.test} since {render_time(oldest.age_s)}"
        what += f" ({render_ranks(oldest.ranks)})" if oldest.ranks else ""
        what += f" and {more} more" if more else ""
    else:
        what = phase.removesuffix(": ") or "no test at the moment"
    left = "" if seen.left_s is None else f", {render_left(seen.left_s)}"
    return f"still running: {what} ({render_counts(seen)}{left})"


def render_region(seen: Seen, *, width: int, height: int, color: bool, ascii_only: bool = False) -> list[str]:
    """At most `height` lines of at most `width` columns, with escape codes only when `color` is set.

    The last line is the sum. Where room is short it stays, then what runs now, then the suites that are on their way.
    """
    from rich.text import Text

    running = _running(seen, width)[: max(0, height - 1)]
    suites = _chosen(seen, height - 1 - len(running))
    parts = [_suite(s, seen.suites, width, ascii_only) for s in suites] + running
    if seen.suites:
        total = f"{render_counts(seen)}, {render_time(seen.elapsed_s)} so far, {render_left(seen.left_s)}"
    else:
        total = f"{seen.phase or 'collecting tests'}, {render_time(seen.elapsed_s)} so far"
    return _printed([*parts, Text(total, "bold")], width, color)


def _printed(lines: Sequence[Text], width: int, color: bool) -> list[str]:
    from rich.console import Console

    system: Any = "standard" if color else None
    console = Console(file=io.StringIO(), width=width, color_system=system, force_terminal=color)
    for line in lines:
        line.truncate(width, overflow="ellipsis" if color else "crop")
        console.print(line, no_wrap=True, overflow="ignore", crop=False, highlight=False)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def _running(seen: Seen, width: int) -> list[Text]:
    """The phase, and a line for each test that runs now."""
    from rich.text import Text

    found = [Text(seen.phase, "cyan")] if seen.phase and seen.suites else []
    label = "now:"
    for at, running in enumerate(seen.running):
        age = f"{render_time(running.age_s):>11}  "
        name = "".join(c if c.isprintable() else "?" for c in running.test.removeprefix("suites/"))
        test = fit(name, width - len(label) - len(age))
        found.append(Text.assemble((label if not at else " " * len(label), "cyan"), (age, "dim"), test))
        if running.ranks:
            room = " " * (len(label) + len(age))
            found.append(Text.assemble(room, (render_ranks(running.ranks), "dim")))
    return found


def fit(text: str, room: int) -> str:
    """The text within `room` characters: what is left out is in its middle, since a test differs at both ends."""
    if len(text) <= room:
        return text
    if room < 8:
        return text[: max(0, room)]
    tail = (room - 3) * 2 // 3
    return f"{text[: room - 3 - tail]}...{text[len(text) - tail :]}"


def _suite(suite: Suite, of: Sequence[Suite], width: int, ascii_only: bool) -> Text:
    from rich.text import Text

    names = max(len(s.name) for s in of)
    full, empty = "#-" if ascii_only else "\u2501\u2500"
    share = min(1.0, suite.done / suite.planned) if suite.planned else 0.0
    length = int(share * BAR) if width >= 60 else 0
    rest = BAR - length if width >= 60 else 0
    over = suite.done == suite.planned
    counts = f"{suite.done} of {suite.planned}" if suite.planned is not None else f"{suite.done} done"
    return Text.assemble(
        f"{suite.name:{names}} ",
        (full * length, "red" if suite.failed else "green" if over else "cyan"),
        (empty * rest, "dim"),
        f" {counts}",
        (f"  {suite.failed} failed" if suite.failed else "", "red"),
    )


def _chosen(seen: Seen, room: int) -> list[Suite]:
    """The suites to show: all, or where there is no room those on their way, then the failed ones, then those to come."""

    def rank(suite: Suite) -> tuple[bool, bool, bool]:
        over = suite.done == suite.planned
        return not suite.done or over, not suite.failed, over

    kept = sorted(seen.suites, key=rank)[: max(0, room)]
    return [s for s in seen.suites if s in kept]
