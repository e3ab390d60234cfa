"""The mirage runner: what it decides of what it saw, the commands it builds, and each fault of the emulator told apart."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.mirage_standin.command_line import parse
from fixtures.mirage_standin.program import PROFILES
from harness import emulator
from harness.runners import conformance
from harness.runners.base import Decision
from harness.runners.facts import mirage_command, mirage_probe
from harness.runners.facts.emulation import SESSION, emulation_signs, find_library, own_error
from harness.runners.facts.snapshot import Snapshot, TorchFacts, from_json, to_json
from harness.runners.mirage import RUNNER
from mirage_machines import MIRAGE, ROCJITSU, SIGNS, call, devices, emulating, end_all, start, variables
from test_launch import gone, wait_until

STAND_IN = emulating(
    {"stand_in": True, "version": "mirage 0.0.0 (stand-in of the harness: emulates nothing)"}
)
STAND_IN = replace(
    STAND_IN, torch=replace(STAND_IN.torch, version="2.13.0+cpu", versions={}, accelerator="cpu")
)
SEEN = {"mirage": emulating(), "the stand-in": STAND_IN}


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A short folder for sockets."""
    with tempfile.TemporaryDirectory(prefix="hm", dir="/tmp") as folder:
        yield Path(folder)
        end_all()


@pytest.mark.parametrize("check", conformance.checks(RUNNER, SEEN), ids=str)
def test_contract(check: conformance.Check) -> None:
    """The runner keeps what every runner must keep, with the real program's snapshot and with the stand-in's."""
    check()


def test_two_emulated_devices_are_decided() -> None:
    """Ranks are on torch's own device and back end, no peak is known, and no time is believed."""
    found = RUNNER.decide(emulating())
    assert (found.why_not, found.arch, len(found.devices), found.stand_in) == (None, "gfx950", 2, False)
    assert (found.device, found.collective_backend) == ("cuda", "nccl")
    assert [d.peak for d in found.devices] == [None, None]
    assert found.software["collectives"] == "2.28.3"
    timing = found.capabilities["timing"]
    assert (timing.there, timing.required) == (False, False)
    assert timing.reason == "emulated: no time measured here says anything of a device"
    assert (found.capabilities["fp8"].form, found.capabilities["multi_device"].there) == ("e4m3fn", True)
    assert not found.capabilities["peer_to_peer"].there


def test_a_back_end_may_be_chosen() -> None:
    """With gloo the version of the other library is no longer the run's, so that its known issues do not hold."""
    found = RUNNER.decide(replace(emulating(), environment={"HARNESS_MIRAGE_BACKEND": "gloo"}))
    assert (found.collective_backend, found.software["collectives"]) == ("gloo", None)


def test_the_stand_in_is_told() -> None:
    """Behind the stand-in ranks are on the CPU, and the decision says so, whether or not it is usable."""
    found = RUNNER.decide(STAND_IN)
    assert (found.why_not, found.stand_in) == (None, True)
    assert (found.device, found.collective_backend) == ("cpu", "gloo")
    assert not found.capabilities["fp8"].there
    assert RUNNER.decide(replace(STAND_IN, torch=None)).stand_in


