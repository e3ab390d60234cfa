"""What a target must answer, and how one is found and loaded in any process of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from harness.errors import TargetUnavailable, UsageError
from harness.targets import module

DEFAULT = "vitra"
FALLBACK = "reference"


@dataclass(frozen=True)
class TargetSpec:
    """Everything a process needs to load the target; travels as JSON to workers and children."""

    name: str
    path: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    patches: tuple[str, ...] = ()
    defect: str | None = None
    note: str | None = None

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> TargetSpec:
        data = json.loads(text)
        data["patches"] = tuple(data["patches"])
        return cls(**data)


class Target(Protocol):
    """The code base under test, loaded in this process.

    `attempts` and `pause_s` are what it promises of its retries: how often a window is tried, and the pause
    between two tries in seconds. Frames are uint8 arrays of shape (N, height, width, 3), RGB.
    """

    name: str
    attempts: int
    pause_s: float
    supplies: tuple[str, ...]

    def frame_count(self, path: str) -> int:
        """How many frames the target's own reader says the video has."""
        ...

    def frames(self, path: str, indices: Sequence[int]) -> Any:
        """Those frames in that order, through the target's own loader."""
        ...

    def grab(self, root: str, episode: int, frame: int, past: int, future: int) -> Any:
        """The frames from `frame - past` to `frame + future` of an episode of the data set under `root`,
        through the target's own window grabbing with its retries."""
        ...

    def open_dataset(self, root: str) -> Any:
        """The target's own map-style data set over `root`; picklable for DataLoader workers."""
        ...

    def image_of(self, item: Mapping[str, Any]) -> Any:
        """The picture inside an item of that data set, uint8 of shape (height, width, 3)."""
        ...

    def write_statistics(self, root: str) -> None:
        """Writes the data set's statistics with the target's own code."""
        ...

    def policy(self, device: str) -> Policy:
        """The target's model, built by its own code for inference, on a device as torch names it."""
        ...


class Policy(Protocol):
    """A target's model that is ready to infer in this process.

    `batch` chunks of `horizon` actions with `dimensions` numbers each come out of one inference.
    """

    batch: int
    horizon: int
    dimensions: int

    def predict(self, image: Any, instruction: str) -> Any:
        """One inference through the target's own code, from one uint8 picture of shape (height, width, 3), RGB, and an
        instruction in English: the actions on the host, a float array of shape (batch, horizon, dimensions), without
        unit. Several threads may call it at the same time."""
        ...


def locate(
    name: str | None,
    path: str | None,
    patches: Sequence[str],
    *,
    clone: bool,
    say: Callable[[str], None],
) -> TargetSpec:
    """Finds the target that was asked for.

    Without a name it is `vitra`, or `reference` with a note when there is no VITRA to be had. A target asked
    for by name or by path that cannot be had is TargetUnavailable; an unknown patch is a UsageError. `say`
    takes progress lines.
    """
    wanted = name or DEFAULT
    chosen = module(wanted)
    spec: TargetSpec
    try:
        spec = chosen.locate(path, clone=clone, say=say)
    except TargetUnavailable as error:
        if name is not None or path is not None:
            raise
        if patches:
            raise UsageError(
                f"--patch {patches[0]}: patches act on {DEFAULT}, which is not here ({error})"
            ) from None
        say(f"{error} Falling back to the target '{FALLBACK}'.")
        chosen = module(FALLBACK)
        found: TargetSpec = chosen.locate(None, clone=False, say=say)
        spec = replace(found, note=f"fallback: {error}")
    for patch in patches:
        if patch not in chosen.PATCHES:
            there = ", ".join(sorted(chosen.PATCHES)) or "none"
            raise UsageError(f"--patch {patch}: target {spec.name} has no such patch; there are: {there}")
    return replace(spec, patches=tuple(patches))


def load(spec: TargetSpec) -> Target:
    """The target of `spec`, loaded in this process with its supplies, patches and planted defect in force."""
    target: Target = module(spec.name).load(spec)
    if spec.defect is not None:
        from fixtures import defects

        try:
            defects.plant(spec.defect, target)
        except KeyError:
            there = ", ".join(defects.names())
            raise UsageError(f"--defect {spec.defect}: no such defect; there are: {there}") from None
    return target
