"""Clips and damaged files: what they hold, and that they are whole or not there."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures import _cache, barcode, clips, damaged

decord = pytest.importorskip("decord", reason="decord is not installed, so no clip can be read back")

NAMES = {
    *(
        "vp9-superframe",
        "vp9-superframe-400",
        "vp9-superframe-odd",
        "vp9-superframe-audio",
        "vp9-plain",
        "vp8",
    ),
    *("h264-nob", "h264-b", "h264-opengop", "h264-odd", "h264-one", "h264-400", "h264-audio"),
}
SMALL = dataclasses.replace(clips.RECIPES["h264-nob"], name="small", frames=6)


def numbers(path: Path) -> list[int | None]:
    reader = decord.VideoReader(str(path), num_threads=1)
    return [barcode.read(f) for f in reader.get_batch(list(range(len(reader)))).asnumpy()]


def has_audio(path: Path) -> bool:
    said = subprocess.run([clips._ffmpeg(), "-i", str(path)], capture_output=True, check=False).stderr
    return b"Audio:" in said


def test_names() -> None:
    """The clips that suites name are all there, each under its own name and with a description."""
    assert set(clips.RECIPES) == NAMES
    assert all(name == r.name and r.description for name, r in clips.RECIPES.items())


@pytest.mark.parametrize("name", sorted(NAMES))
def test_frames_in_order(name: str) -> None:
    """Decoded in order by one thread, every frame shows its number and the size that was asked for."""
    clip = clips.get(name)
    assert numbers(clip.path) == list(range(clip.frames))
    first = decord.VideoReader(str(clip.path), num_threads=1)[0]
    assert first.shape == (clip.height, clip.width, 3)
    assert has_audio(clip.path) == bool(clips.RECIPES[name].audio)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_superframes(name: str) -> None:
    """Superframes are there where the recipe wants them, and nowhere else; `clip.json` tells the same."""
    clip = clips.get(name)
    assert (clip.superframes > 0) == bool(clips.RECIPES[name].superframes)
    facts = json.loads((clip.path.parent / "clip.json").read_text(encoding="utf-8"))
    data = clip.path.read_bytes()
    assert facts == {
        "frames": clip.frames,
        "superframes": clip.superframes,
        "size_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


@pytest.mark.parametrize(
    ("of", "claims", "codec"),
    [
        ("vp9-superframe", True, clips.RECIPES["vp9-plain"].codec),
        ("vp9-plain", False, clips.RECIPES["vp9-superframe"].codec),
    ],
)
def test_wrong_superframes_refused(of: str, claims: bool, codec: tuple[str, ...], tmp_path: Path) -> None:
    """A clip without superframes where some are needed, or with some where none may be, is not kept."""
    passes = 1 if claims else 2
    recipe = dataclasses.replace(clips.RECIPES[of], codec=codec, passes=passes, superframes=claims)
    with pytest.raises(clips.FixtureError, match="refused: "):
        clips.make(recipe, tmp_path)
    assert not [p for p in tmp_path.iterdir() if p.is_dir()]


def make_and_tell(cache: Path, start: Any, told: Any) -> None:
    """Run in a process of its own: waits for the others, makes the clip, tells what came of it."""
    encode, makings = clips._encode, []

    def counted(recipe: clips.Recipe, work: Path) -> None:
        makings.append(recipe.name)
        encode(recipe, work)

    clips._encode = counted
    start.wait(60)
    path = clips.get("h264-b", cache).path
    told.put((str(path), hashlib.sha256(path.read_bytes()).hexdigest(), len(makings)))


def test_four_processes(tmp_path: Path) -> None:
    """Four processes that want one clip at once get the same whole file, made by one of them alone."""
    spawn = multiprocessing.get_context("spawn")
    start, told = spawn.Barrier(4), spawn.Queue()
    makers = [spawn.Process(target=make_and_tell, args=(tmp_path, start, told)) for _ in range(4)]
    for maker in makers:
        maker.start()
    answers = [told.get(timeout=90) for _ in makers]
    for maker in makers:
        maker.join(30)
    assert len({answer[:2] for answer in answers}) == 1
    assert sorted(makings for *_, makings in answers) == [0, 0, 0, 1]
    folders = [p for p in tmp_path.iterdir() if p.is_dir()]
    assert [str(p) for p in folders] == [str(Path(answers[0][0]).parent)]
    assert sorted(p.name for p in folders[0].iterdir()) == ["clip.json", "h264-b.mp4"]
    assert numbers(Path(answers[0][0])) == list(range(64))


def test_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clip that is there is not made again."""
    first = clips.make(SMALL, tmp_path)
    monkeypatch.setattr(clips, "_encode", lambda *_: pytest.fail("made again"))
    assert clips.make(SMALL, tmp_path) == first