REFUSED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    ({"program": None}, {}, {}, ("neither mirage nor rocjitsu", "install mirage")),
    ({"program": None}, {}, {"HARNESS_MIRAGE": "/not/there"}, ("HARNESS_MIRAGE names no program", "set it")),
    ({"asked_devices": None, "given_devices": "65"}, {}, {}, ("HARNESS_MIRAGE_GPUS=65", "from 1 to 64")),
    ({}, {}, {"HARNESS_MIRAGE_BACKEND": "mpi"}, ("HARNESS_MIRAGE_BACKEND=mpi", "nccl or gloo")),
    ({}, {}, {"XDG_RUNTIME_DIR": "/tmp/" + "x" * 60}, ("XDG_RUNTIME_DIR has 65", "shorter")),
    (
        {"profile": "mi355x"},
        {},
        {},
        ("no profile mi355x", "mi300x, mi350x, mi450x", "HARNESS_MIRAGE_PROFILE"),
    ),
    (
        {
            "status": 1,
            "errors": "error: rocjitsu: KMD preload library (librocjitsu.so) not found; cannot emulate",
        },
        {},
        {},
        ("library was not found", "rocm-sdk init", "ROCJITSU_LIB"),
    ),
    ({"status": 1, "errors": 'x\n{"error": "KMD preload library not found"}'}, {}, {}, ("rocm-sdk init",)),
    (
        {
            "status": 1,
            "errors": "error: the rocjitsu library at /x cannot host the emulator daemon: no symbol",
        },
        {},
        {},
        ("too old", "update the library"),
    ),
    (
        {
            "status": 1,
            "errors": "[rj warn] rj_vm_create_from_string failed: a\nerror: session failed to start (failed): b",
        },
        {},
        {},
        ("different ages", "matching pair", "rj_vm_create_from_string failed: a"),
    ),
    (
        {"status": 1, "errors": "error: session failed to start (failed): daemon gone"},
        {},
        {},
        ("did not start", "daemon gone"),
    ),
    ({"status": 1, "errors": "error: path must be shorter than SUN_LEN"}, {}, {}, ("set XDG_RUNTIME_DIR",)),
    (
        {"status": 1, "inside": None, "errors": "error: disk full"},
        {},
        {},
        ("failed itself", "status 1", "disk full"),
    ),
    (
        {"status": 2, "errors": "error: unexpected argument '--daemon'"},
        {},
        {},
        ("refused its command line", "--daemon"),
    ),
    ({"status": 127}, {}, {}, ("cannot be started inside mirage", "127")),
    ({"status": 139}, {}, {}, ("ended by SIGSEGV",)),
    ({"status": 3}, {}, {}, ("ended with 3",)),
    ({"status": None, "error": "no end within 270 s"}, {}, {}, ("no end within 270 s", "by hand")),
    ({}, {"emulation": ()}, {}, ("nothing in its environment or maps", "/opt/rocm/bin/mirage is mirage")),
    ({}, {"emulation": SIGNS[:3]}, {}, ("in no map", "LD_PRELOAD")),
    ({"stand_in": True}, {}, {}, ("HARNESS_MIRAGE_STANDIN is set", "unset it")),
    (
        {},
        {"version": None, "error": "No module named 'torch'"},
        {},
        ("No module named 'torch'", "gfx950-dcgpu"),
    ),
    ({}, {"version": "2.13.0+cpu", "versions": {}}, {}, ("2.13.0+cpu is no ROCm build",)),
    ({}, {"version": "2.13.0+cu130", "versions": {"cuda": "13.0"}}, {}, ("is no ROCm build",)),
    ({}, {"devices": ()}, {}, ("ended with 0 and torch sees no device", "its ROCm lacks gfx950", "install")),
    ({}, {"devices": devices(count=1)}, {}, ("1 devices of the 2", "unset visibility masks")),
    ({}, {"devices": devices("gfx942")}, {}, ("mi350x is gfx950, the devices are gfx942", "matching pair")),
    ({}, {"arch_list": ("gfx942",)}, {}, ("no kernels for gfx950",)),
    ({}, {"product_norm": 60000.0}, {}, ("wrong bf16 product",)),
]


@pytest.mark.parametrize(("told", "torch", "environment", "words"), REFUSED, ids=[r[3][0] for r in REFUSED])
def test_each_fault_has_its_reason_and_remedy(
    told: dict[str, Any], torch: dict[str, Any], environment: dict[str, str], words: tuple[str, ...]
) -> None:
    """Of a snapshot with one fault, the reason names that fault and what to do."""
    seen = replace(emulating(told, **torch), environment=environment)
    why = RUNNER.decide(from_json(json.loads(json.dumps(to_json(seen))))).why_not
    assert why is not None
    assert [w for w in words if w not in why] == []


