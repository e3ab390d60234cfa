"""What a suite found wrong, and how it says so."""

from __future__ import annotations

from typing import Any, NamedTuple


class Fault(NamedTuple):
    """Kind (a key of records.KINDS), what was seen in a sentence, and the failing part's own text."""

    kind: str
    message: str
    detail: str


def judge(record: Any, fault: Fault | None) -> None:
    """Fails the test with the fault, if there is one. `record` is the plugin's fixture."""
    if fault is not None:
        record.fail(*fault)
