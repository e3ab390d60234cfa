"""What the documents tell a reader to type works, what they show exists, and their links lead somewhere.

A session is not run whole here: it takes a quarter of an hour, and the project's check runs it. Its pytest command is
run until the tests are collected; those of docs/adding.md are run to their end.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

import documented
import workflow_stage
from documented import Command, Desk
from fixtures import defects
from harness import ROOT, cli, runners, targets
from harness.targets import module

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCUMENTS = documented.documents()
COMMANDS = [c for path in DOCUMENTS for c in documented.commands(path) if path.name != "adding.md"]
LANGUAGES = {"sh", "text", "python", "toml", "yaml", "sql"}
ELSEWHERE = {"harness defects --suite failfast": "tests/test_defects.py plants each of them"}
SYNOPSIS = re.compile(r"`(harness [a-z][^`]*)`")


def names(paths: list[Path]) -> list[str]:
    return [p.name for p in paths]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workflow_stage.base_of(tmp_path_factory.mktemp("repository") / "x")


@pytest.fixture(scope="module")
def desk(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("documents"), repository)


def test_there_are_commands() -> None:
    """Each document that the quick start leads to has commands, so that nothing below is empty."""
    there = {c.document for c in COMMANDS}
    assert {
        "README.md",
        "quick_start.md",
        "reading.md",
        "baselines.md",
        "mi300x.md",
        "cuda.md",
        "mirage.md",
    } <= there
    assert len(COMMANDS) >= 60


@pytest.mark.parametrize("path", DOCUMENTS, ids=names(DOCUMENTS))
def test_every_block_is_of_a_kind(path: Path) -> None:
    """Blocks name their language, so that no command hides in one that nothing runs; what is data parses."""
    for block in documented.blocks(path):
        assert block.language in LANGUAGES, f"{path.name}:{block.line}: ```{block.language}"
        if block.language == "python":
            ast.parse(block.text)
        if block.language == "toml":
            tomllib.loads(block.text)
        if block.language == "yaml":
            yaml.safe_load(block.text)
        if block.language == "text":
            for line in block.text.splitlines():
                assert not line.startswith(("python ", "nox ", "docker ", "pip ")), (
                    f"{path.name}:{block.line}: {line}"
                )
    prose = documented.BLOCK.sub("", path.read_text(encoding="utf-8"))
    hidden = re.findall(r"^ {4,}((?:\w+=\S+ )*(?:harness|nox|python|docker|pip) .*)$", prose, re.MULTILINE)
    assert not hidden, f"{path.name}: commands outside of a block: {hidden}"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: f"{c.document}:{c.line}:{c.text[:50]}")
def test_command(command: Command, desk: Desk) -> None:
    """The command runs, and ends as the document says."""
    run(command, desk)


def run(command: Command, desk: Desk) -> str:
    """Runs a command as its kind allows, and gives what it printed; one of no kind fails."""
    words = command.words
    if " ".join(words) in ELSEWHERE:
        return ""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if words[0] == "export":
        found = re.fullmatch(r'export PATH="\$PWD/\.nox/(\w+)/bin:\$PATH"', command.text)
        assert found, command.text
        assert found[1] in runners.names()
    elif words[0] == "docker":
        assert command.text in {documented.docker_line(n) for n in ("cuda", "rocm")}
    elif words[:4] == ["python", "-m", "pip", "install"]:
        assert words[4:] in (["nox"], ["-e", "."]), words
    elif words[:3] == ["python", "-m", "nox"]:
        session(words[3:], desk)
    elif words[0] == "nox":
        session(words[1:], desk)
    elif words[0] in ("harness", "git") or words[:3] == ["python", "-m", "pytest"]:
        if words[:3] == ["harness", "checkpoint", "verify"] and not (desk.place / "bundle.tar").exists():
            desk.shell(here("harness checkpoint pack bundle.tar --runner cpu"))
        done = desk.shell(here(command.text))
        told = f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert done.returncode in command.statuses, told
        assert "Traceback" not in done.stderr, told
        return done.stdout
    else:
        pytest.fail(f"{command.document}:{command.line}: nobody runs: {command.text}")
    return ""


def here(line: str) -> str:
    """The line, on a machine without devices: a bundle is packed on the CPU, of the reference."""
    if line.startswith("harness checkpoint"):
        line = re.sub(r"--runner \w+", "--runner cpu", line)
        return re.sub(r"(pack \S+)", r"\1 --target reference", line)
    return line


def session(words: list[str], desk: Desk) -> None:
    """The sessions exist, and pytest takes what follows and finds tests for it."""
    chosen, rest = documented.nox_parts(words)
    assert chosen
    assert set(chosen) <= documented.sessions(), chosen
    if not set(chosen) & set(runners.names()):
        assert not rest
        return
    if "--store" in rest:
        del rest[rest.index("--store") : rest.index("--store") + 2]
    for option, stand_in in (("--base", "clean"), ("--target-path", None)):
        if option in rest:
            at = rest.index(option)
            rest[at : at + 2] = [option, stand_in] if stand_in else []
    # pytest that only collects looks for no target: what is named must be there.
    there = {"--patch": module("vitra").PATCHES, "--target": targets.names(), "--defect": defects.names()}
    for option, value in itertools.pairwise(rest):
        assert value in there.get(option, [value]), f"{option} {value}: there is none"
    assert collected(desk, tuple(rest)), f"no test is found by {rest}"


@cache
def collected(desk: Desk, rest: tuple[str, ...]) -> int:
    """How many tests pytest collects, on the runner of this machine."""
    where = [] if any(w.startswith("suites") for w in rest) else ["suites"]
    words = [
        "python",
        "-m",
        "pytest",
        "-p",
        "harness.plugin",
        "--runner",
        "cpu",
        "--collect-only",
        "-q",
        *where,
        *rest,
    ]
    done = desk.shell(shlex.join(words))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return len(re.findall(r"^suites/.*::", done.stdout, re.MULTILINE))


def finish(runner: str, rest: list[str], desk: Desk) -> None:
    """The session's run, to its end, and its report."""
    words = [
        "python",
        "-m",
        "pytest",
        "-p",
        "harness.plugin",
        "--runner",
        runner,
        "--run-dir",
        "made",
        "-q",
        *rest,
    ]
    done = desk.shell(shlex.join(words))
    report = desk.shell("harness report made")
    told = done.stdout[-3000:] + done.stderr[-1000:] + report.stdout[-3000:] + report.stderr
    assert done.returncode == 0, told
    assert report.returncode == 0, told
    assert "GREEN" in report.stdout.splitlines()[0]
    shutil.rmtree(desk.place / "made")


