"""What metrics.toml says is what is judged, and a mistake in it is told in one line."""

from __future__ import annotations

import ast
import math
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import ROOT, policy
from harness.errors import UsageError
from harness.records import Metric

GOOD = {
    "name": '"step_s"',
    "better": '"lower"',
    "minimum": "0.03",
    "gate": "true",
    "statistics": '["median"]',
}


def entry(**changes: str | None) -> str:
    """The text of one entry; a change to None leaves the key out."""
    lines = {**GOOD, **changes}
    return "[[metric]]\n" + "".join(f"{k} = {v}\n" for k, v in lines.items() if v is not None)


def load(text: str, folder: Path) -> tuple[policy.Rule, ...]:
    """The rules that a file of this text holds."""
    path = folder / "metrics.toml"
    path.write_text(text, encoding="utf-8")
    return policy.load(path)


def test_an_entry_is_read_as_written(tmp_path: Path) -> None:
    """Every key of an entry reaches its rule; a statistic named twice is taken once."""
    text = entry() + entry(
        name='"*_rate"', better='"higher"', minimum="0.1", gate="false", statistics='["p95", "first", "p95"]'
    )
    assert load(text, tmp_path) == (
        policy.Rule("step_s", True, 0.03, True, ("median",)),
        policy.Rule("*_rate", False, 0.1, False, ("p95", "first")),
    )


WRONG = [
    *((key, entry(**{key: None})) for key in GOOD),
    ("name", entry(name="3")),
    ("better", entry(better='"faster"')),
    ("better", entry(better="true")),
    ("minimum", entry(minimum="0.0")),
    ("minimum", entry(minimum="-0.02")),
    ("minimum", entry(minimum="1.0")),
    ("minimum", entry(minimum="2")),
    ("minimum", entry(minimum="nan")),
    ("minimum", entry(minimum="inf")),
    ("minimum", entry(minimum='"2 %"')),
    ("gate", entry(gate='"yes"')),
    ("gate", entry(gate="1")),
    ("statistics", entry(statistics="[]")),
    ("statistics", entry(statistics='"median"')),
    ("statistics", entry(statistics='["median", "p99"]')),
    ("statistics", entry(statistics="[1]")),
    ("statistics", entry(statistics="[[]]")),
    ("statistics", entry(statistics='["med\\nian"]')),
    ("minimun", entry(minimun="0.02")),
    ("a\\nb", entry(**{'"a\\nb"': "1"})),
    ("name", entry(name='"other_s"') + entry(name='"other_s"')),
]


