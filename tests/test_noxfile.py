"""Sessions: which torch is taken, and that a session ends with the status of its report."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness import ROOT

nox = pytest.importorskip("nox")


@pytest.fixture(scope="module")
def noxfile() -> ModuleType:
    specification = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Session:
    """Takes the place of nox's session: keeps what would be installed; an index may lack a build."""

    def __init__(self, lacks: str = "nothing") -> None:
        self.lacks, self.installed, self.warnings = lacks, [], []  # type: ignore[var-annotated]

    def install(self, *words: str, **_options: Any) -> None:
        if any(self.lacks in w for w in words):
            raise nox.command.CommandFailed("no such version")
        self.installed.append(words)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def log(self, text: str) -> None: ...


def test_the_cpu_build_is_taken(noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the configured index has a CPU build, it is that one."""
    monkeypatch.delenv(noxfile.INDEX, raising=False)
    session = Session()
    noxfile._install_torch(session, "cpu")
    assert session.installed == [("-q", f"torch=={noxfile.TORCH}+cpu")]
    assert session.warnings == []


def test_without_a_cpu_build_the_default_is_taken_and_told(
    noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is none, the default build is installed, with a warning that names the variable."""
    monkeypatch.delenv(noxfile.INDEX, raising=False)
    session = Session(lacks="+cpu")
    noxfile._install_torch(session, "cpu")
    assert session.installed == [("-q", f"torch=={noxfile.TORCH}")]
    assert noxfile.INDEX in session.warnings[0]


def test_another_index_is_used(noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable's index is the one that torch comes from."""
    monkeypatch.setenv(noxfile.INDEX, "https://example.org/whl")
    session = Session()
    noxfile._install_torch(session, "cpu")
    assert session.installed == [("-q", f"torch=={noxfile.TORCH}", "--index-url", "https://example.org/whl")]


def test_a_session_for_each_runner() -> None:
    """nox lists a session for each runner file, and tests, lint and types."""
    done = subprocess.run(
        [sys.executable, "-m", "nox", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = {p.stem for p in Path(ROOT, "harness/runners").glob("*.py")} - {"__init__", "base", "conformance"}
    for name in files | {"tests", "lint", "types"}:
        assert f" {name} ->" in done.stdout


class Ending(Session):
    """A session whose end is looked at."""

    def error(self, text: str) -> None:
        raise RuntimeError(text)


@pytest.mark.parametrize(("status", "raises"), [(1, RuntimeError), (2, SystemExit), (3, SystemExit)])
def test_a_session_ends_with_the_reports_status(
    status: int, raises: type[BaseException], noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red fails the session, by which nox ends with 1; 2 and 3 end nox as they are. None is green."""
    monkeypatch.setattr(sys, "argv", ["nox", "-s", "cpu"])
    with pytest.raises(raises) as caught:
        noxfile._leave(Ending(), status, "why")
    if raises is SystemExit:
        assert caught.value.code == status  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "left", "place"),
    [
        (["-k", "decode"], ["-k", "decode"], None),
        (["--store", "a b", "-k", "decode"], ["-k", "decode"], "a b"),
        (["-x", "--store=s3://bucket/runs"], ["-x"], "s3://bucket/runs"),
        (["--store=runs", "-k", "decode"], ["-k", "decode"], "runs"),
    ],
)
def test_the_store_is_no_option_of_pytest(
    words: list[str], left: list[str], place: str | None, noxfile: ModuleType
) -> None:
    """`--store` in either form is taken out, and all else goes on to pytest."""
    assert noxfile._without_store(Ending(), words) == (left, place)


@pytest.mark.parametrize("words", [["--store"], ["--store="], ["--store", "--repeat"]])
def test_a_store_without_a_place_is_refused(
    words: list[str], noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forgotten place is a mistake, not another option's name."""
    monkeypatch.setattr(sys, "argv", ["nox", "-s", "cpu"])
    with pytest.raises(SystemExit) as caught:
        noxfile._without_store(Ending(), words)
    assert caught.value.code == 2
