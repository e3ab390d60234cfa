"""The `reference` target: our own loader, retry path and data set of VITRA's shape, correct by construction.

Every video is read by one decoder thread from its first frame on, since decord gives wrong frames after a
seek in an open-GOP stream and fails with three threads or more on VP9 superframes.
"""

from __future__ import annotations

import functools
import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import decord
import numpy as np

from harness.targets.base import TargetSpec

PATCHES: Mapping[str, str] = {}
_DATASET = "Annotation/ssv2"
_VIDEOS = "Video/Somethingsomething-v2_root"


class DamagedVideo(RuntimeError):
    """A video holds another number of frames than the data set's index declares."""


class WindowError(RuntimeError):
    """No window could be read after all attempts; chained from the decoder's own error."""


def locate(path: str | None, *, clone: bool, say: Callable[[str], None]) -> TargetSpec:
    """The reference is part of the harness: always here, with no commit of its own."""
    del path, clone, say
    return TargetSpec("reference")


def supplies() -> tuple[str, ...]:
    """None: it runs as it is."""
    return ()


def load(spec: TargetSpec) -> ReferenceTarget:
    del spec
    return ReferenceTarget()


class ReferenceTarget:
    """Loader and retry path; each step is a method of its own, so that a defect can be planted in it."""

    name = "reference"
    attempts = 3
    pause_s = 0.1
    supplies: tuple[str, ...] = ()

    @functools.cached_property
    def trainer(self) -> Any:
        """The reference's own training, in the process of one rank."""
        return importlib.import_module("harness.targets.reference_training").ReferenceTrainer(self)

    def open(self, path: str) -> Any:
        return decord.VideoReader(path, num_threads=1)

    def frame_count(self, path: str) -> int:
        return len(self.open(path))

    def frames(self, path: str, indices: Sequence[int], declared: int | None = None) -> Any:
        """Frames of shape (N, height, width, 3), uint8; IndexError for an index outside the video,
        DamagedVideo when it does not hold `declared` frames."""
        reader = self.open(path)
        count = len(reader)
        if declared is not None and count != declared:
            raise DamagedVideo(f"{path}: holds {count} frames, the index declares {declared}")
        self.check(path, indices, count)
        return self.decode(reader, indices)

    def check(self, path: str, indices: Sequence[int], count: int) -> None:
        for index in indices:
            if not 0 <= index < count:
                raise IndexError(f"{path}: frame {index} asked for, it holds frames 0 to {count - 1}")

    def decode(self, reader: Any, indices: Sequence[int]) -> Any:
        wanted = set(indices)
        kept: dict[int, Any] = {}
        for number in range(max(wanted, default=-1) + 1):
            frame = reader.next()
            if number in wanted:
                kept[number] = frame.asnumpy()
        return self.assemble(kept, indices)

    def assemble(self, kept: Mapping[int, Any], indices: Sequence[int]) -> Any:
        return np.stack([kept[i] for i in indices])

    def retry(self, read: Callable[[], Any], what: str) -> Any:
        """The value of `read`, tried `attempts` times with a pause between; WindowError from the last error."""
        for attempt in range(1, self.attempts + 1):
            try:
                return read()
            except Exception as error:
                if attempt == self.attempts:
                    raise WindowError(f"{what}: unread after {attempt} attempts: {error}") from error
                time.sleep(self.pause_s)
        raise AssertionError("unreachable: attempts is at least 1")

    def grab_window(self, path: str, indices: Sequence[int], declared: int) -> Any:
        return self.retry(lambda: self.frames(path, indices, declared), path)

    def grab(self, root: str, episode: int, frame: int, past: int, future: int) -> Any:
        return self.open_dataset(root).window(episode, frame, past, future)

    def open_dataset(self, root: str) -> ReferenceDataset:
        return ReferenceDataset(root, self)

    def image_of(self, item: Mapping[str, Any]) -> Any:
        return item["image"]

    def policy(self, device: str) -> Any:
        return importlib.import_module("harness.targets.reference_inference_model").ReferencePolicy(device)

    def write_statistics(self, root: str) -> None:
        """Mean and deviation of the wrist's position over all frames."""
        data = ReferenceDataset(root, self)
        sides = {
            side: np.concatenate([data.episode(e)[side]["transl_worldspace"] for e in range(data.episodes)])
            for side in ("left", "right")
        }
        folder = Path(root) / "Annotation/statistics"
        folder.mkdir(parents=True, exist_ok=True)
        values = {
            f"state_{s}": {"mean": v.mean(0).tolist(), "std": v.std(0).tolist()} for s, v in sides.items()
        }
        (folder / "ssv2_angle_statistics.json").write_text(json.dumps(values), encoding="utf-8")


class ReferenceDataset:
    """One item a frame: its picture (height, width, 3) and the wrist's positions in the next 8 frames."""

    future = 8

    def __init__(self, root: str, target: ReferenceTarget) -> None:
        self.root, self.target = Path(root), target
        index = np.load(self.root / _DATASET / "episode_frame_index.npz", allow_pickle=True)
        self.pairs, self.ids = index["index_frame_pair"], [str(i) for i in index["index_to_episode_id"]]
        self._episodes: dict[int, Any] = {}

    @property
    def episodes(self) -> int:
        return len(self.ids)

    def __len__(self) -> int:
        return len(self.pairs)

    def episode(self, number: int) -> Any:
        """The episode's annotation as VITRA's files have it."""
        if number not in self._episodes:
            path = self.root / _DATASET / "episodic_annotations" / f"{self.ids[number]}.npy"
            # The data set's own format: annotations are pickled dicts, made by this harness's fixtures.
            self._episodes[number] = np.load(path, allow_pickle=True).item()
        return self._episodes[number]

    def window(self, number: int, frame: int, past: int, future: int) -> Any:
        """Frames of the window, clipped at the episode's ends."""
        episode = self.episode(number)
        table = episode["video_decode_frame"]
        rows = np.clip(np.arange(frame - past, frame + future + 1), 0, len(table) - 1)
        path = self.root / _VIDEOS / f"{episode['video_name']}.webm"
        return self.target.grab_window(str(path), [int(i) for i in table[rows]], len(table))

    def __getitem__(self, index: int) -> dict[str, Any]:
        number, frame = (int(v) for v in self.pairs[index])
        image = self.window(number, frame, 0, 0)[0]
        hand = self.episode(number)["right"]["transl_worldspace"]
        rows = np.clip(np.arange(frame + 1, frame + 1 + self.future), 0, len(hand) - 1)
        return {"image": image, "actions": hand[rows].astype(np.float32)}
