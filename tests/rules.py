"""The house rules that can be read off the source: who imports whom, and where vendor words may stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

VENDOR = re.compile(r"(?<![a-z])(cuda|hip|rocm|nccl|rccl|nvidia|amd)(?![a-z])", re.IGNORECASE)

FORBIDDEN = {
    # A room, and what it may never import from the harness, directly or not.
    "harness.judge": {
        "harness.rundir",
        "harness.plugin",
        "harness.cli",
        "harness.baselines",
        "harness.reports",
    },
    "harness.records": {
        "harness.rundir",
        "harness.judge",
        "harness.plugin",
        "harness.cli",
        "harness.runners",
    },
    "harness.reports": {"harness.rundir", "harness.plugin", "harness.cli", "harness.baselines"},
    "harness.report_parts": {"harness.rundir", "harness.plugin", "harness.cli", "harness.baselines"},
    "harness.plugin": {"harness.cli", "harness.judge", "harness.baselines", "harness.reports"},
    "harness.cli": {"harness.plugin"},
    "harness.runners": {"harness.targets", "harness.plugin", "harness.cli", "harness.rundir"},
    "harness.targets": {"harness.plugin", "harness.cli", "harness.rundir", "harness.judge"},
    "fixtures": {"harness"},
}
PURE = (
    "harness.errors",
    "harness.records",
    "harness.matching",
    "harness.verdicts",
    "harness.merged",
    "harness.merging",
    "harness.matrix",
    "harness.report_parts",
    "harness.judge",
    "harness.judge_words",
    "harness.judge_metrics",
    "harness.judge_pairs",
    "harness.pairs",
    "harness.pair_words",
    "harness.rates",
    "harness.cost",
    "harness.estimates",
    "harness.buying",
    "harness.buy_costs",
    "harness.buy_forms",
    "harness.buy_joining",
    "harness.buy_page",
    "harness.buy_quality",
    "harness.buy_taking",
    "harness.buy_words",
    "harness.quantities",
    "harness.baseline_diff",
    "harness.parity",
    "harness.progress",
    "harness.progress_text",
    "harness.triage",
    "harness.triage_lines",
    "harness.triage_prefilter",
    "harness.triage_signatures",
    "harness.triage_report",
    "harness.reports",
)
IMPURE = {
    "os",
    "time",
    "subprocess",
    "pathlib",
    "shutil",
    "tempfile",
    "socket",
    "torch",
    "decord",
    "numpy",
    "random",
}


def modules(root: Path, *packages: str) -> dict[str, Path]:
    """Modules below the named packages, by dotted name."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> set[str]:
    """Every name a module imports, wherever the import stands, but not what is imported for types alone."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and isinstance(test.test, ast.Name) and test.test.id == "TYPE_CHECKING"
        for node in ast.walk(test)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{a.name}" for a in node.names}
    return found


def graph(known: dict[str, Path]) -> dict[str, set[str]]:
    """Which known modules each one imports; importing a module imports its packages, but names no edge to them."""
    return {name: {i for i in imports(path) if i in known and i != name} for name, path in known.items()}


def cycle(edges: dict[str, set[str]]) -> list[str] | None:
    """One cycle of the graph, as the modules on it; None when there is none."""
    done: set[str] = set()

    def visit(name: str, way: list[str]) -> list[str] | None:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return None
        for other in sorted(edges.get(name, ())):
            if (found := visit(other, [*way, name])) is not None:
                return found
        done.add(name)
        return None

    for name in sorted(edges):
        if (found := visit(name, [])) is not None:
            return found
    return None


def below(name: str, room: str) -> bool:
    return name == room or name.startswith(f"{room}.")


def reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        for other in edges.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def wrong_ways(edges: dict[str, set[str]]) -> Iterator[str]:
    """Imports that run against the rooms' order, in words."""
    for room, forbidden in FORBIDDEN.items():
        for name in edges:
            if below(name, room):
                for other in sorted(reachable(edges, name)):
                    if any(below(other, f) and not below(other, room) for f in forbidden):
                        yield f"{name} imports {other}, which {room} may not"


def vendor_words(path: Path) -> Iterator[str]:
    """Vendor words in names and strings of a module, docstrings apart, unless the line carries `# vendor-ok: reason`."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    tree = ast.parse(text)
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        words: list[str] = []
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            words = [node.value]
        elif isinstance(node, ast.Name):
            words = [node.id]
        elif isinstance(node, ast.Attribute):
            words = [node.attr]
        elif isinstance(node, ast.keyword) and node.arg:
            words = [node.arg]
        for word in words:
            if VENDOR.search(word) and not re.search(r"# vendor-ok: \w+", lines[node.lineno - 1]):
                yield f"{path.name}:{node.lineno}: {word!r}"
