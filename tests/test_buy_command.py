"""`harness buy` from the shell: a page of real run folders, its exit status, its mistakes, and the page in a browser."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vllm_made
from buy_made import FP32, TWO, cheap, dear, make_offer, spread, step, turns
from harness import buy_forms, cli
from harness.buying import Offer
from history_runs import write_folder
from test_buy_forms import everything
from test_html_browser import DESKTOP, PHONE, Visit, browser, need

__all__ = ["browser"]  # the fixture
PRICES = """
epoch_samples = 1000
[[price]]
runner = "cheap*"
per_device_hour = 2.0
currency = "USD"
source = "INVENTED"
date = "2026-12-01"
[[price]]
runner = "dear*"
per_device_hour = 6.0
currency = "USD"
source = "INVENTED"
date = "2026-12-01"
[[price]]
runner = "serve-*"
per_device_hour = 3.0
currency = "USD"
source = "INVENTED"
date = "2025-12-01"
"""


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., list[str]]:
    """Writes offers as run folders, with prices beside them; gives the folders' paths."""
    (tmp_path / "prices.toml").write_text(PRICES)

    def write(*offers: Offer) -> list[str]:
        return [str(write_folder(tmp_path / "runs", o.run)) for o in offers]

    return write


def do(*words: str) -> int:
    """Exit status of the harness command."""
    return cli.main(["buy", *words])


def test_the_command_is_found() -> None:
    """The command is among those of `harness`, and tells what it takes."""
    command = importlib.import_module("harness.commands.buy")
    parser = argparse.ArgumentParser()
    command.add(parser)
    assert "--prices" in parser.format_help()


