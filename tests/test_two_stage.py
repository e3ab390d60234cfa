"""What a comparison with a base promises: fresh processes of both sides, a verdict from pairs, and no process run twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import runs
from harness import policy, revisions, rundir
from harness.commands.report import judged
from harness.errors import TargetUnavailable, UsageError
from harness.targets import base, checkout
from harness.targets.base import TargetSpec

# A stand-in for a timing: `steady_s` is what it always is, `decode_s` is longer where a defect is planted in reading
# frames, `odd_s` scatters by half.
SUITE = """
import random
import pytest

pytestmark = pytest.mark.repeated


def noisy(value, noise=0.003):
    return [value * random.SystemRandom().gauss(1, noise) for _ in range(5)]


def planted(target):
    return "slower" in target.frames.__qualname__


def test_control(record):
    record.metric("wait", "s", [0.005])


def test_steady(record):
    record.metric("steady_s", "s", noisy(1.0))


def test_decode(target, record):
    record.metric("decode_s", "s", noisy(1.5 if planted(target) else 1.0))


def test_odd(record):
    record.metric("odd_s", "s", noisy(1.0, 0.5))
"""
DEFECT = ("--defect", "decode-slower-fivefold", "--base", "clean")
DECODE = "suites/demo/test_demo.py::test_decode::decode_s"


def verdicts(folder: Path) -> dict[str, str]:
    """Verdict by metric of a run folder."""
    _, found = judged(folder, folder / "no-baselines")
    return {m.metric: m.verdict for m in found.metrics}


def plan_of(folder: Path) -> dict[str, Any]:
    """What pairs.json says."""
    found: dict[str, Any] = json.loads((folder / "pairs.json").read_text())
    return found


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> runs.Done:
    """A run with a planted slowdown."""
    return runs.made_up(tmp_path_factory.mktemp("slow"), SUITE, "-k", "control or steady or decode", *DEFECT)


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> runs.Done:
    """The target beside itself."""
    options = ("-k", "control or steady or decode", "--base", "clean")
    return runs.made_up(tmp_path_factory.mktemp("still"), SUITE, *options)


@pytest.fixture
def copy(still: runs.Done, tmp_path: Path) -> Path:
    """A copy of that run's folder, to be altered."""
    return Path(shutil.copytree(still.folder, tmp_path / "copy"))


def test_a_slowdown_is_decided_by_pairs(slow: runs.Done, tmp_path: Path) -> None:
    """A planted slowdown is flagged, judged by fresh pairs of its own test alone, and red after the first look."""
    done = slow
    assert done.status == 0, done.output
    run, found = judged(done.folder, tmp_path / "none")
    assert verdicts(done.folder) == {"wait": "shown", "steady_s": "unflagged", "decode_s": "regressed"}
    assert found.status == "red"
    decode = next(m for m in found.metrics if m.metric == "decode_s")
    assert (decode.processes, decode.baseline_processes) == (4, 4)
    assert decode.change == pytest.approx(0.5, abs=0.02)
    assert decode.detectable is not None
    plan = plan_of(done.folder)
    assert plan["flagged"] == [DECODE]
    assert plan["ended"] is True
    screen = [p for p in plan["processes"] if p["pair"] is None]
    paired = [p for p in plan["processes"] if p["pair"] is not None]
    assert [p["side"] for p in screen] == plan["screen"]
    assert sorted(plan["screen"]) == ["base"] * 4 + ["head"] * 2
    assert [p["pair"] for p in paired] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [p["side"] for p in paired] == [side for pair in plan["order"][:4] for side in pair]
    tests = {t.rpartition("::")[2] for p in paired for t in p["tests"]}
    assert tests == {"test_decode", "test_control"}
    ran = {(r.test.rpartition("::")[2], r.repeat) for r in run.records}
    assert {n for t, n in ran if t == "test_decode"} == {1, 2, 3, 4, 5, 6}
    assert {n for t, n in ran if t == "test_steady"} == {1, 2}
    assert {n for t, n in ran if t == "test_control"} == {1, 2, 3, 4, 5, 6}
    notes = " ".join(found.notes)
    assert "14 processes (8 of the base, 6 of the head)" in notes
    assert "1 of 2 metrics flagged" in notes
    assert "regressed after 4 pairs" in notes
    assert "14 processes (8 of the base, 6 of the head)" in done.output


