"""The stand-in for mirage keeps the documented contract, line by line."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage_machines import MIRAGE, ROCJITSU, call, end_all, start, until, variables
from test_launch import gone, wait_until

WAIT = "echo ready; while :; do sleep 0.02; done"


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A short folder for sockets; nothing of a session may be left in it."""
    with tempfile.TemporaryDirectory(prefix="hm", dir="/tmp") as folder:
        yield Path(folder)
        end_all()
        assert [str(p) for p in Path(folder).rglob("*") if not p.is_dir()] == []


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["run", "--nodes", "2", "--", "true"], 2, "--nodes"),
        (["run", "--profil", "mi350x", "--", "true"], 2, "--profil"),
        (["--nodes", "2", "--", "true"], 2, "--nodes"),
        (["run", "--gpus-per-node", "0", "--", "true"], 2, "0"),
        (["run", "--num-nodes", "-1", "--", "true"], 2, "--num-nodes"),
        (["run", "--nproc-per-node", "two", "--", "true"], 2, "two"),
        (["run", "--daemon", "--in-process", "--", "true"], 2, "--in-process"),
        (["run", "--exec-mode", "fast", "--", "true"], 2, "fast"),
        (["run", "--config", "c.json", "--gpus-per-node", "2", "--", "true"], 2, "--config"),
        (["run", "--profile", "mi350x"], 2, "command"),
        (["run", "--"], 2, "command"),
        (["launch", "--", "true"], 2, "launch"),
        (["profile", "lst"], 2, "lst"),
        (["cleanup", "--force"], 2, "--force"),
        ([], 2, "subcommand"),
        (["run", "--profile", "mi355x", "--", "true"], 1, "profile not found: mi355x"),
        (["run", "--gpus-per-node", "65", "--", "true"], 1, "at most 64"),
        (["run", "--env", "NOPE", "--", "true"], 1, "KEY=VALUE"),
        (["run", "--plugin", "rase", "--", "true"], 1, "race"),
        (["run", "--config", "/not/there", "--", "true"], 1, "/not/there"),
        (["run", "--workdir", "/not/there", "--", "true"], 1, "/not/there"),
        (["run", "--image", "ubuntu", "--", "true"], 1, "containers"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else str(v),
)
def test_what_it_does_not_know_is_refused(runtime: Path, words: list[str], status: int, says: str) -> None:
    """A usage error ends with 2, another refusal with 1; each names what it refuses, and starts nothing."""
    done = call(runtime, *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert "session" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--profile", "mi300x", "--num-nodes", "1", "--gpus-per-node", "64", "--", "true"],
        [
            "run",
            "--daemon",
            "--exec-mode",
            "clocked",
            "--plugin",
            "race",
            "--plugin",
            "logging",
            "--",
            "true",
        ],
        ["run", "--nproc_per_node", "1", "--attach", "--", "true"],
        ["run", "--in-process", "--workdir", "/", "--env", "A=b=c", "--", "true"],
        ["--profile", "mi450x", "--", "true"],
        ["-v", "run", "--", "true"],
    ],
    ids=" ".join,
)
def test_what_is_documented_is_taken(runtime: Path, words: list[str]) -> None:
    """Every documented option is accepted, also the bare form, and the workload runs."""
    assert call(runtime, *words).returncode == 0


