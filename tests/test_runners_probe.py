"""Reading a machine: a tree of files and recorded answers of tools in place of one, and torch in a real child."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.runners.facts import nvidia, probe, torch_child
from harness.runners.facts.probe import Answer
from harness.runners.facts.snapshot import Snapshot, from_json, to_json
from test_runners_parsers import FIRMWARE, METRIC, MI300X_NODE, PROCESS, QUERY, STATIC

FILES = {
    "sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 48\nsimd_count 0\ngfx_target_version 0\n",
    "sys/class/kfd/kfd/topology/nodes/1/properties": MI300X_NODE,
    "sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 206141652992\n",
    "sys/bus/pci/devices/0000:05:00.0/vendor": "0x1002\n",
    "sys/bus/pci/devices/0000:05:00.0/class": "0x120000\n",
    "sys/bus/pci/devices/0000:05:00.0/device": "0x74a1\n",
    "sys/bus/pci/devices/0000:09:00.0/vendor": "0x1002\n",
    "sys/bus/pci/devices/0000:09:00.0/class": "0x060400\n",
    "sys/bus/pci/devices/0000:e4:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:e4:00.0/class": "0x030200\n",
    "sys/bus/pci/devices/0000:e4:00.0/device": "0x2901\n",
    "sys/module/amdgpu/version": "6.16.6\n",
    "opt/rocm/.info/version": "7.2.0-43\n",
    "dev/kfd": "",
    "dev/dri/renderD129": "",
    "dev/dri/renderD128": "",
    "dev/shm/nccl-held": "",
    "dev/shm/nccl-left": "",
    "proc/7/maps": "7f00-7f01 rw-s 00000000 00:19 4 /dev/shm/nccl-held\n",
    "proc/self/maps": "7f00-7f01 r-xp 00000000 fe:00 1 /usr/lib/libc.so.6\n",
    "proc/self/cgroup": "0::/job/step\n",
    "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=1 iommu=pt pci=realloc=off amd_iommu_token=hidden quiet\n",
    "proc/meminfo": "MemTotal:       1000 kB\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/sys/kernel/osrelease": "6.8.0\n",
    "sys/fs/cgroup/memory.max": "max\n",
    "sys/fs/cgroup/job/memory.max": "4096\n",
    "sys/fs/cgroup/job/step/memory.max": "8192\n",
    "run/.containerenv": "",
}


def plant(root: Path, files: Mapping[str, str] = FILES) -> Path:
    """Writes a machine's files below the root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def tools(answers: Mapping[str, Answer]) -> probe.Run:
    """A runner of commands that has recorded answers, by the beginning of the command."""

    def run(words: Sequence[str]) -> Answer:
        told = " ".join([Path(words[0]).name, *words[1:]])
        return next(
            (a for begin, a in answers.items() if told.startswith(begin)), Answer(why_not="not recorded")
        )

    return run


AMD_ANSWERS = {
    "amd-smi static": Answer(json.dumps([{**STATIC, "bus": {"bdf": "0000:05:00.0"}}])),
    "amd-smi firmware": Answer(json.dumps(FIRMWARE)),
    "amd-smi metric": Answer(json.dumps(METRIC)),
    "amd-smi process": Answer(json.dumps(PROCESS)),
}


def collect(
    root: Path, answers: Mapping[str, Answer], environment: Mapping[str, str] | None = None, **more: object
) -> Snapshot:
    """A probe of that tree; the programs there are those with an answer."""
    there = {begin.partition(" ")[0] for begin in answers}
    return probe.collect_machine(
        environment or {},
        ("HIP_*", "HSA_*"),
        root=root,
        run=tools(answers),
        find=lambda name, _: f"/opt/rocm/bin/{name}" if name in there else None,
        **more,  # type: ignore[arg-type]
    )


def test_a_whole_machine_is_read(tmp_path: Path) -> None:
    """Kernel, tool and bus are put together by PCI address; the kernel's silicon wins over a tool's label."""
    seen = collect(plant(tmp_path), AMD_ANSWERS)
    device, other = seen.devices
    assert (device.arch, device.device_id, device.units) == ("gfx942", "0x74a1", 304)
    assert (device.name, device.power_cap_w, device.processes) == (
        "AMD Instinct MI350X",
        750,
        ("42 python3",),
    )
    assert (other.vendor, other.device_id, other.pci, other.arch) == (
        "nvidia",
        "0x2901",
        "0000:e4:00.0",
        None,
    )
    assert [d.index for d in seen.devices] == [0, 1]
    assert seen.tools == {"amdgpu": "6.16.6", "rocm": "7.2.0-43", "driver": "6.16.6"}
    assert [(n.path, n.exists) for n in seen.nodes if n.exists] == [
        ("/dev/kfd", True),
        ("/dev/dri/renderD128", True),
        ("/dev/dri/renderD129", True),
    ]
    assert seen.kernel == {
        "cmdline": "iommu=pt pci=realloc=off",
        "numa_balancing": "1",
        "release": "6.8.0",
        "cgroup_memory_bytes": "4096",
    }
    assert (seen.memory_bytes, seen.container, seen.emulation) == (1024000, "podman", ())
    assert seen.shm_stale == ("nccl-left",)
    assert seen.notes == ()
    assert from_json(json.loads(json.dumps(to_json(seen)))) == seen


