"""The first screen of a report: verdict, why, where, and what needs a person; pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from harness.merged import Column, Merged
from harness.report_parts import merged_parts, metric_parts, parts
from harness.report_parts.html_matrix import tag
from harness.report_parts.html_text import anchor, block, command, heading, linked, listed, pairs, table, text

OPEN = 3
"""So many cards of a report are open at first."""
TAIL_LINES = 40
_SHAPES = {"green": "good", "red": "bad", "no_verdict": "open"}


def render_verdict(merged: Merged) -> str:
    """The verdict in words, why, and where it holds."""
    word, _, rest = parts.plain(merged.headline).partition(": ")
    name = merged.columns[0].run.header.target
    commit = f" at {name.commit[:12]}" if name.commit else ""
    on = ", ".join(c.name for c in merged.columns)
    out = [f'<section class="verdict {_SHAPES[merged.status]}" aria-labelledby="verdict">']
    out.append(f'<h1 id="verdict"><strong>{text(word)}</strong> {text(name.name + commit)}</h1>')
    out.append(f"<p class=why>{text(rest)}</p></section>")
    if any(c.emulated for c in merged.columns):
        out.append(f"<p class=note>{_emulated(merged)}</p>")
    if merged.single:
        out.append(listed(why for why in merged.columns[0].judgement.reasons if why not in merged.headline))
        return "".join(out)
    whys = merged_parts.run_whys(merged)
    out.append(heading(2, "Where and why", "where"))
    out.append(f"<p class=sub>{text(name.name + commit)}, {len(merged.columns)} runs: {text(on)}</p>")
    out.append(table("Runs", merged_parts.RUN_COLUMNS, _runs(merged), kind="runs"))
    out.append(listed(whys))
    if agreed := merged_parts.agreements(merged):
        out.append(f"<p>{text(agreed)}</p>")
    return "".join(out)


def render_where(merged: Merged) -> str:
    """Where a report's only run was made; of several the first screen tells it."""
    return pairs(parts.where(merged.columns[0].run.header))


def _emulated(merged: Merged) -> str:
    """That emulated columns look and read so, and count for nothing that is measured."""
    stand_in = any(c.run.header.runner.stand_in for c in merged.columns)
    by = " BY A STAND-IN, which proves the harness and not a device" if stand_in else ""
    names = ", ".join(c.name for c in merged.columns if c.emulated)
    return (
        f"<b class=emu>EMULATED{by}</b>: {text(names)}. Emulated results are hatched, are compared with no "
        "measured ones, and say nothing of speed."
    )


def _runs(merged: Merged) -> list[tuple[str, ...]]:
    rows = []
    found = list(merged_parts.run_rows(merged, text))
    for n, (name, made, verdict, *numbers) in enumerate(found):
        if n >= len(merged.columns):
            rows.append((name, made, _word(verdict), *numbers, "off" if verdict == "OFF" else "absent"))
            continue
        header = merged.columns[n].run.header
        machine = header.machine
        place = f"{machine.get('host')}, {machine.get('processor')}; run {header.run_id}"
        first = f"<a href=#{anchor('r', merged.columns[n].name)}>{name}</a><small>{text(place)}</small>"
        kind = "emu" if merged.columns[n].emulated else ""
        rows.append((first, made, _word(verdict), *numbers, kind))
    return rows


def _word(verdict: str) -> str:
    shapes = {"GREEN": "good", "NO VERDICT": "open", "OFF": "idle"}
    shape = shapes.get(verdict.removeprefix("PARTIAL "), "bad")
    return f'<span class="tag {shape}">{text(verdict)}</span>'


def render_needs(merged: Merged) -> tuple[str, int, list[Mapping[str, str]]]:
    """What needs a person, worst first, run by run; how many things that are; of each run the card of each test that has
    one."""
    cards: list[Mapping[str, str]] = []
    others = _others(merged)
    sections = [f"<ul class=others>{''.join(f'<li>{line}' for line in others)}</ul>"] if others else []
    left = OPEN
    for n, column in enumerate(merged.columns):
        found = parts.troubles(column.run, column.judgement)
        place: dict[str, str] = {}
        inner = []
        for trouble in found:
            name = anchor(f"f{n}", trouble.first.test)
            place.update(dict.fromkeys(trouble.tests, name))
            inner.append(_card(column, trouble, name, 3 if merged.single else 4, opened=left > 0))
            left -= 1
        cards.append(place)
        if inner:
            count = len(column.judgement.needs_person)
            title = (
                heading(3, f"{text(column.name)} <span class=n>{count}</span>") if not merged.single else ""
            )
            sections.append(title + "".join(inner))
    count = len(others) + sum(len(c.judgement.needs_person) for c in merged.columns)
    return "".join(sections) or "<p>Nothing needs a person.</p>", count, cards


