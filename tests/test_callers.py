"""Several callers of one model: they call together, each call is timed, and what a target puts in force holds for all."""

from __future__ import annotations

import importlib
import threading
import time
from typing import Any

import pytest

from harness import policy
from suites.throughput import plans
from suites.throughput.callers import Callers


@pytest.fixture
def asked() -> Any:
    """Makes callers, and ends them."""
    made: list[Callers] = []

    def make(count: int, call: Any) -> Callers:
        made.append(Callers(count, call))
        return made[-1]

    yield make
    for callers in made:
        callers.close()


@pytest.mark.parametrize("count", plans.CALLERS)
def test_a_turn_is_shared_alike(asked: Any, count: int) -> None:
    """Every caller makes as many calls of a turn as the others, and each call leaves its seconds and its answer."""
    who: list[int] = []

    def call() -> str:
        who.append(threading.get_ident())
        time.sleep(0.002)
        return "answer"

    callers = asked(count, call)
    for turn in (1, 2):
        callers.turn(plans.CALLS)
        assert len(callers.seconds) == len(callers.answers) == turn * plans.CALLS
    assert {who.count(w) for w in who} == {2 * plans.CALLS // count}
    assert len(set(who)) == count
    assert min(callers.seconds) >= 0.002
    assert set(callers.answers) == {"answer"}


def test_callers_call_at_the_same_time(asked: Any) -> None:
    """As many calls as there are callers are under way at once: none waits for another to end."""
    together = threading.Barrier(4)
    callers = asked(4, lambda: together.wait(20))
    callers.turn(8)
    assert len(callers.answers) == 8


def test_quick_callers_wait_for_one_another(asked: Any) -> None:
    """However quick the calls, every caller makes its own: none does the share of one that has not begun."""
    callers = asked(4, threading.get_ident)
    for turn in range(50):
        callers.turn(8)
        assert len(set(callers.answers[8 * turn :])) == 4


def test_an_error_of_a_call_ends_the_turn(asked: Any) -> None:
    """What the model raised is raised by the turn; an uneven number of calls is a mistake."""

    def call() -> None:
        raise RuntimeError("no memory left")

    with pytest.raises(RuntimeError, match="no memory left"):
        asked(2, call).turn(8)
    with pytest.raises(ValueError, match="7 calls"):
        asked(2, call).turn(7)


def test_enough_calls_for_a_tail() -> None:
    """A process makes enough timed calls for a 95th percentile, every number of callers shares a turn, and the metrics
    are judged with it."""
    assert plans.TURNS * plans.CALLS >= 20
    assert all(plans.CALLS % n == 0 for n in plans.CALLERS)
    rules = policy.load()
    for name, statistics in (("turn_s", ("median",)), ("call_s", ("median", "p95"))):
        rule = policy.rule_of(rules, name)
        assert rule is not None
        assert (rule.statistics, rule.gate) == (statistics, False)


def test_the_plan_names_the_concurrency(pytestconfig: pytest.Config) -> None:
    """The ids of the tests say how many callers there are."""
    for marker in ("capability", "needs", "repeated"):
        pytestconfig.addinivalue_line("markers", marker)
    suite = importlib.import_module("suites.throughput.test_throughput")
    (mark,) = suite.test_concurrent_inference.pytestmark
    assert [p.id for p in mark.args[1]] == ["concurrency-1", "concurrency-2", "concurrency-4"]


def test_what_keeps_inferences_on_the_cpu_holds_for_all_threads() -> None:
    """Inferences of several threads overlap in any order; the last one out puts back what the first one found."""
    torch = pytest.importorskip("torch")
    if torch.accelerator.is_available():
        pytest.skip("there is an accelerator: nothing is kept from it")
    from harness.targets.vitra_supplies import stay_on_cpu

    before = torch.Tensor.to
    tensor, where = torch.ones(2), "cuda"
    first, second = stay_on_cpu(), stay_on_cpu()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert tensor.to(where).device.type == "cpu"
    second.__exit__(None, None, None)
    assert torch.Tensor.to is before
    with pytest.raises((RuntimeError, AssertionError)):
        tensor.to(where)