def test_an_empty_machine_is_read(tmp_path: Path) -> None:
    """Nothing to be read is unknown, never an error and never 0."""
    seen = collect(tmp_path, {})
    assert (seen.devices, seen.kernel, seen.memory_bytes, seen.container) == ((), {}, None, None)
    assert all(not n.exists for n in seen.nodes)
    assert seen.notes == ()


def test_nodes_tell_who_may_open_them(tmp_path: Path) -> None:
    """A node that this user may not open is there, unreadable, with its group by number."""
    seen = collect(plant(tmp_path), {}, access=lambda path, mode: not path.endswith("kfd"))
    nodes = {n.path: n for n in seen.nodes}
    assert (nodes["/dev/kfd"].exists, nodes["/dev/kfd"].readable, nodes["/dev/kfd"].writable) == (
        True,
        False,
        False,
    )
    assert nodes["/dev/kfd"].group == (tmp_path / "dev/kfd").stat().st_gid
    assert nodes["/dev/dri/renderD128"].writable


def test_a_tool_without_an_answer_leaves_unknowns(tmp_path: Path) -> None:
    """What the kernel says stays, what the tool would have said is unknown, and a note says why."""
    seen = collect(plant(tmp_path), {"amd-smi static": Answer(why_not="no answer within 15 s")})
    assert (seen.devices[0].arch, seen.devices[0].name) == ("gfx942", None)
    assert seen.notes == ("amd-smi static: no answer within 15 s",)


