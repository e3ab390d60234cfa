"""What `harness runners --matrix` promises: every runner is started, or is off for a reason, or is missed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import ROOT, matrix, runners
from harness.errors import UsageError
from harness.matrix import Kind, Plan, plan
from harness.merged import Off

TODAY = date(2027, 1, 15)
CPU = Kind("cpu", plain=True, emulated=False)
GPU = Kind("gpu", plain=False, emulated=False, image="vendor/torch:1", options=("--device=/dev/x", "--a b"))
SLOW = Kind("slow", plain=False, emulated=True, time_factor=10.0)
KINDS = (CPU, GPU, SLOW)
LABELS = {"HARNESS_GPU_LABELS": '["self-hosted", "gpu"]', "HARNESS_SLOW_LABELS": '["slow"]'}


def made(variables: dict[str, str] | None = None, **options: Any) -> Plan:
    options.setdefault("today", TODAY)
    return plan(KINDS, LABELS if variables is None else variables, options.pop("off", ()), **options)


def entry(found: Plan, runner: str) -> dict[str, Any]:
    (one,) = [e for e in found.include if e["runner"] == runner]
    return dict(one)


def test_each_runner_has_a_machine() -> None:
    """Labels come from the variables; a plain runner has a hosted machine, and no container."""
    found = made()
    assert [e["runner"] for e in found.include] == ["cpu", "gpu", "slow"]
    assert entry(found, "cpu") | {"minutes": 0} == {
        "runner": "cpu",
        "labels": ["ubuntu-24.04"],
        "hosted": True,
        "container": "",
        "environment": "",
        "emulated": False,
        "index": "",
        "minutes": 0,
    }
    assert entry(found, "gpu")["labels"] == ["self-hosted", "gpu"]
    assert entry(found, "gpu")["container"] == {
        "image": "vendor/torch:1",
        "options": "--device=/dev/x '--a b'",
    }
    assert entry(found, "slow")["container"] == ""
    assert entry(found, "slow")["emulated"] is True
    assert found.notes == ()


def test_a_runner_without_labels_is_missed() -> None:
    """It is not started, and stays expected, with the variable and the file named."""
    found = made({"HARNESS_SLOW_LABELS": '["slow"]', "HARNESS_GPU_LABELS": "  "})
    assert [e["runner"] for e in found.include] == ["cpu", "slow"]
    assert found.expected == ("cpu", "gpu", "slow")
    (note,) = found.notes
    assert "HARNESS_GPU_LABELS" in note
    assert "runners_off.toml" in note


def test_off_until_the_last_day_included() -> None:
    """A runner that is off is not started, the plan says why; on the day after it is started and this is said."""
    off = [Off("gpu", "being moved", "2027-01-15")]
    before, after = made(off=off), made(off=off, today=date(2027, 1, 16))
    assert [e["runner"] for e in before.include] == ["cpu", "slow"]
    assert before.notes == ("gpu is switched off until 2027-01-15: being moved",)
    assert [e["runner"] for e in after.include] == ["cpu", "gpu", "slow"]
    assert "its last day off was 2027-01-15 (being moved)" in after.notes[0]
    assert before.expected == after.expected == ("cpu", "gpu", "slow")


def test_a_fork_reaches_own_machines_by_approval_alone() -> None:
    """From a fork only hosted machines start; with an environment named, own machines start behind it."""
    alone = made(untrusted=True)
    assert [e["runner"] for e in alone.include] == ["cpu"]
    assert alone.expected == ("cpu", "gpu", "slow")
    assert all("HARNESS_FORK_ENVIRONMENT" in n for n in alone.notes)
    approved = made({**LABELS, "HARNESS_FORK_ENVIRONMENT": "approved"}, untrusted=True)
    assert {e["runner"]: e["environment"] for e in approved.include} == {
        "cpu": "",
        "gpu": "approved",
        "slow": "approved",
    }
    trusted = made({**LABELS, "HARNESS_FORK_ENVIRONMENT": "approved"})
    assert {e["environment"] for e in trusted.include} == {""}


@given(
    st.dictionaries(st.sampled_from(["cpu", "gpu", "slow"]), st.integers(1, 28)),
    st.sets(st.sampled_from(["HARNESS_GPU_LABELS", "HARNESS_SLOW_LABELS", "HARNESS_CPU_LABELS"])),
    st.booleans(),
    st.sampled_from(["", "approved"]),
)
def test_nobody_is_dropped(off: dict[str, int], named: set[str], untrusted: bool, environment: str) -> None:
    """Whatever is set: all are expected, and one that is not started has a note; a fork is never on an own machine
    without the environment."""
    variables = dict.fromkeys(named, '["a"]') | {"HARNESS_FORK_ENVIRONMENT": environment}
    found = made(
        variables, off=[Off(n, "why", f"2027-01-{d:02}") for n, d in off.items()], untrusted=untrusted
    )
    assert found.expected == ("cpu", "gpu", "slow")
    started = {e["runner"] for e in found.include}
    for name in set(found.expected) - started:
        assert any(n.startswith(f"{name} is ") or n.startswith(f"{name} has no") for n in found.notes)
    for e in found.include:
        assert e["hosted"] or not untrusted or e["environment"] == "approved"
        assert e["minutes"]["job"] > sum(v for k, v in e["minutes"].items() if k != "job")
        assert off.get(e["runner"], 0) < TODAY.day
        assert e["hosted"] == (e["labels"] == ["ubuntu-24.04"])


def test_variables_change_image_options_time_and_index() -> None:
    """Another image drops the options of the runner's own; `none` drops the container."""
    found = made({**LABELS, "HARNESS_GPU_OPTIONS": "--group-add 109", "HARNESS_GPU_MINUTES": "15"})
    assert entry(found, "gpu")["container"]["options"] == "--device=/dev/x '--a b' --group-add 109"
    assert entry(found, "gpu")["minutes"]["suites"] == 15
    found = made({**LABELS, "HARNESS_GPU_IMAGE": "own:2", "HARNESS_SLOW_IMAGE": "other:1"})
    assert entry(found, "gpu")["container"] == {"image": "own:2", "options": ""}
    assert entry(found, "slow")["container"] == {"image": "other:1", "options": ""}
    found = made({**LABELS, "HARNESS_GPU_IMAGE": "none", "HARNESS_CPU_INDEX": "https://example.org/whl"})
    assert entry(found, "gpu")["container"] == ""
    assert entry(found, "cpu")["index"] == "https://example.org/whl"
    assert entry(found, "slow")["minutes"]["suites"] == 300


