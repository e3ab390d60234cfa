"""How often unchanged code is called changed on this machine: `python benchmarks/real_aa.py take FOLDER`, then `tell`.

`take` makes one baseline run of the throughput suite and many head runs of the very same code, each process fresh, one
after the other; ended in the middle, it goes on where it stopped. `tell` judges every head against the baseline as
`harness report` does, counts what was called changed, plants known changes into the measured values to count what is
found, and writes a document and the raw samples.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import ROOT, policy, rundir
from harness.judge_metrics import collect
from harness.policy import Rule, rule_of
from harness.records import Header, Run
from harness.stats import Finding, Series, compare

PLANTED = (1.03, 1.05, 1.10, 1.20)
NEAR = 4
"""So many heads just before one are its other baseline."""


def take(folder: Path, target: str, processes: int, comparisons: int, repeat: int) -> int:
    """Makes the runs that are not there yet; the exit status is 1 when one has a failure."""
    runs = {"base": processes, **{f"head-{n:02d}": repeat for n in range(1, comparisons + 1)}}
    for name, count in runs.items():
        if (folder / name / "run.json").is_file():
            if rundir.load(folder / name).header.finished is not None:
                continue
            shutil.rmtree(folder / name)  # ended in the middle: made again
        command = [sys.executable, "-m", "pytest", "-p", "harness.plugin", "-p", "no:cacheprovider", "-q"]
        command += ["--target", target, "--repeat", str(count), "--run-dir", str(folder / name)]
        done = subprocess.run([*command, "suites/throughput"], cwd=ROOT, capture_output=True, text=True)
        print(f"{name}: {count} processes, status {done.returncode}", flush=True)
        if done.returncode:
            print(done.stdout[-2000:], flush=True)
            return 1
    return 0


@dataclass(frozen=True)
class Row:
    """A judged row: its rule and, of one run, a value a process."""

    rule: Rule
    values: tuple[float, ...]
    kind: str


def rows_of(run: Run, rules: Sequence[Rule]) -> dict[str, Row]:
    """The judged rows of a run by key; controls are not compared."""
    found = {}
    for key, taken in collect(run, rules).items():
        rule = rule_of(rules, taken.metric)
        if rule is not None and taken.values and "test_control" not in key:
            found[key] = Row(rule, tuple(taken.values), taken.kind)
    return found


def joined(each: Sequence[Mapping[str, Row]]) -> dict[str, Row]:
    """Heads taken together, as a baseline."""
    keys = set.intersection(*(set(rows) for rows in each))
    return {
        key: Row(each[0][key].rule, tuple(v for rows in each for v in rows[key].values), each[0][key].kind)
        for key in keys
    }


def judged(
    base: Mapping[str, Row], head: Mapping[str, Row], planted: Mapping[str, float] | None = None
) -> dict[str, Finding]:
    """A finding for each row; `planted`: factors towards worse that the head's values are changed by first."""
    series, keys = [], sorted(set(base) & set(head))
    for key in keys:
        rule = base[key].rule
        factor = (planted or {}).get(key, 1.0)
        factor = factor if rule.lower_is_better else 1 / factor
        values = tuple(v * factor for v in head[key].values)
        series.append(
            Series(base[key].values, values, rule.minimum, rule.lower_is_better, rule.gate, base[key].kind)
        )
    return dict(zip(keys, compare(series), strict=True))


