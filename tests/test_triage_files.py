"""Triage of files: any size in bounded memory, several files, and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import runs
from harness import ROOT
from harness.errors import UsageError
from harness.triage_files import load_signatures, rank_of_path, triage_files

BY_ID = {s.id: s for s in load_signatures()}

MEASURED = """
import re, sys
from pathlib import Path
from harness.triage_files import triage_files
found = triage_files([Path(sys.argv[1])])
peak_kib = re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]  # rusage tells the parent's too
print([f.signature.id for f in found.findings], peak_kib)
"""


@pytest.mark.parametrize("kind", ["lines", "one line", "errors", "ranks"])
def test_memory_is_bounded(kind: str, tmp_path: Path) -> None:
    """A log of 96 MiB is read in far less memory than its size: of lines, of one endless line, of nothing but errors,
    and of ranks without number."""
    path, mib = tmp_path / "large.log", 96
    unit = {
        "lines": b"[rank1]: step 12 loss 0.1234 grad_norm 1.2 lr 1e-5\n",
        "one line": b"step 12 loss 0.1234 |",
        "errors": b"ValueError: x unhandled system error\n" + b"." * 4000 + b"\n",
        "ranks": b"",
    }[kind]
    with path.open("wb") as file:
        if kind == "ranks":
            parts = [
                b"[rank%d]: exitcode  : -9 (pid: 1)%s\n" % (n, b"." * 9000) for n in range(mib << 10 >> 3)
            ]
            file.writelines(parts[: (mib << 20) // 9050])
        else:
            block = unit * ((1 << 20) // len(unit))
            for _ in range(mib):
                file.write(block)
        file.write(b"\nRuntimeError: No HIP GPUs are available\n")
    assert path.stat().st_size > 80 << 20
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    found, _, peak_kib = done.stdout.strip().rpartition(" ")
    assert "S05" in found
    assert int(peak_kib) < 64 << 10


def test_several_files_and_ranks(tmp_path: Path) -> None:
    """Logs of several ranks tell one list: the root cause of one, the consequences of the others, and whose they are."""
    paths = []
    for rank in range(3):
        path = tmp_path / f"rank-{rank}.log"
        path.write_text("step 1\n" * 9 + (BY_ID["S15"] if rank == 1 else BY_ID["S17"]).example + "\n")
        paths.append(path)
    found = triage_files(paths)
    assert [(f.signature.id, f.first.rank, f.ranks, f.count) for f in found.findings][:1] == [
        ("S15", 1, (1,), 1)
    ]
    assert found.findings[1].count == 2
    assert triage_files(list(reversed(paths))).findings == found.findings
    assert found.files == tuple(map(str, paths))


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("logs/rank-3.log", 3),
        ("logs/rank_12.err", 12),
        ("out/rank7.txt", 7),
        ("none_abc/attempt_0/5/stderr.log", 5),
        ("logs/torchrun.log", None),
        ("logs/frank-3.log", None),
        ("2/train.log", None),
    ],
)
def test_rank_of_a_path(path: str, rank: int | None) -> None:
    """A file's name tells the rank as this harness and torchrun name them; any other number does not."""
    assert rank_of_path(Path(path)) == rank


def test_command_finds(tmp_path: Path) -> None:
    """A known cause: exit status 0, the verdict in the first line, the shown line as data, nothing on stderr."""
    path = tmp_path / "a.log"
    path.write_text(
        f"step\n[rank1]: {BY_ID['S17'].example[9:]}\n[rank0]: {BY_ID['S15'].example} {{}} %s [b] $(id)\n"
    )
    done = runs.harness("triage", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    first = done.stdout.splitlines()[0]
    assert first.startswith("S15 (infrastructure, not the target): /dev/shm is full")
    assert "{} %s [b] $(id)" in done.stdout
    assert f"{path}:3, rank 0" in done.stdout
    assert done.stdout.index("S15  root") < done.stdout.index("S17  consequence")
    assert BY_ID["S15"].links[0] in done.stdout


def test_command_in_json(tmp_path: Path) -> None:
    """The JSON form holds the same, as plain values."""
    path = tmp_path / "rank-4.log"
    path.write_text(BY_ID["T11"].example + "\n")
    done = runs.harness("triage", "--format", "json", str(path))
    told = json.loads(done.stdout)
    assert (told["triage"], told["known"], told["infrastructure"]) == (1, True, False)
    finding = told["findings"][0]
    assert (finding["id"], finding["rank"], finding["line_number"], finding["where"]) == ("T11", 4, 1, "code")
    assert finding["links"] == list(BY_ID["T11"].links)


def test_command_finds_nothing(tmp_path: Path) -> None:
    """No known cause: exit status 3, and the last error line of the log."""
    path = tmp_path / "a.log"
    path.write_text("KeyError: 1\nstep\nsomepackage.OddError: what is this\nstep\n")
    done = runs.harness("triage", str(path))
    assert done.returncode == 3
    assert done.stdout.startswith("no known cause; the last error line")
    assert "somepackage.OddError: what is this" in done.stdout
    assert f"{path}:3" in done.stdout
    path.write_text("")
    empty = runs.harness("triage", str(path))
    assert (empty.returncode, empty.stdout) == (3, "no known cause, and no line that looks like an error\n")


def test_command_shows_hints_apart(tmp_path: Path) -> None:
    """A warning that healthy runs print is shown, and is no known cause."""
    path = tmp_path / "a.log"
    path.write_text(BY_ID["S14"].example + "\n")
    done = runs.harness("triage", str(path))
    assert done.returncode == 3
    assert "warnings that healthy runs print as well" in done.stdout


def test_mistakes_in_the_call(tmp_path: Path) -> None:
    """A log that cannot be read is one line that names it, and exit status 2."""
    done = runs.harness("triage", str(tmp_path / "absent.log"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"harness: {tmp_path / 'absent.log'}: no such file; name a log\n"
    with pytest.raises(UsageError, match="is a folder"):
        triage_files([tmp_path])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_file_that_may_not_be_read(tmp_path: Path) -> None:
    """A file without permission is the user's mistake as well."""
    path = tmp_path / "a.log"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(UsageError, match="Permission denied"):
        triage_files([path])


def test_name_of_a_file_is_data(tmp_path: Path) -> None:
    """A file name with escape sequences or bytes that are no text reaches the terminal spelled out."""
    path = tmp_path / os.fsdecode(b"x\x1b[31m\xff.log")
    path.write_text(BY_ID["S05"].example + "\n")
    for form in ("terminal", "json"):
        done = runs.harness("triage", "--format", form, str(path))
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
    told = json.loads(done.stdout)
    shown = str(tmp_path) + "/x\\x1b[31m\\udcff.log"
    assert (told["files"], told["findings"][0]["file"]) == ([shown], shown)


def test_triage_waits_for_nothing_heavy() -> None:
    """Triage needs neither torch, numpy, rich nor pytest."""
    code = (
        "import sys, harness.triage_files as t, harness.triage_report\n"
        "t.load_signatures()\n"
        "print('LOADED', sorted({'torch', 'numpy', 'rich', 'pytest', 'decord'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout
