"""The parser of training logs: it never raises, finds every whole line, and takes no damaged one for another step."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from suites.smoke import checks
from suites.smoke.steplog import Step, StepLog, parse, text

BAR = "  33%|███▎      | 2/6 [00:01<00:01,  2.82it/s]"
RICH = "                 INFO     | >> [*] Gathering model state             fsdp.py:208"
NOISE = (
    RICH.encode() + b"\n",
    b"\x1b[2;36m12/01 [05:00:15]\x1b[0m \x1b[34mINFO    \x1b[0m | >> \x1b[1m[\x1b[0m*\x1b[1m]\x1b[0m Saving\n",
    b"Strategy =>> Finalized Training Setup:\n",
    b"\xff\xfe\x80 not of this world \xc3\n",
    b"\r" + b" " * 126 + b"\r",
    b"\r=>> [Epoch 000] Global Step 000000 =>> Backbone LR :: 0.000000:   0%|          | 0/6" + b"\n",
    b"",
)

# What a line alone can be trusted in: the padding of larger numbers does not show a lost digit.
steps = st.builds(
    Step,
    epoch=st.integers(0, 999),
    step=st.integers(0, 999_999),
    rate=st.integers(0, 999_999).map(lambda n: n / 1e6),
    loss=st.integers(0, 99_999).map(lambda n: n / 1e4) | st.sampled_from([math.nan, math.inf]),
)
logs = st.lists(steps, min_size=1, max_size=8, unique_by=lambda s: s.step)


def render(step: Step) -> str:
    return (
        f"=>> [Epoch {step.epoch:03d}] Global Step {step.step:06d} =>> Backbone LR :: {step.rate:.6f}"
        f" - Loss :: {step.loss:.4f}"
    )


def key(step: Step) -> str:
    return render(step)  # nan equals itself so


def keys(log: StepLog) -> list[str]:
    return [key(s) for s in log.steps]


def drawn(data: st.DataObject, step: Step) -> bytes:
    """A step as a log shows it: a bar's states, each after a carriage return, or a plain line."""
    if data.draw(st.booleans()):
        times = data.draw(st.integers(1, 3))
        return f"\r{render(step)}:{BAR}".encode() * times + data.draw(st.sampled_from([b"", b"\n"]))
    return b"\n" + render(step).encode() + b"\n"