def test_a_flag_is_no_sign() -> None:
    """Neither the runner's own flag, nor the program's name, nor a variable alone makes a machine emulated."""
    torch = TorchFacts("2.13.0+rocm7.15", {"hip": "7.15"}, "cuda", devices(), product_norm=65536.0)
    bare = replace(emulating(), torch=torch, emulation=SIGNS, environment={"MIRAGE_SESSION": "s-1"})
    assert "nothing in its environment or maps" in str(RUNNER.decide(bare).why_not)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just(["mi350x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(emulating().emulator)), values))
def test_deciding_is_total(told: dict[str, Any]) -> None:
    """Whatever a snapshot holds of the emulator, deciding ends in a decision."""
    assert isinstance(RUNNER.decide(emulating(told)), Decision)


@given(
    st.sampled_from(sorted(PROFILES)),
    st.integers(1, 64),
    st.integers(1, 9),
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8) | st.just("--"), min_size=1
    ),
)
def test_every_command_line_is_taken(profile: str, count: int, nodes: int, words: list[str]) -> None:
    """The stand-in's strict parser takes every command line, and reads from it what was asked for."""
    command = mirage_command.run_words("mirage", profile, words, devices=count, nodes=nodes)
    asked = parse(command[1:])
    assert (asked.verb, asked.profile, asked.devices, asked.nodes) == ("run", profile, count, nodes)
    assert (asked.command, asked.in_process) == (words, False)
    assert asked.per_node == (count if nodes > 1 else 1)
    assert asked.environment == (mirage_command.BETWEEN_NODES if nodes > 1 else {})


@given(st.text(max_size=4) | st.integers(-5, 100).map(str))
def test_the_number_of_devices_is_read_or_refused(text: str) -> None:
    """A number from 1 to 64 is taken, nothing is 2, and all else is no number."""
    found = mirage_command.settings({"HARNESS_MIRAGE_GPUS": text}).devices
    fit = text.isascii() and text.isdigit() and 1 <= int(text) <= 64
    assert found == (int(text) if fit else 2 if not text else None)


def test_the_program_is_found_under_both_names(tmp_path: Path) -> None:
    """`mirage` before `rocjitsu` on PATH, a path of one's own before both; a variable named empty counts as unset."""
    for name in ("rocjitsu", "mirage"):
        (tmp_path / name).symlink_to(MIRAGE)
        found = mirage_command.settings({"PATH": str(tmp_path), "HARNESS_MIRAGE": ""})
        assert (found.found, found.program, found.name) == (True, str(tmp_path / name), name)
    named = {"PATH": str(tmp_path), "HARNESS_MIRAGE": str(ROCJITSU)}
    assert mirage_command.settings(named).program == str(ROCJITSU)
    assert not mirage_command.settings({"PATH": str(tmp_path), "HARNESS_MIRAGE": "/not/there"}).found
    assert mirage_command.settings({"PATH": "", "HARNESS_MIRAGE_PROFILE": ""}).profile == "mi350x"


