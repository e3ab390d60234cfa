"""What a bundle tells of the steps after its checkpoint, held against what this machine did; pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.crossing import BY_NOISE
from harness.parity import Envelopes, Series, judge_parity
from harness.records import finite

EXIT_STATUS: Mapping[str, int] = {
    "agree": 0,
    "differ": 1,
    "inconclusive": 3,
    "inputs_differ": 3,
    "incomparable": 3,
    "not_loaded": 3,
}
NUMBERS = 1e-5
"""Greatest relative difference of an item's numbers: poses go through other libraries' sines elsewhere."""


def merge(answers: Sequence[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    """The ranks' steps as one: mean loss, all samples."""
    merged = []
    for steps in zip(*(a[key] for a in answers), strict=True):
        losses = [s["loss"] for s in steps]
        mean = math.fsum(losses) / len(losses) if all(map(math.isfinite, losses)) else math.nan
        samples = sorted(n for s in steps for n in s["samples"])
        merged.append({**steps[0], "loss": mean, "samples": samples})
    return merged


def rounding(precision: str, *sides: Mapping[str, Any]) -> str:
    """`tf32` for fp32 whose products one side's device may round, as a target can allow; else the precision."""
    may = any(s["products"] != "highest" and s["runner"]["name"] != "cpu" for s in sides)
    return "tf32" if may and precision == "fp32" else precision


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def differing(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    """What differs between two sides and may decide bits, in words; empty where equal bits are to be had."""
    yield from (
        f"{what}: {a} there, {b} here"
        for what, a, b in (
            *((k.replace("_", " "), there["runner"][k], here["runner"][k]) for k in ("name", "device_arch")),
            ("processor", there["machine"]["processor"], here["machine"]["processor"]),
            ("ranks", there["world"], here["world"]),
            *((k, there[k], here[k]) for k in ("threads", "products")),
            ("sharding", there["plan"]["api"], here["plan"]["api"]),
            *(
                (f"target {k}", there["target"][k], here["target"][k])
                for k in ("commit", "dirty", "supplies")
            ),
            ("harness commit", there["harness"]["commit"], here["harness"]["commit"]),
            *(
                (k, there["software"].get(k), here["software"].get(k))
                for k in sorted({*there["software"], *here["software"]})
            ),
            *((k, v, here["vendor"].get(k)) for k, v in there["vendor"].items()),
        )
        if a != b
    )


def judge_bundle(
    packed: Mapping[str, Any],
    here: Mapping[str, Any],
    loaded: Sequence[str],
    *,
    precision: str,
    exact: bool,
) -> dict[str, Any]:
    """The verdict on two sides' `trace` and `inputs`; `loaded` says what the loaded state lacks of the bundle's.

    What comes first decides: the state, the order of samples, the inputs, the steps. `exact` demands equal bits.
    """
    steps = _steps(packed["trace"], here["trace"])
    other = [s for s, i in packed["inputs"].items() if not _same_input(i, here["inputs"].get(s))]
    told = {"loaded": list(loaded), "inputs": {"compared": len(packed["inputs"]), "differ": other}}

    def say(verdict: str, reason: str, step: int | None = None) -> dict[str, Any]:
        status = EXIT_STATUS[verdict]
        return {
            "verdict": verdict,
            "reason": reason,
            "exit_status": status,
            "step": step,
            "steps": steps,
            **told,
        }

    if loaded:
        more = f" and {len(loaded) - 1} more" if len(loaded) > 1 else ""
        return say("differ", f"what was loaded is not what the bundle holds: {loaded[0]}{more}")
    if len(packed["trace"]) != len(here["trace"]) or not steps:
        return say(
            "inconclusive", f"{len(packed['trace'])} steps there, {len(here['trace'])} here: nothing to hold"
        )
    for there, now in zip(packed["trace"], here["trace"], strict=True):
        if there["step"] != now["step"] or there["samples"] != now["samples"]:
            return say(
                "differ", f"step {there['step']} reads other samples: the order of data", there["step"]
            )
    if other:
        what = "picture" if _picture(packed, here, other[0]) else "numbers"
        return say(
            "inputs_differ",
            f"{what} of sample {other[0]}{f' and {len(other) - 1} more samples' if len(other) > 1 else ''} "
            "differ before training: the decoder or the data path, not the training",
        )
    if exact:
        for row in steps:
            if not row["bits"]:
                return say(
                    "differ",
                    f"step {row['step']} is not bit for bit as packed, on the same kind of machine",
                    row["step"],
                )
        return say("agree", f"{len(steps)} steps bit for bit as packed")
    for name, key in (("loss", "loss"), ("gradient norm", "norm")):
        parity = judge_parity(
            _series("packed", packed, key),
            _series("here", here, key),
            envelopes=_envelopes(f"{precision}-{key}", steps[0]["step"], len(steps)),
        )
        if parity.verdict != "agree":
            return say(parity.verdict, f"{name}: {parity.reason}", parity.first_step)
    most = {k: max(row[f"{k}_difference"] or 0.0 for row in steps) for k in ("loss", "norm")}
    return say(
        "agree",
        f"{len(steps)} steps inside the envelopes of {precision}; largest relative difference "
        f"{most['loss']:.1e} of the loss, {most['norm']:.1e} of the gradient norm",
    )


def _series(name: str, side: Mapping[str, Any], key: str) -> Series:
    told = [s for s in side["trace"] if s[key] is not None]
    return Series(name, tuple(s["step"] for s in told), tuple(s[key] for s in told))


def _picture(packed: Mapping[str, Any], here: Mapping[str, Any], sample: str) -> bool:
    there, now = packed["inputs"][sample], here["inputs"].get(sample) or {}
    return bool(there["picture"] != now.get("picture"))


def _same_input(there: Mapping[str, Any], now: Mapping[str, Any] | None) -> bool:
    if now is None or there["picture"] != now["picture"]:
        return False
    return math.isclose(there["numbers"], now["numbers"], rel_tol=NUMBERS)


def _envelopes(noise: str, first: int, count: int) -> Envelopes:
    """By step number. Both sides start from equal bits, so the noise is that of a training's first steps."""
    return {
        (a + first - 1, min(b, count) + first - 1): t for (a, b), t in BY_NOISE[noise].items() if a <= count
    }


def _steps(there: Sequence[Mapping[str, Any]], here: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "step": a["step"],
            "loss_packed": a["loss"],
            "loss_here": b["loss"],
            "loss_difference": _relative(a["loss"], b["loss"]),
            "norm_packed": a["norm"],
            "norm_here": b["norm"],
            "norm_difference": _relative(a["norm"], b["norm"]),
            "bits": all(a[k] == b[k] for k in ("weights", "loss", "norm")),
        }
        for a, b in zip(there, here, strict=False)
    ]


