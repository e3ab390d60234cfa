"""A store loses and doubles nothing: rows as they were, killed at every step, two writers and two compactors at once."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from moto.server import ThreadedMotoServer

import history_runs
from builders import make_record
from harness import ROOT, history
from harness.errors import RunFolderError, UsageError
from harness.history import holdings, place, query, rows, store
from harness.history.place import Place, StoreError
from harness.records import Metric
from history_runs import expected, ids, make_rows, make_run, read_all, start, write_folder


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """The address of an S3 server on this machine."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["folder", "s3"])
def spot(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new, empty place: a folder, or a bucket of the local S3 server."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what killed processes leave
    if request.param == "folder":
        return str(tmp_path / "store")
    server = request.getfixturevalue("s3_server")
    settings = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "DEFAULT_REGION": "us-east-1"}
    for name, value in {**settings, "ENDPOINT_URL": server}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    bucket = f"bucket{os.urandom(6).hex()}"
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir(bucket)
    return f"s3://{bucket}/a/store"


def test_what_goes_in_comes_out(spot: str) -> None:
    """Rows come out as they went in, before and after compaction, and adding again is a no-op."""
    here = Place(spot)
    runs = [make_rows(n) for n in range(4)]
    assert [store.add_rows(here, r) for r in runs] == [True] * 4
    assert read_all(here) == expected(*runs)
    assert store.add_rows(here, runs[2]) is False
    assert store.compact(here) == ["cpu-x86_64-1: 4 runs sorted, 4 files are now 1"]
    assert read_all(Place(spot)) == expected(*runs)
    assert store.add_rows(here, runs[2]) is False
    assert store.compact(here) == []
    assert len(here.files()) == 1


def test_another_run_under_the_same_id_is_refused(spot: str) -> None:
    """A run that differs from the one of that id is refused, compacted or not, and changes nothing."""
    here = Place(spot)
    store.add_rows(here, make_rows(1))
    store.add_rows(here, make_rows(2))
    other = make_rows(1, started="2027-01-01T02:00:00+00:00")
    for _ in range(2):
        with pytest.raises(UsageError, match="run1: the store holds another run under this id"):
            store.add_rows(here, other)
        assert read_all(here) == expected(make_rows(1), make_rows(2))
        store.compact(here)