def test_the_command_is_the_documented_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One node: the words once. Several: once a device, on each, over the loopback alone."""
    monkeypatch.setenv("HARNESS_MIRAGE", str(MIRAGE))
    monkeypatch.delenv("HARNESS_MIRAGE_PROFILE", raising=False)
    begin = [str(MIRAGE), "run", "--profile", "mi350x", "--gpus-per-node", "2", "--daemon"]
    assert RUNNER.command(["a", "b"], devices=2) == [*begin, "--", "a", "b"]
    several = ["--num-nodes", "3", "--nproc-per-node", "2", "--env", "NCCL_P2P_DISABLE=1", "--env"]
    several += ["NCCL_SHM_DISABLE=1", "--env", "NCCL_SOCKET_IFNAME=lo"]
    assert RUNNER.command(["a"], devices=2, nodes=3) == [*begin, *several, "--", "a"]


MAPS = "7f00-7f01 r-xp 00000000 fe:00 22 {}\n7f02-7f03 rw-p 00000000 00:00 0 [heap]\n"


@pytest.mark.parametrize(
    ("environment", "maps", "signs"),
    [
        ({}, "", ()),
        (
            {"HARNESS_EMULATED": "1", "MIRAGE_CONFIG": "/x", "MIRAGE_SESSION": ""},
            MAPS.format("/lib/libc.so.6"),
            (),
        ),
        (
            {"LD_PRELOAD": "/x/mylibrocjitsu.so", "PATH": "/librocjitsu"},
            MAPS.format("/x/not-librocjitsu.so"),
            (),
        ),
        ({"LD_PRELOAD": "/a.so:librocjitsu.so"}, "", ("LD_PRELOAD: librocjitsu.so",)),
        ({"LD_PRELOAD": "/x y/librocjitsu_kmd.so.1"}, "", ("LD_PRELOAD: librocjitsu.so",)),
        ({}, MAPS.format("/a b/librocjitsu.so"), ("maps: librocjitsu.so",)),
        ({}, MAPS.format("/run/librocjitsu.so (deleted)"), ("maps: librocjitsu.so",)),
        (dict.fromkeys(SESSION, "1"), "", SESSION),
    ],
)
def test_signs_of_emulation(environment: dict[str, str], maps: str, signs: tuple[str, ...]) -> None:
    """Only the emulator's own variables and its library in LD_PRELOAD or in the maps are signs."""
    assert emulation_signs(environment, maps) == signs
    assert (find_library(maps) is not None) == any(s.startswith("maps") for s in signs)


def test_this_process_is_not_emulated() -> None:
    """Nothing here is taken for an emulator."""
    assert emulation_signs({}, Path("/proc/self/maps").read_text()) == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("mirage: session s-1\nerror: no library\nhint: read\n", "no library"),
        ('error: first\n{"error": "second"}\n', "second"),
        ('{"error": \nlast', "last"),
        ("only this", "only this"),
    ],
)
def test_the_programs_own_error_is_found(text: str, line: str) -> None:
    """The JSON form speaks before the plain one, and that before the last line."""
    assert own_error(text) == line


@pytest.mark.parametrize(
    ("status", "started", "kind", "words"),
    [
        (1, False, "infrastructure", "failed itself (exit status 1): why"),
        (1, True, "crash", "left with exit status 1"),
        (2, False, "harness", "refused its command line (exit status 2): why"),
        (3, False, "crash", "the workload of mirage left with exit status 3"),
        (127, False, "crash", "could not start a rank (exit status 127): why"),
        (139, True, "crash", "the workload of mirage was ended by SIGSEGV (exit status 139)"),
        (-9, True, "crash", "mirage was ended by SIGKILL"),
    ],
)
def test_ends_are_told_apart(status: int, started: bool, kind: str, words: str) -> None:
    """The program's own error, a usage error, a rank that cannot start, a signal, and the workload's own status."""
    found, message = emulator.describe_end(status, "mirage", "error: why\n", started)
    assert (found, words in message) == (kind, True)


def frames(*functions: str) -> str:
    told = "".join(f'  File "/p/{f}.py", line {n} in {f}\n' for n, f in enumerate(functions))
    return (
        f"Current thread 0x1 (most recent call first):\n{told}\n\nThread 0x2:\n"
        + '  File "/t", line 1 in broadcast\n'
    )


