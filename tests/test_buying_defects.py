"""Four faults of a comparison, planted in run folders and price files: the page catches each, and a page that is blind to
one does not.

`harness defects` plants faults in the target and runs a suite. The comparison is no suite: its faults are in what it is
given, so they are planted there, on copies, and read off the page that the command makes.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import vllm_made
from buy_made import FP32, TWO, cheap, dear, loss, make_offer, spread, step, turns
from harness import buy_costs, buy_page, buy_taking, cli, rundir
from harness.exchange import vllm_numbers
from harness.records import to_json
from history_runs import write_folder

PRICES = """
[[price]]
runner = "*"
per_device_hour = 2.0
currency = "USD"
source = "INVENTED"
date = "2026-12-01"
"""


@dataclass
class Place:
    """Copies of a slow and of a fast machine, of a served file, and of a price file."""

    folder: Path

    def runs(self) -> list[Path]:
        return [self.folder / "slow", self.folder / "fast"]

    def page(self, *folders: Path) -> dict[str, Any]:
        """The page of the command as JSON."""
        out = self.folder / "page.json"
        words = [*(str(f) for f in folders or self.runs()), "--prices", str(self.folder / "prices.toml")]
        assert cli.main(["buy", *words, "--format", "json", "--output", str(out)]) in (0, 3)
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    def served(self, value: dict[str, Any]) -> dict[str, Any]:
        """The page of an imported file."""
        path, into = self.folder / "served.json", self.folder / "imported"
        path.write_text(json.dumps(value))
        words = ["--into", str(into), "--runner", "serve", "--device", "x", "--devices", "1"]
        assert cli.main(["import", "vllm-bench", str(path), *words]) == 0
        (run,) = into.iterdir()
        return self.page(run)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sound run folders."""
    folder = tmp_path_factory.mktemp("originals")
    tails = turns(spread(0.1), tail=6.0)
    write_folder(
        folder, cheap(records=[*step(spread(0.2)), *turns(spread(0.2), tail=6.0)], run_id="slow").run
    )
    write_folder(folder, dear(records=[*step(spread(0.1)), *tails], run_id="fast").run)
    return folder


@pytest.fixture
def place(originals: Path, tmp_path: Path) -> Place:
    """Copies of the originals, to plant in."""
    for run in ("slow", "fast"):
        shutil.copytree(originals / run, tmp_path / run)
    (tmp_path / "prices.toml").write_text(PRICES)
    return Place(tmp_path)


def line(page: dict[str, Any], test: str = FP32) -> dict[str, Any]:
    """The row of a test."""
    found: dict[str, Any] = next(x for x in page["lines"] if x["test"] == test)
    return found


# The faults, and how a page shows that it caught one.


def plant_stale(place: Place) -> dict[str, Any]:
    """The fast machine's price is a tenth of the other's, and older than a year."""
    old = PRICES.replace('"*"', '"dear*"').replace("2.0", "0.2").replace("2026-12-01", "2025-06-01")
    (place.folder / "prices.toml").write_text(old + PRICES)
    return place.page()


def caught_stale(page: dict[str, Any]) -> bool:
    """Marked stale, in no order, and said."""
    costs = line(page)["cells"][1]["costs"]["million samples"]
    said = any("its costs are stale" in words for words in page["not_compared"])
    return (
        costs["stale"]
        and line(page)["cheapest"] == {}
        and said
        and all(f["cheaper"] is None for f in page["flips"])
    )


def plant_mixed(place: Place) -> dict[str, Any]:
    """The fast machine trained with twice the global batch."""
    for path in (place.folder / "fast").glob("records-*.jsonl"):
        rows = [json.loads(row) for row in path.read_text().splitlines()]
        for row in rows:
            for metric in row.get("metrics", ()):
                if metric["name"] == "step_s":
                    metric["work"]["samples"] = 8.0
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place.page()


def caught_mixed(page: dict[str, Any]) -> bool:
    """Not compared, with the batches, and no price at which the order would flip."""
    apart = line(page)["cells"][1]["not_compared"]
    return apart == "another global batch: 8, not 4" and not any(f["test"] == FP32 for f in page["flips"])


def plant_emulated(place: Place) -> dict[str, Any]:
    """The fast machine was emulated."""
    header = rundir.read_header(place.folder / "fast")
    runner = {**to_json(header.runner), "emulated": True}
    path = place.folder / "fast" / rundir.HEADER
    path.write_text(json.dumps({**json.loads(path.read_text()), "runner": runner}))
    return place.page()


def caught_emulated(page: dict[str, Any]) -> bool:
    """No number and no cost of it, and said."""
    cell = line(page)["cells"][1]
    said = any("is emulated: it has no place" in words for words in page["not_compared"])
    return cell["figures"] == {} and cell["costs"] == {} and said and page["flips"] == []