@pytest.mark.parametrize("first", [0, 1])
def test_two_runs_of_one_id_at_the_same_moment(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When another run of that id came between look and write, the writer names its file; moved away, all is well."""
    here = Place(str(tmp_path))
    two = [make_rows(1), make_rows(1, target={"commit": "f" * 40})]
    mine, theirs = two[first], two[1 - first]

    def reached(step: str) -> None:
        if step == "written":
            monkeypatch.setattr(store, "reached", lambda step: None)
            store.add_rows(here, theirs)

    monkeypatch.setattr(store, "reached", reached)
    with pytest.raises(UsageError, match="at the same moment, and both are in the store") as caught:
        store.add_rows(here, mine)
    store.add_rows(here, make_rows(2))
    store.add_rows(here, make_rows(3))
    store.compact(here)
    assert len(query.Reader(here).problems) == 1
    assert ids(here).keys() == {"run1", "run2", "run3"}
    (named,) = [p for p in tmp_path.rglob("*.parquet") if str(p) in str(caught.value)]
    named.unlink()
    assert query.Reader(here).problems == ()
    assert read_all(here) == expected(theirs, make_rows(2), make_rows(3))


@pytest.mark.parametrize("job", ["add", "compact"])
def test_killed_at_every_step(spot: str, job: str) -> None:
    """A process killed at any step loses and doubles no run, and the next one goes on."""
    here = Place(spot)
    runs = [make_rows(n) for n in range(2)]
    for run in runs:
        store.add_rows(here, run)
    for kill_at in range(1, 30):
        number = 10 + kill_at
        process = start(spot, job, number if job == "add" else 1, kill_at=kill_at)
        told, _ = process.communicate(timeout=120)
        there = [make_rows(number)] if job == "add" and f"run{number}" in ids(here) else []
        assert read_all(here) == expected(*runs, *there)
        if job == "add":
            assert store.add_rows(here, make_rows(number)) is not bool(there)
            runs.append(make_rows(number))
        else:
            runs.append(make_rows(number))  # so that there is something to compact again
            store.add_rows(here, runs[-1])
        if process.returncode == 0:
            assert told.endswith("done\n")
            break
        assert process.returncode == -signal.SIGKILL
    assert kill_at >= (4 if job == "add" else 9)
    assert process.returncode == 0
    store.compact(here)
    assert read_all(here) == expected(*runs)
    assert len(here.files()) == 1


def test_killed_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction killed at moments that no step names loses and doubles no run."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    here = Place(str(tmp_path / "store"))
    runs = [make_rows(n, repeats=20, tests=20) for n in range(8)]
    for run in runs[:6]:
        store.add_rows(here, run)
    began = time.monotonic()
    start(here.text, "compact", 0).communicate(timeout=60)
    start_s = time.monotonic() - began
    for number, part in enumerate((0.8, 1.0, 1.1, 1.2, 1.4)):
        process = start(here.text, "compact", 3)
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=start_s * part if number else 0.05)
        process.kill()
        process.communicate()
        assert read_all(here) == expected(*runs[:6])
    for run in runs[6:]:
        store.add_rows(here, run)
    store.compact(here)
    assert read_all(here) == expected(*runs)


def test_writers_and_compactors_at_once(spot: str, tmp_path: Path) -> None:
    """Two writers, which share some runs, and two compactors at once: what was told as added is read, once, at any moment."""
    here = Place(spot)
    count = 12 if here.local else 6
    both = range(count // 2)
    logs = [tmp_path / f"writer-{w}" for w in (1, 2)]
    writers = []
    for number, log in enumerate(logs, 1):
        with log.open("w") as output:
            own = range(100 * number, 100 * number + count)
            writers.append(start(spot, "add", *both, *own, output=output))
    compactors = [start(spot, "compact", count // 2) for _ in range(2)]
    rows_of_one, looks = len(make_rows(0)), 0
    while any(p.poll() is None for p in (*writers, *compactors)):
        lines = [line for log in logs for line in log.read_text().split("\n")[:-1]]
        found = ids(here)
        assert {f"run{line}" for line in lines if line != "done"} <= set(found)
        assert set(found.values()) <= {rows_of_one}
        looks += bool(found)
    assert looks > 3
    assert [p.wait() for p in (*writers, *compactors)] == [0] * 4
    numbers = [*both, *range(100, 100 + count), *range(200, 200 + count)]
    assert read_all(here) == expected(*map(make_rows, numbers))
    store.compact(here)
    assert len(here.files()) == 1
    assert read_all(here) == expected(*map(make_rows, numbers))


def test_files_that_share_some_runs_are_read_in_part(tmp_path: Path) -> None:
    """Of compacted files that overlap each run is read once, from the last by name, and the next compaction makes them one."""
    pairs = {
        name: (Place(str(tmp_path / name)), numbers) for name, numbers in {"a": (1, 2), "b": (2, 3)}.items()
    }
    for here, numbers in pairs.values():
        for n in numbers:
            store.add_rows(here, make_rows(n))
        store.compact(here)
    here = pairs["a"][0]
    for file in (tmp_path / "b").rglob("*.parquet"):
        file.rename(tmp_path / "a" / file.relative_to(tmp_path / "b"))
    assert sorted(len(f.runs) for f in here.files()) == [2, 2]
    assert read_all(here) == expected(*map(make_rows, (1, 2, 3)))
    query_text = (ROOT / "docs" / "history.md").read_text().partition("```sql\n")[2].partition("```")[0]
    for word, value in {"PLACE": here.text, "TEST": f"{history_runs.TEST}[0]", "METRIC": "step_s"}.items():
        query_text = query_text.replace(word, value)
    # As any other reader asks: without the harness, by what docs/history.md says.
    answer = duckdb.connect().execute(query_text.replace("median(value)", "count(value)")).fetchall()
    assert answer == [("run3", 6), ("run2", 6), ("run1", 6)]
    assert store.compact(here) == ["cpu-x86_64-1: 3 runs sorted, 2 files are now 1"]
    assert read_all(here) == expected(*map(make_rows, (1, 2, 3)))


def test_rows_lost_while_sorting_replace_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compacted file that lacks rows is not published, and its sources stay."""
    here = Place(str(tmp_path))
    for n in range(3):
        store.add_rows(here, make_rows(n))
    copy = store._copy
    monkeypatch.setattr(
        store, "_copy", lambda select, *rest: copy(f"SELECT * FROM ({select}) LIMIT 20", *rest)
    )
    with pytest.raises(StoreError, match="rows were lost"):
        store.compact(here)
    assert read_all(here) == expected(*map(make_rows, range(3)))
    assert not list(tmp_path.glob("*/.draft*"))


def test_old_drafts_go_and_fresh_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a writer that was killed long ago left is removed by a compaction; a fresh draft, and others' files, are not."""
    here = Place(str(tmp_path))
    store.add_rows(here, make_rows(1))
    folder = tmp_path / "runner=cpu-x86_64-1"
    for name in (".draft-old", ".draft-new", "notes.txt", "foreign.parquet"):
        (folder / name).write_text("x")
    os.utime(folder / ".draft-old", (0, 0))
    monkeypatch.setattr(place.tempfile, "tempdir", str(tmp_path))
    for name in (f"{place.TEMPORARY}old", f"{place.TEMPORARY}new", "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "spilled").write_text("x")
        os.utime(tmp_path / name, None if name.endswith("new") else (0, 0))
    store.compact(here)
    assert {p.name for p in folder.iterdir()} >= {".draft-new", "notes.txt", "foreign.parquet"}
    assert not (folder / ".draft-old").exists()
    assert {p.name for p in tmp_path.iterdir()} == {folder.name, f"{place.TEMPORARY}new", "others"}
    assert read_all(here) == expected(make_rows(1))


def test_runners_have_folders_of_their_own(tmp_path: Path) -> None:
    """Each runner key is a partition, and compaction never mixes two."""
    here = Place(str(tmp_path))
    runs = [
        make_rows(n, runner={"name": "cpu" if n % 2 else "mirage", "emulated": n % 2 == 0}) for n in range(6)
    ]
    for run in runs:
        store.add_rows(here, run)
    assert len(store.compact(here)) == 2
    assert {f.runner: len(f.runs) for f in here.files()} == {"cpu-x86_64-1": 3, "mirage-x86_64-1-emulated": 3}
    assert read_all(here) == expected(*runs)


def test_a_compacted_file_is_sorted_and_says_what_it_holds(tmp_path: Path) -> None:
    """Another reader finds zstd, the order of the six columns, statistics, the schema version and the runs in the footer."""
    here = Place(str(tmp_path))
    runs = [make_rows(n) for n in (2, 0, 1)]
    for run in runs:
        store.add_rows(here, run)
    store.compact(here)
    (file,) = tmp_path.rglob("*.parquet")
    connection = duckdb.connect()

    def ask(query: str) -> list[Any]:
        return connection.execute(query.replace("$file", f"'{file}'")).fetchall()

    kinds = {
        "string": "VARCHAR",
        "timestamp": "TIMESTAMP WITH TIME ZONE",
        "int32": "INTEGER",
        "bool": "BOOLEAN",
    }
    columns = ask(
        "SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet($file, hive_partitioning=false))"
    )
    assert columns == [(n, kinds.get(t, t.upper())) for n, t in rows.COLUMNS.items()]
    numbered = "SELECT file_row_number FROM read_parquet($file, file_row_number=true) ORDER BY "
    assert ask(numbered + ", ".join(store.ORDER)) == [(n,) for n in range(3 * len(runs[0]))]
    about = ask(
        "SELECT path_in_schema, compression, stats_min_value, stats_max_value FROM parquet_metadata($file)"
    )
    assert {compression for _, compression, _, _ in about} == {"ZSTD"}
    assert ("test", "ZSTD", f"{history_runs.TEST}[0]", f"{history_runs.TEST}[1]") in about
    ((said,),) = ask("SELECT decode(value) FROM parquet_kv_metadata($file) WHERE decode(key) = 'harness'")
    ordered = sorted(runs, key=lambda r: r.run_id)
    assert json.loads(said) == {
        "schema": 1,
        "runs": [[r.run_id, store.microseconds(r), r.digest] for r in ordered],
    }


@pytest.mark.parametrize("damage", [b"", b"PAR1 and then nothing", None])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_damaged_file_is_named(compacted: bool, damage: bytes | None, tmp_path: Path) -> None:
    """A file that is empty, foreign or cut in half is named in one line, never passed over."""
    here = Place(str(tmp_path))
    for n in range(3):
        store.add_rows(here, make_rows(n))
    if compacted:
        store.compact(here)
    file = sorted(tmp_path.rglob("*.parquet"))[-1]
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2] if damage is None else damage)
    with pytest.raises(StoreError, match=f"{file.name}.*damaged, move it away"):
        query.Reader(here).metrics()
    with pytest.raises(StoreError, match=f"{file.name}.*damaged, move it away"):
        store.compact(here)


