"""A session that launches: `session.py LOGS PROGRAM ARGUMENTS`; says what became of it."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.launch import launch

try:
    done = launch(Path(sys.argv[2]), sys.argv[3:], ranks=2, logs=Path(sys.argv[1]), limit_s=300)
    print(done.message)
except KeyboardInterrupt:
    print("interrupted", flush=True)
