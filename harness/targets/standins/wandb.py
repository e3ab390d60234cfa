"""Stands for `wandb` where it is not installed: takes what VITRA logs and sends it nowhere."""

from __future__ import annotations

from typing import Any

config: Any = None


def login(*_args: Any, **_kwargs: Any) -> bool:
    """Says yes."""
    return True


def init(*_args: Any, **_kwargs: Any) -> None:
    """Starts nothing."""


def log(*_args: Any, **_kwargs: Any) -> None:
    """Keeps nothing: the harness reads the steps themselves."""


def finish(*_args: Any, **_kwargs: Any) -> None:
    """Ends nothing."""