@pytest.mark.parametrize(
    ("stacks", "place"),
    [
        ([("wait", "all_reduce", "step"), ("all_reduce", "step")], "all_reduce"),
        ([("all_reduce",), ("barrier",)], None),
        ([("all_reduce",), ("step",)], None),
        ([("all_reduce",), None], None),
        ([("_engine_run_backward", "backward"), ("all_reduce",)], "all_reduce or backward"),
        ([("hook", "all_reduce", "_engine_run_backward")], "all_reduce"),
        ([("work",), ("backward",)], "a wait for the device or backward"),
        ([("step",), ("step",)], None),
        ([("backward",), ("step",)], None),
        ([("backward",), None], None),
        ([], None),
    ],
)
def test_where_ranks_stall(stacks: list[tuple[str, ...] | None], place: str | None) -> None:
    """A stall is that every rank waits, and not in different collectives; other threads do not count."""
    texts = [None if s is None else frames(*s) for s in stacks]
    lines = {"/p/work.py": "total = loss.item()"}
    assert emulator.stall(texts, lambda path, line: lines.get(path, "")) == place


def probed(runtime: Path, fault: str = "", **more: str) -> tuple[Snapshot, Decision]:
    given = variables(runtime, HARNESS_MIRAGE=str(MIRAGE), MIRAGE_STANDIN_FAULT=fault, **more)
    seen = RUNNER.probe(sys.executable, given)
    return seen, RUNNER.decide(seen)


def test_probing_the_stand_in(runtime: Path) -> None:
    """All that decides is read from inside the session: devices, signs, library, and that nothing is emulated."""
    seen, found = probed(runtime, HARNESS_MIRAGE_GPUS="3")
    assert (found.why_not, found.stand_in, found.arch, len(found.devices)) == (None, True, "gfx950", 3)
    assert seen.torch is not None
    assert tuple(seen.emulator["inside"]["signs"]) == seen.torch.emulation == SIGNS
    assert str(seen.emulator["library"]).endswith("/librocjitsu.so")
    assert seen.emulation == ()
    assert from_json(json.loads(json.dumps(to_json(seen)))) == seen


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no-library", "run rocm-sdk init"),
        ("old-library", "update the library"),
        ("session", "read the reason"),
        ("mismatch", "install a matching pair"),
        ("no-gpu", "its ROCm lacks gfx950"),
        ("few-gpus", "1 devices of the 2"),
        ("wrong-arch", "the devices are gfx942"),
        ("no-emulation-signs", "nothing in its environment or maps"),
        ("flag-only", "in no map"),
    ],
)
def test_faults_are_found_by_probing(runtime: Path, fault: str, words: str) -> None:
    """Each documented fault, played by the stand-in, ends in the reason with its remedy."""
    found = probed(runtime, fault)[1]
    assert words in str(found.why_not)
    assert found.stand_in


def test_a_program_of_another_kind_is_told(runtime: Path, tmp_path: Path) -> None:
    """A program called mirage that is something else gives a reason and no error."""
    other = tmp_path / "mirage"
    other.write_text("#!/bin/sh\necho something else\n")
    other.chmod(0o755)
    seen = RUNNER.probe(sys.executable, variables(runtime, HARNESS_MIRAGE=str(other)))
    assert "torch gave no answer inside" in str(RUNNER.decide(seen).why_not)


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    """At the time limit the whole group of the program is ended, and the answer says so."""
    done = mirage_probe.run(["sh", "-c", f"sleep 600 & echo $! > {tmp_path}/pid; wait"], os.environ, 0.5)
    assert (done.status, done.why_not) == (None, "no end within 0.5 s")
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: gone(pid))


def test_cleaning_up_after_a_kill(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed session left is gone after `clean_up`."""
    monkeypatch.setenv("HARNESS_MIRAGE", str(MIRAGE))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    process = start(runtime, "run", "--", "sh", "-c", "echo $$; exec sleep 600")
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert Path(f"/proc/{pid}").exists()
    RUNNER.clean_up()
    process.communicate(timeout=60)
    assert call(runtime, "cleanup").stdout == "nothing to clean up\n"
