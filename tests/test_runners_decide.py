"""What the runners make of machines: constructed snapshots of many models and the traps, one real probe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import make_snapshots
from harness import runners
from harness.runners.base import Decision
from harness.runners.facts import archs, container, masks, peaks
from harness.runners.facts.snapshot import Snapshot, TorchFacts, from_json, to_json

STORED = {
    path.stem: from_json(json.loads(path.read_text()))
    for path in sorted(make_snapshots.FOLDER.glob("*.json"))
}


def decide(runner: str, name: str) -> Decision:
    """What the runner makes of a stored machine."""
    return runners.get(runner).decide(STORED[name])


def test_stored_machines_are_those_made() -> None:
    """The stored files are what the generator writes, and one real probe besides."""
    made = make_snapshots.made()
    assert set(STORED) == set(made) | make_snapshots.RECORDED
    for name, seen in made.items():
        assert STORED[name] == seen, f"{name}: run tests/make_snapshots.py"


@pytest.mark.parametrize("name", STORED)
def test_stored_machines_survive_json(name: str) -> None:
    """A snapshot is the same after JSON."""
    assert from_json(json.loads(json.dumps(to_json(STORED[name])))) == STORED[name]


BF16, FP8, WIDE = "bf16", "fp8", "multi_device"
USABLE = [
    # machine, runner, architecture, devices, 8-bit format, bf16 peak of device 0, its bandwidth
    ("mi210", "rocm", "gfx90a", 1, None, None, None),
    ("mi300x_8", "rocm", "gfx942", 8, "e4m3fnuz", 1307, 5.3),
    ("mi308x", "rocm", "gfx942", 1, "e4m3fnuz", None, None),
    ("mi325x", "rocm", "gfx942", 1, "e4m3fnuz", 1307, 6.0),
    ("mi350x", "rocm", "gfx950", 1, "e4m3fn", 2307, 8.0),
    ("mi355x", "rocm", "gfx950", 1, "e4m3fn", 2517, 8.0),
    ("radeon_gfx1100", "rocm", "gfx1100", 1, None, None, None),
    ("mixed", "rocm", "gfx90a+gfx942", 2, None, None, None),
    ("a100", "cuda", "sm_80", 1, None, 312, 2.04),
    ("h100_8", "cuda", "sm_90", 8, "e4m3fn", 989, 3.35),
    ("h100_pcie", "cuda", "sm_90", 1, "e4m3fn", None, None),
    ("gh200", "cuda", "sm_90", 1, "e4m3fn", None, None),
    ("h200", "cuda", "sm_90", 1, "e4m3fn", 989, 4.8),
    ("b200", "cuda", "sm_100", 1, "e4m3fn", 2250, 8.0),
    ("l4", "cuda", "sm_89", 1, "e4m3fn", None, None),
    ("rtx4090", "cuda", "sm_89", 1, "e4m3fn", None, None),
    ("trap_capability_9_4", "rocm", "gfx942", 1, "e4m3fnuz", 1307, 5.3),
    ("trap_gfx950_label_on_gfx942", "rocm", "gfx942", 1, "e4m3fnuz", 1307, 5.3),
    ("trap_rocm_beside_hip", "rocm", "gfx950", 1, "e4m3fn", 2307, 8.0),
    ("trap_old_rocm_on_gfx950", "rocm", "gfx950", 1, None, 2307, 8.0),
    ("trap_mig", "cuda", "sm_90", 1, "e4m3fn", None, None),
    ("trap_cpx", "rocm", "gfx942", 8, "e4m3fnuz", None, None),
    ("this_cpu", "cpu", "x86_64", 1, None, None, None),
]


@pytest.mark.parametrize(("name", "runner", "arch", "count", "form", "bf16", "bandwidth"), USABLE)
def test_usable_machines(
    name: str,
    runner: str,
    arch: str,
    count: int,
    form: str | None,
    bf16: float | None,
    bandwidth: float | None,
) -> None:
    """Architecture, number of devices, 8-bit format and peak figures of each model, unknown as None."""
    decided = decide(runner, name)
    assert decided.why_not is None
    assert (decided.arch, len(decided.devices)) == (arch, count)
    assert (decided.capabilities["fp8"].there, decided.capabilities["fp8"].form) == (form is not None, form)
    assert decided.capabilities["multi_device"].there == (count > 1 or runner == "cpu")
    assert all(decided.capabilities[c].there for c in ("bf16", "float64", "timing"))
    flash = decided.capabilities["flash_sdpa"]
    assert (flash.there, flash.required) == (arch != "gfx1100", runner != "cpu" and arch != "gfx1100")
    peak = decided.devices[0].peak
    assert (peak and peak.tflops["bf16"], peak and peak.bandwidth_tb_s) == (bf16, bandwidth)


@pytest.mark.parametrize("name", [n for n in STORED if n != "trap_emulated"])
def test_no_machine_is_both(name: str) -> None:
    """No machine is a CUDA and a ROCm one: a build of torch is for one vendor, and each usable one is in the table."""
    usable = {r for r in ("cuda", "rocm") if decide(r, name).why_not is None}
    assert usable == {row[1] for row in USABLE if row[0] == name} - {"cpu"}


@pytest.mark.parametrize(
    ("name", "runner", "parts"),
    [
        ("none", "cuda", ("is a CPU build", "use a machine that has one")),
        ("none", "rocm", ("is a CPU build", "use a machine that has one")),
        ("this_cpu", "rocm", ("2.13.0+cpu is a CPU build", "no AMD device is here")),
        ("mi300x_8", "cuda", ("ROCm build", "whatever capability", "use runner rocm")),
        ("trap_capability_9_4", "cuda", ("ROCm build", "use runner rocm")),
        ("h100_8", "rocm", ("CUDA build", "torch.version.hip is None", "use runner cuda")),
        ("trap_cuda_build_on_amd", "rocm", ("resolver", "pip install --no-deps", "whl/rocm")),
        ("trap_cuda_build_on_amd", "cuda", ("no NVIDIA device",)),
        (
            "trap_two_masks",
            "rocm",
            ("HIP_VISIBLE_DEVICES=4 and ROCR_VISIBLE_DEVICES=4", "stack", "unset all but one"),
        ),
        ("trap_kfd_closed", "rocm", ("/dev/kfd may not be opened", "--group-add 109")),
        ("trap_one_missing", "rocm", ("7 of the 8 devices", "0000:f5:00.0", "no mask is set")),
        ("trap_wrong_product", "rocm", ("device 3 at 0000:75:00.0", "norm 65024 instead of 65536")),
        ("trap_wheel_without_gfx950", "rocm", ("no kernels for gfx950", "whl/rocm7.2")),
        (
            "trap_emulated",
            "rocm",
            ("emulated", "MIRAGE_SESSION", "maps: librocjitsu.so", "use runner mirage"),
        ),
        ("trap_emulated", "cuda", ("emulated", "use runner mirage")),
        ("trap_emulated", "cpu", ("emulated", "use runner mirage")),
    ],
)
def test_refusals_name_cause_and_remedy(name: str, runner: str, parts: Sequence[str]) -> None:
    """What stands in the way is named, with what to do."""
    why = decide(runner, name).why_not
    assert why is not None
    assert all(part in why for part in parts), why


@pytest.mark.parametrize(
    ("name", "runner", "part"),
    [
        ("trap_gfx950_label_on_gfx942", "rocm", "labelled gfx950 and is gfx942 silicon"),
        ("trap_gfx950_label_on_gfx942", "rocm", "calls itself AMD Instinct MI350X and is gfx942"),
        ("trap_gfx950_label_on_gfx942", "rocm", "HSA_OVERRIDE_GFX_VERSION=9.5.0"),
        ("mixed", "rocm", "mixed devices: 1 x gfx90a, 1 x gfx942"),
        ("trap_mig", "cuda", "device 0 is a part of one (MIG)"),
        ("trap_cpx", "rocm", "device 7 is a part of one (CPX/NPS4)"),
    ],
)
def test_notes_tell_what_looks_wrong(name: str, runner: str, part: str) -> None:
    """What does not forbid a run and looks wrong is noted."""
    assert any(part in note for note in decide(runner, name).notes), decide(runner, name).notes


@pytest.mark.parametrize("name", ["mi210", "mi300x_8", "mi355x", "h100_8", "rtx4090", "radeon_gfx1100"])
def test_sound_machines_have_no_notes(name: str) -> None:
    """A machine in order gives no note."""
    assert [*decide("rocm", name).notes, *decide("cuda", name).notes] == []


def other(name: str, **facts: object) -> Snapshot:
    """A stored machine with other answers of torch."""
    seen = STORED[name]
    assert seen.torch is not None
    return replace(seen, torch=replace(seen.torch, **facts))  # type: ignore[arg-type]


def test_silicon_is_believed_without_a_pci_address() -> None:
    """A label is checked against the kernel also when torch tells no PCI address and all devices are of one kind."""
    seen = STORED["trap_gfx950_label_on_gfx942"]
    assert seen.torch is not None
    nameless = other("trap_gfx950_label_on_gfx942", devices=(replace(seen.torch.devices[0], pci=None),))
    assert runners.get("rocm").decide(nameless).arch == "gfx942"


def test_torch_is_believed_without_the_kernel() -> None:
    """Where the kernel's list cannot be read, gcnArchName decides, and no peak is claimed."""
    decided = runners.get("rocm").decide(replace(STORED["mi355x"], devices=()))
    assert (decided.arch, decided.devices[0].peak) == ("gfx950", None)


