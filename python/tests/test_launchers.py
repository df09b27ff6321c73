"""`forebay run` under real launchers, where they are installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import etcd
import pytest
import slurm
from node import Node
from test_run import RANK, ended, start
from tier import command
from worlds import World

from forebay._command import find_command

FILES, SIZE = 6, 300_000


def said_by(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


@pytest.mark.skipif(not slurm.is_here(), reason="needs root, and slurm-wlm and munge of Debian")
def test_two_nodes_of_slurm_read_the_origin_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World.of_noise(tmp_path / "origin", files=FILES, size=SIZE)
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    monkeypatch.setenv("FOREBAY_PEER_SILENCE_MS", "60000")
    monkeypatch.setenv("FOREBAY_HEDGED_READS", "0")
    program = find_command()
    # Both nodes are this machine, so each needs a cache of its own, and their names no one knows.
    line = (
        f"exec {program} run --cache {tmp_path}/$SLURMD_NODENAME --capacity 1GiB"
        f" --host 127.0.0.1 --members file:{meeting} --exports {tmp_path}"
        f' -- {sys.executable} -c "$RANK" {world.index}'
    )
    monkeypatch.setenv("RANK", RANK)
    with slurm.started(tmp_path / "slurm", nodes=2) as cluster:
        done = cluster.run("srun", "-N2", "--ntasks-per-node=2", "sh", "-c", line)
    assert done.returncode == 0, done.stderr
    ranks = said_by(done.stdout)
    assert len(ranks) == 4, done.stdout
    assert all(rank["read"] == ranks[0]["read"] for rank in ranks)
    origin = {rank["metrics"]["origin_bytes"] for rank in ranks}  # type: ignore[index]
    assert max(origin) == FILES * SIZE, "one owns all of so small a data set"
    assert 0 in origin, "and the other none of it"
    assert not any(Node(tmp_path / name).daemons() for name in ("n0", "n1"))
    assert list(meeting.iterdir()) == []


def mpirun(ranks: int, *words: object) -> subprocess.CompletedProcess[str]:
    """Runs so many ranks of a command to their end."""
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run(
        ["mpirun", "--oversubscribe", "-n", str(ranks), *map(str, words)],
        env={**os.environ, **as_root},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs openmpi-bin of Debian")
def test_ranks_of_mpirun_share_a_daemon(tmp_path: Path) -> None:
    world = World.of_noise(tmp_path / "origin", files=FILES, size=SIZE)
    node = Node(tmp_path / "cache")
    program = find_command()
    assert program is not None
    line = [program, "run", "--cache", node.cache, "--", sys.executable, "-c", RANK, world.index]
    done = mpirun(3, *line)
    assert done.returncode == 0, done.stderr
    ranks = said_by(done.stdout)
    assert len(ranks) == 3
    assert all(rank["read"] == ranks[0]["read"] for rank in ranks)
    assert all(rank["members"] is None for rank in ranks)
    assert max(rank["metrics"]["origin_bytes"] for rank in ranks) == FILES * SIZE  # type: ignore[index]
    assert node.daemons() == []


@etcd.needed
def test_nodes_meet_in_an_etcd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.of_noise(tmp_path / "origin", files=FILES, size=SIZE)
    monkeypatch.setenv("FOREBAY_SECRET", "a secret of this test")
    caches = [tmp_path / "a", tmp_path / "b"]
    with etcd.running(tmp_path / "etcd") as place:
        flags = ("--members", f"etcd://{place.endpoint}/test", "--exports", tmp_path)
        ranks = [start(node, caches[node], world.index, *flags) for node in (0, 1)]
        said = [ended(rank) for rank in ranks]
    assert said[0]["read"] == said[1]["read"]
    assert sum(rank["metrics"]["origin_bytes"] for rank in said) == FILES * SIZE
    for rank in said:
        states = sorted(member["state"] for member in rank["members"])
        assert states == ["this node", "up"]
    assert not any(Node(cache).daemons() for cache in caches)


def test_an_etcd_that_is_not_there_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_SECRET", "a secret of this test")
    (port,) = slurm.free_ports(1)
    flags = ("--members", f"etcd://127.0.0.1:{port}", "--nodes", "2", "--host", "127.0.0.1")
    done = command("run", "--cache", node.cache, *flags, "--", "true")
    assert done.returncode == 1
    assert f"cannot use etcd at `127.0.0.1:{port}`" in done.stderr


def sweep_words(folder: Path) -> list[str]:
    """A sweep of two epochs over tiers of its own, which leaves `sweep.jsonl` there."""
    for tier in ("gfs", "lfs"):
        (folder / tier).mkdir()
    words = ["--gfs", folder / "gfs", "--lfs", folder / "lfs", "--output", folder / "sweep.jsonl"]
    words += ["--set", "small:8:2KiB", "--epochs", "2", "--rates", "50", "--compute-ms", "1"]
    return [find_command() or "forebay", "tiers", "sweep", *map(str, words)]


def processes_in(records: Path) -> set[str]:
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    return {line["process"] for line in lines if "process" in line}


@pytest.mark.skipif(not slurm.is_here(), reason="needs root, and slurm-wlm and munge of Debian")
def test_tasks_of_slurm_are_the_processes_of_a_sweep(tmp_path: Path) -> None:
    words = sweep_words(tmp_path)
    with slurm.started(tmp_path / "slurm", nodes=2) as cluster:
        done = cluster.run("srun", "-N2", "--ntasks-per-node=2", *words)
    assert done.returncode == 0, done.stderr
    assert processes_in(tmp_path / "sweep.jsonl") == {f"rank {rank}" for rank in range(4)}


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs openmpi-bin of Debian")
def test_ranks_of_mpirun_are_the_processes_of_a_sweep(tmp_path: Path) -> None:
    done = mpirun(3, *sweep_words(tmp_path))
    assert done.returncode == 0, done.stderr
    assert processes_in(tmp_path / "sweep.jsonl") == {f"rank {rank}" for rank in range(3)}


def bench_words(folder: Path) -> list[str]:
    """Two benchmarks in turn; their ranks leave manifests in `out`."""
    (folder / "data").mkdir()
    words = ["create_files", "md5_check", "--num-copies", "10", "--iterations", "2"]
    where = ["--dataset-path", folder / "data", "--output-dir", folder / "out"]
    return [find_command() or "forebay", "bench", "run", *words, *map(str, where)]


def both_ranks_passed(folder: Path, progress: str) -> None:
    runs = {path.name for path in (folder / "out").iterdir()}
    assert {line["run_id"] for line in said_by(progress)} == runs
    for benchmark in ("create_files", "md5_check"):
        (of_run,) = (folder / "out").glob(f"{benchmark}-*")
        ranks = [json.loads(path.read_text()) for path in sorted(of_run.glob("rank-*.json"))]
        assert [(one["dist"]["rank"], one["dist"]["world_size"]) for one in ranks] == [
            (0, 2),
            (1, 2),
        ]
        for one in ranks:
            assert one["status"] == "pass", one["error"]
            assert one["timing"]["gang_start"]["count"] == 1
            assert one["timing"]["barrier_wait"]["count"] == 2
    assert list((folder / "data").iterdir()) == [], "the work folders are gone"


@pytest.mark.skipif(not slurm.is_here(), reason="needs root, and slurm-wlm and munge of Debian")
def test_ranks_of_slurm_run_a_benchmark_together(tmp_path: Path) -> None:
    words = bench_words(tmp_path)
    with slurm.started(tmp_path / "slurm", nodes=2) as cluster:
        # The names of the nodes are known to nobody here. Of the ports each benchmark takes one.
        cluster.environment["MASTER_ADDR"] = "127.0.0.1"
        cluster.environment["MASTER_PORT"] = str(slurm.free_ports(4)[0])
        line = ["srun", "-N2", "--ntasks-per-node=1", *words, "--launcher", "slurm"]
        done = cluster.run(*line)
    assert done.returncode == 0, done.stderr
    both_ranks_passed(tmp_path, done.stderr)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs openmpi-bin of Debian")
def test_ranks_of_mpirun_run_a_benchmark_together(tmp_path: Path) -> None:
    meeting = f"file:{tmp_path / 'meeting'}"
    words = [*bench_words(tmp_path), "--launcher", "mpi", "--dist-init", meeting]
    done = mpirun(2, *words)
    assert done.returncode == 0, done.stderr
    both_ranks_passed(tmp_path, done.stderr)