def test_a_newer_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compacted file of a schema that is not known yet is refused with what to do."""
    here = Place(str(tmp_path))
    for n in range(2):
        store.add_rows(here, make_rows(n))
    monkeypatch.setattr(place, "SCHEMA", 2)
    store.compact(here)
    monkeypatch.setattr(place, "SCHEMA", 1)
    with pytest.raises(StoreError, match="schema 2, this harness reads 1; use a newer one"):
        here.files()


def test_folders_are_added_by_name(tmp_path: Path) -> None:
    """`history.add` adds a run folder once, and says which; one that is damaged or has not ended is refused."""
    folder = write_folder(tmp_path, make_run(1))
    assert history.add(folder, str(tmp_path / "s")) == f"run1: 16 rows added to {tmp_path / 's'}"
    assert history.add(folder, str(tmp_path / "s")) == f"run1: 16 rows are already in {tmp_path / 's'}"
    unfinished = write_folder(tmp_path, make_run(2, finished=None))
    with pytest.raises(RunFolderError, match="has not ended"):
        history.add(unfinished, str(tmp_path / "s"))
    with (write_folder(tmp_path, make_run(3)) / "records-gw1.jsonl").open("w") as file:
        file.write("{half")
    with pytest.raises(RunFolderError, match=r"records-gw1\.jsonl: line 1.*not added"):
        history.add(tmp_path / "run3", str(tmp_path / "s"))
    assert read_all(Place(str(tmp_path / "s"))) == expected(make_rows(1))


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "../up"},
        {"run_id": "a/b"},
        {"run_id": ""},
        {"started": "soon"},
        {"started": "1066-10-14T09:00:00"},
    ],
)
def test_names_and_times_that_lead_elsewhere_are_refused(changes: dict[str, str]) -> None:
    """A run whose id is no name, or whose start no time, is refused by what is wrong with it."""
    with pytest.raises(RunFolderError, match=next(iter(changes))):
        make_rows(1, **changes)


def test_places_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """A protocol nobody knows, a file in place of a folder and a name with wildcards are each one line with a remedy."""
    for text in ("nosuch://x/y", str(tmp_path / "a[1]")):
        with pytest.raises(UsageError, match=r"--store .*name"):
            Place(text)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--store .*name a place"):
        store.add_rows(Place(str(tmp_path / "file")), make_rows(1))


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its packages history says in one line what to install."""
    find = place.importlib.util.find_spec
    monkeypatch.setattr(
        place.importlib.util, "find_spec", lambda n: None if n in ("duckdb", "s3fs") else find(n)
    )
    with pytest.raises(UsageError, match=r"pip install duckdb s3fs$"):
        Place("x")


