"""Every step of every workflow, run as GitHub would run it, with stand-ins for nox on a device, pip and GitHub itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import runs
import test_comment
import workflow_stage
from harness.artifacts import check_plain
from harness.errors import UsageError
from workflow_stage import Job, Stage

LABELS = {
    "HARNESS_ROCM_LABELS": '["self-hosted", "mi300x"]',
    "HARNESS_MIRAGE_LABELS": '["self-hosted", "mirage"]',
}
TWO = {"runners": '["cpu", "rocm"]'}
VERDICT = "Decide"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stages of this module stand here, beside one copy of the repository."""
    return tmp_path_factory.mktemp("stages")


@pytest.fixture(scope="module")
def stage(folder: Path) -> Callable[..., Stage]:
    """A new stage; what it is given stands in `Stage`."""
    numbers = iter(range(1000))

    def make(**given: Any) -> Stage:
        return Stage(folder / f"stage{next(numbers)}", **{"vars": dict(LABELS), **given})

    return make


def devices(made: Stage, **inputs: Any) -> dict[str, Job]:
    return made.workflow("harness.yml", inputs)


def told(made: Stage, name: str = "report") -> dict[str, Any]:
    found = json.loads((made.artifacts[name] / "report.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


# Whole workflows; the last test holds what they ran against all that there is.


@pytest.fixture(scope="module")
def push(stage: Callable[..., Stage]) -> tuple[Stage, dict[str, Job]]:
    """`gpu.yml` after a push: three runners have machines, one has none."""
    made = stage()
    return made, made.workflow("gpu.yml")


@pytest.fixture(scope="module")
def ci(stage: Callable[..., Stage]) -> tuple[Stage, dict[str, Job]]:
    """`ci.yml`, in which the CPU's session is a real one of few tests."""
    made = stage(plan={"cpu suites": "real"})
    return made, made.workflow("ci.yml")


@pytest.fixture(scope="module")
def nights(stage: Callable[..., Stage]) -> list[tuple[Stage, dict[str, Job]]]:
    """`nightly.yml` twice, with the cache of the first night there in the second."""
    caches: dict[str, Path] = {}
    found = []
    for number in ("1001", "1002"):
        github = {"run_id": number, "event": {"repository": {"fork": False}}}
        made = stage(caches=caches, github=github, vars={})
        found.append((made, made.workflow("nightly.yml")))
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[test_comment.Server]:
    """A server that answers as GitHub's API does."""
    data = test_comment.Server()
    handler = type("Bound", (test_comment.Handler,), {"server_data": data})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    data.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    yield data
    httpd.shutdown()
    httpd.server_close()


def comment(
    stage: Callable[..., Stage],
    server: test_comment.Server,
    artifacts: dict[str, Path],
    pulls: list[dict[str, Any]] | None = None,
    name: str = "devices",
) -> tuple[Stage, Job]:
    """`report.yml` after a workflow run of a pull request from a fork left these artifacts."""
    run = {
        "id": "77",
        "name": name,
        "event": "pull_request",
        "head_sha": "b" * 40,
        "head_branch": "mine",
        "head_repository": {"owner": {"login": "mallory"}},
    }
    if pulls is None:
        pulls = [{"number": 7, "state": "open", "head": {"sha": "b" * 40}}]
    made = stage(
        others={"77": artifacts},
        github={"token": test_comment.TOKEN, "event": {"workflow_run": run}},
        environment={
            "STAGE_GH": json.dumps({"repos/owner/name/pulls": pulls}),
            "GITHUB_API_URL": server.url,
        },
    )
    return made, made.workflow("report.yml")["comment"]


@pytest.fixture(scope="module")
def commented(
    stage: Callable[..., Stage], server: test_comment.Server, push: tuple[Stage, dict[str, Job]]
) -> tuple[Stage, Job]:
    """`report.yml` after the run of `push`."""
    return comment(stage, server, push[0].artifacts)


def accept(stage: Callable[..., Stage], artifacts: dict[str, Path], **given: Any) -> tuple[Stage, Job]:
    """`baseline.yml` for a workflow run of `owner`, with a remote to push to."""
    answer = {"head_repository": {"full_name": given.pop("owner", "owner/name")}}
    inputs = {"run-id": "1001", "reason": 'first run; $(touch pwned) `touch pwned` "quoted"', **given}
    path = f"repos/owner/name/actions/runs/{inputs['run-id']}"
    made = stage(
        others={inputs["run-id"]: artifacts},
        github={"run_id": "2002"},
        environment={"STAGE_GH": json.dumps({path: answer})},
    )
    remote = made.folder / "remote.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(made.base), str(remote)], check=True)
    rewrite = f'[url "{remote}"]\n\tinsteadOf = stage:remote\n'
    (made.folder / "home" / ".gitconfig").write_text(rewrite)
    return made, made.workflow("baseline.yml", inputs)["accept"]


@pytest.fixture(scope="module")
def accepted(stage: Callable[..., Stage], push: tuple[Stage, dict[str, Job]]) -> tuple[Stage, Job]:
    """`baseline.yml` for the measured runs of `push`."""
    return accept(stage, push[0].artifacts, runners='["cpu", "rocm"]')


def test_every_step_is_run(
    push: tuple[Stage, Any],
    ci: tuple[Stage, Any],
    nights: list[tuple[Stage, Any]],
    commented: tuple[Stage, Any],
    accepted: tuple[Stage, Any],
) -> None:
    """No script in `.github` is left out of these tests."""
    ran = set().union(*(s.ran for s, _ in (push, ci, *nights, commented, accepted)))
    there = {step[:3] for step in workflow_stage.run_steps()}
    assert len(there) > 30
    assert there - ran == set()


def test_ci_checks_tests_and_reports(ci: tuple[Stage, dict[str, Job]]) -> None:
    """`ci.yml` runs lint, types, workflows and own tests, and ends green with a real run, its summary and artifacts."""
    made, jobs = ci
    assert {n: j.result for n, j in jobs.items() if "," not in n} == {
        "checks": "success",
        "tests": "success",
        "cpu": "success",
    }, jobs["cpu"].log
    called = [c for c in made.noted("nox") if c[1] != "cpu"]
    assert called == [["-s", "lint", "types", "workflows"], ["-s", "tests"], ["-s", "tests"]]
    assert set(made.artifacts) == {"run-cpu", "report-cpu"}
    found = told(made, "report-cpu")
    assert found["status"] == "green"
    assert "GREEN" in jobs["cpu"].summary
    assert jobs["cpu"].steps["Decide"] == "success"
    assert (made.artifacts["run-cpu"] / "run-cpu" / "suites" / "run.json").is_file()


def test_the_action_works_beside_another_repository(stage: Callable[..., Stage]) -> None:
    """From a job of another repository the action works in its own folder, on that repository's checkout, and leaves it
    as it was."""
    made = stage(plan={"cpu suites": "failed"})
    inputs = {"target-path": "/home/ci/checkout", "words": '["suites/decoder"]', "minutes": "20"}
    job, work = made.action("harness", inputs)
    assert job.result == "failure"
    assert job.steps["Decide"] == "failure"
    assert "RED" in job.summary
    assert [p.name for p in work.iterdir()] == ["of.txt"]
    assert [c[3:-2] for c in made.noted("nox")] == [
        ["suites/preflight", "--target-path=/home/ci/checkout"],
        ["suites/decoder", "--target-path=/home/ci/checkout"],
    ]
    assert set(made.artifacts) == {"run-cpu", "report-cpu"}


def test_runners_are_merged_and_one_is_missed(push: tuple[Stage, dict[str, Job]]) -> None:
    """Runs of three runners stand in one report in every form; the runner without a machine makes it no verdict."""
    made, jobs = push
    verdict = jobs["devices / verdict"]
    assert jobs["devices"].result == verdict.result == "failure"
    assert verdict.steps[VERDICT] == "failure"
    assert [n for n, j in jobs.items() if j.result != "success"] == ["devices / verdict", "devices"]
    names = {p.name for p in made.artifacts["report"].iterdir()}
    assert names >= {
        "report.html",
        "report.md",
        "pull_request.md",
        "summary.md",
        "annotations.txt",
        "junit.xml",
    }
    assert names >= {"report.json", "badge.json"}
    text = (made.artifacts["report"] / "report.md").read_text(encoding="utf-8")
    for name in ("cpu", "rocm", "mirage", "cuda did not report"):
        assert name in text
    assert "cuda did not report" in verdict.summary


def test_bundles_go_both_ways(push: tuple[Stage, dict[str, Job]]) -> None:
    """Each measured runner verifies its own bundle and the others' before the report is made; emulated ones only their
    own."""
    made, jobs = push
    verified = {
        name: sorted(Path(c[4]).stem for c in made.noted(f"{name} python") if c[3] == "verify")
        for name in ("cpu", "rocm", "mirage")
    }
    assert verified == {"cpu": ["cpu", "rocm"], "rocm": ["cpu", "rocm"], "mirage": ["mirage"]}
    text = (made.artifacts["report"] / "report.md").read_text(encoding="utf-8")
    assert "as rocm has it" in text
    assert "as cpu has it" in text
    assert "one of them is emulated" in jobs["devices / carry, mirage"].log


def test_containers_have_git(push: tuple[Stage, dict[str, Job]]) -> None:
    """In a container git is there before the checkout and reads it; elsewhere neither is touched."""
    _, jobs = push
    assert jobs["devices / suites, rocm"].steps["Git in the container"] == "success"
    assert "Git in the container" not in jobs["devices / suites, cpu"].steps
    assert jobs["devices / suites, cpu"].steps["Python"] == "success"
    assert "Python" not in jobs["devices / suites, rocm"].steps


@pytest.fixture(scope="module")
def green(stage: Callable[..., Stage]) -> tuple[Stage, dict[str, Job]]:
    """`harness.yml` for two runners, and nothing fails."""
    made = stage()
    return made, devices(made, **TWO)


def verdict(
    stage: Callable[..., Stage],
    green: tuple[Stage, Any],
    change: Callable[[dict[str, Path]], object],
    **results: str,
) -> tuple[Stage, Job]:
    """The job that decides, over changed copies of what the green run's jobs left."""
    made = stage()
    for name, place in green[0].artifacts.items():
        if name != "report":
            made.artifacts[name] = made.folder / "given" / name
            shutil.copytree(place, made.artifacts[name])
    change(made.artifacts)
    jobs = {"plan": "success", "suites": "success", "carry": "success", **results}
    return made, made.job("harness.yml", "verdict", TWO, **jobs)


def test_all_there_is_green(green: tuple[Stage, dict[str, Job]]) -> None:
    """When all that are asked for report green and agree, the check is green."""
    made, jobs = green
    assert jobs["verdict"].result == "success", "\n".join(j.log for j in jobs.values())
    assert told(made)["status"] == "green"


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({"cpu suites": "failed"}, "RED"),
        ({"cpu preflight": "broken"}, "no runner reported"),
        ({"cpu verify": "failed"}, "a checkpoint bundle carried across differ"),
        ({"cpu verify": "broken"}, "NO VERDICT: the report is green, and not all"),
        ({"cpu pack": "broken"}, "NO VERDICT: the report is green, and not all"),
    ],
    ids=lambda p: " ".join((*p, *p.values())) if isinstance(p, dict) else "",
)
def test_no_part_that_fails_ends_green(plan: dict[str, str], says: str, stage: Callable[..., Stage]) -> None:
    """A failure of any part ends the check as failed, and the report is there all the same."""
    made = stage(plan=plan)
    last = devices(made, runners='["cpu"]')["verdict"]
    assert last.result == "failure"
    assert last.steps[VERDICT] == "failure"
    assert "report" in made.artifacts
    assert says in last.log + last.summary, last.log


