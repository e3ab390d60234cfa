"""Bad video ends in the decoder's own error, within the attempts promised, never in partial or wrong data."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures import clips, damaged, dataset
from suites.failfast import checks
from suites.faults import judge

PROGRAM = Path(__file__).with_name("probe.py")
GOOD = "vp9-plain"
SILENT = ("truncated-webm", "garbage-webm")
pytestmark = pytest.mark.xdist_group("failfast")


class Data:
    """The mini data set: one whole episode (number 0), then one for each damaged file."""

    def __init__(self, root: Path) -> None:
        self.damaged = {name: damaged.get(name) for name in damaged.NAMES}
        good = clips.get(GOOD)
        videos = [(good.path, good.frames)]
        videos += [(d.path, d.declared_frames) for d in self.damaged.values()]
        self.made = dataset.make(root, videos)
        self.root, self.good_frames = str(root), good.frames
        self.has_statistics = False

    def episode(self, name: str) -> int:
        return 1 + list(self.damaged).index(name)

    def video(self, episode: int) -> Path:
        return self.made.episodes[episode].video


@pytest.fixture(scope="session")
def built() -> Iterator[Data]:
    # Not tmp_path: a process without privileges must be able to enter it.
    root = Path(tempfile.mkdtemp(prefix="failfast-"))
    root.chmod(0o755)
    try:
        yield Data(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def data(built: Data, ask: Any) -> Data:
    """The data set with the statistics that the target's own code wrote."""
    if not built.has_statistics:
        ask(PROGRAM, "main", {"do": "statistics", "root": built.root})
        built.has_statistics = True
    return built


def test_control_raw_decord_on_damage(ask: Any, record: Any) -> None:
    """decord itself must refuse a text file and a cut mp4, and read a cut webm as a shorter one."""
    for name in ("text", "truncated-mp4"):
        bad = damaged.get(name)
        answer = ask(PROGRAM, "main", {"do": "raw", "path": str(bad.path), "index": 0})
        if "chain" not in answer:
            record.fail("control", f"raw decord read the {name} file: {answer}")
    short = damaged.get("truncated-webm")
    answer = ask(PROGRAM, "main", {"do": "raw", "path": str(short.path), "index": 0})
    if answer.get("count", short.declared_frames) >= short.declared_frames:
        record.fail("control", f"raw decord does not read the cut webm as a shorter one: {answer}")


@pytest.mark.parametrize(
    ("frame", "past", "future"), [(0, 0, 0), (63, 0, 0), (31, 2, 3), (1, 3, 0), (62, 0, 3)]
)
def test_whole_window(frame: int, past: int, future: int, data: Data, ask: Any, record: Any) -> None:
    """A window of a whole video holds its frames in order; at the ends the outermost frame is repeated."""
    request = {"do": "grab", "root": data.root, "episode": 0, "frame": frame, "past": past, "future": future}
    answer = ask(PROGRAM, "main", request)
    last = data.good_frames - 1
    expected = [min(max(i, 0), last) for i in range(frame - past, frame + future + 1)]
    judge(record, checks.frames_fault(answer, expected))


@pytest.mark.parametrize("frame", [0, 17, 63])
def test_whole_item(frame: int, data: Data, ask: Any, record: Any) -> None:
    """An item of the data set holds the picture of its frame."""
    index = data.made.index_of(0, frame)
    judge(
        record,
        checks.frames_fault(ask(PROGRAM, "main", {"do": "item", "root": data.root, "index": index}), [frame]),
    )


@pytest.mark.parametrize("name", damaged.NAMES)
def test_damaged_window(name: str, data: Data, ask: Any, record: Any) -> None:
    """A frame that cannot be read ends in the decoder's own error, within the attempts promised."""
    bad, episode = data.damaged[name], data.episode(name)
    frame = bad.bad_frame
    video = str(data.video(episode))
    ask(PROGRAM, "main", {"do": "grab", "root": data.root, "episode": 0, "frame": 0})  # everything imported
    request = {"do": "grab", "root": data.root, "episode": episode, "frame": frame}
    answer = ask(PROGRAM, "main", {**request, "unprivileged": bad.needs_unprivileged})
    raw = {"chain": [{"type": "RuntimeError", "text": f"Error reading {video}..."}]}
    if not bad.needs_unprivileged:
        raw = ask(PROGRAM, "main", {"do": "raw", "path": video, "index": frame})
    silent = "no_error" if bad.surfaces == "open" else "silent_damage"
    judge(record, checks.refusal_fault(answer, raw, bad.declared_frames, silent=silent))


