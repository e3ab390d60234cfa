"""The options that pytest takes when it makes a run."""

from __future__ import annotations

import argparse

import pytest


def add_options(parser: pytest.Parser) -> None:
    """Declares the options of a session that makes a run."""
    group = parser.getgroup("harness")
    group.addoption("--runner", default="cpu", help="kind of machine (default: cpu)")
    group.addoption("--target", default=None, help="code base under test (default: vitra, else reference)")
    group.addoption("--target-path", default=None, help="a checkout of the target")
    group.addoption("--patch", action="append", default=[], help="patch to put in force; may be repeated")
    group.addoption("--defect", default=None, help="defect to plant in the target")
    group.addoption("--run-dir", default=None, help="new folder for this run (default: a new one in runs/)")
    group.addoption(
        "--without-controls", action="store_true", help="controls do not run by themselves: no verdict"
    )
    group.addoption(
        "--require",
        action="append",
        default=[],
        metavar="CAPABILITY",
        help="tests that lack this capability fail in place of being skipped; may be repeated",
    )
    group.addoption("--full", action="store_true", help="also the long form of the smoke suite (full.toml)")
    group.addoption(
        "--repeat",
        type=int,
        default=None,
        metavar="N",
        help="fresh processes for each repeated (throughput) test (default: 1; with --base 2 for the screen)",
    )
    group.addoption(
        "--base",
        default=None,
        metavar="REF",
        help="compare repeated tests with this git revision or checkout of the target, in two stages; "
        "`clean`: the target without its planted defect",
    )
    group.addoption("--join", type=int, default=None, help=argparse.SUPPRESS)
    group.addoption("--time-limit", type=float, default=60.0, help="seconds until a child counts as hanging")
