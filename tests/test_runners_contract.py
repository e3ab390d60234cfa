"""The contract kit: every runner keeps it, each rule catches a runner that breaks it, and entry points register."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import third_party
from harness import ROOT, runners
from harness.runners import conformance
from harness.runners.base import Capability, Container, Decision, Device, Peak, Runner
from harness.runners.cpu import CpuRunner
from harness.runners.cuda import CudaRunner
from harness.runners.facts.snapshot import Node, Snapshot, ToolDevice, TorchDevice, TorchFacts
from test_runners_decide import STORED

OURS = [(name, check) for name in runners.names() for check in conformance.checks(runners.get(name), STORED)]


@pytest.mark.parametrize(
    "check",
    [
        # What an emulated runner needs to be usable is no stored machine's: its own tests give it.
        c
        for _, c in OURS
        if not (c.runner.emulated and c.rule == "proven")
    ],
    ids=lambda check: f"{check.runner.name}-{check}",
)
def test_runners_keep_the_contract(check: conformance.Check) -> None:
    """Each runner here keeps each rule, on the stored machines and on this one."""
    check()


words = st.text(max_size=12) | st.sampled_from(
    [
        "",
        "gfx942",
        "gfx950:sramecc+:xnack-",
        "gfx9",
        "sm_90",
        "0x74a1",
        "0000:c1:00.0",
        "GPU-1",
        "a\nb",
        "7.2.1",
        "x y",
    ]
)
numbers = st.integers(-2, 2**40)
tables = st.dictionaries(
    st.sampled_from(["hip", "rocm", "cuda", "nccl", "mec", "HIP_VISIBLE_DEVICES"]), words, max_size=4
)
lists = st.lists(words, max_size=3).map(tuple)
maybe = st.none() | numbers
torch_devices = st.builds(
    TorchDevice,
    index=st.integers(0, 9),
    name=words,
    arch_name=st.none() | words,
    capability=st.none() | st.tuples(st.integers(0, 12), st.integers(0, 9)),
    memory_bytes=maybe,
    free_bytes=maybe,
    units=maybe,
    pci=st.none() | words,
    peers=st.none() | st.lists(st.integers(0, 9), max_size=3).map(tuple),
    uuid=st.none() | words,
    product_norm=st.none() | st.floats() | st.just(65536.0),
    failure=st.none() | words,
)
unique = st.lists(torch_devices, max_size=3, unique_by=lambda d: d.index).map(tuple)
torch_facts = st.builds(
    TorchFacts,
    version=st.none() | words,
    versions=tables,
    accelerator=st.none() | words,
    devices=unique,
    arch_list=lists,
    product_norm=st.none() | st.just(65536.0) | st.floats(),
    flash_sdpa=st.none() | st.booleans(),
    error=st.none() | words,
    emulation=st.just(()) | lists,
)
tool_devices = st.builds(
    ToolDevice,
    index=numbers,
    arch=st.none() | words,
    name=st.none() | words,
    pci=st.none() | words,
    device_id=st.none() | words,
    memory_bytes=maybe,
    firmware=tables,
    vendor=st.sampled_from([None, "amd", "nvidia", "other"]),
    units=maybe,
    partition=st.none() | words,
)
snapshots = st.builds(
    Snapshot,
    system=st.sampled_from(["linux", "linux", "linux", "win32", ""]),
    machine=st.sampled_from(["x86_64", "aarch64"]),
    environment=tables,
    torch=st.none() | torch_facts,
    tools=tables,
    devices=st.lists(tool_devices, max_size=3).map(tuple),
    nodes=st.lists(
        st.builds(
            Node, st.sampled_from(["/dev/kfd", "/dev/dri/renderD128", "/dev/nvidiactl"]), st.booleans()
        ),
        max_size=3,
    ).map(tuple),
    emulation=st.just(()) | lists,
)
mutated = st.builds(
    lambda seen, torch, devices, environment: replace(
        seen,
        torch=seen.torch and replace(seen.torch, **torch),
        devices=seen.devices if devices is None else devices,
        environment={**seen.environment, **environment},
    ),
    st.sampled_from(list(STORED.values())),
    st.fixed_dictionaries(
        {},
        optional={
            "devices": unique,
            "versions": tables,
            "arch_list": lists,
            "flash_sdpa": st.none(),
            "product_norm": st.none(),
            "error": words,
        },
    ),
    st.none() | st.lists(tool_devices, max_size=3).map(tuple),
    tables,
)


@pytest.mark.parametrize("name", runners.names())
@settings(max_examples=100)
@given(seen=snapshots | mutated)
def test_any_snapshot_is_decided(name: str, seen: Snapshot) -> None:
    """Whatever a probe may see, deciding keeps its rules."""
    assert conformance.judge_decision(runners.get(name), seen) == []


GOOD = {c: Capability(c != "fp8", "a reason") for c in ("bf16", "fp8", "multi_device", "flash_sdpa")}
GOOD |= {c: Capability(True, "a reason") for c in ("peer_to_peer", "float64", "timing")}


def has(label: str, **facts: Any) -> dict[str, Capability]:
    """Sound capabilities, one of them changed."""
    return {**GOOD, label: replace(GOOD[label], **facts)}


class Sound(CpuRunner):
    """Keeps the contract; each fault below changes one thing."""

    name = "sound"

    def decide(self, seen: Snapshot) -> Decision:
        decided = super().decide(seen)
        return decided if decided.why_not is not None else self.usable(seen)

    def usable(self, seen: Snapshot) -> Decision:
        return Decision(None, (Device(0, seen.machine),), GOOD)


def decides(**facts: Any) -> type[Sound]:
    """A runner whose usable machines have these facts."""

    class Faulty(Sound):
        def usable(self, seen: Snapshot) -> Decision:
            return replace(super().usable(seen), **facts)

    return Faulty


def has_method(name: str, function: Any) -> type[Sound]:
    """A runner with another method or field."""
    return type("Faulty", (Sound,), {name: function})


def _refuses(why: str) -> Any:
    return lambda self, seen: Decision(why) if seen.system != "linux" else Sound.usable(self, seen)


def _stateful() -> type[Sound]:
    class Faulty(Sound):
        asked = 0

        def usable(self, seen: Snapshot) -> Decision:
            self.asked += 1
            return replace(super().usable(seen), notes=(str(self.asked),))

    return Faulty


def _swallows(self: Any, seen: Snapshot) -> Decision:
    with contextlib.suppress(Exception):
        Path("/etc/hostname").read_text()
    return Sound.usable(self, seen)


def _changes(self: Any, seen: Snapshot) -> Decision:
    if isinstance(seen.environment, dict):
        seen.environment["X"] = seen.environment.get("X", "") + "1"
    return Sound.usable(self, seen)


def _leaks(self: Any, python: str, environment: Mapping[str, str]) -> Snapshot:
    return Snapshot("linux", "x86_64", environment={"WANDB_API_KEY": environment.get("WANDB_API_KEY", "")})


def _pins_two(self: Any, devices: Sequence[int]) -> dict[str, str]:
    text = ",".join(map(str, devices))
    return {"HIP_VISIBLE_DEVICES": text, "CUDA_VISIBLE_DEVICES": text}


def _pins_itself(self: Any, devices: Sequence[int]) -> dict[str, str]:
    os.environ["MASK"] = "0"
    return {"MASK": ",".join(map(str, devices))}


def _emulated(timing: bool) -> type[Sound]:
    class Faulty(Sound):
        emulated = True

        def decide(self, seen: Snapshot) -> Decision:
            return replace(Sound.usable(self, seen), capabilities=has("timing", there=timing))

    return Faulty


TWO = (Device(0, "x86_64"), Device(0, "x86_64"))
FAULTS: list[tuple[str, type[Sound]]] = [
    ("name", has_method("name", "My Kind")),
    ("name", has_method("name", "cpu")),
    ("fields", has_method("emulated", None)),
    ("fields", has_method("wheel_index", "not an address")),
    ("fields", has_method("container", Container("image", ("--device /dev/kfd",)))),
    ("fields", has_method("time_factor", 0)),
    ("fields", has_method("suites", "decoder")),
    ("recorded", has_method("recorded", ("*",))),
    ("recorded", has_method("recorded", ("HF_*",))),
    ("recorded", has_method("recorded", "OMP_NUM_THREADS")),
    (
        "total",
        has_method("decide", lambda self, seen: Sound.usable(self, seen) if seen.torch.version else None),
    ),
    (
        "total",
        has_method(
            "decide", lambda self, seen: {"why_not": None} if seen.torch else Sound.usable(self, seen)
        ),
    ),
    (
        "pure",
        has_method(
            "usable",
            lambda self, seen: replace(Sound.usable(self, seen), notes=(str(Path.cwd()), *os.environ)),
        ),
    ),
    ("pure", has_method("usable", _swallows)),
    ("pure", has_method("usable", _changes)),
    ("pure", has_method("usable", lambda self, s: replace(Sound.usable(self, s), notes=(str(time.time()),)))),
    ("pure", _stateful()),
    ("why_not", has_method("decide", _refuses("nothing here"))),
    ("why_not", has_method("decide", _refuses("no device:\nplug one in"))),
    ("why_not", has_method("decide", _refuses(""))),
    ("usable", decides(devices=())),
    ("usable", decides(devices=TWO)),
    ("usable", decides(collective_backend="")),
    ("arch", decides(devices=(Device(0, "AMD Instinct MI350X"),))),
    ("arch", decides(devices=(Device(0, "mi350x"),))),
    ("arch", decides(devices=(Device(0, "h100"),))),
    ("arch", decides(devices=(Device(0, ""),))),
    ("capabilities", decides(capabilities={k: v for k, v in GOOD.items() if k != "float64"})),
    ("capabilities", decides(capabilities={**GOOD, "warp_speed": Capability(True, "a reason")})),
    ("capabilities", decides(capabilities=has("bf16", reason=" "))),
    ("capabilities", decides(capabilities=has("bf16", reason="two\nlines"))),
    ("capabilities", decides(capabilities=has("bf16", there=None))),
    ("fp8", decides(capabilities=has("fp8", there=True))),
    ("fp8", decides(capabilities=has("fp8", there=True, form="fp8"))),
    ("peaks", decides(devices=(Device(0, "x86_64", peak=Peak({"bf16": 0.0}, None, "a sheet")),))),
    ("peaks", decides(devices=(Device(0, "x86_64", peak=Peak({}, float("inf"), "a sheet")),))),
    ("peaks", decides(devices=(Device(0, "x86_64", peak=Peak({"bf16": 1.0}, 1.0)),))),
    ("emulation", has_method("decide", lambda self, seen: Sound.usable(self, seen))),
    ("emulation", decides(stand_in=True)),
    ("emulation", _emulated(timing=False)),
    ("emulation", _emulated(timing=True)),
    ("environment", has_method("environment", lambda self, decision: {"THREADS": 1})),
    ("environment", has_method("environment", lambda self, decision: {"A-B": "1"})),
    ("environment", has_method("environment", lambda self, decision: {"HIP_VISIBLE_DEVICES": "0"})),
    ("pin", has_method("pin", _pins_two)),
    ("pin", has_method("pin", _pins_itself)),
    ("pin", has_method("pin", lambda self, devices: {"MASK": devices[0]})),
    ("pin", has_method("pin", lambda self, devices: {"MASK": ",".join(map(str, sorted(devices)))[:1]})),
    ("pin", has_method("pin", lambda self, devices: {"MASK": f"{time.perf_counter_ns()}"})),
    ("synchronize", has_method("synchronize", lambda self: True)),
    ("synchronize", type("Deaf", (CudaRunner,), {"synchronize": lambda self: None})),
    ("command", has_method("command", lambda self, words, *, devices, nodes=1: " ".join(words))),
    ("command", has_method("command", lambda self, words, *, devices, nodes=1: [*words, "--devices", "2"])),
    ("command", has_method("command", lambda self, words, *, devices, nodes=1: ["run", devices, *words])),
    ("command", has_method("command", lambda self, words, *, devices: list(words))),
    ("proven", has_method("decide", lambda self, seen: Decision("no such machine; build one"))),
    ("probe", has_method("probe", lambda self, python, environment: {"system": "linux"})),
    ("probe", has_method("probe", lambda self, python, environment: 1 / 0)),
    ("probe", has_method("probe", _leaks)),
    (
        "probe",
        has_method("probe", lambda self, python, environment: Snapshot("linux", "x", emulator={"a": (1, 2)})),
    ),
]


def test_a_sound_runner_has_no_findings() -> None:
    """The runner that the faults below are planted in breaks no rule."""
    assert conformance.check_runner(Sound()) == []


@pytest.mark.parametrize(("rule", "kind"), FAULTS, ids=[f"{n}-{rule}" for n, (rule, _) in enumerate(FAULTS)])
def test_a_planted_fault_is_caught_by_its_rule(rule: str, kind: type[Sound]) -> None:
    """Each fault is found by the rule that forbids it, and the check of that name fails."""
    check = next(c for c in conformance.checks(kind()) if c.rule == rule)
    assert check.findings() != []
    with pytest.raises(AssertionError, match=f"{rule}: "):
        check()
    assert all("\n" not in f.message or "two\nlines" in f.message for f in check.findings())


def test_every_rule_has_a_planted_fault() -> None:
    """No rule of the contract is untested."""
    assert {rule for rule, _ in FAULTS} == set(conformance.RULES)


def test_a_probe_that_hangs_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that does not end is told, and does not hold up the kit."""
    from harness.runners.facts import contract_acts

    monkeypatch.setattr(contract_acts, "PROBE_LIMIT_S", 0.2)
    runner = has_method("probe", lambda self, python, environment: time.sleep(60))()
    found = [f.message for c in conformance.checks(runner) if c.rule == "probe" for f in c.findings()]
    assert found == ["no answer within 0.2 s"]