def test_listings_and_errors_have_a_json_form(runtime: Path) -> None:
    """`--json` lists profiles as JSON on stdout, before or after the verb; an error is one JSON object on stderr."""
    for words in (["--json", "profile", "list"], ["profile", "list", "--json"]):
        assert json.loads(call(runtime, *words).stdout) == ["mi300x", "mi350x", "mi450x"]
    done = call(runtime, "--json", "run", "--profile", "x", "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert "x" in json.loads(done.stderr)["error"]


def test_it_says_that_it_is_a_stand_in(runtime: Path) -> None:
    """Its version says so, and so does a line on stderr and a variable inside."""
    assert "stand-in" in call(runtime, "--version").stdout
    done = call(runtime, "run", "--", "sh", "-c", "cat $HARNESS_MIRAGE_STANDIN")
    assert "stand-in of the harness" in done.stderr
    told = json.loads(done.stdout)
    assert (told["devices"], told["arch"], told["memory_bytes"]) == (1, "gfx950", 288 << 30)


def environment_in(runtime: Path, *words: str, **more: object) -> dict[str, str]:
    """The environment of a workload."""
    done = call(runtime, *words, "--", "env", "-0", **more)
    assert done.returncode == 0, done.stderr
    return dict(v.split("=", 1) for v in done.stdout.split("\0") if "=" in v)


def test_the_workload_is_told_who_it_is(runtime: Path) -> None:
    """Identity is stronger than `--env` and than what is exported, with a warning; tuning gives way to `--env` alone."""
    outer = {"RANK": "5", "NCCL_P2P_DISABLE": "0", "MIRAGE_RANK": "9", "PYTHONPATH": "/mine", "TOKEN": "kept"}
    words = [
        "--env",
        "WORLD_SIZE=7",
        "--env",
        "NCCL_HOSTID=me",
        "--env",
        "HSA_ENABLE_SDMA=0",
        "--env",
        "A=b=c",
    ]
    found = environment_in(runtime, "run", *words, environment=outer)
    own = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MIRAGE_RANK", "MASTER_ADDR", "MIRAGE_HEAD_ADDR")
    assert [found[n] for n in own] == ["0", "0", "1", "0", "127.0.0.1", "127.0.0.1"]
    assert found["MASTER_PORT"] == found["MIRAGE_HEAD_PORT"]
    assert found["NCCL_HOSTID"] != "me"
    assert found["MIRAGE_RUNTIME"] == str(runtime / "mirage")
    assert found["MIRAGE_SESSION"].startswith("s-")
    tuned = {
        "HSA_NO_SCRATCH_RECLAIM": "1",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_IB_DISABLE": "1",
    }
    tuned |= {"NCCL_SOCKET_IFNAME": "lo", "NCCL_CUMEM_ENABLE": "0", "NCCL_MAX_NCHANNELS": "1"}
    assert {k: found[k] for k in tuned} == tuned
    assert (found["HSA_ENABLE_SDMA"], found["A"], found["TOKEN"]) == ("0", "b=c", "kept")
    assert found["PYTHONPATH"].split(":")[1:] == ["/mine"]
    warned = call(runtime, "run", "--env", "RANK=3", "--", "true").stderr
    assert "--env RANK=... is ignored" in warned


def test_the_library_is_in_the_maps(runtime: Path) -> None:
    """The emulator's library is preloaded before the caller's own, and every process of the workload has it mapped."""
    found = environment_in(runtime, "run", environment={"LD_PRELOAD": "libutil.so.1"})
    assert found["LD_PRELOAD"].split(":")[0].endswith("/librocjitsu.so")
    assert found["LD_PRELOAD"].endswith(":libutil.so.1")
    assert found["ROCJITSU_RUNTIME_DIR"] in found["LD_PRELOAD"]
    done = call(runtime, "run", "--", "sh", "-c", "cat /proc/self/maps")
    assert "/librocjitsu.so" in done.stdout


def test_the_renamed_program_sets_its_own_variables(runtime: Path) -> None:
    """As `rocjitsu`, it sets ROCJITSU_ where `mirage` sets MIRAGE_, and speaks under that name."""
    found = environment_in(runtime, "run", program=ROCJITSU)
    assert found["ROCJITSU_RANK"] == "0"
    assert found["ROCJITSU_SESSION"].startswith("s-")
    assert not [name for name in found if name.startswith("MIRAGE_")]
    assert call(runtime, "run", "--", "true", program=ROCJITSU).stderr.startswith("rocjitsu: session s-")


def test_ranks_are_numbered_over_the_nodes(runtime: Path) -> None:
    """Each rank has its number, its place on its node, and a host of its node; lines stand behind the rank's number."""
    told = "echo $RANK $LOCAL_RANK $WORLD_SIZE $MIRAGE_RANK $NCCL_HOSTID; echo warned >&2; printf end"
    words = ["--num-nodes", "2", "--gpus-per-node", "2", "--nproc-per-node", "2"]
    done = call(runtime, "run", *words, "--", "sh", "-c", told)
    assert sorted(done.stdout.splitlines()) == sorted(
        line
        for r in range(4)
        for line in (f"[{r}] {r} {r % 2} 4 {r // 2} mirage-node-{r // 2}", f"[{r}] end")
    )
    assert sorted(line for line in done.stderr.splitlines() if "warned" in line) == [
        f"[{r}] warned" for r in range(4)
    ]


def test_one_process_has_the_streams_to_itself(runtime: Path) -> None:
    """A single process reads the caller's stdin and writes without a prefix; several read nothing and are told so."""
    assert call(runtime, "run", "--", "cat", input="given\n").stdout == "given\n"
    done = call(runtime, "run", "--nproc-per-node", "2", "--gpus-per-node", "2", "--", "cat", input="given\n")
    assert done.stdout == ""
    assert "none of them is given stdin" in done.stderr


@pytest.mark.parametrize(
    ("script", "ranks", "status"),
    [
        ("exit 0", 1, 0),
        ("exit 7", 1, 7),
        ("kill -SEGV $$", 1, 139),
        ("kill -KILL $$", 1, 137),
        ("exit $((RANK * 20))", 3, 40),
        ("exit $((40 - RANK * 20))", 3, 40),
        ("test $RANK = 1 && kill -ABRT $$; exit 3", 2, 134),
    ],
)
def test_it_ends_as_the_workload_does(runtime: Path, script: str, ranks: int, status: int) -> None:
    """The exit status is the workload's, 128 + signal, and of several the one farthest from zero."""
    words = ["--gpus-per-node", str(ranks), "--nproc-per-node", str(ranks)]
    assert call(runtime, "run", *words, "--", "sh", "-c", script).returncode == status


def test_a_rank_that_cannot_start_ends_with_127(runtime: Path) -> None:
    """A program that is not there gives 127, and the line names it."""
    done = call(runtime, "run", "--num-nodes", "2", "--", "/not/there")
    assert done.returncode == 127
    assert "/not/there" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_the_first_signal_is_forwarded(runtime: Path, number: signal.Signals) -> None:
    """The workload gets the very signal, may end as it likes, and the session is torn down."""
    name = number.name.removeprefix("SIG")
    process = start(runtime, "run", "--", "sh", "-c", f"trap 'echo got {name}; exit 5' {name}; {WAIT}")
    until(process, "ready")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == (f"got {name}\n", 5)
    assert "asked the workload to stop" in err


def test_the_second_signal_terminates_and_the_third_kills(runtime: Path) -> None:
    """A workload that ignores the first is terminated by the second; one that ignores this too dies of the third."""
    for ignored, signals, status in (("INT", 2, 143), ("INT TERM", 3, 137)):
        process = start(runtime, "run", "--", "sh", "-c", f"trap '' {ignored}; {WAIT}")
        until(process, "ready")
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        err = process.communicate(timeout=60)[1]
        assert process.returncode == status, err
        assert ("killing the workload outright" in err) == (signals == 3)


def test_usr_signals_are_only_forwarded(runtime: Path) -> None:
    """However many of them come, the workload gets them and the run goes on."""
    script = "n=0; trap 'n=$((n+1)); echo got $n' USR1; trap 'echo bye; exit 4' USR2; " + WAIT
    process = start(runtime, "run", "--", "sh", "-c", script)
    until(process, "ready")
    for n in range(1, 4):
        process.send_signal(signal.SIGUSR1)
        until(process, f"got {n}")
    process.send_signal(signal.SIGUSR2)
    out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("bye\n", 4)
    assert "SIGUSR1: forwarded to the workload" in err


def test_teardown_takes_what_the_workload_left(runtime: Path) -> None:
    """A process that outlives the workload's own ends with the session, and the scratch folder is gone."""
    done = call(
        runtime, "run", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!; echo $ROCJITSU_RUNTIME_DIR"
    )
    pid, folder = done.stdout.split()
    assert not Path(folder).exists()
    wait_until(lambda: gone(int(pid)))


def test_cleanup_removes_what_a_kill_left(runtime: Path) -> None:
    """After SIGKILL, processes, socket and scratch are left; `cleanup` names and removes them, and spares a live session."""
    alive = start(runtime, "run", "--", "sh", "-c", WAIT)
    killed = start(runtime, "run", "--", "sh", "-c", "echo pid $$; exec sleep 600")
    until(alive, "ready")
    assert killed.stdout is not None
    pid = killed.stdout.readline().split()[1]
    killed.kill()
    killed.wait()
    dry = call(runtime, "cleanup", "--dry-run")
    assert f"would kill stranded process {pid} " in dry.stdout
    assert "would remove scratch directory" in dry.stdout
    assert Path(f"/proc/{pid}").exists()
    done = call(runtime, "cleanup")
    told = dry.stdout.replace("would kill", "killed").replace("would remove", "removed")
    assert (done.returncode, done.stdout) == (0, told)
    assert alive.poll() is None
    assert call(runtime, "cleanup").stdout == "nothing to clean up\n"
    alive.terminate()
    alive.wait()
    killed.communicate(timeout=60)  # its pipes close when its workload is gone
    assert call(runtime, "cleanup").stdout == "nothing to clean up\n"


def test_a_long_runtime_folder_is_refused(runtime: Path) -> None:
    """A socket's path has 107 bytes: a longer one ends the run before it starts, and says so."""
    done = call(runtime / ("x" * 100), "run", "--", "true")
    assert done.returncode == 1
    assert "bytes" in done.stderr


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("no-library", "KMD preload library (librocjitsu.so) not found"),
        ("old-library", "cannot host the emulator daemon"),
        ("session", "session failed to start (failed)"),
        ("mismatch", "rj_vm_create_from_string failed"),
        ("nonsense", "no such fault"),
    ],
)
def test_bring_up_fails_as_documented(runtime: Path, fault: str, says: str) -> None:
    """A session that does not come up ends with 1 and the documented text; the workload is not started."""
    done = call(runtime, "run", "--", "echo", "ran", environment={"MIRAGE_STANDIN_FAULT": fault})
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


def test_collectives_fail_as_documented(runtime: Path) -> None:
    """Without the daemon, ranks die in their first collective; two ranks on one device are refused when they join."""
    smoke = [str(Path(MIRAGE).parents[1] / "dist_smoke.py")]
    for words, status, says in (
        (["--in-process", "--gpus-per-node", "2"], 139, ""),
        (["--gpus-per-node", "1"], 1, "Duplicate GPU detected"),
    ):
        done = call(runtime, "run", *words, "--nproc-per-node", "2", "--", sys.executable, *smoke)
        assert done.returncode == status, done.stderr[-2000:]
        assert says in done.stderr


def test_nothing_of_it_is_inherited(runtime: Path) -> None:
    """The variables that tests make for it carry nothing of an emulator around the tests themselves."""
    assert not [k for k in variables(runtime) if k.startswith(("MIRAGE", "ROCJITSU"))]
