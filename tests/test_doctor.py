"""What the doctor says of machines: each check on one that is fine, one that is not, and one that cannot be told."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor_machines import AROUND, MADE, amd, but, cpu, emulated, machine, nvidia
from harness import doctor, doctor_checks, runners
from harness.doctor_text import render_json, render_terminal
from harness.runners.base import Decision, Machine
from harness.runners.facts.checks_base import GIB, STATES, Check, Finding, Surroundings, size
from harness.runners.facts.snapshot import Node, Snapshot, TorchFacts

Change = Callable[[Snapshot], Snapshot]
MIB = 1 << 20


def torch(**changes: Any) -> Change:
    return lambda seen: but(seen, torch=but(seen.torch, **changes))


def device(number: int, **changes: Any) -> Change:
    def change(seen: Snapshot) -> Snapshot:
        devices = [but(d, **changes) if d.index == number else d for d in seen.devices]
        return but(seen, devices=tuple(devices))

    return change


def torch_device(number: int, **changes: Any) -> Change:
    def change(seen: Snapshot) -> Snapshot:
        assert seen.torch is not None
        devices = [but(d, **changes) if d.index == number else d for d in seen.torch.devices]
        return but(seen, torch=but(seen.torch, devices=tuple(devices)))

    return change


def node(path: str, **changes: Any) -> Change:
    return lambda seen: but(seen, nodes=tuple(but(n, **changes) if n.path == path else n for n in seen.nodes))


def seen(**changes: Any) -> Change:
    return lambda was: but(was, **changes)


def environment(**values: str) -> Change:
    return lambda was: but(was, environment=values)


def package(**versions: str | None) -> Change:
    named = {k.replace("_", "-"): v for k, v in versions.items()}
    return lambda was: but(was, packages={**was.packages, **named})


def both(*changes: Change) -> Change:
    def change(was: Snapshot) -> Snapshot:
        for one in changes:
            was = one(was)
        return was

    return change


def around(**changes: Any) -> Surroundings:
    return but(AROUND, **changes)


BLANK = Surroundings()
BARE = both(seen(torch=None), package(torch=None))
NO_PACKAGES = seen(packages={})

SPOILED: list[tuple[str, str, str, Change | None, Surroundings]] = [
    # check, runner, state, what is changed on the fine machine, surroundings
    ("runner", "rocm", "wrong", torch(devices=()), AROUND),
    ("runner", "rocm", "unknown", both(BARE, seen(nodes=(), devices=())), AROUND),
    ("runner", "rocm", "unknown", BARE, AROUND),
    ("runner", "cpu", "unknown", seen(system="darwin"), AROUND),
    ("torch", "cpu", "wrong", seen(torch=TorchFacts(error="no answer within 120 s")), AROUND),
    ("torch", "cpu", "wrong", torch(error="no device: driver too old"), AROUND),
    ("torch", "cpu", "unknown", BARE, AROUND),
    ("product", "cpu", "wrong", torch(product_norm=65536.01), AROUND),
    ("product", "cpu", "wrong", torch(product_norm=float("nan")), AROUND),
    ("product", "rocm", "wrong", torch_device(1, product_norm=65024.0), AROUND),
    ("product", "cuda", "wrong", torch_device(1, failure="ECC error"), AROUND),
    ("product", "cpu", "unknown", torch(product_norm=None), AROUND),
    ("product", "rocm", "unknown", torch(devices=()), AROUND),
    ("devices", "rocm", "wrong", torch(devices=()), AROUND),
    ("devices", "rocm", "wrong", lambda s: torch(devices=s.torch.devices[:1])(s), AROUND),
    (
        "devices",
        "cuda",
        "fine",
        lambda s: both(torch(devices=s.torch.devices[:1]), environment(CUDA_VISIBLE_DEVICES="0"))(s),
        AROUND,
    ),
    ("devices", "cuda", "doubtful", lambda s: but(s, devices=s.devices[:1]), AROUND),
    ("devices", "cuda", "unknown", BARE, AROUND),
    ("masks", "rocm", "wrong", environment(ROCR_VISIBLE_DEVICES="4", HIP_VISIBLE_DEVICES="4"), AROUND),
    ("masks", "rocm", "wrong", environment(HIP_VISIBLE_DEVICES="0,1", CUDA_VISIBLE_DEVICES="1"), AROUND),
    (
        "masks",
        "rocm",
        "doubtful",
        environment(HIP_VISIBLE_DEVICES="0,1", CUDA_VISIBLE_DEVICES="0,1"),
        AROUND,
    ),
    ("masks", "cuda", "wrong", environment(CUDA_VISIBLE_DEVICES=""), AROUND),
    ("masks", "cuda", "wrong", environment(CUDA_VISIBLE_DEVICES="-1"), AROUND),
    ("masks", "cuda", "fine", environment(CUDA_VISIBLE_DEVICES="0,1", HIP_VISIBLE_DEVICES="0"), AROUND),
    ("masks", "rocm", "fine", environment(ROCR_VISIBLE_DEVICES="0,1"), AROUND),
    ("wheel-architectures", "rocm", "wrong", torch(arch_list=("gfx90a", "gfx1100")), AROUND),
    ("wheel-architectures", "cuda", "wrong", torch(arch_list=("sm_80", "sm_100")), AROUND),
    ("wheel-architectures", "cuda", "fine", torch(arch_list=("sm_80", "compute_80")), AROUND),
    ("wheel-architectures", "rocm", "unknown", torch(arch_list=()), AROUND),
    ("memory-in-use", "cuda", "doubtful", device(1, used_bytes=9 * GIB, processes=("7 python",)), AROUND),
    ("memory-in-use", "cuda", "wrong", device(1, used_bytes=79 * GIB), AROUND),
    ("memory-in-use", "rocm", "wrong", both(seen(devices=()), torch_device(0, free_bytes=GIB)), AROUND),
    ("memory-in-use", "rocm", "unknown", both(seen(devices=()), BARE), AROUND),
    ("hardware-errors", "cuda", "wrong", device(0, errors=("3 uncorrected memory errors",)), AROUND),
    ("hardware-errors", "rocm", "unknown", seen(devices=()), AROUND),
    ("caps", "cuda", "doubtful", device(0, power_cap_w=400.0), AROUND),
    ("caps", "cuda", "doubtful", device(0, clock_limits=("hardware slowdown",)), AROUND),
    ("caps", "rocm", "unknown", seen(devices=()), AROUND),
    ("capabilities", "rocm", "wrong", torch(versions={"hip": "6.1", "cuda": None}, flash_sdpa=False), AROUND),
    ("capabilities", "rocm", "unknown", torch(devices=()), AROUND),
    ("not-read", "cpu", "doubtful", seen(notes=("nvidia-smi: no answer within 15 s",)), AROUND),
    ("contradictions", "rocm", "doubtful", torch_device(0, name="AMD Instinct MI350X"), AROUND),
    ("torch-build", "rocm", "wrong", torch(version="2.13.0+cu130", versions={"cuda": "13.0"}), AROUND),
    ("torch-build", "rocm", "wrong", torch(versions={}), AROUND),
    ("torch-build", "cuda", "wrong", torch(versions={"hip": "7.2", "cuda": None}), AROUND),
    ("torch-build", "cuda", "wrong", torch(versions={}), AROUND),
    ("torch-build", "rocm", "unknown", BARE, AROUND),
    ("torch-build", "cuda", "unknown", BARE, AROUND),
    ("torch-build", "mirage", "wrong", torch(versions={}), AROUND),
    ("kfd", "rocm", "wrong", node("/dev/kfd", exists=False), AROUND),
    ("kfd", "rocm", "wrong", node("/dev/kfd", writable=False), AROUND),
    ("kfd", "rocm", "unknown", seen(nodes=()), AROUND),
    ("render-nodes", "rocm", "wrong", node("/dev/dri/renderD129", readable=False), AROUND),
    ("render-nodes", "rocm", "wrong", seen(nodes=(Node("/dev/kfd", True, True, True),)), AROUND),
    (
        "render-nodes",
        "rocm",
        "doubtful",
        lambda s: but(s, nodes=(*s.nodes, Node("/dev/dri/renderD130", True, False, False, 44))),
        AROUND,
    ),
    ("render-nodes", "rocm", "unknown", seen(nodes=()), AROUND),
    (
        "scratch-reclaim",
        "rocm",
        "wrong",
        both(environment(HSA_NO_SCRATCH_RECLAIM="0"), device(0, firmware={"mec": "176"})),
        AROUND,
    ),
    (
        "scratch-reclaim",
        "rocm",
        "wrong",
        both(environment(HSA_NO_SCRATCH_RECLAIM="0"), torch(versions={"hip": "6.3.1"})),
        AROUND,
    ),
    (
        "scratch-reclaim",
        "rocm",
        "doubtful",
        both(environment(HSA_NO_SCRATCH_RECLAIM="0"), device(0, firmware={}), device(1, firmware={})),
        AROUND,
    ),
    ("scratch-reclaim", "rocm", "fine", environment(HSA_NO_SCRATCH_RECLAIM="0"), AROUND),
    ("scratch-reclaim", "rocm", "doubtful", both(environment(), device(0, firmware={"mec": "170"})), AROUND),
    (
        "scratch-reclaim",
        "rocm",
        "unknown",
        both(environment(), seen(devices=(), torch=None)),
        AROUND,
    ),
    ("numa-balancing", "rocm", "doubtful", seen(kernel={"numa_balancing": "1"}), AROUND),
    ("numa-balancing", "rocm", "unknown", seen(kernel={}), AROUND),
    ("iommu", "rocm", "doubtful", seen(kernel={"cmdline": "quiet intel_iommu=on"}), AROUND),
    ("iommu", "rocm", "fine", seen(kernel={"cmdline": "amd_iommu=on"}), AROUND),
    ("iommu", "rocm", "unknown", seen(kernel={}), AROUND),
    ("gfx-override", "rocm", "wrong", environment(HSA_OVERRIDE_GFX_VERSION="9.5.0"), AROUND),
    ("driver", "cuda", "wrong", both(seen(tools={"nvidia": "550.54.14"}), torch(devices=())), AROUND),
    ("driver", "cuda", "doubtful", seen(tools={"nvidia": "550.54.14"}), AROUND),
    (
        "driver",
        "cuda",
        "fine",
        both(seen(tools={"nvidia": "525.60.13"}), torch(versions={"cuda": "12.8"})),
        AROUND,
    ),
    ("driver", "cuda", "unknown", seen(tools={}), AROUND),
    ("driver", "cuda", "unknown", torch(versions={"cuda": "99.0"}), AROUND),
    ("device-nodes", "cuda", "wrong", node("/dev/nvidiactl", exists=False), AROUND),
    ("device-nodes", "cuda", "wrong", node("/dev/nvidia1", writable=False), AROUND),
    ("device-nodes", "cuda", "wrong", seen(nodes=(Node("/dev/nvidiactl", True, True, True),)), AROUND),
    ("device-nodes", "cuda", "doubtful", node("/dev/nvidia-uvm", exists=False), AROUND),
    ("device-nodes", "cuda", "unknown", seen(nodes=()), AROUND),
    ("emulator", "mirage", "wrong", lambda s: but(s, emulator={**s.emulator, "error": "broken"}), AROUND),
    ("emulator", "mirage", "doubtful", lambda s: but(s, emulator={**s.emulator, "stand_in": True}), AROUND),
    (
        "emulator-profile",
        "mirage",
        "wrong",
        lambda s: but(s, emulator={**s.emulator, "profiles": ["x"]}),
        AROUND,
    ),
    ("emulator-profile", "mirage", "unknown", seen(emulator={"program": "/opt/mirage"}), AROUND),
    (
        "emulator-library",
        "mirage",
        "wrong",
        lambda s: but(s, emulator={**s.emulator, "library": None}),
        AROUND,
    ),
    ("emulator-library", "mirage", "unknown", seen(emulator={"program": "/opt/mirage"}), AROUND),
    ("emulation", "rocm", "wrong", seen(emulation=("MIRAGE_SESSION",)), AROUND),
    ("emulation", "rocm", "wrong", torch(emulation=("maps: librocjitsu.so",)), AROUND),
    ("shm-size", "rocm", "wrong", seen(shm_bytes=64 * MIB, shm_free_bytes=64 * MIB), AROUND),
    ("shm-size", "cpu", "doubtful", seen(shm_bytes=64 * MIB), AROUND),
    ("shm-size", "cuda", "doubtful", seen(shm_bytes=GIB - 1), AROUND),
    ("shm-size", "cuda", "doubtful", seen(shm_free_bytes=GIB - 1), AROUND),
    ("shm-size", "cuda", "fine", seen(shm_bytes=GIB, shm_free_bytes=GIB), AROUND),
    ("shm-size", "cpu", "unknown", seen(shm_bytes=None), AROUND),
    ("shm-stale", "cpu", "doubtful", seen(shm_stale=("nccl-AbCdEf",)), AROUND),
    ("shm-stale", "cpu", "unknown", seen(shm_bytes=None), AROUND),
    ("memory", "cpu", "wrong", seen(kernel={"cgroup_memory_bytes": str(GIB)}), AROUND),
    ("memory", "cpu", "doubtful", seen(memory_bytes=4 * GIB), AROUND),
    ("memory", "cpu", "fine", seen(kernel={"cgroup_memory_bytes": "max"}), AROUND),
    ("memory", "cpu", "unknown", seen(memory_bytes=None), BLANK),
    ("disk", "cpu", "wrong", None, around(run_free_bytes=GIB // 2)),
    ("disk", "cpu", "doubtful", None, around(cache_free_bytes=2 * GIB)),
    ("disk", "cpu", "fine", None, BLANK),
    ("disk", "cpu", "unknown", seen(disk_free_bytes=None), BLANK),
    ("ffmpeg", "cpu", "wrong", None, around(imports={"imageio_ffmpeg": "RuntimeError: no exe"})),
    ("ffmpeg", "cpu", "wrong", package(imageio_ffmpeg=None), BLANK),
    (
        "ffmpeg",
        "cpu",
        "doubtful",
        both(package(imageio_ffmpeg=None), seen(programs={"ffmpeg": "/usr/bin/ffmpeg"})),
        BLANK,
    ),
    ("ffmpeg", "cpu", "unknown", both(NO_PACKAGES, seen(programs={})), BLANK),
    ("ffmpeg", "cpu", "unknown", both(BARE, package(imageio_ffmpeg=None)), BLANK),
    ("decord", "cpu", "wrong", package(decord=None), BLANK),
    ("decord", "cpu", "wrong", None, around(imports={"decord": "OSError: libdecord.so"})),
    ("decord", "cpu", "doubtful", package(decord="0.6.1"), AROUND),
    ("decord", "cpu", "unknown", NO_PACKAGES, BLANK),
    ("decord", "cpu", "unknown", both(BARE, package(decord=None)), BLANK),
    ("target", "cpu", "wrong", None, around(target_why_not="no checkout")),
    ("target", "cpu", "unknown", None, BLANK),
    ("transformers", "cpu", "wrong", package(transformers="4.48.0"), AROUND),
    ("transformers", "cpu", "fine", package(transformers="4.48.0"), around(target="reference")),
    ("transformers", "cpu", "unknown", NO_PACKAGES, around(imports={})),
    ("utils3d", "cpu", "wrong", None, around(imports={"utils3d": "ImportError: no"})),
    ("utils3d", "cpu", "fine", None, around(imports={}, supplies=("S0 stand-in for utils3d",))),
    ("utils3d", "cpu", "unknown", None, around(imports={})),
    ("torchvision", "cpu", "wrong", None, around(imports={"torchvision": "RuntimeError: nms"})),
    (
        "torchvision",
        "cpu",
        "fine",
        None,
        around(imports={"torchvision": "RuntimeError: nms"}, supplies=("S1 torchvision operators",)),
    ),
    ("torchvision", "cpu", "unknown", NO_PACKAGES, around(imports={})),
    ("wandb", "cpu", "doubtful", None, around(variables_set={"WANDB_API_KEY": True, "WANDB_MODE": False})),
    ("wandb", "cpu", "fine", None, around(variables_set={"WANDB_API_KEY": True, "WANDB_MODE": True})),
    ("wandb", "cpu", "unknown", None, BLANK),
]

NEVER_UNKNOWN = {"not-read", "contradictions", "masks", "gfx-override", "emulation", "emulator"}
"""What is absent there is fine, or the runner is not available at all."""


def found(runner: str, seen: Snapshot, around: Surroundings = AROUND, **more: Any) -> dict[str, Finding]:
    """The doctor's findings by check."""
    return {f.check: f for f in doctor.judge_machine(machine(runner, seen), around=around, **more)}


