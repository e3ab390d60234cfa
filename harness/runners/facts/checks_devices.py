"""Checks of accelerators whoever made them: how many, what hides them, who else uses them, whether they are sound."""

from __future__ import annotations

from harness.runners.facts.archs import wheel_covers
from harness.runners.facts.checks_base import GIB, Answer, Check, Looked, archs, size, some, unknown
from harness.runners.facts.masks import entries
from harness.runners.facts.snapshot import ToolDevice

MASKS = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_HONORED = {"cuda": ("CUDA_VISIBLE_DEVICES",)}
"""Masks that a kind of machine looks at; all of them where it is not listed."""

IN_USE_BYTES = 2 * GIB
"""What others may hold of a device's memory before it is told: contexts of idle processes take less."""


_VENDORS = {"cuda": "nvidia", "rocm": "amd"}


def _listed(looked: Looked) -> list[ToolDevice]:
    """The devices that the kernel or the vendor's tool lists, another vendor's and an emulator's host's left out."""
    vendor = _VENDORS.get(looked.runner)
    if looked.runner == "mirage":
        return []
    return [d for d in looked.seen.devices if vendor is None or d.vendor in (None, vendor)]


def masks_set(looked: Looked) -> dict[str, str]:
    """The masks in force, by variable."""
    names = _HONORED.get(looked.runner, MASKS)
    return {n: looked.seen.environment[n] for n in names if n in looked.seen.environment}


def _judge_count(looked: Looked) -> Answer:
    facts, asked = looked.seen.torch, looked.asked
    kernel = len(_listed(looked))
    told = f"; the kernel or the vendor's tool lists {kernel}" if kernel else ""
    if facts is None or facts.version is None:
        return unknown(f"torch did not tell{told}", "run it with an interpreter that has torch")
    count = len(facts.devices)
    words = f"torch sees {count}{told}"
    if count == 0:
        return Answer("wrong", words + (f"; torch says: {facts.error}" if facts.error else ""))
    if asked is not None and count < asked:
        return Answer(
            "wrong", f"{words}; {asked} were asked for", f"pass {asked} devices in, or ask for {count}"
        )
    if kernel > count:
        if masks := masks_set(looked):
            hiding = " ".join(f"{n}={v}" for n, v in masks.items())
            return Answer("fine", f"{words}; {hiding} hides the others")
        return Answer("wrong", f"{words}, and no mask hides the others")
    if 0 < kernel < count:
        return Answer("doubtful", f"{words}: torch sees more than there are")
    return Answer("fine", words)


def _judge_masks(looked: Looked) -> Answer:
    found = masks_set(looked)
    told = " ".join(f"{name}={value}" for name, value in found.items())
    for name, value in found.items():
        if not entries(value) or value.strip() == "NoDevFiles":
            return Answer(
                "wrong", f"{told}: {name} hides every device", f"unset {name}, or name devices in it"
            )
    if len(found) < 2:
        return Answer("fine", told or "none is set")
    keep, *others = found
    remedy = f"unset {' '.join(others)}"
    same = len(set(found.values())) == 1
    if same and MASKS[0] not in found:
        return Answer("doubtful", f"{told}: two masks that agree", remedy)
    return Answer("wrong", f"{told}: each counts within what {keep} leaves", remedy)


def _judge_wheel(looked: Looked) -> Answer:
    facts, wanted = looked.seen.torch, archs(looked)
    if looked.decision.stand_in:
        return Answer("fine", "behind the stand-in ranks run on the CPU")
    if facts is None or not facts.arch_list:
        return unknown("torch did not say what its wheel holds kernels for")
    if not wanted:
        return unknown("no architecture of a device is known")
    held = some(facts.arch_list, 12)
    missing = [a for a in wanted if wheel_covers(a, facts.arch_list) is False]
    if missing:
        remedy = f"install a wheel built for {some(missing)}"
        return Answer("wrong", f"nothing for {some(missing)}; it holds {held}", remedy)
    return Answer("fine", f"{some(wanted)} among {held}")


def _judge_in_use(looked: Looked) -> Answer:
    held: list[tuple[int, int, int | None, str]] = []
    for device in _listed(looked):
        if device.used_bytes is not None:
            held.append((device.index, device.used_bytes, device.memory_bytes, some(device.processes)))
    if not held and looked.seen.torch is not None:
        for t in looked.seen.torch.devices:
            if t.memory_bytes is not None and t.free_bytes is not None:
                held.append((t.index, t.memory_bytes - t.free_bytes, t.memory_bytes, ""))
    if not held:
        return unknown("neither the vendor's tool nor torch told it")
    busy = [h for h in held if h[1] > IN_USE_BYTES]
    if not busy:
        return Answer("fine", f"at most {size(max(h[1] for h in held))} of a device")
    index, used, whole, who = max(busy, key=lambda h: h[1])
    text = f"device {index}: {size(used)}" + (f" of {size(whole)}" if whole else "")
    text += (f", by {who}" if who else "") + (f"; {len(busy)} devices in use" if len(busy) > 1 else "")
    half = any(h[2] and h[1] > h[2] / 2 for h in busy)
    return Answer("wrong" if half else "doubtful", text)