def tell(folder: Path, output: Path, store: Path | None, remark: str) -> int:
    """Writes the document; with `store`, the raw samples as a history."""
    rules = policy.load()
    base_run = rundir.load(folder / "base")
    found_runs = [rundir.load(p) for p in sorted(folder.glob("head-*")) if (p / "run.json").is_file()]
    heads = [run for run in found_runs if run.header.finished is not None]
    base = rows_of(base_run, rules)
    each = [rows_of(run, rules) for run in heads]
    found = [judged(base, head) for head in each]
    power = {
        factor: {
            key: sum(judged(base, head, {key: factor})[key].verdict == "regressed" for head in each)
            for key in base
        }
        for factor in PLANTED
    }
    from real_aa_others import alarms  # numpy and the other tools: not for `take`

    others = alarms(base_run, heads, rules)
    text = document(base_run, heads, base, each, found, power, others, remark)
    output.write_text(text, encoding="utf-8")
    if store is not None:
        from harness import history

        for run in (base_run, *heads):
            print(history.add(folder / run.header.run_id, str(store)))
    print(output)
    return 0


def document(
    base_run: Run,
    heads: Sequence[Run],
    base: Mapping[str, Row],
    each: Sequence[Mapping[str, Row]],
    found: Sequence[Mapping[str, Finding]],
    power: Mapping[float, Mapping[str, int]],
    others: Mapping[str, Sequence[int]],
    remark: str,
) -> str:
    """The document, as markdown."""
    header, n = base_run.header, len(heads)
    verdicts = Counter(f.verdict for report in found for f in report.values())
    alarms, praised = called(found, "regressed"), called(found, "improved")
    near = [
        judged(joined(each[k - NEAR : k]), each[k])
        for k in range(NEAR, n)
        if together(heads[k - NEAR : k + 1])
    ]
    rows = sum(verdicts.values())
    lines = [
        "# Unchanged code against itself, measured",
        "",
        f"`benchmarks/real_aa.py`: {n} comparisons of the throughput suite with itself, on target "
        f"`{header.target.name}`, runner `{header.runner.key}`. One baseline of {header.repeats} processes; then {n} "
        f"heads of {heads[0].header.repeats if heads else 0} processes each, one after the other, of the very same "
        f"code. Each process is fresh. {_where(header, heads)}",
        "",
        "| | |",
        "|---|---|",
        f"| reports with a false alarm (a regression in the gate) | {sum(map(bool, alarms))} of {n} |",
        f"| reports with a false improvement | {sum(map(bool, praised))} of {n} |",
        f"| rows judged | {rows} ({len(base)} a report) |",
        *(f"| rows {word} | {count} ({count / rows:.1%}) |" for word, count in verdicts.most_common()),
        "",
        _alarm_lines(alarms, "false alarms"),
        _alarm_lines(praised, "false improvements"),
        "",
        *_by_head(heads, found),
        *([remark, ""] if remark else []),
        "All heads share one baseline: a baseline that was slow by chance shows in all of them, so these are not as "
        "many independent reports.",
        "",
        f"Each head against the processes of the {NEAR} heads just before it, which ran within the same minutes: "
        f"{sum(map(bool, called(near, 'regressed')))} of {len(near)} reports with a false alarm, "
        f"{sum(map(bool, called(near, 'improved')))} with a false improvement.",
        "",
        "## Other tools on the same runs",
        f"Their own code, as [verdict_rates.md](verdict_rates.md) calls it, on the rows in seconds "
        f"({len(timed(list(base), base))} of the {len(base)}).",
        "",
        "| rule | reports with a false alarm | false alarms a report |",
        "|---|---|---|",
        *(f"| {name} | {sum(map(bool, c))} of {n} | {sum(c) / n:.1f} |" for name, c in others.items()),
        *(
            f"| ours, {heads[0].header.repeats} new processes, {which} | {sum(map(bool, c))} of {n} | "
            f"{sum(map(len, c)) / n:.1f} |"
            for which, c in (("those rows", [timed(keys, base) for keys in alarms]), ("all rows", alarms))
        ),
        "",
        "## By row",
        "`noise`: standard deviation between processes of all heads, relative. `detectable`: the smallest change that "
        "is found with a chance of 0.8, median over the reports. The last columns: a change for the worse of that "
        "size put into the measured values of that row, and how many of the reports found it.",
        "",
        "| row | value | noise | detectable | equivalent | "
        + " | ".join(f"+{f - 1:.0%} found" for f in power)
        + " |",
        "|---|---|---|---|---|" + "---|" * len(power),
    ]
    for key in sorted(base):
        values = [v for head in each if key in head for v in head[key].values]
        detectable = [f.detectable for r in found if key in r and (f := r[key]).detectable is not None]
        same = sum(r[key].verdict == "equivalent" for r in found if key in r)
        noise = statistics.stdev(values) / statistics.mean(values) if len(values) > 1 else 0.0
        smallest = f"{statistics.median(detectable):.1%}" if detectable else "unknown"
        name = key.partition("::")[2]
        counts = " | ".join(f"{power[f][key]}" for f in power)
        lines.append(
            f"| `{name}` | {statistics.median(base[key].values):.4g} | {noise:.1%} | {smallest} | {same} of {n} | {counts} |"
        )
    return "\n".join(lines) + "\n"


