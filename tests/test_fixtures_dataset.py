"""The mini data set, read back with numpy alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from fixtures import clips, damaged, dataset

pytest.importorskip("scipy", reason="scipy is not installed, so no hands can be made")

HAND = {
    "beta": (10,),
    "global_orient_camspace": (None, 3, 3),
    "global_orient_worldspace": (None, 3, 3),
    "hand_pose": (None, 15, 3, 3),
    "transl_camspace": (None, 3),
    "transl_worldspace": (None, 3),
    "kept_frames": (None,),
    "joints_camspace": (None, 21, 3),
    "joints_worldspace": (None, 21, 3),
    "wrist": (None, 1, 3),
}
BAD = ("missing", "folder", "no-permission")


@pytest.fixture
def made(tmp_path: Path) -> dataset.MiniDataset:
    whole = [clips.get("vp9-plain"), clips.get("h264-odd"), clips.get("h264-one")]
    videos = [(c.path, c.frames) for c in whole]
    videos += [(d.path, d.declared_frames) for d in map(damaged.get, BAD)]
    return dataset.make(tmp_path / "data", videos)


def episode(made: dataset.MiniDataset, number: int) -> dict:
    path = made.root / f"Annotation/ssv2/episodic_annotations/{made.episodes[number].id}.npy"
    return np.load(path, allow_pickle=True).item()


def test_index(made: dataset.MiniDataset) -> None:
    """The index lists every frame of every episode in order, and `index_of` finds them."""
    index = np.load(made.root / "Annotation/ssv2/episode_frame_index.npz", allow_pickle=True)
    pairs, ids = index["index_frame_pair"], index["index_to_episode_id"]
    frames = [64, 48, 1, 64, 64, 64]
    assert pairs.tolist() == [[e, f] for e, n in enumerate(frames) for f in range(n)]
    assert ids.tolist() == [e.id for e in made.episodes]
    assert all(i.startswith("somethingsomethingv2_") for i in ids)
    assert made.frames == sum(frames)
    for number, frame in [(0, 0), (0, 63), (1, 0), (2, 0), (5, 63)]:
        assert pairs[made.index_of(number, frame)].tolist() == [number, frame]


@pytest.mark.parametrize(("number", "frame"), [(0, 64), (0, -1), (2, 1), (6, 0)])
def test_index_outside(made: dataset.MiniDataset, number: int, frame: int) -> None:
    """A frame or an episode that is not declared has no index."""
    with pytest.raises(IndexError):
        made.index_of(number, frame)


def test_episodes(made: dataset.MiniDataset) -> None:
    """Each annotation fits its video's name and declared frames; both hands are full, rotations real."""
    for number, e in enumerate(made.episodes):
        found = episode(made, number)
        assert f"{found['video_name']}.webm" == e.video.name == f"{1000 + number}.webm"
        assert found["video_decode_frame"].tolist() == list(range(e.declared_frames))
        assert found["extrinsics"].shape == (e.declared_frames, 4, 4)
        assert found["intrinsics"].shape == (3, 3)
        assert found["anno_type"] == ("left" if number % 2 else "right")
        assert set(found["text"]) == set(found["text_rephrase"]) == {"left", "right"}
        for side in ("left", "right"):
            hand = found[side]
            shapes = {k: tuple(e.declared_frames if n is None else n for n in s) for k, s in HAND.items()}
            assert {k: v.shape for k, v in hand.items()} == shapes
            assert all(np.isfinite(v).all() for v in hand.values())
            for turn in (hand["hand_pose"], hand["global_orient_worldspace"]):
                assert np.allclose(turn @ np.swapaxes(turn, -1, -2), np.eye(3), atol=1e-5)
                assert np.allclose(np.linalg.det(turn), 1, atol=1e-5)


def test_smooth(made: dataset.MiniDataset) -> None:
    """A hand moves less than 3 cm from one frame to the next, and does move."""
    steps = np.linalg.norm(np.diff(episode(made, 0)["right"]["transl_worldspace"], axis=0), axis=-1)
    assert steps.min() > 0
    assert steps.max() < 0.03


def test_videos(made: dataset.MiniDataset) -> None:
    """Videos keep their bytes under a webm name whatever they hold; what is missing or a folder stays so."""
    folder = made.root / "Video/Somethingsomething-v2_root"
    assert (folder / "1000.webm").read_bytes() == clips.get("vp9-plain").path.read_bytes()
    assert (folder / "1001.webm").read_bytes() == clips.get("h264-odd").path.read_bytes()
    assert not (folder / "1003.webm").exists()
    assert (folder / "1004.webm").is_dir()
    closed = folder / "1005.webm"
    assert closed.stat().st_mode & 0o777 == 0
    assert closed.stat().st_ino != damaged.get("no-permission").path.stat().st_ino
    if os.geteuid() == 0:  # root reads it all the same, and must then find a whole video
        assert closed.read_bytes() == damaged.get("no-permission").path.read_bytes()


def test_declared(made: dataset.MiniDataset) -> None:
    """`videos.json` says how many frames the index declares of each video, also of one that is not there."""
    declared = json.loads((made.root / "Annotation/ssv2/videos.json").read_text(encoding="utf-8"))
    assert declared == {e.video.name: {"frames": e.declared_frames} for e in made.episodes}
    assert declared["1003.webm"] == {"frames": 64}


def test_no_statistics(made: dataset.MiniDataset) -> None:
    """The folder of the statistics is there and empty: they are the target's to write."""
    assert list((made.root / "Annotation/statistics").iterdir()) == []


def test_repeatable(tmp_path: Path) -> None:
    """Two data sets of the same videos hold the same annotations."""
    video = [(clips.get("h264-one").path, 1)]
    first, second = (dataset.make(tmp_path / n, video) for n in "ab")
    name = f"Annotation/ssv2/episodic_annotations/{first.episodes[0].id}.npy"
    assert (first.root / name).read_bytes() == (second.root / name).read_bytes()
