"""Which examples hypothesis tries: the same each time, or new ones from a seed in `HARNESS_EXPLORE`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.errors import UsageError

VARIABLE = "HARNESS_EXPLORE"
_LARGEST = 2**63 - 1


def read_seed(variables: Mapping[str, str]) -> int | None:
    """The seed of new examples; None for the same ones each time. UsageError for what is no whole number."""
    text = variables.get(VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > _LARGEST:
        raise UsageError(
            f"{VARIABLE}={text}: a whole number from 0 to {_LARGEST}, or nothing for the same examples"
        )
    return int(text)


def load_profile(name: str, seed: int | None, **options: Any) -> None:
    """Makes this profile of hypothesis' settings the one that holds; with a seed it draws all examples from that."""
    from hypothesis import core, settings

    if seed is not None:
        # What its own option --hypothesis-seed sets, which does not reach the processes of workers.
        core.global_force_seed = seed  # type: ignore[assignment]
        options["derandomize"] = False
    settings.register_profile(name, **options)
    settings.load_profile(name)
