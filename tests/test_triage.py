"""Triage of log text: what is found, in which order, of which rank, and how it is shown."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rules
from builders import make_record
from harness import ROOT, triage
from harness.triage import Finding, Triage, is_infrastructure, judge_log, merge_triages, triage_record
from harness.triage_files import load_signatures
from harness.triage_lines import rank_of, visible
from harness.triage_prefilter import Prefilter
from harness.triage_report import render_json, render_terminal

SIGNATURES = load_signatures()
BY_ID = {s.id: s for s in SIGNATURES}
PLAIN = [s for s in SIGNATURES if s.stall is None]


def judged(text: str | bytes | Iterable[bytes], **options: object) -> Triage:
    """The triage of a text, or of blocks."""
    blocks = [text] if isinstance(text, (str, bytes)) else text
    return judge_log(blocks, SIGNATURES, **options)  # type: ignore[arg-type]


def ids(found: Triage | Sequence[Finding]) -> list[str]:
    """The ids of findings, in the order in which they are told."""
    return [f.signature.id for f in (found.findings if isinstance(found, Triage) else found)]


def test_pure_modules_touch_nothing() -> None:
    """All of triage but its reading and its command imports neither clock, files, processes nor torch."""
    known = rules.modules(ROOT, "harness")
    for name in ("", "_lines", "_prefilter", "_report", "_signatures"):
        touched = {i.partition(".")[0] for i in rules.imports(known[f"harness.triage{name}"])} & rules.IMPURE
        assert not touched, name


def test_root_cause_first() -> None:
    """Full shared memory is told before the error that NCCL makes of it, though it stands below it."""
    found = judged(f"step 1\n{BY_ID['S17'].example}\nstep 2\n{BY_ID['S15'].example}\n")
    assert ids(found) == ["S15", "S17"]
    assert [f.role for f in found.findings] == ["root", "consequence"]
    assert found.findings[0].first.line_number == 4


@pytest.mark.parametrize("root", ["S01", "S15", "S19", "S20", "S26"])
@pytest.mark.parametrize("consequence", ["S16", "S17", "S33"])
def test_precedence(root: str, consequence: str) -> None:
    """The five root causes come before the three consequences, whichever stands first."""
    for order in itertools.permutations((root, consequence)):
        assert ids(judged("\n".join(BY_ID[i].example for i in order)))[:2] == [root, consequence]


def test_consequence_of_another_cause() -> None:
    """A cause whose own cause was found too is told as its consequence, and names it."""
    alone = judged(BY_ID["S05"].example).findings[0]
    assert (alone.role, alone.follows) == ("cause", ())
    both = judged(f"{BY_ID['S05'].example}\n{BY_ID['S03'].example}").findings
    assert ids(both) == ["S03", "S05"]
    assert (both[1].role, both[1].follows) == ("consequence", ("S03",))


def test_earlier_cause_first() -> None:
    """Of two causes of one role, the earlier line is told first."""
    first, second = BY_ID["T01"].example, BY_ID["S12"].example
    assert ids(judged(f"{first}\n{second}")) == ["T01", "S12"]
    assert ids(judged(f"{second}\n{first}")) == ["S12", "T01"]


def test_hints_are_no_cause() -> None:
    """A warning that healthy runs print is told last, and alone it is no known cause."""
    alone = judged(BY_ID["S13"].example)
    assert ids(alone) == ["S13"]
    assert not alone.known
    both = judged(f"{BY_ID['S13'].example}\n{BY_ID['S16'].example}")
    assert ids(both) == ["S16", "S13"]
    assert both.known


def test_lowest_sequence_number_is_shown() -> None:
    """Of the watchdogs of many ranks, the one that is furthest behind is shown."""
    line = "[rank{0}]:[E ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, ran"  # noqa: E501
    text = "\n".join(line.format(rank, number) for rank, number in ((0, 96120), (7, 64088), (1, 96117)))
    finding = judged(text).findings[0]
    assert (finding.first.rank, finding.first.line_number, finding.count) == (7, 2, 3)
    assert finding.ranks == (0, 1, 7)


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        (b"[rank3]: Traceback", 3),
        (b"[rank12]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 12] Watchdog", 12),
        (b"[80746] [rank4]:[E321 02:07:08 x]", 4),
        (b"[default1]:[rank1]: x", 1),
        (b"[default6]:x", 6),
        (b"[E ProcessGroupNCCL.cpp:737] [Rank 5] Watchdog", 5),
        (b"[E x.cpp:1664] [PG 1 Rank 3] Exception", 3),
        (b"[PG ID 0 PG GUID 0(default_pg) Rank 1] Exception", 1),
        (b"[0] [rank 0] post all_reduce", 0),
        (b"[1] dist_smoke_ok", 1),
        (b"[1,4]<stdout>:smc-gpu", 4),
        (b"node:1:2 [3] NCCL INFO x", None),
        (b"[123456] line", None),
        (b"[0.5] line", None),
        (b"tests/test_x.py::test[rank1] PASSED", None),
        (b"", None),
    ],
)
def test_rank_of_a_line(line: bytes, rank: int | None) -> None:
    """The prefixes of torchrun, torch, mirage and mpirun tell the rank; a device number or a test's name does not."""
    assert rank_of(line) == rank