def test_an_architecture_that_nobody_tells_is_refused() -> None:
    """Without gcnArchName and without the kernel there is no architecture, whatever the name and capability."""
    seen = STORED["mi355x"]
    assert seen.torch is not None
    device = replace(seen.torch.devices[0], arch_name=None, name="AMD Instinct MI355X")
    decided = runners.get("rocm").decide(replace(other("mi355x", devices=(device,)), devices=()))
    assert decided.why_not is not None
    assert "tells the architecture of device 0" in decided.why_not


@pytest.mark.parametrize("runner", ["cuda", "rocm"])
@pytest.mark.parametrize(
    "facts", [None, TorchFacts(error="torch cannot be imported: No module named 'torch'")]
)
def test_no_torch(runner: str, facts: TorchFacts | None) -> None:
    """Without torch the remedy is to install the vendor's build where a device is."""
    name = {"cuda": "h100_8", "rocm": "mi300x_8"}[runner]
    why = runners.get(runner).decide(replace(STORED[name], torch=facts)).why_not
    assert why is not None
    assert "torch" in why
    assert f"--index-url {runners.get(runner).wheel_index}" in why


@pytest.mark.parametrize(
    ("runner", "name", "variable"),
    [("cuda", "h100_8", "CUDA_VISIBLE_DEVICES"), ("rocm", "mi300x_8", "HIP_VISIBLE_DEVICES")],
)
def test_a_mask_explains_missing_devices(runner: str, name: str, variable: str) -> None:
    """Fewer devices than the kernel's are in order under a mask, and refused without one."""
    seen = STORED[name]
    assert seen.torch is not None
    fewer = other(name, devices=seen.torch.devices[2:4])
    assert "2 of the 8 devices" in str(runners.get(runner).decide(fewer).why_not)
    masked = replace(fewer, environment={**fewer.environment, variable: "2,3"})
    assert runners.get(runner).decide(masked).why_not is None


