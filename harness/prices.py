"""Reads a list of prices; a mistake in it is one line that names file, entry and key."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import toml_files
from harness.cost import Price, Prices
from harness.errors import UsageError

KEYS = ("runner", "per_device_hour", "currency", "source", "date")


def load(path: Path) -> Prices:
    """The prices of a TOML file, in their order; UsageError for any mistake in it."""
    data = toml_files.read(path, UsageError, "--prices names a file of [[price]] tables")
    if unknown := sorted(set(data) - {"price", "epoch_samples"}):
        raise UsageError(
            f"{path}: unknown key {unknown[0]!r}; only epoch_samples and [[price]] tables belong here"
        )
    epoch = data.get("epoch_samples")
    if epoch is not None and not _positive(epoch):
        raise UsageError(f"{path}: epoch_samples = {epoch!r}: must be a number above 0")
    entries = data.get("price", [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise UsageError(f"{path}: write [[price]], with two brackets")
    if not entries:
        raise UsageError(f"{path}: no [[price]] in it; add one, or leave --prices out")
    prices = tuple(_price(entry, f"{path}: entry {n}") for n, entry in enumerate(entries, 1))
    return Prices(prices, None if epoch is None else float(epoch))


def _price(entry: Mapping[str, Any], where: str) -> Price:
    if unknown := sorted(set(entry) - set(KEYS)):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; keys are {', '.join(KEYS)}")
    for key in KEYS:
        if key not in entry:
            raise UsageError(f"{where}: {key} is missing; every price has one")
    for key in ("runner", "currency", "source"):
        if not isinstance(entry[key], str) or not entry[key].strip():
            raise UsageError(f"{where}: {key} = {entry[key]!r}: must be text")
    if not re.fullmatch(r"[A-Z]{3}", entry["currency"]):
        raise UsageError(f"{where}: currency = {entry['currency']!r}: write three letters, as USD")
    if not _positive(entry["per_device_hour"]):
        raise UsageError(f"{where}: per_device_hour = {entry['per_device_hour']!r}: must be a number above 0")
    source = " ".join(entry["source"].split())
    price = float(entry["per_device_hour"])
    return Price(entry["runner"], price, entry["currency"], source, _day(entry["date"], where))


def _positive(value: Any) -> bool:
    # A bool is an int in Python, and no number here; a huge int is no float.
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 < float(value) < math.inf
    except OverflowError:
        return False


def _day(value: Any, where: str) -> str:
    found = toml_files.day(value)
    if found is None:
        raise UsageError(f"{where}: date = {value!r}: write the day of the price as 2026-12-01")
    return found