def test_a_tool_that_breaks_the_parser_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a fault of our own in one question leaves the rest of the snapshot."""
    monkeypatch.setattr(nvidia, "parse_query", lambda *_: 1 / 0)
    seen = collect(plant(tmp_path), {"nvidia-smi --query-gpu": Answer(QUERY)})
    assert seen.devices[0].arch == "gfx942"
    assert seen.notes == ("nvidia-smi: ZeroDivisionError: division by zero",)


def test_an_older_nvidia_smi_is_asked_again(tmp_path: Path) -> None:
    """A field that it refuses is left out, the others are still read."""
    asked: list[str] = []

    def run(words: Sequence[str]) -> Answer:
        asked.append(words[1])
        for field in ("compute_cap", "clocks_event_reasons.active"):
            if field in words[1]:
                return Answer(f'Field "{field}" is not a valid field to query.\n', why_not="ended with 2")
        if "compute-apps" in words[1]:
            return Answer("GPU-aa, 7, python\n")
        return Answer(
            "0, Tesla V100, 00000000:04:00.0, 0x1DB510DE, GPU-aa, 32510, 0, 470.57, 250.00, 250.00, 0, 0, [N/A]\n"
        )

    seen = probe.collect_machine(
        {}, (), root=tmp_path, run=run, find=lambda name, _: name if name == "nvidia-smi" else None
    )
    (device,) = seen.devices
    assert (device.name, device.arch, device.memory_bytes) == ("Tesla V100", None, 32510 * 2**20)
    assert device.processes == ("7 python",)
    assert seen.tools["nvidia-smi"] == "470.57"
    assert len(asked) == 4


def test_partitions_at_one_address_are_marked(tmp_path: Path) -> None:
    """Two nodes of the kernel at one PCI address are parts of one device."""
    second = {"sys/class/kfd/kfd/topology/nodes/2/properties": MI300X_NODE}
    seen = collect(plant(tmp_path, {**FILES, **second}), {})
    assert [d.partition for d in seen.devices if d.arch] == ["partition", "partition"]


@given(
    st.sampled_from(["HIP_", "HSA_X", "hip_", "OMP_"]),
    st.sampled_from(["TOKEN", "api_key", "Secret", "PASSWORD", "credentials"]),
)
def test_secrets_are_never_kept(begin: str, word: str) -> None:
    """A variable whose name speaks of a secret is left out, even if a pattern fits."""
    name = f"{begin}{word}"
    assert probe.kept({name: "x", "HIP_VISIBLE_DEVICES": "0"}, ("*",)) == {"HIP_VISIBLE_DEVICES": "0"}


def test_only_patterns_are_kept(tmp_path: Path) -> None:
    """Variables that no pattern fits do not reach the snapshot."""
    seen = collect(
        tmp_path, {}, {"HIP_VISIBLE_DEVICES": "3", "HOME": "/home/somebody", "HIP_API_TOKEN": "hidden"}
    )
    assert seen.environment == {"HIP_VISIBLE_DEVICES": "3"}
    assert "hidden" not in json.dumps(to_json(seen))
    assert "somebody" not in json.dumps(to_json(seen))


@pytest.mark.parametrize(
    ("environment", "maps", "signs"),
    [
        ({"MIRAGE_SESSION": "s-1"}, "", ("MIRAGE_SESSION",)),
        ({"ROCJITSU_SESSION": "s-1", "MIRAGE_SESSION": ""}, "", ("ROCJITSU_SESSION",)),
        ({"ROCJITSU_RUNTIME_DIR": "/run/x"}, "", ("ROCJITSU_RUNTIME_DIR",)),
        ({"LD_PRELOAD": "/a.so:/opt/librocjitsu.so"}, "", ("LD_PRELOAD: librocjitsu.so",)),
        ({}, "7f00 r-xp /opt/lib/librocjitsu.so.1\n", ("maps: librocjitsu.so",)),
        ({"LD_PRELOAD": "/usr/lib/libjemalloc.so"}, "", ()),
    ],
)
def test_emulation_is_seen(
    environment: dict[str, str], maps: str, signs: tuple[str, ...], tmp_path: Path
) -> None:
    """Each documented sign of an emulator around this process is found by its name, and nothing else is one."""
    assert collect(plant(tmp_path, {"proc/self/maps": maps}), {}, environment).emulation == signs


def test_the_real_machine_is_read() -> None:
    """A probe of this machine raises nothing and knows its memory, shared memory and kernel."""
    seen = probe.collect_machine(dict(os.environ), ("OMP_*",))
    assert seen.memory_bytes
    assert seen.shm_bytes
    assert seen.kernel["release"] == os.uname().release
    assert from_json(json.loads(json.dumps(to_json(seen)))) == seen


def test_a_tool_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool has a time limit, and its missing answer says so; so do an absent one and one that fails."""
    monkeypatch.setattr(probe, "TOOL_LIMIT_S", 0.2)
    assert probe.run_tool(["sleep", "60"]).why_not == "no answer within 0.2 s"
    assert probe.run_tool(["/no/such/tool"]).why_not == "No such file or directory"
    failed = probe.run_tool(["sh", "-c", "echo no device >&2; exit 9"])
    assert failed.why_not == "ended with 9: no device"


def test_torch_is_asked_in_a_child() -> None:
    """The child prints the build, the bf16 product's norm and no error on a machine without devices."""
    seen = probe.torch_here(sys.executable, dict(os.environ))
    import torch

    assert seen.version == torch.__version__
    assert seen.product_norm == 65536
    assert seen.emulation == ()
    assert probe.torch_here(sys.executable, dict(os.environ)) is seen


def test_the_child_without_torch_says_so(tmp_path: Path) -> None:
    """An interpreter without torch gives an error that names it, no crash."""
    (tmp_path / "torch.py").write_text("raise OSError('libhsa-runtime64.so.1: cannot open\\nshared object')")
    seen = probe.collect_torch(
        [sys.executable, str(probe.CHILD)], {**os.environ, "PYTHONPATH": str(tmp_path)}
    )
    assert seen.version is None
    assert seen.error is not None
    assert seen.error.startswith(
        "torch cannot be imported: OSError: libhsa-runtime64.so.1: cannot open shared"
    )


