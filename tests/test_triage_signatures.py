"""The list of signatures: each is found in its public example, none in healthy logs, and mistakes in it are refused."""

from __future__ import annotations

import lzma
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import ROOT
from harness.errors import UsageError
from harness.triage import OVERLAP_BYTES, judge_log
from harness.triage_files import SIGNATURES, load_signatures, triage_files
from harness.triage_report import with_table
from harness.triage_signatures import Rule, Signature, needed_literal

KNOWN = load_signatures()
RULES = [(s, rule) for s in KNOWN for rule in (*s.rules, *s.all_of)]
HEALTHY = ROOT / "tests" / "data" / "signatures" / "healthy.txt.xz"


@lru_cache(maxsize=1)
def healthy() -> tuple[str, ...]:
    """Lines of healthy logs, each once."""
    return tuple(lzma.decompress(HEALTHY.read_bytes()).decode().splitlines())


def of_ranks(lines: tuple[str, ...]) -> list[str]:
    """The same lines as if four ranks had written them."""
    return [f"[rank{n % 4}]: {line}" for n, line in enumerate(lines)]


def name(signature: Signature) -> str:
    return signature.id


def test_the_lists_of_the_vendors_are_whole() -> None:
    """All fifty signatures that were collected, the emulator's own, and more from public threads are there."""
    found = {s.id for s in KNOWN}
    assert {f"S{n:02d}" for n in range(1, 51)} | {"M01"} <= found
    assert sum(i.startswith("T") for i in found) >= 15


@pytest.mark.parametrize("signature", KNOWN, ids=name)
def test_found_in_its_example(signature: Signature, tmp_path: Path) -> None:
    """A log that holds the public example alone shows this signature first, with a line of the example."""
    path = tmp_path / "rank-2.log"
    path.write_text(signature.example.strip("\n") + "\n", encoding="utf-8")
    found = triage_files([path]).findings
    assert found[0].signature.id == signature.id
    assert found[0].first.file == str(path)
    assert found[0].first.rank is not None
    start = found[0].first.text[:20]
    assert any(line.strip().startswith(start) for line in signature.example.strip().splitlines())


@pytest.mark.parametrize("signature", KNOWN, ids=name)
def test_found_within_a_healthy_log_of_several_ranks(signature: Signature, tmp_path: Path) -> None:
    """Among thousands of healthy lines of four ranks, the example of rank 3 is found, and nothing else but what the
    example itself shows."""
    lines = of_ranks(healthy()[3000:8000])
    place = len(lines) if signature.stall else 2500
    example = [f"[rank3]: {line}" for line in signature.example.strip().splitlines()]
    path = tmp_path / "run.log"
    path.write_text("\n".join([*lines[:place], *example, *lines[place:]]) + "\n", encoding="utf-8")
    found = triage_files([path]).findings
    alone = judge_log(["\n".join(example)], KNOWN).findings
    assert [f.signature.id for f in found] == [f.signature.id for f in alone]
    assert found[0].signature.id == signature.id
    assert found[0].first.rank == 3
    assert place < found[0].first.line_number <= place + len(example)


def test_healthy_logs_show_nothing(tmp_path: Path) -> None:
    """Twenty thousand distinct lines of healthy logs, as they are and as lines of several ranks, show nothing at all."""
    lines = healthy()
    assert len(set(lines)) == len(lines) >= 20_000
    for n, written in enumerate((lines, of_ranks(lines))):
        path = tmp_path / f"healthy-{n}.log"
        path.write_text("\n".join(written) + "\n", encoding="utf-8")
        assert triage_files([path]).findings == ()


def test_examples_are_public_or_say_how_they_were_made() -> None:
    """Every entry links a public source; where the example is no quoted line, a note says what it is from."""
    for s in KNOWN:
        assert all(link.startswith("https://") for link in s.links)
        quoted = any(re.search(r"/(?:issues|pull)/\d+$", link) for link in s.links)
        assert quoted or s.example_note, s.id


