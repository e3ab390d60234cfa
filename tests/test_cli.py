"""The `harness` command: exit statuses, one-line mistakes, and what it must not wait for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import runs
from builders import CONTROL, case, make_record, make_run
from harness import ROOT


def test_help_waits_for_nothing_heavy() -> None:
    """`harness --help` and `harness report` import neither torch, numpy, decord nor pytest."""
    code = (
        "import sys, harness.cli as c\n"
        "try: c.main(['--help'])\n"
        "except SystemExit: pass\n"
        "early = {'rich', 'harness.judge', 'harness.reports'} & set(sys.modules)\n"
        "import harness.judge, harness.baselines, harness.reports as r; r.formats()\n"
        "print('LOADED', sorted(early | ({'torch', 'numpy', 'decord', 'pytest'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout


@pytest.mark.parametrize(
    ("outcome", "status", "word"), [("passed", 0, "GREEN"), ("failed", 1, "RED"), ("error", 3, "NO VERDICT")]
)
def test_exit_status_follows_the_verdict(outcome: str, status: int, word: str, tmp_path: Path) -> None:
    """0 green, 1 red, 3 no verdict; the first line is the verdict, data goes to stdout alone."""
    folder = runs.write(tmp_path / "run", make_run([make_record(case("a"), outcome)]))
    done = runs.harness("report", str(folder), "--baselines", str(tmp_path / "none"))
    assert done.returncode == status
    assert done.stdout.startswith(word)
    assert done.stderr == ""


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
def test_every_format_can_go_to_a_file(form: str, tmp_path: Path) -> None:
    """`--output` holds what stdout would."""
    folder = runs.write(tmp_path / "run", make_run([make_record(case("a"))]))
    words = ("report", str(folder), "--format", form, "--baselines", str(tmp_path / "none"))
    printed = runs.harness(*words)
    runs.harness(*words, "--output", str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == printed.stdout
    if form == "json":
        assert json.loads(printed.stdout)["status"] == "green"


def test_the_forms_of_a_session_are_made_at_once(tmp_path: Path) -> None:
    """`--into DIR` makes the folder and leaves there what each form alone holds; stdout has the form asked for."""
    folder = runs.write(tmp_path / "run", make_run([make_record(case("a"), "failed")]))
    words = ("report", str(folder), "--baselines", str(tmp_path / "none"))
    done = runs.harness(*words, "--into", str(tmp_path / "new" / "reports"))
    assert done.returncode == 1
    assert done.stdout == runs.harness(*words).stdout
    files = {"html": "report.html", "markdown": "report.md", "json": "report.json", "junit": "junit.xml"}
    assert {p.name for p in (tmp_path / "new" / "reports").iterdir()} == set(files.values())
    for form, name in files.items():
        printed = runs.harness(*words, "--format", form).stdout
        assert (tmp_path / "new" / "reports" / name).read_text(encoding="utf-8") == printed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("report", "/nonexistent"), "/nonexistent: no run.json there; name the folder of a run"),
        (
            ("report", "RUN", "--format", "pdf"),
            "--format pdf: no such format; there are: annotations, badge, html, json, junit, markdown, "
            "pull_request, summary, terminal",
        ),
        (
            ("report", "RUN", "--output", "/nonexistent/x"),
            "--output /nonexistent/x: No such file or directory",
        ),
        (("report", "RUN", "--into", "/dev/null/x"), "--into /dev/null/x: Not a directory"),
        (
            ("defects", "--suite", "nope"),
            "--suite nope: no defects for it; there are defects for: checkpoint, collectives, decoder, failfast, "
            "fsdp, preflight, smoke",
        ),
        (("targets", "--fetch", "nope"), "--target nope: no such target"),
        (("baseline", "accept", "RUN", "--reason", "todo"), "--reason 'todo': says nothing"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    """A user's mistake names the value and the remedy on one line of stderr; nothing is written."""
    folder = runs.write(tmp_path / "run", make_run([make_record(case("a"))]))
    done = runs.harness(*(str(folder) if w == "RUN" else w for w in words))
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_accept_then_report_is_same(tmp_path: Path) -> None:
    """A run accepted as baseline is `same` as itself, and a test that fails later is newly failing."""
    folder = runs.write(tmp_path / "run", make_run([make_record(case("a")), make_record(case("b"))]))
    baselines = str(tmp_path / "baselines")
    accepted = runs.harness(
        "baseline", "accept", str(folder), "--reason", "first run on this machine", "--baselines", baselines
    )
    assert accepted.returncode == 0, accepted.stderr
    assert accepted.stdout.strip().endswith("cpu-x86_64-1/vitra.decoder.json")
    report = runs.harness("report", str(folder), "--format", "json", "--baselines", baselines)
    assert {t["verdict"] for t in json.loads(report.stdout)["tests"]} == {"same"}
    worse = runs.write(
        tmp_path / "worse", make_run([make_record(case("a")), make_record(case("b"), "failed")])
    )
    report = runs.harness("report", str(worse), "--format", "json", "--baselines", baselines)
    assert report.returncode == 1
    assert {t["test"]: t["verdict"] for t in json.loads(report.stdout)["tests"]} == {
        CONTROL: "same",
        case("a"): "same",
        case("b"): "newly_failing",
    }
    listing = runs.harness("baseline", "list", "--baselines", baselines)
    assert "3 tests" in listing.stdout
    assert "first run on this machine" in listing.stdout


def test_targets_and_runners_say_what_is_here(tmp_path: Path) -> None:
    """Both list what there is, and why not where it is not."""
    done = runs.harness("targets", variables={"HARNESS_CACHE": str(tmp_path), "HARNESS_VITRA": ""})
    assert done.returncode == 0
    assert "reference: available: part of the harness" in done.stdout
    assert (
        "vitra: not available: vitra is not in the cache. Clone https://github.com/microsoft/VITRA"
        in done.stdout
    )
    assert "cpu: available: 1 x" in runs.harness("runners").stdout


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    """`harness report RUN | head -1` ends quietly."""
    folder = runs.write(
        tmp_path / "run", make_run([make_record(case(str(i)), "failed") for i in range(2000)])
    )
    command = f"{sys.executable} -m harness.cli report {folder} --format json | head -c 10"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
