"""What prices and costs promise: a mistake is one line with entry and key; a cost is seconds, devices and a price.

Every price here is invented.
"""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runs
from builders import case, make_header, make_record, make_run
from harness import prices
from harness.cost import Costs, Price, Prices, cost_of
from harness.errors import UsageError
from harness.rates import Rate
from runs import write

INVENTED = Price("gpu-*", 3.6, "USD", "invented", "2026-12-01")
LISTED = Prices((INVENTED,))
DAY = date(2027, 1, 15)
ENTRY = {
    "runner": '"cpu-*"',
    "per_device_hour": "1.2",
    "currency": '"USD"',
    "source": '"invented for a test"',
    "date": '"2026-12-01"',
}


def text(top: str = "", **changes: str | None) -> str:
    """A price file of one good entry with changes; None leaves a key out."""
    entry = {k: v for k, v in {**ENTRY, **changes}.items() if v is not None}
    return "\n".join([top, "[[price]]", *(f"{k} = {v}" for k, v in entry.items())])


def load(folder: Path, content: str) -> Prices:
    """The prices of a file with this content."""
    path = folder / "prices.toml"
    path.write_text(content, encoding="utf-8")
    return prices.load(path)


def step(metric: str = "step_s", *, devices: int = 1, **work: float) -> Rate:
    """A rate of half a second a sample."""
    return Rate(case("a"), metric, 0.5, 5, devices, {}, work)


def costs(*rates: Rate, listed: Prices = LISTED, day: date = DAY, **runner: Any) -> Costs:
    """The costs of these rates on a run of one GPU."""
    header = make_header(runner={"name": "gpu", "device_arch": "x", **runner})
    return cost_of(rates, header.runner, listed, day)


def test_good_file(tmp_path: Path) -> None:
    """A good file is read as it stands, in its order; days may be TOML's own."""
    found = load(tmp_path, text("epoch_samples = 500") + "\n" + text(runner='"gpu-*"', date="2026-11-30"))
    first = Price("cpu-*", 1.2, "USD", "invented for a test", "2026-12-01")
    assert found.prices[0] == first
    assert (found.prices[1].runner, found.prices[1].day) == ("gpu-*", "2026-11-30")
    assert found.epoch_samples == 500
    assert load(tmp_path, text()).epoch_samples is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no [[price]]"),
        ("epoch_samples = 4", "no [[price]]"),
        ("price = 3", "two brackets"),
        ("[price]\nrunner = 'x'", "two brackets"),
        ("x = 1", "unknown key 'x'"),
        ("[[price]", "mend the TOML"),
        (text("epoch_samples = 0"), "epoch_samples = 0"),
        (text("epoch_samples = -3"), "epoch_samples = -3"),
        (text("epoch_samples = true"), "epoch_samples = True"),
        (text("epoch_samples = '4'"), "epoch_samples = '4'"),
        (text("epoch_samples = nan"), "epoch_samples = nan"),
        *((text(**{key: None}), f"entry 1: {key} is missing") for key in ENTRY),
        (text(extra="1"), "entry 1: unknown key 'extra'"),
        (text() + "\n" + text(currency='"dollars"'), "entry 2: currency = 'dollars'"),
        (text(currency='"usd"'), "entry 1: currency = 'usd'"),
        (text(currency="3"), "entry 1: currency = 3"),
        (text(source='" "'), "entry 1: source = ' '"),
        (text(runner='""'), "entry 1: runner = ''"),
        (text(per_device_hour="0"), "entry 1: per_device_hour = 0"),
        (text(per_device_hour="-1.0"), "entry 1: per_device_hour = -1.0"),
        (text(per_device_hour="inf"), "entry 1: per_device_hour = inf"),
        (text(per_device_hour="nan"), "entry 1: per_device_hour = nan"),
        (text(per_device_hour="true"), "entry 1: per_device_hour = True"),
        (text(per_device_hour='"1"'), "entry 1: per_device_hour = '1'"),
        (text(date='"1.12.2026"'), "entry 1: date = '1.12.2026'"),
        (text(date='"2026-13-01"'), "entry 1: date = '2026-13-01'"),
        (text(date="20261201"), "entry 1: date = 20261201"),
        (text(date="2026-12-01T10:00:00"), "entry 1: date = "),
    ],
)
def test_bad_file(tmp_path: Path, content: str, words: str) -> None:
    """A mistake is one line that names the file, the entry, the key and the value."""
    with pytest.raises(UsageError) as caught:
        load(tmp_path, content)
    assert words in str(caught.value)
    assert "prices.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(UsageError, match=r"absent\.toml"):
        prices.load(tmp_path / "absent.toml")


VALUES = st.one_of(
    st.text(max_size=8),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.dates(),
    st.lists(st.integers(), max_size=2),
)


