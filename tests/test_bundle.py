"""Checkpoint bundles: packed on real ranks, loaded at other numbers of ranks, and every damage or change told apart."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runs
from harness import ROOT, bundle_files
from harness.bundle_judge import judge_bundle, render_json, render_terminal
from harness.errors import TargetUnavailable
from harness.targets import base


def checkpoint(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return runs.harness("checkpoint", *map(str, words))


def pack(bundle: Path, target: str, *words: str) -> Path:
    done = checkpoint("pack", bundle, "--target", target, "--steps", "2", "--next", "2", *words)
    assert done.returncode == 0, done.stderr
    return bundle


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference, two steps on two ranks."""
    return pack(tmp_path_factory.mktemp("packed") / "bundle", "reference")


@pytest.fixture
def bundle(packed: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(packed, tmp_path / "bundle"))


def change(bundle: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edits the manifest."""
    path = bundle / "manifest.json"
    manifest = json.loads(path.read_text())
    edit(manifest)
    path.write_text(json.dumps(manifest))


def mend(bundle: Path, *names: str) -> None:
    """Writes the hashes that the files now have into the manifest."""

    def edit(manifest: dict[str, Any]) -> None:
        for name in names:
            data = (bundle / name).read_bytes()
            manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}

    change(bundle, edit)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def test_manifest_says_where_it_comes_from(packed: Path) -> None:
    """The manifest has world, target, machine, versions, types and every file's hash; no path of this machine."""
    text = (packed / "manifest.json").read_text()
    manifest = json.loads(text)
    assert (manifest["bundle"], manifest["world"], manifest["target"]["name"]) == (1, 2, "reference")
    assert manifest["runner"]["emulated"] is False
    assert manifest["resumes"] == {"exact": True}
    assert set(manifest["dtypes"]["weights"]) == {"float32"}
    assert {"torch", "python"} <= set(manifest["software"])
    there = {p.relative_to(packed).as_posix() for p in packed.rglob("*") if p.is_file()}
    assert there == set(manifest["files"]) | {"manifest.json"}
    assert str(packed.parent) not in text
    assert "/tmp" not in text + (packed / "trace.json").read_text()


def test_tensors_load_anywhere(packed: Path) -> None:
    """Weights and moments are plain tensors by plain name, loadable on the CPU without running code."""
    import torch

    weights, moments = (
        torch.load(packed / n, map_location="cpu", weights_only=True) for n in ("weights.pt", "moments.pt")
    )
    assert weights.keys() == moments.keys()
    assert all(moments[n]["exp_avg_sq"].shape == w.shape for n, w in weights.items())
    assert {float(m["step"]) for m in moments.values()} == {2.0}


def test_same_number_of_ranks_is_bit_for_bit(packed: Path) -> None:
    """On the machine that packed it, at its number of ranks, every step has the packed bits; the JSON says so."""
    done = checkpoint("verify", packed, "--format", "json")
    answer = told(done)
    assert (done.returncode, answer["verdict"], answer["exit_status"]) == (0, "agree", 0)
    assert "bit for bit" in answer["reason"]
    assert [row["step"] for row in answer["steps"]] == [3, 4]
    assert all(row["bits"] and row["loss_difference"] == 0 for row in answer["steps"])
    assert answer["notes"] == answer["loaded"] == answer["inputs"]["differ"] == []


@pytest.mark.parametrize(("world", "api"), [(1, "fsdp1"), (3, "fsdp1"), (2, "fsdp2")])
def test_another_number_of_ranks_or_sharding_agrees(world: int, api: str, packed: Path) -> None:
    """The packed checkpoint loads bit for bit elsewhere, and goes on within the envelopes."""
    done = checkpoint("verify", packed, "--ranks", str(world), "--api", api)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("AGREE: 2 steps inside the envelopes of fp32")
    assert "state   bit for bit as packed after loading" in done.stdout
    assert "inputs  48 of 48 as packed" in done.stdout
    note = f"ranks: 2 there, {world} here" if world != 2 else "sharding: fsdp1 there, fsdp2 here"
    assert f"note: {note}" in done.stdout


def test_one_changed_bit_of_a_weight_is_seen(bundle: Path) -> None:
    """A weight of the checkpoint that differs in its last bit, with all hashes mended, is named: differ, exit 1."""
    import torch

    folder = next((bundle / "checkpoint").iterdir())
    weights = torch.load(folder / "weights.pt", weights_only=True)
    name = "head.leave.bias"
    weights[name].view(torch.int32)[1] ^= 1
    torch.save(weights, folder / "weights.pt")
    done = json.loads((folder / "DONE.json").read_text())
    done["sha256"]["weights.pt"] = hashlib.sha256((folder / "weights.pt").read_bytes()).hexdigest()
    (folder / "DONE.json").write_text(json.dumps(done))
    mend(bundle, *(f"checkpoint/{folder.name}/{n}" for n in ("weights.pt", "DONE.json")))
    answer = told(result := checkpoint("verify", bundle, "--ranks", "1", "--format", "json"))
    assert (result.returncode, answer["verdict"]) == (1, "differ")
    assert [line.partition(":")[0] for line in answer["loaded"]] == [f"weight {name}"]
    assert name in answer["reason"]


def test_a_changed_loss_is_seen(bundle: Path) -> None:
    """A packed loss that is off by one part in ten thousand is told at another number of ranks, with its step."""
    trace = json.loads((bundle / "trace.json").read_text())
    trace["trace"][1]["loss"] *= 1.0001
    (bundle / "trace.json").write_text(json.dumps(trace))
    mend(bundle, "trace.json")
    answer = told(result := checkpoint("verify", bundle, "--ranks", "1", "--format", "json"))
    assert (result.returncode, answer["verdict"], answer["step"]) == (1, "differ", 4)


def test_a_checkpoint_that_the_target_refuses_is_no_verdict(bundle: Path) -> None:
    """What the target raises while it loads is told in one line, and is neither agree nor differ."""
    folder = next((bundle / "checkpoint").iterdir())
    (folder / "weights.pt").write_bytes(b"cut")
    mend(bundle, f"checkpoint/{folder.name}/weights.pt")
    done = checkpoint("verify", bundle, "--ranks", "1")
    assert done.returncode == 3
    assert done.stdout.startswith("NOT LOADED: reference raised on 1 rank")
    assert "DamagedCheckpoint" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def _cut(bundle: Path) -> None:
    data = (bundle / "moments.pt").read_bytes()
    (bundle / "moments.pt").write_bytes(data[: len(data) // 2])


def _alter(bundle: Path) -> None:
    data = bytearray((bundle / "weights.pt").read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / "weights.pt").write_bytes(data)


def _point_outside(manifest: dict[str, Any]) -> None:
    manifest["files"]["../outside"] = {"sha256": "", "bytes": 0}


def _link(bundle: Path) -> None:
    (bundle / "weights.pt").unlink()
    (bundle / "weights.pt").symlink_to("moments.pt")


class _Code:
    def __reduce__(self) -> Any:
        return os.getenv, ("HOME",)


def _plant_code(bundle: Path) -> None:
    path = next((bundle / "data").rglob("*.npy"))
    np.save(path, np.array(_Code(), dtype=object))  # type: ignore[arg-type]
    mend(bundle, path.relative_to(bundle).as_posix())


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (_cut, "moments.pt is cut short"),
    "altered": (_alter, "weights.pt is altered"),
    "file missing": (lambda b: (b / "trace.json").unlink(), "trace.json is missing"),
    "alien file": (lambda b: (b / "extra.txt").write_text("x"), "extra.txt is not among the files"),
    "link": (_link, "weights.pt is no plain file"),
    "no manifest": (lambda b: (b / "manifest.json").unlink(), "manifest.json is missing"),
    "manifest cut": (lambda b: (b / "manifest.json").write_text("{"), "manifest.json cannot be read"),
    "manifest empty": (lambda b: (b / "manifest.json").write_text("[]"), "manifest.json cannot be read"),
    "other schema": (lambda b: change(b, lambda m: m.update(bundle=2)), "schema 2, this harness reads 1"),
    "no plan": (
        lambda b: change(b, lambda m: m.pop("plan")),
        "manifest.json is not in order (KeyError('plan'))",
    ),
    "strange plan": (lambda b: change(b, lambda m: m["plan"].update(speed=1)), "plan of another form"),
    "strange target": (lambda b: change(b, lambda m: m["target"].update(name="x")), "is of target 'x'"),
    "outside": (lambda b: change(b, _point_outside), "'../outside' is no file of a bundle"),
    "weights not noted": (lambda b: change(b, lambda m: m["files"].pop("weights.pt")), "weights.pt"),
    "code": (_plant_code, ".npy: holds more than plain arrays"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_in_one_line(damage: str, bundle: Path) -> None:
    """A damaged, incomplete, foreign or dangerous bundle ends with exit 2 and one line that names what it is."""
    act, says = DAMAGES[damage]
    act(bundle)
    done = checkpoint("verify", bundle)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_emulated_beside_measured_is_incomparable(bundle: Path) -> None:
    """A bundle of an emulated device is not held against a measured one: exit 3, and nothing is run."""
    change(bundle, lambda m: m["runner"].update(emulated=True))
    done = checkpoint("verify", bundle)
    assert done.returncode == 3
    assert done.stdout.startswith("INCOMPARABLE: packed on an emulated machine, this one is measured")
    assert "EMULATED" in done.stdout
    assert done.stderr == ""


def test_a_tar_holds_the_same(packed: Path, bundle: Path, tmp_path: Path) -> None:
    """A name that ends in .tar gives one file, read back to the same files; cut, it is refused by name."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").unlink()
    tar = tmp_path / "bundle.tar"
    bundle_files.seal(bundle, tar, {k: v for k, v in manifest.items() if k not in ("bundle", "files")})
    (tmp_path / "out").mkdir()
    assert bundle_files.read(tar, tmp_path / "out")["files"] == manifest["files"]
    for name in manifest["files"]:
        assert (tmp_path / "out" / name).read_bytes() == (packed / name).read_bytes()
    tar.write_bytes(tar.read_bytes()[: tar.stat().st_size // 2])
    done = checkpoint("verify", tar)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "bundle.tar" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("verify", "NEW"), "is not there; name a bundle made by"),
        (("verify", "OLD", "--ranks", "5"), "--ranks 5: cannot share 24 samples here; use one of 1, 2, 3, 4"),
        (("verify", "OLD", "--runner", "nope"), "--runner nope: no such runner"),
        (("pack", "OLD"), "exists already; name another bundle"),
        (("pack", "NEW", "--steps", "0"), "--steps 0 --next 3: each is 1 or more"),
        (("pack", "NEW/inner"), "is no folder that can be written to"),
        (("pack", "NEW", "--target", "nope"), "--target nope: no such target"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], says: str, packed: Path, tmp_path: Path) -> None:
    """A user's mistake names the value and the remedy; nothing is run, made or overwritten."""
    before = (packed / "manifest.json").read_bytes()
    names = {"OLD": str(packed), "NEW": str(tmp_path / "new"), "NEW/inner": str(tmp_path / "new" / "inner")}
    done = checkpoint(*(names.get(w, w) for w in words))
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, ""), done.stderr
    assert says in done.stderr
    assert (packed / "manifest.json").read_bytes() == before
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_pack_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while it trains: nothing under the bundle's name, nothing beside it, no working folder."""
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "harness.cli",
            "checkpoint",
            "pack",
            str(tmp_path / "b"),
            "--target",
            "reference",
        ],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "training reference" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert "interrupted" in process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert [p.name for p in tmp_path.iterdir()] == ["tmp"]
    assert not list((tmp_path / "tmp").glob("bundle-*"))


@pytest.mark.parametrize("name", ["bundle", "bundle.tar"])
def test_a_write_that_fails_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails while a bundle is flushed: nothing under its name and nothing beside it."""

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle_files.os, "fsync", fail)
    with bundle_files.aside(tmp_path / name) as folder:
        (folder / "weights.pt").write_bytes(b"x")
        with pytest.raises(OSError):
            bundle_files.seal(folder, tmp_path / name, {})
    assert list(tmp_path.iterdir()) == []


# The judge by itself.

TRACE = [
    {"step": s, "loss": 1.0 / s, "norm": 2.0, "samples": [s, 10 + s], "weights": str(s)} for s in (4, 5, 6)
]
SIDE: dict[str, Any] = {"trace": TRACE, "inputs": {"4": {"picture": "aa", "numbers": 3.0}}}


def judged(edit: Callable[[dict[str, Any]], object], **more: Any) -> dict[str, Any]:
    here = copy.deepcopy(SIDE)
    edit(here)
    return judge_bundle(SIDE, here, [], **{"precision": "fp32", "exact": False, **more})


@pytest.mark.parametrize(
    ("edit", "more", "verdict", "step"),
    [
        (lambda h: None, {}, "agree", None),
        (lambda h: None, {"exact": True}, "agree", None),
        (lambda h: h["trace"][1].update(weights="x"), {"exact": True}, "differ", 5),
        (lambda h: h["trace"][1].update(weights="x"), {}, "agree", None),
        (lambda h: h["trace"][2].update(loss=1 / 6 * (1 + 1e-4)), {}, "differ", 6),
        (lambda h: h["trace"][2].update(loss=1 / 6 * (1 + 1e-4)), {"precision": "bf16"}, "agree", None),
        (lambda h: h["trace"][2].update(loss=1 / 6 * 1.01), {"precision": "bf16"}, "differ", 6),
        (lambda h: h["trace"][0].update(loss=math.nan), {}, "differ", 4),
        (lambda h: h["trace"][0].update(norm=2.1), {}, "differ", 4),
        (lambda h: h["trace"][0].update(norm=math.nan), {}, "differ", 4),
        (lambda h: h["trace"][0].update(samples=[4, 15]), {}, "differ", 4),
        (lambda h: h["inputs"]["4"].update(picture="bb"), {}, "inputs_differ", None),
        (lambda h: h["inputs"]["4"].update(numbers=3.01), {}, "inputs_differ", None),
        (lambda h: h["inputs"]["4"].update(numbers=3.0000001), {}, "agree", None),
        (lambda h: h["inputs"].clear(), {}, "inputs_differ", None),
        (lambda h: h["trace"].pop(), {}, "inconclusive", None),
    ],
)
def test_each_difference_has_its_verdict(edit: Any, more: Any, verdict: str, step: int | None) -> None:
    """Order of data, inputs, bits, losses and norms are told apart, and a step is named where one is to blame."""
    answer = judged(edit, **more)
    assert (answer["verdict"], answer["step"]) == (verdict, step), answer["reason"]
    assert answer["exit_status"] == {"agree": 0, "differ": 1}.get(verdict, 3)
    full = {**answer, "notes": [], "packed": None, "here": None}
    assert json.loads(render_json(full))["verdict"] == verdict
    assert render_terminal(full).startswith(verdict.upper().replace("_", " "))


def test_state_comes_before_everything() -> None:
    """What was loaded wrongly is the reason, whatever follows from it."""
    here = copy.deepcopy(SIDE)
    here["trace"][0]["loss"] = 9.0
    answer = judge_bundle(
        SIDE, here, ["weight a: differs", "weight b: differs"], precision="fp32", exact=False
    )
    assert answer["verdict"] == "differ"
    assert answer["reason"].endswith("weight a: differs and 1 more")


def test_plain_arrays_pass_the_check_and_code_does_not(tmp_path: Path) -> None:
    """Annotations as pickled dicts of arrays are plain; a pickle that calls something is not, even in an archive."""
    plain = {"x": np.ones((2, 3), np.float32), "n": np.int64(3), "t": {"left": [("a", (0, 2))]}}
    np.save(tmp_path / "plain.npy", plain)  # type: ignore[arg-type]
    np.savez(tmp_path / "plain.npz", a=np.arange(3), b=np.array(["x"], dtype=object))
    bundle_files.check_plain(tmp_path)
    np.savez(tmp_path / "bad.npz", a=np.array([_Code()], dtype=object))
    with pytest.raises(
        bundle_files.BundleError, match=r"bad\.npz: holds more than plain arrays \(asks for os\.getenv"
    ):
        bundle_files.check_plain(tmp_path)
    assert pickle.loads(pickle.dumps(_Code())) == os.getenv("HOME")


def test_vitra_goes_on_at_another_number_of_ranks(tmp_path: Path) -> None:
    """VITRA's own checkpoint of two ranks loads on three, bit for bit, and goes on within the envelopes."""
    try:
        base.locate("vitra", None, [], clone=False, say=lambda _: None)
    except TargetUnavailable as error:
        pytest.skip(f"no VITRA here: {error}")
    tar = pack(tmp_path / "bundle.tar", "vitra")
    done = checkpoint("verify", tar, "--ranks", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "state   bit for bit as packed after loading" in done.stdout
