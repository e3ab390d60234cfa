"""`harness doctor` for real: on this machine, without torch, from files, and with secrets about."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runs
from doctor_machines import AROUND, MADE, amd, but, cpu, machine
from harness import ROOT, doctor, doctor_edge, doctor_text
from harness.errors import UsageError
from harness.runners.facts.checks_base import STATES
from harness.runners.facts.snapshot import TorchFacts, to_json
from harness.typed import mistyped

SECRETS = {
    "WANDB_API_KEY": "hush-key-1f2e3d",
    "WANDB_MODE": "hush-mode-4c5b6a",
    "HF_TOKEN": "hush-token-7d8e9f",
    "HSA_TOKEN": "hush-hsa-0a1b2c",
    "OMP_PASSWORD": "hush-omp-3d4e5f",
    "MKL_SECRET": "hush-mkl-6a7b8c",
}


def test_this_machine(tmp_path: Path) -> None:
    """On this machine's CPU nothing is wrong; what was saved is judged alike elsewhere; and no secret is in any of it."""
    saved = tmp_path / "seen.json"
    words = ("doctor", "--runner", "cpu", "--target", "reference")
    done = runs.harness(*words, "--format", "json", "--save", str(saved), variables=SECRETS)
    told = json.loads(done.stdout)
    assert done.returncode == told["exit_status"] == 0, done.stdout
    assert (told["runner"], told["chosen"], told["available"]) == ("cpu", None, True)
    states = {f["check"]: f["state"] for f in told["findings"]}
    assert states["torch"] == states["product"] == states["decord"] == states["wandb"] == "fine"
    again = runs.harness("doctor", "--snapshot", str(saved), "--format", "json")
    assert json.loads(again.stdout)["findings"] == told["findings"]
    shown = runs.harness("doctor", "--snapshot", str(saved))
    assert shown.stdout.startswith("FINE")
    everything = done.stdout + done.stderr + again.stdout + shown.stdout + saved.read_text()
    assert "hush" not in everything
    assert "WANDB_API_KEY" in everything


def test_an_interpreter_without_packages() -> None:
    """With the standard library alone the doctor looks at what needs no torch, and says that the rest cannot be told."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        [sys.executable, "-S", "-m", "harness.cli", "doctor", "--runner", "cpu", "--format", "json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(done.stdout)
    states = {f["check"]: f["state"] for f in told["findings"]}
    assert states["torch"] == states["product"] == states["decord"] == states["ffmpeg"] == "unknown"
    assert states["runner"] == states["memory"] == states["disk"] == "fine"
    assert done.returncode == told["exit_status"] == 3
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--runner", "abacus"), "--runner abacus"),
        (("--runner", "cpu", "--target", "abacus"), "--target abacus"),
        (("--devices", "0"), "--devices 0"),
        (("--snapshot", "/nowhere/x.json"), "/nowhere/x.json"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], told: str) -> None:
    """A mistake in the call ends with 2 and one line that names the value."""
    done = runs.harness("doctor", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert told in done.stderr


DAMAGED = [
    b"",
    b"{",
    b"[]",
    b"7",
    b"null",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b"{}",
    b'{"system": "linux"}',
    b'{"system": "linux", "machine": "x86_64", "shm_bytes": "much"}',
    b'{"system": "linux", "machine": "x86_64", "shm_bytes": true}',
    b'{"system": "linux", "machine": "x86_64", "environment": ["A"]}',
    b'{"system": "linux", "machine": "x86_64", "environment": {"A": 1}}',
    b'{"system": "linux", "machine": "x86_64", "torch": "2.13"}',
    b'{"system": "linux", "machine": "x86_64", "torch": {"devices": [7]}}',
    b'{"system": "linux", "machine": "x86_64", "torch": {"devices": [{"index": 0}]}}',
    b'{"system": "linux", "machine": "x86_64", "torch": {"devices": [{"index": 0, "name": "a", "capability": [9]}]}}',
    b'{"system": "linux", "machine": "x86_64", "devices": 3}',
    b'{"system": "linux", "machine": "x86_64", "surroundings": []}',
    b'{"system": "linux", "machine": "x86_64", "surroundings": {"imports": {"decord": 1}}}',
    b'{"system": null, "machine": "x86_64"}',
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_snapshot_is_one_line(text: bytes, tmp_path: Path) -> None:
    """A file that is no snapshot is a user's mistake, told in a line with the remedy."""
    path = tmp_path / "damaged.json"
    path.write_bytes(text)
    if text.endswith(b'"surroundings": []}'):
        assert doctor_edge.read_snapshot(path)[1].target is None  # empty: as if there were none
        return
    with pytest.raises(UsageError) as caught:
        doctor_edge.read_snapshot(path)
    assert "\n" not in str(caught.value)
    assert "--save" in str(caught.value)