def test_the_base_is_a_run_of_its_own(slow: runs.Done, tmp_path: Path) -> None:
    """The base's records are a whole run folder inside the head's, without the head's defect, and can be reported."""
    done = slow
    header = rundir.read_header(done.folder / "base")
    assert (header.defect, header.repeats) == (None, 4)
    assert rundir.read_header(done.folder).defect == "decode-slower-fivefold"
    run, found = judged(done.folder / "base", tmp_path / "none")
    assert {r.outcome for r in run.records} == {"passed"}
    assert found.status == "green", found.headline
    assert "GREEN" in runs.harness("report", str(done.folder / "base")).stdout


def test_nothing_to_see_stops_at_the_screen(still: runs.Done, tmp_path: Path) -> None:
    """The target beside itself: green after the screen, and not one pair is run."""
    done = still
    _, found = judged(done.folder, tmp_path / "none")
    assert found.status == "green", found.headline
    assert verdicts(done.folder) == {"wait": "shown", "steady_s": "unflagged", "decode_s": "unflagged"}
    assert len(plan_of(done.folder)["processes"]) == 6
    rows = [m for m in found.metrics if m.verdict == "unflagged"]
    assert all("no sign of a change" in m.why and m.detectable is not None for m in rows)


def test_too_noisy_to_see_is_not_green(tmp_path: Path) -> None:
    """A metric whose noise hides any change goes through all pairs, and ends without a verdict, which is not green."""
    done = runs.made_up(tmp_path, SUITE, "-k", "control or odd", "--base", "clean")
    _, found = judged(done.folder, tmp_path / "none")
    assert verdicts(done.folder)["odd_s"] == "inconclusive"
    assert found.status == "no_verdict"
    assert max(p["pair"] or 0 for p in plan_of(done.folder)["processes"]) == 10


def test_no_repeated_test_is_not_green(tmp_path: Path) -> None:
    """A base with nothing to compare leaves no verdict, not a green one."""
    text = "def test_control():\n    pass\n\n\ndef test_other():\n    pass\n"
    done = runs.made_up(tmp_path, text, "--base", "clean")
    _, found = judged(done.folder, tmp_path / "none")
    assert found.status == "no_verdict"
    assert "no repeated test was selected" in found.headline