@given(st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
def test_any_bytes_are_read(data: bytes) -> None:
    """No bytes make the parser raise."""
    log = parse(data)
    assert log.damaged >= len(log.examples)


@given(logs, st.data())
def test_whole_lines_are_found(wanted: list[Step], data: st.DataObject) -> None:
    """Steps between logging, codes, blanks and broken text are found in order, each once, and nothing is damaged."""
    log = parse(b"".join(data.draw(st.sampled_from(NOISE)) + drawn(data, step) for step in wanted))
    assert keys(log) == [key(s) for s in wanted]
    assert (log.damaged, log.conflicts, log.returned) == (0, (), ())


@given(steps, st.data())
def test_a_cut_line_is_no_other_step(step: Step, data: st.DataObject) -> None:
    """A bar's state that lost a stretch anywhere is the same step, or none."""
    whole = f"{render(step)}:{BAR}".encode()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    log = parse(b"\r" + whole[:start] + whole[end:] + b"\r")
    assert keys(log) in ([], [key(step)])
    assert log.conflicts == ()


@given(steps, st.binary(min_size=1, max_size=12), st.data())
def test_bytes_put_in_make_no_other_step(step: Step, put: bytes, data: st.DataObject) -> None:
    """A line with bytes put into it is the same step, or is told as damaged: digits apart, put where they fit."""
    line = render(step).encode()
    place = data.draw(st.integers(1, len(line)))
    # A minus sign is the one other character that belongs into a field.
    assume(not re.search(rb"[\d-]", put))
    log = parse(line[:place] + put + line[place:] + b"\n")
    assert keys(log) in ([], [key(step)])
    # The mark that tells of a lost line may itself be what was broken, when it is the only one on its piece.
    assert log.steps or log.damaged or b"\r" in put or b"\n" in put or b"\x1b" in put


@given(st.integers(0, 999_999), st.integers(0, 99_999), st.integers(0, 9), st.data())
def test_a_digit_more_is_damage(number: int, loss: int, digit: int, data: st.DataObject) -> None:
    """One digit put into a padded field, or behind the point, is told as damaged."""
    step = Step(0, number, 1e-5, loss / 1e4)
    line = render(step)
    fields = [m.span() for m in re.finditer(r"\d+", line)]
    start, end = data.draw(st.sampled_from([fields[0], fields[1], fields[3], fields[5]]))
    place = data.draw(st.integers(start, end))
    assume(place > start or digit == 0 or (start, end) in (fields[3], fields[5]))
    assume(not (place > start and (start, end) in fields[:2] and line[start] != "0"))
    log = parse(f"{line[:place]}{digit}{line[place:]}\n".encode())
    assert log.steps == ()
    assert log.damaged == 1


@given(logs, st.data())
def test_damage_leaves_the_others(wanted: list[Step], data: st.DataObject) -> None:
    """Whatever happens to some lines (cut, broken, doubled, torn by another writer), the others are found."""
    whole: list[Step] = []
    log = b""
    for step in wanted:
        shown = drawn(data, step)
        how = data.draw(st.sampled_from(["no", "no", "cut", "bytes", "double", "between"]))
        place = data.draw(st.integers(0, len(shown)))
        if how in ("no", "double"):
            whole.append(step)
            log += shown * (2 if how == "double" else 1)
        elif how == "cut":
            log += b"\n" + shown[:place] + b"\n"
        else:
            put = data.draw(st.binary(max_size=6) if how == "bytes" else st.sampled_from(NOISE))
            log += b"\n" + shown[:place] + put + shown[place:] + b"\n"
    found = parse(log)
    told = {key(later) for _, later in found.conflicts}
    for step in whole:
        assert step.step in found.numbers
        assert key(step) in keys(found) or key(step) in told


def test_real_text_of_a_bar() -> None:
    """A start, a step drawn twice with logging run into it, and the blank that ends a bar are read as VITRA leaves them."""
    data = (
        "\r=>> [Epoch 000] Global Step 000006 =>> Backbone LR :: 0.000000:  67%|██████▋   | 6/9 [00:00<?, ?it/s]"
        f"{RICH}\n                          count: 64, ratio: 1.0000\n"
        f"\r=>> [Epoch 000] Global Step 000007 =>> Backbone LR :: 0.000000 - Loss :: 0.9797:{BAR}"
        f"\r=>> [Epoch 000] Global Step 000007 =>> Backbone LR :: 0.000000 - Loss :: 0.9797:{BAR}"
        f"\r=>> [Epoch 001] Global Step 000008 =>> Backbone LR :: 0.000100 - Loss :: nan:{BAR}{RICH}\n"
        "\r" + " " * 120 + "\r"
    ).encode()
    log = parse(data)
    assert log.started == (6,)
    assert log.steps[0] == Step(0, 7, 0.0, 0.9797)
    assert log.numbers == (7, 8)
    assert math.isnan(log.steps[1].loss)
    assert log.damaged == 0


def test_damage_is_told() -> None:
    """Half lines are counted with examples; a step with other values, or one that comes again, is told."""
    one = Step(0, 1, 0.0, 0.5)
    data = "\n".join(
        [render(one), render(Step(0, 2, 0.0, 0.4)), render(one), render(Step(0, 2, 0.0, 0.3))]
    ).encode()
    log = parse(data + b"\n=>> [Epoch 000] Global Step 0000\n")
    assert log.returned == (1, 2)
    assert log.conflicts == ((Step(0, 2, 0.0, 0.4), Step(0, 2, 0.0, 0.3)),)
    assert log.examples == ("=>> [Epoch 000] Global Step 0000",)
    fault = checks.steps_fault(log, 1, 4)
    assert fault is not None
    assert fault.message == (
        "of steps 1 to 4: no line for step 3; steps come back: steps 1 to 2; two sets of values for step 2; "
        "damaged lines: 1"
    )


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("RuntimeError: DataLoader worker (pid 71) is killed by signal: Killed.", "data-loader worker"),
        ("RuntimeError: DataLoader worker (pid(s) 71, 72) exited unexpectedly", "data-loader worker"),
        ("decord._ffi.base.DECORDError: [04:01:05] x.cc:292: ...", "decoder"),
        ("Warning: failed to load video frames from a.webm (attempt 1/3): x", "not read"),
        (
            "12/01 WARNING  | >> [*] Optimizer checkpoint      fsdp.py:235\n                          not found at",
            "optimizer",
        ),
        ("Backbone LR :: 0.000000 - Loss :: nan:  33%|", "not a number"),
        ("Traceback (most recent call last):", "traceback"),
        ("warning: could not read sample 7, taking another", "data that was not read"),
    ],
)
def test_trouble_is_seen(said: str, what: str) -> None:
    """Each sign of trouble is found in a log as it stands there, wrapped or not."""
    assert any(what in name for name, _ in checks.problems(f"before\n{said}\nafter\n"))


def test_common_warnings_are_no_trouble() -> None:
    """What torch and VITRA say in any run, and names that only contain the word, are no trouble."""
    said = (
        "UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`. Failure to do this will\n"
        "UserWarning: 'pin_memory' argument is set as true but no accelerator is found\n"
        "FutureWarning: FSDP.state_dict_type() and FSDP.set_state_dict_type() are being deprecated.\n"
        '  "data_root_dir": "/home/nan/data", "set_none_ratio": 0.0, "finance": 1\n'
    )
    assert checks.problems(said) == []
    assert text(b"\x1b[31mred\x1b[0m \xff") == "red \ufffd"


FILE = {"tensors": 3, "numbers": 9, "finite": True, "count": None}


def checkpoint(step: int, **optimizer: object) -> dict[str, object]:
    files = {
        "weights.pt": {**FILE, "digest": f"w{step}"},
        "optimizer.pt": {**FILE, "digest": f"o{step}", "count": float(step), **optimizer},
    }
    return {"name": f"step-{step:06d}", "step": step, "files": files}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([checkpoint(3)], "no checkpoint after step 6"),
        ([checkpoint(3), checkpoint(5), checkpoint(6)], "not due: step-000005"),
        ([checkpoint(3), checkpoint(6, digest="o3")], "holds what step-000003 holds"),
        ([checkpoint(3), checkpoint(6, count=3.0)], "holds the state after 3 steps"),
        ([checkpoint(3), checkpoint(6, finite=False)], "not finite"),
        ([checkpoint(3), checkpoint(6, numbers=0)], "holds no tensors"),
        ([checkpoint(3), checkpoint(6, error="is missing")], "optimizer.pt is missing"),
    ],
)
def test_checkpoints_at_fault(found: list[dict[str, object]], said: str) -> None:
    """A checkpoint that is missing, not due, stale, torn or not finite is told; whole ones are no fault."""
    fault = checks.checkpoints_fault(found, (3, 6))
    assert fault is not None
    assert said in fault.message
    assert checks.checkpoints_fault([checkpoint(3), checkpoint(6)], (3, 6)) is None