def test_what_is_added_works(repository: Path, tmp_path: Path) -> None:
    """The files of docs/adding.md, written down as they are: their suite is green, its defect is caught, their runner
    keeps the contract, their target and their form are used, without an edit of any other file."""
    desk = Desk(tmp_path, repository)
    path = ROOT / "docs" / "adding.md"
    given = documented.files(path)
    assert len(given) >= 8
    for name, text in given.items():
        assert not (desk.place / name).exists(), f"{name} is there already"
        (desk.place / name).parent.mkdir(exist_ok=True)
        (desk.place / name).write_text(text)
    for name in ("ruff format --check", "ruff check"):
        done = desk.shell(f"python -m {name} {shlex.join(given)}")
        assert done.returncode == 0, done.stdout + done.stderr
    outputs = {}
    for command in documented.commands(path):
        words = command.words
        if words[:3] == ["python", "-m", "nox"]:
            chosen = documented.nox_parts(words[3:])[0]
            there = {p.stem for p in (desk.place / "harness" / "runners").glob("*.py")} | set(
                documented.SESSIONS
            )
            assert set(chosen) <= there
            if set(chosen) & set(documented.SESSIONS):
                continue
            finish(chosen[0], documented.nox_parts(words[3:])[1], desk)
        else:
            outputs[command.text] = run(command, desk)
    assert "frugal: available" in outputs["harness runners"]
    assert "mine" in outputs["harness targets"]
    assert outputs["harness report RUN --format oneline"].startswith("GREEN")
    assert "caught" in outputs["harness defects --suite shapes"]


SYNOPSES = sorted(
    {
        (path.name, found)
        for path in DOCUMENTS
        for found in [
            *SYNOPSIS.findall(path.read_text(encoding="utf-8")),
            *(
                line
                for b in documented.blocks(path)
                if b.language == "text"
                for line in b.text.splitlines()
                if line.startswith("harness ")
            ),
        ]
    }
)


@pytest.mark.parametrize(("document", "text"), SYNOPSES, ids=lambda t: t[:60])
def test_named_options_exist(document: str, text: str) -> None:
    """A command that a document names is one, and so is every option and choice that it names."""
    text = text.partition(" #")[0].replace("\\|", "|")
    words = [w.strip("[],.") for w in re.split(r"[\s]+", text)]
    known, left = documented.options_of(cli._parser(), words[1:])
    assert len(left) < len(words) - 1, f"{document}: no such command: {text}"
    for word in left:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"{document}: {text}: no option {word}"


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    text = documented.BLOCK.sub("", path.read_text(encoding="utf-8"))
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower().replace("`", "")).replace(" ", "-") for h in found}


@pytest.mark.parametrize("path", DOCUMENTS, ids=names(DOCUMENTS))
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link is to a file of the repository, and to a heading in it."""
    text = documented.BLOCK.sub("", path.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, heading = link.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{path.name}: {link}"
        assert os.path.commonpath([there, ROOT]) == str(ROOT), (
            f"{path.name}: {link} leads out of the repository"
        )
        if heading:
            assert heading in anchors(there), f"{path.name}: {link}: no such heading"


def test_every_document_is_reached() -> None:
    """The README or a document that it links to leads to each document."""
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for link in re.findall(r"\]\(([^)\s#]+\.md)[^)]*\)", path.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", link):
                todo.append((path.parent / link).resolve())
    assert set(DOCUMENTS) <= seen, sorted(p.name for p in set(DOCUMENTS) - seen)