def plant_mean(place: Place) -> dict[str, Any]:
    """A served file holds its mean where a 95th percentile should be."""
    value = vllm_made.make("2025", seed=3)
    for quantity in ("ttft", "itl"):
        value[f"p95_{quantity}_ms"] = value[f"mean_{quantity}_ms"]
    return place.served(value)


def caught_mean(page: dict[str, Any]) -> bool:
    """Both percentiles are unknown, and the true ones beside them are known."""
    figures = page["lines"][0]["cells"][0]["figures"]
    unknown = all(figures[f"{q} p95"]["value"] is None for q in ("TTFT", "inter-token"))
    return unknown and all(figures[f"{q} p99"]["value"] for q in ("TTFT", "inter-token"))


FAULTS: dict[str, tuple[Callable[[Place], dict[str, Any]], Callable[[dict[str, Any]], bool]]] = {
    "cost-from-a-stale-price": (plant_stale, caught_stale),
    "mixed-batch-sizes": (plant_mixed, caught_mixed),
    "emulated-beside-measured": (plant_emulated, caught_emulated),
    "mean-in-place-of-p95": (plant_mean, caught_mean),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_caught(name: str, place: Place) -> None:
    """The page of each fault shows that it was caught."""
    plant, caught = FAULTS[name]
    assert caught(plant(place))


def test_sound_runs_are_compared(place: Place) -> None:
    """Without a fault there is an order, a cheapest machine and a price at which it flips: nothing is 'caught'."""
    page = place.page()
    assert line(page)["cheapest"] == {"million samples": "dear-x-1"}
    assert page["not_compared"] == []
    assert all(f["cheaper"] == "dear-x-1" for f in page["flips"])
    assert not any(caught(page) for caught in (caught_stale, caught_mixed, caught_emulated))
    served = place.served(vllm_made.make("2025", seed=3))
    assert not caught_mean(served)
    assert served["lines"][0]["cells"][0]["figures"]["TTFT p95"]["value"] is not None


@pytest.mark.parametrize("name", FAULTS)
def test_a_blind_page_is_seen(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its guard taken out of the code, the page no longer shows that the fault was caught: the check above can fail."""
    if name == "cost-from-a-stale-price":
        monkeypatch.setattr(buy_page, "OLD_DAYS", 10**6)
    elif name == "mixed-batch-sizes":
        monkeypatch.setattr(buy_page, "apart", lambda *_: "")
    elif name == "emulated-beside-measured":
        monkeypatch.setattr(buy_page, "_emulated", lambda _: False)
    else:
        monkeypatch.setattr(vllm_numbers, "same_as_mean", lambda *_: False)
    plant, caught = FAULTS[name]
    assert not caught(plant(place))


def test_a_mean_of_calls_would_be_seen(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """p95 of an inference is that of its single calls, worked out here anew; a page that took their mean is seen."""
    run = rundir.load(place.folder / "fast")
    calls = [m.samples[m.warmup :] for r in run.each_by_test[TWO] for m in r.metrics if m.name == "call_s"]
    p95 = statistics.median(statistics.quantiles(c, n=20, method="inclusive")[18] for c in calls)
    value = line(place.page(), TWO)["cells"][1]["figures"]["p95"]["value"]
    assert value == pytest.approx(p95, rel=0.01)
    monkeypatch.setattr(buy_taking, "percentile", lambda samples, share: statistics.fmean(samples))
    wrong = line(place.page(), TWO)["cells"][1]["figures"]["p95"]["value"]
    assert wrong != pytest.approx(p95, rel=0.2)


def test_quality_cannot_be_planted_away(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces of the fast machine that leave the reference's strike its costs; a page that looks at none would call it the
    cheapest."""
    path = place.folder / "wrong"
    write_folder(path, make_offer("dear", *step(spread(0.1)), loss(1.01), traces=False, run_id="wrong").run)
    slow = place.folder / "slow"
    page = place.page(slow, path / "wrong")
    assert page["machines"][1]["parity"] == "differ"
    assert line(page)["cheapest"] == {}
    monkeypatch.setattr(buy_page, "struck_by", lambda *_: ())
    assert line(place.page(slow, path / "wrong"))["cheapest"] == {"million samples": "dear-x-1"}


def test_costs_use_no_other_machines_devices(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cost counts the devices that were occupied: a page that forgot them is seen."""
    two = make_offer("dear", *step(spread(0.1), devices=2), runner={"device_count": 2}, run_id="two")
    folder = write_folder(place.folder / "more", two.run)
    right = line(place.page(folder))["cells"][0]["costs"]["step"]["value"]
    monkeypatch.setattr(buy_costs, "_devices", lambda *_: 1)
    assert line(place.page(folder))["cells"][0]["costs"]["step"]["value"] == pytest.approx(right / 2)