@pytest.mark.parametrize(
    ("check", "runner", "state", "change", "around"),
    SPOILED,
    ids=[f"{n}-{c}-{r}-{s}" for n, (c, r, s, _, _) in enumerate(SPOILED)],
)
def test_each_check_on_a_spoiled_machine(
    check: str, runner: str, state: str, change: Change | None, around: Surroundings
) -> None:
    """One thing is changed on a fine machine, and the check that looks at it says the right state, with a remedy."""
    base = MADE[runner]()
    told = found(runner, change(base) if change else base, around)[check]
    assert told.state == state, told
    assert all((told.seen, told.why, told.remedy))


@pytest.mark.parametrize("runner", MADE)
def test_a_sound_machine_is_fine(runner: str) -> None:
    """Every check says fine on a machine with nothing wrong, and the exit status is 0."""
    told = found(runner, MADE[runner]())
    assert {c: (f.state, f.seen) for c, f in told.items() if f.state != "fine"} == {}
    assert set(told) == {c.name for c in doctor.checks(runner, emulated=runner == "mirage")}
    assert doctor.exit_status(list(told.values())) == 0


def test_every_check_is_spoiled_in_a_test() -> None:
    """Each check is seen not fine in the table above, and unknown, but for those that always can be told."""
    states: dict[str, set[str]] = {}
    for check, _, state, _, _ in SPOILED:
        states.setdefault(check, set()).add(state)
    for check in doctor.every_check():
        assert states.get(check.name, set()) & {"wrong", "doubtful"}, check.name
        assert "unknown" in states[check.name] or check.name in NEVER_UNKNOWN, check.name