@pytest.mark.parametrize(
    ("facts", "part"),
    [
        ({"product_norm": 65000.0}, "norm 65000"),
        ({"product_norm": float("nan")}, "norm nan"),
        ({"product_norm": None, "error": "product on device 0: RuntimeError: HIP error"}, "HIP error"),
    ],
)
def test_a_device_that_computes_wrong_is_refused(facts: dict[str, object], part: str) -> None:
    """A wrong, an impossible and a missing product each refuse the machine; the device's own answer goes first."""
    seen = STORED["mi350x"]
    assert seen.torch is not None
    devices = tuple(replace(d, product_norm=None) for d in seen.torch.devices)
    why = runners.get("rocm").decide(other("mi350x", devices=devices, **facts)).why_not
    assert why is not None
    assert part in why


def test_a_device_that_fails_is_named() -> None:
    """A device that could not compute at all is named with its address and the reason."""
    seen = STORED["h100_8"]
    assert seen.torch is not None
    failed = replace(
        seen.torch.devices[5], product_norm=None, failure="CUDA error: unspecified launch failure"
    )
    devices = tuple(failed if d.index == 5 else d for d in seen.torch.devices)
    why = runners.get("cuda").decide(other("h100_8", devices=devices)).why_not
    assert why is not None
    assert "device 5 at 0000:95:00.0 cannot compute" in why
    assert "unspecified launch failure" in why


