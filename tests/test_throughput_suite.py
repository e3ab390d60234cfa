"""The parts of suite throughput: what is planned, timed, counted and joined; and a small real run of it."""

from __future__ import annotations

import importlib
import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

import runs
from fixtures import clips
from harness.outcomes import Failure, Notes
from harness.targets.training import PRECISIONS, SHARDINGS, Plan
from suites import minidata
from suites.throughput import data, joined, memory, plans
from suites.throughput.worlds import Worlds

STEPS = plans.WARMUP + plans.ROUNDS


@pytest.fixture(scope="module")
def suite(pytestconfig: pytest.Config) -> Any:
    """The module of the suite's tests, whose markers are those of the plugin."""
    for marker in ("capability", "needs", "repeated"):
        pytestconfig.addinivalue_line("markers", marker)
    return importlib.import_module("suites.throughput.test_throughput")


def rank(**changes: Any) -> dict[str, Any]:
    """What one rank of two answers to a training."""
    sound = {
        "seconds": [0.5] * STEPS,
        "read": [plans.GLOBAL_BATCH // 2] * STEPS,
        "flop": 10.0,
        "host": [100] * STEPS,
        "device": [],
    }
    return {**sound, **changes}


# What ranks measured, joined.


@given(st.lists(st.lists(st.floats(0, 10), min_size=5, max_size=5), min_size=1, max_size=4))
def test_a_step_lasts_as_long_as_its_slowest_rank(seconds: list[list[float]]) -> None:
    """Of each step the largest value of all ranks is kept, in the order of the steps."""
    found = joined.largest([{"seconds": s} for s in seconds], "seconds")
    assert found == [max(s[n] for s in seconds) for n in range(5)]


def test_a_rank_with_other_steps_is_no_column() -> None:
    """Ranks that took different numbers of samples are never joined."""
    with pytest.raises(ValueError):
        joined.largest([{"seconds": [1.0, 2.0]}, {"seconds": [1.0]}], "seconds")


@given(st.lists(st.floats(1, 1e15), min_size=1, max_size=4), st.integers(1, 100))
def test_work_is_that_of_all_ranks(flop: list[float], samples: int) -> None:
    """Operations are summed over ranks, each occupies a device, and samples are those of the whole step."""
    found = joined.work([rank(flop=f) for f in flop], samples)
    assert found == {"samples": samples, "devices": len(flop), "flop": pytest.approx(sum(flop))}


def test_operations_are_unknown_when_one_rank_could_not_count() -> None:
    """A rank without a count leaves the step without one, not with the others' part of it."""
    assert "flop" not in joined.work([rank(), rank(flop=None)], 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seconds": [0.5] * (STEPS - 1)}, f"made {STEPS - 1} steps of {STEPS}"),
        ({"seconds": [0.5] * (STEPS + 1)}, f"made {STEPS + 1} steps of {STEPS}"),
        ({"read": [2] * (STEPS - 1) + [1]}, f"step {STEPS} read 3 samples, 4 asked for"),
        ({"read": [3] + [2] * (STEPS - 1)}, "step 1 read 5 samples, 4 asked for"),
    ],
)
def test_less_work_than_told_is_a_fault(change: dict[str, Any], words: str) -> None:
    """Steps that are missing or surplus, and a step on another number of samples, are found by rank or step."""
    assert joined.steps_fault([rank(), rank()], STEPS, plans.GLOBAL_BATCH) is None
    fault = joined.steps_fault([rank(), rank(**change)], STEPS, plans.GLOBAL_BATCH)
    assert fault is not None
    assert fault.kind == "wrong_batch"
    assert words in fault.message


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_actions_that_are_none_are_a_fault(bad: float) -> None:
    """Actions of another shape, or with one value that is not finite, are found; sound ones are not."""
    sound = np.zeros((1, 8, 3), np.float32)
    assert joined.actions_fault(sound, (1, 8, 3)) is None
    wrong = joined.actions_fault(sound[:, :7], (1, 8, 3))
    assert wrong is not None
    assert wrong.kind == "wrong_batch"
    sound[0, 5, 1] = bad
    odd = joined.actions_fault(sound, (1, 8, 3))
    assert odd is not None
    assert odd.kind == "not_finite"


# What is planned.


def test_every_job_is_a_plan_that_targets_know() -> None:
    """Each job is made of fields of a Plan, and its ranks and batches make up the global batch."""
    for name, job in plans.JOBS.items():
        plan = Plan.from_json({"data": "d", "folder": "f", **job.plan})
        assert plan.batch * job.ranks == plan.global_batch, name
        assert plan.sharding in SHARDINGS
        assert plan.precision in PRECISIONS


