"""What is wrong with a training program's log, losses, rates, checkpoints and resume; pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from suites.faults import Fault
from suites.smoke.steplog import StepLog

_PROBLEMS = {
    "a traceback": r"Traceback \(most recent call last\)",
    "a data-loader worker that died": r"DataLoader worker \(pid[^)]*\)[^\n]{0,40}(?:killed|exited)",
    "an error of the decoder": r"DECORDError|Check failed: |\bavcodec_\w+\([^\n]*>= 0 \(",
    "a video that was not read": r"failed\s+to\s+load\s+video\s+frames",
    "data that was not read": r"(?i)warning\b[^\n]{0,120}\b(?:could not|cannot|can't|failed to|unable to|skipp)"
    r"[^\n]{0,60}\b(?:read|load|decode|open|fetch|sample|frame|video)",
    "an optimizer that starts anew": r"Optimizer\s+checkpoint\s+not\s+found",
    "a value that is not a number": r"(?i)(?<![\w./-])-?nan(?![\w/-])",
}
_WRAPPED = re.compile(r"(?:[ \t]+[\w.]+\.py:\d+)?[ \t]*\r?\n {20,}")


def problems(text: str) -> list[tuple[str, str]]:
    """Signs of trouble in a log's text, with the text around each; lines that rich wrapped are joined first."""
    whole = _WRAPPED.sub(" ", text)
    found = []
    for what, pattern in _PROBLEMS.items():
        place = re.search(pattern, whole)
        if place is not None:
            found.append((what, whole[max(0, place.start() - 200) : place.end() + 800]))
    return found


def problems_fault(texts: Sequence[str]) -> Fault | None:
    """Trouble in any rank's log, by rank."""
    found = [(rank, *problem) for rank, text in enumerate(texts) for problem in problems(text)]
    if not found:
        return None
    what = "; ".join(f"rank {rank} shows {name}" for rank, name, _ in found)
    return Fault("bad_log", what, "\n\n".join(f"--- rank {r}: {n}\n{around}" for r, n, around in found))


def steps_fault(log: StepLog, first: int, last: int) -> Fault | None:
    """Gaps, repeats, damage and steps that do not belong, from `first` to the one before the `last`."""
    missing = [n for n in range(first, last) if n not in log.numbers]
    strange = [n for n in log.numbers if not first <= n <= last]
    said = []
    if missing:
        said.append(f"no line for {show(missing)}")
    if strange:
        said.append(f"lines for {show(strange)}")
    if list(log.numbers) != sorted(log.numbers) or log.returned:
        said.append(f"steps come back: {show(log.returned)}" if log.returned else "steps are out of order")
    if log.conflicts:
        said.append(f"two sets of values for {show([a.step for a, _ in log.conflicts])}")
    if log.damaged:
        said.append(f"damaged lines: {log.damaged}")
    if not said:
        return None
    detail = [f"logged: {show(log.numbers)}", *(f"{a}\n{b}" for a, b in log.conflicts), *log.examples]
    return Fault("bad_log", f"of steps {first} to {last}: {'; '.join(said)}", "\n".join(detail))


def last_fault(log: StepLog, last: int) -> Fault | None:
    """The last step of a launch is in its log."""
    if last in log.numbers:
        return None
    return Fault("bad_log", f"the last step, {last}, is not in the log", f"logged: {show(log.numbers)}")


def true_losses(answers: Sequence[Mapping[str, Any]], step: int, first: int) -> list[float]:
    """What all ranks called `backward` on in a step; empty when no rank made it."""
    at = step - first
    made = [a["steps"][at]["losses"] for a in answers if 0 <= at < len(a["steps"])]
    return [loss for losses in made for loss in losses]


def finite_fault(answers: Sequence[Mapping[str, Any]], log: StepLog, first: int) -> Fault | None:
    """Losses that are not finite, in the log or as the ranks computed them."""
    printed = {s.step: s.loss for s in log.steps}
    for rank, answer in enumerate(answers):
        for at, step in enumerate(answer["steps"]):
            bad = [v for v in step["losses"] if not math.isfinite(v)]
            if bad:
                said = printed.get(first + at)
                message = f"step {first + at}: rank {rank} computed the loss {bad[0]}, the log says {said}"
                return Fault("not_finite", message, f"losses of the step: {step['losses']}")
    wrong = [s for s in log.steps if not math.isfinite(s.loss)]
    if wrong:
        message = f"the log says loss {wrong[0].loss} at step {wrong[0].step}"
        return Fault("not_finite", message, f"not finite at {show([s.step for s in wrong])}")
    return None


def printed_fault(answers: Sequence[Mapping[str, Any]], log: StepLog, first: int) -> Fault | None:
    """A loss in the log lies among those that the ranks computed in that step; four decimals are printed."""
    for step in log.steps:
        true = true_losses(answers, step.step, first)
        if not true:
            return Fault("bad_log", f"the log has step {step.step}, which no rank made", str(step))
        slack = 6e-5 + 1e-5 * max(abs(v) for v in true)
        if not min(true) - slack <= step.loss <= max(true) + slack:
            message = f"step {step.step}: the log says {step.loss}, the ranks computed {show_losses(true)}"
            return Fault("bad_log", message, str(step))
    return None


