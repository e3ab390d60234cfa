"""The program of the ranks: runs the cases asked for, compares every element, and tells what it found."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from harness.ranks import Rank, serve
from suites.collectives import cases, checks
from suites.collectives.compare import GUARD, compare, sentinel, spilled

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int64": torch.int64}
SAME = ("all_reduce", "all_gather", "broadcast")


class Collectives:
    """The collectives of torch.distributed under names of our own, so that a defect can take the place of one."""

    # torch 2.13 renamed two of them.
    _gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    _scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    def all_reduce(self, values: Any, group: Any = None, async_op: bool = False) -> Any:
        return dist.all_reduce(values, group=group, async_op=async_op)

    def all_gather(self, out: Any, values: Any, group: Any = None) -> None:
        Collectives._gather(out, values, group=group)

    def reduce_scatter(self, out: Any, values: Any, group: Any = None) -> None:
        Collectives._scatter(out, values, group=group)

    def broadcast(self, values: Any, source: int, group: Any = None) -> None:
        dist.broadcast(values, source, group=group)

    def all_to_all(self, out: Any, values: Any, gets: Any = None, gives: Any = None) -> None:
        dist.all_to_all_single(out, values, gets, gives)

    def barrier(self) -> None:
        dist.barrier()


class Cases:
    """The cases as one rank runs them."""

    def __init__(self, rank: Rank, ops: Any, names: list[str]) -> None:
        self.rank, self.ops, self.names = rank, ops, names
        self.everyone = tuple(range(rank.world))

    @functools.cached_property
    def normal(self) -> torch.Tensor:
        count = cases.most_given(self.names, self.rank.world) + 8192
        return torch.randn(count, generator=torch.Generator().manual_seed(20))

    @functools.cache  # noqa: B019 - as long-lived as the process
    def source(self, dtype: str) -> torch.Tensor:
        """What inputs are cut from, the same on every rank, so that each knows what all the others give."""
        if dtype == "int64":  # beyond float64's whole numbers; four of them do not overflow
            return (self.normal[: cases.most_given([], self.rank.world) + 8192].double() * 2**57).long()
        return self.normal.to(TYPES[dtype])

    def given(self, dtype: str, rank: int, count: int) -> torch.Tensor:
        """What a rank gives: another cut for each rank."""
        start = rank * 1009 + count % 13
        return self.source(dtype)[start : start + count]

    def buffer(self, count: int, dtype: str, values: torch.Tensor | None = None) -> torch.Tensor:
        """A buffer on the device with guard elements behind it, unwritten or with the values."""
        kind = TYPES[dtype]
        whole = torch.full((count + GUARD,), sentinel(kind), dtype=kind)
        if values is not None:
            whole[:count] = values
        return whole.to(self.rank.device)

    @functools.cache  # noqa: B019
    def groups(self, name: str) -> list[Any]:
        # Every rank makes every group, also those it is not in.
        return [dist.new_group(list(members)) for members in cases.GROUPS[name]]

    def one(
        self, op: str, dtype: str, length: int, members: tuple[int, ...] | None = None, group: Any = None
    ) -> dict[str, Any]:
        """Runs an operation once, and compares all that this rank got."""
        members = members or self.everyone
        whole, expected = self.run(op, dtype, length, members, group)
        found = compare(whole[:-GUARD], expected)
        what = f"{op} of {length} {dtype}" + (f" in group {list(members)}" if group is not None else "")
        return {**found, "what": what, "same": op in SAME, "spilled": spilled(whole[-GUARD:].cpu())}

    def run(
        self, op: str, dtype: str, length: int, members: tuple[int, ...], group: Any
    ) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
        """The buffer that an operation wrote, guard included, and the terms of its sum."""
        me, size, ops = self.rank.number, len(members), self.ops
        place = members.index(me)
        in_group = {} if group is None else {"group": group}
        if op == "all_reduce":
            terms = [self.given(dtype, m, length) for m in members]
            whole = self.buffer(length, dtype, terms[place])
            ops.all_reduce(whole[:length], **in_group)
            return whole, terms
        if op == "broadcast":
            source = members[length % size]
            sent = self.given(dtype, source, length)
            whole = self.buffer(length, dtype, sent if me == source else None)
            ops.broadcast(whole[:length], source, **in_group)
            return whole, [sent]
        if op == "all_gather":
            terms = [self.given(dtype, m, length) for m in members]
            whole = self.buffer(length * size, dtype)
            ops.all_gather(whole[:-GUARD], terms[place].to(self.rank.device), **in_group)
            return whole, [torch.cat(terms)]
        if op == "all_to_all_uneven":
            return self.uneven(dtype, length)
        mine = slice(place * length, (place + 1) * length)
        inputs = [self.given(dtype, m, length * size) for m in members]
        sent, whole = inputs[place].to(self.rank.device), self.buffer(length, dtype)
        if op == "reduce_scatter":
            ops.reduce_scatter(whole[:length], sent, **in_group)
            return whole, [i[mine] for i in inputs]
        whole = self.buffer(length * size, dtype)
        ops.all_to_all(whole[:-GUARD], sent)
        return whole, [torch.cat([i[mine] for i in inputs])]

    def uneven(self, dtype: str, length: int) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
        """An all_to_all whose pieces have different lengths."""
        me, parts = self.rank.number, []
        for source in self.everyone:
            gives = [cases.split(length, source, d) for d in self.everyone]
            values = self.given(dtype, source, sum(gives))
            parts.append(values.split(gives)[me])
            if source == me:
                sent, mine = values.to(self.rank.device), gives
        gets = [len(p) for p in parts]
        whole = self.buffer(sum(gets), dtype)
        self.ops.all_to_all(whole[:-GUARD], sent, gets, mine)
        return whole, [torch.cat(parts)]

    def sizes(self, op: str, dtype: str) -> dict[str, Any]:
        return self.found((op, dtype, n) for n in cases.LENGTHS)

    def large(self, op: str) -> dict[str, Any]:
        return self.found([(op, "fp32", cases.pieces(op, cases.LARGE_BYTES, self.rank.world))])

    def group(self, name: str, op: str) -> dict[str, Any]:
        made = zip(cases.GROUPS[name], self.groups(name), strict=True)
        mine = [(m, g) for m, g in made if self.rank.number in m]
        return self.found((op, "fp32", cases.GROUPED_LENGTH, m, g) for m, g in mine)

    def found(self, calls: Any) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        try:
            for call in calls:
                found.append(self.one(*call))
        except (RuntimeError, NotImplementedError) as error:
            if not checks.is_unsupported(error):
                raise
            return {"found": found, "unsupported": f"{type(error).__name__}: {error}"[:500]}
        return {"found": found}

    def buckets(self) -> dict[str, Any]:
        """All buckets in flight at once and waited for in order, as DDP does; every repetition from the same inputs."""
        terms = [[self.given(t, m, n) for m in self.everyone] for t, n in cases.BUCKETS]
        fresh = [self.buffer(len(t[0]), k, t[self.rank.number])
                 for t, (k, _) in zip(terms, cases.BUCKETS, strict=True)]  # fmt: skip
        first: list[torch.Tensor] = []
        unlike = []
        for repetition in range(cases.REPETITIONS):
            now = [b.clone() for b in fresh]
            for work in [self.ops.all_reduce(b[:-GUARD], async_op=True) for b in now]:
                work.wait()
            first = first or now
            unlike += [[repetition, i] for i, (a, b) in enumerate(zip(first, now, strict=True))
                       if not torch.equal(a[:-GUARD].view(torch.uint8), b[:-GUARD].view(torch.uint8))]  # fmt: skip
        found = []
        for number, (buffer, inputs) in enumerate(zip(first, terms, strict=True)):
            what = f"all_reduce of bucket {number}"
            compared = compare(buffer[:-GUARD], inputs)
            found.append({**compared, "what": what, "same": True, "spilled": spilled(buffer[-GUARD:].cpu())})
        return {"repetitions": cases.REPETITIONS, "unlike": unlike[:20], "found": found}

    def barrier(self) -> dict[str, Any]:
        """When this rank came and left, in seconds of the machine's clock."""
        rounds = []
        for number in range(cases.ROUNDS):
            time.sleep((self.rank.number + number) % self.rank.world * 0.1)
            came = time.monotonic()
            self.ops.barrier()
            rounds.append([came, time.monotonic()])
        return {"rounds": rounds}

    def bandwidth(self, op: str) -> dict[str, Any]:
        """Seconds of each repetition after the warm-up, by size; ranks start together."""
        out: dict[str, list[float]] = {}
        try:
            for name, size in cases.BANDWIDTH_BYTES.items():
                out[name] = self.timed(op, cases.pieces(op, size, self.rank.world))
        except (RuntimeError, NotImplementedError) as error:
            if not checks.is_unsupported(error):
                raise
            return {"found": [], "unsupported": f"{type(error).__name__}: {error}"[:500]}
        return {"seconds": out}

    def timed(self, op: str, length: int) -> list[float]:
        device, world, ops = self.rank.device, self.rank.world, self.ops
        small = torch.ones(length, device=device)
        large = small if op in ("all_reduce", "broadcast") else torch.zeros(length * world, device=device)
        other = torch.empty_like(large)
        call = {
            "all_reduce": lambda: ops.all_reduce(large),
            "broadcast": lambda: ops.broadcast(large, 0),
            "all_gather": lambda: ops.all_gather(large, small),
            "reduce_scatter": lambda: ops.reduce_scatter(small, large),
            "all_to_all": lambda: ops.all_to_all(other, large),
        }[op]
        seconds = []
        for _ in range(cases.WARM_UP + cases.TIMINGS):
            dist.barrier()
            self.settle()
            begin = time.perf_counter()
            call()
            self.settle()
            seconds.append(time.perf_counter() - begin)
        return seconds[cases.WARM_UP :]

    def settle(self) -> None:
        """Waits for the device: a collective there has only been queued when the call returns."""
        if self.rank.device != "cpu":
            torch.accelerator.synchronize()

    def control(self) -> dict[str, Any]:
        """Right results, altered on purpose; through torch's own collectives whatever is planted."""
        sound, ops = self.ops, Collectives()
        self.ops = ops
        try:
            return {"altered": {name: self.altered(name) for name in
                    ("sum", "sum-bf16", "sum-int64", "copy", "unwritten", "spilled", "one-rank", "sound")}}  # fmt: skip
        finally:
            self.ops = sound

    def altered(self, name: str) -> dict[str, Any]:
        op = "all_gather" if name in ("copy", "unwritten") else "all_reduce"
        dtype = name.partition("-")[2] if name.startswith("sum-") else "fp32"
        whole, terms = self.run(op, dtype, 1023, self.everyone, None)
        whole = whole.cpu()
        last = whole[-GUARD - 1]
        if name.startswith("sum"):
            last += 1
        elif name == "unwritten":
            last.fill_(sentinel(whole.dtype))
        elif name == "copy":
            last.view(torch.int32).add_(1)  # one unit in the last place
        elif name == "spilled":
            whole[-GUARD] = 0
        elif name == "one-rank" and self.rank.number == self.rank.world - 1:
            # Bits differ and the sum stays within its rounding: only the digest can tell.
            zero = (terms[0] + terms[1]).abs() < terms[0].abs() / 8
            whole[int(zero.nonzero()[0])].view(torch.int32).add_(1)
        found = compare(whole[:-GUARD], terms)
        return {**found, "what": name, "same": op in SAME, "spilled": spilled(whole[-GUARD:])}


def answer(rank: Rank) -> Mapping[str, Any]:
    target = rank.target()
    names: list[str] = rank.request["cases"]
    told: dict[str, Any] = {"backend": rank.backend, "done": {}}
    if rank.device != "cpu" and torch.accelerator.device_count() < rank.local_world:
        return {**told, "devices": torch.accelerator.device_count()}
    rank.join()
    wrap = getattr(target, "collectives", None)
    all_cases = Cases(rank, wrap(Collectives()) if wrap else Collectives(), names)
    for name in names:
        rank.write({**told, "running": name})
        what, *details = name.split("/")
        told["done"][name] = getattr(all_cases, what)(*details)
    return told


if __name__ == "__main__":
    serve(answer)
