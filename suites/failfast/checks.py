"""What is wrong with how a target took bad video; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from suites.faults import Fault


def own_text(text: str) -> str:
    """An error's text without what differs from one time to the next: clock, addresses, stack."""
    text = text.partition("Stack trace")[0]
    text = re.sub(r"\[\d\d:\d\d:\d\d\]|0x[0-9a-f]+", "", text)
    return " ".join(text.split())


def show(chain: Sequence[dict[str, str]]) -> str:
    return "\ncaused by ".join(f"{e['type']}: {e['text']}" for e in chain)


_THREAD = re.compile(r"threaded_decoder\.cc:\d+: .*Check failed: ")
"""A frame that cannot be decoded: which of two checks of decord's worker thread tells it is a matter of timing."""


def holds_own_error(chain: Sequence[dict[str, str]], own: Sequence[dict[str, str]]) -> bool:
    """Whether the decoder's own error stands in the chain, by itself or quoted in full."""
    texts = [own_text(e["text"]) for e in chain]
    wanted = [own_text(o["text"]) for o in own]
    if any(_THREAD.search(w) for w in wanted) and any(_THREAD.search(t) for t in texts):
        return True
    return any(w and w in text for w in wanted for text in texts)


def tells_counts(chain: Sequence[dict[str, str]], declared: int, found: int) -> bool:
    """Whether one error of the chain names both the declared and the found number of frames."""
    return any({str(declared), str(found)} <= set(re.findall(r"\d+", e["text"])) for e in chain)


def attempts_fault(answer: dict[str, Any]) -> Fault | None:
    """The fault in number and pace of the attempts of a call that cannot succeed."""
    attempts, pauses = answer["attempts"], answer["pauses"]
    if answer.get("endless"):
        return Fault("attempts", f"still trying after {answer['openings']} attempts, {attempts} promised", "")
    if answer["openings"] > attempts:
        return Fault("attempts", f"{answer['openings']} attempts, {attempts} promised", "")
    most = attempts * answer["pause_s"]
    if sum(pauses) > most * 1.001:
        return Fault("attempts", f"paused {sum(pauses):g} s in all, at most {most:g} s promised", str(pauses))
    return None


def refusal_fault(
    answer: dict[str, Any], raw: dict[str, Any], declared: int, *, silent: str = "silent_damage"
) -> Fault | None:
    """The fault in how a frame that cannot be read was taken: it must end in the decoder's own error.

    `raw` is what decord itself says of that frame. Where decord is silent (a file that became shorter), an
    error that names the declared and the found number of frames will do.
    """
    if "numbers" in answer:
        got = answer["numbers"]
        return Fault(silent, f"no error: {len(got)} frame(s) came back, numbered {got}", "")
    pace = attempts_fault(answer)
    if pace is not None:
        return pace
    chain = answer["chain"]
    told = holds_own_error(chain, raw.get("chain", ()))
    if "count" in raw and raw["count"] != declared:
        told = told or tells_counts(chain, declared, raw["count"])
    if not told:
        own = show(raw["chain"]) if "chain" in raw else f"{raw['count']} frames where {declared} are declared"
        message = f"{chain[0]['type']} was raised in place of what the decoder says"
        return Fault("masked_error", message, f"raised: {show(chain)}\nthe decoder says: {own}")
    return None


def frames_fault(answer: dict[str, Any], expected: Sequence[int], *, kind: str | None = None) -> Fault | None:
    """The fault in an answer that must hold exactly the expected frames; `kind` names any failure."""
    if answer.get("endless"):
        return Fault(kind or "attempts", f"still trying after {answer['openings']} attempts", "")
    if "chain" in answer:
        text = show(answer["chain"])
        return Fault(kind or "exception", f"asked for frames {list(expected)}, got an error", text)
    got = answer["numbers"]
    if len(got) != len(expected):
        return Fault(kind or "missing_frame", f"asked for {list(expected)}, got {got}", "")
    if got != list(expected):
        return Fault(kind or "wrong_frame", f"asked for {list(expected)}, got {got}", "")
    return None


def leak_fault(before: dict[str, int], after: dict[str, int], failures: int) -> Fault | None:
    """The fault in what is still open: one a hundred failures is a leak, a few once are caches."""
    grown = {
        name: after[name] - before[name] for name in before if after[name] - before[name] >= failures / 100
    }
    if not grown:
        return None
    text = ", ".join(f"{n} more {name}" for name, n in grown.items())
    return Fault("leak", f"{text} open after {failures} failures", f"before {before}\nafter  {after}")
