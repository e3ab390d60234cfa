"""Tokens and keys of the environment never reach a run folder."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runs
from harness import ROOT, redaction

VALUE = "hf_abcdefghijklmnop"


def test_no_secret_reaches_the_run_folder(tmp_path: Path) -> None:
    """A target that prints, raises and logs a token leaves it in no file of the run folder, nor does the call."""
    text = """
import os, pathlib
def test_control(): pass
PROGRAM = pathlib.Path(__file__).parent / "child_leaks.py"
PROGRAM.write_text("import os\\nfrom harness.child import serve\\n"
    "def leak(): print(os.environ['HF_TOKEN'] * 3, flush=True); raise OSError(os.environ['HF_TOKEN'])\\n"
    "serve({'leak': leak})\\n")
def test_leaks(ask): ask(PROGRAM, "leak", {"do": "leak"})
def test_asserts(): assert os.environ["WANDB_API_KEY"] == "other"
def test_fails(record): record.fail("exception", os.environ["HF_TOKEN"], "x" + os.environ["HF_TOKEN"])
"""
    variables = {"HF_TOKEN": VALUE, "WANDB_API_KEY": "wandb-0123456789"}
    done = runs.made_up(tmp_path, text, "-k", f"not {VALUE}", variables=variables)
    assert len(done.run.records) == 4
    held = [p for p in done.folder.rglob("*") if p.is_file()]
    assert any("leaks" in p.name for p in held)
    for path in held:
        content = path.read_bytes()
        assert VALUE.encode() not in content, path
        assert b"wandb-0123456789" not in content, path
    assert "[HF_TOKEN]" in str(done.run.records)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HF_TOKEN", VALUE, True),
        ("AWS_SECRET_ACCESS_KEY", VALUE, True),
        ("wandb_api_key", VALUE, True),
        ("GITHUB_TOKEN", "short", False),
        ("SSH_KEY_FILE", "/home/me/.ssh/id", False),
        ("TOKENIZERS_PARALLELISM", "false-or-so", False),
        ("MONKEY", VALUE, False),
        ("KEYBOARD", VALUE, False),
        ("PATH", "/usr/bin:/bin", False),
        ("DB_PASSWORD", "p4ssw0rd, long", True),
    ],
)
def test_what_counts_as_secret(name: str, value: str, secret: bool) -> None:
    """Variables named for tokens, keys and passwords are secret; look-alikes, paths and short words are not."""
    assert bool(redaction.find({name: value})) is secret


@given(st.text(min_size=8), st.lists(st.text(), min_size=1, max_size=5))
def test_no_secret_is_left(secret: str, parts: list[str]) -> None:
    """Wherever a secret stands in a text, also twice in a row, it is gone afterwards."""
    text = secret.join(parts) + secret + secret
    named = {secret: "\x00"}
    assert secret not in redaction.redact(text, named) or secret in "[\x00]" * 9


def test_secrets_across_blocks_are_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that lies across two blocks of a large log is overwritten, and the rest stays as it was."""
    monkeypatch.setattr(redaction, "_BLOCK", 64)
    for place in range(40, 90):
        path = tmp_path / f"{place}.log"
        content = b"." * place + VALUE.encode() + b"\xff" * 50
        path.write_bytes(content)
        assert redaction.redact_files([path], {VALUE: "HF_TOKEN"}) == [path]
        assert path.read_bytes() == content.replace(VALUE.encode(), b"*" * len(VALUE))


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link in the logs that leads elsewhere changes nothing there."""
    (tmp_path / "other").write_text(VALUE)
    (tmp_path / "link").symlink_to(tmp_path / "other")
    assert redaction.redact_files([tmp_path / "link"], {VALUE: "HF_TOKEN"}) == []
    assert (tmp_path / "other").read_text() == VALUE


def _loads(source: str) -> list[int]:
    """Lines that unpickle without `weights_only=True`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "torch.load",
            "pickle.load",
            "pickle.loads",
        ):
            safe = any(
                k.arg == "weights_only" and isinstance(k.value, ast.Constant) and k.value.value is True
                for k in node.keywords
            )
            if not safe:
                found.append(node.lineno)
    return found


def test_nothing_is_unpickled() -> None:
    """No file is loaded with a loader that runs what stands in it."""
    for path in [p for room in ("harness", "suites", "fixtures") for p in (ROOT / room).rglob("*.py")]:
        assert _loads(path.read_text(encoding="utf-8")) == [], path
    assert _loads("torch.load(f)\ntorch.load(f, weights_only=True)\npickle.loads(b)") == [1, 3]


def _shells(source: str) -> list[int]:
    """Lines that give text to a shell or run it as a program."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            shell = any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords)
            if shell or name in ("os.system", "os.popen", "eval", "exec", "subprocess.getoutput"):
                found.append(node.lineno)
    return found


def test_no_text_reaches_a_shell() -> None:
    """Logs and names are data: nothing is given to a shell, nor evaluated."""
    for path in [p for room in ("harness", "suites", "fixtures") for p in (ROOT / room).rglob("*.py")]:
        assert _shells(path.read_text(encoding="utf-8")) == [], path
    assert _shells("run(x, shell=True)\nos.system(x)\nrun(x)\neval(x)") == [1, 2, 4]