values = st.one_of(st.floats(), st.sampled_from([math.nan, math.inf, -0.0, 5e-324, 0.1 + 0.2]))
texts = st.text(max_size=20)


@settings(max_examples=60)
@given(
    metrics=st.lists(
        st.builds(
            Metric,
            texts,
            texts,
            st.lists(values, max_size=3).map(tuple),
            st.integers(0, 3),
            st.dictionaries(texts, st.floats(allow_nan=False), max_size=2),
        ),
        max_size=3,
    ),
    test=texts,
    patches=st.lists(texts, max_size=2).map(tuple),
)
def test_any_value_and_name_survives(
    metrics: list[Metric], test: str, patches: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Samples come back to the last bit, not-a-number and infinities too, under any name; unknown is null."""
    run = make_run(1, target={"patches": patches, "commit": None})
    record = make_record("suites/throughput/x", metrics=tuple(metrics))
    found = rows.rows_of(replace(run, records=(replace(record, test=test),)))
    here = Place(str(tmp_path_factory.mktemp("store")))
    store.add_rows(here, found)
    assert list(map(repr, read_all(here))) == list(map(repr, expected(found)))
    assert len(found) == sum(max(1, len(m.samples)) for m in metrics) or not metrics


def test_the_worst_of_a_retried_test_counts() -> None:
    """Of several records of one test and repeat the worst is stored; a test without metrics leaves one row without value."""
    good = make_record("suites/a/b.py::t", repeat=1, metrics=(Metric("m", "s", (1.0, 2.0)),))
    bad = make_record("suites/a/b.py::t", "failed", repeat=1)
    found = rows.rows_of(replace(make_run(1), records=(bad, good, replace(good, repeat=2)))).columns
    assert list(zip(found["repeat"], found["outcome"], found["value"], strict=True)) == [
        (1, "failed", None),
        (2, "passed", 1.0),
        (2, "passed", 2.0),
    ]


def test_digests_tell_runs_apart() -> None:
    """Anything that is stored of a run enters its digest, and nothing else does."""
    one = make_rows(1).digest
    assert make_rows(1, planned=("x",)).digest == one
    changes: list[dict[str, Any]] = [
        {"defect": "slow"},
        {"runner": {"device_count": 2}},
        {"repeats": 3},
        {"machine": {"host": "other"}},
    ]
    digests = [make_rows(1, **c).digest for c in changes]
    assert len({one, *digests}) == 5


def test_files_that_vanish_while_reading_are_no_error(tmp_path: Path) -> None:
    """A reader whose files a compaction takes away meanwhile looks again."""
    here = Place(str(tmp_path))
    for n in range(3):
        store.add_rows(here, make_rows(n))
    reader = query.Reader(here)
    before = reader.series("step_s")
    store.compact(here)
    assert not set(tmp_path.rglob("*.parquet")) & {tmp_path / p.file.path for p in reader.parts}
    assert reader.series("step_s") == before
    assert holdings.choose_parts(here.files()) == reader.parts
