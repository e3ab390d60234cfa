"""The rule of parity: what it must catch, what it must let pass, and on which evidence its envelopes stand."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rules
from harness import ROOT, traces
from harness.parity import (
    ENVELOPES,
    FIRST_STEPS,
    MINIMUM_STEPS,
    Envelopes,
    Parity,
    Series,
    Window,
    family_of,
    judge_parity,
    render_json,
    render_terminal,
)

DATA = ROOT / "tests" / "data" / "loss_traces"
PAIRS = json.loads((DATA / "pairs.json").read_text())
LABELLED = [p for p in PAIRS if p["label"] != "unknown"]
FACTOR = 2.5
FAMILIES = sorted(ENVELOPES)
NAN = math.nan


def pair(entry: dict[str, str]) -> tuple[Series, Series]:
    """Both traces of an entry of pairs.json."""
    return traces.read_pair(str(DATA / entry["cuda"]), str(DATA / entry["rocm"]))


def ids(entry: dict[str, str]) -> str:
    return f"{entry['cuda'][:-15]}-{entry['rocm'][:-15]}-{entry['label']}"


def tolerance(step: int, envelopes: Envelopes) -> float:
    return next(t for (first, last), t in envelopes.items() if first <= step <= last)


def series(values: list[float], name: str = "a", family: str | None = "dense", first: int = 1) -> Series:
    return Series(name, tuple(range(first, first + len(values))), tuple(values), family)


def mirrored(parity: Parity) -> tuple[object, ...]:
    """What must not change when the two traces change places."""
    p = parity
    return p.verdict, p.first_step, p.largest, p.largest_step, p.gate, p.windows, p.steps, p.family


losses = st.lists(st.floats(0.01, 20), min_size=MINIMUM_STEPS, max_size=100)
families = st.sampled_from(FAMILIES)
anything = st.lists(
    st.tuples(
        st.integers(0, 130),
        st.floats(allow_nan=True, allow_infinity=True) | st.floats(1, 1.0001),
    ),
    max_size=130,
    unique_by=lambda t: t[0],
)


@st.composite
def noisy(draw: st.DrawFn) -> tuple[Series, Series]:
    """Two traces of one family that differ by noise inside the envelope of each step."""
    values, family = draw(losses), draw(families)
    noise = draw(st.lists(st.floats(-0.99, 0.99), min_size=len(values), max_size=len(values)))
    other = [
        v * (1 + n * tolerance(i, ENVELOPES[family]))
        for i, (v, n) in enumerate(zip(values, noise, strict=True), 1)
    ]
    return series(values, "a", family), series(other, "b", family)


@st.composite
def series_of(draw: st.DrawFn, name: str) -> Series:
    """Any trace, with gaps, infinities and NaN."""
    points = sorted(draw(anything))
    return Series(
        name,
        tuple(s for s, _ in points),
        tuple(v for _, v in points),
        draw(st.none() | families),
        draw(st.sampled_from([0.0, 5e-6, 5e-3])),
    )


def changed(s: Series, step: int, value: float) -> Series:
    values = list(s.values)
    values[s.steps.index(step)] = value
    return replace(s, values=tuple(values))


@pytest.mark.parametrize("entry", LABELLED, ids=ids)
def test_every_labelled_pair_is_judged_as_labelled(entry: dict[str, str]) -> None:
    """Public traces of two vendors: same code agrees, changed model, data order or initialisation differs."""
    a, b = pair(entry)
    parity = judge_parity(a, b)
    assert parity.verdict == entry["label"], parity.reason
    assert parity.family == ("moe" if "moe" in entry["model"] else "dense")
    assert mirrored(judge_parity(b, a)) == mirrored(parity)


def test_the_labelled_pairs_are_all_there() -> None:
    """The table of the test above is not empty on either side, for either family."""
    count = {(p["model"], p["label"]) for p in LABELLED}
    assert count == set(itertools.product(("llama3", "qwen3_moe"), ("agree", "differ")))
    assert len(LABELLED) == 18


def test_a_changed_data_order_is_named_where_it_begins() -> None:
    """Traces that are the same until step 20 and then see other data differ, at the first such step."""
    found = [judge_parity(*pair(p)) for p in LABELLED if p["label"] == "differ"]
    assert [(p.gate, p.first_step) for p in found if p.gate == "late"] == [("late", 24)]


def groups(family: str) -> list[list[Series]]:
    """Traces of the same code and settings: those that `agree` labels connect."""
    out: list[set[str]] = []
    for p in LABELLED:
        if p["label"] == "agree" and family_of(p["model"]) == family:
            names = {p["cuda"], p["rocm"]}
            joined = [g for g in out if g & names]
            out = [g for g in out if not g & names] + [names.union(*joined)]
    return [[traces.read(str(DATA / n)) for n in sorted(g)] for g in out]


def measured(found: list[list[Series]], family: str) -> dict[tuple[int, int], float]:
    """The greatest relative difference of agreeing pairs by window, without what rounding explains."""
    most = dict.fromkeys(ENVELOPES[family], 0.0)
    for a, b in itertools.chain.from_iterable(itertools.combinations(g, 2) for g in found):
        for step, x, y in zip(a.steps, a.values, b.values, strict=True):
            excess = max(abs(x - y) - a.resolution - b.resolution, 0.0) / max(x, y)
            window = next(w for w in most if w[0] <= step <= w[1])
            most[window] = max(most[window], excess)
    return most


def derived(noise: dict[tuple[int, int], float], family: str) -> Envelopes:
    """Envelopes by the rule of the built-in ones; that of step 1 does not come from noise."""
    return {**{w: FACTOR * m for w, m in noise.items()}, (1, 1): ENVELOPES[family][1, 1]}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_factor_holds_for_traces_left_out(family: str) -> None:
    """Envelopes of 2.5 times the noise of the other groups hold every pair of the group that was left out."""
    every = groups(family)
    assert len(every) >= 2
    for left_out in every:
        others = measured([g for g in every if g is not left_out], family)
        for a, b in itertools.combinations(left_out, 2):
            parity = judge_parity(a, b, envelopes=derived(others, family))
            assert parity.verdict == "agree", parity.reason


@pytest.mark.parametrize("family", FAMILIES)
def test_no_labelled_pair_decides_its_own_verdict(family: str) -> None:
    """With envelopes from all pairs but those that share a file with it, each labelled pair is judged right."""
    every = groups(family)
    for entry in (p for p in LABELLED if family_of(p["model"]) == family):
        a, b = pair(entry)
        others = measured([[s for s in g if s.name not in (a.name, b.name)] for g in every], family)
        parity = judge_parity(a, b, envelopes=derived(others, family))
        assert parity.verdict == entry["label"], (ids(entry), parity.reason)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_envelopes_are_what_was_measured(family: str) -> None:
    """From step 2 on, an envelope is not below 2.5 times the noise in the data; step 1 is far above its noise."""
    found = measured(groups(family), family)
    for window, envelope in ENVELOPES[family].items():
        assert envelope >= FACTOR * found[window]
    assert ENVELOPES[family][1, 1] >= 10 * found[1, 1]


@pytest.mark.parametrize("family", FAMILIES)
def test_step_1_is_half_of_the_least_change_seen(family: str) -> None:
    """The envelope of step 1 is below half of what the smallest change of a model moved it by."""
    moved = []
    for entry in LABELLED:
        if entry["label"] == "differ" and family_of(entry["model"]) == family:
            window = judge_parity(*pair(entry)).windows[0]
            if not window.inside and window.largest is not None:
                moved.append(window.largest)
    assert 0.4 * min(moved) < ENVELOPES[family][1, 1] < 0.5 * min(moved)


@pytest.mark.parametrize("entry", [p for p in LABELLED if p["label"] == "agree"], ids=ids)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_moved_first_step_alone_differs(entry: dict[str, str], sign: int) -> None:
    """A changed initialisation or loss mask that moves only step 1, by 1e-4, is caught in every agreeing pair."""
    a, b = pair(entry)
    parity = judge_parity(a, changed(b, 1, a.values[0] * (1 + sign * 1e-4)))
    assert (parity.verdict, parity.first_step, parity.gate) == ("differ", 1, "first")


@pytest.mark.parametrize("entry", [p for p in LABELLED if p["label"] == "agree"], ids=ids)
def test_a_late_divergence_alone_differs(entry: dict[str, str]) -> None:
    """A changed data order, seen only after step 10, is caught in every agreeing pair."""
    a, b = pair(entry)
    moved = [v * (1.028 if s > 10 else 1.0) for s, v in zip(b.steps, b.values, strict=True)]
    parity = judge_parity(a, replace(b, values=tuple(moved)))
    assert (parity.verdict, parity.first_step, parity.gate) == ("differ", 11, "late")


@given(noisy())
def test_noise_inside_the_envelope_agrees(both: tuple[Series, Series]) -> None:
    """Noise inside the envelope of every step never differs."""
    parity = judge_parity(*both)
    assert parity.verdict == "agree"
    assert parity.first_step is None
    assert all(w.inside for w in parity.windows)


@given(noisy(), st.data(), st.sampled_from([1, -1]))
def test_one_step_outside_always_differs(both: tuple[Series, Series], data: st.DataObject, sign: int) -> None:
    """One step at three times its envelope differs and is named, with the gate it belongs to."""
    a, b = both
    assert a.family is not None
    step = data.draw(st.sampled_from(a.steps))
    value = a.values[step - 1] * (1 + sign * 3 * tolerance(step, ENVELOPES[a.family]))
    parity = judge_parity(a, changed(b, step, value))
    assert (parity.verdict, parity.first_step) == ("differ", step)
    assert parity.gate == ("first" if step <= FIRST_STEPS else "late")
    assert f"at step {step}," in parity.reason
    assert [w.inside for w in parity.windows] == [not w.first <= step <= w.last for w in parity.windows]


@given(noisy(), st.data(), st.sampled_from([NAN, math.inf, -math.inf]))
def test_not_finite_in_one_differs_and_in_both_is_inconclusive(
    both: tuple[Series, Series], data: st.DataObject, value: float
) -> None:
    """NaN or infinity in one trace only is a difference at that step; in both, it says nothing."""
    a, b = both
    step = data.draw(st.sampled_from(a.steps))
    one = judge_parity(a, changed(b, step, value))
    assert (one.verdict, one.gate, one.first_step) == ("differ", "finite", step)
    two = judge_parity(changed(a, step, NAN), changed(b, step, value))
    assert (two.verdict, two.gate) == ("inconclusive", "finite")


@given(series_of("a"), series_of("b"))
def test_swapping_the_traces_changes_nothing(a: Series, b: Series) -> None:
    """Verdict, step, gate and windows do not depend on which trace comes first, whatever the traces hold."""
    assert mirrored(judge_parity(a, b)) == mirrored(judge_parity(b, a))


@given(series_of("a"), series_of("b"))
def test_windows_are_in_order_and_hold_every_common_step(a: Series, b: Series) -> None:
    """Windows increase, do not overlap, hold all common steps, and both forms of output can be made."""
    parity = judge_parity(a, b)
    ends = [end for w in parity.windows for end in (w.first, w.last)]
    assert ends == sorted(ends)
    assert all(x.last < y.first for x, y in itertools.pairwise(parity.windows))
    assert sum(w.steps for w in parity.windows) == parity.steps == len(set(a.steps) & set(b.steps))
    seen: list[float] = [w.largest for w in parity.windows if w.largest is not None]
    assert parity.largest == max(seen, default=None)
    assert json.loads(render_json(a, b, parity))["verdict"] == parity.verdict
    assert render_terminal(parity).startswith(f"{parity.verdict.upper()}: {parity.reason}\n")
    if parity.verdict == "agree":
        assert all(w.inside for w in parity.windows)
    if parity.verdict == "differ":
        assert parity.first_step is not None


@given(losses, st.none() | families)
def test_identical_traces_agree(values: list[float], family: str | None) -> None:
    """A trace agrees with itself, whatever its family."""
    parity = judge_parity(series(values, "a", family), series(values, "b", family))
    assert (parity.verdict, parity.largest) == ("agree", 0.0)


@given(series_of("a"), series_of("b"), st.integers(-3, 3))
def test_scaling_both_changes_nothing(a: Series, b: Series, exponent: int) -> None:
    """The verdict depends on relative differences alone; powers of two keep every bit of these."""
    a, b = (
        replace(s, values=tuple(v if v == 0 or 1e-300 < abs(v) < 1e300 else NAN for v in s.values))
        for s in (a, b)
    )
    scale = 2.0**exponent
    scaled = [
        replace(s, values=tuple(v * scale for v in s.values), resolution=s.resolution * scale) for s in (a, b)
    ]
    assert mirrored(judge_parity(*scaled)) == mirrored(judge_parity(a, b))


@pytest.mark.parametrize("count", [1, 5, MINIMUM_STEPS - 1])
def test_too_few_steps_never_agree(count: int) -> None:
    """A short trace cannot agree, even with itself; it can differ."""
    values = [8.0 - 0.01 * i * i for i in range(count)]
    parity = judge_parity(series(values), series(values, "b"))
    assert (parity.verdict, parity.gate, parity.steps) == ("inconclusive", "steps", count)
    assert f"{count} common steps, {MINIMUM_STEPS} are needed" in parity.reason
    assert judge_parity(series(values), series([8.1, *values[1:]], "b")).verdict == "differ"


def test_without_the_first_step_nothing_agrees() -> None:
    """When step 1 is not in both, a changed start may hide, and the reason says so."""
    values = [8.0 - 0.001 * i for i in range(99)]
    parity = judge_parity(series(values, first=2), series(values, "b", first=2))
    assert (parity.verdict, parity.gate) == ("inconclusive", "steps")
    assert "step 1 is not in both" in parity.reason


def test_no_common_step_is_inconclusive() -> None:
    """Traces of other steps, or empty ones, are not compared by position."""
    values = [8.0] * 60
    parity = judge_parity(series(values), series(values, "b", first=61))
    assert (parity.verdict, parity.steps, parity.largest) == ("inconclusive", 0, None)
    assert "a has steps 1 to 60; b has steps 61 to 120" in parity.reason
    assert (
        judge_parity(series([]), series(values)).reason == "no common step (a is empty; a has steps 1 to 60)"
    )


def test_steps_are_aligned_by_number() -> None:
    """A trace that lacks some steps is compared at the steps that both have."""
    a = series([8.0 - 0.01 * i for i in range(100)])
    keep = [i for i in range(100) if i % 10 != 3]
    b = replace(a, name="b", steps=tuple(a.steps[i] for i in keep), values=tuple(a.values[i] for i in keep))
    assert (judge_parity(a, b).verdict, judge_parity(a, b).steps) == ("agree", 90)
    shifted = judge_parity(a, replace(a, name="b", steps=tuple(s - 1 for s in a.steps)))
    assert shifted.verdict == "differ"
    assert "(a has steps 1 to 100; b has steps 0 to 99)" in shifted.reason


def test_traces_numbered_from_0_have_their_first_step_there() -> None:
    """The envelope of the first step holds for step 0 when the traces begin there."""
    values = [8.0 - 0.01 * i for i in range(100)]
    a, b = series(values, first=0), series([values[0] * (1 + 1.5e-5), *values[1:]], "b", first=0)
    parity = judge_parity(a, b)
    assert (parity.verdict, parity.first_step, parity.gate) == ("differ", 0, "first")
    moved = [*values[:10], values[10] * 1.01, *values[11:]]
    assert judge_parity(a, series(moved, "b", first=0)).gate == "late"
    assert judge_parity(a, a).windows[-1].last == 99


def test_beyond_the_measured_steps_nothing_differs() -> None:
    """After step 100 no noise was measured: what leaves the last envelope there is inconclusive."""
    values = [8.0 - 0.01 * i for i in range(150)]
    moved = [*values[:120], values[120] * 1.01, *values[121:]]
    parity = judge_parity(series(values), series(moved, "b"))
    assert (parity.verdict, parity.gate, parity.first_step) == ("inconclusive", "unmeasured", 121)
    assert [(w.first, w.last, w.measured) for w in parity.windows][-1] == (101, 150, False)
    assert judge_parity(series(values), series(values, "b")).verdict == "agree"


def test_a_family_that_is_not_known_is_judged_by_both() -> None:
    """Agree within the narrower envelopes, differ outside the wider ones, inconclusive between the two."""
    values = [8.0 - 0.01 * i for i in range(100)]

    def by(relative: float) -> Parity:
        moved = [*values[:59], values[59] * (1 + relative), *values[60:]]
        return judge_parity(series(values, "a", None), series(moved, "b", None))

    assert by(5e-5).verdict == "agree"
    assert by(1e-2).verdict == "differ"
    between = by(1e-3)
    assert (between.verdict, between.gate, between.first_step) == ("inconclusive", "family", 60)
    assert "family is not known" in between.reason


def test_one_known_family_holds_for_both() -> None:
    """A trace without a family takes that of the other; an unheard-of one is refused."""
    values = [8.0 - 0.01 * i for i in range(100)]
    moved = [*values[:59], values[59] * 1.001, *values[60:]]
    assert judge_parity(series(values, "a", "moe"), series(moved, "b", None)).verdict == "agree"
    assert judge_parity(series(values, "a", None), series(moved, "b", "dense")).verdict == "differ"
    with pytest.raises(ValueError, match="'sparse': none of dense, moe"):
        judge_parity(series(values, "a", "sparse"), series(moved))


def test_doubts_are_stronger_than_any_difference() -> None:
    """A trace that is no evidence proves neither agreement nor difference; where it leaves is still told."""
    values = [8.0 - 0.01 * i for i in range(100)]
    doubted = replace(series([9.0, *values[1:]], "b"), doubts=("typed in",))
    parity = judge_parity(series(values), doubted)
    assert (parity.verdict, parity.gate, parity.first_step) == ("inconclusive", "provenance", 1)
    assert parity.reason == "b: typed in"


@given(losses, st.integers(3, 6))
def test_rounding_of_the_print_is_no_difference(values: list[float], decimals: int) -> None:
    """A trace printed to a few decimals never differs from itself in full."""
    a = series(values)
    b = replace(
        series([round(v, decimals) for v in values], "b"), resolution=0.5 * 10**-decimals * (1 + 1e-9)
    )
    parity = judge_parity(a, b)
    assert parity.verdict in ("agree", "inconclusive")
    assert (parity.gate == "rounding") == any(w.rounding > w.envelope for w in parity.windows)


def test_a_zero_has_no_relative_rounding() -> None:
    """Zeros in both traces are equal, but printed zeros cannot show that traces agree; JSON then has null."""
    a = series([0.0, *(8.0 - 0.01 * i for i in range(99))])
    assert judge_parity(a, replace(a, name="b")).verdict == "agree"
    printed = replace(a, name="b", resolution=5e-6)
    parity = judge_parity(a, printed)
    assert (parity.verdict, parity.gate, parity.windows[0].rounding) == ("inconclusive", "rounding", math.inf)
    assert json.loads(render_json(a, printed, parity))["windows"][0]["rounding"] is None
    assert judge_parity(a, changed(a, 1, 1e-30)).verdict == "differ"


def test_a_suite_brings_its_own_noise() -> None:
    """Given envelopes replace the built-in ones: steps as they stand, half of them needed, gaps not measured."""
    values = [1.0 + 0.1 * i for i in range(20)]
    own = {(0, 9): 1e-7, (12, 19): 1e-3}
    a = series(values, "a", None, first=0)

    def moved(step: int, relative: float) -> Parity:
        return judge_parity(
            a, changed(replace(a, name="b"), step, values[step] * (1 + relative)), envelopes=own
        )

    assert moved(0, 5e-8).verdict == "agree"
    assert (moved(0, 2e-7).verdict, moved(0, 2e-7).first_step) == ("differ", 0)
    assert moved(15, 5e-4).verdict == "agree"
    assert (moved(15, 5e-3).verdict, moved(15, 5e-3).gate) == ("differ", "late")
    assert (moved(10, 2e-7).verdict, moved(10, 2e-7).gate) == ("inconclusive", "unmeasured")
    short = replace(a, steps=a.steps[:8], values=a.values[:8])
    assert judge_parity(short, short, envelopes=own).reason == "8 common steps, 9 are needed to agree"


@pytest.mark.parametrize(
    "envelopes", [{}, {(2, 1): 1e-3}, {(1, 5): 1e-3, (5, 9): 1e-3}, {(1, 5): NAN}, {(1, 5): -1e-3}]
)
def test_envelopes_that_are_none_are_refused(envelopes: Envelopes) -> None:
    """Windows that overlap or run backwards, and tolerances that are no number, are a programmer's error."""
    with pytest.raises(ValueError, match="envelopes"):
        judge_parity(series([1.0]), series([1.0]), envelopes=envelopes)