@given(st.dictionaries(st.sampled_from([*ENTRY, "other"]), VALUES, max_size=6))
def test_any_entry(entry: dict[str, Any]) -> None:
    """Any entry is read as a price that a cost can be computed with, or refused in one line that names it."""
    refusal = ""
    try:
        found = prices._price(entry, "file: entry 1")
    except UsageError as error:
        refusal = str(error)
    if refusal:
        assert refusal.startswith("file: entry 1: ")
        assert "\n" not in refusal
        return
    assert set(entry) == set(ENTRY)
    assert 0 < found.per_device_hour < math.inf
    assert date.fromisoformat(found.day)


def test_cost_of_a_step() -> None:
    """Half a second on two devices at 3.60 an hour is 0.001; an epoch and a million samples follow from it."""
    (found,) = costs(step(samples=4.0, devices=2), listed=Prices((INVENTED,), 400.0)).rows
    assert found.per_step == pytest.approx(0.001)
    assert found.per_epoch == pytest.approx(0.1)
    assert found.per_million_samples == pytest.approx(250)
    assert found.per_million_actions is None
    (without,) = costs(step(samples=4.0)).rows
    assert without.per_epoch is None


def test_cost_of_actions() -> None:
    """An inference costs by its actions, and has no step."""
    (found,) = costs(step("latency_s", actions=8.0, inferences=1.0)).rows
    assert found.per_million_actions == pytest.approx(62.5)
    assert (found.per_step, found.per_epoch, found.per_million_samples) == (None, None, None)


def test_other_work_has_no_cost() -> None:
    """Loading, decoding and saving are no step and no action."""
    found = costs(
        step("batch_s", samples=12.0, batches=4.0), step("decode_s", frames=64.0), step("save_s", bytes=1e6)
    )
    assert (found.rows, found.why) == ((), "no training step and no action was timed")


def test_first_price_that_fits() -> None:
    """Of several prices the first whose pattern fits the runner's key holds; none: no cost, and it is said."""
    other, later = (
        Price("gpu-x-2", 9.0, "USD", "invented", "2026-12-01"),
        Price("*", 5.0, "EUR", "invented", "2026-12-01"),
    )
    assert costs(step(samples=1.0), listed=Prices((other, INVENTED, later))).price == INVENTED
    none = costs(step(samples=1.0), listed=Prices((other,)))
    assert (none.price, none.rows, none.why) == (None, (), "no price fits the runner gpu-x-1")


@pytest.mark.parametrize("how", [{"emulated": True}, {"stand_in": True}])
def test_emulated_runs_cost_nothing(how: dict[str, bool]) -> None:
    """Emulated runs get no cost even where a price would fit, and it is said why."""
    found = costs(
        step(samples=1.0), listed=Prices((Price("*", 1.0, "USD", "invented", "2026-12-01"),)), **how
    )
    assert (found.price, found.rows) == (None, ())
    assert found.why.startswith("emulated")


@pytest.mark.parametrize(
    ("day", "told"), [("2026-01-15", False), ("2026-01-14", True), ("2027-02-01", False)]
)
def test_old_price(day: str, told: bool) -> None:
    """A price that was older than a year on the day of the run is told, with its age."""
    found = costs(step(samples=1.0), listed=Prices((Price("*", 1.0, "USD", "invented", day),)))
    assert ("days old" in found.why) == told
    assert found.days_old == (DAY - date.fromisoformat(day)).days
    assert found.rows


@given(st.floats(1e-6, 1e3), st.integers(1, 64), st.floats(1e-3, 1e4), st.floats(1, 1e6))
def test_costs_are_proportional(seconds: float, devices: int, price: float, samples: float) -> None:
    """A cost grows with seconds, devices and price, and does not depend on how samples are cut into steps."""
    rate = Rate(case("a"), "step_s", seconds, 5, devices, {}, {"samples": samples})
    twice = Rate(case("a"), "step_s", 2 * seconds, 5, devices, {}, {"samples": 2 * samples})
    listed = Prices((Price("*", price, "USD", "invented", "2026-12-01"),), 1000.0)
    a, b = costs(rate, twice, listed=listed).rows
    assert a.per_step is not None
    assert a.per_step == pytest.approx(seconds * devices * price / 3600)
    assert b.per_step == pytest.approx(2 * a.per_step)
    assert b.per_epoch == pytest.approx(a.per_epoch)
    assert b.per_million_samples == pytest.approx(a.per_million_samples)


def test_prices_of_a_report(tmp_path: Path) -> None:
    """`harness report --prices` tells costs or their absence; without it there are none; a bad file is one line."""
    folder = write(tmp_path / "run", make_run([make_record(case("a"))]))
    (tmp_path / "prices.toml").write_text(text(runner='"other-*"'))
    words = ("report", str(folder), "--baselines", str(tmp_path / "none"))
    told = runs.harness(*words, "--prices", str(tmp_path / "prices.toml"))
    assert (told.returncode, "no price fits the runner cpu-x86_64-1" in told.stdout) == (0, True)
    assert "no price" not in runs.harness(*words).stdout
    (tmp_path / "prices.toml").write_text(text(date=None))
    bad = runs.harness(*words, "--prices", str(tmp_path / "prices.toml"))
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)
    assert "entry 1: date is missing" in bad.stderr