def test_trainings_are_as_their_names_say() -> None:
    """Name and plan agree in ranks, precision and sharding; each of these comes in two kinds, and neighbours differ in one
    of them, so that a difference in time has one cause."""
    kinds = []
    for name, job in plans.TRAININGS.items():
        plan = Plan.from_json({"data": "d", "folder": "f", **job.plan})
        kinds.append((job.ranks, plan.precision, plan.sharding))
        number = {1: "one", 2: "two"}[job.ranks]
        assert name == f"{number}-{plan.precision}-{plan.sharding}"
        assert plan.steps == STEPS + 1, "one more step than timed, to be counted"
    assert [len(set(column)) for column in zip(*kinds, strict=True)] == [2, 2, 2]
    for before, after in itertools.pairwise(kinds):
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


@given(st.integers(1, 512))
def test_workers_have_a_processor_each(processors: int) -> None:
    """At least 0, 1 and 2 workers, more only with a processor for each, and none twice."""
    found = plans.workers(processors)
    assert {0, 1, 2} <= set(found)
    assert len(set(found)) == len(found)
    assert max(found) <= max(2, processors)
    assert [n in found for n in (4, 8)] == [processors >= 4, processors >= 8]


@given(st.integers(0, 8))
def test_a_turn_takes_as_much_from_each_worker(workers: int) -> None:
    """A turn's batches are shared alike by up to 8 workers of the numbers that are timed."""
    if workers in plans.workers(512):
        assert plans.batches_of_a_turn(workers) % max(1, workers) == 0


def test_the_capability_that_a_training_needs_is_asked_for(suite: Any) -> None:
    """Several ranks need multi_device and bf16 needs bf16: nothing else does, and all need their own job."""
    for name, job in plans.TRAININGS.items():
        marks = suite.training(name).marks
        asked = {n for m in marks if m.name == "capability" for n in m.args}
        wanted = {"multi_device"} if job.ranks > 1 else set()
        assert asked == wanted | ({"bf16"} if "bf16" in name else set())
        assert [m.args for m in marks if m.name == "needs"] == [(name,)]
    assert {n for m in suite.pytestmark if m.name == "capability" for n in m.args} == {"timing"}


