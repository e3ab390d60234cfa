"""The page for programs; its keys are told in docs/buying.md."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from harness import buy_words
from harness.buying import Cell, Figure, Flip, Line, Machine, Page
from harness.estimates import Estimate
from harness.records import finite

VERSION = 1


def render(page: Page, *, width: int = 110, color: bool = False) -> str:
    """One object; unknown is null, and text is as it stands in the runs."""
    del width, color
    value = {
        "buy": VERSION,
        "exit_status": page.exit_status,
        "headline": buy_words.headline(page),
        "reference": page.reference,
        "prices": page.prices is not None,
        "epoch_samples": None if page.prices is None else page.prices.epoch_samples,
        "machines": [_machine(m) for m in page.machines],
        "lines": [_line(page, n) for n in range(len(page.lines))],
        "flips": [_flip(f) for f in page.flips],
        "not_compared": list(page.apart),
    }
    return json.dumps(finite(value), indent=1, allow_nan=False)


def _machine(m: Machine) -> dict[str, Any]:
    found = {f.name: getattr(m, f.name) for f in dataclasses.fields(m)}
    price = None if m.price is None else dataclasses.asdict(m.price)
    return {**found, "struck": list(m.struck), "served": list(m.served), "price": price}


def _line(page: Page, n: int) -> dict[str, Any]:
    line = page.lines[n]
    cells = zip(page.machines, line.cells, strict=True)
    return {
        "kind": line.kind,
        "test": line.test,
        "chosen": page.chosen.get(line.kind) == n,
        "cheapest": dict(line.cheapest),
        "cells": [_cell(m, c, line) for m, c in cells],
    }


def _cell(machine: Machine, cell: Cell, line: Line) -> dict[str, Any]:
    return {
        "machine": machine.name,
        "there": cell.there,
        "why": cell.why,
        "note": cell.note,
        "not_compared": cell.apart,
        "uneven": cell.uneven,
        "devices": cell.devices,
        "processes": cell.processes,
        "work": dict(cell.work),
        "figures": {f.name: _figure(f) for f in cell.figures},
        "costs": {
            f.name: {**_figure(f), "struck": bool(machine.struck), "stale": machine.stale} for f in cell.costs
        },
        "cost_why": cell.cost_why,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {"unit": figure.unit, **_estimate(figure.estimate, figure.why)}


def _estimate(e: Estimate | None, why: str = "") -> dict[str, Any]:
    if e is None:
        return {"value": None, "low": None, "high": None, "why": why}
    return {"value": e.value, "low": e.low, "high": e.high, "why": e.why}


def _flip(f: Flip) -> dict[str, Any]:
    return {
        "kind": f.kind,
        "test": f.test,
        "unit": f.unit,
        "first": f.first,
        "second": f.second,
        "price": _estimate(f.price, f.why),
        "currency": f.currency,
        "own": f.own,
        "own_currency": f.own_currency,
        "ratio": _estimate(f.ratio, f.why),
        "cheaper": f.cheaper,
        "ranked": f.ranked,
        "why": f.why,
        "struck": [{"machine": name, "why": why} for name, why in f.struck],
        "sentence": buy_words.flip_said(f).text,
    }