@pytest.mark.parametrize("form", buy_forms.names())
def test_a_page_of_two_runs(
    form: str, made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two run folders and prices are a page in every form, on stdout or in a file; status 0."""
    folders = made(cheap(), dear())
    words = [*folders, "--prices", str(tmp_path / "prices.toml"), "--format", form]
    assert do(*words) == 0
    out = capsys.readouterr().out
    assert "cheap-x-1" in out
    assert do(*words, "--output", str(tmp_path / "page")) == 0
    assert (tmp_path / "page").read_text(encoding="utf-8") == out
    assert capsys.readouterr().out == ""


def test_status_strikes(
    made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command judges each run itself: one with a failed test is red, and its costs are struck with that reason."""
    bad = dear(records=[*step(spread(0.1)), *turns(spread(0.1)), *made_failure()])
    folders = made(cheap(), bad)
    assert do(*folders, "--prices", str(tmp_path / "prices.toml"), "--format", "json") == 0
    page = json.loads(capsys.readouterr().out)
    assert page["machines"][1]["status"] == "red"
    assert any("its run is red" in reason for reason in page["machines"][1]["struck"])


def made_failure() -> list[Any]:
    """A test of another suite that failed."""
    from builders import case, make_record

    return [make_record(case("broken"), "failed")]


def test_names_are_the_users(
    made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One kind of machine of two sellers: named, they have their own prices."""
    one = make_offer("x", *step(spread(0.1)), run_id="one")
    other = make_offer("x", *step(spread(0.1, seed=2)), run_id="other")
    folders = made(one, other)
    words = ["--name", "cheap seller", "--name", "dear seller", "--prices", str(tmp_path / "prices.toml")]
    assert do(*folders, *words, "--format", "json") == 0
    machines = json.loads(capsys.readouterr().out)["machines"]
    assert [(m["name"], m["price"]["per_device_hour"]) for m in machines] == [
        ("cheap seller", 2.0),
        ("dear seller", 6.0),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent"], "no run.json there"),
        (["A", "A"], "name each run once"),
        (["A", "--format", "pdf"], "--format pdf: no such format; there are: html, json, markdown, terminal"),
        (["A", "--prices", "absent.toml"], "absent.toml: not there"),
        (["A", "--name", "x", "--name", "y"], "--name y: 2 names for 1 runs"),
        (["A", "B", "--name", "x", "--name", "x"], "--name x: twice; give each machine a name of its own"),
        (["A", "--output", "absent/page"], "--output absent/page: No such file"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], message: str, made: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake in the call is one line and status 2."""
    a, b = made(cheap(), dear())
    assert do(*({"A": a, "B": b}.get(w, w) for w in words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("what", ["nothing timed", "emulated", "other batches"])
def test_nothing_to_compare_is_three(
    what: str, made: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """No number, an emulated run beside a measured one, and only rows that stand apart: a page, and status 3."""
    offers = {
        "nothing timed": [cheap(records=[])],
        "emulated": [cheap(), dear(runner={"emulated": True})],
        "other batches": [cheap(records=step(spread(0.1))), dear(records=step(spread(0.1), samples=8))],
    }[what]
    assert do(*made(*offers)) == 3
    assert "What machines cost" in capsys.readouterr().out


def serve(
    tmp_path: Path,
    device: str,
    *words: str,
    runner: str = "serve",
    duration: float = 20.0,
    into: str = "imported",
    **changes: Any,
) -> str:
    """A run imported from three made-up results of vLLM's serving benchmark."""
    path = tmp_path / f"{into}-{runner}-{device}.json"
    values = [
        vllm_made.make(seed=n, duration=duration + n / 10, date=f"20260131-12000{n}", **changes)
        for n in range(3)
    ]
    path.write_text("\n".join(map(json.dumps, values)))
    folder = tmp_path / f"{into}-{runner}-{device}"
    named = [
        "import",
        "vllm-bench",
        str(path),
        "--into",
        str(folder),
        "--runner",
        runner,
        "--device",
        device,
        *words,
    ]
    assert cli.main(named) == 0
    (run,) = folder.iterdir()
    return str(run)


def test_two_fleets_stand_side_by_side(
    made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two imported fleets have throughput, latencies, cost per million tokens and the price of the flip; both are struck,
    since nothing shows that they answer alike."""
    del made()[:]
    a = serve(tmp_path, "gfx942", "--devices", "8")
    b = serve(tmp_path, "sm_90", "--devices", "4", duration=30.0)
    capsys.readouterr()
    assert do(a, b, "--prices", str(tmp_path / "prices.toml"), "--format", "json") == 0
    page = json.loads(capsys.readouterr().out)
    (row,) = page["lines"]
    one, other = row["cells"]
    assert row["kind"] == "serving"
    assert one["figures"]["output tokens/s"]["value"] == pytest.approx(3200 / 20.1)
    assert one["figures"]["TTFT p95"]["value"] == pytest.approx(0.2, rel=0.3)
    assert one["figures"]["inter-token p99"]["low"] is not None
    assert one["costs"]["million output tokens"]["value"] == pytest.approx(20.1 * 8 * 3 / 3600 * 1e6 / 3200)
    assert one["costs"]["million tokens"]["value"] == pytest.approx(20.1 * 8 * 3 / 3600 * 1e6 / 28800)
    assert other["uneven"].startswith("4 devices, 8 of serve-gfx942-8")
    flip = next(f for f in page["flips"] if f["unit"] == "million output tokens")
    assert flip["price"]["value"] == pytest.approx(3 * 20.1 * 8 / (30.1 * 4))
    assert flip["cheaper"] is None
    assert all(m["imported"] == "vllm-bench" and m["struck"] for m in page["machines"])
    assert row["cheapest"] == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_id": "org/other"}, "have no test in common"),
        ({"request_rate": 4.0}, "have no test in common"),
        ({"burstiness": 0.5}, "another burstiness: 0.5, not 1.0"),
        ({"total_input_tokens": 51200}, "other requests: 256 input tokens each, not 128"),
        ({"total_output_tokens": 6400}, "other requests: 32 output tokens each, not 16"),
    ],
)
def test_other_requests_are_not_compared(
    changes: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another model, rate or burstiness, and other numbers of tokens, are no comparison, and the page says which."""
    a, b = serve(tmp_path, "a", "--devices", "1"), serve(tmp_path, "b", "--devices", "1", **changes)
    capsys.readouterr()
    assert do(a, b, "--format", "json") == 3
    assert words in " ".join(json.loads(capsys.readouterr().out)["not_compared"])


def test_unknown_devices_have_no_cost(
    made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A serving whose number of devices was not told has throughput and no cost, and the remedy is told."""
    made()
    folder = serve(tmp_path, "gfx942")
    capsys.readouterr()
    assert do(folder, "--prices", str(tmp_path / "prices.toml"), "--format", "json") == 0
    page = json.loads(capsys.readouterr().out)
    (cell,) = page["lines"][0]["cells"]
    assert cell["costs"]["million tokens"]["value"] is None
    assert "import it again with --devices N" in cell["cost_why"]
    assert page["machines"][0]["devices"] is None


def test_failed_requests_are_struck(
    made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A serving with failed requests keeps its numbers, is red, and its cost says why it does not hold."""
    made()
    folder = serve(tmp_path, "gfx942", "--devices", "8", failed=3)
    capsys.readouterr()
    assert do(folder, "--prices", str(tmp_path / "prices.toml")) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "its run is red" in out
    assert "3 of 200 requests gave no answer" in out
    assert "struck through" in out


def fleets(made: Callable[..., list[str]], tmp_path: Path, **changes: Any) -> tuple[list[str], list[str]]:
    """Two machines that the harness measured, each with an imported serving of its own, and how they are named."""
    a, b = made(cheap(), dear())
    served = [
        serve(tmp_path, "x", "--devices", "8", runner="cheap", **changes),
        serve(tmp_path, "x", "--devices", "4", runner="dear", duration=30.0),
    ]
    return [a, b, *served], ["--name", "C", "--name", "D", "--name", "C", "--name", "D"]


def test_a_serving_stands_by_its_machine(
    made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An import that has the name of a run is of its machine: three numbers on one card, costs that hold, an order."""
    folders, names = fleets(made, tmp_path)
    capsys.readouterr()
    words = [*folders, *names, "--prices", str(tmp_path / "prices.toml")]
    assert do(*words, "--format", "json") == 0
    page = json.loads(capsys.readouterr().out)
    assert [(m["name"], m["parity"], m["struck"]) for m in page["machines"]] == [
        ("C", "reference", []),
        ("D", "agree", []),
    ]
    assert all(len(m["served"]) == 1 and m["served"][0] != m["run_id"] for m in page["machines"])
    kinds = {x["kind"]: x for x in page["lines"]}
    assert set(kinds) == {"training", "inference", "serving"}
    assert all(c["there"] for x in kinds.values() for c in x["cells"])
    # 8 devices for 20.1 s at 2 USD are cheaper than 4 for 30.1 s at 6 USD.
    flip = next(f for f in page["flips"] if f["unit"] == "million output tokens")
    assert flip["price"]["value"] == pytest.approx(2 * 20.1 * 8 / (30.1 * 4))
    assert flip["cheaper"] == "C"
    assert kinds["serving"]["cheapest"] == dict.fromkeys(kinds["serving"]["cheapest"], "C") != {}
    assert do(*words) == 0
    assert f"serving: {page['machines'][0]['served'][0]}" in " ".join(capsys.readouterr().out.split())


def test_a_serving_that_failed_strikes_its_machine(
    made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests without an answer strike the costs of the machine whose name the import has, with the reason."""
    folders, names = fleets(made, tmp_path, failed=3)
    capsys.readouterr()
    assert do(*folders, *names, "--prices", str(tmp_path / "prices.toml"), "--format", "json") == 0
    one, other = json.loads(capsys.readouterr().out)["machines"]
    assert "3 of 200 requests gave no answer" in " ".join(one["struck"])
    assert other["struck"] == []


def test_servings_of_machines_are_compared_by_their_own_settings(
    made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the imports tell of their requests decides whether two machines' servings are compared, not their runs."""
    folders, names = fleets(made, tmp_path, burstiness=0.5)
    capsys.readouterr()
    assert do(*folders, *names, "--format", "json") == 0
    told = json.loads(capsys.readouterr().out)["not_compared"]
    assert "another burstiness: 1.0, not 0.5" in " ".join(told)


def test_a_name_is_of_one_machine(
    made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An import of another kind of machine cannot borrow a run's quality, nor may one workload stand there twice."""
    folders, names = fleets(made, tmp_path)
    another = serve(tmp_path, "gfx942", "--devices", "8", runner="cheap")
    again = serve(tmp_path, "x", "--devices", "2", runner="cheap", duration=21.0, into="again")
    capsys.readouterr()
    for extra, message in ((another, "is of cheap x, "), (again, "again, on one machine")):
        assert do(*folders, extra, *names, "--name", "C") == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1


def test_an_import_is_no_reference(
    made: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Named first, an import without a machine's run is struck, says how to give it one, and the others still agree."""
    a, b = made(cheap(), dear())
    alone = serve(tmp_path, "gfx942", "--devices", "8")
    capsys.readouterr()
    do(alone, a, b, "--prices", str(tmp_path / "prices.toml"), "--format", "json")
    machines = json.loads(capsys.readouterr().out)["machines"]
    assert [m["parity"] for m in machines] == ["unknown", "reference", "agree"]
    assert "with --name" in machines[0]["struck"][-1]


# In a browser.


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with one of everything, as a file."""
    path = tmp_path_factory.mktemp("buy") / "page.html"
    path.write_text(buy_forms.render("html", everything()), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_in_a_browser(browser: Any, page_file: Path, scheme: str, size: tuple[int, int]) -> None:
    """No request, no message, no rule of axe broken, nothing wider than the screen, in light and dark, large and small."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        need("axe-playwright-python", False)
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, bypass_csp=True
    )
    seen = Visit(context.new_page(), page_file.as_uri())
    assert seen.page.evaluate("document.documentElement.scrollWidth") == size[0]
    found = Axe().run(seen.page).response["violations"]
    assert [(v["id"], [n["html"][:160] for n in v["nodes"][:3]]) for v in found] == []
    assert seen.page.get_by_text("is cheapest per million samples").first.bounding_box()["y"] < size[1]
    struck = seen.page.locator("s").first
    assert "line-through" in struck.evaluate("e => getComputedStyle(e).textDecorationLine")
    context.close()
    assert seen.wrong == []


def test_the_policy_lets_nothing_in(browser: Any, page_file: Path) -> None:
    """Under its own policy the page has its style, and asks for nothing."""
    context = browser.new_context()
    seen = Visit(context.new_page(), page_file.as_uri())
    assert seen.page.locator("h2").count() == 6
    assert seen.page.locator("table").count() == 4
    background = "e => getComputedStyle(e).borderLeftWidth"
    assert seen.page.locator(".verdict").evaluate(background) == "6px"
    context.close()
    assert seen.wrong == []
    assert {FP32, TWO} <= {line.test for line in everything().lines}