@given(st.integers(0, 500), st.integers(2, 80))
def test_any_stretch_of_the_order_is_the_same_work(first: int, length: int) -> None:
    """Neighbours lie in different episodes, and as many in a row as an episode has frames hold each frame once."""
    order = data.order(data.EPISODES * data.FRAMES, first + length)[first:]
    assert len(order) == length
    assert all(a // data.FRAMES != b // data.FRAMES for a, b in itertools.pairwise(order))
    for start in range(length - data.FRAMES + 1):
        stretch = order[start : start + data.FRAMES]
        assert sorted(i % data.FRAMES for i in stretch) == list(range(data.FRAMES))


# What is measured.


def test_peak_memory_is_the_kernels_mark(tmp_path: Path) -> None:
    """The mark is read in bytes; a file without it, or no file, is unknown and not 0."""
    status = tmp_path / "status"
    status.write_text("Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t  1234 kB\nVmRSS:\t   12 kB\n")
    assert memory.peak_bytes(status) == 1234 * 1024
    status.write_text("Name:\tx\nVmRSS:\t  12 kB\n")
    assert memory.peak_bytes(status) is None
    assert memory.peak_bytes(tmp_path / "absent") is None


def test_peak_memory_stays_when_memory_is_freed() -> None:
    """What this process held and gave back is still in its peak."""
    before = memory.peak_bytes()
    if before is None:
        pytest.skip("this kernel tells no highest resident size")
    more = 64 << 20
    held = b"\1" * (max(0, int(before) - psutil.Process().memory_info().rss) + more)
    del held
    after = memory.peak_bytes()
    assert after is not None
    assert after > before + more / 2


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_turns_of_whole_batches(workers: int) -> None:
    """Each turn takes the same number of samples, in full, and the last turn is served as the first."""
    from suites.throughput.loading import Loader

    turns = 3
    loader = Loader(list(range(data.EPISODES * data.FRAMES)), workers, turns)
    assert loader.samples == plans.BATCH * plans.batches_of_a_turn(workers)
    seen = []
    for _ in range(turns):
        loader.turn()
        seen.append(loader.seen)
    loader.close()
    assert seen == [loader.samples * n for n in range(1, turns + 1)]


class Training:
    """A tiny model, its optimizer and a stopwatch on both; `read` is what the target would tell of its samples."""

    batch, inputs, outputs = 3, 8, 5

    def __init__(self, steps: int, device: bool = False, **options: Any) -> None:
        import torch

        from suites.throughput.stopwatch import Stopwatch

        self.model = torch.nn.Linear(self.inputs, self.outputs)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.read: list[int] = []
        self.waits: list[int] = []
        ended = lambda: self.waits.append(len(self.read))  # noqa: E731
        self.watch = Stopwatch(self.optimizer, self.read, steps, ended, device=device, **options)

    def step(self) -> None:
        import torch

        self.read += range(self.batch)
        self.model(torch.ones(self.batch, self.inputs)).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def test_a_stopwatch_takes_one_sample_a_step() -> None:
    """Seconds, memory and samples read of the timed steps and of no other, each after its device work has ended."""
    training = Training(steps=3)
    for _ in range(6):
        training.step()
    watch = training.watch
    assert len(watch.seconds) == 3
    assert min(watch.seconds) > 0
    assert watch.read == [training.batch] * 3
    assert len(watch.host) == 3
    assert min(watch.host) > 1 << 20
    assert watch.device == []
    # Before the first step, and twice around each boundary: a step's end and the next one's begin.
    assert training.waits[0] == 0
    assert {3, 6, 9} <= set(training.waits)


def test_operations_are_those_of_one_step() -> None:
    """A linear layer's forward pass is 2 x batch x inputs x outputs operations, its backward as many for the weights:
    counted in one step, whatever follows it."""
    by_hand = 2 * (2 * Training.batch * Training.inputs * Training.outputs)
    training = Training(steps=2)
    for number in range(5):
        training.step()
        assert (training.watch.flop is None) == (number < 2)
    assert training.watch.flop == by_hand


def test_an_attention_on_a_cpu_is_counted() -> None:
    """Scaled dot-product attention is two products forward and more than twice that with its backward: were it not
    counted on a CPU, a share of the peak would be told too low."""
    import torch

    from suites.throughput.stopwatch import Stopwatch

    heads, length, width = 2, 16, 8
    parts = [torch.nn.Parameter(torch.ones(1, heads, length, width)) for _ in range(3)]
    optimizer = torch.optim.SGD(parts, lr=0.1)
    forward = 2 * (2 * heads * length * length * width)
    watch = Stopwatch(optimizer, [], 1, lambda: None, device=False)
    for _ in range(2):
        torch.nn.functional.scaled_dot_product_attention(*parts).sum().backward()
        optimizer.step()
    assert watch.flop == forward + 2.5 * forward, (
        "the backward pass makes the scores anew, and four products more"
    )


def test_the_memory_of_a_device_is_its_peak_in_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's own mark is set back at each step's begin and read at its end."""
    import torch

    mark = [0]
    monkeypatch.setattr(
        torch.accelerator, "reset_peak_memory_stats", lambda: mark.__setitem__(0, 0), raising=False
    )
    monkeypatch.setattr(torch.accelerator, "max_memory_allocated", lambda: mark[0], raising=False)
    training = Training(steps=3, device=True)
    for number in (5, 9, 7):
        mark[0] = max(mark[0], number)
        training.step()
    assert training.watch.device == [5, 9, 7]
    assert len(training.watch.host) == 3


def test_without_counting_nothing_is_counted() -> None:
    """A stopwatch that was told not to count leaves the number of operations unknown."""
    training = Training(steps=2, count=False)
    for _ in range(4):
        training.step()
    assert training.watch.flop is None
    assert len(training.watch.seconds) == 2


# What a test keeps.


def kept(suite: Any, name: str, device: str = "cpu") -> Notes:
    """What test_training keeps of sound answers."""
    answers = [rank(read=[plans.GLOBAL_BATCH // plans.TRAININGS[name].ranks] * STEPS, device=[7] * STEPS)]
    worlds: Any = SimpleNamespace(get=lambda *_: answers * plans.TRAININGS[name].ranks)
    notes, machine = Notes(), SimpleNamespace(decision=SimpleNamespace(device=device))
    suite.test_training(name, worlds, None, notes, machine)
    return notes


@pytest.mark.parametrize("name", plans.TRAININGS)
def test_a_training_keeps_its_samples_and_their_work(suite: Any, name: str) -> None:
    """Every step is kept raw with its warm-up, its samples, its devices and its operations; memory beside it."""
    ranks = plans.TRAININGS[name].ranks
    step, host = kept(suite, name).metrics
    assert (step.name, step.unit, step.warmup, len(step.samples)) == ("step_s", "s", plans.WARMUP, STEPS)
    assert step.work == {"samples": plans.GLOBAL_BATCH, "devices": ranks, "flop": 10.0 * ranks}
    assert (host.name, host.unit, host.warmup) == ("host_memory_bytes", "bytes", plans.WARMUP)
    assert [m.name for m in kept(suite, name, "accelerator").metrics][2:] == ["device_memory_bytes"]


def test_a_checkpoint_keeps_its_size(suite: Any) -> None:
    """Saves and loads are kept with the bytes on disk, from which MB/s follow."""
    count = plans.CHECKPOINT_WARMUP + plans.CHECKPOINT_ROUNDS
    answer = {"save": [2.0] * count, "load": [1.0] * count, "bytes": 4_000_000}
    worlds: Any = SimpleNamespace(get=lambda *_: [answer])
    for way, seconds in (("save", 2.0), ("load", 1.0)):
        notes = Notes()
        suite.test_checkpoint(way, worlds, None, notes, None)
        (metric,) = notes.metrics
        assert (metric.name, metric.samples) == (f"{way}_s", (seconds,) * count)
        assert metric.work == {"bytes": 4_000_000}
        assert metric.warmup == plans.CHECKPOINT_WARMUP


class Launch:
    """Stands for the plugin's launch: keeps what it was asked, and answers for each rank."""

    failure = KeyError  # never raised here

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.asked: list[tuple[dict[str, Any], int]] = []
        self.answer = answer or {"seconds": []}

    def __call__(self, program: Path, request: dict[str, Any], *, ranks: int, limit_s: float) -> list[Any]:
        self.asked.append((request, ranks))
        jobs = request["jobs"].items()
        return [{n: self.answer for n, job in jobs if number < job["ranks"]} for number in range(ranks)]


def machine(several: bool) -> Any:
    capabilities = {"multi_device": SimpleNamespace(there=several)}
    return SimpleNamespace(
        decision=SimpleNamespace(capabilities=capabilities), runner=SimpleNamespace(name="r")
    )


def test_one_launch_makes_all_that_was_selected() -> None:
    """Only the jobs that tests need are launched, once for all tests, and each test gets the ranks of its own job."""
    launch, needed = Launch(), ["one-fp32-shard-grad-op", "two-fp32-full-shard"]
    worlds = Worlds(needed, "root")
    for name, ranks in zip(needed, (1, 2), strict=True):
        assert len(worlds.get(name, launch, Notes(), machine(True))) == ranks
    ((request, ranks),) = launch.asked
    assert list(request["jobs"]) == needed
    assert ranks == 2


def test_without_a_second_device_one_rank_is_launched() -> None:
    """On a machine with one device the jobs of one rank are measured all the same."""
    launch = Launch()
    Worlds(plans.JOBS, "root").get("checkpoint", launch, Notes(), machine(False))
    ((request, ranks),) = launch.asked
    assert ranks == 1
    assert set(request["jobs"]) == {n for n, j in plans.JOBS.items() if j.ranks == 1}


def test_what_the_target_raised_fails_the_test() -> None:
    """A rank that answers with an error fails the test that needed its job, in the target's own words."""
    launch = Launch({"error": ["ValueError: no such"], "text": "Traceback"})
    with pytest.raises(Failure, match="checkpoint: rank 0: ValueError: no such"):
        Worlds(["checkpoint"], "root").get("checkpoint", launch, Notes(), machine(True))


def test_the_suite_measures_the_reference(tmp_path: Path) -> None:
    """A small part of the suite in one real process: its metrics are there, as planned, with the work of a sample."""
    options = ["suites/throughput", "--target", "reference", "--repeat", "1"]
    done = runs.suites(tmp_path / "run", *options, "-k", "control_clock or decode or 1-workers")
    assert done.status == 0, done.output
    records = {r.test.partition("::")[2]: r for r in done.run.records}
    assert all(r.repeat == 1 and r.outcome == "passed" for r in records.values())
    assert {"test_control_clock", "test_control_stopwatch", "test_control_twice_the_work"} < set(records)
    frames = {
        "test_decode[open-and-first]": (30, 1),
        "test_decode[sequential]": (12, clips.RECIPES[minidata.CLIP].frames),
    }
    for name, (rounds, count) in frames.items():
        (metric,) = records[name].metrics
        assert (metric.name, metric.unit, metric.warmup) == ("decode_s", "s", 2)
        assert len(metric.samples) == 2 + rounds
        assert metric.work == {"frames": count}
    (metric,) = records["test_loading[1-workers]"].metrics
    assert (metric.name, metric.warmup) == ("batch_s", plans.LOADING_WARMUP)
    assert len(metric.samples) == plans.LOADING_WARMUP + plans.LOADING_ROUNDS
    batches = plans.batches_of_a_turn(1)
    assert metric.work == {"batches": batches, "samples": batches * plans.BATCH}
