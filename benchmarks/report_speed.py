"""Speed of judging and reporting many metrics: `python benchmarks/report_speed.py`.

Makes a run of 10,000 metrics (500 tests of 20, in 3 processes of 10 samples) and a baseline of 30 values each. Takes the
time of judge and markdown report in memory; then of whole commands, from files to a report, in turns: `harness report`,
`pytest-benchmark compare` and `pyperf compare_to` on files with the same numbers. Exit status 1 when judge and report
take over 2 s, or another command is less than 10 times slower than ours.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import math
import os
import pstats
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import ROOT, baselines, policy, rundir
from harness.judge import judge
from harness.merging import one
from harness.records import Header, Metric, Record, Run, RunnerInfo, Selection, TargetInfo
from harness.reports import markdown

TESTS, METRICS = 500, 20
PROCESSES, SAMPLES = 3, 10
BASE_RUNS = 10
"""Of 3 processes each: 30 values a metric."""
LIMIT_S, RATIO = 2.0, 10.0
STARTED = datetime(2026, 12, 1, 10, tzinfo=timezone.utc)
CONTROL = "suites/throughput/test_control.py::test_control"


def name_test(number: int) -> str:
    return f"suites/throughput/test_speed.py::test_speed[{number:04d}]"


def name_metric(number: int) -> str:
    return f"part_{number:02d}_s"


def make_run(values: Any, number: int) -> Run:
    """A whole, clean run. `values`: seconds, tests x metrics x processes x samples; `number`: which run."""
    tests, _, processes, _ = values.shape
    records = []
    for process in range(processes):
        for test in range(tests):
            metrics = tuple(
                Metric(name_metric(m), "s", tuple(row[process]), work={"samples": 4.0})
                for m, row in enumerate(values[test].tolist())
            )
            records.append(
                Record(name_test(test), "throughput", "passed", 0.5, metrics=metrics, repeat=process + 1)
            )
        records.append(Record(CONTROL, "throughput", "passed", 0.5, control=True, repeat=process + 1))
    started = STARTED + timedelta(hours=number)
    header = Header(
        run_id=f"{started:%Y%m%d-%H%M%S}-cpu-{number:06x}",
        started=started.isoformat(),
        runner=RunnerInfo("cpu", "x86_64", 1, emulated=False),
        target=TargetInfo("vitra", "c68b65e" + "0" * 33, dirty=False),
        selection=Selection(("throughput",)),
        configuration={"seed": 1},
        machine={"host": "box", "processor": "a processor", "cpu_usable": 2, "memory_bytes": 8 << 30},
        software={"python": "3.11.9", "torch": "2.13.0"},
        harness_commit="a" * 40,
        harness_dirty=False,
        planned=tuple(sorted({r.test for r in records})),
        controls=(CONTROL,),
        finished=started.isoformat(),
        exit_status=0,
        repeats=processes,
    )
    return Run(header, tuple(records))


def draw(tests: int, metrics: int, seed: int) -> tuple[Any, Any]:
    """Base (tests x metrics x runs x processes) and head (tests x metrics x processes x samples), in seconds.

    1 % noise between processes and in them; every hundredth metric of the head is 10 % slower.
    """
    rng = np.random.default_rng(seed)
    level = rng.uniform(-7, 0, (tests, metrics))
    base = np.exp(level[..., None, None] + 0.01 * rng.standard_normal((tests, metrics, BASE_RUNS, PROCESSES)))
    slow = np.where(np.arange(tests * metrics).reshape(tests, metrics) % 100 == 0, np.log(1.1), 0.0)
    process = (level + slow)[..., None] + 0.01 * rng.standard_normal((tests, metrics, PROCESSES))
    head = np.exp(process[..., None] + 0.01 * rng.standard_normal((tests, metrics, PROCESSES, SAMPLES)))
    return base, head


def write_ours(folder: Path, base: Any, head: Any) -> tuple[Run, list[str]]:
    """The run's folder and its baselines, each written by the harness; the run, and the command that reports it."""
    rules = policy.load()
    runs = [make_run(base[:, :, n, :, None], n) for n in range(BASE_RUNS)]
    judged = [(run, judge(run, None, today=STARTED.date(), rules=rules)) for run in runs]
    baselines.accept(folder / "baselines", judged, "made up, to take the time of a report", rules)
    run = make_run(head, BASE_RUNS + 1)
    place = rundir.claim(folder / "run")
    rundir.write_header(place, run.header)
    for process in range(PROCESSES):
        # Without the flush to disk after each record: only reading is timed.
        lines = [
            json.dumps({"type": "record", **rundir.to_json(r)})
            for r in run.records
            if r.repeat == process + 1
        ]
        (place / f"records-repeat-{process + 1}.jsonl").write_text("\n".join(lines) + "\n")
    words = ["report", str(place), "--format", "markdown", "--baselines", str(folder / "baselines")]
    return run, [sys.executable, "-m", "harness.cli", *words, "--output", str(folder / "ours.md")]