def _drop(*names: str) -> Callable[[dict[str, Path]], object]:
    return lambda there: [there.pop(n) for n in names]


def _only_preflight(there: dict[str, Path]) -> None:
    del there["carried-rocm"]
    shutil.rmtree(there["run-rocm"] / "run-rocm" / "suites")


def _another_runners(there: dict[str, Path]) -> None:
    for name in ("run", "carried"):
        place = there[f"{name}-rocm"] / f"{name}-rocm"
        shutil.rmtree(place)
        shutil.copytree(there["run-cpu"] / "run-cpu", place)


def _damaged(there: dict[str, Path]) -> None:
    for path in [p for n in ("run-rocm", "carried-rocm") for p in there[n].rglob("run.json")]:
        path.write_text("{")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda _: None, ""),
        (_drop("carried-rocm", "carried-cpu"), ""),
        (_drop("run-rocm", "carried-rocm"), "rocm did not report"),
        (_only_preflight, "rocm: the preflight passed, and the suites left no run"),
        (_another_runners, "made by runner cpu, and not by rocm"),
        (_damaged, "the file is damaged"),
        (_drop("run-rocm", "carried-rocm", "run-cpu", "carried-cpu"), "Expected: cpu, rocm"),
        (lambda there: there.clear(), "no runner was expected"),
    ],
)
def test_what_is_lost_is_missed(
    change: Callable[[dict[str, Path]], object],
    says: str,
    stage: Callable[..., Stage],
    green: tuple[Stage, Any],
) -> None:
    """A run that was made and did not arrive whole, or is not that runner's, is no green; also when a single artifact is
    left, which GitHub unpacks without its name."""
    _, last = verdict(stage, green, change)
    assert last.result == ("success" if not says else "failure"), last.log
    assert says in last.log + last.summary, last.log


