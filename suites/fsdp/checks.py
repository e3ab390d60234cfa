"""What is wrong with training steps; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from suites.faults import Fault

UNIT = {"fp32": 2.0**-24, "tf32": 2.0**-11, "bf16": 2.0**-8}
"""Unit roundoff of a precision; tf32 is what an accelerator may multiply in where fp32 was asked for."""


def relative(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """|a - b| over the larger size, by step; infinite where a value is not finite."""
    found = []
    for x, y in zip(a, b, strict=True):
        if not (math.isfinite(x) and math.isfinite(y)):
            found.append(math.inf)
        else:
            size = max(abs(x), abs(y))
            found.append(abs(x - y) / size if size else 0.0)
    return found


def highest(values: Sequence[float]) -> list[float]:
    """The running maximum: noise, once there, stays in the parameters."""
    found: list[float] = []
    for value in values:
        found.append(max(value, found[-1] if found else 0.0))
    return found


def repeat_fault(a: Any, b: Any) -> Fault | None:
    """The first step in which two runs of one configuration differ in any bit, on any rank."""
    for rank in range(len(a.ranks)):
        for key in ("samples", "loss", "norm", "rates", "digest"):
            for step, (x, y) in enumerate(zip(a.of(key, rank), b.of(key, rank), strict=True), 1):
                if x != y:
                    what = (
                        f"{key} differs at step {step} on rank {rank} between two runs of one configuration"
                    )
                    return Fault("not_repeatable", what, f"first run: {x}\nsecond run: {y}")
        if a.ranks[rank]["moments"] != b.ranks[rank]["moments"]:
            return Fault("not_repeatable", f"optimizer moments differ on rank {rank} after all steps", "")
    return None


def envelope_fault(
    what: str, there: Sequence[float], here: Sequence[float], allowed: Sequence[float]
) -> Fault | None:
    """The first step in which two traces differ by more than is allowed in it (relative)."""
    differences = relative(there, here)
    for step, (difference, most) in enumerate(zip(differences, allowed, strict=True), 1):
        if difference > most:
            rows = "\n".join(
                f"step {n}: {x!r} beside {y!r}: {d:.2g}, allowed {m:.2g}"
                for n, (x, y, d, m) in enumerate(zip(there, here, differences, allowed, strict=True), 1)
            )
            return Fault(
                "drift", f"{what} differs by {difference:.2g} at step {step}, {most:.2g} is noise", rows
            )
    return None


def agreement_fault(run: Any) -> Fault | None:
    """What ranks must share and do not: weights, start, norms of gradients, size of the parameters."""
    first = run.ranks[0]
    for number, rank in enumerate(run.ranks[1:], 1):
        for key, words in (("start", "initial weights"), ("weights", "weights after the last step")):
            if rank[key] != first[key]:
                text = f"rank 0: {first[key]}\nrank {number}: {rank[key]}"
                return Fault("replicas_differ", f"rank {number} holds other {words} than rank 0", text)
        for key, words in (("norm", "gradient norm"), ("clipped", "clipped gradient norm")):
            for step, (x, y) in enumerate(zip(run.of(key), run.of(key, number), strict=True), 1):
                if x != y:
                    return Fault(
                        "replicas_differ",
                        f"{words} at step {step}: rank 0 has {x!r}, rank {number} has {y!r}",
                        "",
                    )
    return None


def finite_fault(run: Any) -> Fault | None:
    """The first value that is not finite."""
    for number, rank in enumerate(run.ranks):
        for step in rank["steps"]:
            for key in ("loss", "norm", "clipped", "size"):
                if not math.isfinite(step[key]):
                    return Fault(
                        "not_finite", f"{key} is {step[key]} at step {step['step']} on rank {number}", ""
                    )
        if not rank["finite"]:
            return Fault("not_finite", f"rank {number} holds weights that are not finite", "")
    return None


def shards_fault(run: Any, replicas: int) -> Fault | None:
    """A run that did not shard as asked: each parameter must be held `replicas` times in all."""
    held = run.ranks[0]["replicas"]
    if held != replicas:
        counts = [r["local_count"] for r in run.ranks]
        text = f"parameters {run.ranks[0]['count']}, held by rank: {counts}"
        return Fault("replicas_differ", f"each parameter is held {held:g} times, {replicas} asked for", text)
    return None


def batch_fault(run: Any, asked: int) -> Fault | None:
    """A step that did not train on `asked` different samples, or not on as many on each rank."""
    for step in range(run.steps):
        by_rank = [run.of("samples", r)[step] for r in range(len(run.ranks))]
        every = [s for samples in by_rank for s in samples]
        if len(every) != asked or len({len(s) for s in by_rank}) > 1:
            return Fault(
                "wrong_batch", f"step {step + 1} read {len(every)} samples, {asked} asked for", str(by_rank)
            )
        if len(set(every)) != len(every):
            return Fault("wrong_batch", f"step {step + 1} read a sample twice", str(by_rank))
    return None


def order_fault(run: Any, other: Any) -> Fault | None:
    """A step that did not read the samples that the same step reads at another world size."""
    for step in range(run.steps):
        here = sorted(s for r in range(len(run.ranks)) for s in run.of("samples", r)[step])
        there = sorted(s for r in range(len(other.ranks)) for s in other.of("samples", r)[step])
        if here != there:
            text = f"{run.name}: {here}\n{other.name}: {there}"
            return Fault("wrong_batch", f"step {step + 1} read other samples than on one rank", text)
    return None


def rates_fault(run: Any, planned: Sequence[Mapping[str, float]]) -> Fault | None:
    """A step whose learning rates were not those planned; `planned` has a rate by part for each step."""
    used = run.of("rates")
    for step, (have, want) in enumerate(zip(used, planned, strict=True), 1):
        for part, rate in want.items():
            if have[part] != [rate]:
                rows = "\n".join(
                    f"step {n}: used {u}, planned {dict(p)}"
                    for n, (u, p) in enumerate(zip(used, planned, strict=True), 1)
                )
                return Fault("wrong_rate", f"{part} at step {step}: rate {have[part]}, planned {rate}", rows)
    return None


def freeze_fault(run: Any, frozen_steps: int) -> Fault | None:
    """A backbone that moved while frozen, or did not move after; a head that stood still."""
    for number in range(len(run.ranks)):
        for step, moved in enumerate(run.of("moved", number), 1):
            if step <= frozen_steps and moved["backbone"] != 0:
                text = f"moved by step: {run.of('moved', number)}\nrates by step: {run.of('rates', number)}"
                return Fault(
                    "wrong_rate", f"the frozen backbone moved by {moved['backbone']:g} at step {step}", text
                )
    for step in range(run.steps):
        moved_by = [run.of("moved", n)[step] for n in range(len(run.ranks))]
        still = [p for p in ("backbone", "head") if max(m[p] for m in moved_by) == 0]
        expected = [] if step >= frozen_steps else ["backbone"]
        if still != expected:
            return Fault(
                "wrong_rate",
                f"at step {step + 1} these stood still: {still}, expected {expected}",
                str(moved_by),
            )
    return None


def decay_fault(sharded: Any, whole: Any) -> Fault | None:
    """Parameters whose weight decay is another one sharded than unsharded."""
    have, want = sharded.ranks[0]["decay"], whole.ranks[0]["decay"]
    wrong = sorted(n for n in want if have.get(n) != want[n])
    if not wrong:
        return None
    sizes = whole.ranks[0]["sizes"]
    share = sum(sizes[n] for n in wrong) / sum(sizes[n] for n in want)
    text = (
        f"group sizes sharded {sharded.ranks[0]['groups']}, unsharded {whole.ranks[0]['groups']}\n"
        f"first of them: {wrong[:5]}"
    )
    message = (
        f"{len(wrong)} of {len(want)} parameters ({share:.0%} of all values) decay otherwise when sharded"
    )
    return Fault("wrong_rate", message, text)


def clip_fault(run: Any, most: float) -> Fault | None:
    """Gradients that the optimizer saw with a norm over the limit, or that were scaled without need."""
    for step, (norm, clipped) in enumerate(zip(run.of("norm"), run.of("clipped"), strict=True), 1):
        want = min(norm, most)
        if not abs(clipped - want) <= 1e-4 * want:
            return Fault(
                "wrong_rate",
                f"step {step}: gradient norm {norm:g} reached the optimizer as {clipped:g}, limit {most:g}",
                "",
            )
    return None