def test_remedies_name_this_machine() -> None:
    """The remedy for a closed node names its group by number, as a container's option inside one and as a user's group
    outside; that for masks names the variables; that for a driver its least version."""
    closed = node("/dev/kfd", readable=False, writable=False, group=4711)
    assert "group 4711" in found("rocm", closed(amd()))["kfd"].remedy
    inside = closed(amd(container="docker"))
    assert "--group-add 4711" in found("rocm", inside)["kfd"].remedy
    assert "109" in found("rocm", inside)["kfd"].seen
    gone = node("/dev/kfd", exists=False)(amd(container="docker"))
    assert "--device /dev/kfd" in found("rocm", gone)["kfd"].remedy
    masks = environment(ROCR_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="0")
    assert found("rocm", masks(amd()))["masks"].remedy == "unset CUDA_VISIBLE_DEVICES"
    old = both(seen(tools={"nvidia": "550.54.14"}), torch(devices=()))
    assert "580" in found("cuda", old(nvidia()))["driver"].remedy


@pytest.mark.parametrize(("asked", "state"), [(1, "fine"), (2, "fine"), (3, "wrong")])
def test_fewer_devices_than_asked_for_is_wrong(asked: int, state: str) -> None:
    """`--devices N` is what torch must see."""
    told = found("cuda", nvidia(2), asked=asked)["devices"]
    assert told.state == state
    assert state == "fine" or "ask for 2" in told.remedy


