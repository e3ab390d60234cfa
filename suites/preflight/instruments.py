"""How the preflight touches the machine: each act under a name of its own, so that a defect can take its place."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.targets.base import TargetSpec, load

_EMULATOR = "librocjitsu"
_STAND_IN = "HARNESS_MIRAGE_STANDIN"
"""Names the file in which the harness's own stand-in of an emulator says which devices it stands for."""

_SHARED = Path("/dev/shm")


class Instruments:
    """The acts, sound."""

    def devices(self) -> list[dict[str, str | None]]:
        """What torch sees: architecture and identity of each device; on a CPU the processor and this process."""
        import torch

        if told := os.environ.get(_STAND_IN):
            stood_for = json.loads(Path(told).read_text(encoding="utf-8"))
            count, arch = int(stood_for.get("devices", 1)), str(stood_for.get("arch", "gfx950"))
            return [{"arch": arch, "identity": f"stand-in {n}"} for n in range(count)]
        if not torch.accelerator.is_available():
            return [{"arch": platform.machine(), "identity": f"process {os.getpid()}"}]
        kind = torch.accelerator.current_accelerator().type
        module = torch.get_device_module(kind)
        seen = [module.get_device_properties(n) for n in range(torch.accelerator.device_count())]
        return [{"arch": _arch(s), "identity": _identity(s, n)} for n, s in enumerate(seen)]

    def emulation(self) -> list[str]:
        """Signs of an emulator around this process."""
        found = [
            n for n in ("MIRAGE_SESSION", "ROCJITSU_SESSION", "ROCJITSU_RUNTIME_DIR") if os.environ.get(n)
        ]
        if _EMULATOR in os.environ.get("LD_PRELOAD", ""):
            found.append("LD_PRELOAD")
        with contextlib.suppress(OSError):
            if _EMULATOR in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"):
                found.append("maps")
        return found

    def multiply(self, a: Any, b: Any) -> Any:
        return a @ b

    def to_device(self, values: Any, device: str) -> Any:
        return values.to(device, copy=True)

    def to_host(self, values: Any) -> Any:
        return values.to("cpu", copy=True)

    def all_reduce(self, values: Any) -> None:
        import torch.distributed as dist

        dist.all_reduce(values)

    @contextlib.contextmanager
    def shared(self, count: int) -> Iterator[int]:
        """Holds a segment of so many bytes of shared memory, all of it really there; gives its size."""
        path = _SHARED / f"harness-preflight-{os.getpid()}"
        with path.open("xb") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, count)
                yield os.fstat(file.fileno()).st_size
            finally:
                path.unlink(missing_ok=True)

    def store(self, path: Path, data: bytes) -> None:
        """Writes a file through to the disk."""
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def decode(self, path: str, indices: Sequence[int]) -> Any:
        """Frames of a video, uint8 of shape (N, height, width, 3)."""
        import decord

        return decord.VideoReader(path, num_threads=1).get_batch(list(indices)).asnumpy()

    def ffmpeg(self) -> str:
        """First line of what the ffmpeg of the fixtures says of itself."""
        import imageio_ffmpeg

        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.partition("\n")[0]

    def snapshot(self, seen: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the doctor is given of the session's look at the machine."""
        return seen


def _arch(seen: Any) -> str:
    # Some builds hold the device's name in the attribute that others have for the architecture.
    found = re.match(r"gfx[0-9a-f]+", str(getattr(seen, "gcnArchName", "")))
    return found[0] if found else f"sm_{seen.major}{seen.minor}"


def _identity(seen: Any, number: int) -> str:
    place = [getattr(seen, n, None) for n in ("uuid", "pci_domain_id", "pci_bus_id", "pci_device_id")]
    return " ".join(str(p) for p in place if p is not None) or f"number {number}"


def instruments(spec: TargetSpec) -> Any:
    """The instruments with the planted defect in force. The target is loaded for that alone: a machine has none."""
    sound = Instruments()
    wrap = getattr(load(spec), "instruments", None) if spec.defect is not None else None
    return wrap(sound) if wrap else sound
