"""What the list of known issues promises."""

from __future__ import annotations

import json
import subprocess
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runs
from builders import make_header, make_issue
from harness import known_issues
from harness.errors import KnownIssuesError
from harness.matching import expired, holds_until, matches, matching, requirement
from harness.records import KnownIssue

ENTRY = {
    "id": '"decoder-threads"',
    "tests": '["suites/decoder/*"]',
    "reason": '"superframes fail"',
    "link": '"https://example.org/43"',
    "last_day": "2027-03-31",
}


def _load(folder: Path, text: str) -> tuple[KnownIssue, ...]:
    path = folder / "known_issues.toml"
    path.write_text(text, encoding="utf-8")
    return known_issues.load(path)


def _toml(**changes: str | None) -> str:
    values = {k: v for k, v in {**ENTRY, **changes}.items() if v is not None}
    return "[[issue]]\n" + "".join(f"{k} = {v}\n" for k, v in values.items())


def test_whole_entry(tmp_path: Path) -> None:
    """Every key of an entry arrives, and the file's order stays."""
    more = _toml(
        id='"other"',
        runners='["cpu"]',
        targets='["vitra"]',
        unless_patches='["decoder-fix"]',
        kinds='["exception"]',
    )
    first, second = _load(tmp_path, _toml() + more)
    assert (first.id, first.tests, first.last_day) == ("decoder-threads", ("suites/decoder/*",), "2027-03-31")
    assert (first.runners, first.targets, first.unless_patches, first.kinds) == ((), (), (), ())
    assert second.runners == ("cpu",)
    assert second.targets == ("vitra",)
    assert second.unless_patches == ("decoder-fix",)
    assert second.kinds == ("exception",)


def test_empty_file(tmp_path: Path) -> None:
    """An empty file means no known issues."""
    assert _load(tmp_path, "") == ()


