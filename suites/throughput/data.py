"""The data set of this suite: short clips, so that a training step is more than its decoding."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from fixtures import clips, dataset
from suites import minidata

FRAMES = 12
EPISODES = 8


def clip() -> clips.Clip:
    """The first frames of the mini data set's clip, as a clip of their own."""
    whole = clips.RECIPES[minidata.CLIP]
    return clips.make(dataclasses.replace(whole, name=f"{minidata.CLIP}-{FRAMES}", frames=FRAMES))


def make() -> tempfile.TemporaryDirectory[str]:
    """A new data set without statistics, gone when the object is closed."""
    folder = tempfile.TemporaryDirectory(prefix="throughput-")
    dataset.make(Path(folder.name), [(clip().path, FRAMES)] * EPISODES)
    return folder


def order(count: int, length: int) -> list[int]:
    """`length` indices into the data set of `count` items: neighbours lie in different episodes, and any FRAMES of them
    in a row hold each frame number once, so that every stretch of them is the same work."""
    return [(i * (3 * FRAMES + 1)) % count for i in range(length)]