@pytest.mark.parametrize("result", ["failure", "cancelled", "skipped"])
@pytest.mark.parametrize("job", ["plan", "suites", "carry"])
def test_a_job_that_did_not_end_well_is_no_green(job: str, result: str, tmp_path: Path) -> None:
    """A green report that rests on a job that failed, was cancelled or never ran is no verdict."""
    (tmp_path / "status.json").write_text('{"exit_status": 0, "troubles": []}')
    jobs = {
        n: {"result": result if n == job else "success", "outputs": {}} for n in ("plan", "suites", "carry")
    }
    done = runs.harness("workflows", "decide", str(tmp_path), "--jobs", json.dumps(jobs))
    assert done.returncode == 3
    assert f"job {job}: {result}" in done.stdout


def test_a_sick_machine_is_told_from_a_regression(stage: Callable[..., Stage]) -> None:
    """Where the preflight fails the suites are not started, and the report has the preflight's run as that runner's."""
    made = stage(plan={"cpu preflight": "failed"})
    jobs = devices(made, runners='["cpu"]')
    leg = jobs["suites, cpu"]
    assert leg.steps["Preflight - is the machine fit"] == "failure"
    assert "Suites" not in leg.steps
    assert leg.steps["Upload the run"] == "success"
    assert "Pack a checkpoint bundle" not in leg.steps
    assert jobs["verdict"].result == "failure"
    assert "cpu-preflight-" in (made.artifacts["report"] / "report.json").read_text()


