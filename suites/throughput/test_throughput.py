"""Timings of the target in a fresh process. Each test keeps raw samples with the work that one of them did."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from fixtures import clips
from suites import minidata
from suites.faults import judge
from suites.throughput import data, joined, memory, plans
from suites.throughput.callers import Callers
from suites.throughput.loading import Loader
from suites.throughput.worlds import Worlds

pytestmark = [pytest.mark.capability("timing"), pytest.mark.repeated]

INSTRUCTION = "Left hand: None. Right hand: Pick up the cup."
WAIT_S = 0.005
SIZES = {"cpu": 256}
SIZE = 8192
"""Rows of the control's matrices: some milliseconds of work on a CPU, and on an accelerator."""
CLEARLY_MORE = 1.4


@pytest.fixture(scope="session")
def root(target: Any) -> Iterator[str]:
    """A data set of this process with its statistics."""
    folder = data.make()
    target.write_statistics(folder.name)
    yield folder.name
    folder.cleanup()


@pytest.fixture
def clip() -> clips.Clip:
    return clips.get(minidata.CLIP)


@pytest.fixture(scope="session")
def policies(target: Any) -> dict[str, Any]:
    """Policies by device."""
    return {}


@pytest.fixture
def policy(policies: dict[str, Any], target: Any, machine: Any) -> Any:
    device = machine.decision.device
    if device not in policies:
        policies[device] = target.policy(device)
    return policies[device]


@pytest.fixture(scope="session")
def worlds(request: pytest.FixtureRequest, root: str) -> Worlds:
    mine = [i for i in request.session.items if "suites/throughput/" in i.nodeid]
    return Worlds((n for i in mine for m in i.iter_markers("needs") for n in m.args), root)


def test_control_clock(measure: Any, record: Any) -> None:
    """A known wait must be measured as at least that long, and all rounds as no longer than the clock on the wall says."""
    begin = time.monotonic()
    found = measure("wait", lambda: time.sleep(WAIT_S), rounds=5, warmup=1)
    wall_s = time.monotonic() - begin
    if min(found) < WAIT_S:
        record.fail("control", f"a wait of {WAIT_S} s was measured as {min(found)} s")
    if sum(found) > wall_s:
        record.fail("control", f"{len(found)} waits were measured as {sum(found)} s, within {wall_s} s")


def test_control_twice_the_work(measure: Any, record: Any, machine: Any) -> None:
    """Twice the work of a device in one operation must be measured as clearly more: its end is waited for."""
    import torch

    device = machine.decision.device
    size = SIZES.get(device, SIZE)
    right = torch.ones(size, size, device=device)
    lefts = [torch.ones(rows, size, device=device) for rows in (size, 2 * size)]
    turn = iter(range(1_000))
    found = measure("product", lambda: lefts[next(turn) % 2] @ right, rounds=20, warmup=4)
    once, twice = min(found[4::2]), min(found[5::2])
    if twice < CLEARLY_MORE * once:
        record.fail("control", f"a product took {once} s, one of twice the size {twice} s")


class Steps:
    """As much of an optimizer as a stopwatch needs: a real one makes torch import for a second."""

    def register_step_post_hook(self, hook: Any) -> None:
        self.hook = hook

    def step(self) -> None:
        self.hook(self, (), {})


def test_control_stopwatch(record: Any, machine: Any) -> None:
    """The clock of the ranks must measure each step as at least its known wait."""
    from suites.throughput.stopwatch import Stopwatch

    steps, waits = Steps(), [WAIT_S, 2 * WAIT_S, WAIT_S, 2 * WAIT_S]
    synchronize = machine.runner.synchronize
    watch = Stopwatch(steps, [], len(waits), synchronize, device=False, count=False)
    for wait_s in waits:
        time.sleep(wait_s)
        steps.step()
    record.metric("wait", "s", watch.seconds)
    if len(watch.seconds) != len(waits) or any(s < w for s, w in zip(watch.seconds, waits, strict=True)):
        record.fail("control", f"waits of {waits} s were measured as {watch.seconds} s")


# Before anything that decodes in this process: a fork of a process that has decoded may hang.
@pytest.mark.parametrize(
    "workers", [pytest.param(n, id=f"{n}-workers") for n in plans.workers(plans.processors())]
)
def test_loading(workers: int, target: Any, root: str, measure: Any, record: Any) -> None:
    """Turns of batches from torch's loader over the target's own data set; the first one starts the workers."""
    turns = plans.LOADING_WARMUP + plans.LOADING_ROUNDS
    loader = Loader(target.open_dataset(root), workers, turns)
    work = {"samples": loader.samples, "batches": loader.batches}
    try:
        measure("batch_s", loader.turn, rounds=plans.LOADING_ROUNDS, warmup=plans.LOADING_WARMUP, work=work)
    finally:
        loader.close()
    if loader.seen != turns * loader.samples:
        record.fail("wrong_batch", f"{loader.seen} samples came in {turns} turns of {loader.samples}")


