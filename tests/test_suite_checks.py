"""What the suites call a fault: texts of decord as seen, and answers made up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suites.decoder import checks as decoder
from suites.decoder import plans
from suites.failfast import checks as failfast

PLACE = "/github/workspace/src/video/ffmpeg/threaded_decoder.cc"
SENDING = (
    f"[04:01:05] {PLACE}:292: [04:01:05] {PLACE}:218: Check failed: avcodec_send_packet(dec_ctx_.get(), pkt.get()) "
    ">= 0 (-1094995529 vs. 0) Thread worker: Error sending packet.\n\nStack trace returned 1 entries:\n[bt] 0x7f01"
)
STOPPED = (
    f"[04:01:06] {PLACE}:104: Check failed: run_.load() \n\nStack trace returned 2 entries:\n[bt] 0x7f02"
)


def chain(*texts: str) -> list[dict[str, str]]:
    return [{"type": "DECORDError", "text": t} for t in texts]


@pytest.mark.parametrize(
    ("raised", "own", "held"),
    [
        (chain(SENDING), chain(SENDING.replace("04:01:05", "05:00:00").replace("7f01", "9a")), True),
        (chain(SENDING), chain(STOPPED), True),
        (chain(STOPPED), chain(SENDING), True),
        (chain("unread after 3 attempts", STOPPED), chain(SENDING), True),
        (chain("imgs unbound"), chain(SENDING), False),
        (chain("could not load video"), chain("Error reading /x/1.webm..."), False),
        (chain("no window: Error reading /x/1.webm..."), chain("Error reading /x/1.webm..."), True),
        (chain("Error reading /x/2.webm..."), chain("Error reading /x/1.webm..."), False),
        (chain("anything"), [], False),
        (chain("anything"), chain(""), False),
    ],
)
def test_the_decoders_own_error(raised: Any, own: Any, held: bool) -> None:
    """The same error is known again with another clock, stack or thread's check; another error is not."""
    assert failfast.holds_own_error(raised, own) is held


@given(st.sampled_from(plans.ACCESSES), st.sampled_from(plans.READERS), st.integers(1, 400))
def test_plans_stay_inside(access: str, readers: int, frames: int) -> None:
    """Any plan asks for frames that are there, gives every reader work, and is the same each time."""
    plan = plans.make("clip", frames, readers, access)
    assert plan == plans.make("clip", frames, readers, access)
    assert len(plan) == readers
    asked = [i for calls in plan for indices in calls for i in indices]
    assert all(calls for calls in plan)
    assert all(0 <= i < frames for i in asked)
    assert max(asked) >= frames // 2
    if access == "in-order":
        assert set(asked) == set(range(frames))


@given(st.lists(st.integers(0, 99), min_size=1, max_size=6), st.data())
def test_any_change_of_an_answer_is_a_fault(indices: list[int], data: st.DataObject) -> None:
    """The frames asked for are no fault; one changed, left out or added is."""
    assert decoder.fault_of(indices, {"numbers": indices}) is None
    place = data.draw(st.integers(0, len(indices) - 1))
    other = data.draw(st.none() | st.integers(0, 99).filter(lambda n: n != indices[place]))
    changed = [*indices[:place], other, *indices[place + 1 :]]
    fault = decoder.fault_of(indices, {"numbers": changed})
    assert fault is not None
    assert fault.kind == "wrong_frame"
    for wrong in (indices[:-1], [*indices, 0]):
        fault = decoder.fault_of(indices, {"numbers": wrong})
        assert fault is not None
        assert fault.kind == "missing_frame"
    assert decoder.first_fault([[indices, indices]], [[{"numbers": indices}]]) is not None
