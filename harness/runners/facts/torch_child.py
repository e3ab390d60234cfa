"""Asks torch about this machine and prints one line: a mark and JSON. A program of its own: it imports nothing of
the harness, and whatever fails is told in `error`; a hang is the caller's time limit."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

MARK = "harness-torch-facts: "
STAND_IN = "HARNESS_MIRAGE_STANDIN"
"""Names a JSON file of devices: this runs inside the harness's own stand-in of an emulator, on a CPU."""

SIZE = 256
SIGNS = ("MIRAGE_SESSION", "ROCJITSU_SESSION", "ROCJITSU_RUNTIME_DIR")
LIBRARY = "librocjitsu"


class Facts:
    """The answers so far, and what went wrong."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {"versions": {}, "devices": []}
        self.errors: list[str] = []

    def ask(self, what: str, question: Callable[[], Any], otherwise: Any = None) -> Any:
        """The answer; `otherwise` and a line in `error` when the question fails."""
        try:
            return question()
        except Exception as error:  # noqa: BLE001 - a driver may raise anything, and the next question is still asked
            first = (str(error).strip().splitlines() or [""])[0]
            self.errors.append(f"{what}: {type(error).__name__}: {first}"[:300])
            return otherwise


def main() -> None:
    """Asks every question apart and prints the answers."""
    facts = Facts()
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a half-installed torch raises OSError, ImportError and others
        facts.errors.append(f"torch cannot be imported: {type(error).__name__}: {error}"[:300])
    else:
        _ask_all(facts, torch)
    facts.values["emulation"] = facts.ask("signs of emulation", emulation_signs, [])
    facts.values["error"] = "; ".join(" ".join(e.split()) for e in facts.errors) or None
    sys.stdout.write(f"\n{MARK}{json.dumps(facts.values)}\n")
    sys.stdout.flush()
    # A runtime that hangs or aborts while it is torn down would spoil an answer that is complete.
    os._exit(0)


def emulation_signs() -> list[str]:
    """Signs of an emulator around this process; right only after the devices were touched."""
    found = [name for name in SIGNS if os.environ.get(name)]
    if LIBRARY in os.environ.get("LD_PRELOAD", ""):
        found.append(f"LD_PRELOAD: {LIBRARY}.so")
    with Path("/proc/self/maps").open(encoding="utf-8", errors="replace") as maps:
        if any(LIBRARY in line for line in maps):
            found.append(f"maps: {LIBRARY}.so")
    return found


def _ask_all(facts: Facts, torch: Any) -> None:
    values, ask = facts.values, facts.ask
    values["version"] = str(torch.__version__)
    versions = values["versions"]
    for name in ("hip", "rocm", "cuda"):
        versions[name] = _text(getattr(torch.version, name, None))
    values["accelerator"] = ask("torch.accelerator", lambda: _accelerator(torch))
    if os.environ.get(STAND_IN):
        values["devices"] = ask("the stand-in's file", lambda: _stand_in_devices(os.environ[STAND_IN]), [])
        values["accelerator"] = "cpu"
    elif ask("torch.cuda.is_available", torch.cuda.is_available, False):
        count = ask("torch.cuda.device_count", torch.cuda.device_count, 0)
        for index in range(count):
            found = ask(f"device {index}", partial(_device, torch, index))
            values["devices"].append(found or {"index": index, "name": "", "failure": facts.errors[-1]})
        for device in values["devices"]:
            _ask_device(facts, torch, device, count)
        versions["nccl"] = ask("collectives", lambda: ".".join(map(str, torch.cuda.nccl.version())))
        values["arch_list"] = ask("torch.cuda.get_arch_list", lambda: list(torch.cuda.get_arch_list()), [])
    elif versions["hip"] or versions["cuda"]:
        # Why there is none: the first allocation says it, is_available does not.
        ask("no device", lambda: torch.zeros(1, device="cuda"))
    dnn = "miopen" if versions["hip"] else "cudnn"
    versions[dnn] = ask(dnn, lambda: _text(torch.backends.cudnn.version()))
    here = "cpu" if os.environ.get(STAND_IN) or not values["devices"] else "cuda:0"
    if here == "cpu":
        values["product_norm"] = ask("product on the CPU", lambda: _product_norm(torch, "cpu"))
    else:
        values["product_norm"] = values["devices"][0].get("product_norm")
    values["flash_sdpa"] = _flash(torch, here)


def _ask_device(facts: Facts, torch: Any, device: dict[str, Any], count: int) -> None:
    index = device["index"]
    if device.get("failure"):
        return
    free = facts.ask(f"free memory of device {index}", lambda: torch.cuda.mem_get_info(index)[0])
    device["free_bytes"] = free
    before = len(facts.errors)
    device["product_norm"] = facts.ask(
        f"product on device {index}", lambda: _product_norm(torch, f"cuda:{index}")
    )
    if len(facts.errors) > before:
        device["failure"] = facts.errors[-1]
    device["peers"] = facts.ask(
        f"peers of device {index}",
        lambda: [n for n in range(count) if n != index and torch.cuda.can_device_access_peer(index, n)],
    )


def _accelerator(torch: Any) -> str | None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None or not accelerator.is_available():
        return None
    return _text(getattr(accelerator.current_accelerator(), "type", None))


def _device(torch: Any, index: int) -> dict[str, Any]:
    seen = torch.cuda.get_device_properties(index)
    pci = None
    if getattr(seen, "pci_bus_id", None) is not None:
        pci = f"{getattr(seen, 'pci_domain_id', 0):04x}:{seen.pci_bus_id:02x}:{getattr(seen, 'pci_device_id', 0):02x}.0"
    # A CUDA build has the attribute too in some versions, with the device's name in it.
    arch = str(getattr(seen, "gcnArchName", "") or "") if getattr(torch.version, "hip", None) else ""
    return {
        "index": index,
        "name": str(seen.name),
        "arch_name": arch or None,
        "capability": [int(seen.major), int(seen.minor)],
        "memory_bytes": int(seen.total_memory),
        "units": int(seen.multi_processor_count),
        "pci": pci,
        "uuid": _text(getattr(seen, "uuid", None)),
    }


def _stand_in_devices(path: str) -> list[dict[str, Any]]:
    told = json.loads(Path(path).read_text(encoding="utf-8"))
    count, arch = int(told.get("devices", 1)), str(told.get("arch", "gfx950"))
    return [
        {
            "index": index,
            "name": str(told.get("name", "AMD Instinct MI350X (stand-in)")),
            "arch_name": f"{arch}:sramecc+:xnack-",
            "capability": [9, 5],
            "memory_bytes": int(told.get("memory_bytes", 288 * 2**30)),
            "free_bytes": int(told.get("memory_bytes", 288 * 2**30)),
            "units": 256,
            "pci": f"0000:{index + 1:02x}:00.0",
            "peers": [n for n in range(count) if n != index],
        }
        for index in range(count)
    ]


def _product_norm(torch: Any, device: str) -> float:
    ones = torch.ones(SIZE, SIZE, dtype=torch.bfloat16, device=device)
    return float((ones @ ones).double().norm())


def _flash(torch: Any, device: str) -> bool | None:
    """Whether torch's flash kernel takes a usual case; what it cannot take raises RuntimeError."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        case = torch.ones(1, 2, 128, 64, dtype=torch.bfloat16, device=device)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            found = torch.nn.functional.scaled_dot_product_attention(case, case, case)
        return bool(abs(float(found.float().mean()) - 1) < 0.01)
    except RuntimeError:
        return False
    except Exception:  # noqa: BLE001 - a torch without these names cannot say
        return None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


if __name__ == "__main__":
    main()
