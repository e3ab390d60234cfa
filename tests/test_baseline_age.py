"""What `baseline age` promises: how old each file is, and in what its environment differs from the one that is here."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runs
from builders import make_header
from harness import baselines
from harness.baseline_age import Environment, environment_of, judge_age, render_ages
from harness.judge_words import provenance_of
from harness.records import Header
from harness.verdicts import Baseline
from runs import write
from test_baselines import REASON, RULES, good, judged

NOW = datetime(2027, 1, 25, 10, tzinfo=timezone.utc)


def make(*headers: Header) -> Baseline:
    """A baseline of these runs."""
    sources = tuple({**provenance_of(h), "processes": h.repeats} for h in headers)
    return Baseline(headers[0].comparability, {}, {}, sources, REASON)


def age(here: Header | Environment | None, *headers: Header) -> Any:
    """The age of a baseline of these runs, beside a run."""
    environment = environment_of(here) if isinstance(here, Header) else here
    return judge_age("cpu/x", make(*headers), environment, NOW)


def test_days_and_runs() -> None:
    """Days count from the newest run; processes of all runs are added."""
    first = make_header(repeats=5, run_id="one", started="2027-01-05T10:00:00+00:00")
    found = age(None, first, make_header(repeats=3, run_id="two"))
    assert (found.days, found.runs, found.processes) == (10, ("one", "two"), 8)
    assert found.verdict == "unchecked"
    (line, facts) = render_ages([found])
    assert line.startswith("cpu/x: 10 days old, 2 runs of 8 processes: not checked")
    assert "torch 2.13.0" in facts


def test_same_environment() -> None:
    """The same software, machine and target are current; another host is the same environment."""
    here = make_header(started="2027-01-20T10:00:00+00:00", machine={**make_header().machine, "host": "twin"})
    assert age(here, make_header()).verdict == "current"


@pytest.mark.parametrize(
    ("changes", "name", "pair"),
    [
        ({"software": {"python": "3.11.9", "torch": "2.14.0"}}, "torch", ("2.13.0", "2.14.0")),
        ({"software": {"python": "3.11.9", "torch": None}}, "torch", ("2.13.0", "none")),
        ({"machine": {"processor": "new", "cpu_usable": 2}}, "processor", ("a processor", "new")),
        ({"machine": {"processor": "a processor", "cpu_usable": 4}}, "cpu usable", ("2", "4")),
        ({"target": {"commit": "d" * 40}}, "target commit", ("c68b65e" + "0" * 33, "d" * 40)),
        ({"target": {"patches": ("fix",)}}, "patches", ("none", "fix")),
        ({"runner": {"device_count": 2}}, "device count", ("1", "2")),
    ],
)
def test_older_than_its_environment(changes: dict[str, Any], name: str, pair: tuple[str, str]) -> None:
    """Other software, machine, target or settings are named with both values."""
    found = age(make_header(started="2027-01-20T10:00:00+00:00", **changes), make_header())
    assert found.verdict == "older"
    assert found.differences == {name: pair}
    assert f"older than its environment: {name} {pair[0]} there, {pair[1]} here" in render_ages([found])[0]


def test_a_run_from_before() -> None:
    """Beside a run that is earlier than the baseline it is not the baseline that is older."""
    here = make_header(started="2027-01-10T10:00:00+00:00", software={"torch": "2.12.0"})
    assert age(here, make_header()).verdict == "other"


def test_any_run_of_the_baseline_counts() -> None:
    """One run of several from another environment is enough."""
    other = make_header(software={"python": "3.11.9", "torch": "2.12.0"}, run_id="other")
    assert age(make_header(started="2027-01-20T10:00:00+00:00"), make_header(), other).verdict == "older"


def test_what_is_not_recorded_says_nothing() -> None:
    """A fact that one side lacks is no difference."""
    assert (
        age(Environment("this machine", {"torch": "2.13.0", "driver": "1"}), make_header()).verdict
        == "current"
    )


FACTS = st.dictionaries(st.sampled_from(["torch", "python", "driver"]), st.sampled_from(["1", "2"]))


@given(FACTS, FACTS)
def test_differences_are_symmetric(a: dict[str, str], b: dict[str, str]) -> None:
    """Swapping baseline and environment swaps each pair of a difference, and nothing else."""
    one = age(Environment("x", b), make_header(software=a)).differences
    two = age(Environment("x", a), make_header(software=b)).differences
    assert one == {n: (y, x) for n, (x, y) in two.items()}
    assert set(one) == {n for n in a.keys() & b.keys() if a[n] != b[n]}


def test_age_command(tmp_path: Path) -> None:
    """The command holds each file against the run named, in words and as JSON; a run of another kind says nothing."""
    folder = tmp_path / "b"
    accepted = good(software={"torch": "2.12.0"})
    baselines.accept(folder, [judged(accepted, folder)], REASON, RULES)
    here = write(tmp_path / "here", good(started="2027-02-01T10:00:00+00:00", software={"torch": "2.13.0"}))
    words = ("baseline", "age", "--baselines", str(folder), "--run")
    done = runs.harness(*words, str(here))
    assert (done.returncode, done.stderr) == (0, "")
    assert "cpu-x86_64-1/vitra.decoder: " in done.stdout
    assert "older than its environment: torch 2.12.0 there, 2.13.0 here" in done.stdout
    (found,) = json.loads(runs.harness(*words, str(here), "--format", "json").stdout)
    assert (found["verdict"], found["differences"]) == ("older", {"torch": ["2.12.0", "2.13.0"]})
    other = write(tmp_path / "other", good(runner={"name": "gpu"}))
    assert "not checked" in runs.harness(*words, str(other)).stdout
    empty = runs.harness("baseline", "age", "--baselines", str(tmp_path / "none"), "--run", str(here))
    assert "no baselines in" in empty.stdout
    bad = runs.harness(*words, str(tmp_path / "absent"))
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)


def test_newest_run_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --run the newest run below runs/ of the same runner and target counts; else this very machine."""
    from harness import cli

    folder = tmp_path / "b"
    baselines.accept(folder, [judged(good(software={"torch": "2.12.0"}), folder)], REASON, RULES)
    monkeypatch.chdir(tmp_path)
    words = ["baseline", "age", "--baselines", str(folder)]
    assert cli.main(words) == 0
    before = capsys.readouterr().out
    assert "(beside this machine)" in before or "not checked" in before
    for number, name in enumerate(("old", "new")):
        run = good(
            started=f"2027-02-0{number + 1}T00:00:00+00:00",
            software={"torch": f"2.{13 + number}.0"},
            run_id=name,
        )
        path = write(tmp_path / "runs" / name, run) / "run.json"
        os.utime(path, (number, number))
    write(tmp_path / "runs" / "else", good(target={"name": "other"}))
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "run.json").write_text("{")
    assert cli.main(words) == 0
    assert "torch 2.12.0 there, 2.14.0 here (beside run new)" in capsys.readouterr().out
