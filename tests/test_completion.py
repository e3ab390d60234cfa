"""A shell completes `harness`: commands, options, choices and runs; asked through bash itself, as a person's shell asks."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import builders
from harness import ROOT, buy_forms, commands, reports, rundir, runners

BASH = shutil.which("bash")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with two runs, a folder that is none, and the `harness` command."""
    for at, name in enumerate(("20270101-old", "20270102-new")):
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        rundir.write_header(run, builders.make_header())
        os.utime(run / "run.json", (1000 + at, 1000 + at))
    (tmp_path / "runs" / "2027-none").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "notes.txt").touch()
    script = tmp_path / "bin" / "harness"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom harness.cli import main\nsys.exit(main())\n")
    script.chmod(0o755)
    return tmp_path


def complete(folder: Path, line: str) -> list[str]:
    """What bash offers after this line, by the function that `register-python-argcomplete` gives it."""
    assert BASH is not None
    given = subprocess.run(
        [sys.executable, "-c", "import argcomplete; print(argcomplete.shellcode(['harness']))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    script = f"""{given}
COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_TYPE=9 COMP_CWORD={len(words) - 1}
COMP_WORDS=({" ".join(map(shlex.quote, words))})
_python_argcomplete harness {shlex.quote(words[-1])} {shlex.quote(words[-2])} 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        [BASH, "--norc", "--noprofile", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [word.strip() for word in done.stdout.splitlines() if word.strip()]


def test_every_report_form_is_offered(folder: Path) -> None:
    """After `--format` each form that there is, whatever forms are added."""
    assert sorted(complete(folder, "harness report runs/x --format ")) == sorted(reports.names())
    assert sorted(complete(folder, "harness buy runs/x --format ")) == sorted(buy_forms.names())


def test_a_begun_word_is_ended(folder: Path) -> None:
    """What is typed already chooses; a choice that the user's word does not begin is not offered."""
    assert complete(folder, "harness report --format js") == ["json"]
    assert complete(folder, "harness rep") == ["report"]
    assert complete(folder, "harness report --exp") == ["--expect"]


def test_commands_are_offered(folder: Path) -> None:
    """Every subcommand that there is."""
    assert set(commands.names()) <= set(complete(folder, "harness "))


def test_runs_are_offered(folder: Path) -> None:
    """Runs under runs/ and no other folder there; a word that no run has is completed as a folder, never as a file."""
    assert set(complete(folder, "harness report ")) >= {"runs/20270101-old", "runs/20270102-new"}
    assert sorted(complete(folder, "harness export runs/20")) == ["runs/20270101-old", "runs/20270102-new"]
    assert complete(folder, "harness resume else") == ["elsewhere/"]
    assert complete(folder, "harness report not") == []
    assert complete(folder, "harness report --output not") == ["notes.txt"]


def test_runners_are_offered(folder: Path) -> None:
    """The kinds of machine, where one is named."""
    assert sorted(complete(folder, "harness doctor --runner ")) == sorted(runners.names())
    assert sorted(complete(folder, "harness report x --expect ")) == sorted(runners.names())


def test_the_command_is_marked_for_global_completion() -> None:
    """argcomplete's completion of all commands looks for a mark in the first 1024 bytes of the program."""
    assert b"PYTHON_ARGCOMPLETE_OK" in (ROOT / "harness" / "cli.py").read_bytes()[:1024]


def test_without_argcomplete_nothing_breaks(tmp_path: Path) -> None:
    """Where argcomplete is not installed a shell gets no answer, the command works, and no call loads it."""
    (tmp_path / "argcomplete.py").write_text("raise ImportError('not installed')\n")
    path = f"{tmp_path}:{ROOT}"
    for more in ({}, {"_ARGCOMPLETE": "1", "COMP_LINE": "harness ", "COMP_POINT": "8"}):
        done = subprocess.run(
            [sys.executable, "-m", "harness.cli", "--version"],
            env={**os.environ, "PYTHONPATH": path, **more},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("harness ")
    code = "import sys; from harness import cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass\n"
    code += "assert 'argcomplete' not in sys.modules and 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