def test_parts_must_be_of_one_rank() -> None:
    """A signature of several lines is not put together from lines of different ranks."""
    attempt, unbound = BY_ID["S28"].example.strip().splitlines()
    assert ids(judged(f"[rank0]: {attempt}\n[rank1]: {unbound}\n")) == []
    found = judged(f"[rank0]: {attempt}\n[rank1]: step\n[rank0]: {unbound}\n").findings
    assert ids(found) == ["S28"]
    assert found[0].first.rank == 0
    assert "attempt 3/3" in found[0].first.text


def test_a_line_counts_once() -> None:
    """A line that several patterns of one signature match counts as one."""
    found = judged(
        "ncclUnhandledCudaError: unhandled cuda error, unhandled system error\nunhandled cuda error\n"
    )
    assert [(f.signature.id, f.count) for f in found.findings] == [("S17", 2)]


def test_ranks_without_number_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more ranks than a limit, all count, and no more than the limit are kept or put together."""
    monkeypatch.setattr(triage, "MOST_RANKS", 3)
    found = judged("".join(f"[rank{n}]: No HIP GPUs are available\n" for n in range(5))).findings[0]
    assert (found.count, found.ranks) == (5, (0, 1, 2))
    parts = BY_ID["S28"].example.strip().splitlines()
    both = judged("".join(f"[rank{n}]: {part}\n" for part in parts for n in range(5))).findings[0]
    assert both.count == 3


def test_stall_needs_the_last_line_and_a_time_limit() -> None:
    """The emulator's stall is a last line `post all_reduce` beside a time limit; a run that went on shows nothing."""
    stalled = "[0] [rank 0] post all_reduce: tensor = 3.0\n"
    assert ids(judged(stalled)) == []
    assert ids(judged(stalled, late=True)) == ["S45"]
    assert ids(judged(f"{stalled}harness: no end within 60 s\n")) == ["S45"]
    assert ids(judged(f"{stalled}[0] dist_smoke_ok\n", late=True)) == []
    other = judged(f"step\n{stalled}[1] dist_smoke_ok\n", late=True).findings[0].first
    assert (other.rank, other.line_number) == (0, 2)


def test_progress_bars_and_colors() -> None:
    """A progress bar's earlier states are not shown, and colors neither hide a signature nor reach the terminal."""
    example = "\x1b[1;31mRuntimeError\x1b[0m: \x1b[4mNo HIP\x1b[0m GPUs are available"
    shown = judged(f" 1%|  | 1/9\r 2%|  | 2/9\r{example}\r\nnext\n").findings[0].first
    assert shown.text == "RuntimeError: No HIP GPUs are available"
    assert shown.line_number == 1


def test_shown_as_data() -> None:
    """Escape sequences, direction marks, markup, formats and shell words come out as text, at most 400 characters."""
    hostile = "\x1b]0;title\x07\x1b[2J\x9b31m \u202e [bold]{0} %s %n $(reboot) `id` \x00 " + "x" * 900
    triaged = judged(f"No HIP GPUs are available {hostile}\nValueError: {hostile}\n")
    shown = triaged.findings[0].first.text
    assert len(shown) <= 400
    assert "[bold]{0} %s %n $(reboot) `id` \\x00" in shown
    assert "\\u202e" in shown
    for text in (
        render_terminal(triaged),
        render_json(triaged),
        render_terminal(judged(f"Error: {hostile}")),
    ):
        assert all(c.isprintable() or c == "\n" for c in text)


@given(st.text(max_size=600))
def test_visible_is_printable_and_short(text: str) -> None:
    """Whatever the text, what is shown of it is printable, one line, and at most 400 characters."""
    shown = visible(text)
    assert len(shown) <= 400
    assert shown == "" or shown.isprintable()


def test_bytes_that_are_no_text() -> None:
    """Bytes that are not UTF-8 around a signature, before and after it on its line, hide nothing."""
    found = judged(b"\xff\xfe\x00 " + b"No HIP GPUs are available" + b" \xc3\x28\n\x80\x81\n")
    assert ids(found) == ["S05"]
    assert found.findings[0].first.text.startswith("\ufffd\ufffd\\x00 No HIP")