@pytest.mark.parametrize(
    ("event", "owner", "untrusted"),
    [("pull_request", "mallory/name", True), ("pull_request", "owner/name", False), ("push", "", False)],
)
def test_forks_are_kept_off_own_machines(
    event: str, owner: str, untrusted: bool, stage: Callable[..., Stage]
) -> None:
    """A pull request from a fork starts the hosted machine alone, and says what an approval takes."""
    pull = {"pull_request": {"number": 7, "head": {"repo": {"full_name": owner}}}} if owner else {}
    made = stage(github={"event_name": event, "event": pull})
    call = workflow_stage.workflows()["gpu.yml"]["jobs"]["devices"]
    value = made._value(call["with"]["untrusted"], {"github": made.github})
    assert value is untrusted
    plan = made.job("harness.yml", "plan", {"untrusted": value})
    started = [e["runner"] for e in json.loads(plan.outputs["matrix"])["include"]]
    assert started == (["cpu"] if untrusted else ["cpu", "mirage", "rocm"])
    assert ("HARNESS_FORK_ENVIRONMENT" in plan.log) == untrusted


def test_another_repository_tests_its_own_checkout(stage: Callable[..., Stage]) -> None:
    """Called from elsewhere, the harness and the caller are checked out, and suites and bundles are given its place; who
    is switched off stands in the caller's file."""
    off = '[[off]]\nrunner = "rocm"\nreason = "moving"\nlast_day = 2999-12-31\n'
    made = stage(environment={"STAGE_FILE_1": f"runners_off.toml={off}"})
    inputs = {"own-target": True, "harness-repository": "vendor/harness", "harness-ref": "c" * 40}
    jobs = devices(made, **TWO, words='["--patch=decoder-fix"]', **inputs)
    assert "suites, rocm" not in jobs
    assert jobs["verdict"].result == "success", "\n".join(j.log for j in jobs.values())
    assert "rocm switched off until 2999-12-31: moving" in jobs["verdict"].summary.replace("\\", "")
    suites = [c for c in made.noted("nox") if "suites/preflight" not in c]
    assert "--patch=decoder-fix" in suites[0]
    assert "--target-path=build/target" in suites[0]
    bundles = made.noted("cpu python")
    assert [("--target-path=build/target" in c, c[3]) for c in bundles] == [(True, "pack"), (True, "verify")]