def test_a_part_of_the_machine_is_no_fault() -> None:
    """Devices of another vendor do not count as missing ones."""
    mixed = nvidia(2)
    mixed = but(mixed, devices=(*mixed.devices, *amd(1).devices))
    assert found("cuda", mixed)["devices"].state == "fine"


def test_the_product_may_not_be_off_by_one_element() -> None:
    """The tolerance of the norm lies between the rounding of a root and what one unit of one element moves."""
    one_off = (65535 * 256.0**2 + 255.0**2) ** 0.5
    assert 65536 - one_off > 2 * doctor_checks.NORM_TOLERANCE
    assert doctor_checks.NORM_TOLERANCE > 65536 * 2.0**-40
    assert found("cpu", torch(product_norm=one_off)(cpu()))["product"].state == "wrong"


def test_only_what_concerns_the_runner_is_asked() -> None:
    """A CPU is asked nothing of devices, and each kind of device nothing of the other's."""
    assert not {"kfd", "devices", "driver", "masks", "caps", "torch-build"} & set(found("cpu", cpu()))
    assert not {"driver", "device-nodes", "emulator"} & set(found("rocm", amd()))
    assert not {"kfd", "iommu", "gfx-override"} & set(found("cuda", nvidia()))
    assert not {"kfd", "emulation", "memory-in-use"} & set(found("mirage", emulated()))


