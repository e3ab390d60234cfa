"""The workflows in `.github`: what holds of every file, and that the linters see what is planted."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import workflow_stage
from harness import ROOT, matrix

WORKFLOWS = workflow_stage.workflows()
ACTIONS = workflow_stage.actions()
JOBS = [(file, name, job) for file, w in WORKFLOWS.items() for name, job in w["jobs"].items()]
STEPS = [
    *((f"{file} {name}", step) for file, name, job in JOBS for step in job.get("steps", ())),
    *((name, step) for name, action in ACTIONS.items() for step in action["runs"]["steps"]),
]
FILES = [*workflow_stage.GITHUB.glob("workflows/*"), *workflow_stage.GITHUB.glob("actions/*/*")]
WRITES = {
    ("report.yml", "comment"): {"pull-requests"},
    ("baseline.yml", "accept"): {"contents", "pull-requests"},
}
"""The only jobs that may write, and what."""


def ids(value: Any) -> str:
    return value if isinstance(value, str) else ""


def test_there_is_something_to_check() -> None:
    """The files that this promises are there."""
    assert set(WORKFLOWS) == {"ci.yml", "gpu.yml", "harness.yml", "nightly.yml", "baseline.yml", "report.yml"}
    assert set(ACTIONS) == {"harness"}
    assert len(STEPS) > 50


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_actions_are_pinned(path: Path) -> None:
    """Another's action is named by its whole commit, with the version beside it, the same one everywhere."""
    pins = {}
    for file in FILES:
        for action, rest in re.findall(r"^\s*(?:- )?uses: (\S+?)(?:@(.*))?$", file.read_text(), re.MULTILINE):
            if action.startswith("./"):
                assert rest == ""
                continue
            assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", rest), f"{file.name}: {action}@{rest}"
            assert pins.setdefault(action, rest) == rest
    assert path.suffix == ".yml"
    assert len(pins) >= 5


@pytest.mark.parametrize("file", WORKFLOWS)
def test_nothing_is_permitted_by_default(file: str) -> None:
    """A workflow permits nothing; each job names what it may, and only two jobs may write."""
    assert WORKFLOWS[file]["permissions"] == {}
    for name, job in WORKFLOWS[file]["jobs"].items():
        permits = job["permissions"]
        assert isinstance(permits, dict), f"{name}: {permits}"
        assert {k for k, v in permits.items() if v != "read"} == WRITES.get((file, name), set())


@pytest.mark.parametrize(("where", "step"), STEPS, ids=ids)
def test_no_expression_stands_in_a_script(where: str, step: dict[str, Any]) -> None:
    """What comes from outside reaches a script through its environment, never as its text."""
    assert "${{" not in step.get("run", ""), where
    assert step["name"]


@pytest.mark.parametrize(("where", "step"), STEPS, ids=ids)
def test_no_checkout_keeps_its_token(where: str, step: dict[str, Any]) -> None:
    """A checkout leaves no token behind for what runs after it, and none checks out a fork's code for a token that
    writes."""
    if step.get("uses", "").startswith("actions/checkout@"):
        assert step["with"]["persist-credentials"] == "false" or step["with"]["persist-credentials"] is False
        assert "head" not in str(step["with"].get("ref", "")), where


@pytest.mark.parametrize(("file", "name", "job"), JOBS, ids=ids)
def test_steps_end_before_their_job(file: str, name: str, job: dict[str, Any]) -> None:
    """Every script has a limit, and all of them together end before the job, so that artifacts are uploaded."""
    if "uses" in job:
        return
    entry = matrix.plan(
        [matrix.Kind("cpu", True, False)], {"HARNESS_CPU_MINUTES": "4000"}, today=matrix.date.today()
    ).include[0]

    def minutes(value: Any) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"\$\{\{ matrix\.minutes\.(\w+) \}\}", str(value))
        assert found, f"{file} {name}: {value!r} is no limit"
        return int(entry["minutes"][found[1]])

    limits = [minutes(s["timeout-minutes"]) for s in job["steps"] if "run" in s or "./" in s.get("uses", "")]
    assert limits
    assert sum(limits) < minutes(job["timeout-minutes"])


