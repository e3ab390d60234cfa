"""Every planted defect is caught, and the clean target passes the tests that catch them."""

from __future__ import annotations

import json

import pytest

import runs
from fixtures import defects
from harness import ROOT, planting
from harness.planting import Planted


def test_every_defect_is_caught() -> None:
    """`harness defects` plants each, catches all, and exits with 0; the clean target is clean."""
    done = runs.harness("defects", "--format", "json")
    found = json.loads(done.stdout)
    assert {d["defect"] for d in found} == set(defects.names())
    suites = {p.parent.name for p in (ROOT / "suites").glob("*/__init__.py")}
    assert {d["suite"] for d in found} == suites, "a suite has no defects"
    assert [d for d in found if d["result"] != "caught"] == []
    assert done.stderr.count("clean target: clean") == len(suites)
    assert done.returncode == 0


def nothing(_target: object) -> None:
    """A defect that does nothing."""


@pytest.mark.parametrize("result", ["missed", "broken"])
def test_a_fault_that_no_test_sees_is_missed(result: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect without effect is missed, and one whose run gives no answer is broken: neither is caught."""
    defect = defects.Defect("idle", "decoder", "does nothing", "test_frame_count", nothing)
    # The run is in another process, which knows its defects by name: this one stands in for a planted one.
    real = planting._run
    if result == "missed":
        monkeypatch.setattr(planting, "_run", lambda suite, select, options: real(suite, select, []))
    else:
        broken = ["--defect", "off-by-one-frame", "--time-limit", "0"]
        monkeypatch.setattr(
            planting, "_run", lambda suite, select, options: real(suite, "nothing_such", broken)
        )
    planted = planting._plant(defect, lambda _line: None)
    assert isinstance(planted, Planted)
    assert planted.result == result
