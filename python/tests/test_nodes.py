"""Several nodes with look-ahead: a node that dies in mid-epoch costs time, and little of it."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from mounted import Mounted
from node import Node, eventually
from worlds import World

import forebay.torch as fb
from forebay._command import find_command

SAMPLES = 60
SIZE = 100_000
# A member that says nothing for so long is passed over.
SILENCE_S = 0.5
# What a read may take on a loaded machine once its owner is dead: far more than the silence, far
# less than the data set's deadline.
PATIENCE_S = 30.0


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


@dataclass
class Nodes:
    """Daemons on loopback that are members of one job."""

    each: list[Node]
    daemons: list[psutil.Popen]


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setenv("FOREBAY_SECRET", "a secret of this test alone")
    # Little enough that most of an epoch is still to be staged when a node dies.
    monkeypatch.setenv("FOREBAY_LOOK_AHEAD", str(6 * SIZE))
    members = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    started = Nodes([], [])
    for number, member in enumerate(members):
        node = Node(tmp_path / f"cache{number}")
        words = [find_command(), "serve", "--cache", str(node.cache), "--listen", member]
        words += ["--members", ",".join(members), "--exports", str(tmp_path)]
        words += ["--peer-silence-ms", str(int(1000 * SILENCE_S))]
        started.each.append(node)
        started.daemons.append(psutil.Popen(words))
    for node in started.each:
        eventually("it listens", lambda node=node: (node.cache / "daemon.sock").exists())
    yield started
    for daemon in started.daemons:
        if daemon.is_running():
            daemon.kill()
        daemon.wait()


def owner_of(nodes: Nodes, index: Path) -> int:
    """The node that the others ask: so small a data set has one owner."""
    nodes.each[0].open(index, start_daemon=False)[0]
    asked = [each.get("asks", 0) for each in nodes.each[0].status()["members"]]
    return asked.index(max(asked)) if any(asked) else 0


def members_up(node: Node) -> int:
    return sum(each["state"] == "up" for each in node.status()["members"])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_node_that_dies_in_mid_epoch_costs_no_sample_and_little_time(
    tmp_path: Path, nodes: Nodes, how: signal.Signals
) -> None:
    world = World.of_noise(tmp_path / "origin", SAMPLES, SIZE)
    for each in nodes.each:
        eventually("all members are reached", lambda each=each: members_up(each) == 2)
    owner = owner_of(nodes, world.index)
    node = nodes.each[(owner + 1) % 3]
    dataset = node.open(world.index, start_daemon=False)
    sampler = fb.Sampler(dataset, seed=5, rank=0, world_size=1)
    slowest = 0.0
    for taken, index in enumerate(sampler):
        if taken == SAMPLES // 4:
            nodes.daemons[owner].send_signal(how)
        before = time.monotonic()
        read = dataset[index]["data"].tobytes()
        slowest = max(slowest, time.monotonic() - before)
        assert read == world.samples[index]["data"].tobytes()
    assert slowest < PATIENCE_S
    assert node.status()["direct_bytes"] == 0, "the daemon gave it all"
    eventually("the loss is seen", lambda: members_up(node) == 1)
    assert node.status()["stager"]["staged_bytes"] > 0


def test_a_file_system_reads_on_when_the_owner_is_gone(tmp_path: Path, nodes: Nodes) -> None:
    from forebay.fsspec import ForebayFileSystem

    world = World.of_noise(tmp_path / "origin", SAMPLES, SIZE)
    for each in nodes.each:
        eventually("all members are reached", lambda each=each: members_up(each) == 2)
    owner = owner_of(nodes, world.index)
    cache = nodes.each[(owner + 1) % 3].cache
    fs = ForebayFileSystem(world.index, cache=cache, start_daemon=False)
    for number, sample in enumerate(world.samples):
        if number == SAMPLES // 4:
            nodes.daemons[owner].kill()
        assert fs.cat_file(f"{number:04}.bin") == sample["data"].tobytes(), number


def test_a_mount_reads_on_when_the_owner_is_gone(tmp_path: Path, nodes: Nodes) -> None:
    world = World.of_noise(tmp_path / "origin", SAMPLES, SIZE)
    for each in nodes.each:
        eventually("all members are reached", lambda each=each: members_up(each) == 2)
    owner = owner_of(nodes, world.index)
    cache = nodes.each[(owner + 1) % 3].cache
    mounted = Mounted.make(world.index, tmp_path / "mount", cache, "--no-daemon")
    for number, sample in enumerate(world.samples):
        if number == SAMPLES // 4:
            nodes.daemons[owner].kill()
        read = (mounted.root / f"{number:04}.bin").read_bytes()
        assert read == sample["data"].tobytes(), number
    served = mounted.end()
    assert served["failed_reads"] == served["direct_bytes"] == 0