def together(heads: Sequence[Run]) -> bool:
    """Whether the runs followed one another without a pause."""
    begins = [datetime.fromisoformat(run.header.started) for run in heads]
    return begins[-1] - begins[0] < timedelta(minutes=3 * len(heads))


def timed(keys: Sequence[str], rows: Mapping[str, Row]) -> list[str]:
    """Those of the keys that are medians in seconds."""
    return [k for k in keys if rows[k].kind == "s" and "@" not in k]


def called(found: Sequence[Mapping[str, Finding]], verdict: str) -> list[list[str]]:
    """The rows of each report that have this verdict."""
    return [[k for k, f in report.items() if f.verdict == verdict] for report in found]


def _by_head(heads: Sequence[Run], found: Sequence[Mapping[str, Finding]]) -> list[str]:
    """A table of the reports that called anything changed."""
    rows = []
    for run, report in zip(heads, found, strict=True):
        for key, f in report.items():
            if f.verdict in ("regressed", "improved"):
                change = (
                    f"{f.change:+.0%} ({f.low:+.0%} to {f.high:+.0%})" if f.change is not None else "unknown"
                )
                name = key.partition("::")[2]
                rows.append(
                    f"| {run.header.run_id} | {run.header.started[11:16]} | `{name}` | {f.verdict} | {change} |"
                )
    return ["| run | at | row | verdict | change |", "|---|---|---|---|---|", *rows, ""] if rows else []


def _alarm_lines(named: Sequence[Sequence[str]], what: str) -> str:
    counts = Counter(k.partition("::")[2] for keys in named for k in keys)
    if not counts:
        return f"No {what}."
    return f"Rows of {what}: " + ", ".join(f"`{k}` ({c})" for k, c in counts.most_common()) + "."


def _where(header: Header, heads: Sequence[Run]) -> str:
    machine = header.machine
    last = heads[-1].header.finished if heads else header.finished
    software = ", ".join(f"{k} {v}" for k, v in sorted(header.software.items()) if v is not None)
    return (
        f"{machine.get('processor')}, {machine.get('cpu_usable')} processors; {software}; harness at "
        f"{(header.harness_commit or 'unknown')[:12]}. From {header.started[:16]} to {(last or 'unknown')[:16]}."
    )


def main() -> int:
    """Takes the runs, or tells what they show."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["take", "tell"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="reference")
    parser.add_argument("--processes", type=int, default=10, help="of the baseline (default: 10)")
    parser.add_argument("--comparisons", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=3, help="processes of a head (default: 3)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "aa_cpu.md")
    parser.add_argument(
        "--remark", default="", metavar="TEXT", help="what else a reader must know; into the document"
    )
    parser.add_argument("--store", type=Path, help="also put the runs into this history")
    options = parser.parse_args()
    if options.what == "take":
        return take(
            options.folder.resolve(),
            options.target,
            options.processes,
            options.comparisons,
            options.repeat,
        )
    return tell(options.folder, options.output, options.store, options.remark)


if __name__ == "__main__":
    raise SystemExit(main())