def test_a_real_bundle_is_packed_and_verified(stage: Callable[..., Stage]) -> None:
    """A real bundle of the reference goes through both jobs, and its verdict stands in the report."""
    made = stage(plan={"cpu python": "real"})
    jobs = devices(made, runners='["cpu"]', target="reference")
    assert jobs["verdict"].result == "success", jobs["suites, cpu"].log + jobs["carry, cpu"].log
    text = (made.artifacts["report"] / "report.md").read_text(encoding="utf-8")
    assert "bit for bit" in text or "within the envelopes" in text, text


def test_nights_explore_and_grow_one_history(nights: list[tuple[Stage, dict[str, Job]]]) -> None:
    """Each night adds its runs to the same compacted store; new examples are asked for by another number."""
    for made, jobs in nights:
        assert jobs["devices / verdict"].steps["Add to the history"] == "success", jobs[
            "devices / verdict"
        ].log
        assert jobs["devices / verdict"].steps["Save the history"] == "success"
        assert any("--repeat=5" in c for c in made.noted("nox"))
    last, _ = nights[-1]
    assert len(last.caches) == 2
    listed = runs.harness("history", "list", "--store", str(sorted(last.caches.items())[-1][1]))
    assert "2 runs in" in listed.stderr


def test_exploring_has_a_number_of_its_own(stage: Callable[..., Stage]) -> None:
    """Tests that explore are given the run's number, others nothing."""
    workflows = workflow_stage.workflows()
    suites = workflows["harness.yml"]["jobs"]["suites"]
    made = stage()
    for explore, seed in ((True, "1001"), (False, "")):
        contexts = {"inputs": {"explore": explore}, "github": made.github}
        assert made._value(suites["env"]["HARNESS_EXPLORE"], contexts) == seed
    night = [s for s in workflows["nightly.yml"]["jobs"]["explore"]["steps"] if s["name"] == "Own tests"]
    assert made._value(night[0]["env"]["HARNESS_EXPLORE"], {"github": made.github}) == "1001"


def test_a_comment_says_what_the_runs_said(
    commented: tuple[Stage, Job], server: test_comment.Server, push: tuple[Stage, dict[str, Job]]
) -> None:
    """The comment on the pull request is made from the runs by the default branch's code, under the workflow's key."""
    _, job = commented
    assert job.result == "success", job.log
    (body,) = server.bodies()
    report = (push[0].artifacts["report"] / "pull_request.md").read_text(encoding="utf-8")
    assert body.partition("\n")[2].strip() == report.partition("\n")[2].strip()
    assert "devices" in body.partition("\n")[0]


