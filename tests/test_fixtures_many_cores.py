"""A process is told of as many processors as asked for; without a compiler that is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures import many_cores


def test_a_process_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The C library and Python both say 192, in a process whose machine has fewer."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    code = "import os; print(os.sysconf('SC_NPROCESSORS_ONLN'), os.cpu_count())"
    environment = {**os.environ, **many_cores.environment(192)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["192", "192"]


@pytest.mark.parametrize("compiler", ["/nonexistent/cc", "false"])
def test_without_a_compiler(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that is not there or fails is NoCompiler, and nothing half-made is kept."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(many_cores.NoCompiler):
        many_cores.environment(192)
    assert not [p for p in (tmp_path / "fixtures").iterdir() if p.is_dir()]
