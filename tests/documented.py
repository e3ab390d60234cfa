"""The documents as data: their blocks and their commands, and a desk on which the commands are run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import buy_made
import runs
import vllm_made
from builders import case, make_record, make_run
from harness import ROOT, runners
from harness.runners.base import Container

SESSIONS = ("lint", "types", "workflows", "tests")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STATUS = re.compile(r"exit status (\d)(?:[^#]*?, (\d) when)?")
LOG = "[FATAL ERROR]: HSA_NO_SCRATCH_RECLAIM=1 must be set\n"


def documents() -> list[Path]:
    """Everything that tells a reader what to type."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of the document at which it begins."""

    document: str
    line: int
    language: str
    text: str


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a document, in order."""
    text = path.read_text(encoding="utf-8")
    return [Block(path.name, text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in BLOCK.finditer(text)]


@dataclass(frozen=True)
class Command:
    """One line to type; `statuses`: how it may end, as the text beside it says."""

    document: str
    line: int
    text: str
    statuses: frozenset[int]

    @property
    def words(self) -> list[str]:
        """Its words, without the comment."""
        return shlex.split(self.text, comments=True)


def commands(path: Path) -> Iterator[Command]:
    """The commands of a document: every line of its `sh` blocks, and each part of a line with `&&`."""
    for block in blocks(path):
        if block.language != "sh":
            continue
        for number, line in enumerate(block.text.replace("\\\n", " ").splitlines(), block.line + 1):
            told = re.search(r"#.*", line)
            named = STATUS.search(told[0]) if told else None
            statuses = frozenset({0, *(int(n) for n in named.groups() if n)} if named else {0})
            for part in line.split(" && "):
                yield Command(block.document, number, part.strip(), statuses)


def files(path: Path) -> dict[str, str]:
    """The files that a document gives whole: Python blocks that begin with `# a/path.py`."""
    found = {}
    for block in blocks(path):
        first, _, rest = block.text.partition("\n")
        if block.language == "python" and (named := re.fullmatch(r"# ([\w/]+\.py)", first)):
            found[named[1]] = rest
    return found


def docker_line(name: str) -> str:
    """What a document says of a runner's container: what the command prints, with the reader's own folder."""
    container = runners.get(name).container
    assert isinstance(container, Container)
    options = " ".join(container.options)
    return f'docker run --rm -it {options} --volume "$PWD:$PWD" --workdir "$PWD" {container.image} bash'


class Desk:
    """A copy of the repository with the runs, logs and checkouts that documents speak of."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.place = folder / "desk"
        shutil.copytree(repository, self.place, symlinks=True)
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name, words in {"python": "", "harness": "-m harness.cli"}.items():
            (self.bin / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            (self.bin / name).chmod(0o755)
        for number, name in enumerate(("RUN", "RUN2")):
            tests = [make_record(case("a")), make_record(case("b"))]
            run = make_run(tests, run_id=f"20270115-10000{number}-cpu-abcdef")
            runs.write(self.place / name, run)
        for name, seconds in {"RUN_A": 0.2, "RUN_B": 0.1}.items():
            offer = buy_made.make_offer(f"cpu {name}", *buy_made.step(buy_made.spread(seconds)))
            runs.write(self.place / name, offer.run)
        (self.place / "served.json").write_text(json.dumps(vllm_made.make()))
        (self.place / "LOG").write_text(LOG)
        (self.place / "prices.toml").write_text(
            '[[price]]\nrunner = "cpu-*"\nper_device_hour = 1.0\ncurrency = "USD"\nsource = "made up"\n'
            "date = 2027-01-01\n"
        )
        self.environment = {
            **{k: v for k, v in os.environ.items() if k not in terminal_variables()},
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.place),
            "XDG_DATA_HOME": str(folder / "data"),
        }

    def shell(self, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The line, as typed."""
        return subprocess.run(
            ["bash", "-euc", line],
            cwd=self.place,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def terminal_variables() -> set[str]:
    """Variables of the process that runs the tests, which a reader does not have."""
    return {k for k in os.environ if k.startswith(("PYTEST", "COV", "HARNESS_STORE"))}


@cache
def sessions() -> frozenset[str]:
    """Every session of the noxfile."""
    return frozenset({*runners.names(), *SESSIONS})


def nox_parts(words: list[str]) -> tuple[list[str], list[str]]:
    """The sessions that a nox command names, and what goes to pytest."""
    at = words.index("--") if "--" in words else len(words)
    assert words[0] == "-s", words
    return words[1:at], words[at + 1 :]


def options_of(parser: object, words: list[str]) -> tuple[set[str], list[str]]:
    """All options that the parser of `words` knows, its commands followed down, and what is left of the words."""
    import argparse

    assert isinstance(parser, argparse.ArgumentParser)
    known = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and words and words[0] in action.choices:
            more, left = options_of(action.choices[words[0]], words[1:])
            return known | more, left
    return known, words
