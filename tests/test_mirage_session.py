"""A session on the mirage runner, played by its stand-in: from the plugin to the report."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import runs
from mirage_machines import MIRAGE, call, variables

HEAD = "import pathlib, pytest\nfrom harness import ROOT\nSMOKE = ROOT / 'suites' / 'collectives' / 'rank_workload.py'\n"
SUITE = (
    HEAD
    + """
def test_control(): pass

def test_ranks(launch, machine):
    given = launch(SMOKE, {"cases": ["workload/dist_smoke"]}, ranks=2)
    assert [g["done"]["workload/dist_smoke"]["sum"] for g in given] == [3.0, 3.0]
    assert machine.decision.stand_in

@pytest.mark.capability("timing")
def test_time(): raise SystemError("must not run")

def test_nodes(launch):
    given = launch(SMOKE, {"cases": ["workload/dist_smoke"], "nodes": 2}, ranks=2, nodes=2)
    assert [g["local"] for g in given] == [0, 0]
"""
)
STALL = (
    HEAD
    + """
def test_control(): pass
def test_ddp(launch): launch(SMOKE, {"cases": ["workload/ddp_mlp"]}, ranks=2, limit_s=2)
"""
)


@pytest.fixture
def standin() -> Iterator[dict[str, str]]:
    """Variables with which the stand-in is the emulator."""
    with tempfile.TemporaryDirectory(prefix="hm", dir="/tmp") as folder:
        yield {**variables(Path(folder)), "HARNESS_MIRAGE": str(MIRAGE)}
        assert call(Path(folder), "cleanup").stdout == "nothing to clean up\n"


def outcomes(done: runs.Done) -> dict[str, tuple[str, str | None]]:
    return {r.test.partition("::")[2]: (r.outcome, r.kind) for r in done.run.records}


def test_a_run_behind_the_stand_in_says_so(tmp_path: Path, standin: dict[str, str]) -> None:
    """Ranks run on one node and on two, times are not asked for; the report says what it was, and is no baseline."""
    done = runs.made_up(tmp_path, SUITE, "--runner", "mirage", variables=standin)
    assert outcomes(done) == {
        "test_control": ("passed", None),
        "test_ranks": ("passed", None),
        "test_time": ("skipped", "capability"),
        "test_nodes": ("passed", None),
    }, done.output
    runner = done.run.header.runner
    assert (runner.key, runner.emulated, runner.stand_in) == ("mirage-gfx950-2-stand-in", True, True)
    assert "STAND-IN" in runs.harness("report", str(done.folder)).stdout.splitlines()[0]
    words = [
        "baseline",
        "accept",
        str(done.folder),
        "--reason",
        "these runs are right, as a test says",
        "--baselines",
        str(tmp_path / "b"),
    ]
    refused = runs.harness(*words)
    assert refused.returncode == 2
    assert "stand-in" in refused.stderr
    assert not (tmp_path / "b").exists()


def test_a_stall_is_of_its_own_kind(tmp_path: Path, standin: dict[str, str]) -> None:
    """Ranks that all wait in a collective at ten times the limit fail as a stall, which a known issue may name."""
    given = {**standin, "MIRAGE_STANDIN_FAULT": "stall-after-allreduce"}
    done = runs.made_up(tmp_path, STALL, "--runner", "mirage", variables=given)
    assert outcomes(done)["test_ddp"] == ("failed", "stall"), done.output
    told = next(r for r in done.run.records if r.test.endswith("test_ddp")).reason
    assert told == "no end within 20 s; ranks 0 and 1 of 2 are running, all of them in all_reduce"


def test_a_session_needs_what_was_asked_for(tmp_path: Path, standin: dict[str, str]) -> None:
    """Without the devices no test starts, and the one line says why and what to do."""
    done = runs.made_up(
        tmp_path, SUITE, "--runner", "mirage", variables={**standin, "MIRAGE_STANDIN_FAULT": "no-gpu"}
    )
    assert done.status == 4
    assert "its ROCm lacks gfx950" in done.output
    assert not done.folder.exists()


def test_one_node_is_not_two(tmp_path: Path) -> None:
    """A runner that starts ranks on one node lacks the second, and says so."""
    done = runs.made_up(tmp_path, SUITE.replace("assert machine.decision.stand_in", ""))
    assert outcomes(done)["test_nodes"] == ("skipped", "capability"), done.output
    assert outcomes(done)["test_ranks"] == ("passed", None)