def _relative(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return None
    scale = max(abs(a), abs(b))
    return abs(a - b) / scale if scale else 0.0


def short(side: Mapping[str, Any]) -> dict[str, Any]:
    """A side in what a reader must know of it."""
    target, runner = side["target"], side["runner"]
    return {
        "target": target["name"],
        "commit": target["commit"],
        "runner": runner["name"],
        "device_arch": runner["device_arch"],
        "emulated": runner["emulated"],
        "world": side["world"],
        "torch": side["software"].get("torch"),
        "precision": side["plan"]["precision"],
        "api": side["plan"]["api"],
    }


def unanswered(verdict: str, reason: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What verify tells where no step was made."""
    return {
        "verdict": verdict,
        "reason": reason,
        "exit_status": EXIT_STATUS[verdict],
        "step": None,
        "steps": [],
        "loaded": None,
        "inputs": None,
        "notes": [],
        "packed": short(manifest),
        "here": None,
    }


def render_json(told: Mapping[str, Any]) -> str:
    """One JSON object; keys are added in later versions, never removed or given another meaning."""
    return json.dumps(finite({"checkpoint_verify": 1, **told}), indent=1, allow_nan=False)


def render_terminal(told: Mapping[str, Any]) -> str:
    """The verdict and why on the first line, both sides, then a table by step."""
    lines = [f"{told['verdict'].replace('_', ' ').upper()}: {told['reason']}", ""]
    for word, side in (("packed", told["packed"]), ("here", told["here"])):
        if side is not None:
            commit = f" {side['commit'][:7]}" if side["commit"] else ""
            emulated = " EMULATED" if side["emulated"] else ""
            lines.append(
                f"{word:8}{side['target']}{commit}, {side['runner']} {side['device_arch']}{emulated}, "
                f"{counted(side['world'], 'rank')}, torch {side['torch']}, {side['precision']}, {side['api']}"
            )
    if told["loaded"] is not None:
        count = len(told["loaded"])
        lines.append(
            f"state   {counted(count, 'difference') if count else 'bit for bit as packed'} after loading"
        )
        lines += [f"        {line}" for line in told["loaded"][:10]]
    if told["inputs"] is not None:
        differ = len(told["inputs"]["differ"])
        lines.append(
            f"inputs  {told['inputs']['compared'] - differ} of {told['inputs']['compared']} as packed"
        )
    if told["steps"]:
        lines += ["", f"{'step':>5} {'loss packed':>13} {'loss here':>13} {'rel':>8} "
                  f"{'norm packed':>13} {'norm here':>13} {'rel':>8}  weights"]  # fmt: skip
        lines += [_row(row) for row in told["steps"]]
    lines += ["", *(f"note: {note}" for note in told["notes"])] if told["notes"] else []
    return "\n".join(lines)


def _row(row: Mapping[str, Any]) -> str:
    def number(value: float | None, width: int, form: str) -> str:
        return f"{'-' if value is None else format(value, form):>{width}}"

    cells = [
        f"{row['step']:>5}",
        number(row["loss_packed"], 13, ".8g"),
        number(row["loss_here"], 13, ".8g"),
        number(row["loss_difference"], 8, ".1e"),
        number(row["norm_packed"], 13, ".8g"),
        number(row["norm_here"], 13, ".8g"),
        number(row["norm_difference"], 8, ".1e"),
        "same bits" if row["bits"] else "other bits",
    ]
    return " ".join(cells[:-1]) + f"  {cells[-1]}"
