"""The program of the ranks: each looks at its device, computes on it, fills its memory, and adds with the others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from harness.ranks import Rank, serve
from suites.preflight import cases
from suites.preflight.instruments import Instruments, instruments

_UNIT = 2.0**-24
"""Half the distance from 1 to the next float32."""

_BITS = {torch.bfloat16: torch.int16, torch.float32: torch.int32}


class Altered(Instruments):
    """Instruments that are off by as little as can be: one unit in the last place, one bit."""

    def __init__(self) -> None:
        self.calls = 0

    def multiply(self, a: Any, b: Any) -> Any:
        out = super().multiply(a, b)
        self.calls += 1
        if out.dtype == torch.bfloat16:
            # Not always: repetitions must differ from one another.
            out.view(torch.int16)[-1, -1] += self.calls % 2
        else:
            out[-1, -1] += 0.01
        return out

    def to_host(self, values: Any) -> Any:
        out = super().to_host(values)
        if out.dtype == torch.int32:
            out[-1] ^= 1 << 17
        return out

    def all_reduce(self, values: Any) -> None:
        super().all_reduce(values)
        values += 1


class Bench:
    """What a rank tries with the instruments it is given."""

    def __init__(self, rank: Rank, tools: Any) -> None:
        self.rank, self.tools, self.device = rank, tools, rank.device

    def product(self) -> dict[str, Any]:
        """Every element and the norm of the product of ones."""
        ones = torch.ones(cases.ONES, cases.ONES, dtype=torch.bfloat16, device=self.device)
        out = self.tools.multiply(ones, ones)
        host = out.detach().cpu().double()
        wrong = host != float(cases.ONES)
        return {
            "elements": host.numel(),
            "norm": float(out.double().norm()),
            **_first(wrong, lambda at: repr(host.reshape(-1)[at].item())),
        }

    def normal(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        rows, terms, columns = cases.SHAPE
        make = torch.Generator().manual_seed(7)
        a = torch.randn(rows, terms, generator=make).to(dtype)
        return a, torch.randn(terms, columns, generator=make).to(dtype)

    def rounding(self) -> dict[str, Any]:
        """A float32 product against float64: each element within n u / (1 - n u) of the sum of magnitudes, which holds
        in whatever order it is summed (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1)."""
        a, b = self.normal(torch.float32)
        out = self.tools.multiply(a.to(self.device), b.to(self.device)).cpu().double()
        right = a.double() @ b.double()
        least = cases.SHAPE[1] * _UNIT
        bound = (a.double().abs() @ b.double().abs()) * (least / (1 - least))
        wrong = ~((out - right).abs() <= bound)

        def told(at: int) -> str:
            got, wanted, most = (t.reshape(-1)[at].item() for t in (out, right, bound))
            return f"{got!r}, float64 says {wanted!r}, at most {most:.3g} off"

        return {"elements": out.numel(), **_first(wrong, told)}

    def repeats(self) -> dict[str, list[str]]:
        """Digests of products of the same inputs."""
        told = {}
        for name, dtype in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
            a, b = (t.to(self.device) for t in self.normal(dtype))
            told[name] = [_digest(self.tools.multiply(a, b)) for _ in range(cases.REPETITIONS)]
        return told

    def memory(self, count: int) -> dict[str, Any]:
        """A pattern and its complement, copied to the device and back, and compared on both sides."""
        words = count // 4
        found: dict[str, Any] = {"words": 0, "wrong": 0}
        try:
            for flip in (0, -1):
                pattern = (torch.arange(words, dtype=torch.int32) * 40503) ^ flip
                held = self.tools.to_device(pattern, self.device)
                again = self.tools.to_host(held)
                there = (torch.arange(words, dtype=torch.int32, device=self.device) * 40503) ^ flip
                found["words"] += 2 * words
                for where, got, right in (
                    ("on the device", held, there),
                    ("back on the host", again, pattern),
                ):
                    wrong = got != right
                    if number := int(wrong.sum()):
                        if not found["wrong"]:
                            first = int(wrong.nonzero()[0])
                            bits = int(got[first] ^ right[first]) & 0xFFFFFFFF
                            found.update(first=first, bits=bits, where=where)
                        found["wrong"] += number
        except RuntimeError as error:  # out of memory, and what a broken device raises
            found["error"] = f"{type(error).__name__}: {error}"[:600]
        return found

    def sum(self) -> dict[str, Any]:
        """One all_reduce over the numbers of all ranks."""
        value = torch.full((1,), self.rank.number + 1.0, device=self.device)
        self.tools.all_reduce(value)
        return {"sum": value.item()}

    def disk(self) -> dict[str, Any]:
        """A file in the run's folder, written through and read again."""
        path = self.rank.folder / f"preflight-{self.rank.number}.part"
        data = bytes(range(256)) * (cases.DISK_BYTES // 256)
        try:
            self.tools.store(path, data)
            again = path.read_bytes()
            return {"bytes": len(again), "same": again == data}
        except OSError as error:
            return {"error": f"{type(error).__name__}: {error}"}
        finally:
            Path(path).unlink(missing_ok=True)


def _first(wrong: torch.Tensor, told: Callable[[int], str]) -> dict[str, Any]:
    """How many are wrong, where the first one is, and what is told of it."""
    number = int(wrong.sum())
    if not number:
        return {"wrong": 0}
    first = int(wrong.reshape(-1).nonzero()[0])
    return {"wrong": number, "first": first, "got": told(first)}


def _digest(values: torch.Tensor) -> str:
    bits = values.detach().cpu().contiguous().view(_BITS[values.dtype])
    return hashlib.sha256(bits.numpy().tobytes()).hexdigest()[:16]


def answer(rank: Rank) -> Mapping[str, Any]:
    tools = instruments(rank.spec)
    devices = tools.devices()
    told: dict[str, Any] = {"seen": {"devices": devices, "emulation": tools.emulation()}}
    # On a CPU each rank has the whole machine, and sees itself alone.
    local = rank.local if rank.device != "cpu" or len(devices) > 1 else 0
    if rank.device != "cpu" and torch.accelerator.device_count() <= local:
        return told  # what is missing is told; to join would fail or hang
    told["seat"] = devices[local] if local < len(devices) else {"identity": f"no device for {rank.number}"}
    rank.write(told)
    rank.join()
    bench = Bench(rank, tools)
    for name in ("product", "rounding", "repeats", "disk"):
        told[name] = getattr(bench, name)()
    told["memory"] = bench.memory(rank.request["memory_bytes"])
    try:
        # Held until all have theirs: together they must fit.
        with tools.shared(rank.request["shared_bytes"]) as held:
            told["shared"] = {"bytes": held}
            told["sum"] = bench.sum()
    except OSError as error:
        told["shared"] = {"error": f"{type(error).__name__}: {error}"}
        told["sum"] = bench.sum()
    rank.write(told)
    small = 1 << 20
    for name, its in (("altered", Altered()), ("sound", Instruments())):
        control = Bench(rank, its)
        parts = {n: getattr(control, n)() for n in ("product", "rounding", "repeats", "sum")}
        told.setdefault("control", {})[name] = {**parts, "memory": control.memory(small)}
    return told


if __name__ == "__main__":
    serve(answer)