@pytest.mark.parametrize("place", [0, 100, 131_050, 131_072, 139_000, 400_000, 1_999_000])
def test_one_endless_line(place: int) -> None:
    """On a line of two megabytes a signature is found wherever it stands, once, and shown."""
    example = b"No HIP GPUs are available"
    line = b"x" * place + example + b"y" * (2_000_000 - place)
    blocks = [line[i : i + 65_536] for i in range(0, len(line), 65_536)]
    for found in (judged(line), judged(blocks), judged([*blocks, b"\n"]), judged(line + b"\nstep\n")):
        assert ids(found) == ["S05"]
        assert found.findings[0].count == 1
        assert example.decode() in found.findings[0].first.text


def test_last_error_of_an_unknown_failure() -> None:
    """Without a known cause, the last line that looks like an error is told, with its place and rank."""
    found = judged("KeyError: 'a'\n[rank2]: step\n[rank2]: ValueError: odd shape\nstep 9\n", name="x.log")
    assert not found.known
    assert found.last_error is not None
    assert (found.last_error.text, found.last_error.line_number) == ("[rank2]: ValueError: odd shape", 3)
    assert (found.last_error.rank, found.last_error.file) == (2, "x.log")
    assert judged("step 1\nstep 2\n").last_error is None


EXAMPLES = [line.encode() for s in SIGNATURES for line in s.example.strip().splitlines()]
PIECES = st.one_of(
    st.sampled_from(EXAMPLES),
    st.sampled_from(
        [b"step 1 loss 0.1", b"ValueError: x", b"[rank1]: ", b"\x1b[31m", b"\r", b"x" * 300, b"time limit"]
    ),
    st.binary(max_size=40),
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from([b"\n", b"\n", b"\n", b"", b"\r\n"])), max_size=12).map(
    lambda parts: b"".join(piece + end for piece, end in parts)
)


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_random_bytes_never_raise(blocks: list[bytes]) -> None:
    """Any bytes in any blocks are a log: something is told, and it can be printed."""
    found = judged(blocks)
    assert render_terminal(found)
    assert render_json(found)


@given(TEXTS, st.lists(st.integers(0, 3000), max_size=6))
@settings(max_examples=200)
def test_cuts_make_no_difference(text: bytes, cuts: list[int]) -> None:
    """A log cut into blocks anywhere, within lines, escape sequences or signatures, tells the same."""
    places = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    assert judged([text[a:b] for a, b in itertools.pairwise(places)]) == judged(text)


@given(st.lists(TEXTS, max_size=4), st.lists(st.integers(0, 5000), max_size=6))
@settings(max_examples=100)
def test_cuts_make_no_difference_on_long_lines(texts: list[bytes], cuts: list[int]) -> None:
    """The same where lines are longer than what is looked at at once."""
    text = b"".join(t.replace(b"\n", b" ") for t in texts) + b"\nend"
    places = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triage, "LONG_LINE_BYTES", 700)
        patch.setattr(triage, "OVERLAP_BYTES", 600)
        assert judged([text[a:b] for a, b in itertools.pairwise(places)]) == judged(text)