@pytest.mark.parametrize(("steps", "values"), [((1, 1), (1.0, 1.0)), ((2, 1), (1.0, 1.0)), ((1,), ())])
def test_a_series_is_well_formed(steps: tuple[int, ...], values: tuple[float, ...]) -> None:
    """Steps increase, and there is one value for each."""
    with pytest.raises(ValueError, match="steps"):
        Series("a", steps, values)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("llama3", "dense"),
        ("qwen3_moe", "moe"),
        ("Mixtral-8x7B", "moe"),
        ("qwen3-30b-a3b", "moe"),
        ("Gemma2", "dense"),
        ("novel", None),
        (None, None),
    ],
)
def test_the_family_is_known_by_the_model(model: str | None, family: str | None) -> None:
    """A mixture of experts is told from a dense model by name; what is not known stays unknown."""
    assert family_of(model) == family


def test_the_table_names_each_window_once() -> None:
    """The terminal form: verdict and why, then steps, count, largest difference, its step, envelope, in or out."""
    windows = (
        Window(1, 1, 1, 1e-7, 1, 1.2e-5, 2e-6, True, True),
        Window(2, 5, 4, 0.5, 3, 1.9e-5, 0.0, True, False),
        Window(6, 9, 0, None, None, 1.9e-5, 0.0, False, True),
    )
    text = render_terminal(Parity("differ", "because", 3, 0.5, 3, "first", windows, 5, "dense"))
    lines = text.splitlines()
    assert lines[0] == "DIFFER: because"
    assert lines[3].split() == ["1", "1", "1.0e-07", "1", "1.2e-05", "in,", "rounding", "adds", "2.0e-06"]
    assert lines[4].split() == ["2-5", "4", "5.0e-01", "3", "1.9e-05", "OUT"]
    assert lines[5].split()[:5] == ["6-9", "0", "-", "-", "1.9e-05"]
    assert lines[5].endswith("noise not measured here")


def test_the_rule_is_pure() -> None:
    """harness/parity.py imports neither files, clock nor numerical packages, and no other room but itself."""
    found = rules.imports(ROOT / "harness" / "parity.py")
    assert not {i.partition(".")[0] for i in found} & rules.IMPURE
    assert not any(i.startswith("harness") for i in found)