def test_a_capability_that_a_device_must_have_is_required() -> None:
    """Its lack is a failure, not a reason to skip: 8-bit products on gfx950 under an old ROCm, flash on an H100."""
    fp8 = decide("rocm", "trap_old_rocm_on_gfx950").capabilities["fp8"]
    assert (fp8.there, fp8.required) == (False, True)
    assert fp8.reason == "gfx950 needs a torch for ROCm 6.5 or newer, this is 6.4"
    flash = runners.get("cuda").decide(other("h100_8", flash_sdpa=False)).capabilities["flash_sdpa"]
    assert (flash.there, flash.required) == (False, True)
    assert not decide("rocm", "mi210").capabilities["fp8"].required
    assert not decide("rocm", "mi210").capabilities["multi_device"].required


@pytest.mark.parametrize(
    ("version", "there"),
    [("6.4.43482", False), ("6.5.0", True), ("7.2.1", True), ("10.0.0", True), ("unknown", False)],
)
def test_the_rocm_gate_counts_numbers(version: str, there: bool) -> None:
    """Versions are compared as numbers: 10 is newer than 6.5; one that cannot be read is none."""
    decided = runners.get("rocm").decide(other("mi350x", versions={"hip": version}))
    assert decided.capabilities["fp8"].there == there


def test_rocm_is_believed_before_hip() -> None:
    """Where torch tells both, ROCm's own version is compared: hip's may count otherwise."""
    decided = runners.get("rocm").decide(other("mi350x", versions={"hip": "5.9.1", "rocm": "10.0.0"}))
    assert decided.capabilities["fp8"].there


def test_mixed_formats_are_no_capability() -> None:
    """Devices that read the same bits as different numbers have no 8-bit format in common."""
    first, second = STORED["mi300x_8"], STORED["mi350x"]
    assert first.torch is not None
    assert second.torch is not None
    torch = replace(first.torch, devices=(first.torch.devices[1], replace(second.torch.devices[0], index=2)))
    decided = runners.get("rocm").decide(
        replace(first, torch=torch, devices=(first.devices[1], second.devices[0]))
    )
    assert decided.arch == "gfx942+gfx950"
    fp8 = decided.capabilities["fp8"]
    assert (fp8.there, fp8.required) == (False, False)
    assert fp8.reason == "the devices differ in format: gfx942 e4m3fnuz, gfx950 e4m3fn"


def test_peers_need_every_pair() -> None:
    """One pair without access, or one device that could not say, is no capability, and the reason names it."""
    seen = STORED["h100_8"]
    assert seen.torch is not None
    for peers, reason in (
        ((0, 1, 2), "device 5 cannot read device 3"),
        (None, "torch could not say for device 5"),
    ):
        devices = tuple(replace(d, peers=peers) if d.index == 5 else d for d in seen.torch.devices)
        found = runners.get("cuda").decide(other("h100_8", devices=devices)).capabilities["peer_to_peer"]
        assert (found.there, found.reason) == (False, reason)


def test_partitions_explain_missing_devices() -> None:
    """With MIG a process sees one part, whatever the number of devices: nothing is missing."""
    seen = STORED["trap_mig"]
    eight = tuple(replace(d, partition="MIG") for d in STORED["h100_8"].devices)
    assert runners.get("cuda").decide(replace(seen, devices=eight)).why_not is None
    whole = tuple(replace(d, partition=None) for d in eight)
    assert "1 of the 8 devices" in str(runners.get("cuda").decide(replace(seen, devices=whole)).why_not)


def test_graphics_beside_another_vendor_are_no_replaced_build() -> None:
    """A processor's own graphics beside the other vendor's devices: the remedy is the other runner, no new build."""
    seen = STORED["h100_8"]
    beside = replace(seen, devices=(*seen.devices, replace(STORED["mi210"].devices[0], pci="0000:0c:00.0")))
    assert "use runner cuda" in str(runners.get("rocm").decide(beside).why_not)


