"""Baseline files: read them, and write them so that a change of one metric is a change of one line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import BaselineError, RunFolderError
from harness.records import SCHEMA, trace_from_json
from harness.verdicts import Baseline, BaselineMetric

WORST = {"skipped": 0, "passed": 1, "failed": 2}
"""Outcomes that a baseline may hold; of several runs the one that counts most."""

PLACEHOLDERS = {"todo", "tbd", "placeholder", "none", "reason", "text", "because"}


def says_nothing(reason: str) -> bool:
    """Whether a reason is too short for one, or a word that stands for one."""
    return len(reason) < 8 or reason.lower().strip(".! ") in PLACEHOLDERS


def paths(folder: Path, target: str | None = None, suites: Sequence[str] | None = None) -> Iterator[Path]:
    """The baseline files below a folder, sorted; of one target and of some suites when these are given."""
    for path in sorted(folder.glob("*/*.json")):
        name, _, suite = path.stem.partition(".")
        if (target is None or name == target) and (suites is None or suite in suites):
            yield path


def read(path: Path) -> Baseline:
    """A baseline file; BaselineError names file and line of what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(f"{path}: {error}") from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(("<<<<<<<", "|||||||", "=======", ">>>>>>>")):
            raise BaselineError(
                f"{path}: line {number}: conflict markers; take one side whole, then accept anew"
            )
    try:
        data = json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise BaselineError(f"{path}: line {error.lineno}: {error.msg}; restore the file from git") from None
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path}: {error}; restore the file from git") from None
    return parse(data, path)


def parse(data: Any, path: Path) -> Baseline:
    """A baseline from its JSON form; BaselineError for what is none, or does not say where it comes from."""
    try:
        if data["schema"] != SCHEMA:
            raise BaselineError(
                f"{path}: schema {data['schema']!r}, this harness reads {SCHEMA}; accept a new run"
            )
        metrics = {k: _metric(k, v) for k, v in data["metrics"].items()}
        key = {str(k): str(v) for k, v in data["key"].items()}
        tests = {str(k): str(v) for k, v in data["tests"].items()}
        if odd := sorted(set(tests.values()) - set(WORST)):
            raise BaselineError(
                f"{path}: outcome {odd[0]!r} is none of {', '.join(WORST)}; restore it from git"
            )
        traces = {str(k): trace_from_json(v) for k, v in data.get("traces", {}).items()}
        provenance = tuple(dict(p) for p in data["provenance"])
        reason = str(data["reason"])
    except (KeyError, TypeError, ValueError, AttributeError, RunFolderError) as error:
        raise BaselineError(f"{path}: {error!r}: not a baseline file; restore it from git") from None
    if not provenance or not all(p.get("run_id") and p.get("started") for p in provenance):
        raise BaselineError(f"{path}: provenance: it names no run that it comes from; accept a run instead")
    if says_nothing(reason):
        raise BaselineError(f"{path}: reason {reason!r}: says nothing; accept a run with a reason instead")
    return Baseline(key, tests, metrics, provenance, reason, traces)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of a baseline")


def _metric(key: str, data: Mapping[str, Any]) -> BaselineMetric:
    test, metric, statistic = data["row"]
    values, noise = tuple(data["medians"]), data.get("noise")
    # The types of all values at once: a file may hold some hundred thousand.
    if not set(map(type, (*values, 0.0 if noise is None else noise))) <= {float, int}:
        raise ValueError(f"{key}: a median or noise that is no number")
    if not set(map(type, (test, metric, statistic, data["unit"]))) <= {str} or not values:
        raise ValueError(f"{key}: no name, no unit or no value")
    return BaselineMetric(data["unit"], values, (test, metric, statistic), noise)


def render(content: Mapping[str, Any]) -> str:
    """The text of a file: one line for each run, test, metric and trace, sorted by name."""
    lines = []
    for name in ("schema", "key", "reason"):
        lines.append(f" {json.dumps(name)}: {json.dumps(content[name], sort_keys=True)}")
    rows = ",\n".join(f"  {json.dumps(p, sort_keys=True)}" for p in content["provenance"])
    lines.append(f' "provenance": [\n{rows}\n ]')
    for name in ("tests", "metrics", "traces"):
        pairs = sorted(content[name].items())
        rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in pairs)
        lines.append(f' "{name}": {{\n{rows}\n }}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write(texts: Mapping[Path, str]) -> None:
    """Replaces these files, each in one step, when all could be written whole beside their places; a full disk changes
    none. BaselineError when it cannot."""
    made: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            made[path] = path.with_name(f"{path.name}.{os.getpid()}")
            with made[path].open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        for path, temporary in made.items():
            temporary.replace(path)
    except OSError as error:
        for temporary in made.values():
            temporary.unlink(missing_ok=True)
        raise BaselineError(f"{error.filename}: {error.strerror}; name a folder you can write to") from None
