"""The rules of the contract about a runner's fields, pins, commands and probe: each yields what breaks it, on one line."""

from __future__ import annotations

import fnmatch
import json
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

from harness.errors import UsageError
from harness.runners.base import Container, Runner
from harness.runners.facts import worlds
from harness.runners.facts.contract import rule_total, usable
from harness.runners.facts.snapshot import Snapshot, from_json, to_json

PROBE_LIMIT_S = 300.0
"""A probe asks torch and a few tools, each with its own time limit."""

SECRETS = (
    *("WANDB_API_KEY", "HF_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
    *("MYSQL_PASSWORD", "GOOGLE_APPLICATION_CREDENTIALS", "SSH_PRIVATE_KEY"),
)


def rule_name(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """The name is lower case and leads to this runner where it is registered."""
    from harness import runners

    if not isinstance(runner.name, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", runner.name):
        yield f"name {runner.name!r}: lower-case letters, digits and _ are needed"
    for name in runners.names():
        try:
            other = runners.get(name)
        except UsageError:
            continue
        if other is runner and name != runner.name:
            yield f"registered as {name} and calls itself {runner.name}"
        if other is not runner and name == runner.name and type(other) is not type(runner):
            yield f"{name} is another runner's name"


def rule_fields(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """The fields of a runner have their types: flag, build, index, container, patterns, a factor above 0, suites."""
    if not isinstance(runner.emulated, bool):
        yield f"emulated is {runner.emulated!r}"
    if not isinstance(runner.torch_build, str) or not re.fullmatch(r"[a-z][a-z0-9.]*", runner.torch_build):
        yield f"torch_build is {runner.torch_build!r}"
    if runner.wheel_index is not None and not re.match(r"https?://\S+$", runner.wheel_index):
        yield f"wheel_index is {runner.wheel_index!r}"
    box = runner.container
    if box is not None:
        words = (box.image, *box.options) if isinstance(box, Container) else ()
        if not words or not all(isinstance(w, str) and w and not re.search(r"\s", w) for w in words):
            yield f"container is {box!r}: an image and options, one argument an item"
    if not isinstance(runner.time_factor, (int, float)) or not 0 < runner.time_factor < math.inf:
        yield f"time_factor is {runner.time_factor!r}"
    if runner.suites is not None and (
        isinstance(runner.suites, str) or not all(isinstance(s, str) for s in runner.suites)
    ):
        yield f"suites is {runner.suites!r}"


def rule_recorded(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """Patterns of recorded variables ask for no secret."""
    if isinstance(runner.recorded, str):
        yield "recorded is one text: a sequence of patterns is needed"
        return
    for pattern in runner.recorded:
        asked = [name for name in SECRETS if fnmatch.fnmatchcase(name, pattern)]
        if asked:
            yield f"pattern {pattern} fits {asked[0]}"


def rule_pin(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """A pin is one variable at most, of text, the same each time, another for other devices, and sets nothing itself."""
    with worlds.environment({}):
        masks = {devices: dict(runner.pin(devices)) for devices in ((0,), (1,), (1, 0))}
        for devices, mask in masks.items():
            if len(mask) > 1:
                yield f"pin{devices} sets {', '.join(mask)}"
            if not all(isinstance(w, str) for pair in mask.items() for w in pair):
                yield f"pin{devices} is {mask!r}"
            if dict(runner.pin(devices)) != mask:
                yield f"pin{devices} differs the second time"
        if os.environ:
            yield f"pin set {', '.join(os.environ)} itself"
    if any(masks.values()) and len({tuple(m.items()) for m in masks.values()}) < len(masks):
        yield f"different devices get one mask: {masks}"


def rule_synchronize(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """A runner whose devices work beside the processor waits for them in torch; one without has nothing to wait for."""
    kinds = {decided.device for _, decided in usable(runner, snapshots)} if not runner.emulated else set()
    torch = mock.MagicMock()
    with mock.patch.dict(sys.modules, {"torch": torch}):
        synchronize: Callable[[], object] = runner.synchronize
        answer = synchronize()
    if answer is not None:
        yield f"synchronize gave {answer!r}"
    for kind in sorted(kinds - {"cpu"}):
        if not any("synchronize" in str(call) for call in torch.mock_calls):
            yield f"synchronize asks torch for nothing: times of {kind} would end before its work does"


def rule_command(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """A command is text, one argument an item, and ends with the words as they are."""
    words = ["python", "a program.py", "--flag", "$(x)"]
    for nodes in (1, 2):
        command = runner.command(tuple(words), devices=2, nodes=nodes)
        if not isinstance(command, list) or not all(isinstance(w, str) for w in command):
            yield f"command is {command!r}"
        elif command[-len(words) :] != words:
            yield f"command ends with {command[-len(words) :]}"


def rule_probe(runner: Runner, snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """A probe ends in time with a snapshot that deciding takes, that survives JSON, and that holds no secret."""
    planted = {
        name: f"secret-{n}-of-the-kit"
        for n, name in enumerate(
            (*SECRETS, *(p.replace("*", "X_SECRET_TOKEN") for p in runner.recorded if "*" in p))
        )
    }
    answers: list[Any] = []

    def ask() -> None:
        try:
            answers.append(runner.probe(sys.executable, {**os.environ, **planted}))
        except BaseException as error:  # noqa: BLE001 - told below
            answers.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PROBE_LIMIT_S)
    if not answers:
        yield f"no answer within {PROBE_LIMIT_S:g} s"
        return
    seen = answers[0]
    if not isinstance(seen, Snapshot):
        yield f"probe gave {seen!r}"
        return
    text = json.dumps(to_json(seen))
    if from_json(json.loads(text)) != seen:
        yield "the snapshot is another one after JSON"
    for name, value in planted.items():
        if value in text:
            yield f"the snapshot holds the value of {name}"
    yield from rule_total(runner, {"this machine": seen})
