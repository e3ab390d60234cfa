"""Runs that are of one machine: what the harness measured there, and imports that were given its name; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.buy_taking import Taken, take
from harness.buying import Offer
from harness.errors import UsageError
from harness.records import Run

Taking = Mapping[tuple[str, str], tuple[Taken, Offer]]
"""By kind and test: what was taken, and of which run it is."""


def is_imported(run: Run) -> bool:
    """Whether another tool measured it."""
    return "imported_from" in run.header.configuration


def join(offers: Sequence[Offer]) -> list[Offer]:
    """One offer a machine, in the order the machines were named first: imports go to the run that has the same name.

    UsageError when two runs of the harness have one name, or a name is of two kinds of machine.
    """
    by_name: dict[str, list[Offer]] = {}
    for number, offer in enumerate(offers):
        by_name.setdefault(offer.name if offer.name is not None else f"\0{number}", []).append(offer)
    return [every[0] if len(every) == 1 else _one(name, every) for name, every in by_name.items()]


def _one(name: str, every: Sequence[Offer]) -> Offer:
    own = [o for o in every if not is_imported(o.run)]
    if len(own) != 1:
        raise UsageError(
            f"--name {name}: twice; give each machine a name of its own: only imported runs may have that of one run of "
            "their machine"
        )
    runner = own[0].run.header.runner
    imports = tuple(o.run for o in every if o is not own[0])
    for run in imports:
        there = run.header.runner
        if (there.name, there.device_arch, there.emulated) != (
            runner.name,
            runner.device_arch,
            runner.emulated,
        ):
            raise UsageError(
                f"--name {name}: {own[0].run.header.run_id} is of {runner.name} {runner.device_arch}, "
                f"{run.header.run_id} of {there.name} {there.device_arch}; import what is of this machine with "
                f"--runner {runner.name} --device {runner.device_arch}, or give it another name"
            )
    return replace(own[0], served=(*own[0].served, *imports))


def take_all(offer: Offer) -> Taking:
    """All that was measured on the machine; UsageError when two of its runs hold the same test."""
    found = {key: (taken, offer) for key, taken in take(offer.run).items()}
    for run in offer.served:
        source = replace(offer, run=run, served=())
        for key, taken in take(run).items():
            if key in found:
                raise UsageError(
                    f"{run.header.run_id}: {key[1]} again, on one machine; import the files of one workload in one "
                    "call, where they are its repeats"
                )
            found[key] = (taken, source)
    return found