@pytest.mark.parametrize("name", SILENT)
def test_silent_damage(name: str, data: Data, ask: Any, record: Any) -> None:
    """A file that silently became shorter is refused at any frame, by its declared frame count."""
    bad, episode = data.damaged[name], data.episode(name)
    path = str(data.video(episode))
    found = ask(PROGRAM, "main", {"do": "count", "path": path})["count"]
    answer = ask(PROGRAM, "main", {"do": "grab", "root": data.root, "episode": episode, "frame": 3})
    if "numbers" in answer:
        message = f"read as whole: {found} frames are there, {bad.declared_frames} are declared"
        record.fail("silent_damage", message, bad.damage)
    judge(record, checks.refusal_fault(answer, {"count": found}, bad.declared_frames))


def test_no_partial_window(data: Data, ask: Any, record: Any) -> None:
    """A window whose last frames are missing ends in an error, not in the frames that are there."""
    bad, episode = data.damaged["truncated-webm"], data.episode("truncated-webm")
    raw = ask(PROGRAM, "main", {"do": "raw", "path": str(bad.path), "index": 0})
    request = {"do": "grab", "root": data.root, "episode": episode, "frame": raw["count"] - 1}
    answer = ask(PROGRAM, "main", {**request, "past": 2, "future": 2})
    if "numbers" in answer:
        record.fail("partial_data", f"a window reaching past the end came back as frames {answer['numbers']}")


@pytest.mark.parametrize("name", ["text", "garbage-mp4", "truncated-webm"])
def test_damaged_item(name: str, data: Data, ask: Any, record: Any) -> None:
    """The data set's own item ends in the decoder's own error."""
    bad, episode = data.damaged[name], data.episode(name)
    frame = bad.bad_frame
    answer = ask(
        PROGRAM, "main", {"do": "item", "root": data.root, "index": data.made.index_of(episode, frame)}
    )
    raw = ask(PROGRAM, "main", {"do": "raw", "path": str(data.video(episode)), "index": frame})
    judge(record, checks.refusal_fault(answer, raw, bad.declared_frames))


@pytest.mark.parametrize("name", ["text", "garbage-mp4"])
def test_worker_error_reaches_main(name: str, data: Data, ask: Any, record: Any) -> None:
    """Inside DataLoader workers the decoder's own error reaches the main process."""
    bad, episode = data.damaged[name], data.episode(name)
    frame = bad.bad_frame
    indices = [data.made.index_of(0, 5), data.made.index_of(episode, frame), data.made.index_of(0, 6)]
    answer = ask(PROGRAM, "main", {"do": "batches", "root": data.root, "indices": indices, "workers": 2})
    raw = ask(PROGRAM, "main", {"do": "raw", "path": str(data.video(episode)), "index": frame})
    judge(record, checks.refusal_fault(answer, raw, bad.declared_frames))


def test_workers_give_whole_items(data: Data, ask: Any, record: Any) -> None:
    """DataLoader workers give the items of a whole video in order."""
    indices = [data.made.index_of(0, f) for f in range(0, data.good_frames, 5)]
    answer = ask(PROGRAM, "main", {"do": "batches", "root": data.root, "indices": indices, "workers": 2})
    judge(record, checks.frames_fault(answer, list(range(0, data.good_frames, 5))))


def test_transient_failure_recovers(data: Data, ask: Any, record: Any) -> None:
    """A video that is away at the first attempt and back at the second is read."""
    video = data.video(0)
    away = video.with_suffix(".away")
    video.replace(away)
    try:
        request = {"do": "grab", "root": data.root, "episode": 0, "frame": 21}
        answer = ask(PROGRAM, "main", {**request, "appears": [str(away), str(video)]})
    finally:
        if away.exists():
            away.replace(video)
    judge(record, checks.frames_fault(answer, [21], kind="not_recovered"))
    if answer["openings"] != 2:
        record.fail("attempts", f"recovered after {answer['openings']} attempts, the second could succeed")


@pytest.mark.parametrize("name", ["text", "garbage-mp4"])
def test_no_leak(name: str, data: Data, ask: Any, record: Any) -> None:
    """200 failures leave no file descriptor and no thread open."""
    bad, episode = data.damaged[name], data.episode(name)
    request = {"do": "leaks", "root": data.root, "episode": episode, "frame": bad.bad_frame}
    answer = ask(PROGRAM, "main", {**request, "failures": 200})
    if answer["failed"] != 200:
        record.fail("no_error", f"only {answer['failed']} of 200 calls failed")
    judge(record, checks.leak_fault(answer["before"], answer["after"], 200))