@settings(max_examples=60)
@given(data=st.data())
def test_a_value_of_another_type_is_refused_or_judged(data: st.DataObject, tmp_path: Path) -> None:
    """A snapshot with any one value replaced by any JSON value is refused in one line, or judged without an error."""
    whole = json.loads(json.dumps({**to_json(amd()), "surroundings": {"target": "vitra"}}))
    place, key = whole, data.draw(st.sampled_from(sorted(whole)))
    while isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
        place = place[key]
        inner = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(inner))
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    place[key] = data.draw(
        plain | st.lists(plain, max_size=2) | st.dictionaries(st.text(max_size=3), plain, max_size=2)
    )
    path = tmp_path / "seen.json"
    path.write_text(json.dumps(whole), encoding="utf-8", errors="surrogatepass")
    said = "judged"
    try:
        seen, around, _ = doctor_edge.read_snapshot(path)
        chosen, why = doctor_edge.recorded_machine(seen, None)
    except UsageError as error:
        said = str(error)
    else:
        assert doctor_text.render_terminal(chosen, doctor.judge_machine(chosen, around=around), why)
    assert len(said.splitlines()) == 1


def test_a_snapshot_written_by_a_runner_is_read_back(tmp_path: Path) -> None:
    """What --save writes, --snapshot reads: the same snapshot, the same surroundings, the same runner."""
    path = tmp_path / "seen.json"
    for name in ("cpu", "rocm", "cuda"):
        seen = MADE[name]()
        doctor_edge.write_snapshot(path, machine(name, seen), AROUND)
        assert doctor_edge.read_snapshot(path) == (seen, AROUND, name)
        assert mistyped(seen) is None


def test_a_secret_in_a_snapshot_is_not_saved(tmp_path: Path) -> None:
    """Whatever a probe let through, a variable whose name speaks of a secret is not written."""
    path = tmp_path / "seen.json"
    seen = cpu(environment={"HF_TOKEN": "hush", "my_api_key": "hush", "OMP_NUM_THREADS": "1"})
    doctor_edge.write_snapshot(path, machine("cpu", seen), AROUND)
    assert "hush" not in path.read_text()
    assert "OMP_NUM_THREADS" in path.read_text()


def test_the_terminal_form_fits() -> None:
    """At 80 columns no line is longer, what is wrong comes first, and each of it has its why and its remedy."""
    seen = but(amd(), shm_bytes=64 << 20, torch=TorchFacts("2.13.0+cu130", {"cuda": "13.0"}, error="x" * 300))
    here = machine("rocm", seen)
    findings = doctor.judge_machine(here)
    text = doctor_text.render_terminal(here, findings, "chosen: " + "long " * 40, width=80)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("WRONG: ")
    states = [line.split()[0] for line in lines if line.split()[0] in STATES]
    assert states == sorted(states, key=lambda s: STATES.index(s))  # type: ignore[arg-type]
    assert text.count("why: ") == text.count("do:  ") == sum(f.state != "fine" for f in findings)


def test_colors_only_when_asked() -> None:
    """Escape codes are in the colored form alone, the words are the same, and what a machine says brings none."""
    here = machine("cpu", but(cpu(), notes=("\x1b[31mred",)))
    findings = doctor.judge_machine(here)
    plain = doctor_text.render_terminal(here, findings, "")
    colored = doctor_text.render_terminal(here, findings, "", color=True)
    assert "\x1b" not in plain
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


@pytest.mark.parametrize(
    ("runner", "seen", "start"),
    [
        ("cpu", cpu(), "FINE - runner cpu"),
        ("cpu", cpu(notes=("x",)), "FINE, with 1 doubtful"),
        ("cpu", cpu(shm_bytes=1, torch=None), "CANNOT BE TOLD: torch, product"),
        ("rocm", amd(shm_bytes=1), "WRONG: "),
        ("mirage", MADE["mirage"](), "FINE - runner mirage; emulated"),
    ],
)
def test_the_first_line_is_the_verdict(runner: str, seen: Any, start: str) -> None:
    """The first line says fine, wrong or cannot be told, the runner, and whether it is emulated."""
    here = machine(runner, seen)
    text = doctor_text.render_terminal(here, doctor.judge_machine(here, around=AROUND), "")
    assert text.startswith(start)


def test_the_page_is_current() -> None:
    """docs/doctor.md lists every check as it is; docs/make_doctor_page.py writes it anew."""
    maker = _load(ROOT / "docs" / "make_doctor_page.py")
    text = maker.PAGE.read_text(encoding="utf-8")
    assert maker.page(text) == text
    assert all(f"### {c.name}\n" in text for c in doctor.every_check())


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_imports_are_tried_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that raises, one that ends the process and one that prints are told apart, each by its name."""
    for name, text in {
        "breaks_x": "raise RuntimeError('no\\nlibrary')",
        "dies_x": "import os; os._exit(3)",
        "prints_x": "print('harness-doctor-imports: {}')",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    told = doctor_edge._imports(["json", "breaks_x", "dies_x", "prints_x"])
    assert told["json"] == told["prints_x"] == ""
    assert told["breaks_x"] == "RuntimeError: no library"
    assert "ended with 3" in told["dies_x"]
