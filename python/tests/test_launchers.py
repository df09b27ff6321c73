"""`forebay run` under real launchers, where they are installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import slurm
from node import Node
from test_run import RANK
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


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs openmpi-bin of Debian")
def test_ranks_of_mpirun_share_a_daemon(tmp_path: Path) -> None:
    world = World.of_noise(tmp_path / "origin", files=FILES, size=SIZE)
    node = Node(tmp_path / "cache")
    program = find_command()
    assert program is not None
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    line = ["mpirun", "--oversubscribe", "-n", "3", program, "run", "--cache", str(node.cache)]
    done = subprocess.run(
        [*line, "--", sys.executable, "-c", RANK, str(world.index)],
        env={**os.environ, **as_root},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ranks = said_by(done.stdout)
    assert len(ranks) == 3
    assert all(rank["read"] == ranks[0]["read"] for rank in ranks)
    assert all(rank["members"] is None for rank in ranks)
    assert max(rank["metrics"]["origin_bytes"] for rank in ranks) == FILES * SIZE  # type: ignore[index]
    assert node.daemons() == []
