"""The mirage runner: AMD devices that are emulated. Nothing that is timed here says anything of a device."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.runners.base import Capability, Container, Decision
from harness.runners.facts import archs, deciding, mirage_command, mirage_deciding, mirage_probe, probe
from harness.runners.facts.snapshot import Snapshot, TorchFacts

EMULATED = "emulated: no time measured here says anything of a device"


class MirageRunner:
    """Devices are those of a session that `mirage run` makes for each launch and ends with it.

    The device string is `cuda` and the collective back end `nccl`, as torch names them on ROCm; behind the stand-in of
    the harness they are `cpu` and `gloo`.
    """

    name = "mirage"
    emulated = True
    torch_build = "rocm"
    wheel_index: str | None = mirage_deciding.INDEX
    container: Container | None = None
    recorded: Sequence[str] = (
        *("MIRAGE_*", "ROCJITSU_*", "HARNESS_MIRAGE*", "XDG_RUNTIME_DIR"),
        *("HIP_*", "HSA_*", "ROCR_*", "ROCM_*", "NCCL_*", "RCCL_*", "CUDA_VISIBLE_DEVICES", "PYTORCH_*"),
        *("OMP_NUM_THREADS", "LD_PRELOAD"),
    )
    time_factor = 10.0
    suites: Sequence[str] | None = ("preflight", "collectives", "fsdp")

    def probe(self, python: str, environment: Mapping[str, str]) -> Snapshot:
        seen = probe.collect_machine(environment, self.recorded)
        wanted = mirage_command.settings(environment)
        trouble = _make_runtime_folder() if not environment.get("XDG_RUNTIME_DIR") else None
        told, torch = mirage_probe.collect_emulator(wanted, python, _with_defaults(environment))
        if trouble and told["program"]:
            told["error"] = trouble
        return replace(seen, torch=torch, emulator=told)

    def decide(self, seen: Snapshot) -> Decision:
        told, torch = seen.emulator, seen.torch or TorchFacts()
        stand_in = bool(told.get("stand_in")) or "stand-in" in str(told.get("version") or "")
        backend = seen.environment.get(mirage_command.BACKEND) or mirage_deciding.BACKENDS[0]
        device, backend = ("cpu", "gloo") if stand_in else ("cuda", backend)
        version = str(told.get("version") or "").partition(" ")[2] or None
        software = {
            "mirage": version,
            "driver": None,
            "rocm": torch.versions.get("rocm"),
            "hip": torch.versions.get("hip"),
            "collectives": torch.versions.get("nccl") if backend == "nccl" else None,
        }
        why_not = mirage_deciding.why_not(seen)
        if why_not is not None:
            return Decision(
                why_not,
                software=software,
                device=device,
                collective_backend=backend,
                absent=not told.get("version"),
                stand_in=stand_in,
            )
        devices = tuple(
            # Without a PCI id of its own no model is known, so no peak figure either.
            deciding.device_of(d.index, archs.gfx_of(d.arch_name) or "", d, None)
            for d in torch.devices
        )
        rocm = archs.version_of(torch.versions.get("rocm")) or archs.version_of(torch.versions.get("hip"))
        capabilities = deciding.capabilities_of(devices, torch, rocm)
        # An emulator may lack what its device has: that skips a test, and says nothing of the device.
        capabilities = {name: replace(c, required=False) for name, c in capabilities.items()}
        capabilities["timing"] = Capability(False, EMULATED)
        capabilities["peer_to_peer"] = Capability(
            False, "emulated devices reach each other through sockets (NCCL_P2P_DISABLE=1)"
        )
        if stand_in:
            capabilities["bf16"] = Capability(True, "stand-in: ranks run on the CPU, where torch computes it")
            capabilities["fp8"] = Capability(
                False, "stand-in: ranks run on the CPU, where torch has no fp8 product"
            )
            capabilities["float64"] = Capability(True, "stand-in: ranks run on the CPU")
        capabilities["bf16"] = replace(capabilities["bf16"], required=capabilities["bf16"].there)
        notes = [f"profile {told.get('profile')}: emulated, never compared with silicon"]
        if stand_in:
            notes.append(
                "the harness's own stand-in: nothing is emulated, ranks run on the CPU; proves the harness alone"
            )
        return Decision(
            None, devices, capabilities, software, tuple(notes), device, backend, stand_in=stand_in
        )

    def environment(self, decision: Decision) -> Mapping[str, str]:
        return {"OMP_NUM_THREADS": "1", "XDG_RUNTIME_DIR": str(_runtime_folder())}

    def pin(self, devices: Sequence[int]) -> Mapping[str, str]:
        return {}  # a session has as many devices as its ranks need

    def command(self, words: Sequence[str], *, devices: int, nodes: int = 1) -> list[str]:
        wanted = mirage_command.settings(os.environ)
        return mirage_command.run_words(wanted.program, wanted.profile, words, devices=devices, nodes=nodes)

    def synchronize(self) -> None:
        # Ranks that must end their device work do so in the emulator; no time is measured here.
        return None

    def clean_up(self) -> None:
        wanted = mirage_command.settings(os.environ)
        if wanted.found:
            mirage_probe.run(
                [wanted.program, "cleanup"], _with_defaults(os.environ), mirage_probe.ASK_LIMIT_S
            )


def _runtime_folder() -> Path:
    # Not the temporary folder of the user's choice, which may be long: sockets end at 107 bytes.
    return Path(f"/tmp/hm-{os.getuid()}")


def _with_defaults(environment: Mapping[str, str]) -> dict[str, str]:
    given = dict(environment)
    if not given.get("XDG_RUNTIME_DIR"):
        given["XDG_RUNTIME_DIR"] = str(_runtime_folder())
    return given


def _make_runtime_folder() -> str | None:
    """Makes the folder of this user's sockets; why it cannot be used."""
    folder = _runtime_folder()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        return f"{folder}: {error.strerror}; set XDG_RUNTIME_DIR to a folder of your own"
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        return f"{folder} is not this user's own; set XDG_RUNTIME_DIR to a folder of your own"
    return None


RUNNER = MirageRunner()
