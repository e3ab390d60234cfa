"""The command that starts a vendor's container on this machine; pure."""

from __future__ import annotations

from pathlib import Path

from harness.runners.base import Runner
from harness.runners.facts.snapshot import Snapshot

PASSED = (
    *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    *("HSA_NO_SCRATCH_RECLAIM", "HSA_OVERRIDE_GFX_VERSION"),
)
"""Variables that a container needs as the machine has them."""


def container_command(runner: Runner, snapshot: Snapshot, folder: Path) -> list[str]:
    """Words that start the runner's container in `folder`; ValueError when the runner has none.

    Groups are given by number, since a name may be another group inside the image.
    """
    if runner.container is None:
        raise ValueError(f"runner {runner.name} has no container")
    nodes = [n for n in snapshot.nodes if n.exists and n.group and _needed(n.path, runner.container.options)]
    words = ["docker", "run", "--rm", "-it", *runner.container.options]
    for group in sorted({n.group for n in nodes if n.group is not None}):
        words += ["--group-add", str(group)]
    for name in PASSED:
        if name in snapshot.environment:
            words += ["--env", f"{name}={snapshot.environment[name]}"]
    return [
        *words,
        "--volume",
        f"{folder}:{folder}",
        "--workdir",
        str(folder),
        runner.container.image,
        "bash",
    ]


def _needed(path: str, options: tuple[str, ...]) -> bool:
    """Whether the node is one that the options pass on."""
    passed = [o.partition("=")[2] for o in options if o.startswith("--device=")]
    return any(path == p or path.startswith(f"{p}/") for p in passed)
