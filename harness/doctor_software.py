"""Checks of the software that the suites need: ffmpeg, decord, the target and its pins; pure."""

from __future__ import annotations

from harness.runners.facts.checks_base import Answer, Check, Looked, unknown, without_torch

DECORD = "0.6.0"
TRANSFORMERS = "4.47.1"
_OTHER = "this interpreter has neither this nor torch: it is not the one of the suites"
_SESSION = "run the doctor with the interpreter of the session (.nox/NAME/bin/python)"


def _imported(looked: Looked, module: str) -> str | None:
    """How the trial import went: empty when well, an error's text, None when it was not tried."""
    return looked.around.imports.get(module)


def _judge_ffmpeg(looked: Looked) -> Answer:
    path, package = looked.seen.programs.get("ffmpeg"), looked.seen.packages.get("imageio-ffmpeg")
    error = _imported(looked, "imageio_ffmpeg")
    if error == "" or (error is None and package):
        return Answer("fine", f"that of imageio-ffmpeg {package or ''}".rstrip())
    if error:
        return Answer("wrong", f"imageio-ffmpeg: {error}")
    if path:
        return Answer("doubtful", f"{path} alone: another build makes other clips")
    if "imageio-ffmpeg" in looked.seen.packages:
        return unknown(_OTHER, _SESSION) if without_torch(looked) else Answer("wrong", "none is here")
    return unknown("it was not looked for")


def _pinned(looked: Looked, package: str, module: str, pin: str) -> Answer:
    error = _imported(looked, module)
    found = looked.seen.packages.get(package)
    if error:
        return Answer("wrong", f"{package} {found or ''} cannot be imported: {error}".replace("  ", " "))
    if package not in looked.seen.packages:
        return unknown(f"{package} was not looked for")
    if found is None:
        return (
            unknown(_OTHER, _SESSION)
            if without_torch(looked)
            else Answer("wrong", f"{package} is not installed")
        )
    if found.partition("+")[0] != pin:
        return Answer("doubtful", f"{package} {found}; the suites know {pin}")
    return Answer("fine", f"{package} {found}" + ("" if error is None else ", imported"))


def _judge_decord(looked: Looked) -> Answer:
    return _pinned(looked, "decord", "decord", DECORD)


def _judge_transformers(looked: Looked) -> Answer:
    if looked.around.target != "vitra":
        return Answer("fine", f"not asked for: the target is {looked.around.target or 'not known'}")
    found = _pinned(looked, "transformers", "transformers", TRANSFORMERS)
    # Another version returns another class from the vision tower: VITRA's first forward pass fails.
    return Answer("wrong", found.seen) if found.state == "doubtful" else found


def _judge_torchvision(looked: Looked) -> Answer:
    if looked.around.target != "vitra":
        return Answer("fine", f"not asked for: the target is {looked.around.target or 'not known'}")
    error, packages = _imported(looked, "torchvision"), looked.seen.packages
    if error is None and "torchvision" not in packages:
        return unknown("it was not looked for")
    if packages.get("torchvision") is None and error is None:
        return Answer("fine", "not installed; the target's data path goes without")
    name = f"torchvision {packages.get('torchvision') or ''}".strip()
    if error:
        if any("torchvision" in s for s in looked.around.supplies):
            return Answer(
                "fine", f"{name} is of another build than torch; the harness declares its operators"
            )
        return Answer("wrong", f"{name}: {error}")
    return Answer("fine", name + ("" if error is None else ", imported beside torch"))


def _judge_target(looked: Looked) -> Answer:
    around = looked.around
    if around.target is None:
        return unknown("none was looked for, or this interpreter has not what that needs", _SESSION)
    if around.target_why_not:
        return Answer("wrong", f"{around.target}: {around.target_why_not}")
    supplied = f"; supplied here: {len(around.supplies)} parts" if around.supplies else ""
    return Answer("fine", f"{around.target}{supplied}")


def _judge_utils3d(looked: Looked) -> Answer:
    if looked.around.target != "vitra":
        return Answer("fine", f"not asked for: the target is {looked.around.target or 'not known'}")
    if any("utils3d" in s for s in looked.around.supplies):
        return Answer("fine", "not installed; the harness's stand-in takes its place")
    error = _imported(looked, "utils3d")
    if error is None:
        return unknown("it was not looked for")
    return Answer("wrong", error) if error else Answer("fine", "imported")


def _judge_wandb(looked: Looked) -> Answer:
    there = looked.around.variables_set
    if "WANDB_API_KEY" not in there:
        return unknown("the environment was not looked at")
    names = [n for n in ("WANDB_API_KEY", "WANDB_MODE") if there.get(n)]
    if "WANDB_API_KEY" in names and "WANDB_MODE" not in names:
        return Answer("doubtful", "WANDB_API_KEY is set and WANDB_MODE is not: training would upload")
    return Answer(
        "fine", " and ".join(names) + (" set" if len(names) == 1 else " are set") if names else "not set"
    )


SOFTWARE = (
    Check(
        "ffmpeg",
        "an ffmpeg that makes the clips",
        "the suites on the decoder make their clips with it",
        "pip install imageio-ffmpeg",
        _judge_ffmpeg,
    ),
    Check(
        "decord",
        f"decord, and whether it is {DECORD}",
        "the target reads every video with it; another version fails and succeeds on other files",
        f"pip install decord=={DECORD}",
        _judge_decord,
    ),
    Check(
        "target",
        "the code base under test",
        "without it a run tests the harness's reference, and says so",
        "harness targets --fetch vitra, or name a checkout in HARNESS_VITRA",
        _judge_target,
    ),
    Check(
        "transformers",
        f"transformers, and whether it is {TRANSFORMERS}",
        "with another version VITRA's first forward pass fails: the vision tower returns another type",
        f"pip install transformers=={TRANSFORMERS}",
        _judge_transformers,
        link="https://github.com/microsoft/VITRA/issues/42",
    ),
    Check(
        "utils3d",
        "utils3d, which VITRA's augmentation calls",
        "it is on no index; without it and without a stand-in the data path cannot be imported",
        "pip install git+https://github.com/EasternJournalist/utils3d",
        _judge_utils3d,
    ),
    Check(
        "torchvision",
        "torchvision beside torch",
        "one built for another torch fails while it is imported: 'operator torchvision::nms does not exist'",
        "install the torchvision of the same index and release as torch, with --no-deps",
        _judge_torchvision,
    ),
    Check(
        "wandb",
        "WANDB_API_KEY and WANDB_MODE: whether they are set, never what they hold",
        "VITRA's training refuses to start without a key, and uploads with one",
        "export WANDB_MODE=offline",
        _judge_wandb,
    ),
)