def test_root_causes_and_consequences_as_documented() -> None:
    """The roles that the list of the vendors asks for: five root causes, three consequences of them."""
    roles = {s.id: s.role for s in KNOWN}
    assert {roles[i] for i in ("S01", "S15", "S19", "S20", "S26")} == {"root"}
    assert {roles[i] for i in ("S16", "S17", "S33")} == {"consequence"}
    assert not any(s.infrastructure for s in KNOWN if s.where == "code")
    assert not any(s.infrastructure for s in KNOWN if s.role == "consequence")


@pytest.mark.parametrize("rule", [r for _, r in RULES], ids=[f"{s.id}-{n}" for n, (s, _) in enumerate(RULES)])
@given(data=st.data())
@settings(max_examples=5)
def test_every_match_holds_the_needed_literal(rule: Rule, data: st.DataObject) -> None:
    """Whatever matches a pattern holds the literal that is searched for in its stead."""
    matched = data.draw(st.from_regex(rule.regex))
    assert rule.literal in matched


def test_matches_fit_into_the_overlap() -> None:
    """No match is longer than the part that pieces of a long line share."""
    parser = getattr(re, "_parser", None)
    if parser is None:  # Python 3.10
        import sre_parse as parser  # type: ignore[no-redef]
    for s, rule in RULES:
        assert parser.parse(rule.regex.pattern).getwidth()[1] < OVERLAP_BYTES // 2, s.id