def test_what_is_wrong_comes_first() -> None:
    """Findings are in the order wrong, doubtful, unknown, fine."""
    bad = both(seen(shm_bytes=64 * MIB, notes=("x",)), torch(product_norm=1.0))
    order = [STATES.index(f.state) for f in doctor.judge_machine(machine("cpu", bad(cpu())))]
    assert order == sorted(order)
    assert {0, 1, 2, 3} == set(order)


@pytest.mark.parametrize(
    ("runner", "change", "status"),
    [
        ("cpu", seen(), 0),
        ("cpu", seen(notes=("x",)), 0),
        ("cpu", seen(disk_free_bytes=None, packages={}), 0),
        ("cpu", torch(product_norm=1.0), 1),
        ("cpu", BARE, 3),
        ("rocm", BARE, 3),
        ("rocm", both(BARE, node("/dev/kfd", writable=False)), 1),
        ("rocm", seen(nodes=(), devices=(), torch=None), 3),
        ("rocm", both(seen(nodes=(), devices=()), torch(product_norm=1.0, devices=())), 3),
        ("mirage", seen(emulator={}), 3),
    ],
)
def test_exit_status(runner: str, change: Change, status: int) -> None:
    """0 also with doubts and with unknown details; 1 with anything wrong; 3 for another kind of machine, or when what
    decides cannot be told."""
    told = doctor.judge_machine(machine(runner, change(MADE[runner]())), around=Surroundings())
    assert doctor.exit_status(told) == status
    assert doctor.exit_status(()) == 3