def test_the_kit_leaves_the_world_as_it_was() -> None:
    """After the purity rule the environment, files and clock are the real ones again, also after a fault."""
    before = dict(os.environ)
    for runner in (Sound(), has_method("usable", _swallows)()):
        conformance.check_runner(runner)
    assert dict(os.environ) == before
    assert time.time() > 0
    assert Path(__file__).exists()


def run_python(program: str, variables: Mapping[str, str]) -> Any:
    """What a program printed as JSON, in a fresh interpreter that sees an installed third party."""
    paths = os.pathsep.join([variables["PYTHONPATH"], str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


LOOK = """
import json
from harness import runners
from harness.errors import UsageError
def look(name):
    try:
        found = runners.look(name)
        return [found.why_not, found.arch]
    except UsageError as error:
        return str(error)
print(json.dumps([runners.names(), *(look(name) for name in NAMES)]))
"""


def test_a_third_party_registers_by_an_entry_point(tmp_path: Path) -> None:
    """An installed distribution with an entry point is a runner: listed after ours, looked at, and checked by the kit."""
    variables = third_party.install(tmp_path)
    names, found = run_python(LOOK.replace("NAMES", "['twins']"), variables)
    assert names == [*runners.names(), "twins"]
    assert found == [None, "twin1"]
    program = "import json\nfrom harness import runners\nfrom harness.runners import conformance\n"
    program += "print(json.dumps([f.rule for f in conformance.check_runner(runners.get('twins'))]))"
    # It is a sketch: it raises on a snapshot that is not its own, keeps no sign of emulation and returns no copy.
    assert "total" in run_python(program, variables)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (
            "raise ImportError('libtwin.so: cannot open')",
            "twins_runner:RUNNER could not be loaded: libtwin.so",
        ),
        ("", "twins_runner:RUNNER could not be loaded: module 'twins_runner' has no attribute 'RUNNER'"),
    ],
)
def test_a_broken_third_party_is_named(module: str, said: str, tmp_path: Path) -> None:
    """A package that cannot be loaded is one line with its name and the remedy, and the others still work."""
    variables = third_party.install(tmp_path)
    (tmp_path / "site" / "twins_runner.py").write_text(module)
    _, broken, ours = run_python(LOOK.replace("NAMES", "['twins', 'cpu']"), variables)
    assert said in broken
    assert broken.startswith("--runner twins: ")
    assert "mend or remove that package" in broken
    assert "\n" not in broken
    assert ours[0] is None