def test_hostile_lines_end(tmp_path: Path) -> None:
    """Lines made of what a pattern begins with, over and over, without its end, are done with before a time limit."""
    path = tmp_path / "hostile.log"
    with path.open("wb") as file:
        for s, rule in RULES:
            heads = [rule.literal, *(line.encode()[:-8] for line in s.example.strip().splitlines())]
            for head in heads:
                for filler in (b"", b"x" * 70, b" " * 9, b"1", b", "):
                    unit = head + filler
                    file.write(unit * (60_000 // len(unit)) + b"\n")
    assert path.stat().st_size > 50 << 20
    words = [sys.executable, "-m", "harness.cli", "triage", str(path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0


ENTRY = {
    "id": '"X1"',
    "patterns": "['some text']",
    "cause": '"a cause"',
    "remedy": '"a remedy"',
    "where": '"code"',
    "infrastructure": "false",
    "role": '"cause"',
    "example": '"some text"',
    "links": '["https://example.org/1"]',
}


def entry(**changes: str | None) -> str:
    """The TOML of one good entry with changes; None leaves a key out."""
    values = {k: v for k, v in {**ENTRY, **changes}.items() if v is not None}
    return "[[signature]]\n" + "".join(f"{k} = {v}\n" for k, v in values.items())


def load(folder: Path, text: str) -> tuple[Signature, ...]:
    """The signatures of this TOML."""
    path = folder / "signatures.toml"
    path.write_text(text, encoding="utf-8")
    load_signatures.cache_clear()
    return load_signatures(path)


def test_whole_entry(tmp_path: Path) -> None:
    """Every key of an entry arrives."""
    more = entry(
        id='"X2"', consequence_of='["X1"]', all_of="['first part', 'second part']", example_note='"made up"'
    )
    first, second = load(tmp_path, entry() + more)
    assert (first.id, first.where, first.role, first.infrastructure) == ("X1", "code", "cause", False)
    assert [r.literal for r in first.rules] == [b"some text"]
    assert (second.consequence_of, second.example_note) == (("X1",), "made up")
    assert [r.literal for r in second.all_of] == [b"first part", b"second part"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (entry(id=None), ["entry 1 (no id)", "id is missing"]),
        (entry(cause=None), ["entry 1 (X1)", "cause is missing"]),
        (entry(remedy='""'), ["remedy is missing"]),
        (entry(links=None), ["links is missing"]),
        (entry(links="[]"), ["links is missing"]),
        (entry(links='["example.org"]'), ["'example.org'", "public https address"]),
        (entry(links='["http://example.org"]'), ["public https address"]),
        (entry(example=None), ["example is missing"]),
        (entry(cause="3"), ["cause = 3", "must be text"]),
        (entry(patterns='"some text"'), ["patterns", "list of texts"]),
        (entry(patterns="[1]"), ["patterns", "list of texts"]),
        (entry(patterns=None), ["nothing to look for"]),
        (entry(patterns=None, all_of="['some text']"), ["all_of has one part"]),
        (entry(patterns="['some text(']"), ["'some text('", "unterminated"]),
        (entry(patterns="['[a-z]{1,9}']"), ["plain characters in a row"]),
        (entry(patterns="['some .*text']"), ["no bound", "{0,80}"]),
        (entry(patterns="['some text+']"), ["no bound"]),
        (entry(patterns="['some text[a-z]{3,}']"), ["no bound"]),
        (entry(patterns="['some text[a-z]{3,4000}']"), ["no bound"]),
        (entry(patterns="['some text(?:a.*b)']"), ["no bound"]),
        (entry(patterns="['some text(?:ab){2,9}']"), ["a group repeats"]),
        (entry(patterns="['some text(?:a(?:ab){2,9})']"), ["a group repeats"]),
        (entry(patterns="['some text|other text']"), ["two patterns"]),
        (entry(patterns="['some täxt']"), ["ASCII"]),
        (entry(where='"moon"'), ["where = 'moon'", "code, machine, network"]),
        (entry(role='"villain"'), ["role = 'villain'", "root"]),
        (entry(infrastructure=None), ["infrastructure is missing"]),
        (entry(infrastructure='"yes"'), ["infrastructure is missing"]),
        (entry(consequence_of='["X9"]'), ["'X9'", "no other entry"]),
        (entry(consequence_of='["X1"]'), ["'X1'", "no other entry"]),
        (entry(patern="['x']"), ["unknown key 'patern'", "keys are"]),
        (entry() + entry(), ["entry 2 (X1)", "taken"]),
        ("[signature]\nid = 'x'\n", ["[[signature]]"]),
        ("[[signatures]]\nid = 'x'\n", ["'signatures'", "[[signature]]"]),
        ("[[signature]]\nid = \n", ["mend the TOML"]),
    ],
)
def test_mistakes(tmp_path: Path, text: str, words: list[str]) -> None:
    """A mistake is one line that names the file, the entry and the remedy."""
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for word in ["signatures.toml", *words]:
        assert word in message


def test_absent_file_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    """A list that is not there or is no text is told in one line."""
    with pytest.raises(UsageError, match="not there"):
        load_signatures(tmp_path / "absent.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        load_signatures(tmp_path / "bytes.toml")


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("plain text", "plain text"),
        (r"a\.b\(c\) d", "a.b(c) d"),
        (r"first \d{1,9} second part", " second part"),
        (r"(?:long alternative|x) short end", " short end"),
        (r"colou?r of it", "r of it"),
        (r"[\]x]{1,3}after", "after"),
        (r"[^]x]after", "after"),
        (r"(?P<least>\d{1,9}), named", ", named"),
        (r"(?:a(?:b\)|c)[)]) after", " after"),
    ],
)
def test_needed_literal(pattern: str, literal: str) -> None:
    """The longest plain run outside of classes, groups and what a quantifier may leave out."""
    assert needed_literal(pattern) == literal


def test_page_is_current() -> None:
    """The table in docs/triage.md is what the signatures make it: python docs/make_triage_page.py writes it anew."""
    page = (ROOT / "docs" / "triage.md").read_text(encoding="utf-8")
    assert page.count("\n| [S") == 50
    assert page == with_table(page, KNOWN)


def test_the_list_is_installed_with_the_package() -> None:
    """The list lies beside the modules, where the package's data are taken from."""
    assert SIGNATURES.is_file()
    assert "*.toml" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