def start(tmp_path: Path, *options: str, **variables: str) -> tuple[subprocess.Popen[bytes], Path]:
    """The made-up suite in the background, and its run folder."""
    suite = tmp_path / "suites" / "demo"
    suite.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (suite / "test_demo.py").write_text(SUITE)
    folder = tmp_path / "run"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    process = subprocess.Popen(
        runs.command(folder, "suites", "--target", "reference", *options),
        cwd=tmp_path,
        env={**environment, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return process, folder


@pytest.mark.parametrize(("count", "dropped"), [(2, 0), (7, 1)], ids=["screen", "half-pair"])
def test_killed_and_resumed(tmp_path: Path, count: int, dropped: int) -> None:
    """Killed after so many processes, it goes on from them with the same plan, drops a pair's lonely side, and judges."""
    options = ("-k", "control or steady or decode", "--repeat", "2", *DEFECT)
    process, folder = start(tmp_path, *options)
    try:
        plan: dict[str, Any] = {}
        end = time.monotonic() + 300
        while time.monotonic() < end and process.poll() is None:
            if (folder / "pairs.json").exists() and len((plan := plan_of(folder))["processes"]) >= count:
                break
            time.sleep(0.02)
        time.sleep(0.4)  # inside the next process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    plan = plan_of(folder)
    assert len(plan["processes"]) == count
    _, cut = judged(folder, tmp_path / "none")
    assert cut.status == "no_verdict"
    assert "interrupted" in cut.headline
    done = _resume(tmp_path, folder)
    assert done.returncode == 1, done.stdout + done.stderr
    after = plan_of(folder)
    assert (after["seed"], after["screen"], after["order"]) == (plan["seed"], plan["screen"], plan["order"])
    kept = [{**p, "dropped": False} for p in after["processes"][:count]]
    assert kept == plan["processes"]
    assert sum(p["dropped"] for p in after["processes"]) == dropped
    assert len(after["processes"]) == 14 + dropped
    assert after["ended"] is True
    assert verdicts(folder)["decode_s"] == "regressed"
    assert len({(p["side"], p["number"]) for p in after["processes"]}) == 14 + dropped
    for side, place in (("head", folder), ("base", folder / "base")):
        counted = {p["number"] for p in after["processes"] if p["side"] == side and not p["dropped"]}
        assert {r.repeat for r in rundir.load(place).records} == counted
    assert all((folder / n).is_file() for n in ("report.md", "report.json", "report.html", "junit.xml"))
    assert "the comparison has ended" in _resume(tmp_path, folder).stderr


def _resume(cwd: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", "resume", str(folder)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(rundir.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )


def test_resume_refuses_what_cannot_go_on(still: runs.Done, copy: Path, tmp_path: Path) -> None:
    """No run, no comparison, another machine: one line each, and status 2."""
    plain = tmp_path / "plain"
    shutil.copytree(copy, plain, ignore=shutil.ignore_patterns("pairs.json", "base"))
    rundir.write_pairs(copy, _unfinished(copy))
    rundir.update_header(copy, machine={**rundir.read_header(copy).machine, "processor": "another"})
    for folder, why in (
        (tmp_path / "none", "no run.json there"),
        (plain, "no comparison with a base began there"),
        (still.folder, "has ended"),
        (copy, "processor was another"),
    ):
        found = _resume(tmp_path, folder)
        assert found.returncode == 2
        assert why in found.stderr
        assert len(found.stderr.splitlines()) == 1


def _unfinished(folder: Path) -> Any:
    import dataclasses

    pairs = rundir.read_pairs(folder)
    assert pairs is not None
    return dataclasses.replace(pairs, ended=False)


def test_a_damaged_plan_is_no_verdict(copy: Path, tmp_path: Path) -> None:
    """A pairs.json that cannot be read is told, and never makes the run green."""
    whole = (copy / "pairs.json").read_text()
    assert judged(copy, tmp_path / "none")[1].status == "green"
    for text, why in (
        (whole[:100], "damaged"),
        (whole.replace('"seed": ', '"seed": "x", "s": '), "seed must be"),
        (whole.replace("suites/demo/test_demo.py::test_steady", "-p evil"), "is no test"),
        (whole.replace('"schema": 1', '"schema": 9'), "schema 9"),
    ):
        (copy / "pairs.json").write_text(text)
        _, found = judged(copy, tmp_path / "none")
        assert found.status == "no_verdict"
        assert why in found.headline
    (copy / "pairs.json").write_text(whole)
    shutil.rmtree(copy / "base")
    assert judged(copy, tmp_path / "none")[1].status == "no_verdict"


def test_two_at_once_are_refused(copy: Path, tmp_path: Path) -> None:
    """While one process runs a comparison a second one is refused."""
    rundir.write_pairs(copy, _unfinished(copy))
    with FileLock(copy / "pairs.lock"):
        found = _resume(tmp_path, copy)
    assert (found.returncode, "by another process" in found.stderr) == (2, True)


def _never(line: str) -> None:
    raise AssertionError(line)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TargetSpec:
    """A git checkout that passes for one of VITRA, with two commits; worktrees go to a cache of the test's own."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HARNESS_VITRA", raising=False)
    folder = tmp_path / "checkout"
    landmark = folder / "vitra/datasets/video_utils.py"
    landmark.parent.mkdir(parents=True)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    for text in ("one", "two"):
        landmark.write_text(f"# {text}\n")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", text], check=True)
    return base.locate("vitra", str(folder), ["decoder-fix"], clone=False, say=_never)


def test_a_revision_becomes_a_worktree(repository: TargetSpec) -> None:
    """A revision is checked out beside the other targets, named by its commit; the head's checkout stays as it is."""
    said: list[str] = []
    found = revisions.locate_base("HEAD~1", repository, said.append)
    assert found.path is not None
    assert found.commit is not None
    assert found.commit != repository.commit
    assert (Path(found.path) / "vitra/datasets/video_utils.py").read_text() == "# one\n"
    assert Path(found.path).parent == checkout.cache_folder() / "targets"
    assert found.commit[:12] in Path(found.path).name
    assert (found.dirty, found.patches) == (False, ("decoder-fix",))
    assert len(said) == 1
    # Again, and by another name of the same commit: what is there is taken.
    assert revisions.locate_base(found.commit[:10], repository, _never) == found
    again = base.locate("vitra", repository.path, ["decoder-fix"], clone=False, say=_never)
    assert again == repository


def test_a_broken_worktree_is_made_anew(repository: TargetSpec) -> None:
    """Half a worktree, as a killed session leaves it, is not taken for a whole one."""
    found = revisions.locate_base("HEAD~1", repository, lambda line: None)
    shutil.rmtree(str(found.path))
    Path(str(found.path)).mkdir()
    assert revisions.locate_base("HEAD~1", repository, lambda line: None) == found


def test_a_folder_is_a_base(repository: TargetSpec, tmp_path: Path) -> None:
    """The folder of another checkout is the base, whether git knows it or not; without the head's defect."""
    import dataclasses

    copy = tmp_path / "copy"
    shutil.copytree(str(repository.path), copy, ignore=shutil.ignore_patterns(".git"))
    found = revisions.locate_base(str(copy), dataclasses.replace(repository, defect="x"), _never)
    assert (found.path, found.commit, found.defect) == (str(copy), None, None)


@pytest.mark.parametrize("asked", ["no-such", "-x", "HEAD~7", "HEAD:vitra", ""])
def test_an_unknown_revision_is_one_line(repository: TargetSpec, asked: str) -> None:
    """What is no revision of the checkout is a usage error that names it and the remedy."""
    with pytest.raises(UsageError, match="--base") as caught:
        revisions.locate_base(asked, repository, _never)
    assert "no such revision" in str(caught.value) or "no checkout" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_checkout(repository: TargetSpec, tmp_path: Path) -> None:
    """A folder without the target in it is a usage error."""
    with pytest.raises(UsageError, match=r"--base .*no checkout of vitra"):
        revisions.locate_base(str(tmp_path), repository, _never)


def test_no_git_checkout_has_no_revisions(repository: TargetSpec, tmp_path: Path) -> None:
    """A target that is no git checkout has no revision; the words say so."""
    shutil.rmtree(Path(str(repository.path)) / ".git")
    spec = base.locate("vitra", repository.path, [], clone=False, say=_never)
    with pytest.raises(UsageError, match="is no git checkout"):
        revisions.locate_base("HEAD~1", spec, _never)


def test_the_reference_has_only_clean(tmp_path: Path) -> None:
    """The reference has no revisions; pytest says so before anything runs, and leaves no run folder."""
    done = runs.made_up(tmp_path, SUITE, "--base", "HEAD~1")
    assert done.status == 4
    assert "has no revisions" in done.output
    assert not done.folder.exists()
    assert revisions.locate_base("clean", TargetSpec("reference", defect="x"), _never) == TargetSpec(
        "reference"
    )


def test_the_checkout_in_the_cache_has_revisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real target's commit before the head's is found, and loads as the same target of another commit."""
    try:
        head = base.locate("vitra", None, [], clone=False, say=_never)
    except TargetUnavailable as error:
        pytest.skip(str(error))
    git = ["git", "-C", str(head.path)]
    if subprocess.run([*git, "rev-parse", "-q", "--verify", "HEAD~1"], check=False).returncode:
        pytest.skip(f"{head.path} has one commit alone")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    found = revisions.locate_base("HEAD~1", head, lambda line: None)
    try:
        assert (found.name, found.dirty) == ("vitra", False)
        assert found.commit != head.commit
        assert base.locate("vitra", str(head.path), [], clone=False, say=_never) == head
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(found.path)], check=True)


def test_rules_are_there() -> None:
    """The metrics of the made-up suite are ones that the policy judges."""
    rules = policy.load()
    assert all(policy.rule_of(rules, name) is not None for name in ("steady_s", "decode_s", "odd_s"))
