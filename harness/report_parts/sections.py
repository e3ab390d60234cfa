"""The report as sections that can be cut to size, for the forms that GitHub shows; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from harness.merged import Column, Merged
from harness.report_parts import merged_parts, metric_parts, parts
from harness.report_parts.fitting import Lines, Part, rows_section, section, short
from harness.report_parts.markdown_text import fenced, trouble
from harness.report_parts.metric_parts import NEEDS_PERSON, Row, Say
from harness.verdicts import MetricVerdict

LONGEST = 300
"""A name in a table has at most so many characters."""
_SENTENCE = 1500
_CAUSE = 500
_COMMAND = 2000
_TROUBLES_FIRST = 4
"""They are long; other sections have room beside so many of them in the smallest form."""


@dataclasses.dataclass(frozen=True)
class Style:
    """How a form wants its sections: `name` writes text from tests in a cell, `say` a sentence, `write` what is short
    already; `fold` asks for what needs nobody to be folded."""

    name: Say
    say: Say
    write: Say
    fold: bool


def style(write: Say, *, fold: bool) -> Style:
    """The style that writes text with `write`, which makes it harmless, after cutting it to a length."""
    return Style(
        lambda value: write(short(parts.plain(value), LONGEST)),
        lambda value: write(short(parts.plain(value), _SENTENCE)),
        write,
        fold,
    )


def sections(merged: Merged, of: Style) -> list[Part]:
    """All that there is to say, most important first: verdict, runs, what needs a person, and then all the rest."""
    found = [Part("verdict", ("", f"**{of.say(merged.headline)}**"))]
    found.append(rows_section("Runs", merged_parts.RUN_COLUMNS, merged_parts.run_rows(merged, of.name)))
    whys = [(f"- {of.say(line)}",) for line in merged_parts.run_whys(merged)]
    found.append(section("Why no verdict", whys))
    found.append(section("Needs a person", _troubles(merged, of), first=_TROUBLES_FIRST))
    found += _between(merged, of)
    found += _metrics_for_a_person(merged, of)
    found += _settled(merged, of)
    return [part for part in found if part.items or part.title == "verdict"]


def _troubles(merged: Merged, of: Style) -> Iterator[Lines]:
    for column in merged.columns:
        for t in parts.troubles(column.run, column.judgement):
            name = "" if merged.single else short(column.name, LONGEST)
            yield tuple(trouble(_shortened(t), name, folded=of.fold, say=of.write))


def _shortened(t: parts.Trouble) -> parts.Trouble:
    """The same with texts of a bounded length; a command that is too long is not cut, since it would run other tests."""
    first = dataclasses.replace(
        t.first,
        test=short(parts.plain(t.first.test), LONGEST),
        why=short(parts.plain(t.first.why), _SENTENCE),
    )
    causes = tuple((short(a, _CAUSE), short(b, _CAUSE), short(c, _CAUSE)) for a, b, c in t.causes)
    again = t.rerun if len(t.rerun) <= _COMMAND else "the command is too long to show here; the JSON has it"
    meaning = short(t.kind_meaning, _SENTENCE)
    return dataclasses.replace(t, first=first, causes=causes, rerun=again, kind_meaning=meaning)


def _between(merged: Merged, of: Style) -> list[Part]:
    """What differs between runs, and from what was accepted on other runners."""
    columns = tuple(map(of.name, merged_parts.line_columns(merged)))
    open_ = [row for row in merged_parts.between_rows(merged, of.name) if row[3] != "agree"]
    bundles = [row for c in merged.columns for row in merged_parts.bundle_rows(c, of.name)]
    return [
        rows_section("Traces between runs", merged_parts.BETWEEN_COLUMNS, open_),
        rows_section("Differ between runs", columns, merged_parts.line_rows(merged, "differ", of.name)),
        _by_run(merged, of, "Traces beside other runners", parts.CROSSING_COLUMNS, _open_crossings),
        rows_section("Checkpoint bundles carried across", merged_parts.BUNDLE_COLUMNS, bundles),
    ]


def _open_crossings(column: Column, of: Style) -> list[Row]:
    rows = [row for row in parts.crossing_rows(column.judgement) if row[2] != "agree"]
    return [tuple(map(of.name, row)) for row in rows]


def _by_run(
    merged: Merged,
    of: Style,
    title: str,
    columns: Row,
    rows_of: Callable[[Column, Style], Iterable[Row]],
    *,
    folded: bool = False,
    caption: str = "",
) -> Part:
    """A table of all runs; where there are several, the first cell names the run."""
    rows: list[Row] = []
    for column in merged.columns:
        name = () if merged.single else (of.name(column.name),)
        rows += [(*name, *row) for row in rows_of(column, of)]
    head = columns if merged.single else ("run", *columns)
    return rows_section(title, head, rows, folded=folded, caption=caption)


def _judged(column: Column, of: Style, wanted: Callable[[MetricVerdict], bool]) -> list[Row]:
    return [metric_parts.judged_row(m, of.name) for m in metric_parts.judged(column.judgement) if wanted(m)]


def _metrics_for_a_person(merged: Merged, of: Style) -> list[Part]:
    table = _by_run(
        merged,
        of,
        "Metrics that need a person",
        metric_parts.JUDGED_COLUMNS,
        lambda c, s: _judged(c, s, lambda m: m.verdict in NEEDS_PERSON),
        caption=metric_parts.JUDGED_CAPTION,
    )
    whys = [
        (f"- {of.say(line if merged.single else f'{c.name}: {line}')}",)
        for c in merged.columns
        for line in metric_parts.whys(metric_parts.judged(c.judgement))
    ]
    return [table, section("Why these metrics", whys, folded=of.fold)]


def _settled(merged: Merged, of: Style) -> list[Part]:
    """What needs nobody."""
    name = of.name
    alone = tuple(map(name, merged_parts.line_columns(merged)))
    agree = [row for row in merged_parts.between_rows(merged, name) if row[3] == "agree"]
    found = [
        _by_run(merged, of, "Suites", parts.SUITE_COLUMNS, _suites, folded=of.fold),
        _by_run(merged, of, "Known issues", _KNOWN, _known, folded=of.fold),
        _by_run(merged, of, "Skipped", ("test", "why"), _skipped, folded=of.fold),
        rows_section(
            "Have an outcome on one run alone",
            alone,
            merged_parts.line_rows(merged, "only_one", name),
            folded=of.fold,
        ),
        rows_section("Traces that agree", merged_parts.BETWEEN_COLUMNS, agree, folded=of.fold),
        _by_run(
            merged,
            of,
            "Other metrics",
            metric_parts.JUDGED_COLUMNS,
            lambda c, s: _judged(c, s, lambda m: m.verdict not in NEEDS_PERSON),
            folded=of.fold,
            caption=metric_parts.JUDGED_CAPTION,
        ),
        rows_section(
            "Metrics side by side",
            tuple(map(name, merged_parts.beside_columns(merged))),
            merged_parts.beside_rows(merged, name),
            folded=of.fold,
        ),
        section("New baselines", _new_baselines(merged, of), folded=of.fold),
        _by_run(merged, of, "Rates", metric_parts.RATE_COLUMNS, _rates, folded=of.fold),
        _by_run(merged, of, "Costs", metric_parts.COST_COLUMNS, _costs, folded=of.fold),
        section("About rates and costs", _rate_notes(merged, of), folded=of.fold),
        _by_run(merged, of, "Where", ("what", "value"), _where, folded=of.fold),
        _by_run(merged, of, "Notes", ("note",), _notes, folded=of.fold),
    ]
    if not of.fold:
        found.append(_by_run(merged, of, "Metrics that are only shown", metric_parts.SHOWN_COLUMNS, _shown))
    return found


_KNOWN = ("issue", "tests", "reason", "seen", "link", "until")


def _suites(column: Column, of: Style) -> list[Row]:
    return [tuple(map(of.name, row)) for row in parts.suite_rows(column.judgement)]


def _known(column: Column, of: Style) -> list[Row]:
    return [
        (of.name(issue), str(count), of.say(reason), of.say(seen), of.say(link), of.name(day))
        for issue, count, reason, link, day, seen in parts.known(column.judgement)
    ]


def _skipped(column: Column, of: Style) -> list[Row]:
    return [(of.name(test), of.say(why)) for test, why in parts.skipped(column.judgement)]


def _shown(column: Column, of: Style) -> Iterator[Row]:
    return metric_parts.shown_rows(column.judgement, of.name)


def _rates(column: Column, of: Style) -> Iterator[Row]:
    found = metric_parts.rates(column.run, column.judgement, column.given)
    return metric_parts.rate_rows(found, of.name)


def _costs(column: Column, of: Style) -> Iterator[Row]:
    rates = metric_parts.rates(column.run, column.judgement, column.given)
    found = metric_parts.costs(column.run, rates, column.given)
    return iter(()) if found is None else metric_parts.cost_rows(found, of.name)


def _rate_notes(merged: Merged, of: Style) -> Iterator[Lines]:
    for column in merged.columns:
        rates = metric_parts.rates(column.run, column.judgement, column.given)
        costs = metric_parts.costs(column.run, rates, column.given)
        notes = [*metric_parts.rate_notes(rates), *(metric_parts.cost_notes(costs) if costs else ())]
        for note in notes:
            yield (f"- {of.say(note if merged.single else f'{column.name}: {note}')}",)


def _new_baselines(merged: Merged, of: Style) -> Iterator[Lines]:
    for column in merged.columns:
        found = metric_parts.new_baseline(column.run, column.judgement, column.given)
        if found is not None:
            said = found[0] if merged.single else f"{column.name}: {found[0]}"
            yield ("", of.say(said), "", *fenced(short(found[1], _COMMAND)))


def _where(column: Column, of: Style) -> list[Row]:
    return [(what, of.say(value)) for what, value in parts.where(column.run.header)]


def _notes(column: Column, of: Style) -> list[Row]:
    return [(of.say(note),) for note in column.judgement.notes]
