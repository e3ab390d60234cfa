"""What a launch costs more than bare torchrun: `python benchmarks/launch_cost.py --pairs 5`.

Both run the same program on two ranks, in pairs of random order. Exit status 1 when the median of
`ours - (1.03 * bare + 0.3)` seconds, each pair for itself, is above 0.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.launch import launch

PROGRAM = Path(__file__).with_name("all_reduces.py")
RANKS = 2


def bare(logs: Path) -> float:
    """Seconds that torchrun takes."""
    environment = {**os.environ, "TMPDIR": str(logs)}  # where torchrun leaves a folder each time
    began = time.perf_counter()
    with (logs / "bare.log").open("wb") as log:
        command = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), str(PROGRAM)]
        subprocess.run([sys.executable, "-m", *command], check=True, stdout=log, stderr=log, env=environment)
    return time.perf_counter() - began


def ours(logs: Path) -> float:
    """Seconds that the launch takes, as its caller sees them."""
    began = time.perf_counter()
    done = launch(PROGRAM, ranks=RANKS, logs=logs, limit_s=600)
    if done.kind is not None:
        raise SystemExit(done.detail)
    return time.perf_counter() - began


def main() -> int:
    """Prints every pair, the medians, the ratio and the overhead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    order = random.Random(options.seed)
    pairs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Callable[[Path], float]] = {"bare": bare, "ours": ours}
        bare(Path(folder))  # the first one also reads torch from the disk
        for _ in range(options.pairs):
            names = order.sample(sorted(ways), 2)
            pair = {name: ways[name](Path(folder)) for name in names}
            pairs.append(pair)
            print(f"{names[0]} first: bare {pair['bare']:.2f} s, ours {pair['ours']:.2f} s", flush=True)
    median = {name: statistics.median(pair[name] for pair in pairs) for name in ways}
    overhead = statistics.median(pair["ours"] - (1.03 * pair["bare"] + 0.3) for pair in pairs)
    print(
        f"median: bare {median['bare']:.2f} s, ours {median['ours']:.2f} s, ratio {median['ours'] / median['bare']:.3f}"
    )
    print(f"overhead = ours - (1.03*bare + 0.3) = {overhead:+.2f} s (median of {len(pairs)} pairs)")
    return int(overhead > 0)


if __name__ == "__main__":
    sys.exit(main())