@pytest.mark.parametrize(("where", "step"), STEPS, ids=ids)
def test_results_are_uploaded_whatever_happened(where: str, step: dict[str, Any]) -> None:
    """An upload of a run or a report does not wait for success."""
    if step.get("uses", "").startswith("actions/upload-artifact@") and step["name"] != "Upload the plan":
        assert step["if"] == "always()", where


def test_strangers_reach_no_machine_with_a_token() -> None:
    """No workflow runs a pull request's code with its own rights, and the one that comments has the default branch's."""
    for file, workflow in WORKFLOWS.items():
        on = workflow["on"]
        assert "pull_request_target" not in on
        if "workflow_run" in on:
            assert file == "report.yml"
            assert set(on["workflow_run"]["workflows"]) == {"ci", "devices"}
    assert {WORKFLOWS[f]["name"] for f in ("ci.yml", "gpu.yml")} == {"ci", "devices"}
    assert "untrusted" in WORKFLOWS["gpu.yml"]["jobs"]["devices"]["with"]


@pytest.mark.parametrize("file", sorted({f for f, w in WORKFLOWS.items() if "workflow_call" not in w["on"]}))
def test_runs_do_not_pile_up(file: str) -> None:
    """Each workflow that GitHub starts is in a concurrency group; none that writes is cancelled on the way."""
    group = WORKFLOWS[file]["concurrency"]
    assert group["group"]
    if file in ("baseline.yml", "nightly.yml", "report.yml"):
        assert group["cancel-in-progress"] is False


@pytest.mark.parametrize(("where", "step"), STEPS, ids=ids)
def test_scripts_are_bash(where: str, step: dict[str, Any], tmp_path: Path) -> None:
    """Bash reads every script."""
    if "run" in step:
        script = tmp_path / "script"
        script.write_text(step["run"])
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{where}: {done.stderr}"


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / ".github" / "lint.py", str(root)], capture_output=True, text=True, check=False
    )


LINTERS = all(shutil.which(n) or (Path(sys.executable).parent / n).exists() for n in ("actionlint", "zizmor"))


@pytest.mark.skipif(
    not LINTERS, reason="actionlint and zizmor are not installed here; `nox -s workflows` has them"
)
@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("workflows/ci.yml", "", "", "clean"),
        ("workflows/harness.yml", "outputs.any ==", "outputs.anny ==", "findings of actionlint"),
        ("workflows/ci.yml", "persist-credentials: false", "fetch-depth: 1", "findings of zizmor"),
        ("workflows/ci.yml", "permissions: {}", "permissions: write-all", "findings of zizmor"),
        ("actions/harness/action.yml", '"$CI_RUNNER"', '"${{ inputs.runner }}"', "findings of zizmor"),
    ],
)
def test_the_linters_see_faults(file: str, old: str, new: str, says: str, tmp_path: Path) -> None:
    """The files are clean, and a planted fault is found and ends with another status."""
    shutil.copytree(ROOT / ".github", tmp_path / ".github")
    path = tmp_path / ".github" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new) if old else path.read_text())
    done = lint(tmp_path)
    assert says in done.stdout, done.stdout + done.stderr
    assert done.returncode == (0 if says == "clean" else 1)


def test_nothing_to_lint_is_a_mistake(tmp_path: Path) -> None:
    """No workflow file at all is no success."""
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    done = lint(tmp_path)
    assert done.returncode == 2
    assert "nothing was checked" in done.stderr


def test_a_missing_linter_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a linter nothing is called clean."""
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    done = subprocess.run(
        [str(python), str(ROOT / ".github" / "lint.py")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no actionlint: python -m pip install" in done.stderr
    assert "clean" not in done.stdout
