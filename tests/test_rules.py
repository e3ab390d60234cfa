"""The house rules hold, and each check of them is seen to fail on a planted fault."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rules
from harness import ROOT

KNOWN = rules.modules(ROOT, "harness", "fixtures", "suites")
EDGES = rules.graph(KNOWN)


def test_imports_have_no_cycle() -> None:
    """Imports run one way."""
    assert len(EDGES) > 20
    assert rules.cycle(EDGES) is None


def test_imports_respect_the_rooms() -> None:
    """No room imports what is behind it: judge nothing of the world, fixtures nothing of the harness."""
    assert list(rules.wrong_ways(EDGES)) == []


@pytest.mark.parametrize("room", rules.PURE)
def test_pure_rooms_touch_nothing(room: str) -> None:
    """Pure rooms import neither clock, files, processes nor torch."""
    for name, path in KNOWN.items():
        if rules.below(name, room):
            touched = {i.partition(".")[0] for i in rules.imports(path)} & rules.IMPURE
            assert not touched, f"{name} imports {touched}"


def test_vendor_words_live_in_runners() -> None:
    """Vendor words stand in runners only."""
    found = [
        w for n, p in KNOWN.items() if not rules.below(n, "harness.runners") for w in rules.vendor_words(p)
    ]
    assert found == []


def test_modules_are_short() -> None:
    """A module over 300 lines gives a reason in a line `# long: reason`."""
    for name, path in KNOWN.items():
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 300 or any(line.startswith("# long: ") for line in lines), (
            f"{name}: {len(lines)}"
        )


def test_tests_say_what_they_promise() -> None:
    """Every test function has a docstring."""
    for path in [*ROOT.glob("tests/test_*.py"), *ROOT.glob("suites/*/test_*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                assert ast.get_docstring(node), f"{path.name}: {node.name}"


def test_a_planted_cycle_is_seen(tmp_path: Path) -> None:
    """A cycle through an import inside a function is found and named."""
    (tmp_path / "p").mkdir()
    for name, text in {
        "a": "from p import b",
        "b": "def f():\n    import p.c",
        "c": "from p.a import x",
    }.items():
        (tmp_path / "p" / f"{name}.py").write_text(text)
    assert rules.cycle(rules.graph(rules.modules(tmp_path, "p"))) == ["p.a", "p.b", "p.c", "p.a"]


def test_a_planted_wrong_way_is_seen() -> None:
    """An import against the order is found, also through another module."""
    edges = {
        **EDGES,
        "harness.judge": EDGES["harness.judge"] | {"harness.stats"},
        "harness.stats": {"harness.cli"},
    }
    assert any("harness.judge imports harness.cli" in w for w in rules.wrong_ways(edges))
    assert any("fixtures.x" in w for w in rules.wrong_ways({**EDGES, "fixtures.x": {"harness.records"}}))


@pytest.mark.parametrize(
    ("line", "hits"),
    [
        ("x.to('cuda:0')", 1),
        ("torch.cuda.is_available()", 1),
        ("init(backend='nccl')", 1),
        ("x = 'cuda'  # vendor-ok: the device string of torch", 0),
        ("x = 'cuda'  # vendor-ok:", 1),
        ("chip = 'barracuda'  # cuda", 0),
        ('def f():\n    """On cuda."""', 0),
    ],
)
def test_planted_vendor_words_are_seen(line: str, hits: int, tmp_path: Path) -> None:
    """Names and strings count; comments, docstrings, other words and excused lines do not."""
    path = tmp_path / "m.py"
    path.write_text(line)
    assert len(list(rules.vendor_words(path))) == hits
