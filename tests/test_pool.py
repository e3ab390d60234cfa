"""What the pool of devices promises."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import ROOT
from harness.pool import DevicePool


def test_no_devices_lend_nothing(tmp_path: Path) -> None:
    """On a CPU a lease is empty, however many are asked for, and nothing is written."""
    pool = DevicePool(tmp_path / "devices", 0)
    with pool.lease(4) as found, pool.lease_one(None) as one:
        assert (found, one) == ((), ())
    assert not (tmp_path / "devices").exists()


def test_a_lease_holds_and_ends(tmp_path: Path) -> None:
    """Two leases share no device; what was returned is lent again; one device can be asked for by number."""
    pool = DevicePool(tmp_path / "devices", 4)
    with pool.lease_one(1) as one, pool.lease(2) as two:
        assert one == (1,)
        assert two == (0, 2)
    with pool.lease(4) as every:
        assert every == (0, 1, 2, 3)


def test_more_than_there_are(tmp_path: Path) -> None:
    """A request that can never be met is an error, not a wait without end."""
    with pytest.raises(ValueError, match="5 devices of 4"), DevicePool(tmp_path / "d", 4).lease(5):
        pass


def _work(folder: Path, count: int, wants: Sequence[int], notes: Path) -> None:
    pool = DevicePool(folder, count)
    for want in wants:
        with pool.lease(want) as held:
            with notes.open("a") as file:
                file.write(f"take {','.join(map(str, held))}\n")
            time.sleep(0.002)
            with notes.open("a") as file:
                file.write(f"give {','.join(map(str, held))}\n")


@settings(max_examples=8, deadline=None)
@given(st.lists(st.lists(st.integers(1, 4), max_size=4), min_size=2, max_size=4))
def test_no_device_is_held_twice(wants: list[list[int]]) -> None:
    """Whatever several processes ask for, all are served and no device is lent to two at once."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        notes, place = Path(folder) / "notes", Path(folder) / "devices"
        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=_work, args=(place, 4, w, notes)) for w in wants]
        place.mkdir()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
            assert worker.exitcode == 0
        held: set[str] = set()
        lines = notes.read_text().splitlines() if notes.exists() else []
        for line in lines:
            word, _, devices = line.partition(" ")
            these = set(devices.split(","))
            assert not (word == "take" and these & held), lines
            held = held | these if word == "take" else held - these
        assert len(lines) == 2 * sum(map(len, wants))


def test_a_killed_holder_gives_back(tmp_path: Path) -> None:
    """A process that is killed while it holds a device does not keep it."""
    folder = tmp_path / "devices"
    code = (
        "import sys, time, pathlib; from harness.pool import DevicePool\n"
        "with DevicePool(pathlib.Path(sys.argv[1]), 1).lease(1):\n    print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    pool = DevicePool(folder, 1)
    holder.kill()
    holder.wait()
    with pool.lease(1) as found:
        assert found == (0,)