def test_a_third_party_cannot_take_our_name(tmp_path: Path) -> None:
    """An entry point with the name of a runner here does not replace it."""
    variables = third_party.install(tmp_path)
    (tmp_path / "site/twins-1.0.dist-info/entry_points.txt").write_text(
        "[harness.runners]\ncpu = twins_runner:RUNNER\n"
    )
    names, found = run_python(LOOK.replace("NAMES", "['cpu']"), variables)
    assert names == list(runners.names())
    assert found[1] != "twin1"


def test_the_kit_needs_the_standard_library_only() -> None:
    """The kit and the runners are imported without any package besides the harness."""
    program = "import sys, json\nfrom harness.runners import conformance, get, names\n"
    program += "[get(n) for n in names()]\n"
    program += (
        "print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names))))"
    )
    found = run_python(program, {"PYTHONPATH": ""})
    assert [m for m in found if not m.startswith("_")] == ["harness"]


def test_runners_fit_the_protocol() -> None:
    """Each runner has what the protocol names."""
    for name in runners.names():
        runner: Runner = runners.get(name)
        for member in [
            *Runner.__annotations__,
            "probe",
            "decide",
            "environment",
            "pin",
            "command",
            "clean_up",
        ]:
            assert hasattr(runner, member), f"{name} has no {member}"
