"""Every frame is the one asked for: by clip, way, number of readers and access."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fixtures import clips, many_cores
from suites.decoder import checks, plans
from suites.faults import judge

PROGRAM = Path(__file__).with_name("readers.py")
CLIPS = tuple(clips.RECIPES)
# Each role is a child of its own on each worker that asks it, and importing the target takes seconds: ways that do
# not disturb each other share one. A parent of forks never decodes, so threads have another.
ROLE = {"threads": "threads", "fork": "forks", "dataloader": "forks", "spawn": "spawn"}
GROUP = {way: pytest.mark.xdist_group(f"decoder-{ROLE[way]}") for way in plans.WAYS}
ALONE = GROUP["threads"]

CROWDED = ("vp9-superframe", "vp8", "h264-b")
"""Clips for 32 readers, one of each codec: starting so many processes takes over a second."""

# What a seek does to an open-GOP clip is for test_every_frame_alone, which asks for each of its frames.
CASES = [
    pytest.param(clip, way, readers, access, marks=GROUP[way], id=f"{clip}-{way}-{readers}-{access}")
    for way in plans.WAYS
    for clip in CLIPS
    if clip != "h264-opengop"
    for readers in plans.READERS
    if readers < 32 or clip in CROWDED
    for access in plans.ACCESSES
]


def read(ask: Any, clip: clips.Clip, way: str, plan: plans.Plan) -> dict[str, Any]:
    request = {"do": "read", "path": str(clip.path), "way": way, "plan": plan}
    answer: dict[str, Any] = ask(PROGRAM, ROLE[way], request)
    return answer


@ALONE
def test_control_raw_decord_four_threads(ask: Any, record: Any) -> None:
    """decord itself with four threads must fail on frame 30 of the superframe clip, or nothing here means much."""
    clip = clips.get("vp9-superframe")
    answer = ask(PROGRAM, "threads", {"do": "raw", "path": str(clip.path), "threads": 4, "index": 30})
    text = answer.get("error", {}).get("text", "")
    if "Error sending packet" not in text and "run_.load()" not in text:
        record.fail("control", f"raw decord with 4 threads did not fail as it must: {answer}", text)


@pytest.mark.parametrize(("clip", "way", "readers", "access"), CASES)
def test_frames(clip: str, way: str, readers: int, access: str, ask: Any, record: Any) -> None:
    """Readers at work together each get exactly the frames they ask for, in order."""
    made = clips.get(clip)
    plan = plans.make(clip, made.frames, readers, access)
    answer = read(ask, made, way, plan)
    judge(record, checks.first_fault(plan, answer["readers"]))
    record.metric("decode_rate", "frames/s", [answer["frames"] / answer["seconds"]])


@ALONE
@pytest.mark.parametrize("clip", CLIPS)
def test_every_frame_alone(clip: str, ask: Any, record: Any) -> None:
    """Each frame asked for by a call of its own is the right one (every third of a clip of 400)."""
    made = clips.get(clip)
    plan = [[[i] for i in range(0, made.frames, 3 if made.frames > 200 else 1)]]
    answer = read(ask, made, "threads", plan)
    judge(record, checks.first_fault(plan, answer["readers"]))


@ALONE
@pytest.mark.parametrize("clip", CLIPS)
def test_frame_count(clip: str, ask: Any, record: Any) -> None:
    """The target's own frame count is the clip's."""
    made = clips.get(clip)
    answer = ask(PROGRAM, "threads", {"do": "count", "path": str(made.path)})
    if "error" in answer:
        record.fail("exception", "the frame count raised", str(answer["error"]))
    if answer["count"] != made.frames:
        record.fail(
            "missing_frame", f"the clip has {made.frames} frames, the target counts {answer['count']}"
        )


@ALONE
@pytest.mark.parametrize("clip", CLIPS)
def test_any_valid_indices(clip: str, ask: Any, record: Any) -> None:
    """Any list of valid indices gives those frames in that order."""
    made = clips.get(clip)

    @example(list(range(min(made.frames, 128) - 1, -1, -1)))
    @settings(max_examples=20)
    @given(st.lists(st.integers(0, made.frames - 1), min_size=1, max_size=8))
    def holds(indices: list[int]) -> None:
        answer = read(ask, made, "threads", [[indices]])
        judge(record, checks.fault_of(indices, answer["readers"][0][0]))

    holds()


def outside(clip: clips.Clip, side: str) -> st.SearchStrategy[int]:
    if side == "negative":
        return st.integers(-clip.frames - 3, -1)
    return st.integers(clip.frames, clip.frames + 3) | st.integers(clip.frames, 2**31 - 1)


@ALONE
@pytest.mark.parametrize("side", ["negative", "past-end"])
@pytest.mark.parametrize("clip", ["vp9-plain", "vp8", "h264-b", "h264-one"])
def test_index_outside(clip: str, side: str, ask: Any, record: Any) -> None:
    """A list with any index outside the clip gives an error, never another frame."""
    made = clips.get(clip)

    @settings(max_examples=20)
    @given(st.lists(st.integers(0, made.frames - 1), max_size=3), outside(made, side), st.integers(0, 3))
    def holds(valid: list[int], bad: int, place: int) -> None:
        assume(place <= len(valid))
        indices = [*valid[:place], bad, *valid[place:]]
        answer = read(ask, made, "threads", [[indices]])
        judge(record, checks.refusal_fault(indices, answer["readers"][0][0]))

    holds()


@ALONE
@pytest.mark.parametrize("clip", ["vp9-superframe", "vp9-superframe-400", "vp9-plain", "h264-b"])
def test_many_cores(clip: str, ask: Any, record: Any) -> None:
    """In a process that is told it has 192 processors, frames are right: thread counts follow that number."""
    try:
        environment = many_cores.environment(192)
    except many_cores.NoCompiler as error:
        record.skip(str(error))
    told = ask(PROGRAM, "many-cores", {"do": "processors"}, environment)["count"]
    assert told == 192, f"the process is told of {told} processors: the stand-in library has no hold"
    made = clips.get(clip)
    plan = plans.make(clip, made.frames, 2, "random")
    request = {"do": "read", "path": str(made.path), "way": "threads", "plan": plan}
    answer = ask(PROGRAM, "many-cores", request, environment)
    judge(record, checks.first_fault(plan, answer["readers"]))
