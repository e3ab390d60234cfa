"""A run folder gives back what was put in, and tells what was damaged."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import case, make_header, make_record
from harness import rundir, typed
from harness.errors import HarnessError, RunFolderError, UsageError
from harness.records import KINDS, Metric, Record, Trace, header_from_json, record_from_json, to_json

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
RECORDS = st.builds(
    Record,
    test=st.text(min_size=1),
    suite=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,20}", fullmatch=True),
    outcome=st.sampled_from(["passed", "failed", "error", "skipped"]),
    duration_s=st.floats(0, 1e6),
    kind=st.none() | st.sampled_from(sorted(KINDS)),
    reason=st.none() | st.text(),
    detail=st.none() | st.text(),
    last_day=st.none() | st.dates().map(str),
    control=st.booleans(),
    metrics=st.lists(
        st.builds(
            Metric,
            st.text(),
            st.text(),
            st.lists(NUMBERS).map(tuple),
            st.integers(0, 5),
            st.dictionaries(st.text(), NUMBERS, max_size=2),
        ),
        max_size=2,
    ).map(tuple),
    traces=st.lists(st.builds(Trace, st.text(), st.text(), st.lists(NUMBERS).map(tuple)), max_size=2).map(
        tuple
    ),
    logs=st.lists(st.text(st.characters(exclude_characters="/\0.")).map("logs/{}".format)).map(tuple),
)


@given(st.lists(RECORDS, max_size=5))
def test_records_come_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    """Any record, with any text in it, is read as it was written."""
    folder = rundir.claim(tmp_path_factory.mktemp("run") / "run")
    rundir.write_header(folder, make_header())
    writer = rundir.Writer(folder, "main")
    for record in records:
        writer.running(record.test)
        writer.append(record)
    writer.close()
    run = rundir.load(folder)
    assert list(run.records) == records
    assert run.header == make_header()
    assert (run.running, run.problems) == ((), ())


@given(RECORDS, st.data())
def test_a_cut_file_keeps_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, record: Record, data: st.DataObject
) -> None:
    """Wherever the file is cut, whole records are kept, a half line is told, and nothing is guessed."""
    folder = rundir.claim(tmp_path_factory.mktemp("run") / "run")
    rundir.write_header(folder, make_header())
    writer = rundir.Writer(folder, "main")
    writer.append(record)
    whole = writer.path.stat().st_size
    writer.append(record)
    writer.close()
    content = writer.path.read_bytes()
    cut = data.draw(st.integers(whole + 1, len(content) - 2))
    writer.path.write_bytes(content[:cut])
    run = rundir.load(folder)
    assert run.records == (record,)
    assert len(run.problems) == 1
    assert "half-written last line" in run.problems[0]


def test_an_unreadable_line_is_told_and_the_rest_kept(tmp_path: Path) -> None:
    """A damaged line in the middle costs only itself."""
    folder = rundir.claim(tmp_path / "run")
    rundir.write_header(folder, make_header())
    good = json.dumps({"type": "record", "test": "t", "suite": "s", "outcome": "passed", "duration_s": 1})
    lines = [good, "\x00\x00", '{"type": "record"}', '["list"]', good.replace('"passed"', '"great"'), good]
    (folder / "records-gw0.jsonl").write_text("\n".join(lines) + "\n")
    run = rundir.load(folder)
    assert len(run.records) == 2
    assert len(run.problems) == 4
    assert "line 2" in run.problems[0]


def test_one_of_many_claims_wins(tmp_path: Path) -> None:
    """Many that claim one folder at once: one has it, the others are told."""

    def claim(_: int) -> bool:
        try:
            rundir.claim(tmp_path / "run")
        except UsageError as error:
            told.append(str(error))
            return False
        return True

    told: list[str] = []
    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(claim, range(64))) == 1
    assert len(told) == 63
    assert all("name a new folder" in t for t in told)


def test_new_folders_differ(tmp_path: Path) -> None:
    """Runs started in the same second get folders of their own."""
    now = datetime(2026, 12, 1, tzinfo=timezone.utc)
    assert len({rundir.create(tmp_path, "cpu", now) for _ in range(50)}) == 50


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no run.json there"),
        ("{", "line 1"),
        ("[]", "expected an object"),
        ('{"schema": 1}', "missing"),
        ("\udcff".encode("utf-8", "surrogateescape"), "run.json"),
    ],
)
def test_what_is_no_run_folder_is_told(content: str | bytes | None, says: str, tmp_path: Path) -> None:
    """Anything that is no run folder is one line that names it."""
    if content is not None:
        (tmp_path / "run.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RunFolderError, match=says):
        rundir.load(tmp_path)


def test_another_schema_is_refused() -> None:
    """A header of another schema is not read as if it were of this one."""
    with pytest.raises(RunFolderError, match="schema 99"):
        header_from_json({**to_json(make_header()), "schema": 99})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(to_json(make_header()))), JSON), st.booleans())
def test_a_mangled_header_is_one_error(changes: dict[str, object], as_record: bool) -> None:
    """Whatever stands in a file from elsewhere, reading it gives data or one of the harness's own errors."""
    try:
        if as_record:
            record_from_json(changes)
        else:
            header_from_json({**to_json(make_header()), **changes})
    except HarnessError:
        pass


@given(st.dictionaries(st.sampled_from(sorted(to_json(make_header()))), JSON, min_size=1))
def test_what_was_read_is_of_its_types(changes: dict[str, object]) -> None:
    """What reading accepts is of the declared types all through, so that no report stumbles over it later."""
    try:
        header = header_from_json({**to_json(make_header()), **changes})
    except HarnessError:
        return
    assert typed.mistyped(header) is None


@pytest.mark.parametrize("log", ["/etc/passwd", "logs/../../x", "../x", "records-main.jsonl", "logs/a\0b"])
def test_logs_that_lead_out_are_refused(log: str, tmp_path: Path) -> None:
    """A record that names a log outside its run's logs is not read: the run has no verdict and says so."""
    data = {**to_json(make_record(case("a"))), "logs": [log]}
    with pytest.raises(RunFolderError, match="leads out"):
        record_from_json(data)


@pytest.mark.parametrize("name", ["../../up", "a/b", "", ".hidden", "x\n", "a" * 200, "c:\\x"])
@pytest.mark.parametrize("part", ["runner", "architecture", "target", "suite"])
def test_names_that_lead_elsewhere_are_refused(name: str, part: str) -> None:
    """Names become names of files, so that one from elsewhere may hold no way out of a folder."""
    header, record = to_json(make_header()), to_json(make_record(case("a")))
    place = {"suite": record, "target": header["target"]}.get(part, header["runner"])
    place[{"runner": "name", "architecture": "device_arch", "target": "name"}.get(part, part)] = name
    with pytest.raises(RunFolderError, match="is no name"):
        _ = record_from_json(record) if part == "suite" else header_from_json(header)


def test_log_names_stay_in_the_folder(tmp_path: Path) -> None:
    """No name of a test or role leads out of the logs folder."""
    path = rundir.log_path(tmp_path, "../../etc/passwd\x00\n.log")
    assert path.parent == tmp_path / "logs"
    assert "/" not in path.name