@pytest.mark.parametrize(
    ("variables", "options", "says"),
    [
        (
            {"HARNESS_GPU_LABELS": "gpu"},
            {},
            'HARNESS_GPU_LABELS=gpu: write labels as a JSON list, ["self-hosted',
        ),
        ({"HARNESS_GPU_LABELS": "[]"}, {}, "HARNESS_GPU_LABELS=[]"),
        ({"HARNESS_GPU_LABELS": '["a", 1]'}, {}, "HARNESS_GPU_LABELS"),
        ({"HARNESS_GPU_LABELS": '[" "]'}, {}, "HARNESS_GPU_LABELS"),
        ({"HARNESS_CPU_MINUTES": "0"}, {}, "HARNESS_CPU_MINUTES=0: a number of minutes, 1 to 4000"),
        ({"HARNESS_CPU_MINUTES": "an hour"}, {}, "HARNESS_CPU_MINUTES=an hour"),
        ({**LABELS, "HARNESS_GPU_OPTIONS": "--a 'b"}, {}, "HARNESS_GPU_OPTIONS=--a 'b"),
        (
            {},
            {"off": [Off("gpv", "typo", "2027-12-31")]},
            "runners_off.toml: gpv: no such runner; there are: cpu",
        ),
        ({}, {"only": ["tpu"]}, "runners: tpu: no such runner"),
    ],
)
def test_a_mistake_names_the_value(variables: dict[str, str], options: dict[str, Any], says: str) -> None:
    """A variable or an entry that cannot be used is refused by name."""
    with pytest.raises(UsageError) as caught:
        made(variables, **options)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_those_that_are_named() -> None:
    """A caller that asks for some runners gets these, and is told of no other."""
    found = made(only=["slow", "cpu"])
    assert [e["runner"] for e in found.include] == ["cpu", "slow"]
    assert found.expected == ("cpu", "slow")


