"""`HARNESS_EXPLORE`: the same examples each time, or those of a seed, also in the processes of workers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import runs
from builders import make_header
from harness import exploring
from harness.errors import UsageError
from harness.report_parts import parts

SUITE = """
from hypothesis import given, strategies as st

@given(st.integers(0, 2**60))
def test_it(n):
    print("drawn", n)
    assert n < 0
"""


@pytest.mark.parametrize(("text", "seed"), [("", None), (" ", None), ("0", 0), ("17", 17)])
def test_a_seed_or_none(text: str, seed: int | None) -> None:
    """An empty variable counts as unset; zero is a seed."""
    assert exploring.read_seed({exploring.VARIABLE: text}) == seed
    assert exploring.read_seed({}) is None


@pytest.mark.parametrize("text", ["-1", "x", "1.5", "\u0661", "9" * 30])
def test_what_is_no_seed_is_an_error(text: str) -> None:
    """One error that names the value and the remedy."""
    with pytest.raises(UsageError, match=r"whole number"):
        exploring.read_seed({exploring.VARIABLE: text})


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_examples_are_the_seeds(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """Without a seed each run draws the same; with one it draws others, the same ones for the same seed."""
    drawn = []
    for n, seed in enumerate(["", "", "5", "5", "6"]):
        place = tmp_path / str(n)
        made = runs.made_up(place, SUITE, "-rA", *workers, variables={"HARNESS_EXPLORE": seed})
        assert made.run.header.explore == (int(seed) if seed else None)
        drawn.append(tuple(re.findall(r"drawn (\d+)", made.output)))
        assert drawn[-1]
    assert drawn[0] == drawn[1]
    assert drawn[2] == drawn[3]
    assert len({drawn[0], drawn[2], drawn[4]}) == 3


def test_the_report_says_the_seed() -> None:
    """Where new examples were tried the report says of which seed, and its command tries them again."""
    header = make_header(explore=17)
    assert ("examples", "new ones for property tests, seed 17") in parts.where(header)
    assert parts.rerun(header, "suites/decoder/test_frames.py::test_it").startswith(
        "HARNESS_EXPLORE=17 python -m nox"
    )
    assert "examples" not in dict(parts.where(make_header()))
