"""Makes the repository's own packages importable, and keeps hypothesis reproducible under CI."""

from __future__ import annotations

import os
import sys

from hypothesis import HealthCheck, settings

from harness import ROOT

sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("own", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.load_profile("own")
