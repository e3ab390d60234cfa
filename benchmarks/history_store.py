"""Speed of the history store at 10 million samples: `python benchmarks/history_store.py`.

Makes a store of 1000 runs of 100 tests, 5 repeats and 20 samples (or what the options say), compacts it in a fresh
process, and asks for the latest 30 medians of one metric, each time from the listing on; the first time, told apart,
also starts DuckDB. Exit status 1 when the compaction takes over 60 s or 1 GB, or the question over 50 ms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.history import holdings, query, store
from harness.history.place import Place, kv_metadata, nonce

RUNNER = "cpu-x86_64-1"
LIMITS = {"compaction_s": 60.0, "memory_mb": 1000.0, "latest_30_ms": 50.0}
COMPACT = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[2])
from harness.history import store
from harness.history.place import Place
began = time.perf_counter()
store.compact(Place(sys.argv[1]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"compaction_s": time.perf_counter() - began, "memory_mb": peak * 1024 / 1e6}))
"""


def make(place: Place, runs: int, tests: int, repeats: int, samples: int) -> None:
    """A store of that many runs, each a file of its own as `harness history add` writes it."""
    with place.connect(threads=2) as connection:
        connection.execute(f"""CREATE TABLE many AS SELECT
            format('suites/throughput/test_speed.py::test_speed[{{:04d}}]', t) AS test, 'step_s' AS metric,
            r::INTEGER AS repeat, i::INTEGER AS index, i < 2 AS warmup, 's' AS unit, '{{"samples":4.0}}' AS work,
            'throughput' AS suite, 'passed' AS outcome, 'vitra' AS target, false AS target_dirty, '[]' AS patches,
            NULL::VARCHAR AS defect, 'abcdefabcdef' AS configuration, '{"a" * 40}' AS harness_commit,
            false AS emulated, false AS stand_in, 'box' AS host, 'a processor' AS processor,
            '{{"torch":"2.13.0"}}' AS software
            FROM range({tests}) a(t), range(1, {repeats + 1}) b(r), range({samples}) c(i)""")
        for number in range(runs):
            started = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(hours=number)
            run_id = f"{started:%Y%m%d-%H%M%S}-cpu-{number:06x}"
            held = holdings.Held(run_id, int(started.timestamp()) * 1_000_000, f"{number:016x}")
            noise = "exp(0.01 * sqrt(-2 * ln(1 - random())) * cos(6.283185 * random()))"
            with place.draft(RUNNER) as draft:
                connection.execute(
                    f"COPY (SELECT test, metric, TIMESTAMPTZ '{started.isoformat()}' AS started, '{run_id}' AS run_id, "
                    f"repeat, index, warmup, {noise} AS value, * EXCLUDE (test, metric, repeat, index, warmup), "
                    f"'{number:040x}' AS target_commit FROM many ORDER BY test, repeat, index) TO '{draft}' "
                    f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{harness: '{kv_metadata([held])}'}})"
                )
                place.publish(draft, f"runner={RUNNER}/{holdings.run_name(held, nonce())}")


def megabytes(folder: Path) -> float:
    """What the store's files take, in MB."""
    return sum(p.stat().st_size for p in folder.rglob("*.parquet")) / 1e6


def main() -> int:
    """Prints the figures as JSON; exit status 1 when one is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"runs": 1000, "tests": 100, "repeats": 5, "samples": 20}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--folder", type=Path, help="where to make the store (default: a temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        place = Place(folder)
        make(place, options.runs, options.tests, options.repeats, options.samples)
        before_mb = megabytes(Path(folder))
        root = str(Path(__file__).resolve().parent.parent)
        command = [sys.executable, "-c", COMPACT, folder, root]
        figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        took_ms: list[float] = []
        connection = None
        for number in range(15):
            test = f"suites/throughput/test_speed.py::test_speed[{number * 7 % options.tests:04d}]"
            began = time.perf_counter()
            reader = query.Reader(place, connection)
            values = reader.latest("step_s", test, RUNNER, values=30)
            took_ms.append((time.perf_counter() - began) * 1e3)
            connection = reader.connection
            if len(values) != min(30, options.runs * options.repeats):
                raise SystemExit(f"{test}: {len(values)} values")
        with place.connect() as connection:
            parts = holdings.choose_parts(place.files(connection))
            rows = connection.execute(f"SELECT count(*) FROM {store.relation(place, parts)}").fetchone()[0]
        figures |= {"latest_30_ms": statistics.median(took_ms[1:]), "first_with_start_ms": took_ms[0]}
        figures |= {"rows": rows, "size_before_mb": before_mb, "size_mb": megabytes(Path(folder))}
    print(json.dumps({**{k: round(v, 1) for k, v in figures.items()}, "limits": LIMITS}, indent=1))
    return int(any(figures[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    raise SystemExit(main())