def write_pytest_benchmark(folder: Path, base: Any, head: Any) -> list[str]:
    """The values of the base in one file, the head's in another; the command that compares them."""
    return _compare([_save(folder, "pb-base", base), _save(folder, "pb-head", head)])


def write_pytest_benchmark_saved(folder: Path, base: Any, head: Any) -> list[str]:
    """As it saves runs: a file for each of the base's runs, and one of the head; the command that compares them."""
    return _compare(
        [*(_save(folder, f"pb-{n:02d}", base[:, :, n]) for n in range(BASE_RUNS)), folder / "pb-head.json"]
    )


def _compare(files: Sequence[Path]) -> list[str]:
    code = "from pytest_benchmark.cli import main; main()"
    return [sys.executable, "-c", code, "compare", "--group-by=fullname", *map(str, files)]


def _save(folder: Path, name: str, values: Any) -> Path:
    """A file as `--benchmark-json` writes it, with all values in it."""
    from pytest_benchmark import __version__
    from pytest_benchmark.stats import Stats

    found = []
    for test, metrics in enumerate(values.reshape(*values.shape[:2], -1).tolist()):
        for metric, samples in enumerate(metrics):
            stats = Stats()
            for sample in samples:
                stats.update(sample)
            full = f"{name_test(test)}::{name_metric(metric)}"
            about = {
                "group": None,
                "name": full.rpartition("/")[2],
                "fullname": full,
                "params": None,
                "param": None,
            }
            numbers = {**stats.as_dict(), "data": samples, "iterations": 1}
            found.append({**about, "extra_info": {}, "options": {"timer": "perf_counter"}, "stats": numbers})
    content = {"machine_info": {}, "commit_info": {}, "benchmarks": found}
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**content, "datetime": STARTED.isoformat(), "version": __version__}))
    return path


def write_pyperf(folder: Path, base: Any, head: Any) -> list[str]:
    """Two suites as pyperf writes them, a run for each process; the command that compares them."""
    import pyperf

    for name, values in (("base", base.reshape(*base.shape[:2], -1, 1)), ("head", head)):
        found = []
        for test, metrics in enumerate(values.tolist()):
            for metric, runs in enumerate(metrics):
                about = {"name": f"{name_test(test)}::{name_metric(metric)}", "unit": "second"}
                made = [pyperf.Run(run, metadata=about, collect_metadata=False) for run in runs]
                found.append(pyperf.Benchmark(made))
        pyperf.BenchmarkSuite(found).dump(str(folder / f"pyperf-{name}.json"), compact=True)
    files = [str(folder / "pyperf-base.json"), str(folder / "pyperf-head.json")]
    return [sys.executable, "-m", "pyperf", "compare_to", *files]