def test_another_commits_pull_request_gets_no_comment(
    stage: Callable[..., Stage], server: test_comment.Server, push: tuple[Stage, dict[str, Job]]
) -> None:
    """A pull request that has moved on, or is closed, is not commented on; nothing is downloaded for it."""
    before = server.bodies()
    for pulls in (
        [],
        [{"number": 7, "state": "open", "head": {"sha": "c" * 40}}],
        [{"number": 7, "state": "closed", "head": {"sha": "b" * 40}}],
    ):
        _, job = comment(stage, server, push[0].artifacts, pulls)
        assert job.result == "success"
        assert "Comment" not in job.steps
        assert "Download what the runners left" not in job.steps
    assert server.bodies() == before


def forge(made: Stage, name: str, folder: Path) -> tuple[dict[str, Path], Path]:
    """A stage's artifacts with one of them copied, so that it can be changed; and the copy."""
    copy = folder / name
    shutil.copytree(made.artifacts[name], copy)
    return {**made.artifacts, name: copy}, copy


@pytest.mark.parametrize("what", ["link", "folder link", "pipe"])
def test_a_strangers_link_is_refused(
    what: str,
    stage: Callable[..., Stage],
    server: test_comment.Server,
    push: tuple[Stage, dict[str, Job]],
    tmp_path: Path,
) -> None:
    """An artifact that holds a link or a pipe ends the job before anything is read or written."""
    artifacts, forged = forge(push[0], "run-cpu", tmp_path)
    place = forged / "run-cpu" / "suites" / "logs" / "x"
    if what == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/proc/self/environ" if what == "link" else "/etc")
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        check_plain(forged)
    if what == "pipe":
        return
    before = server.bodies()
    _, job = comment(stage, server, artifacts)
    assert job.steps["Merge and report"] == "failure"
    assert "Comment" not in job.steps
    assert server.bodies() == before


def test_a_strangers_text_stays_text(
    stage: Callable[..., Stage],
    server: test_comment.Server,
    push: tuple[Stage, dict[str, Job]],
    tmp_path: Path,
) -> None:
    """What a stranger's job wrote as a report is not what is posted: the runs are judged again."""
    artifacts, forged = forge(push[0], "report", tmp_path)
    (forged / "pull_request.md").write_text("<!-- x -->\n# GREEN: merge me, @owner\n")
    _, job = comment(stage, server, artifacts)
    assert job.result == "success"
    assert not any("merge me" in b for b in server.bodies())


def test_a_baseline_comes_as_a_pull_request(accepted: tuple[Stage, Job]) -> None:
    """The runs of the named runners become files of one commit on a branch of its own, with the reason, and a pull
    request with the differences; words in the reason are not run."""
    made, job = accepted
    assert job.result == "success", job.log
    remote = made.folder / "remote.git"

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(remote), *words], capture_output=True, text=True, check=True
        ).stdout

    branch = "baselines/1001-2002"
    changed = git("diff", "--name-only", "main", branch).splitlines()
    assert changed
    assert all(p.startswith("baselines/") for p in changed)
    assert {p.split("/")[1] for p in changed} == {"cpu-x86_64-1", "rocm-gfx942-1"}
    assert "$(touch pwned)" in git("log", "-1", "--format=%B", branch)
    assert not list(made.folder.rglob("pwned"))
    created = [c for c in made.noted("gh") if c[:2] == ["pr", "create"]]
    assert len(created) == 1
    assert created[0][created[0].index("--head") + 1] == branch


@pytest.mark.parametrize(
    ("given", "step"),
    [
        ({"owner": "mallory/name"}, "Only a run of this repository's own code"),
        ({"run-id": "1001/../../x"}, "Only a run of this repository's own code"),
        ({"runners": '["cpu", "cuda"]'}, "Accept"),
        ({"reason": " "}, "Accept"),
    ],
)
def test_no_baseline_of_anything_else(
    given: dict[str, str],
    step: str,
    stage: Callable[..., Stage],
    push: tuple[Stage, dict[str, Job]],
) -> None:
    """A fork's run, a number that is none, a runner that did not report and no reason open no pull request."""
    made, job = accept(stage, push[0].artifacts, **given)
    assert job.result == "failure"
    assert job.steps[step] == "failure", job.log
    assert not [c for c in made.noted("gh") if c[:2] == ["pr", "create"]]
