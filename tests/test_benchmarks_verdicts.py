"""benchmarks/verdicts.py counts what it says it counts: rules whose answers are known have the rates they must have."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from harness import ROOT, looks

sys.path.insert(0, str(ROOT / "benchmarks"))

import verdict_counts as counts
import verdict_rules as rules
import verdict_text as text
import verdict_worlds as worlds
from verdict_rules import Judged, Rule

CLEAN = worlds.WORLDS[0]
STILL = worlds.World("still", "hardly any noise", noise=1e-5, outliers=0.0)


def planted(name: str, verdict: str, *, ours: bool = False) -> Rule:
    """A rule that says the same of every metric."""
    return Rule(name, lambda report, metrics: Judged((verdict for _ in metrics), 7, 11), ours=ours)


def knowing(report: worlds.Report, metrics: Sequence[int]) -> Judged:
    """A rule that sees the truth."""
    return Judged((rules.REGRESSED if report.effect[n] > 0.04 else rules.NONE for n in metrics), 1, 1)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What one report in each cell prints, and the document."""
    path = tmp_path_factory.mktemp("verdicts") / "rates.md"
    done = subprocess.run(
        [sys.executable, "benchmarks/verdicts.py", "--reports", "1", "--output", str(path)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout, path.read_text(encoding="utf-8")


def tables(lines: str) -> dict[str, list[list[str]]]:
    """The rows of each table, head first, by the title above it."""
    found: dict[str, list[list[str]]] = {}
    title = ""
    for line in lines.splitlines():
        if line.startswith("**"):
            title = line.strip("*")
        elif line.startswith("| ") and not line.startswith("| -"):
            found.setdefault(title, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_every_rule_has_a_rate_on_every_machine(document: tuple[str, str]) -> None:
    """False alarms, power at two changes and cost stand there for all rules and machines; a tool says it is missing."""
    names = [rule.name for rule in rules.rules()]
    wanted = (
        "pytest-benchmark",
        "pyperf",
        "scipy",
        "Otava",
        "ours, 3 new",
        "ours, two stages, screen",
        "ours, two stages (",
    )
    assert all(any(name.startswith(start) for name in names) for start in wanted)
    by_rule = [rows for title, rows in tables(document[0]).items() if rows[0][0] == "rule"]
    assert len(by_rule) == 4
    for rows in by_rule:
        assert rows[0][1:] == [w.name for w in worlds.WORLDS]
        assert [row[0] for row in rows[1:]] == names
        for row, rule in zip(rows[1:], rules.rules(), strict=True):
            assert all(row[1:]) if rule.judge is not None else "pip install" in row[1]


def test_the_document_says_how_it_came_about(document: tuple[str, str]) -> None:
    """Date, command with seed and number of reports, versions, machines and the tables are in the document."""
    printed, written = document
    assert tables(printed).items() <= tables(written).items()
    assert "--reports 1 --seed 20261203" in written
    for name, version in rules.versions().items():
        assert f"{name} {version}" in written
    for world in worlds.WORLDS:
        assert world.what in written


def test_rules_of_known_answers_have_their_rates() -> None:
    """Who always alarms is always wrong and finds all; who never does finds nothing; who knows the truth errs never."""
    asked = [planted("always", rules.REGRESSED), planted("never", rules.NONE), Rule("knows", knowing)]
    cells = counts.measure(asked, [CLEAN], 3, 1)
    false = {rule.name: np.mean(cells["clean", counts.NOTHING, rule.name].worse) for rule in asked}
    assert false == {"always": 1.0, "never": 0.0, "knows": 0.0}
    for truth in (counts.FIVE, counts.TEN):
        power = {rule.name: cells["clean", truth, rule.name].share(rules.REGRESSED)[0] for rule in asked}
        assert power == {"always": 1.0, "never": 0.0, "knows": 1.0}
    assert cells["clean", counts.NOTHING, "always"].processes == [7, 7, 7]


def test_false_equivalence_is_counted_and_broken_promises_are_told() -> None:
    """A rule of ours that calls all equivalent is seen to, and one that always alarms is told as breaking its word."""
    equal, always = planted("equal", "equivalent", ours=True), planted("always", "regressed", ours=True)
    cells = counts.measure([equal, always], [CLEAN], 3, 1)
    assert cells["clean", counts.MARGIN, "equal"].share("equivalent") == (1.0, 0.0)
    assert cells["clean", counts.MARGIN, "always"].share("equivalent") == (0.0, 0.0)
    over = counts.broken(cells, [equal, always], [CLEAN])
    assert over == [("clean", counts.NOTHING, "always"), ("clean", counts.MARGIN, "always")]
    assert all("1 (>0.000)" in line for line in text.render_broken(cells, over))


def test_a_metric_found_in_some_reports_has_a_share_and_an_error() -> None:
    """The error of a share is that of the mean over reports, not over metrics that hang together."""
    cell = counts.Cell(shares=[{"regressed": 1.0}, {"regressed": 0.0, "none": 1.0}] * 8)
    assert cell.share("regressed") == (0.5, 0.125)


def test_a_missing_tool_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without otava its row stands there, without rates and with the line that installs it."""
    monkeypatch.setitem(sys.modules, "otava.series", None)
    asked = [rule for rule in rules.rules() if rule.name.startswith("Otava")]
    assert asked[0].judge is None
    assert "pip install apache-otava" in asked[0].remedy
    cells = counts.measure(asked, [CLEAN], 1, 1)
    assert not cells
    assert "pip install apache-otava" in "\n".join(text.render_tables(cells, asked, [CLEAN]))


@pytest.mark.parametrize(
    ("judge", "screen"),
    [(rules.two_stages, rules.SCREEN_BASE + rules.SCREEN_HEAD), (rules.two_stages_one, 1)],
)
def test_two_stages_cost_what_they_ran(judge: rules.Judge, screen: int) -> None:
    """Without noise 5 metrics with +10 % are settled at the first look: the screen, and pairs of those 5 alone."""
    report = worlds.make_report(STILL, counts.changed(0.10), (1,))
    judged = judge(report, range(worlds.METRICS))
    pairs = looks.LOOKS[0]
    assert list(judged.verdicts) == ["regressed"] * 5 + [rules.CLEARED] * 45
    assert (judged.processes, judged.tests) == (screen + 2 * pairs, screen * worlds.METRICS + 2 * pairs * 5)


def test_rules_leave_the_report_to_the_next() -> None:
    """A rule that runs more processes does so in a session of its own: asked twice, all say the same."""
    report = worlds.make_report(CLEAN, counts.changed(0.05), (2,))
    asked = [rule for rule in rules.rules() if rule.judge is not None]
    said = [[list(rule.judge(report, range(5)).verdicts) for rule in asked] for _ in range(2)]  # type: ignore[misc]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("world", "change", "spread"),
    [
        ("clean", 0.0, 0.0),
        ("drift, linear", 0.07, 0.0),
        ("drift, walk", 0.0, 0.0187),
        ("another day", 0.04, 0.0),
    ],
)
def test_machines_change_as_they_say(world: str, change: float, spread: float) -> None:
    """From the base's first process to the fifth of the head a machine changes by what its slope, walk or day says."""
    chosen = next(w for w in worlds.WORLDS if w.name == world)
    found = []
    for n in range(60):
        report = worlds.make_report(chosen, np.zeros(worlds.METRICS), (3, n))
        found.append(np.log(np.median(report.head[-1]) / np.median(report.base[0])))
    assert abs(np.mean(found) - change) < 0.001 + 0.5 * spread
    assert abs(np.std(found) - spread) < 0.003 + 0.3 * spread


@pytest.mark.parametrize(("world", "share"), [("clean", 0.02), ("outliers", 0.10), ("heavy tails", 0.07)])
def test_machines_have_the_outliers_they_say(world: str, share: float) -> None:
    """The share of processes 3 % slower than usual, beyond what noise alone does, is the one that the machine has."""
    chosen = next(w for w in worlds.WORLDS if w.name == world)
    reports = [worlds.make_report(chosen, np.zeros(worlds.METRICS), (4, n)) for n in range(20)]
    slow = np.concatenate([np.median(r.base, axis=2).ravel() for r in reports]) > 1.03
    # Of Student's t with 3 degrees, 2.9 % lie above 3; of slow processes some are fast by noise.
    meant = {0.07: 0.029}.get(share, share * 0.93 + 0.0014)
    assert abs(slow.mean() - meant) < 0.006