def take_commands(
    commands: dict[str, list[str]], rounds: int, folder: Path, limit_s: float
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each command, by the clock and of processors, in turns; infinite for one that takes over the limit,
    which is not asked again."""
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            if took[name][-1:] == [(math.inf, math.inf)]:
                continue
            took[name].append(_take(name, command, folder, limit_s))
    return took


def _take(name: str, command: list[str], folder: Path, limit_s: float) -> tuple[float, float]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "output.txt").open("wb") as output, (folder / "errors.txt").open("wb") as errors:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=errors,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return math.inf, math.inf
        clock_s = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = (folder / "errors.txt").read_text()
    if done.returncode not in (0, 1, 3) or "Traceback" in said:
        raise SystemExit(f"{name}: status {done.returncode}: {said[-800:]}")
    return clock_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Prints the figures; exit status 1 when one is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tests", type=int, default=TESTS, help=f"of {METRICS} metrics each (default: {TESTS})"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one command of another tool")
    parser.add_argument(
        "--profile", action="store_true", help="also print where judge and report spend their time"
    )
    options = parser.parse_args()
    base, head = draw(options.tests, METRICS, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run, command = write_ours(folder, base, head)
        figures = take_memory(folder, run, options)
        commands = {"harness report": command}
        missing = []
        writers: dict[str, Callable[[Path, Any, Any], list[str]]] = {
            "pytest-benchmark compare": write_pytest_benchmark,
            f"pytest-benchmark compare of {BASE_RUNS + 1} saved runs": write_pytest_benchmark_saved,
            "pyperf compare_to": write_pyperf,
        }
        for tool, write in writers.items():
            try:
                commands[tool] = write(folder, base, head)
            except ImportError:
                missing.append(f"{tool}: not installed: pip install {tool.partition(' ')[0]}")
        took = take_commands(commands, options.rounds, folder, options.limit)
    clock, work = (
        {tool: statistics.median(v[n] for v in values) for tool, values in took.items()} for n in (0, 1)
    )
    print(
        f"{options.tests * METRICS} metrics, {BASE_RUNS * PROCESSES} values of the base, {PROCESSES} x {SAMPLES} of the head"
    )
    print(
        f"in memory: judge {figures['judge_s']:.2f} s, markdown {figures['render_s']:.2f} s (limit {LIMIT_S} s together)"
    )
    slow = figures["judge_s"] + figures["render_s"] > LIMIT_S
    for tool in commands:
        times, loads = clock[tool] / clock["harness report"], work[tool] / work["harness report"]
        print(
            f"{tool}: {clock[tool]:.2f} s by the clock, {times:.1f} times ours; "
            f"{work[tool]:.2f} s of processors, {loads:.1f} times ours (medians of {len(took[tool])})"
        )
        slow |= tool != "harness report" and times < RATIO
    print("\n".join(missing))
    return int(slow)


def take_memory(folder: Path, run: Run, options: argparse.Namespace) -> dict[str, float]:
    """Median seconds of the judge and of the markdown report, from objects to text."""
    baseline, _ = baselines.find(folder / "baselines", run.header)
    if baseline is None:
        raise SystemExit("the baseline that was just written is not found")
    rules = policy.load()
    took: dict[str, list[float]] = {"judge_s": [], "render_s": []}
    profile = cProfile.Profile()
    for _ in range(options.rounds):
        began = time.perf_counter()
        judgement = judge(run, baseline, today=STARTED.date(), rules=rules)
        between = time.perf_counter()
        text = markdown.render(one(run, judgement))
        took["judge_s"].append(between - began)
        took["render_s"].append(time.perf_counter() - between)
    verdicts = [m.verdict for m in judgement.metrics]
    if len(verdicts) != options.tests * METRICS or not verdicts.count("regressed") or len(text) < 1000:
        raise SystemExit(
            f"not what was asked for: {len(verdicts)} metrics, {verdicts.count('regressed')} regressed"
        )
    if options.profile:
        profile.runcall(
            lambda: markdown.render(one(run, judge(run, baseline, today=STARTED.date(), rules=rules)))
        )
        pstats.Stats(profile).sort_stats("cumulative").print_stats(25)
    return {name: statistics.median(values) for name, values in took.items()}


if __name__ == "__main__":
    raise SystemExit(main())
