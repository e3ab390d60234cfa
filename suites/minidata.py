"""The mini data set of the training suites: four whole videos of one clip."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from fixtures import clips, dataset

CLIP = "vp9-plain"
EPISODES = 4


def make() -> tempfile.TemporaryDirectory[str]:
    """A new data set without statistics, gone when the object is closed."""
    folder = tempfile.TemporaryDirectory(prefix="minidata-")
    clip = clips.get(CLIP)
    dataset.make(Path(folder.name), [(clip.path, clip.frames)] * EPISODES)
    return folder


def complete(target: Any, root: str) -> None:
    """Writes the statistics with the target's own code, once; collective: every rank calls it."""
    import torch.distributed as dist

    done = Path(root, "statistics-written")
    if dist.get_rank() == 0 and not done.exists():
        target.write_statistics(root)
        done.touch()
    dist.barrier()