def test_killed_in_the_middle(tmp_path: Path) -> None:
    """What a maker that was killed leaves is neither taken for a clip nor kept."""
    program = (
        "import os, sys; from pathlib import Path; from fixtures import _cache\n"
        "def make(work): (work / 'half').write_bytes(b'x'); os._exit(9)\n"
        "_cache.made(Path(sys.argv[1]), sys.argv[2], make)\n"
    )
    name = clips.make(SMALL, tmp_path / "whole").path.parent.name
    root = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", program, str(root), name], check=False, timeout=60)
    assert done.returncode == 9
    assert list(root.glob(f".{name}-*/half"))
    assert numbers(clips.make(SMALL, root).path) == list(range(6))
    assert [p.name for p in root.iterdir() if p.is_dir()] == [name]


def test_shortened_file_made_again(tmp_path: Path) -> None:
    """A kept clip that lost bytes, or its description, is made again."""
    path = clips.make(SMALL, tmp_path).path
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert clips.make(SMALL, tmp_path).path.read_bytes() == whole
    (path.parent / "clip.json").unlink()
    clips.make(SMALL, tmp_path)
    assert (path.parent / "clip.json").is_file()


def test_same_bytes_each_time(tmp_path: Path) -> None:
    """A webm, and the damage done to it, is the same in every cache."""
    made = damaged.get("garbage-webm", tmp_path)
    assert made.path.read_bytes() == damaged.get("garbage-webm").path.read_bytes()
    assert {p.name.rpartition("-")[0] for p in tmp_path.iterdir()} == {"vp9-plain", "damaged-garbage-webm"}


def test_cache_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HARNESS_CACHE names the folder that holds `fixtures`."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    assert clips.make(SMALL).path.is_relative_to(tmp_path / "fixtures")


def test_no_encoder(tmp_path: Path) -> None:
    """A missing encoder is a FixtureError of one line with ffmpeg's words and a remedy."""
    recipe = dataclasses.replace(SMALL, codec=("-c:v", "libnosuch"))
    with pytest.raises(clips.FixtureError, match=r"libnosuch.*reinstall imageio-ffmpeg") as caught:
        clips.make(recipe, tmp_path)
    assert "\n" not in str(caught.value)


def test_no_ffmpeg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A missing ffmpeg is a FixtureError that says what to install."""
    monkeypatch.setattr(clips, "_ffmpeg", lambda: str(tmp_path / "ffmpeg"))
    with pytest.raises(clips.FixtureError, match="pip install imageio-ffmpeg"):
        clips.run_ffmpeg(["-version"])


def test_cache_not_writable(tmp_path: Path) -> None:
    """A cache that cannot be made is a FixtureError that names HARNESS_CACHE."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(clips.FixtureError, match="HARNESS_CACHE"):
        _cache.made(tmp_path / "file" / "cache", "name", lambda _: None)


def test_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest is twelve hex digits, needs no ffmpeg, and changes with a recipe and with a damaged file."""
    monkeypatch.setattr(clips, "_ffmpeg", lambda: pytest.fail("ran ffmpeg"))
    before = damaged.recipe_digest()
    assert before == damaged.recipe_digest()
    assert len(before) == 12
    assert int(before, 16) >= 0
    with monkeypatch.context() as patch:
        patch.setitem(clips.RECIPES, "vp8", dataclasses.replace(clips.RECIPES["vp8"], frames=65))
        assert damaged.recipe_digest() != before
    monkeypatch.setattr(damaged, "described", list)
    assert damaged.recipe_digest() != before


@pytest.mark.parametrize("name", damaged.NAMES)
def test_damage_surfaces(name: str) -> None:
    """decord at one thread shows each damage where the fixture says."""
    bad = damaged.get(name)
    if bad.needs_unprivileged and os.geteuid() == 0:
        assert bad.path.stat().st_mode & 0o777 == 0
        pytest.skip("root may read every file")
    if bad.surfaces == "open":
        with pytest.raises((RuntimeError, decord.DECORDError)):
            decord.VideoReader(str(bad.path), num_threads=1)
        return
    reader = decord.VideoReader(str(bad.path), num_threads=1)
    if bad.surfaces == "short":
        assert 0 < len(reader) < bad.declared_frames
        assert bad.bad_frame >= len(reader)
        assert barcode.read(reader[0].asnumpy()) == 0
    else:
        assert len(reader) == bad.declared_frames
        with pytest.raises(decord.DECORDError):
            reader[bad.bad_frame]


def test_damaged_names() -> None:
    """Only the file without permission needs a process without privileges."""
    assert [n for n in damaged.NAMES if damaged.get(n).needs_unprivileged] == ["no-permission"]
    assert not damaged.get("missing").path.exists()
    assert damaged.get("folder").path.is_dir()
    assert damaged.get("truncated-mp4-faststart").declared_frames == clips.RECIPES["h264-400"].frames