def _others(merged: Merged) -> list[str]:
    """What needs a person beside tests: runners that did not report, traces, bundles and metrics."""
    found = [
        f"{tag('absent')} {text(f'{a.runner} {a.why}')}. Remedy: read the log of its job, and on its machine run "
        f"{command(f'harness doctor --runner {shlex.quote(parts.plain(a.runner))}')}"
        for a in merged.absent
        if not a.off
    ]
    for b in merged.between:
        c = b.crossing
        if c.verdict != "agree":
            said = f"trace {c.trace} of {c.test}: {b.here} beside {c.other}: {c.reason}"
            found.append(f'{tag(c.verdict)} {text(said)} (<a href="#traces">traces</a>)')
    for column in merged.columns:
        for c in column.judgement.crossings:
            if c.verdict != "agree":
                said = f"trace {c.trace} of {c.test}: {column.name} beside {c.other}: {c.reason}"
                found.append(f'{tag(c.verdict)} {text(said)} (<a href="#across">traces</a>)')
        for bundle in column.given.bundles:
            if bundle.get("verdict") != "agree":
                said = f"a checkpoint bundle carried to {column.name}: {bundle.get('reason')}"
                found.append(
                    f'{tag(str(bundle.get("verdict")))} {text(said)} (<a href="#bundles">bundles</a>)'
                )
        bad = [m for m in metric_parts.judged(column.judgement) if m.red or m.unsettled]
        for why in metric_parts.whys(bad):
            verdict, _, rest = why.partition(": ")
            of = verdict.partition(" ")[0]
            found.append(f'{tag(of)} {text(f"{column.name}: {rest}")} (<a href="#metrics">metrics</a>)')
    return found


def _card(column: Column, trouble: parts.Trouble, name: str, level: int, *, opened: bool) -> str:
    more = f" and {len(trouble.tests) - 1} more alike" if len(trouble.tests) > 1 else ""
    first = trouble.first
    made = " <b class=emu>EMULATED</b>" if column.emulated else ""
    out = [f'<details class="card" id="{name}"{" open" if opened else ""}><summary>']
    words = f"{tag(first.verdict)}{made} <span class=test>{text(first.test)}</span>{more}"
    out.append(f"{heading(level, words)}<p>{text(first.why)}</p></summary><div class=body>")
    out.append(f"<p class=sub>{text(trouble.kind_meaning)}</p>")
    if trouble.detail:
        out.append(f"<pre>{block(trouble.detail)}</pre>")
    for cause, line, remedy in trouble.causes:
        out.append(
            f"<dl class=cause><dt>cause<dd>{text(cause)}<dt>seen<dd><code>{text(line)}</code>"
            f"<dt>remedy<dd>{linked(remedy)}</dl>"
        )
    out += _tails(column.given.tails.get(first.test, {}))
    if len(trouble.tests) > 1:
        names = "".join(f"<li><a href=#{anchor('t', t)}>{text(t)}</a>" for t in trouble.tests)
        out.append(f"<details><summary>All {len(trouble.tests)} tests</summary><ul>{names}</ul></details>")
    out.append(f"<p class=sub>Run it again:</p>{command(trouble.rerun)}")
    out.append(
        f"<p class=sub><a href=#{anchor('t', first.test)}>Its row in the matrix</a></p></div></details>"
    )
    return "".join(out)


def _tails(tails: Mapping[str, str]) -> Sequence[str]:
    out = []
    for name, tail in tails.items():
        lines = parts.plain(tail).rstrip().splitlines()
        said = f"the last {TAIL_LINES} lines" if len(lines) > TAIL_LINES else f"{len(lines)} lines"
        out.append(
            f"<details><summary>Log {text(name)}, {said}</summary>"
            f"<pre>{block(chr(10).join(lines[-TAIL_LINES:]))}</pre></details>"
        )
    return out