def falls_fault(log: StepLog, over: int) -> Fault | None:
    """Over `over` steps at either end, the later mean loss is lower; 0 asks for nothing."""
    if not over:
        return None
    losses = [s.loss for s in log.steps]
    if len(losses) < 2 * over:
        return Fault("bad_log", f"only {len(losses)} losses are logged, {2 * over} are needed", "")
    start, end = (sum(part) / over for part in (losses[:over], losses[-over:]))
    if end < start:
        return None
    message = (
        f"the mean loss of the last {over} steps, {end:.4f}, is not below that of the first, {start:.4f}"
    )
    return Fault("drift", message, "")


def rates_fault(log: StepLog, plan: Mapping[str, Any]) -> Fault | None:
    """The backbone's rate is 0 before the freeze's last step and the planned one after it, to six decimals.

    At that step itself it may be either: VITRA prints the rate that the next step will have.
    """
    rate, freeze = float(plan["rate"]), int(plan.get("freeze_steps", 0))
    for step in log.steps:
        allowed = [0.0] if step.step <= freeze else [rate]
        if step.step == freeze:
            allowed.append(rate)
        if not any(abs(step.rate - a) <= 5.1e-7 for a in allowed):
            message = f"step {step.step}: the log says rate {step.rate:.6f}, planned is {allowed[0]:.6f}"
            return Fault("wrong_rate", message, f"frozen until step {freeze}, then {rate}\n{step}")
    return None


def checkpoints_fault(found: Sequence[Mapping[str, Any]], due: Sequence[int]) -> Fault | None:
    """A checkpoint for each step due and no other, whole, finite, each with weights and optimizer of its own.

    Another one may stand at the end of an epoch, when its name says so (`.end`).
    """
    regular = [c for c in found if ".end" not in c["name"]]
    there = [c["step"] for c in regular]
    said = [f"no checkpoint after step {n}" for n in due if n not in there]
    said += [f"a checkpoint that is not due: {c['name']}" for c in regular if c["step"] not in due]
    for one in found:
        for name, file in one["files"].items():
            said += [f"{one['name']}/{name} {what}" for what in _file_faults(file)]
        counted = one["files"]["optimizer.pt"].get("count")
        if counted is not None and counted != one["step"]:
            said.append(f"{one['name']}/optimizer.pt holds the state after {counted:g} steps")
    for name in ("weights.pt", "optimizer.pt"):
        digests: dict[str, str] = {}
        for one in regular:
            digest = one["files"][name].get("digest")
            if digest is not None and (earlier := digests.setdefault(digest, one["name"])) != one["name"]:
                said.append(f"{one['name']}/{name} holds what {earlier} holds")
    if not said:
        return None
    return Fault("checkpoint", "; ".join(said), "\n".join(str(dict(c)) for c in found))


def _file_faults(file: Mapping[str, Any]) -> list[str]:
    if "error" in file:
        return [file["error"]]
    said = [] if file["numbers"] else ["holds no tensors"]
    return said if file["finite"] else [*said, "holds values that are not finite"]


def start_fault(answers: Sequence[Mapping[str, Any]], log: StepLog, after: int) -> Fault | None:
    """Every rank started from the checkpoint after step `after` with its optimizer's state, and went on from there;
    `after` 0 is a start without one."""
    for rank, answer in enumerate(answers):
        number = re.search(r"step[=-](\d+)", str(answer["start"]).rpartition("/")[2])
        found = int(number[1]) if number else 0
        if found != after:
            message = (
                f"rank {rank} finds {answer['start']} to start from, the last save was after step {after}"
            )
            return Fault("checkpoint", message, "")
    if log.numbers and log.numbers[0] != after + 1:
        message = f"the first step logged is {log.numbers[0]}, the last save was after step {after}"
        return Fault("wrong_state", message, f"logged: {show(log.numbers)}; bars started at {log.started}")
    for rank, answer in enumerate(answers):
        if answer["count_before"] not in (None, after):
            message = (
                f"rank {rank}: the optimizer had made {answer['count_before']:g} steps, {after} were saved"
            )
            return Fault("wrong_state", message, "")
    return None


def made_fault(answers: Sequence[Mapping[str, Any]], planned: int) -> Fault | None:
    """Every rank made the planned number of optimizer steps."""
    for rank, answer in enumerate(answers):
        made = len(answer["steps"])
        if made != planned:
            return Fault(
                "wrong_state", f"rank {rank} made {made} optimizer steps, {planned} were planned", ""
            )
    return None


def show(numbers: Sequence[int]) -> str:
    """`steps 1 to 5, 7` for numbers in any order; `no step` for none."""
    if not numbers:
        return "no step"
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    parts = [str(r[0]) if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in runs]
    return ("step " if runs == [[runs[0][0]]] else "steps ") + ", ".join(parts)


def show_losses(losses: Sequence[float]) -> str:
    """One loss, or the lowest and the highest."""
    low, high = min(losses), max(losses)
    return f"{low:.6f}" if low == high else f"{low:.6f} to {high:.6f}"
