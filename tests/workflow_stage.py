"""GitHub Actions on a desk: the jobs of a workflow file, run step by step with stand-ins for what only GitHub has.

Every `run:` is run as GitHub runs it, in a fresh copy of this repository, with the environment that the file gives it.
Conditions and other expressions are evaluated. Known actions are played: check out, artifacts, cache.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness import ROOT

GITHUB = ROOT / ".github"
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
TOKEN = re.compile(
    r"'(?:[^']|'')*'|[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*|&&|\|\||!=|==|!|[()\[\],<>]|[\d.]+|\s+"
)
STATUS = ("always", "cancelled", "success", "failure")


def load(path: Path) -> dict[str, Any]:
    """A workflow or an action; `on` stays a word."""
    found = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    assert isinstance(found, dict)
    return found


class _Loader(yaml.SafeLoader):
    """GitHub's YAML knows no `on` and `off` as true and false."""


_Loader.yaml_implicit_resolvers = {
    key: [(tag, expression) for tag, expression in each if tag != "tag:yaml.org,2002:bool"]
    for key, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


def workflows() -> dict[str, dict[str, Any]]:
    return {p.name: load(p) for p in sorted(GITHUB.glob("workflows/*.yml"))}


def actions() -> dict[str, dict[str, Any]]:
    return {p.parent.name: load(p) for p in sorted(GITHUB.glob("actions/*/action.yml"))}


def run_steps() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Each step with a `run`: file, job, name, step."""
    for file, workflow in workflows().items():
        for job, content in workflow["jobs"].items():
            for step in content.get("steps", ()):
                if "run" in step:
                    yield file, job, step["name"], step
    for name, action in actions().items():
        for step in action["runs"]["steps"]:
            if "run" in step:
                yield name, "action", step["name"], step


def look_up(path: str, contexts: Mapping[str, Any]) -> Any:
    """The value of a context, as `matrix.runner`; empty where there is none."""
    value: Any = contexts
    for key in path.split("."):
        value = value.get(key, "") if isinstance(value, Mapping) else ""
    return value


def evaluate(text: str, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """The value of an expression, without its braces."""
    words, place = [], 0
    while place < len(text):
        match = TOKEN.match(text, place)
        assert match, f"{text!r}: not understood at {text[place:]!r}"
        word, place = match[0], match.end()
        if word in ("&&", "||", "!"):
            words.append({"&&": " and ", "||": " or ", "!": " not "}[word])
        elif word[0] == "'":
            words.append(repr(word[1:-1].replace("''", "'")))
        elif word in ("true", "false"):
            words.append(word.title())
        elif re.match("[A-Za-z_]", word):
            called = text[place:].lstrip().startswith("(")
            words.append(f"F[{word!r}]" if called else f"C({word!r})")
        else:
            words.append(word)
    code = "".join(words).strip()
    return eval(code, {"__builtins__": {}}, {"C": lambda p: look_up(p, contexts), "F": functions})


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


@dataclass
class Job:
    """How a job ended."""

    result: str
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""
    summary: str = ""
    steps: dict[str, str] = field(default_factory=dict)
    """Outcome of each step by its name; a step that was not reached has none."""


class Stage:
    """One workflow run, its artifacts, and the repository's caches and variables."""

    def __init__(self, folder: Path, **given: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.base = base_of(folder)
        self.artifacts: dict[str, Path] = given.get("artifacts", {})
        self.others: dict[str, dict[str, Path]] = given.get("others", {})
        self.caches: dict[str, Path] = given.get("caches", {})
        self.vars: dict[str, str] = given.get("vars", {})
        self.secrets: dict[str, str] = given.get("secrets", {})
        self.plan: dict[str, str] = given.get("plan", {})
        self.environment: dict[str, str] = given.get("environment", {})
        self.between: Callable[[str, Stage], None] = given.get("between", lambda _job, _stage: None)
        self.github: dict[str, Any] = {
            "repository": "owner/name",
            "sha": "a" * 40,
            "run_id": "1001",
            "run_attempt": "1",
            "ref": "refs/heads/main",
            "event_name": "push",
            "token": "ghs_a",
            "event": {},
            **given.get("github", {}),
        }
        self.ran: set[tuple[str, str, str]] = set()
        self.log = folder / "log.jsonl"
        self.log.touch()
        self._numbers = itertools.count()
        _write_programs(folder)

    def noted(self, program: str) -> list[list[str]]:
        """The words that a program was called with, call by call."""
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [words for name, *words in found if name == program]

    def workflow(
        self, file: str, inputs: Mapping[str, Any] | None = None, secrets: Mapping[str, str] | None = None
    ) -> dict[str, Job]:
        """Runs a workflow; its jobs by name, those of a called workflow by `caller / name`, of a matrix by `name, runner`."""
        content = load(GITHUB / "workflows" / file)
        on = content["on"]
        trigger = on.get("workflow_call") or on.get("workflow_dispatch") or {} if isinstance(on, dict) else {}
        declared = trigger.get("inputs", {}) if isinstance(trigger, dict) else {}
        unknown = set(inputs or {}) - set(declared)
        assert not unknown, f"{file}: no such inputs: {unknown}"
        known = {k: v.get("default", "") for k, v in declared.items()}
        contexts: dict[str, Any] = {
            "github": self.github,
            "vars": self.vars,
            "inputs": {**known, **(inputs or {})},
            "secrets": self.secrets if secrets is None else secrets,
        }
        done: dict[str, Job] = {}
        todo = dict(content["jobs"])
        while todo:
            name = next(n for n, j in todo.items() if not set(_list(j.get("needs"))) & set(todo))
            job = todo.pop(name)
            before = {n: done[n] for n in _list(job.get("needs"))}
            needs = {n: {"result": j.result, "outputs": j.outputs} for n, j in before.items()}
            here = {**contexts, "needs": needs}
            good = all(j.result == "success" for j in before.values())
            if not self._condition(job.get("if"), here, good):
                done[name] = Job("skipped")
                continue
            self.between(name, self)
            if "uses" in job:
                assert job["uses"].startswith("./.github/workflows/"), job["uses"]
                given = {k: self._value(v, here) for k, v in job.get("with", {}).items()}
                passed = {k: text_of(self._value(v, here)) for k, v in job.get("secrets", {}).items()}
                inner = self.workflow(Path(job["uses"]).name, given, passed)
                done.update({f"{name} / {k}": v for k, v in inner.items()})
                results = {j.result for j in inner.values()} - {"skipped"}
                done[name] = Job("success" if results <= {"success"} else "failure")
                continue
            legs = []
            for matrix in self._matrix(job, here):
                leg = self._job(file, name, job, {**here, "matrix": matrix}, content.get("env", {}))
                legs.append(leg)
                if matrix:
                    done[f"{name}, {next(iter(matrix.values()))}"] = leg
            bad = [leg for leg in legs if leg.result != "success"]
            done[name] = Job("failure" if bad else "success", legs[0].outputs, legs[0].log, legs[0].summary)
            if len(legs) == 1:
                done[name] = legs[0]
        return done

    def job(self, file: str, name: str, inputs: Mapping[str, Any] | None = None, **results: str) -> Job:
        """Runs one job of a workflow, as if the jobs before it had ended with these results."""
        content = load(GITHUB / "workflows" / file)
        declared = content["on"]["workflow_call"]["inputs"]
        contexts = {
            "github": self.github,
            "vars": self.vars,
            "secrets": self.secrets,
            "inputs": {**{k: v.get("default", "") for k, v in declared.items()}, **(inputs or {})},
            "needs": {n: {"result": r, "outputs": {}} for n, r in results.items()},
            "matrix": {},
        }
        return self._job(file, name, content["jobs"][name], contexts, content.get("env", {}))

    def action(self, name: str, inputs: Mapping[str, str]) -> tuple[Job, Path]:
        """Runs an action in a job of another repository; the job, and that repository's folder."""
        work, temp = self.folder / "theirs", self.folder / "temp"
        own = self.folder / "action"
        shutil.copytree(self.base, own, symlinks=True)
        for folder in (work, temp):
            folder.mkdir()
        (work / "of.txt").write_text("another")
        content = load(GITHUB / "actions" / name / "action.yml")
        assert set(inputs) <= set(content["inputs"])
        contexts = {
            "inputs": {k: inputs.get(k, v.get("default", "")) for k, v in content["inputs"].items()},
            "github": {**self.github, "action_path": str(own / ".github" / "actions" / name)},
            "runner": {"temp": str(temp)},
            "steps": {},
        }
        done = Job("success")
        self._steps((name, "action"), content["runs"]["steps"], contexts, {}, work, done)
        return done, work

    def _matrix(self, job: Mapping[str, Any], contexts: Mapping[str, Any]) -> list[dict[str, Any]]:
        matrix = self._value(job.get("strategy", {}).get("matrix"), contexts)
        if not matrix:
            return [{}]
        if "include" in matrix:
            assert matrix["include"], "GitHub refuses an empty matrix"
            return list(matrix["include"])
        names = list(matrix)
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*matrix.values())]

    def _value(
        self, value: Any, contexts: Mapping[str, Any], functions: Mapping[str, Any] | None = None
    ) -> Any:
        """A value of the file with its expressions evaluated."""
        if not isinstance(value, str):
            return value
        known = {
            "toJSON": json.dumps,
            "fromJSON": json.loads,
            "format": lambda pattern, *words: pattern.format(*words),
            **(functions or {}),
        }
        whole = EXPRESSION.fullmatch(value.strip())
        if whole:
            return evaluate(whole[1], contexts, known)
        return EXPRESSION.sub(lambda m: text_of(evaluate(m[1], contexts, known)), value)

    def _condition(self, value: Any, contexts: Mapping[str, Any], good: bool) -> bool:
        """An `if`; without a status function it holds only while all went well."""
        states = {
            "always": lambda: True,
            "cancelled": lambda: False,
            "success": lambda: good,
            "failure": lambda: not good,
        }
        if value is None:
            return good
        text = value if isinstance(value, str) else text_of(value)
        inner = EXPRESSION.fullmatch(text.strip())
        found = bool(self._value(text if inner else f"${{{{ {text} }}}}", contexts, states))
        return found and (good or any(f"{s}(" in text for s in STATUS))

    def _job(
        self,
        file: str,
        name: str,
        job: Mapping[str, Any],
        contexts: Mapping[str, Any],
        environment: Mapping[str, Any],
    ) -> Job:
        number = next(self._numbers)
        work, temp = self.folder / f"work{number}", self.folder / f"temp{number}"
        for folder in (work, temp):
            folder.mkdir()
        here = {
            **contexts,
            "runner": {"temp": str(temp)},
            "steps": {},
            "env": {},
            "job": {"status": "success"},
        }
        outer = {**environment, **job.get("env", {})}
        done = Job("success")
        self._steps((file, name), job["steps"], here, outer, work, done)
        done.outputs = {k: text_of(self._value(v, here)) for k, v in job.get("outputs", {}).items()}
        return done

    def _steps(
        self,
        where: tuple[str, str],
        steps: list[dict[str, Any]],
        contexts: dict[str, Any],
        environment: Mapping[str, Any],
        work: Path,
        done: Job,
    ) -> None:
        for step in steps:
            good = done.result == "success"
            if not self._condition(step.get("if"), contexts, good):
                continue
            variables = {
                k: text_of(self._value(v, contexts))
                for k, v in {**environment, **step.get("env", {})}.items()
            }
            outputs: dict[str, str] = {}
            if "run" in step:
                self.ran.add((*where, step["name"]))
                status = self._run(step, contexts, variables, work, outputs, done)
            else:
                status = self._use(step, contexts, environment, work, done)
            outcome = "success" if status == 0 else "failure"
            done.steps[step["name"]] = outcome
            done.log += f"[{step['name']}: {outcome}]\n"
            if "id" in step:
                contexts["steps"][step["id"]] = {"outcome": outcome, "outputs": outputs}
            if outcome == "failure" and not step.get("continue-on-error"):
                done.result = "failure"

    def _run(
        self,
        step: Mapping[str, Any],
        contexts: Mapping[str, Any],
        variables: Mapping[str, str],
        work: Path,
        outputs: dict[str, str],
        done: Job,
    ) -> int:
        temp = Path(contexts["runner"]["temp"])
        script = temp / "script.sh"
        script.write_text(step["run"], encoding="utf-8")
        files = {n: temp / n.lower() for n in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV")}
        for path in files.values():
            path.write_text("")
        place = Path(text_of(self._value(step.get("working-directory", str(work)), contexts)))
        finished = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=place,
            env=self._environment(work, temp, {**variables, **{n: str(p) for n, p in files.items()}}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        done.log += finished.stdout
        done.summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        for line in files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines():
            name, equals, value = line.partition("=")
            assert equals, f"{step['name']}: {line!r} is no output"
            outputs[name] = value
        return finished.returncode

    def _environment(self, work: Path, temp: Path, variables: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": f"{self.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(self.folder / "lib"),
            "HOME": str(self.folder / "home"),
            "GIT_CONFIG_GLOBAL": str(self.folder / "home" / ".gitconfig"),
            "OMP_NUM_THREADS": "1",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_REPOSITORY": self.github["repository"],
            "GITHUB_WORKSPACE": str(work),
            "RUNNER_TEMP": str(temp),
            "STAGE_LOG": str(self.log),
            "STAGE_PLAN": json.dumps(self.plan),
            **self.environment,
            **variables,
        }

    def _use(
        self,
        step: Mapping[str, Any],
        contexts: dict[str, Any],
        environment: Mapping[str, Any],
        work: Path,
        done: Job,
    ) -> int:
        name = step["uses"].partition("@")[0]
        given = {k: text_of(self._value(v, contexts)) for k, v in step.get("with", {}).items()}
        if name == "actions/checkout":
            return self._check_out(given, work)
        if name == "actions/setup-python":
            return 0
        if name == "actions/upload-artifact":
            return self._upload(given, work)
        if name == "actions/download-artifact":
            return self._download(given, work)
        if name == "actions/cache/restore":
            return self._restore(given, work)
        if name == "actions/cache/save":
            self.caches[given["key"]] = _copied(work / given["path"], self.folder / f"cache-{given['key']}")
            return 0
        assert name.startswith("./.github/actions/"), f"{name}: no such action on this stage"
        content = load(work / name / "action.yml")
        unknown = set(given) - set(content["inputs"])
        assert not unknown, f"{name}: no such inputs: {unknown}"
        inner = {
            **contexts,
            "inputs": {k: given.get(k, v.get("default", "")) for k, v in content["inputs"].items()},
            "github": {**self.github, "action_path": str(work / name)},
            "steps": {},
        }
        before = done.result
        done.result = "success"
        self._steps((Path(name).name, "action"), content["runs"]["steps"], inner, environment, work, done)
        status = 0 if done.result == "success" else 1
        done.result = before
        return status

    def _check_out(self, given: Mapping[str, str], work: Path) -> int:
        assert given.get("persist-credentials") == "false"
        if given.get("path"):
            place = work / given["path"]
            place.mkdir(parents=True)
            (place / "of.txt").write_text(given.get("repository") or self.github["repository"])
            for file, text in self.environment.items():
                if file.startswith("STAGE_FILE_"):
                    (place / text.partition("=")[0]).write_text(text.partition("=")[2])
            return 0
        shutil.rmtree(work)
        shutil.copytree(self.base, work, symlinks=True)
        return 0

    def _upload(self, given: Mapping[str, str], work: Path) -> int:
        source = work / given["path"]
        if not any(p.is_file() for p in source.rglob("*")):
            return 1 if given["if-no-files-found"] == "error" else 0
        assert given["name"] not in self.artifacts or given.get("overwrite") == "true"
        kept = self.folder / f"artifact{next(self._numbers)}"
        hidden = shutil.ignore_patterns(".*")
        shutil.copytree(source, kept, ignore=hidden)
        self.artifacts[given["name"]] = kept
        return 0

    def _download(self, given: Mapping[str, str], work: Path) -> int:
        there = self.others[given["run-id"]] if "run-id" in given else self.artifacts
        if "run-id" in given:
            assert given["github-token"]
        place = work / given.get("path", ".")
        if "name" in given:
            if given["name"] not in there:
                return 1
            shutil.copytree(there[given["name"]], place, dirs_exist_ok=True, symlinks=True)
            return 0
        patterns = re.sub(r"^\{(.*)\}$", r"\1", given.get("pattern", "*")).split(",")
        found = [n for n in there if any(fnmatch.fnmatchcase(n, p) for p in patterns)]
        merged = given.get("merge-multiple") == "true" or len(found) == 1
        for name in found:
            target = place if merged else place / name
            target.mkdir(parents=True, exist_ok=True)
            before = {p.relative_to(target) for p in target.rglob("*") if p.is_file()}
            names = {p.relative_to(there[name]) for p in there[name].rglob("*") if p.is_file()}
            assert not before & names, f"{name} writes what another artifact wrote: {before & names}"
            shutil.copytree(there[name], target, dirs_exist_ok=True, symlinks=True)
        return 0

    def _restore(self, given: Mapping[str, str], work: Path) -> int:
        prefixes = [given["key"], *given.get("restore-keys", "").split()]
        for prefix in prefixes:
            fits = [k for k in self.caches if k.startswith(prefix)]
            if fits:
                shutil.copytree(self.caches[fits[-1]], work / given["path"], dirs_exist_ok=True)
                return 0
        return 0


def base_of(folder: Path) -> Path:
    """A copy of this repository's files, with what is not committed yet, as one commit."""
    base = folder.parent / "repository"
    if not base.is_dir():
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )
        draft = folder.parent / f"draft{os.getpid()}"
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, draft / name)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
        remote = ["remote", "add", "origin", "stage:remote"]
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "all"], remote):
            subprocess.run([*git, *words], cwd=draft, check=True)
        draft.rename(base)
    return base


def _write_programs(folder: Path) -> None:
    """Stand-ins on PATH, and for `python -m nox` and `python -m pip`; git is the real one."""
    (folder / "home").mkdir()
    programs = folder / "bin"
    programs.mkdir()
    stub = f'exec "{sys.executable}" "{ROOT}/tests/workflow_stubs.py"'
    for name in ("gh", "apt-get"):
        (programs / name).write_text(f'#!/bin/sh\n{stub} {name} "$@"\n')
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for path in programs.iterdir():
        path.chmod(0o755)
    for name in ("nox", "pip"):
        (folder / "lib" / name).mkdir(parents=True)
        (folder / "lib" / name / "__init__.py").write_text("")
        (folder / "lib" / name / "__main__.py").write_text(
            f"import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '{ROOT}/tests/workflow_stubs.py', "
            f"'{name}', *sys.argv[1:]]))\n"
        )


def _copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, dirs_exist_ok=True)
    return target


def _list(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)