@pytest.mark.parametrize("count", [pytest.param(1, id="open-and-first"), pytest.param(None, id="sequential")])
def test_decode(count: int | None, target: Any, clip: clips.Clip, measure: Any, record: Any) -> None:
    """A clip opened and its first frame read, or all of its frames in their order, by the target's own loader."""
    wanted = list(range(count or clip.frames))
    shape = (len(wanted), clip.height, clip.width, 3)
    seen: set[Any] = set()

    def decode() -> None:
        seen.add(tuple(target.frames(str(clip.path), wanted).shape))

    measure("decode_s", decode, rounds=30 if count else 12, work={"frames": len(wanted)})
    if seen != {shape}:
        record.fail("missing_frame", f"frames of shape {seen}, {shape} asked for")


def test_inference(policy: Any, target: Any, clip: clips.Clip, measure: Any, record: Any) -> None:
    """One inference of the target's model, from a picture and an instruction to a chunk of actions on the host."""
    image = target.frames(str(clip.path), [0])[0]
    kept: list[Any] = []
    measure(
        "latency_s",
        lambda: kept.append(policy.predict(image, INSTRUCTION)),
        rounds=30,
        warmup=3,
        work={"actions": policy.batch * policy.horizon, "inferences": 1, "devices": 1},
    )
    for actions in kept:
        judge(record, joined.actions_fault(actions, (policy.batch, policy.horizon, policy.dimensions)))


@pytest.mark.parametrize("callers", [pytest.param(n, id=f"concurrency-{n}") for n in plans.CALLERS])
def test_concurrent_inference(
    callers: int, policy: Any, target: Any, clip: clips.Clip, measure: Any, record: Any
) -> None:
    """Turns of inferences by several callers of one model: `turn_s` of all of a turn, `call_s` of each call."""
    image = target.frames(str(clip.path), [0])[0]
    asked = Callers(callers, lambda: policy.predict(image, INSTRUCTION))
    chunks = plans.CALLS * policy.batch
    work = {"actions": chunks * policy.horizon, "chunks": chunks, "inferences": plans.CALLS}
    try:
        measure(
            "turn_s",
            lambda: asked.turn(plans.CALLS),
            rounds=plans.TURNS,
            warmup=plans.TURNS_WARMUP,
            work={**work, "concurrency": callers, "devices": 1},
        )
    finally:
        asked.close()
    # No actions in its work: calls overlap, so that their seconds do not add up to a rate.
    warmup = plans.TURNS_WARMUP * plans.CALLS
    record.metric("call_s", "s", asked.seconds, warmup=warmup, work={"concurrency": callers})
    due = (plans.TURNS_WARMUP + plans.TURNS) * plans.CALLS
    if not len(asked.answers) == len(asked.seconds) == due:
        record.fail("wrong_batch", f"{len(asked.answers)} answers came of {due} calls")
    for actions in asked.answers:
        judge(record, joined.actions_fault(actions, (policy.batch, policy.horizon, policy.dimensions)))


def test_peak_memory(
    policy: Any, target: Any, root: str, clip: clips.Clip, record: Any, machine: Any
) -> None:
    """The most memory that this process held, after at least one item, one clip and one inference."""
    item = target.open_dataset(root)[0]
    frames = target.frames(str(clip.path), list(range(clip.frames)))
    policy.predict(target.image_of(item), INSTRUCTION)
    del item, frames
    peak = memory.peak_bytes()
    if peak is None:
        record.fail("harness", "this kernel does not tell a process's highest resident size (VmHWM)")
    record.metric("peak_memory_bytes", "bytes", [peak])
    if machine.decision.device != "cpu":
        import torch

        record.metric("device_peak_memory_bytes", "bytes", [torch.accelerator.max_memory_allocated()])


def training(name: str) -> Any:
    """A test's parameter for a training, with what it needs."""
    job = plans.TRAININGS[name]
    marks = [pytest.mark.needs(name)]
    if job.ranks > 1:
        marks.append(pytest.mark.capability("multi_device"))
    if job.plan.get("precision") == "bf16":
        marks.append(pytest.mark.capability("bf16"))
    return pytest.param(name, marks=marks, id=name)


@pytest.mark.parametrize("name", [training(n) for n in plans.TRAININGS])
def test_training(name: str, worlds: Worlds, launch: Any, record: Any, machine: Any) -> None:
    """Optimizer steps of the target's own training, by the slowest rank, and the memory at each step's end."""
    ranks = worlds.get(name, launch, record, machine)
    judge(record, joined.steps_fault(ranks, plans.WARMUP + plans.ROUNDS, plans.GLOBAL_BATCH))
    work = joined.work(ranks, plans.GLOBAL_BATCH)
    record.metric("step_s", "s", joined.largest(ranks, "seconds"), warmup=plans.WARMUP, work=work)
    host = joined.largest(ranks, "host")
    record.metric("host_memory_bytes", "bytes", host, warmup=plans.WARMUP)
    if machine.decision.device != "cpu":
        device = joined.largest(ranks, "device")
        record.metric("device_memory_bytes", "bytes", device, warmup=plans.WARMUP)


@pytest.mark.needs(plans.CHECKPOINT)
@pytest.mark.parametrize("way", ["save", "load"])
def test_checkpoint(way: str, worlds: Worlds, launch: Any, record: Any, machine: Any) -> None:
    """The target's own saving of a training's state until it is on disk, and its own loading of it."""
    (rank,) = worlds.get(plans.CHECKPOINT, launch, record, machine)
    work = {"bytes": rank["bytes"]}
    record.metric(f"{way}_s", "s", rank[way], warmup=plans.CHECKPOINT_WARMUP, work=work)
