"""What is wrong with checkpoints and with runs resumed from them; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from suites.faults import Fault

ALLOWED = re.compile(r"(collections|torch|torch\._utils|torch\._tensor|torch\.storage) \S+")
"""What a checkpoint's pickle may import: what torch's own loader of weights takes."""


def state_fault(what: str, have: Mapping[str, Any], want: Mapping[str, Any]) -> Fault | None:
    """Weights or moments that differ in any bit, in type or shape, or that one side lacks."""
    for part in ("weights", "moments"):
        here, there = have[part], want[part]
        missing, more = sorted(there.keys() - here.keys()), sorted(here.keys() - there.keys())
        if missing or more:
            text = f"missing: {missing[:5]}\nnot asked for: {more[:5]}"
            return Fault("wrong_state", f"{what}: {part}: {len(missing)} missing, {len(more)} too many", text)
        wrong = [n for n in there if here[n] != there[n]]
        if wrong:
            rows = "\n".join(f"{n}: {here[n]}, was {there[n]}" for n in wrong[:5])
            return Fault(
                "wrong_state", f"{what}: {part}: {len(wrong)} of {len(there)} differ: {wrong[0]}", rows
            )
    return None


def loaded_fault(
    what: str, ranks: Sequence[Mapping[str, Any]], want: Mapping[str, Any], step: int
) -> Fault | None:
    """A loaded state that is not the saved one, on any rank; `want` is what the saving ranks held."""
    fault = state_fault(what, ranks[0]["held"], want)
    if fault is not None:
        return fault
    for number, rank in enumerate(ranks):
        if rank["held"]["digest"] != want["digest"]:
            return Fault("wrong_state", f"{what}: rank {number} sees another state than rank 0", "")
        steps = rank["held"]["steps"]
        if steps not in ([], [step]):  # a rank may hold no part of any parameter
            return Fault("wrong_state", f"{what}: the optimizer counts {steps} steps, {step} were made", "")
        if rank.get("first_step", step + 1) != step + 1:
            return Fault(
                "wrong_state",
                f"{what}: goes on with step {rank['first_step']} after a checkpoint of step {step}",
                "",
            )
    return None


def moments_fault(held: Mapping[str, Any]) -> Fault | None:
    """Trained parameters without both moments, and moments that are one and the same in all parameters."""
    trained = [n for n in held["weights"] if n not in held["frozen"]]
    lacking = [n for n in trained if len(held["moments"].get(n, {})) != 2]
    if lacking:
        return Fault(
            "wrong_state", f"{len(lacking)} parameters lack a moment: {lacking[0]}", str(lacking[:5])
        )
    same = [n for n, by in held["moments"].items() if by["exp_avg"] == by["exp_avg_sq"]]
    if len(same) == len(held["moments"]):
        return Fault("wrong_state", "exp_avg equals exp_avg_sq in every parameter", "")
    return None


def indivisible(held: Mapping[str, Any], world: int) -> list[str]:
    """Parameters whose first dimension the ranks cannot share out evenly."""
    found = []
    for name, text in held["weights"].items():
        shape = re.search(r"\[([\d, ]*)\]", text)
        first = int(shape[1].split(",")[0]) if shape and shape[1] else 1
        if first % world:
            found.append(name)
    return found


def resumed_fault(
    through: Sequence[Mapping[str, Any]], resumed: Sequence[Mapping[str, Any]], after: int
) -> Fault | None:
    """The first step in which a resumed run differs in any bit from the one that went on, on any rank."""
    for number, (straight, again) in enumerate(zip(through, resumed, strict=True)):
        rest, steps = straight["steps"][after:], again["steps"]
        have, want = [s["step"] for s in steps], [s["step"] for s in rest]
        if have != want:
            return Fault("wrong_state", f"the resumed run made steps {have}, due were {want}", "")
        for x, y in zip(rest, steps, strict=True):
            for key, kind in (
                ("samples", "wrong_batch"), ("loss", "not_repeatable"), ("norm", "not_repeatable"),
                ("rates", "wrong_rate"), ("digest", "wrong_state"),
            ):  # fmt: skip
                if x[key] != y[key]:
                    rows = "\n".join(
                        f"step {a['step']}: {a[key]}, resumed: {b[key]}"
                        for a, b in zip(rest, steps, strict=True)
                    )
                    what = f"{key} of step {x['step']} on rank {number}: {x[key]}, after resuming {y[key]}"
                    return Fault(kind, what, rows)
        if straight["held"]["digest"] != again["held"]["digest"]:
            return Fault("wrong_state", f"weights or moments on rank {number} differ after the last step", "")
    return None


def samples_fault(
    through: Sequence[Mapping[str, Any]], resumed: Sequence[Mapping[str, Any]], after: int
) -> Fault | None:
    """The first step in which the ranks together read other samples than in the run that went on."""
    due = len(through[0]["steps"]) - after
    if any(len(r["steps"]) != due for r in resumed):
        made = [len(r["steps"]) for r in resumed]
        return Fault("wrong_batch", f"the resumed run made {made} steps by rank, {due} were due", "")
    for step in range(due):
        want = sorted(s for r in through for s in r["steps"][after + step]["samples"])
        have = sorted(s for r in resumed for s in r["steps"][step]["samples"])
        if have != want:
            return Fault(
                "wrong_batch",
                f"step {after + step + 1} read samples {have} after resuming, {want} were due",
                "",
            )
    return None


def freeze_fault(steps: Sequence[Mapping[str, Any]], frozen: int) -> Fault | None:
    """A step in which the backbone moved while frozen, or stood still afterwards."""
    for step in steps:
        moved = step["moved"].get("backbone", 0.0)
        if (moved != 0) != (step["step"] > frozen):
            rows = "\n".join(f"step {s['step']}: moved {s['moved']}, rates {s['rates']}" for s in steps)
            what = f"the backbone moved by {moved:g} in step {step['step']}, frozen are the first {frozen}"
            return Fault("wrong_rate", what, rows)
    return None


def near_fault(
    what: str, want: Sequence[float], have: Sequence[float], first: int, most: float
) -> Fault | None:
    """The first step in which a trace is further off than `most`, relative."""
    if len(have) != len(want):
        return Fault("drift", f"{what}: {len(have)} steps, {len(want)} were due", "")
    for step, (x, y) in enumerate(zip(want, have, strict=True), first):
        apart = abs(x - y) / max(abs(x), abs(y), 1e-30)
        if not apart <= most:
            return Fault(
                "drift", f"{what} of step {step}: {y!r}, {x!r} without resuming: {apart:.2g} apart", ""
            )
    return None


def killed_fault(answer: Mapping[str, Any]) -> Fault | None:
    """Kills after which the target would resume from something torn, or from nothing."""
    if not answer["saved"]:
        return Fault(
            "wrong_state", "a save that was not killed holds another state than there was to save", ""
        )
    moments = answer["moments"]
    bad = [m for m in moments if m["state"] in ("torn", "none")]
    if not bad:
        return None
    rows = "\n".join(f"killed after {m['delay_s'] * 1e3:.0f} ms: {m['state']} {m['why']}" for m in moments)
    text = f"a save takes {answer['save_s'] * 1e3:.0f} ms\n{rows}"
    return Fault(
        "checkpoint",
        f"{len(bad)} of {len(moments)} killed saves leave a last checkpoint that is no whole one: {bad[0]['why']}",
        text,
    )


def damage_fault(answer: Mapping[str, Any], file: str) -> Fault | None:
    """Damage that loads, or ends in an error that does not name the damaged file."""
    if "loaded" in answer:
        return Fault("no_error", f"it loads, and training would go on with step {answer['first_step']}", "")
    if not any(file in text for text in answer["chain"]):
        text = "\ncaused by ".join(answer["chain"])
        return Fault("masked_error", f"the error does not name {file}: {answer['chain'][0]}", text)
    return None


def files_fault(described: Mapping[str, Mapping[str, Any]], places: Sequence[str]) -> Fault | None:
    """Files that do not load everywhere: by the loader of weights alone, on a machine without their device."""
    if not described:
        return Fault("checkpoint", "the checkpoint holds no file of torch's", "")
    for name, file in described.items():
        if file["error"]:
            return Fault("checkpoint", f"{name} does not load with weights_only: {file['error']}", "")
        foreign = [n for n in file["names"] if not ALLOWED.fullmatch(n)]
        if foreign:
            return Fault("checkpoint", f"{name} imports {', '.join(foreign)}", "")
        elsewhere = [p for p in file["places"] if p not in places]
        if elsewhere:
            return Fault("checkpoint", f"{name} holds tensors on {', '.join(elsewhere)}", "")
    return None


def order_fault(answer: Mapping[str, Any]) -> Fault | None:
    """Another checkpoint chosen than the newest whole one."""
    if answer["chosen"] != answer["expected"]:
        what = f"would resume from {answer['chosen']}, the newest whole one is {answer['expected']}"
        return Fault("checkpoint", what, "")
    return None