def test_another_kind_of_machine_is_told_in_one_line() -> None:
    """Where nothing shows such hardware, no list of missing nodes hides that."""
    told = doctor.judge_machine(machine("rocm", cpu()))
    assert [f.check for f in told] == ["runner"]
    assert "no AMD device" in told[0].seen


@pytest.mark.parametrize(
    ("look", "runner", "words"),
    [
        (amd(), "rocm", "2 x gfx942"),
        (nvidia(), "cuda", "2 x sm_90"),
        (cpu(), "cpu", "no accelerator"),
        (torch(version="2.13.0+cu130", versions={"cuda": "13.0"}, devices=())(amd()), "rocm", "/dev/kfd"),
        (seen(torch=None)(nvidia()), "cuda", "/dev/nvidiactl"),
        (emulated(), "cpu", "no accelerator"),
    ],
)
def test_the_best_runner_is_chosen(look: Snapshot, runner: str, words: str) -> None:
    """An accelerator that can be used, else one that is there and cannot, else the CPU; never an emulator unasked."""
    name, why = doctor.choose({n: machine(n, look) for n in MADE})
    assert name == runner
    assert words in why


def test_a_third_partys_runner_brings_its_checks() -> None:
    """A runner of another package may hold checks of its own, and is asked what concerns every accelerator."""
    own = Check("fan", "the fan", "it cools", "turn it on", lambda _: doctor.Answer("wrong", "off"))

    class Other:
        name, emulated, checks = "other", False, (own,)

        def environment(self, decision: Decision) -> Mapping[str, str]:
            return {}

    look = but(nvidia(), devices=())
    told = {f.check: f for f in doctor.judge_machine(Machine(Other(), look, Decision(None)))}  # type: ignore[arg-type]
    assert told["fan"].state == "wrong"
    assert "devices" in told
    assert "kfd" not in told