def test_day_as_text(tmp_path: Path) -> None:
    """A day may be written as an ISO string."""
    assert _load(tmp_path, _toml(last_day='"2027-03-31"'))[0].last_day == "2027-03-31"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_toml(runer='["cpu"]'), ["entry 1 (decoder-threads)", "'runer'", "keys are"]),
        (_toml(id=None), ["entry 1 (no id)", "id is missing"]),
        (_toml(tests=None), ["tests is missing"]),
        (_toml(reason=None), ["reason is missing"]),
        (_toml(link=None), ["link is missing"]),
        (_toml(last_day=None), ["last_day is missing"]),
        (_toml(tests="[]"), ["tests is missing"]),
        (_toml(tests='"suites/*"'), ["tests", "list of texts"]),
        (_toml(tests="[1]"), ["tests", "list of texts"]),
        (_toml(tests='[""]'), ["tests", "list of texts"]),
        (_toml(reason='"  "'), ["reason", "must be text"]),
        (_toml(link="43"), ["link", "must be text"]),
        (_toml(kinds='["surprise"]'), ["'surprise'", "is none of", "exception"]),
        (_toml(last_day='"soon"'), ["last_day = 'soon'", "2027-03-31"]),
        (_toml(last_day='"2027-02-30"'), ["2027-02-30"]),
        (_toml(last_day='"20270331"'), ["20270331"]),
        (_toml(last_day="2027-03-31T00:00:00Z"), ["last_day"]),
        (_toml(last_day="20270331"), ["last_day"]),
        (_toml(id='"""a\nb"""', link=None), ["entry 1 (a b)"]),
        (_toml() + _toml(), ["entry 2 (decoder-threads)", "taken"]),
        ("[[issue]]\nid = \n", ["line 2", "mend the TOML"]),
        ("[issue]\nid = 'x'\n", ["[[issue]]"]),
        ("issue = [1]\n", ["[[issue]]"]),
        ("[[issues]]\nid = 'x'\n", ["'issues'", "[[issue]]"]),
    ],
)
def test_mistakes(tmp_path: Path, text: str, words: list[str]) -> None:
    """A mistake is one line that names the file, the entry and the remedy."""
    with pytest.raises(KnownIssuesError) as caught:
        _load(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for word in ["known_issues.toml", *words]:
        assert word in message


def test_absent_file_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    """A file that is not there or is no text is the user's mistake, not a traceback."""
    with pytest.raises(KnownIssuesError, match="not there"):
        known_issues.load(tmp_path / "absent.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(KnownIssuesError, match="UTF-8"):
        known_issues.load(tmp_path / "bytes.toml")


TEXT = st.text(alphabet="ab[]!*?.^-\n", max_size=12)


@given(TEXT)
def test_literal_pattern_matches_only_itself(text: str) -> None:
    """Brackets and dots in a pattern are literal: a pattern without `*` and `?` matches its own text alone."""
    pattern = text.replace("*", "").replace("?", "")
    assert matches(pattern, pattern)
    assert not matches(pattern, pattern + "a")
    assert not matches(pattern, "a" + pattern)


@given(TEXT, TEXT, TEXT)
def test_star_and_question_mark(before: str, middle: str, after: str) -> None:
    """`*` stands for any text, `?` for one character, the rest for itself."""
    literal_before, literal_after = (t.replace("*", "").replace("?", "") for t in (before, after))
    assert matches(f"{literal_before}*{literal_after}", f"{literal_before}{middle}{literal_after}")
    assert matches(f"{literal_before}?{literal_after}", f"{literal_before}x{literal_after}")
    assert not matches(f"{literal_before}?{literal_after}", f"{literal_before}{literal_after}")


def test_brackets_are_no_sets() -> None:
    """`[ab]` in a pattern is the parameter `ab`, not `a` or `b`."""
    assert matches("suites/d/t.py::test[ab]", "suites/d/t.py::test[ab]")
    assert not matches("suites/d/t.py::test[ab]", "suites/d/t.py::testa")


TEST = "suites/decoder/test_frames.py::test_frames[vp9]"


def _match(
    *issues: KnownIssue,
    test: str = TEST,
    runner: str = "cpu",
    arch: str = "x86_64",
    target: str = "vitra",
    patches: tuple[str, ...] = (),
    software: dict[str, str | None] | None = None,
) -> KnownIssue | None:
    header = make_header(
        runner={"name": runner, "device_arch": arch},
        target={"name": target, "patches": patches},
        software=software or {},
    )
    return matching(issues, test=test, header=header)


def test_where_an_issue_holds() -> None:
    """Runner, target and patches limit where an entry holds; without them it holds anywhere."""
    assert _match(make_issue()) is not None
    assert _match(make_issue(), test="suites/failfast/test_frames.py::test_frames[vp9]") is None
    limited = make_issue(runners=("cpu",), targets=("vitra",), unless_patches=("decoder-fix",))
    assert _match(limited) is not None
    assert _match(limited, runner="rocm") is None
    assert _match(limited, target="reference") is None
    assert _match(limited, patches=("other", "decoder-fix")) is None
    assert _match(limited, patches=("other",)) is not None


def test_architectures_limit() -> None:
    """One of the machine's architectures is enough, also among mixed devices; a part of a name is not."""
    issue = make_issue(archs=("gfx942", "gfx950"))
    assert _match(issue, arch="gfx942") is not None
    assert _match(issue, arch="gfx90a+gfx950") is not None
    assert _match(issue, arch="gfx90a") is None
    assert _match(make_issue(archs=("gfx94",)), arch="gfx942") is None


@pytest.mark.parametrize(
    ("versions", "software", "holds"),
    [
        (("torch>=2.13",), {"torch": "2.13.0+cpu"}, True),
        (("torch>=2.13",), {"torch": "2.12.1"}, False),
        (("torch>=2.13", "driver<600"), {"torch": "2.13.0", "driver": "570.86"}, True),
        (("torch>=2.13", "driver<600"), {"torch": "2.13.0", "driver": "610.1"}, False),
        (("rocm<7",), {"rocm": None}, False),
        (("rocm<7",), {}, False),
        (("rocm<7",), {"rocm": "built from source"}, False),
        (("torch>=2.13",), {"torch": "2.14.0.dev20261101+rocm7.2"}, True),
        (("rocm==7.*",), {"rocm": "7.1.1"}, True),
    ],
)
def test_versions_limit(versions: tuple[str, ...], software: dict[str, str | None], holds: bool) -> None:
    """All versions must fit; a version that is unknown, or none, fits nothing, so that the failure shows."""
    assert (_match(make_issue(versions=versions), software=software) is not None) is holds


@pytest.mark.parametrize(
    "text", ["torch 2.13", ">=2", "", "torch", "torch[x]>=2", "a @ file:///b", "torch>=x"]
)
def test_what_is_no_version_is_told(text: str, tmp_path: Path) -> None:
    """A condition that could never be read is one line that shows how to write it."""
    with pytest.raises(ValueError):
        requirement(text)
    if text:
        with pytest.raises(KnownIssuesError, match=r"versions: .*write it as torch>=2\.13") as told:
            _load(
                tmp_path,
                "[[issue]]\n"
                + "".join(f"{k} = {v}\n" for k, v in ENTRY.items())
                + f'versions = ["{text}"]\n',
            )
        assert "\n" not in str(told.value)


def _listed(folder: Path, *words: str, **days: date) -> subprocess.CompletedProcess[str]:
    path = folder / "list.toml"
    entries = [{**ENTRY, "id": f'"{name}"', "last_day": day.isoformat()} for name, day in days.items()]
    path.write_text("".join("[[issue]]\n" + "".join(f"{k} = {v}\n" for k, v in e.items()) for e in entries))
    return runs.harness("known", "--file", str(path), *words)


def test_what_is_due_is_listed(tmp_path: Path) -> None:
    """`harness known` names what ends within 30 days, soonest first, and nothing else; exit 0 while none has ended."""
    today = datetime.now(timezone.utc).date()
    days = {n: today + timedelta(days=d) for n, d in (("late", 31), ("soon", 30), ("now", 0))}
    done = _listed(tmp_path, **days)
    assert done.returncode == 0
    assert [w for w in ("now", "soon", "late") if f" {w}: " in done.stdout] == ["now", "soon"]
    assert done.stdout.index(" now: ") < done.stdout.index(" soon: ")
    assert "2 of 3 known issues end within 30 days" in done.stdout
    assert len(json.loads(_listed(tmp_path, "--all", "--format", "json", **days).stdout)) == 3


def test_what_has_ended_is_red(tmp_path: Path) -> None:
    """An entry past its last day is listed however few days are asked for, and the command ends with 1."""
    yesterday = datetime.now(timezone.utc).date() - timedelta(days=1)
    done = _listed(tmp_path, "--within", "0", gone=yesterday)
    assert done.returncode == 1
    assert "ended 1 days ago" in done.stdout


def test_first_match_counts() -> None:
    """Of several entries that hold, the first speaks."""
    found = _match(make_issue(id="one", runners=("rocm",)), make_issue(id="two"), make_issue(id="three"))
    assert found is not None
    assert found.id == "two"


def test_last_day_is_included() -> None:
    """An entry holds on its last day and not on the next; a day that cannot be read is over."""
    issue = make_issue(last_day="2027-03-31")
    assert not expired(issue, date(2027, 3, 31))
    assert expired(issue, date(2027, 4, 1))
    assert expired(make_issue(last_day="soon"), date(2027, 1, 1))
    assert not holds_until(None, date(2027, 1, 1))
