"""`forebay run`: a daemon on each node of a job, for as long as its commands run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from node import Node, eventually
from tier import command
from worlds import World

from forebay._command import find_command

# What a rank does: reads all, and says who gave it.
RANK = """
import json, os, sys
import forebay
dataset = forebay.open(sys.argv[1], start_daemon=False)
read = [int(dataset[number]["data"].sum()) for number in range(len(dataset))]
status = forebay.status()
print(json.dumps({"read": read, "members": status["members"], "metrics": status["metrics"]}))
"""


def start(node: int, cache: Path, index: Path, *flags: object) -> subprocess.Popen[str]:
    """One process of a job of two nodes, as torchrun starts it."""
    program = find_command()
    assert program is not None
    job = {"TORCHELASTIC_RUN_ID": "test", "GROUP_WORLD_SIZE": "2", "GROUP_RANK": str(node)}
    # No node is given up for having to wait for its turn on a loaded machine.
    job |= {"FOREBAY_PEER_SILENCE_MS": "60000", "FOREBAY_HEDGED_READS": "0"}
    line = [program, "run", "--cache", cache, "--capacity", "1GiB", "--host", "127.0.0.1", *flags]
    return subprocess.Popen(
        [*map(str, line), "--", sys.executable, "-c", RANK, str(index)],
        env={**os.environ, **job},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)  # type: ignore[no-any-return]


def test_a_job_of_two_nodes_reads_the_origin_once(tmp_path: Path) -> None:
    world = World.of_noise(tmp_path / "origin", files=6, size=300_000)
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    caches = [tmp_path / "a", tmp_path / "b"]
    flags = ("--members", f"file:{meeting}", "--exports", tmp_path)
    ranks = [start(node, caches[node], world.index, *flags) for node in (0, 1) for _local in (0, 1)]
    said = [ended(rank) for rank in ranks]
    assert all(rank["read"] == said[0]["read"] for rank in said)
    for rank in said:
        states = sorted(member["state"] for member in rank["members"])
        assert states == ["this node", "up"]
    # The last word of each node: one owns all of so small a data set, and the other none of it.
    origin = [max(said[at]["metrics"]["origin_bytes"] for at in pair) for pair in ((0, 1), (2, 3))]
    assert sorted(origin) == [0, 6 * 300_000]
    assert not any(Node(cache).daemons() for cache in caches), "they ended with the job"
    assert list(meeting.iterdir()) == []


def test_a_node_that_does_not_come_is_told(tmp_path: Path, world: World) -> None:
    flags = ("--members", f"file:{tmp_path}/meeting", "--wait", "1")
    alone = start(0, tmp_path / "a", world.index, *flags)
    out, err = alone.communicate(timeout=120)
    assert (alone.returncode, out) == (1, "")
    assert "only 1 of 2 nodes came" in err
    assert list((tmp_path / "meeting").iterdir()) == []


def test_alone_it_is_a_daemon_for_the_time_of_the_command(node: Node) -> None:
    look = "import os, forebay; print(os.environ['FOREBAY_CACHE'], forebay.status()['members'])"
    done = command("run", "--cache", node.cache, "--", sys.executable, "-c", look)
    assert (done.returncode, done.stdout) == (0, f"{node.cache} None\n"), done.stderr
    assert node.daemons() == []


def test_a_client_from_elsewhere_does_not_hold_up_the_end(
    node: Node, world: World, tmp_path: Path
) -> None:
    program = find_command()
    assert program is not None
    begun, end = tmp_path / "begun", tmp_path / "end"
    script = f"touch {begun}; while [ ! -e {end} ]; do sleep 0.05; done"
    running = subprocess.Popen(
        [program, "run", "--cache", str(node.cache), "--", "sh", "-c", script]
    )
    eventually("the command runs", begun.exists)
    dataset = node.open(world.index, start_daemon=False)
    world.read_by(dataset)
    end.touch()
    assert running.wait(120) == 0
    assert node.daemons() == []
    world.read_by(dataset)


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -KILL $$", 137)])
def test_it_ends_as_the_command_ends(node: Node, script: str, code: int) -> None:
    done = command("run", "--cache", node.cache, "--", "sh", "-c", script)
    assert done.returncode == code, done.stderr
    assert node.daemons() == []


def test_a_command_that_is_not_there_is_named_and_leaves_no_daemon(node: Node) -> None:
    done = command("run", "--cache", node.cache, "--", "no-such-command")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot run `no-such-command`")
    assert node.daemons() == []


def test_a_signal_reaches_the_command(node: Node, tmp_path: Path) -> None:
    program = find_command()
    assert program is not None
    mark = tmp_path / "running"
    script = f"trap 'exit 9' TERM; touch {mark}; while :; do sleep 0.05; done"
    line = [program, "run", "--cache", str(node.cache), "--", "sh", "-c", script]
    running = subprocess.Popen(line)
    eventually("the command runs", mark.exists)
    running.send_signal(signal.SIGTERM)
    assert running.wait(120) == 9
    assert node.daemons() == []


def test_a_daemon_ends_with_a_run_that_is_killed(node: Node, tmp_path: Path) -> None:
    program = find_command()
    assert program is not None
    mark = tmp_path / "running"
    line = [program, "run", "--cache", str(node.cache), "--", "sh", "-c"]
    running = subprocess.Popen([*line, f"touch {mark}; exec sleep 600"])
    eventually("the command runs", mark.exists)
    left = psutil.Process(running.pid).children(recursive=True)
    running.kill()
    running.wait()
    eventually("the daemon ends", lambda: not node.daemons())
    for process in left:
        if process.is_running():
            process.kill()


def test_several_nodes_need_a_secret_and_a_way_to_meet(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURM_NODEID", "0")
    done = command("run", "--cache", node.cache, "--", "true")
    assert done.returncode == 2
    assert "several nodes need a secret" in done.stderr
    assert "--secret-file" in done.stderr
    monkeypatch.delenv("SLURM_JOB_ID")
    monkeypatch.setenv("FLUX_JOB_ID", "f1")
    monkeypatch.setenv("FLUX_JOB_NNODES", "2")
    done = command("run", "--cache", node.cache, "--", "true")
    assert done.returncode == 2
    assert "Flux does not name the nodes" in done.stderr
    assert "file:DIR" in done.stderr
    done = command("run", "--cache", node.cache, "--members", "slurm", "--", "true")
    assert (done.returncode, "SLURM_JOB_ID" in done.stderr) == (2, True)
