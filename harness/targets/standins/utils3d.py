"""Stands in for EasternJournalist/utils3d (on no index) so that VITRA's data path can be imported.

Only augmentation calls it. A call says so instead of answering.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(
        f"utils3d.{name}: VITRA's augmentation needs the real utils3d (github.com/EasternJournalist/utils3d); "
        "install it, or keep augmentation off"
    )
