"""What probing saw of a machine: plain data with a JSON form, the only thing that deciding looks at; pure."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar


@dataclass(frozen=True)
class TorchDevice:
    """One accelerator as torch tells it. `memory_bytes` is all of it; `free_bytes` what no process holds."""

    index: int
    name: str
    arch_name: str | None = None
    """`gcnArchName`, for example `gfx942:sramecc+:xnack-`; None where torch has none (CUDA builds)."""

    capability: tuple[int, int] | None = None
    memory_bytes: int | None = None
    free_bytes: int | None = None
    units: int | None = None
    """Streaming multiprocessors or compute units."""

    pci: str | None = None
    """As `0000:c1:00.0`."""

    peers: tuple[int, ...] | None = None
    """Devices that it can read directly; None when torch could not say."""

    uuid: str | None = None
    product_norm: float | None = None
    """As in TorchFacts, computed on this device; None when it was not asked or could not."""

    failure: str | None = None
    """Why it could not compute the product; None when it could or was not asked."""


@dataclass(frozen=True)
class TorchFacts:
    """What a child process with torch saw. `versions`: hip, rocm, cuda, nccl, cudnn, miopen by name, absent as None."""

    version: str | None = None
    versions: Mapping[str, str | None] = field(default_factory=dict)
    accelerator: str | None = None
    """Type of torch.accelerator's device, for example `cuda`; None when there is none."""

    devices: tuple[TorchDevice, ...] = ()
    arch_list: tuple[str, ...] = ()
    """What the wheel holds kernels for, for example `gfx942` or `sm_90`."""

    product_norm: float | None = None
    """Norm of a bfloat16 product of two 256 x 256 matrices of ones on device 0, else on the CPU; right is 65536."""

    flash_sdpa: bool | None = None
    error: str | None = None
    """Why this could not be told, or what torch said when it was asked; None when all went well."""

    emulation: tuple[str, ...] = ()
    """Signs of an emulator seen inside the child, for example `ROCJITSU_RUNTIME_DIR` or `maps: librocjitsu.so`."""


@dataclass(frozen=True)
class ToolDevice:
    """One device as the vendor's tool or the kernel tells it; unknown is None."""

    index: int
    arch: str | None = None
    """Silicon as the kernel names it, for example `gfx942` from the kfd topology."""

    name: str | None = None
    pci: str | None = None
    device_id: str | None = None
    """PCI device id, for example `0x74a1`."""

    memory_bytes: int | None = None
    used_bytes: int | None = None
    firmware: Mapping[str, str] = field(default_factory=dict)
    """By block, for example `mec: 177`."""

    power_cap_w: float | None = None
    power_cap_default_w: float | None = None
    clock_limits: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    """What others run on it, as `pid name`."""

    errors: tuple[str, ...] = ()
    """Uncorrectable memory errors, retired pages, and the like, as the tool words them."""

    vendor: str | None = None
    """`nvidia` or `amd`."""

    uuid: str | None = None
    units: int | None = None
    """Compute units, as the kernel counts them."""

    partition: str | None = None
    """How a device is divided, for example `MIG` or `CPX/NPS4`; None when it is whole or this is unknown."""


@dataclass(frozen=True)
class Node:
    """A path of the machine: whether it is there, may be read and written, and who owns it by number."""

    path: str
    exists: bool
    readable: bool = False
    writable: bool = False
    group: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """All that was seen; unknown is None or empty. Bytes are bytes, versions are text as the machine gave it."""

    system: str
    machine: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """Only variables that decide something here (masks, HSA_*, NCCL_*, ...), never a secret."""

    torch: TorchFacts | None = None
    """None when the interpreter has no torch or it was not asked."""

    tools: Mapping[str, str] = field(default_factory=dict)
    """Version by vendor tool or driver: `nvidia-smi`, `amd-smi`, `driver`, `rocm`, `cuda`, `mirage`."""

    devices: tuple[ToolDevice, ...] = ()
    nodes: tuple[Node, ...] = ()
    """/dev/kfd, /dev/dri/renderD*, /dev/nvidiactl, ..."""

    groups: tuple[int, ...] = ()
    uid: int | None = None
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    shm_stale: tuple[str, ...] = ()
    """Left-over segments of dead processes in /dev/shm."""

    disk_free_bytes: int | None = None
    memory_bytes: int | None = None
    kernel: Mapping[str, str] = field(default_factory=dict)
    """`cmdline`, `numa_balancing`, `release`, `cgroup_memory_bytes`."""

    container: str | None = None
    """`docker`, `podman`, ... when this runs inside a container."""

    programs: Mapping[str, str | None] = field(default_factory=dict)
    """Path by program looked for (`mirage`, `rocjitsu`, `ffmpeg`, `amd-smi`, ...); None when absent."""

    packages: Mapping[str, str | None] = field(default_factory=dict)
    """Version by Python distribution; None when absent."""

    emulation: tuple[str, ...] = ()
    """Signs of an emulator around this very process."""

    emulator: Mapping[str, Any] = field(default_factory=dict)
    """What the mirage runner asked of its program: `program`, `profiles`, `stand_in`, `library`, `error`."""

    notes: tuple[str, ...] = ()
    """What could not be read and why, for example a tool that gave no answer in time."""


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as JSON values; `from_json` gives it back."""
    return dataclasses.asdict(snapshot)


T = TypeVar("T")


def from_json(data: Mapping[str, Any]) -> Snapshot:
    """The snapshot of `to_json`; unknown keys are left out; ValueError when a needed one is missing."""
    return _read(Snapshot, data)


def torch_from_json(data: Mapping[str, Any]) -> TorchFacts:
    """The facts that the child printed."""
    return _read(TorchFacts, data)


def _read(kind: type[T], data: Mapping[str, Any]) -> T:
    """A dataclass from the JSON values of `dataclasses.asdict`."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{kind.__name__}: a JSON object is needed, not {data!r:.60}")
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for field_ in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field_.name in data:
            values[field_.name] = _value(hints[field_.name], data[field_.name])
        elif field_.default is dataclasses.MISSING and field_.default_factory is dataclasses.MISSING:
            raise ValueError(f"{kind.__name__}: {field_.name} is missing")
    return kind(**values)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(a for a in typing.get_args(hint) if a is not type(None))
    if dataclasses.is_dataclass(hint):
        return _read(hint, value)  # type: ignore[arg-type]
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_value(inner, v) for v in value)
    if typing.get_origin(hint) is Mapping:
        inner = typing.get_args(hint)[1]
        return {str(k): _value(inner, v) for k, v in dict(value).items()}
    return value
