"""Targets keep their contract; the reference is correct; the patch changes VITRA from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures import barcode, clips, damaged
from harness import ROOT, targets
from harness.errors import TargetUnavailable
from harness.targets import checkout, vitra
from harness.targets.base import TargetSpec, load
from harness.targets.reference import DamagedVideo, ReferenceTarget, WindowError


def test_specs_travel() -> None:
    """A spec comes out of a child's argument as it went in."""
    spec = TargetSpec("vitra", "/x", "c" * 40, False, ("decoder-fix",), "off-by-one-frame", "note")
    assert TargetSpec.from_text(spec.to_text()) == spec


@pytest.mark.parametrize("clip", ["vp9-superframe", "h264-opengop", "h264-one"])
def test_reference_reads_what_decord_gets_wrong(clip: str) -> None:
    """The reference gives the right frames where threads or seeks do not."""
    made = clips.get(clip)

    @settings(max_examples=10)
    @given(st.lists(st.integers(0, made.frames - 1), min_size=1, max_size=6))
    def holds(indices: list[int]) -> None:
        frames = ReferenceTarget().frames(str(made.path), indices)
        assert [barcode.read(f) for f in frames] == indices

    holds()


def test_reference_refuses() -> None:
    """An index outside, a shorter file, and a file that cannot be read: each its own error, chained."""
    target, clip, short = ReferenceTarget(), clips.get("vp9-plain"), damaged.get("truncated-webm")
    target.pause_s = 0
    for bad in (-1, clip.frames):
        with pytest.raises(IndexError, match=f"frame {bad} asked for"):
            target.frames(str(clip.path), [0, bad])
    with pytest.raises(DamagedVideo, match="the index declares 64"):
        target.frames(str(short.path), [0], declared=64)
    with pytest.raises(WindowError) as caught:
        target.grab_window(str(damaged.get("text").path), [0], 64)
    assert "Error reading" in str(caught.value.__cause__)


@pytest.mark.parametrize("name", targets.names())
def test_every_target_has_the_same_face(name: str) -> None:
    """A target's module has locate, load, supplies and PATCHES."""
    module = targets.module(name)
    assert callable(module.locate)
    assert callable(module.load)
    assert isinstance(module.PATCHES, dict)
    assert all(isinstance(s, str) for s in module.supplies())


def repository(folder: Path) -> checkout.Source:
    """A small repository to clone from, over a file URL."""
    folder.mkdir()
    (folder / "mark.py").write_text("x = 1\n")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for step in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *step], check=True)
    subprocess.run([*git, "config", "uploadpack.allowAnySHA1InWant", "true"], check=True)
    commit = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return checkout.Source("small", folder.as_uri(), commit, "mark.py", "HARNESS_SMALL")


def test_cloning_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing target is cloned once at its commit, with progress, and found from then on; dirt is seen."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    source, said = repository(tmp_path / "source"), []
    folder = checkout.find(source, None, clone=True, say=said.append)
    assert len(said) == 1
    assert "one commit" in said[0]
    assert checkout.state(folder) == (source.commit, False)
    assert checkout.find(source, None, clone=True, say=said.append) == folder
    assert len(said) == 1
    (folder / "mark.py").write_text("x = 2\n")
    assert checkout.state(folder) == (source.commit, True)
    assert [p.name for p in folder.parent.iterdir() if p.is_dir()] == [folder.name]


def test_a_failed_clone_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that is not there is one line with the remedies, and no half checkout."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    source = checkout.Source("small", (tmp_path / "no").as_uri(), "0" * 40, "mark.py", "HARNESS_SMALL")
    with pytest.raises(TargetUnavailable, match=r"cannot be cloned .*--target-path or HARNESS_SMALL"):
        checkout.find(source, None, clone=True, say=lambda _: None)
    assert not [p for p in (tmp_path / "cache" / "targets").iterdir() if p.is_dir()]


def test_the_variable_names_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's path is taken, and a wrong one is told by the variable's name."""
    source = repository(tmp_path / "source")
    monkeypatch.setenv("HARNESS_SMALL", str(tmp_path / "source"))
    assert checkout.find(source, None, clone=False, say=print) == tmp_path / "source"
    monkeypatch.setenv("HARNESS_SMALL", str(tmp_path))
    with pytest.raises(TargetUnavailable, match="HARNESS_SMALL="):
        checkout.find(source, None, clone=False, say=print)


def here() -> TargetSpec | None:
    try:
        return vitra.locate(None, clone=False, say=lambda _: None)
    except TargetUnavailable:
        return None


VITRA = pytest.mark.skipif(
    here() is None, reason="no VITRA checkout in the cache; `harness targets --fetch vitra`"
)


@VITRA
@pytest.mark.parametrize(("patches", "fails"), [((), True), (("decoder-fix",), False)])
def test_decoder_fix_on_real_vitra(patches: tuple[str, ...], fails: bool) -> None:
    """The same call on the same checkout: fails without the patch, gives the right frame with it."""
    clip, spec = clips.get("vp9-superframe"), here()
    assert spec is not None
    code = (
        "import sys; from harness.targets.base import TargetSpec, load; from fixtures import barcode\n"
        "t = load(TargetSpec.from_text(sys.argv[1]))\n"
        "print('FRAME', barcode.read(t.frames(sys.argv[2], [40])[0]))"
    )
    text = TargetSpec(spec.name, spec.path, patches=patches).to_text()
    done = subprocess.run(
        [sys.executable, "-c", code, text, str(clip.path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("FRAME 40" in done.stdout) != fails
    assert ("Error sending packet" in done.stderr) == fails


def test_a_planted_defect_acts() -> None:
    """A spec with a defect loads a target that has it."""
    clip = clips.get("vp9-plain")
    frames = load(TargetSpec("reference", defect="off-by-one-frame")).frames(str(clip.path), [3])
    assert barcode.read(frames[0]) == 4
