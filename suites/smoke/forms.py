"""In which sizes the program is run: a small form always, the long form of upstream #43 when it is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FULL = Path(__file__).with_name("full.toml")
FULL_WANTED, FULL_CONFIG = "HARNESS_FULL", "HARNESS_FULL_CONFIG"


@dataclass(frozen=True)
class Form:
    """Two launches of one plan: the first ends at `plan["steps"]`, the second goes on by itself to `resume_to`.

    `plan` holds fields of the training's Plan; without `data` it trains on the mini data set of `episodes` videos.
    `falls_over`: over so many steps at either end the mean loss is taken, and the later one must be lower; 0 asks
    for nothing. `limit_s`: time limit of a launch in seconds; None is four times that of a child.
    """

    name: str
    ranks: int
    resume_to: int
    plan: Mapping[str, Any] = field(default_factory=dict)
    episodes: int = 2
    falls_over: int = 0
    limit_s: float | None = None

    @property
    def steps(self) -> int:
        return int(self.plan["steps"])

    @property
    def due(self) -> tuple[int, ...]:
        """The steps after which a checkpoint is due: every `save_every`, and the last of each launch."""
        every = int(self.plan["save_every"])
        regular = range(every, self.resume_to + 1, every)
        return tuple(sorted({*regular, self.steps, self.resume_to}))

    def planned(self, part: str) -> tuple[int, int]:
        """The first and the last step of a launch, `first` or `resumed`."""
        return (1, self.steps) if part == "first" else (self.steps + 1, self.resume_to)


MINI = Form(
    "mini",
    ranks=2,
    resume_to=9,
    plan={
        "steps": 6,
        "save_every": 3,
        "freeze_steps": 2,
        "paired": False,
        "options": {"num_workers": 1, "prefetch_factor": 2},
    },
)


def read(path: Path) -> Form:
    """The form that a TOML file describes; ValueError names the file and what is wrong with it."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        form = Form("full", **data)
        _ = form.steps, form.plan["save_every"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: {error}; see {FULL.name} beside the suite for the form") from None
    return form


def wanted(full: bool) -> list[Form]:
    """The forms to run; the long one also when `HARNESS_FULL` is 1, from the file that `HARNESS_FULL_CONFIG` names."""
    if not full and os.environ.get(FULL_WANTED) != "1":
        return [MINI]
    return [MINI, read(Path(os.environ.get(FULL_CONFIG) or FULL))]