@pytest.mark.parametrize(
    ("arch", "form", "needs"),
    [
        ("gfx90a", None, None),
        ("gfx942", "e4m3fnuz", None),
        ("gfx950", "e4m3fn", (6, 5)),
        ("gfx1200", "e4m3fn", (6, 3)),
        ("gfx1100", None, None),
        ("sm_80", None, None),
        ("sm_86", None, None),
        ("sm_89", "e4m3fn", None),
        ("sm_90", "e4m3fn", None),
        ("sm_100", "e4m3fn", None),
        ("sm_120", "e4m3fn", None),
    ],
)
def test_fp8_follows_torch(arch: str, form: str | None, needs: tuple[int, int] | None) -> None:
    """The 8-bit rule is torch's own, with the format and the version gate."""
    assert (archs.fp8_format(arch), archs.fp8_needs(arch)) == (form, needs)


@pytest.mark.parametrize(
    ("arch", "wheel", "runs"),
    [
        ("sm_89", ("sm_80", "sm_86", "sm_90"), True),
        ("sm_90", ("sm_80", "sm_86"), False),
        ("sm_90", ("sm_80", "compute_80"), True),
        ("sm_86", ("sm_89",), False),
        ("sm_100", ("sm_90a", "sm_90"), False),
        ("sm_103", ("sm_100a",), False),
        ("sm_103", ("sm_100f",), True),
        ("sm_70", ("sm_75", "compute_120"), False),
        ("sm_120", ("sm_100", "sm_120"), True),
        ("gfx942", ("gfx942:sramecc+:xnack-",), True),
        ("gfx942", ("gfx90a", "gfx9-4-generic"), True),
        ("gfx90a", ("gfx9-4-generic",), False),
        ("gfx950", (), None),
    ],
)
def test_wheels_cover_architectures(arch: str, wheel: tuple[str, ...], runs: bool | None) -> None:
    """Code runs on its own family upwards, PTX on all that came later, sm_90a on sm_90 only; no list says nothing."""
    assert archs.wheel_covers(arch, wheel) is runs


def test_peaks_need_everything() -> None:
    """A model is known only when architecture, id, units and memory all fit and the device is whole."""
    known = ("gfx942", "0x74a1", 304, 196592 * 2**20, None)
    assert peaks.model_of(*known) is not None
    for n, value in enumerate(["gfx950", "0x74a5", 80, 262128 * 2**20, "CPX/NPS4"]):
        assert peaks.model_of(*known[:n], value, *known[n + 1 :]) is None  # type: ignore[arg-type]
    for n in range(1, 4):
        assert peaks.model_of(*known[:n], None, *known[n + 1 :]) is None  # type: ignore[arg-type]


def test_models_do_not_overlap() -> None:
    """No two models share architecture and id: what is found first cannot hide another."""
    pairs = [(m.arch, i) for m in peaks.MODELS for i in m.ids]
    assert len(pairs) == len(set(pairs))


def test_environment_follows_the_architecture() -> None:
    """RCCL's variable is set where it is needed and nowhere else."""
    assert "HSA_NO_SCRATCH_RECLAIM" not in runners.get("rocm").environment(decide("rocm", "mi210"))
    for name in ("mi300x_8", "mi355x", "mixed"):
        assert runners.get("rocm").environment(decide("rocm", name))["HSA_NO_SCRATCH_RECLAIM"] == "1"
    assert runners.get("cuda").environment(decide("cuda", "h100_8")) == {"OMP_NUM_THREADS": "1"}


