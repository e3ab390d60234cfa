"""Makes the repository's own packages importable; hypothesis is reproducible under CI, but for a seed in HARNESS_EXPLORE."""

from __future__ import annotations

import os
import sys

from hypothesis import HealthCheck

from harness import ROOT, exploring

sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
exploring.load_profile(
    "own",
    exploring.read_seed(os.environ),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