def _judge_errors(looked: Looked) -> Answer:
    if not _listed(looked):
        return unknown("no vendor's tool told it")
    found = [f"device {d.index}: {e}" for d in _listed(looked) for e in d.errors]
    if found:
        return Answer("wrong", some(found))
    return Answer("fine", f"none told by {len(_listed(looked))} devices")


def _judge_caps(looked: Looked) -> Answer:
    low, told = [], False
    for d in _listed(looked):
        cap, default = d.power_cap_w, d.power_cap_default_w
        told = told or bool(d.clock_limits) or (cap is not None and default is not None)
        if cap is not None and default is not None and cap < default:
            low.append(f"device {d.index}: {cap:g} W, by default {default:g} W")
        low += [f"device {d.index}: {limit}" for limit in d.clock_limits]
    if low:
        return Answer("doubtful", some(low))
    return Answer("fine", "power caps at their defaults") if told else unknown("no vendor's tool told it")


def _judge_capabilities(looked: Looked) -> Answer:
    told = looked.decision.capabilities
    if lacking := [f"{n}: {c.reason}" for n, c in told.items() if c.required and not c.there]:
        return Answer("wrong", some(lacking))
    has = [n for n, c in told.items() if c.there]
    return (
        Answer("fine", some(has, 12) or "none is asked of it")
        if told
        else unknown("the runner did not decide")
    )


def _judge_unread(looked: Looked) -> Answer:
    notes = looked.seen.notes
    return Answer("doubtful", some(notes)) if notes else Answer("fine", "everything could be read")


def _judge_notes(looked: Looked) -> Answer:
    notes = looked.decision.notes
    return Answer("doubtful", "; ".join(notes)) if notes else Answer("fine", "nothing contradicts anything")


CHECKS = (
    Check(
        "devices",
        "devices: torch's count, the kernel's, and those asked for",
        "a run with fewer devices than asked for, or with none, tests another machine and may still end with 0",
        "pass every device into the container, unset the masks, and see that torch's build is the vendor's",
        _judge_count,
        besides=("cpu",),
        essential=True,
        link="https://github.com/ROCm/rocm-systems/issues/11361",
    ),
    Check(
        "masks",
        "variables that hide devices",
        "masks stack: the second one counts within what the first one leaves, and devices vanish or change numbers",
        "set exactly one of them",
        _judge_masks,
        besides=("cpu",),
        link="https://github.com/Parsl/parsl/issues/3858",
    ),
    Check(
        "wheel-architectures",
        "architectures that torch's wheel holds kernels for",
        "without kernels for the device the first launch fails with 'no kernel image' or 'invalid device function'",
        "install the vendor's wheel for this architecture",
        _judge_wheel,
        besides=("cpu",),
        link="https://github.com/pytorch/pytorch/issues/132570",
    ),
    Check(
        "memory-in-use",
        "device memory that others hold",
        "what others hold is missing here, and what they compute falsifies every time measured",
        "end the processes that hold it, or choose other devices",
        _judge_in_use,
        besides=("cpu", "mirage"),
    ),
    Check(
        "hardware-errors",
        "uncorrectable errors and retired memory",
        "a device with such errors gives wrong numbers, faults or aborts that look like the code's",
        "take the device out of use, look at dmesg, and have it reset or replaced",
        _judge_errors,
        besides=("cpu", "mirage"),
    ),
    Check(
        "caps",
        "power caps and clock limits below the default",
        "a capped device is slower than its baseline, and nothing in the code is to blame",
        "restore the defaults with the vendor's tool before anything is measured",
        _judge_caps,
        besides=("cpu", "mirage"),
    ),
    Check(
        "capabilities",
        "what this kind of device must be able to do",
        "tests that need it would fail or be left out, though the device has it",
        "install a newer build of torch for it",
        _judge_capabilities,
    ),
    Check(
        "not-read",
        "what could not be read of this machine",
        "what was not read is not judged",
        "mend the tool that gave no answer, and run the doctor again",
        _judge_unread,
    ),
    Check(
        "contradictions",
        "what the devices say of themselves",
        "labels lie: a runner labelled gfx950 was gfx942, and one part calls itself by another part's name",
        "believe the architecture, and mend the label",
        _judge_notes,
        besides=("mirage",),
    ),
)
"""What every kind of accelerator is asked, the CPU only what it can answer."""