@given(st.lists(TEXTS, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_order_of_files_makes_no_difference(texts: list[bytes], random: object) -> None:
    """Several logs tell the same findings, in the same order, whichever is named first."""
    told = [judged(t, name=f"log-{n}", rank=n) for n, t in enumerate(texts)]
    shuffled = list(told)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = merge_triages(told, SIGNATURES), merge_triages(shuffled, SIGNATURES)
    assert (one.findings, one.last_error) == (other.findings, other.last_error)


RANK_LOGS = st.lists(
    st.lists(st.sampled_from([s.example for s in PLAIN] + ["step 3", "loss 0.1"]), max_size=4),
    min_size=2,
    max_size=4,
)


@given(RANK_LOGS, st.data())
def test_interleaving_loses_nothing(logs: list[list[str]], data: st.DataObject) -> None:
    """Ranks that write into one log, line by line in any order, show what each shows by itself."""
    queues = [
        [f"[rank{rank}]: {line}" for e in examples for line in e.strip().splitlines()]
        for rank, examples in enumerate(logs)
    ]
    alone = {i for q in queues for i in ids(judged("\n".join(q)))}
    mixed: list[str] = []
    while any(queues):
        rank = data.draw(st.sampled_from([n for n, q in enumerate(queues) if q]))
        mixed.append(queues[rank].pop(0))
    assert set(ids(judged("\n".join(mixed)))) == alone


@given(
    st.lists(st.binary(min_size=5, max_size=12), min_size=1, max_size=12),
    st.lists(st.binary(max_size=6), max_size=6),
    st.data(),
)
def test_prefilter_finds_every_literal(literals: list[bytes], gaps: list[bytes], data: st.DataObject) -> None:
    """Each place at which a literal stands in a text, also within or across others, is told, and no other."""
    text = b"".join(itertools.chain(*((g, data.draw(st.sampled_from(literals))) for g in gaps)))
    told = list(Prefilter(literals).find(text))
    assert len(told) == len(set(told))
    assert set(told) == {(at, x) for x in literals for at in range(len(text)) if text.startswith(x, at)}


def test_no_signatures() -> None:
    """An empty list of signatures finds nothing and does not break."""
    assert judge_log([b"No HIP GPUs are available\n"], ()).findings == ()


def failed(detail: str = "", reason: str = "it broke", kind: str = "crash") -> object:
    """A failed record with this text."""
    test = "suites/fsdp/test_fsdp.py::test_x"
    return make_record(test, "failed", kind=kind, reason=reason, detail=detail)


def of_record(detail: str = "", tails: dict[str, str] | None = None, **options: str) -> tuple[Finding, ...]:
    """What a failed record with this text and these log ends shows."""
    return triage_record(failed(detail, **options), tails or {}, SIGNATURES)  # type: ignore[arg-type]


def test_record_reason_detail_and_tails() -> None:
    """A record shows what its reason, its detail and the ends of its logs show, root causes first."""
    found = of_record(
        f"head\n{BY_ID['S17'].example}",
        {"logs/a/rank-3.log": f"step\n{BY_ID['S15'].example}\n"},
        reason="ValueError: Please set the WANDB_API_KEY environment variable.",
    )
    assert ids(found) == ["S15", "S40", "S17"]
    assert (found[0].first.file, found[0].first.rank, found[0].first.line_number) == (
        "logs/a/rank-3.log",
        3,
        2,
    )
    assert found[1].first.file == "reason"
    assert ids(of_record("", {})) == []


def test_record_of_a_launch_tells_ranks() -> None:
    """The parts that a launch's detail has for each rank count for that rank."""
    detail = (
        "rank 1 of 2 left first, with exit status 1\n"
        f"--- rank 1: last lines\nstep 3\n{BY_ID['T01'].example}\n--- rank 0: last lines\n{BY_ID['T28'].example[9:]}\n"
    )
    found = of_record(detail)
    told = [(f.signature.id, f.first.rank, f.first.line_number) for f in found]
    assert told == [("T01", 1, 4), ("T28", 0, 6)]


def test_record_of_parts_in_several_places() -> None:
    """A signature of several lines may stand partly in the detail and partly in a log of the record."""
    attempt, unbound = BY_ID["S28"].example.strip().splitlines()
    found = of_record(f"raised: {unbound}", {"logs/child.log": f"step\n{attempt}\n"})
    assert ids(found) == ["S28"]
    assert (found[0].first.file, found[0].first.line_number) == ("logs/child.log", 2)


def test_record_before_its_logs() -> None:
    """Of one role, what the record itself says is told before what its logs show: a log may be shared by tests."""
    detail = "step\n" * 50 + BY_ID["S40"].example
    found = of_record(detail, {"logs/child.log": BY_ID["T20"].example})
    assert ids(found) == ["S40", "T20"]
    assert (found[0].first.file, found[0].first.line_number) == ("detail", 51)


def test_record_that_hung() -> None:
    """A hang with `post all_reduce` as a rank's last words is the emulator's stall; a crash with them is not."""
    detail = "no end within 60 s\n--- rank 0: last lines\n[rank 0] post all_reduce: tensor = 3.0\n"
    assert ids(of_record(detail, kind="hang")) == ["S45"]
    assert ids(of_record(detail.partition("\n")[2], kind="crash")) == []


def test_stack_of_a_hang_in_the_decoder() -> None:
    """A stack in the decoder at the time limit is known; a traceback through the decoder is no such stack."""
    stack = 'Thread 0x00007f (most recent call first):\n  File "/v/decord/video_reader.py", line 175 in get_batch\n'
    assert ids(of_record(stack, kind="hang")) == ["S29"]
    assert ids(of_record(stack.replace("175 in", "175, in"))) == []


@pytest.mark.parametrize(
    ("shown", "answer"),
    [
        ((), False),
        (("S15",), True),
        (("S15", "S17"), True),
        (("T20",), True),
        (("S17",), False),
        (("S16", "S33"), False),
        (("S13",), False),
        (("S13", "T11"), False),
        (("T11",), False),
        (("T01",), False),
        (("T17", "T11"), False),
        (("T11", "T17"), False),
        (("S05", "S40"), True),
        (("T09", "T11"), True),
        (("S20", "S19"), True),
        (("S19",), False),
        (("S15", "S12"), True),
        (("S26", "T20"), False),
    ],
)
def test_infrastructure(shown: tuple[str, ...], answer: bool) -> None:
    """Only a cause in the machine or the network decides, never a consequence or a hint; a cause in the code that
    nothing explains is not hidden, but by a root cause."""
    assert is_infrastructure(of_record("\n".join(BY_ID[i].example for i in shown))) is answer