PINS = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("environment", "devices", "mask"),
    [
        ({}, [0], {"HIP_VISIBLE_DEVICES": "0"}),
        ({}, [3, 1], {"HIP_VISIBLE_DEVICES": "3,1"}),
        ({}, [], {}),
        ({"HIP_VISIBLE_DEVICES": "4, 6,7"}, [2, 0], {"HIP_VISIBLE_DEVICES": "7,4"}),
        ({"CUDA_VISIBLE_DEVICES": "4,6"}, [1], {"CUDA_VISIBLE_DEVICES": "6"}),
        ({"ROCR_VISIBLE_DEVICES": "GPU-aa,GPU-bb"}, [1], {"ROCR_VISIBLE_DEVICES": "GPU-bb"}),
        ({"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "1,0"}, [0], {"HIP_VISIBLE_DEVICES": "1"}),
        ({"HIP_VISIBLE_DEVICES": ""}, [1], {"HIP_VISIBLE_DEVICES": "1"}),
    ],
)
def test_pins_narrow_the_users_mask(
    environment: dict[str, str], devices: list[int], mask: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices are counted among those visible; a mask that is set is narrowed in its own variable and terms."""
    assert masks.pinned(devices, PINS, environment) == mask
    for name in PINS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert runners.get("rocm").pin(devices) == mask


def test_a_device_outside_the_mask_cannot_be_pinned() -> None:
    """A device that the user's mask does not show is an error, never another one."""
    with pytest.raises(ValueError, match="device 2 is not among those that HIP_VISIBLE_DEVICES=4,-1,5 shows"):
        masks.pinned([2], PINS, {"HIP_VISIBLE_DEVICES": "4,-1,5"})


@given(st.lists(st.integers(0, 63), min_size=1, max_size=8, unique=True), st.data())
def test_pins_compose(mask: list[int], data: st.DataObject) -> None:
    """Pinned twice is pinned once: the second counts among what the first left, in its order."""
    first = data.draw(st.permutations(range(len(mask))).map(lambda p: p[: max(1, len(p) // 2)]))
    second = data.draw(st.integers(0, len(first) - 1))
    outer = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, mask))}
    inner = masks.pinned(first, ("CUDA_VISIBLE_DEVICES",), outer)
    found = masks.pinned([second], ("CUDA_VISIBLE_DEVICES",), inner)
    assert found == {"CUDA_VISIBLE_DEVICES": str(mask[first[second]])}
    assert masks.pinned(range(len(first)), ("CUDA_VISIBLE_DEVICES",), inner) == inner


def test_the_command_that_starts_a_container() -> None:
    """Devices, groups by number, shared memory and seccomp as the vendor wants them; the user's masks go along."""
    seen = replace(STORED["mi300x_8"], environment={"HIP_VISIBLE_DEVICES": "2,3", "HIP_LAUNCH_BLOCKING": "1"})
    nodes = [replace(n, group=44) if n.path.endswith("128") else n for n in seen.nodes]
    words = container.container_command(
        runners.get("rocm"), replace(seen, nodes=tuple(nodes)), Path("/home/h")
    )
    assert words[:4] == ["docker", "run", "--rm", "-it"]
    text = " ".join(words)
    for part in (
        "--device=/dev/kfd --device=/dev/dri --group-add video",
        "--group-add 44 --group-add 109",
        "--ipc=host --shm-size=16g --security-opt seccomp=unconfined --cap-add=SYS_PTRACE",
        "--env HIP_VISIBLE_DEVICES=2,3",
        "--volume /home/h:/home/h --workdir /home/h",
    ):
        assert part in text
    assert "HIP_LAUNCH_BLOCKING" not in text
    assert words[-1] == "bash"
    cuda = " ".join(container.container_command(runners.get("cuda"), STORED["h100_8"], Path("/h")))
    assert "--gpus all --ipc=host --shm-size=16g" in cuda
    assert "--group-add" not in cuda
    with pytest.raises(ValueError, match="runner cpu has no container"):
        container.container_command(runners.get("cpu"), STORED["none"], Path("/h"))


def test_software_is_told() -> None:
    """Driver, runtime and collective versions reach the decision; rocm beside hip, firmware of the compute engine."""
    software = decide("rocm", "trap_rocm_beside_hip").software
    assert (software["rocm"], software["hip"], software["driver"]) == ("10.0.0", "7.15.60850", "6.16.6")
    assert (software["collectives"], software["mec"]) == ("2.28.9", "41")
    assert decide("rocm", "mi300x_8").software["rocm"] == "7.2.0-43"
    cuda = decide("cuda", "h100_8").software
    assert (cuda["driver"], cuda["cuda"], cuda["collectives"]) == ("580.95.05", "13.0", "2.29.3")