@given(st.text(alphabet="ab-_.9Z", min_size=1, max_size=12))
def test_names_of_variables(name: str) -> None:
    """Whatever a third party calls its runner, its variable has a name that GitHub takes."""
    assert set(matrix.variable(name, "LABELS")) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def command(*words: str, where: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command as the preparing job has it: no package is installed."""
    program = f"import sys; sys.path.insert(0, {str(where)!r}); from harness.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, "runners", "--matrix", *words],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the preparing job has Python 3.12; 3.10 needs tomli")
def test_outputs_for_github(tmp_path: Path) -> None:
    """With the standard library alone: one line an output, and what the merging job needs in a folder."""
    done = command(
        "--off",
        str(tmp_path / "none.toml"),
        "--plan",
        str(tmp_path / "plan"),
        GITHUB_ACTIONS="true",
        HARNESS_MATRIX_VARS=json.dumps({"HARNESS_ROCM_LABELS": '["a\\nb"]', "OTHER": "x"}),
    )
    assert done.returncode == 0, done.stderr
    outputs = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert [e["runner"] for e in json.loads(outputs["matrix"])["include"]] == ["cpu", "rocm"]
    assert json.loads(outputs["expect"]) == list(runners.names())
    assert outputs["any"] == "true"
    assert "::warning title=runners::cuda has no machine" in done.stderr
    told = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert told["expect"] == list(runners.names())
    assert sorted(p.name for p in (tmp_path / "plan" / "baselines").iterdir()) == sorted(
        p.name for p in (ROOT / "baselines").iterdir()
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the preparing job has Python 3.12; 3.10 needs tomli")
@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"HARNESS_MATRIX_VARS": "[]"}, "HARNESS_MATRIX_VARS=[]: must hold a JSON object"),
        ({"HARNESS_MATRIX_VARS": "{"}, "must hold a JSON object"),
        ({"HARNESS_MATRIX_ONLY": "cpu"}, "HARNESS_MATRIX_ONLY=cpu: must hold a JSON list"),
    ],
)
def test_a_bad_environment_is_one_line(variables: dict[str, str], says: str) -> None:
    """A variable of the step that is no JSON ends with 2 and one line."""
    done = command(**variables)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the preparing job has Python 3.12; 3.10 needs tomli")
def test_a_new_runner_appears_by_itself(tmp_path: Path) -> None:
    """One more file in the folder of runners is one more entry, without a change elsewhere."""
    import shutil

    shutil.copytree(ROOT / "harness", tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "baselines").mkdir()
    text = (ROOT / "harness" / "runners" / "cpu.py").read_text()
    (tmp_path / "harness" / "runners" / "toaster.py").write_text(text.replace('"cpu"', '"toaster"', 1))
    done = command("--format", "json", where=tmp_path)
    assert "toaster" in json.loads(done.stdout)["expect"], done.stderr


def test_the_example_is_empty() -> None:
    """The file in the repository is an example and switches nobody off."""
    from harness import switched_off

    path = ROOT / "runners_off.toml"
    assert switched_off.load(path) == ()
    shown = "\n".join(
        line[2:] for line in path.read_text().splitlines() if line.startswith(("# [[", "# r", "# l"))
    )
    assert "[[off]]" in shown
    assert 'reason = "' in shown
