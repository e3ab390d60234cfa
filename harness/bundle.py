"""Checkpoint bundles: what one machine trained and goes on to do, so that any other can load it and be held to it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness import ROOT, __version__, bundle_files, fingerprint, runners, targets
from harness.asked import launch_asked
from harness.bundle_judge import counted, differing, judge_bundle, merge, rounding, short, unanswered
from harness.errors import HarnessError, UsageError
from harness.runners.base import Machine
from harness.targets import base
from harness.targets.base import TargetSpec
from harness.targets.training import Plan

PROGRAM = Path(__file__).with_name("rank_bundle.py")
SAMPLES = 24
"""Samples of one optimizer step, over all ranks: divided by 1, 2, 3, 4, 6, 8, 12 and 24 ranks."""
CLIP = "vp9-plain"
STEPS_LIMIT = 100
LIMIT_S = 900.0
TRACE, LOGS = "trace.json", "logs"

Say = Callable[[str], None]


class NoAnswer(HarnessError):
    """The ranks did not come to an end, so that there is nothing to judge."""

    exit_status = 3


def pack(
    bundle: Path,
    *,
    runner: str,
    target: str | None,
    target_path: str | None,
    world: int | None,
    steps: int,
    following: int,
    precision: str,
    api: str,
    say: Say,
) -> dict[str, Any]:
    """Trains `steps` steps, writes the bundle and what the `following` steps did; the verdict on its own resume.

    Nothing is written when training does not go on from the checkpoint here as it does without a stop.
    """
    bundle_files.check_free(bundle)
    if steps < 1 or following < 1 or steps + following > STEPS_LIMIT:
        raise UsageError(
            f"--steps {steps} --next {following}: each is 1 or more, together at most {STEPS_LIMIT}"
        )
    machine = _machine(runner)
    there = machine.decision
    world = _world(machine, world, 2 if there.device == "cpu" else min(2, len(there.devices)))
    spec = base.locate(target, target_path, [], clone=True, say=say)
    _check_api(spec, api)
    with _working() as work:
        data, made = work / "data", work / "made"
        made.mkdir()
        _lay_out(data, -(-(steps + following) * SAMPLES // 64))
        plan = Plan(
            data=str(data),
            folder=str(made),
            steps=steps + following,
            batch=SAMPLES // world,
            global_batch=SAMPLES,
            precision=precision,
            api=api,
        )
        say(
            f"training {spec.name} on {counted(world, 'rank')} of {runner}: {steps} steps, then {following} more, twice"
        )
        request = {"do": "pack", "plan": plan.to_json(), "folder": str(made), "steps": steps}
        answers = _launch(spec, machine, world, request, work)
        whole, again = merge(answers, "trace"), merge(answers, "resumed")
        inputs = {k: v for a in answers for k, v in a["inputs"].items()}
        exact = whole[steps:] == again and whole[:steps] == merge(answers, "first")
        notes = {"trace": whole[steps:], "inputs": inputs}
        here = _here(machine, spec, answers[0], world)
        own = judge_bundle(
            notes,
            {"trace": again, "inputs": inputs},
            answers[0]["loaded"],
            precision=rounding(precision, here),
            exact=False,
        )
        if own["verdict"] == "agree":
            manifest = {
                **here,
                "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "plan": {**plan.to_json(), "data": "data", "folder": "", "resume": None},
                "steps": steps,
                "next": following,
                "checkpoint": f"checkpoint/{Path(answers[0]['checkpoint']).name}",
                "dtypes": answers[0]["dtypes"],
                "resumes": {"exact": exact},
            }
            try:
                with bundle_files.aside(bundle) as folder:
                    shutil.copytree(data, folder / "data")
                    shutil.copytree(answers[0]["checkpoint"], folder / manifest["checkpoint"])
                    for name in ("weights.pt", "moments.pt"):
                        shutil.copyfile(made / name, folder / name)
                    (folder / TRACE).write_text(json.dumps(notes, indent=1), encoding="utf-8")
                    bundle_files.seal(folder, bundle, manifest)
            except OSError as error:
                raise UsageError(
                    f"{bundle}: cannot be written: {error.strerror}; make room or name another"
                ) from None
    return {**own, "exact": exact, "world": world, "target": spec.name}


def verify(
    bundle: Path, *, runner: str, target_path: str | None, world: int | None, api: str | None, say: Say
) -> dict[str, Any]:
    """Loads a bundle on this machine, trains the steps it tells of, and holds each against what it says.

    A verdict with its reason, steps and notes; BundleError before anything is run when the bundle is damaged.
    """
    emulated = runners.get(runner).emulated
    with _working() as work:
        manifest = bundle_files.read(bundle, work)
        if manifest["runner"]["emulated"] != emulated:
            words = {True: "emulated", False: "measured"}
            there, here = words[bool(manifest["runner"]["emulated"])], words[emulated]
            return unanswered("incomparable", f"packed on an {there} machine, this one is {here}", manifest)
        bundle_files.check_plain(work / "data")
        packed = json.loads((work / TRACE).read_text(encoding="utf-8"))
        plan = _plan(bundle, manifest)
        machine = _machine(runner)
        world = _world(machine, world, manifest["world"])
        name = manifest["target"]["name"]
        spec = base.locate(name, target_path, [], clone=True, say=say)
        _check_api(spec, api or plan.api)
        plan = replace(
            plan,
            data=str(work / "data"),
            folder=str(work / "run"),
            resume=str(work / manifest["checkpoint"]),
            batch=plan.global_batch // world,
            api=api or plan.api,
        )
        say(f"training {name} on {counted(world, 'rank')} of {runner} from step {manifest['steps']}")
        request = {"do": "verify", "plan": plan.to_json(), "state": str(work)}
        answers = _launch(spec, machine, world, request, work)
    for error in (a["not_loaded"] for a in answers if "not_loaded" in a):
        return unanswered(
            "not_loaded",
            f"{name} raised on {counted(world, 'rank')} while it loaded what {manifest['world']} saved: {error}",
            manifest,
        )
    side = {**_here(machine, spec, answers[0], world), "plan": plan.to_json()}
    notes = list(differing(manifest, side))
    found = {
        "trace": merge(answers, "trace"),
        "inputs": {k: v for a in answers for k, v in a["inputs"].items()},
    }
    told = judge_bundle(
        packed,
        found,
        answers[0]["loaded"],
        precision=rounding(plan.precision, manifest, side),
        exact=manifest["resumes"]["exact"] and not notes,
    )
    return {**told, "notes": notes, "packed": short(manifest), "here": short(side)}


@contextlib.contextmanager
def _working() -> Iterator[Path]:
    """A folder that is gone at the end, but for the logs of ranks that did not answer."""
    work = Path(tempfile.mkdtemp(prefix="bundle-"))
    try:
        yield work
    except NoAnswer:
        for path in work.iterdir():
            if path.name != LOGS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)


def _machine(name: str) -> Machine:
    machine = runners.machine(name)
    if machine.decision.why_not is not None:
        raise UsageError(machine.decision.why_not)
    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            f"torch is not installed for {sys.executable}; use the command of a session, .nox/{name}/bin/harness"
        )
    return machine


def _world(machine: Machine, asked: int | None, default: int) -> int:
    world = default if asked is None else asked
    fits = [n for n in range(1, SAMPLES + 1) if SAMPLES % n == 0]
    if machine.decision.device != "cpu":
        fits = [n for n in fits if n <= len(machine.decision.devices)]
    if asked is None and world not in fits:
        return max((n for n in fits if n <= world), default=1)
    if world not in fits:
        raise UsageError(
            f"--ranks {world}: cannot share {SAMPLES} samples here; use one of {', '.join(map(str, fits))}"
        )
    return world


def _check_api(spec: TargetSpec, api: str) -> None:
    if spec.name != "reference" and api != "fsdp1":
        raise UsageError(f"--api {api}: target {spec.name} shards by fsdp1 only")


def _plan(bundle: Path, manifest: Mapping[str, Any]) -> Plan:
    name = manifest["target"]["name"]
    if name not in targets.names():
        raise UsageError(f"{bundle}: is of target {name!r}; there are: {', '.join(targets.names())}")
    try:
        return Plan.from_json(manifest["plan"])
    except TypeError as error:
        raise bundle_files.BundleError(
            f"{bundle}: {bundle_files.MANIFEST} has a plan of another form ({error}); use the harness that packed it"
        ) from None


def _lay_out(folder: Path, episodes: int) -> None:
    sys.path.insert(0, str(ROOT))
    from fixtures import clips, dataset
    from fixtures._cache import FixtureError

    try:
        clip = clips.get(CLIP)
    except FixtureError as error:
        raise UsageError(str(error)) from None
    dataset.make(folder, [(clip.path, clip.frames)] * episodes)


def _launch(
    spec: TargetSpec, machine: Machine, world: int, request: Mapping[str, Any], work: Path
) -> list[dict[str, Any]]:
    """The ranks' answers; NoAnswer with what they said, and their logs kept, when one does not end well."""
    logs = work / LOGS
    logs.mkdir()
    variables = {k: os.environ.get(k, v) for k, v in machine.runner.environment(machine.decision).items()}
    done, found = launch_asked(
        machine, spec, PROGRAM, request, world=world, logs=logs, limit_s=LIMIT_S, environment=variables
    )
    answers = [a for a in found if a is not None]
    if any("not_loaded" in a for a in answers):
        return answers
    if done.kind is not None or len(answers) < world:
        raise NoAnswer(f"no verdict: {done.kind or 'crash'}: {done.detail}")
    return answers


def _here(machine: Machine, spec: TargetSpec, answer: Mapping[str, Any], world: int) -> dict[str, Any]:
    commit, dirty = fingerprint.collect_git(ROOT)
    return {
        "harness": {"version": __version__, "commit": commit, "dirty": dirty},
        "target": {
            "name": spec.name,
            "commit": spec.commit,
            "dirty": spec.dirty,
            "supplies": list(targets.module(spec.name).supplies()),
        },
        "runner": vars(fingerprint.runner_info(machine.runner, machine.decision)),
        "world": world,
        "machine": fingerprint.collect_machine(),
        "software": {**fingerprint.collect_software(), "torch": answer["torch"]},
        "vendor": answer["vendor"],
        "threads": answer["threads"],
        "products": answer["products"],
    }
