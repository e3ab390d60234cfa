"""The workloads run by themselves, say so in a line, and fail when ranks do not hold the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import ROOT

# In place of what the workload does, as (its own words, what a fault makes of them).
APART = ("model = DistributedDataParallel(net)", "model = net")
NO_STEP = ("optimizer.step()", "pass")
NO_SUM = ("dist.all_reduce(value)", "pass")


def run(path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    environment.update(OMP_NUM_THREADS="1", **variables)
    return subprocess.run(
        [sys.executable, str(path)],
        env=environment,
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def faulty(folder: Path, name: str, change: tuple[str, str]) -> Path:
    """A copy of the workload with the change made in it."""
    text = (ROOT / "fixtures" / name).read_text(encoding="utf-8")
    assert text.count(change[0]) == 1
    copy = folder / name
    copy.write_text(text.replace(*change), encoding="utf-8")
    return copy


def test_smoke_runs_plainly() -> None:
    """NPROC ranks are started, and rank 0 alone says that all is well, with the profile it was given."""
    done = run(ROOT / "fixtures" / "dist_smoke.py", NPROC="3", PROFILE="mi350x")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("dist_smoke_ok") == 1
    assert "sum=6.0 ranks=3" in done.stdout
    assert "profile=mi350x" in done.stdout


def test_mlp_runs_plainly() -> None:
    """STEPS steps are trained, and rank 0 alone says that the replicas agree."""
    done = run(ROOT / "fixtures" / "ddp_mlp.py", NPROC="2", STEPS="12")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ddp_mlp_ok steps=12") == 1
    assert "ranks=2" in done.stdout


@pytest.mark.parametrize(
    ("name", "change", "words", "status"),
    [
        ("dist_smoke.py", NO_SUM, "the sum over 2 ranks is 1.0, not 3.0", 3),
        ("ddp_mlp.py", APART, "replicas differ after 12 steps", 4),
        ("ddp_mlp.py", NO_STEP, "the loss did not drop", 3),
    ],
)
def test_faults_are_seen(name: str, change: tuple[str, str], words: str, status: int, tmp_path: Path) -> None:
    """A collective left out, replicas that differ and a loss that stays end with a clear line, no ok and not with 0."""
    done = run(faulty(tmp_path, name, change), NPROC="2", STEPS="12")
    assert done.returncode != 0
    assert words in done.stderr
    assert f"exitcode  : {status} " in done.stderr
    assert "_ok" not in done.stdout
