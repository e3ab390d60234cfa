"""The `vitra` target: an unmodified VITRA checkout, with supplies and patches that act from outside at run time.

Supplies are numbered as in the project's notes on VITRA: S0 utils3d, S1 torchvision's operators; D1 stands in
for the model's processor where only data is under test.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.targets import checkout
from harness.targets.base import TargetSpec

SOURCE = checkout.Source(
    name="vitra",
    url="https://github.com/microsoft/VITRA",
    commit="c68b65e447eab1fb22c6cfa57f0a8f88041e32b3",
    landmark="vitra/datasets/video_utils.py",
    variable="HARNESS_VITRA",
)

PATCHES: Mapping[str, str] = {
    "decoder-fix": "one decoder thread, and the decoder's own error raised after the retries (upstream #43)",
}

_FUTURE = 7


def locate(path: str | None, *, clone: bool, say: Callable[[str], None]) -> TargetSpec:
    """The checkout with its commit and whether it is dirty; TargetUnavailable when there is none."""
    folder = checkout.find(SOURCE, path, clone=clone, say=say)
    commit, dirty = checkout.state(folder)
    note = None
    if commit != SOURCE.commit:
        note = f"not the pinned commit {SOURCE.commit[:7]}"
    return TargetSpec("vitra", str(folder), commit, dirty, note=note)


def supplies() -> tuple[str, ...]:
    """The supplies that this environment needs, decided from installed metadata alone."""
    needed = []
    if importlib.util.find_spec("utils3d") is None:
        needed.append("S0 stand-in for utils3d")
    if importlib.util.find_spec("wandb") is None:
        needed.append("S0 stand-in for wandb (training)")
    if _operators_missing():
        needed.append("S1 torchvision operators nms and qnms declared")
    if _torch_build() == "cpu":
        needed += [
            "S2 device calls answered for a CPU (training)",
            "S3 as many devices in a node as ranks (training)",
            "S4 accelerate told that ranks are CPU processes (training)",
            "S5 full state dicts left on the device (training)",
            "S6 autocast on the CPU (training, inference)",
            "S8 inputs left on the CPU (inference)",
        ]
    needed.append("S7 metrics end without their 210 s of sleep (training)")
    needed.append("D1 pass-through processor (data path only)")
    return tuple(needed)


def _torch_build() -> str:
    """Local version of the installed torch, as in `2.13.0+cpu`; empty without."""
    try:
        return metadata.version("torch").partition("+")[2]
    except metadata.PackageNotFoundError:
        return ""


def _operators_missing() -> bool:
    """True when torchvision was built for another build of torch than the one beside it."""
    try:
        torch, vision = metadata.version("torch"), metadata.version("torchvision")
    except metadata.PackageNotFoundError:
        return False
    return torch.partition("+")[2] != vision.partition("+")[2]


def load(spec: TargetSpec) -> VitraTarget:
    """VITRA importable in this process, its supplies and patches in force."""
    assert spec.path is not None
    if spec.path not in sys.path:
        sys.path.insert(0, spec.path)
    # Nothing here may look for a model hub.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    target = VitraTarget(_supply(), spec.path)
    if "decoder-fix" in spec.patches:
        target.decoder_fix = True
    return target


@functools.cache
def _supply() -> tuple[str, ...]:
    wanted = supplies()
    if any(s.startswith("S0") for s in wanted):
        standin = importlib.import_module("harness.targets.standins.utils3d")
        sys.modules["utils3d"] = standin
    if any(s.startswith("S1") for s in wanted):
        import torch

        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)
    return wanted


_LIBRARIES: list[Any] = []  # a torch library's declarations end with the object


class _OneThread:
    """`decord` as VITRA's video_utils sees it under decoder-fix: readers take one thread unless told."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("decord"), name)

    def VideoReader(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("num_threads", 1)
        return importlib.import_module("decord").VideoReader(*args, **kwargs)


class VitraTarget:
    """VITRA's own loader, window grabbing and data set; imported on first use."""

    name = "vitra"
    attempts = 3
    pause_s = 0.1

    def __init__(self, in_force: tuple[str, ...], path: str) -> None:
        self.supplies, self.path = in_force, path
        self.decoder_fix = False
        self._datasets: dict[str, Any] = {}

    @functools.cached_property
    def trainer(self) -> Any:
        """VITRA's own training, in the process of one rank."""
        _ = self._human
        return importlib.import_module("harness.targets.vitra_training").VitraTrainer(self.path)

    @functools.cached_property
    def _video(self) -> Any:
        utils: Any = importlib.import_module("vitra.datasets.video_utils")
        if self.decoder_fix:
            utils.decord = _OneThread()
        return utils

    @functools.cached_property
    def _human(self) -> Any:
        _ = self._video
        human = importlib.import_module("vitra.datasets.human_dataset")
        if self.decoder_fix:
            _raise_the_original(human)
        return human

    def frame_count(self, path: str) -> int:
        return int(self._video.get_video_length(path))

    def frames(self, path: str, indices: Sequence[int]) -> Any:
        images, _ = self._video.load_video_decord(path, frame_index=list(indices))
        return images

    def grab(self, root: str, episode: int, frame: int, past: int, future: int) -> Any:
        if root not in self._datasets:
            self._datasets[root] = self.open_dataset(root)
        core = self._datasets[root].datasets[0].episodic_dataset_core
        name = core.index_to_episode_id[episode]
        annotation = core._load_or_cache_episode(name)[0]
        images, _ = core._grab_window_images(name, annotation, frame, past, future)
        return images

    def open_dataset(self, root: str) -> Any:
        _ = self._human
        dataset = importlib.import_module("vitra.datasets.dataset")
        return dataset.MultipleWeightedDataset.load_datasets(
            root, "ssv2", action_future_window_size=_FUTURE, augmentation=False, processor=PassThrough()
        )

    def image_of(self, item: Mapping[str, Any]) -> Any:
        return item["pixel_values"][0].numpy().astype("uint8")

    def policy(self, device: str) -> Any:
        return importlib.import_module("harness.targets.vitra_inference_model").VitraPolicy(self.path, device)

    def write_statistics(self, root: str) -> None:
        _ = self._human
        dataset = importlib.import_module("vitra.datasets.dataset")
        statistics = importlib.import_module("vitra.datasets.calculate_statistics")
        data = dataset.FrameDataset(
            root,
            "ssv2",
            augmentation=False,
            load_images=False,
            state_mask_prob=0.0,
            action_future_window_size=0,
        )
        folder = Path(root) / "Annotation/statistics"
        statistics.compute_statistics(data, num_workers=0, batch_size=64, save_folder=str(folder))


class PassThrough:
    """Stands for the model's processor where only data is under test: pixels unchanged, two tokens of text.

    `pixel_values` has shape (1, height, width, 3), values 0 to 255.
    """

    def __call__(self, text: str, images: Sequence[Any], return_tensors: str) -> Any:
        import numpy as np
        import torch
        from transformers import BatchFeature

        del text, return_tensors
        return BatchFeature(
            {
                "input_ids": torch.tensor([[2, 1]]),
                "pixel_values": torch.from_numpy(np.stack([np.array(i) for i in images])),
            }
        )


def _raise_the_original(human: Any) -> None:
    """Makes window grabbing raise the loader's last error where VITRA goes on without any image."""
    last = threading.local()
    loader = human.load_video_decord
    grab = human.EpisodicDatasetCore._grab_window_images

    @functools.wraps(loader)
    def load_and_remember(*args: Any, **kwargs: Any) -> Any:
        try:
            return loader(*args, **kwargs)
        except Exception as error:
            last.error = error
            raise

    @functools.wraps(grab)
    def grab_or_raise(*args: Any, **kwargs: Any) -> Any:
        last.error = None
        try:
            return grab(*args, **kwargs)
        except UnboundLocalError:
            if last.error is None:
                raise
            raise last.error from None
        finally:
            last.error = None

    human.load_video_decord = load_and_remember
    human.EpisodicDatasetCore._grab_window_images = grab_or_raise
