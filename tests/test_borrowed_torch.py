"""In a vendor's container the session uses the container's torch, and nothing may replace it: real pip, tiny packages."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from harness import runners
from test_noxfile import noxfile  # noqa: F401 - the fixture

HIP = "version = type('V', (), {'hip': '7.2', 'cuda': None})\n__version__ = '2.13.0+rocm7.2'\n"
CUDA = "version = type('V', (), {'hip': None, 'cuda': '13.0'})\n__version__ = '2.14.0'\n"


def wheel(folder: Path, name: str, version: str, module: str, needs: str | None = None) -> None:
    """A wheel of one module, made by hand."""
    information = f"{name}-{version}.dist-info"
    require = f"Requires-Dist: {needs}\n" if needs else ""
    files = {
        f"{name}.py": module,
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{require}",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text)}\n"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        for path, text in files.items():
            file.writestr(path, text)
        file.writestr(f"{information}/RECORD", record + f"{information}/RECORD,,\n")


class Session:
    """A nox session over a real environment: installs with its pip from a folder alone."""

    def __init__(self, location: Path, wheels: Path) -> None:
        self.virtualenv, self.bin = SimpleNamespace(location=str(location)), str(location / "bin")
        self.wheels = wheels

    def install(self, *words: str, **_options: Any) -> subprocess.CompletedProcess[str]:
        command = [f"{self.bin}/python", "-m", "pip", "--disable-pip-version-check", "install", "--no-index"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHONPATH"))}
        return subprocess.run(
            [*command, "--find-links", str(self.wheels), *words],
            capture_output=True, text=True, check=False, env={**clean, "PIP_CONFIG_FILE": os.devnull},
        )  # fmt: skip

    def error(self, text: str) -> None:
        raise RuntimeError(text)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    wheel(folder, "torch", "2.14.0", CUDA)
    wheel(folder, "modest", "1.0", "", "torch")
    wheel(folder, "greedy", "1.0", "", "torch==2.14.0")
    return folder


@pytest.fixture
def session(tmp_path: Path, wheels: Path, noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Session:  # noqa: F811
    """A fresh environment that borrows a container's torch, a ROCm build."""
    container = tmp_path / "container" / "site-packages"
    wheel(tmp_path / "vendor", "torch", "2.13.0+rocm7.2", HIP)
    with zipfile.ZipFile(next((tmp_path / "vendor").glob("*.whl"))) as file:
        file.extractall(container)
    subprocess.run([sys.executable, "-m", "virtualenv", "-q", str(tmp_path / "env")], check=True)
    made = Session(tmp_path / "env", wheels)
    monkeypatch.setattr(sys, "path", [str(container)])
    made.kept = {
        "torch": noxfile._ask_build([sys.executable, "-S"]) or None,
        "distributions": noxfile._distributions(),
    }  # type: ignore[attr-defined]
    assert made.kept["distributions"] == {"torch": "2.13.0+rocm7.2"}  # type: ignore[attr-defined]
    made.limits = noxfile._borrow(made, made.kept)  # type: ignore[attr-defined]
    made.kept["torch"] = noxfile._build(made)  # type: ignore[attr-defined]
    return made


def test_what_asks_for_any_torch_gets_the_containers(session: Any, noxfile: ModuleType) -> None:  # noqa: F811
    """A package that needs torch is installed beside the container's, which stays."""
    done = session.install("modest", *session.limits)
    assert done.returncode == 0, done.stderr
    assert session.kept["torch"]["version"] == "2.13.0+rocm7.2"
    noxfile._check_build(session, session.kept)


def test_what_asks_for_another_torch_is_refused(session: Any, noxfile: ModuleType) -> None:  # noqa: F811
    """A package that pins another torch cannot be installed: the resolver says so and nothing changes."""
    done = session.install("greedy", *session.limits)
    assert done.returncode != 0
    assert "conflicting dependencies" in done.stderr
    noxfile._check_build(session, session.kept)


def test_a_replaced_torch_stops_the_session(session: Any, noxfile: ModuleType) -> None:  # noqa: F811
    """Where something replaced it all the same, the session stops, names both builds and says what to do."""
    assert session.install("greedy").returncode == 0  # without the limits, as a careless step would
    with pytest.raises(RuntimeError, match="torch was replaced") as caught:
        noxfile._check_build(session, session.kept)
    words = str(caught.value)
    assert "it was version 2.13.0+rocm7.2, hip 7.2, it is version 2.14.0, cuda 13.0" in words
    assert "HARNESS_TORCH=install" in words


def test_a_torch_that_is_gone_stops_the_session(session: Any, noxfile: ModuleType) -> None:  # noqa: F811
    """An environment in which torch cannot be imported any more is no environment to run in."""
    Path(session.virtualenv.location, "lib").glob("python3*/site-packages/borrowed.pth").__next__().unlink()
    with pytest.raises(RuntimeError, match="it is no torch that can be imported"):
        noxfile._check_build(session, session.kept)


def test_when_a_torch_is_kept(noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A vendor's session keeps a vendor's build, the CPU's session none unless told; `install` keeps none."""
    hip = {"version": "2.13.0+rocm7.2", "hip": "7.2", "cuda": None, "rocm": None}
    plain = {**hip, "version": "2.13.0+cpu", "hip": None}
    cpu = runners.get("cpu")
    vendor = SimpleNamespace(torch_build="rocm7.2")
    monkeypatch.setattr(noxfile, "_distributions", lambda: {"torch": "2.13.0"})
    for build, runner, said, kept in [
        (hip, vendor, "", True),
        (plain, vendor, "", False),
        (hip, cpu, "", False),
        (plain, cpu, "keep", True),
        (hip, vendor, "install", False),
    ]:
        monkeypatch.setenv(noxfile.KEEP, said)
        monkeypatch.setattr(noxfile, "_ask_build", lambda _, build=build: build)
        assert (noxfile._kept_torch(runner) is not None) is kept, (build, said)


@pytest.mark.parametrize(("said", "there"), [("maybe", {"torch": "1"}), ("keep", {})])
def test_a_wrong_choice_is_one_line(
    said: str,
    there: dict[str, str],
    noxfile: ModuleType,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another word, or keeping what is not there, ends with 2 and names the variable."""
    monkeypatch.setenv(noxfile.KEEP, said)
    monkeypatch.setattr(noxfile, "_distributions", lambda: there)
    with pytest.raises(SystemExit) as caught:
        noxfile._kept_torch(runners.get("cpu"))
    assert caught.value.code == 2
    assert f"{noxfile.KEEP}={said}" in capsys.readouterr().err


def test_the_words_that_ask_torch_work_on_the_real_one(noxfile: ModuleType) -> None:  # noqa: F811
    """The real torch answers with its version and no vendor where it is a CPU build."""
    found = noxfile._ask_build([sys.executable])
    assert found is not None
    assert found["version"].startswith("2.")
