"""`harness parity`: traces from files and run folders, exit statuses, and what is no trace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_header, make_record
from harness import ROOT, cli, rundir, traces
from harness.errors import HarnessError
from harness.records import Trace

DATA = ROOT / "tests" / "data" / "loss_traces"
OLD = DATA / "llama3_cuda-2026-03-06-e51e914dc.json"
SAME = DATA / "llama3_rocm-2026-03-09-6d37d460d.json"
NEW = DATA / "llama3_cuda-2026-06-09-169545712.json"
PLACEHOLDER = DATA / "llama3_rocm-2025-12-15-f64bbad4e.json"
EXPERTS = DATA / "qwen3_moe_cuda-2026-04-29-4e48ebec3.json"
TEST = "suites/smoke/test_loss.py::test_loss[a:b-1]"


def call(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `harness parity`."""
    status = cli.main(["parity", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def losses(path: Path = OLD) -> list[float]:
    values: list[float] = json.loads(path.read_text())["loss"]
    return values


def write(path: Path, **changes: Any) -> Path:
    """A trace file like OLD with fields changed; a field that is None is left out."""
    data = {**json.loads(OLD.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in data.items() if v is not None}))
    return path


def make_run(folder: Path, *found: Trace, emulated: bool = False, test: str = TEST) -> Path:
    """A run folder with one record that holds these traces."""
    rundir.claim(folder)
    rundir.write_header(folder, make_header(runner={"emulated": emulated}))
    writer = rundir.Writer(folder, "main")
    writer.append(make_record(test, traces=found))
    writer.append(make_record("suites/smoke/test_loss.py::test_none"))
    writer.close()
    return folder


@pytest.mark.parametrize(
    ("a", "b", "status", "word", "step"),
    [
        (OLD, SAME, 0, "agree", None),
        (OLD, NEW, 1, "differ", 1),
        (OLD, PLACEHOLDER, 3, "inconclusive", 1),
        (PLACEHOLDER, PLACEHOLDER, 3, "inconclusive", None),
    ],
)
def test_exit_status_follows_the_verdict(
    a: Path, b: Path, status: int, word: str, step: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 agree, 1 differ, 3 inconclusive; the first line is the verdict; JSON says the same, alone on stdout."""
    code, out, err = call(capsys, a, b)
    assert (code, err) == (status, "")
    assert out.startswith(f"{word.upper()}: ")
    assert "at step" in out.splitlines()[2]
    code, out, err = call(capsys, a, b, "--format", "json")
    value = json.loads(out)
    assert (code, err) == (status, "")
    assert (value["verdict"], value["first_step"], value["exit_status"]) == (word, step, status)
    assert {"reason", "gate", "largest", "largest_step", "steps", "family", "windows"} <= value.keys()
    assert {"first", "last", "largest", "at_step", "envelope", "inside"} <= value["windows"][0].keys()


def test_the_placeholder_is_told_by_its_digits() -> None:
    """Golden values with five significant digits are doubted; measured ones of the same model are not."""
    assert traces.read(str(PLACEHOLDER)).doubts == (
        "at most 5 significant digits, 6 are needed; it may be a placeholder",
    )
    measured = [p for p in sorted(DATA.glob("*_*.json")) if "2025-12-15" not in p.name]
    assert len(measured) == 21
    assert [p.name for p in measured if traces.read(str(p)).doubts] == []


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([3.123456789] * 60, "1 distinct values in 60 steps"),
        ([8.123456789, 7.123456789] * 30, "2 distinct values in 60 steps"),
        ([8.123456789 - 0.0123456789 * i for i in range(60)], "straight line"),
        ([8.0, 7.0, 6.5], "at most 2 significant digits"),
        ([8, 7, 5], "at most 1 significant digits"),
    ],
)
def test_made_up_values_are_doubted(values: list[float], says: str, tmp_path: Path) -> None:
    """Constant, repeated, straight or round values are no evidence."""
    path = write(tmp_path / "t.json", steps=list(range(1, len(values) + 1)), loss=values)
    assert any(says in d for d in traces.read(str(path)).doubts)


def test_a_training_that_breaks_is_no_placeholder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A loss that is NaN from some step on differs from one that is not; it is not doubted."""
    broken = write(tmp_path / "t.json", loss=[*losses()[:20], *[float("nan")] * 80])
    status, out, _ = call(capsys, OLD, broken)
    assert status == 1
    assert f"step 21: {broken} is not finite, the other is" in out


@pytest.mark.parametrize(
    ("written", "resolution"),
    [
        ("[8.13756, 7.1, 6.5]", 5e-6),
        ("[8.1376, 7.84e0, 6.5]", 5e-5),
        ("[813756e-5, 7.1, 6.5]", 5e-6),
        ("[137562, 137560, 13700]", 0.5),
        ("[8.137560844421387, 7.1, 6.5]", 0.0),
        ("[NaN, 7.1234567, 6.5]", 0.0),
    ],
)
def test_resolution_is_half_of_the_last_digit(written: str, resolution: float, tmp_path: Path) -> None:
    """Half a unit of the last decimal of the most precise value, and none when printed in full."""
    (tmp_path / "t.json").write_text(f'{{"steps": [1, 2, 3], "loss": {written}}}')
    assert traces.read(str(tmp_path / "t.json")).resolution == pytest.approx(resolution, rel=1e-12)


def test_a_print_of_five_decimals_agrees_with_the_full_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rounding of a file widens the envelope, and the table says by how much."""
    rounded = write(tmp_path / "t.json", loss=[round(v, 5) for v in losses()])
    status, out, _ = call(capsys, OLD, rounded)
    assert status == 0
    assert "rounding adds" in out


DAMAGED = {
    "empty": b"",
    "binary": bytes(range(256)),
    "truncated": OLD.read_bytes()[:900],
    "text": b"step 1 loss 8.1\n",
    "list": b"[8.1, 7.8]",
    "number": b"8.1",
    "null": b"null",
    "no steps": b'{"loss": [8.1]}',
    "no loss": b'{"steps": [1]}',
    "empty lists": b'{"steps": [], "loss": []}',
    "loss is no list": b'{"steps": [1], "loss": 8.1}',
    "lengths": b'{"steps": [1, 2], "loss": [8.1]}',
    "null loss": b'{"steps": [1], "loss": [null]}',
    "text loss": b'{"steps": [1], "loss": ["8.1"]}',
    "boolean loss": b'{"steps": [1], "loss": [true]}',
    "nested loss": b'{"steps": [1], "loss": [[8.1]]}',
    "float step": b'{"steps": [1.0], "loss": [8.1]}',
    "boolean step": b'{"steps": [true], "loss": [8.1]}',
    "step twice": b'{"steps": [1, 1], "loss": [8.1, 8.1]}',
    "steps backwards": b'{"steps": [2, 1], "loss": [8.1, 8.1]}',
    "model is a number": b'{"steps": [1], "loss": [8.1], "model": 3.5}',
    "model is a list": b'{"steps": [1], "loss": [8.1], "model": []}',
    "deep": b"[" * 100_000,
    "huge integer": b'{"steps": [1], "loss": [1' + b"0" * 400 + b"]}",
    "huger integer": b'{"steps": [1], "loss": [1' + b"0" * 5000 + b"]}",
    "pairs": (DATA / "pairs.json").read_bytes(),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_no_trace_is_one_line_and_exit_2(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged file or one of another kind: one line with its name and what a trace looks like; no traceback."""
    path = tmp_path / "t.json"
    path.write_bytes(DAMAGED[name])
    for words in ((OLD, path), (path, OLD)):
        status, out, err = call(capsys, *words)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert str(path) in err
        assert "a trace is a JSON object" in err


@given(st.binary(max_size=300) | st.integers(0, 2600).map(lambda n: OLD.read_bytes()[:n]))
def test_any_bytes_are_a_trace_or_a_mistake(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Whatever a file holds, reading it gives a trace or an error of one line."""
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(data)
    try:
        traces.read(str(path))
    except HarnessError as error:
        assert "\n" not in str(error)  # noqa: PT017 - other errors must fail, not be matched


def test_a_missing_file_lists_what_is_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A name that is no file: the JSON files beside it, or that the folder is not there either."""
    (tmp_path / "there.json").write_text("{}")
    status, _, err = call(capsys, tmp_path / "here.json", OLD)
    assert status == 2
    assert err == (f"harness: {tmp_path}/here.json: no such file; JSON files in {tmp_path}: there.json\n")
    status, _, err = call(capsys, tmp_path / "no" / "here.json", OLD)
    assert status == 2
    assert "RUN:TEST:TRACE" in err
    status, _, err = call(capsys, DATA / "nope.json", OLD)
    assert "and 12 more" in err
    status, _, err = call(capsys, "x" * 5000, OLD)
    assert (status, err.count("\n")) == (2, 1)


def test_other_models_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """Traces that name different models are a mistake, whatever their values."""
    status, _, err = call(capsys, OLD, EXPERTS)
    assert status == 2
    assert f"{EXPERTS}: a trace of qwen3_moe, and {OLD} of llama3; name two traces of one model" in err


def test_noise_is_chosen_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--noise` takes the place of the family that the model's name says; an unknown one is a mistake."""
    moved = [v * (1.001 if s == 60 else 1.0) for s, v in enumerate(losses(), 1)]
    a, b = write(tmp_path / "a.json", model=None), write(tmp_path / "b.json", model=None, loss=moved)
    assert call(capsys, a, b)[0] == 3
    assert call(capsys, a, b, "--noise", "moe")[0] == 0
    assert call(capsys, a, b, "--noise", "dense")[0] == 1
    known = write(tmp_path / "c.json", loss=moved)
    assert call(capsys, a, known)[0] == 1
    assert call(capsys, a, known, "--noise", "moe")[0] == 0
    status, _, err = call(capsys, a, b, "--noise", "loud")
    assert (status, err) == (2, "harness: --noise loud: no such family; there are: dense, moe\n")


def test_a_trace_of_a_run_is_named_by_run_test_and_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RUN:TEST:TRACE is read from the run folder; test ids hold colons, and so may the folder."""
    loss = Trace("loss", "nat", tuple(losses()), first_step=1)
    norm = Trace("grad_norm", "1", tuple(v * 2 for v in losses()), first_step=1)
    folder = make_run(tmp_path / "a:b", loss, norm)
    late = make_run(tmp_path / "late", Trace("loss", "nat", (2.0, 1.0), first_step=7))
    assert traces.read(f"{folder}:{TEST}:loss").values == tuple(losses())
    assert traces.read(f"{folder}:{TEST}:loss").steps == tuple(range(1, 101))
    assert traces.read(f"{late}:{TEST}:loss").steps == (7, 8)
    assert traces.read(f"{folder}:{TEST}:grad_norm").values[0] == 2 * losses()[0]
    assert call(capsys, f"{folder}:{TEST}:loss", SAME)[0] == 0
    assert call(capsys, NEW, f"{folder}:{TEST}:loss")[0] == 1


def test_a_run_says_what_traces_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No such run, test or trace: one line that lists what there is."""
    folder = make_run(tmp_path / "run", Trace("loss", "nat", tuple(losses()), first_step=1))
    for spec, says in (
        (f"{folder}:{TEST}:los", "no trace 'los'; the test has: loss"),
        (f"{folder}:suites/smoke/test_loss.py::test_none:loss", f"there are: {TEST}:loss"),
        (f"{folder}:suites/smoke/test_loss.py::test_no:loss", f"there are: {TEST}:loss"),
        (f"{folder}:{TEST}", f"there are: {TEST}:loss"),
        (f"{folder}", f"name a trace in it as RUN:TEST:TRACE; there are: {TEST}:loss"),
        (f"{tmp_path}/none:{TEST}:loss", "none: no run.json there; name the folder of a run"),
    ):
        status, out, err = call(capsys, spec, OLD)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert says in err


def test_a_damaged_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Records that cannot be read are told when the trace is not found; a header that cannot is a mistake."""
    folder = make_run(tmp_path / "run", Trace("loss", "nat", tuple(losses()), first_step=1))
    records = folder / "records-main.jsonl"
    records.write_bytes(records.read_bytes()[:500])
    status, _, err = call(capsys, f"{folder}:{TEST}:loss", OLD)
    assert status == 2
    assert "half-written last line" in err
    (folder / "run.json").write_text("{")
    status, _, err = call(capsys, f"{folder}:{TEST}:loss", OLD)
    assert (status, err.count("\n")) == (2, 1)


def test_a_step_number_that_is_none_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record whose first step is no whole number is damaged, not compared."""
    folder = make_run(tmp_path / "run", Trace("loss", "nat", (1.0,), first_step="x"))  # type: ignore[arg-type]
    status, _, err = call(capsys, f"{folder}:{TEST}:loss", OLD)
    assert (status, err.count("\n")) == (2, 1)
    assert "first_step must be int, not 'x'" in err


def test_emulated_is_never_compared_with_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace of an emulated run and one of a measured run are inconclusive; two emulated ones are compared."""
    loss = Trace("loss", "nat", tuple(losses()), first_step=1)
    one, two, three = (
        f"{make_run(tmp_path / name, loss, emulated=emulated)}:{TEST}:loss"
        for name, emulated in (("one", True), ("two", True), ("three", False))
    )
    assert call(capsys, one, two)[0] == 0
    for words in ((one, three), (three, one)):
        status, out, _ = call(capsys, *words)
        assert status == 3
        assert "emulated and measured runs are not compared" in out


def test_parity_waits_for_nothing_heavy() -> None:
    """`harness parity` imports neither torch nor numpy, and `harness --help` not even the rule."""
    code = (
        "import sys, harness.cli as c\n"
        "try: c.main(['--help'])\n"
        "except SystemExit: pass\n"
        "early = {'harness.parity', 'harness.traces'} & set(sys.modules)\n"
        f"status = c.main(['parity', {str(OLD)!r}, {str(SAME)!r}])\n"
        "print('LOADED', status, sorted(early | ({'torch', 'numpy', 'rich', 'pytest'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "LOADED 0 []" in done.stdout