@pytest.mark.parametrize(("key", "text"), WRONG)
def test_a_wrong_entry_is_told(key: str, text: str, tmp_path: Path) -> None:
    """A wrong entry is one line that names the file, the entry and the key."""
    with pytest.raises(UsageError) as told:
        load(entry(name='"first_s"') + text, tmp_path)
    message = str(told.value)
    assert "\n" not in message
    assert message.startswith(str(tmp_path / "metrics.toml"))
    assert re.search(r"entry [23]: ", message)
    assert re.search(rf"\b{re.escape(key)}\b", message.partition("entry")[2])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "metric = []\n",
        "metric = 3\n",
        "metric = [3]\n",
        entry().replace("[[metric]]", "[metric]"),
        entry().replace("[[metric]]", "[[metrics]]"),
        entry() + entry().replace("[[metric]]", "[[metrics]]"),
        "[[metric]\n",
        'name = "x\n',
    ],
)
def test_a_file_without_its_entries_is_told(text: str, tmp_path: Path) -> None:
    """A file in which entries are lost is an error of one line, never a file of fewer rules."""
    with pytest.raises(UsageError) as told:
        load(text, tmp_path)
    assert str(tmp_path / "metrics.toml") in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("bad", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_told(bad: bytes | None, tmp_path: Path) -> None:
    """A file that is absent or no text is an error of one line that names it."""
    path = tmp_path / "metrics.toml"
    if bad is not None:
        path.write_bytes(bad)
    with pytest.raises(UsageError, match=r"metrics\.toml") as told:
        policy.load(path)
    assert "\n" not in str(told.value)


def test_the_first_match_holds(tmp_path: Path) -> None:
    """Of the entries that match a name, the first one holds; a name that none matches has no rule."""
    rules = load(entry() + entry(name='"st*_s"') + entry(name='"*_s"'), tmp_path)
    named = {
        n: r and r.name for n in ("step_s", "start_s", "save_s", "step") for r in [policy.rule_of(rules, n)]
    }
    assert named == {"step_s": "step_s", "start_s": "st*_s", "save_s": "*_s", "step": None}


@pytest.mark.parametrize(
    ("first", "second", "reached"),
    [
        ("*_s", "step_s", False),
        ("*_s", "st*_s", False),
        ("*", "*_s", False),
        ("st*_s", "*_s", True),
        ("?_s", "*_s", True),
        ("*_s", "*_bytes", True),
    ],
)
def test_an_entry_that_is_never_reached_is_told(
    first: str, second: str, reached: bool, tmp_path: Path
) -> None:
    """An entry whose names all match an earlier one is an error, since it would change nothing."""
    text = entry(name=f'"{first}"') + entry(name=f'"{second}"')
    if reached:
        assert len(load(text, tmp_path)) == 2
    else:
        with pytest.raises(UsageError, match=r"entry 2: name = .*entry 1, .*before"):
            load(text, tmp_path)


def kept_names() -> set[str]:
    """Names of metrics that the throughput suite keeps, read off its source; an f-string's values are `X`."""
    found = set()
    for path in (ROOT / "suites" / "throughput").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if called in ("metric", "measure") and isinstance(first, ast.Constant):
                found.add(str(first.value))
            elif called in ("metric", "measure") and isinstance(first, ast.JoinedStr):
                parts = [str(p.value) if isinstance(p, ast.Constant) else "X" for p in first.values]
                found.add("".join(parts))
    return found


INTENDED = {
    "step_s": ("step_s", ("median", "first", "growth")),
    "latency_s": ("latency_s", ("median", "p95")),
    "batch_s": ("batch_s", ("median", "first")),
    "host_memory_bytes": ("*_memory_bytes", ("median", "growth")),
    "device_memory_bytes": ("*_memory_bytes", ("median", "growth")),
    "peak_memory_bytes": ("*peak_memory_bytes", ("median",)),
    "device_peak_memory_bytes": ("*peak_memory_bytes", ("median",)),
    "decode_s": ("*_s", ("median",)),
    "save_s": ("*_s", ("median",)),
    "load_s": ("*_s", ("median",)),
}
CONTROLS = {"wait", "product"}


@pytest.mark.parametrize("name", INTENDED)
def test_shipped_rules_name_what_the_suite_keeps(name: str) -> None:
    """Each metric of the throughput suite is judged by the entry and the statistics meant for it, and guards the gate."""
    rule = policy.rule_of(policy.load(), name)
    assert rule is not None
    assert (rule.name, rule.statistics) == INTENDED[name]
    assert rule.lower_is_better
    assert rule.gate
    assert 0.02 <= rule.minimum <= 0.05


def test_no_metric_of_the_suite_goes_unjudged() -> None:
    """Whatever the throughput suite keeps, but for its controls, a shipped rule judges."""
    kept = kept_names()
    assert {"step_s", "latency_s", "peak_memory_bytes", "X_s"} <= kept
    rules = policy.load()
    assert {n for n in kept if policy.rule_of(rules, n) is None} <= CONTROLS


def test_keys_tell_statistics_apart() -> None:
    """A row is named by test and metric, and by the statistic where it is not the median."""
    assert policy.key_of("t.py::t", "step_s", "median") == "t.py::t::step_s"
    assert policy.key_of("t.py::t", "step_s", "p95") == "t.py::t::step_s@p95"


def number(samples: list[float], statistic: str, warmup: int = 0) -> float | None:
    """What a process with these samples enters with."""
    return policy.summary(Metric("x", "s", tuple(samples), warmup), statistic)


def test_statistics_by_known_numbers() -> None:
    """Median, 95th percentile and growth leave the warm-up out; `first` is the very first sample."""
    assert number([9.0, 9.0, 1.0, 2.0, 4.0], "median", 2) == 2.0
    assert number([1.0, 2.0, 4.0, 8.0], "median") == 3.0
    assert number([9.0, 1.0, 1.0], "first", 2) == 9.0
    assert number([50.0, *map(float, range(101))], "p95", 1) == 95.0
    assert number([float(n) for n in range(20)], "p95") == pytest.approx(18.05)
    assert number([99.0, 1.0, 2.0, 3.0, 5.0, 5.0, 5.0, 4.0, 4.0, 9.0], "growth", 1) == 2.0
    # The remainder belongs to neither third.
    assert number([2.0, 2.0, 7.0, 7.0, 7.0, 3.0, 3.0], "growth") == 1.5


def test_too_little_has_no_number() -> None:
    """Where a statistic has too few samples, or one is not finite, there is no number, and never 0."""
    assert number([], "median") is None
    assert number([], "first") is None
    assert number([1.0, 2.0], "median", 2) is None
    assert number([1.0, 2.0], "first", 2) == 1.0
    assert number([1.0] * 19, "p95") is None
    assert number([1.0] * 20, "p95", 1) is None
    assert number([1.0] * 5, "growth") is None
    assert number([0.0] * 6, "growth") is None
    for bad in (math.nan, math.inf, -math.inf):
        for statistic in policy.STATISTICS:
            assert number([bad, *[1.0] * 30], statistic, 1) is None
    # A median of two that only together are too large.
    assert number([1.7e308, 1.7e308], "median") is None


@given(st.lists(st.floats(1e-9, 1e9), min_size=20, max_size=60))
def test_p95_is_that_of_numpy(samples: list[float]) -> None:
    """The 95th percentile is numpy's, and lies within the samples."""
    found = number(samples, "p95")
    assert found == pytest.approx(float(np.percentile(samples, 95)), rel=1e-12)
    assert min(samples) <= found <= max(samples)


@given(st.lists(st.floats(1e-9, 1e9), min_size=20, max_size=60), st.randoms(use_true_random=False))
def test_only_first_and_growth_ask_for_the_order(samples: list[float], rng: object) -> None:
    """Median and 95th percentile do not depend on the order of the samples."""
    mixed = list(samples)
    rng.shuffle(mixed)  # type: ignore[attr-defined]
    for statistic in ("median", "p95"):
        assert number(mixed, statistic) == number(samples, statistic)
    assert number(samples, "median") == statistics.median(samples)