def test_behind_the_stand_in_a_cpu_build_is_right() -> None:
    """Where the emulator itself is imitated, ranks run on the CPU: a doubt says so, and nothing is wrong."""

    def imitated(was: Snapshot) -> Snapshot:
        told = {**was.emulator, "stand_in": True, "version": "mirage 0.3.0 (stand-in of the harness)"}
        return torch(version="2.13.0+cpu", versions={}, arch_list=())(but(was, emulator=told))

    told = found("mirage", imitated(emulated()))
    assert {c for c, f in told.items() if f.state != "fine"} == {"emulator"}
    assert doctor.exit_status(list(told.values())) == 0


def test_names_are_unique_for_each_runner() -> None:
    """No runner is asked two checks of one name."""
    for runner in (*runners.names(), "mirage"):
        names = [c.name for c in doctor.checks(runner)]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (64 << 20, "64 MiB"), (3 << 29, "1.5 GiB"), (1 << 40, "1 TiB"), (1 << 10, "1 KiB")],
)
def test_sizes_for_people(count: int, text: str) -> None:
    """Sizes are told in the unit that fits."""
    assert size(count) == text


@settings(max_examples=80)
@given(data=st.data())
def test_any_snapshot_gives_findings(data: st.DataObject) -> None:
    """Whatever a snapshot holds, every check answers, with a remedy, and the text has no control characters."""
    look = data.draw(_of_type(Snapshot))
    extra = data.draw(_of_type(Surroundings))
    runner = data.draw(st.sampled_from(sorted(MADE)))
    decision = data.draw(
        st.sampled_from([Decision(None), Decision("not here"), machine(runner, MADE[runner]()).decision])
    )
    here = Machine(machine(runner, MADE[runner]()).runner, look, decision)
    told = doctor.judge_machine(here, asked=data.draw(st.none() | st.integers(1, 9)), around=extra)
    assert all(f.remedy and f.why and f.state in STATES for f in told)
    assert doctor.exit_status(told) in (0, 1, 3)
    assert render_json(here, told, "")
    text = render_terminal(here, told, "chosen")
    assert all(c.isprintable() or c == "\n" for c in text)


def _of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type, dataclasses by the types of their fields, with telling words in them."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    words = st.sampled_from(
        ["", "1", "0", "-1", "gfx942", "gfx90a:x", "sm_90", "7.2.1", "6.1", "13.0", "/dev/kfd", "/dev/nvidiactl",
         "/dev/dri/renderD128", "\x1b[31m", "iommu=pt", "99999999999999999999"]
    ) | st.text(max_size=8)  # fmt: skip
    names = st.sampled_from(
        ["hip", "rocm", "cuda", "mec", "nvidia", "driver", "cmdline", "cgroup_memory_bytes", "numa_balancing",
         "HSA_NO_SCRATCH_RECLAIM", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION",
         "decord", "torch", "transformers", "imageio-ffmpeg", "ffmpeg", "profiles", "program", "library", "torchvision"]
    )  # fmt: skip
    if hint is Any:
        return st.none() | words | st.lists(words, max_size=2) | st.booleans()
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_of_type(a) for a in arguments])
    if hint is type(None):
        return st.none()
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return st.lists(_of_type(arguments[0]), max_size=3).map(tuple)
        return st.tuples(*map(_of_type, arguments))
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return st.builds(hint, **{f.name: _of_type(hints[f.name]) for f in dataclasses.fields(hint)})
    if origin is not None:
        return st.dictionaries(names | words, _of_type(arguments[1]), max_size=5)
    return words if hint is str else st.from_type(hint)
