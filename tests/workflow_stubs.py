"""What takes the place of heavy or distant programs while a workflow's steps are run on a desk: nox, pip, gh, apt-get.

Each notes its words in the file STAGE_LOG. STAGE_PLAN is a JSON object: by `runner part` (preflight, suites, pack,
verify, python) what is to happen: `passed` unless said; `failed`, `none` (no run folder is left), `broken` (nothing
works), `real`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

PYTHON = """#!/bin/sh
exec "{python}" "{here}/tests/workflow_stubs.py" session {runner} "$@"
"""
KINDS: dict[str, dict[str, Any]] = {
    "cpu": {},
    "cuda": {"name": "cuda", "device_arch": "sm_90"},
    "rocm": {"name": "rocm", "device_arch": "gfx942"},
    "mirage": {"name": "mirage", "device_arch": "gfx950", "emulated": True},
}


def note(*words: str) -> None:
    with Path(os.environ["STAGE_LOG"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(words) + "\n")


def planned(runner: str, part: str) -> str:
    return str(json.loads(os.environ.get("STAGE_PLAN", "{}")).get(f"{runner} {part}", "passed"))


def nox(words: list[str]) -> int:
    """`python -m nox`: for a runner, its session's Python and a small run folder."""
    note("nox", *words)
    names = words[1 : words.index("--") if "--" in words else None]
    if names[0] not in KINDS:
        return 0
    runner, rest = names[0], words[words.index("--") + 1 :]
    part = "preflight" if "suites/preflight" in rest else "suites"
    folder = Path(rest[rest.index("--run-dir") + 1])
    what = planned(runner, part)
    if what == "broken":
        return 1
    python = Path(".nox", runner, "bin", "python")
    python.parent.mkdir(parents=True, exist_ok=True)
    if planned(runner, "python") == "real":
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    else:
        python.write_text(
            PYTHON.format(python=sys.executable, here=Path.cwd(), runner=runner), encoding="utf-8"
        )
    python.chmod(0o755)
    if what == "none":
        return 1
    if what == "real":
        import runs

        few = ["suites/preflight", "-k", "product_of_ones", "--target", "reference"]
        return os.spawnv(os.P_WAIT, sys.executable, runs.command(folder, *few))
    write_run(folder, runner, part, what)
    return 0 if what == "passed" else 1


def write_run(folder: Path, runner: str, part: str, outcome: str) -> None:
    """A small run folder of that runner."""
    import runs
    from builders import case, make_record, make_run
    from harness.records import Metric

    record = make_record(case("a"), outcome, metrics=(Metric("step_s", "s", (1.0, 1.1, 1.2)),))
    made = make_run([record], run_id=f"{runner}-{part}-{os.getpid()}", runner=KINDS[runner])
    runs.write(folder, made)


def session(runner: str, words: list[str]) -> int:
    """The Python of a runner's session: packs and verifies bundles."""
    note(f"{runner} python", *words)
    assert words[:3] == ["-m", "harness.cli", "checkpoint"]
    action, bundle = words[3], Path(words[4])
    what = planned(runner, "pack" if action == "pack" else "verify")
    if what == "broken":
        return 3
    if action == "pack":
        bundle.write_text(f"packed on {runner}", encoding="utf-8")
        return 0
    from harness import rundir

    verdict = "agree" if what == "passed" else "differ"
    side = {"runner": bundle.stem, "world": 2}
    told = {
        "verdict": verdict,
        "reason": f"as {runner} has it",
        "packed": side,
        "here": {**side, "runner": runner},
    }
    if "--into" in words:
        rundir.write_bundle(Path(words[words.index("--into") + 1]), bundle.name, told)
    return 0 if verdict == "agree" else 1


def gh(words: list[str]) -> int:
    """`gh`: the answers of GitHub that STAGE_GH holds, by the path asked for."""
    note("gh", *words)
    if words[0] != "api":
        return 0
    answers = json.loads(os.environ["STAGE_GH"])
    path = next(w for w in words if w.startswith("repos/"))
    value = answers[path]
    if "--jq" in words:
        for key in words[words.index("--jq") + 1].strip(".").split("."):
            value = value[key]
        print(value)
    else:
        print(json.dumps(value))
    return 0


def main(words: list[str]) -> int:
    program, *rest = words
    here = Path(__file__).resolve().parent
    sys.path[:0] = [str(here.parent), str(here)]
    if program == "session":
        return session(rest[0], rest[1:])
    if program in ("nox", "gh"):
        return {"nox": nox, "gh": gh}[program](rest)
    note(program, *rest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