FAKE_TORCH = """
import types
__version__ = "2.13.0+rocm10.0.0"
version = types.SimpleNamespace(hip="7.15.1", rocm="10.0.0", cuda=None)
bfloat16 = "bf16"
class accelerator:
    is_available = staticmethod(lambda: True)
    current_accelerator = staticmethod(lambda: types.SimpleNamespace(type="cuda"))
class Norm:
    def __init__(self, value): self.value = value
    def __matmul__(self, other): return self
    def double(self): return self
    def norm(self): return self.value
def ones(*shape, dtype, device):
    if device == "cuda:1":
        raise RuntimeError("HIP error: invalid device function\\nCompile with TORCH_USE_HIP_DSA")
    return Norm(65536.0)
def _properties(index):
    if index == 2:
        raise RuntimeError("HIP error: out of memory")
    return types.SimpleNamespace(name="AMD Radeon Graphics", major=9, minor=4, total_memory=5, multi_processor_count=304,
        gcnArchName="gfx942:sramecc+:xnack-", pci_bus_id=0xc1, pci_device_id=0, pci_domain_id=0)
def _refused(*a): raise AssertionError("Torch not compiled with it")
cuda = types.SimpleNamespace(is_available=lambda: True, device_count=lambda: 3, get_device_properties=_properties,
    mem_get_info=lambda i: (4, 5), can_device_access_peer=lambda i, n: n == 0, get_arch_list=lambda: ["gfx942"],
    nccl=types.SimpleNamespace(version=_refused))
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 3005001))
"""


def test_the_child_asks_each_question_apart(tmp_path: Path) -> None:
    """Devices that cannot be asked or cannot compute, and a question that fails, leave the others answered."""
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    seen = probe.collect_torch(
        [sys.executable, str(probe.CHILD)],
        {**os.environ, "PYTHONPATH": str(tmp_path), "ROCJITSU_SESSION": "s"},
    )
    first, second, third = seen.devices
    assert (first.arch_name, first.pci, first.capability) == (
        "gfx942:sramecc+:xnack-",
        "0000:c1:00.0",
        (9, 4),
    )
    assert (first.product_norm, first.failure, first.peers, first.free_bytes) == (65536, None, (), 4)
    assert second.product_norm is None
    assert second.failure == "product on device 1: RuntimeError: HIP error: invalid device function"
    assert third.failure == "device 2: RuntimeError: HIP error: out of memory"
    assert seen.versions == {
        "hip": "7.15.1",
        "rocm": "10.0.0",
        "cuda": None,
        "nccl": None,
        "miopen": "3005001",
    }
    assert (seen.accelerator, seen.arch_list, seen.flash_sdpa) == ("cuda", ("gfx942",), None)
    assert seen.emulation == ("ROCJITSU_SESSION",)
    assert seen.error is not None
    assert "collectives: AssertionError: Torch not compiled with it" in seen.error


def test_the_child_inside_the_stand_in(tmp_path: Path) -> None:
    """Inside the harness's own stand-in of an emulator the child tells the devices that it is told to tell."""
    told = tmp_path / "devices.json"
    told.write_text(json.dumps({"devices": 2, "arch": "gfx950"}))
    variables = {**os.environ, torch_child.STAND_IN: str(told), "MIRAGE_SESSION": "s-1"}
    seen = probe.collect_torch([sys.executable, str(probe.CHILD)], variables)
    assert [(d.index, d.name, d.peers) for d in seen.devices] == [
        (0, "AMD Instinct MI350X (stand-in)", (1,)),
        (1, "AMD Instinct MI350X (stand-in)", (0,)),
    ]
    assert seen.devices[0].arch_name is not None
    assert seen.devices[0].arch_name.startswith("gfx950:")
    assert seen.devices[0].memory_bytes == 288 * 2**30
    assert (seen.accelerator, seen.product_norm, seen.emulation) == ("cpu", 65536, ("MIRAGE_SESSION",))


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import time; time.sleep(60)", "no answer within 1 s"),
        ("import os; os.abort()", "ended with -6 and no answer: "),
        ("import sys; sys.exit('no kfd\\nreally')", "ended with 1 and no answer: no kfd / really"),
        (f"print({probe.MARK!r} + '[1]')", "its answer could not be read: TorchFacts"),
        (f"print({probe.MARK!r} + '{{')", "its answer could not be read: Expecting"),
        (f"print({probe.MARK!r} + '{{\"devices\": [3]}}')", "its answer could not be read: TorchDevice"),
        (f"print({probe.MARK!r} + '{{\"devices\": 3}}')", "its answer could not be read: "),
    ],
)
def test_a_child_that_gives_no_answer(program: str, told: str) -> None:
    """A hang, a crash, an exit and an unreadable answer are each told, none raises."""
    seen = probe.collect_torch(
        [sys.executable, "-c", program], dict(os.environ), limit_s=1 if "sleep" in program else 30
    )
    assert seen.error is not None
    assert seen.error.startswith(told)
    assert seen.version is None


def test_an_interpreter_that_is_not_there() -> None:
    """An interpreter that does not exist is told by its name."""
    assert probe.collect_torch(["/no/python", "x"], {}).error == "/no/python: No such file or directory"
