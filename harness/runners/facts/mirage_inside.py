"""Runs inside an emulator's session: prints one line of what is seen there, then runs the program that it is given.

python mirage_inside.py torch_child.py
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path

MARK = "harness-mirage-inside: "


def main() -> None:
    """The line is MARK and JSON: `signs`, `library`, `stand_in`."""
    folder = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != folder]  # it must shadow no module
    sys.path.append(str(folder.parents[2]))
    from harness.runners.facts.emulation import emulation_signs, find_library

    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    told = {
        "signs": emulation_signs(os.environ, maps),
        "library": find_library(maps),
        "stand_in": bool(os.environ.get("HARNESS_MIRAGE_STANDIN")),
    }
    sys.stdout.write(f"\n{MARK}{json.dumps(told)}\n")
    sys.stdout.flush()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
