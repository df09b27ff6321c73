"""Four nodes in network namespaces of their own: daemons die and stand still, links go down.

Whatever happens, each client reads the right bytes, meets no error, and goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from node import PATIENCE_S, Node, eventually

import forebay
from forebay._command import find_command

NODES = 4
CLIENTS = 8
# Each file is so long that two do not fit into one region, and so has an owner of its own.
ROWS, USED, ROW = 3200, 256, 64 * 1024
FILES = 6
SILENCE_S = 0.5
# After a fault each client is to have gone on within this: on a quiet machine, as `make soak` is to
# have. Elsewhere only a hang counts.
SOON_S = 2.0


def tool(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=True)


def row_of(file: int, row: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """What a row holds: drawn from its place."""
    return np.random.default_rng(file * ROWS + row).integers(0, 256, ROW, dtype=np.uint8)


def why_not() -> str | None:
    """Why there can be no namespaces here."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [name for name in ("ip", "tc", "nsenter") if shutil.which(name) is None]:
        return f"network namespaces need {', '.join(missing)}: apt-get install iproute2"
    name = f"fb{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"no network namespace can be made here: {made.stderr.strip()}"
    # What the nodes need of the kernel: pairs of devices, and a bridge.
    try:
        tool("ip", "-n", name, "link", "add", "name", "v0", "type", "veth", "peer", "name", "v1")
        tool("ip", "-n", name, "link", "add", "name", "bridge0", "type", "bridge")
    except subprocess.CalledProcessError as error:
        return f"no veth or bridge can be made here: {error.stderr.strip()}"
    finally:
        tool("ip", "netns", "del", name)
    return None


@dataclass
class Network:
    """A namespace for each node, and one with the bridge between them."""

    prefix: str
    made: list[str] = field(default_factory=list)

    def name(self, node: int | str) -> str:
        return f"{self.prefix}n{node}"

    def address(self, node: int) -> str:
        return f"10.77.0.{node + 1}"

    def make(self) -> None:
        for node in [*range(NODES), "hub"]:
            tool("ip", "netns", "add", self.name(node))
            self.made.append(self.name(node))
        hub = self.name("hub")
        tool("ip", "-n", hub, "link", "add", "name", "bridge0", "type", "bridge")
        tool("ip", "-n", hub, "link", "set", "bridge0", "up")
        for node in range(NODES):
            mine = self.name(node)
            tool(
                "ip",
                "-n",
                mine,
                "link",
                "add",
                "name",
                "net0",
                "type",
                "veth",
                "peer",
                "name",
                "peer0",
            )
            tool("ip", "-n", mine, "link", "set", "peer0", "name", f"port{node}", "netns", hub)
            tool("ip", "-n", hub, "link", "set", f"port{node}", "master", "bridge0", "up")
            tool("ip", "-n", mine, "addr", "add", f"{self.address(node)}/24", "dev", "net0")
            tool("ip", "-n", mine, "link", "set", "lo", "up")
            tool("ip", "-n", mine, "link", "set", "net0", "up")
            # A network has a latency; a kernel without this can do without it.
            words = [
                "tc",
                "-n",
                mine,
                "qdisc",
                "add",
                "dev",
                "net0",
                "root",
                "netem",
                "delay",
                "200us",
            ]
            subprocess.run(words, capture_output=True, check=False)

    def set_link(self, node: int, state: str) -> None:
        tool("ip", "-n", self.name(node), "link", "set", "net0", state)

    def remove(self) -> None:
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@dataclass
class Job:
    """The daemons of a job, each in its namespace."""

    network: Network
    folder: Path
    index: Path
    nodes: list[Node]
    daemons: list[psutil.Popen]

    def start(self, node: int) -> None:
        members = [f"{self.network.address(each)}:7420" for each in range(NODES)]
        command = find_command()
        assert command
        words = ["nsenter", f"--net=/run/netns/{self.network.name(node)}", command, "serve"]
        words += ["--cache", str(self.nodes[node].cache), "--listen", members[node]]
        words += ["--members", ",".join(members), "--exports", str(self.folder)]
        # So little that replicas come and go, and there is always something to ask for.
        words += ["--capacity", "24MiB", "--policy", "lru"]
        words += ["--peer-silence-ms", str(int(1000 * SILENCE_S))]
        self.daemons[node] = psutil.Popen(words, stderr=subprocess.DEVNULL)

    def is_linked(self) -> bool:
        try:
            states = [
                sum(member["state"] == "up" for member in node.status()["members"])
                for node in self.nodes
            ]
        except forebay.ForebayError:
            return False
        return states == [NODES - 1] * NODES


def read_on(
    index: Path, cache: Path, seed: int, reads: Synchronized[int], ends: Synchronized[int]
) -> None:
    """A client: reads rows in a random order until it is told to end. Dies of whatever is wrong."""
    draw = random.Random(seed)
    dataset = forebay.open(index, cache=cache, start_daemon=False)
    rows = [file * ROWS + row for file in range(FILES) for row in range(USED)]
    while not ends.value:
        batch = draw.sample(rows, 4)
        for position, sample in zip(batch, dataset.read_batch(batch), strict=True):
            wanted = row_of(position // ROWS, position % ROWS)
            assert np.array_equal(sample["data"], wanted), f"wrong bytes in row {position}"
        reads.value += 1


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    if reason := why_not():
        pytest.skip(reason)
    monkeypatch.setenv("FOREBAY_SECRET", "a secret of this test alone")
    origin = tmp_path / "origin"
    origin.mkdir()
    for file in range(FILES):
        array = np.lib.format.open_memmap(
            origin / f"{file}.npy", mode="w+", dtype=np.uint8, shape=(ROWS, ROW)
        )
        for row in range(USED):
            array[row] = row_of(file, row)
        array.flush()
    index = tmp_path / "index.forebay"
    forebay.index(origin, index, sample="rows")
    network = Network(f"fb{os.getpid()}")
    nodes = [Node(tmp_path / f"cache{node}") for node in range(NODES)]
    made = Job(network, tmp_path, index, nodes, [None] * NODES)
    try:
        network.make()
        for node in range(NODES):
            made.start(node)
        eventually("all nodes are linked", made.is_linked)
        yield made
    finally:
        for daemon in made.daemons:
            if daemon is not None:
                daemon.kill()
                daemon.wait()
        network.remove()


def strike(job: Job, kind: str, node: int) -> None:
    if kind == "kill":
        job.daemons[node].kill()
        job.daemons[node].wait()
    elif kind == "stop":
        job.daemons[node].send_signal(signal.SIGSTOP)
    else:
        job.network.set_link(node, "down")


def mend(job: Job, kind: str, node: int) -> None:
    if kind == "kill":
        job.start(node)
    elif kind == "stop":
        job.daemons[node].send_signal(signal.SIGCONT)
    else:
        job.network.set_link(node, "up")


def play(job: Job, rounds: int, soon_s: float) -> float:
    """Strikes so many times while clients read; returns the longest that one was held up."""
    context = multiprocessing.get_context("spawn")
    ends = context.Value("i", 0)
    reads = [context.Value("q", 0) for _ in range(CLIENTS)]
    clients = [
        context.Process(
            target=read_on,
            args=(job.index, job.nodes[client % NODES].cache, client, reads[client], ends),
        )
        for client in range(CLIENTS)
    ]
    draw = random.Random(7)
    slowest = 0.0
    for client in clients:
        client.start()
    try:
        eventually(
            "all clients read or one has died",
            lambda: (
                all(count.value > 2 for count in reads)
                or not all(client.is_alive() for client in clients)
            ),
        )
        for number in range(rounds):
            kind = ("kill", "stop", "down")[number % 3]
            node = draw.randrange(NODES)
            strike(job, kind, node)
            before, since = [count.value for count in reads], time.monotonic()
            # A client finds out about its own node's daemon that stands still after some 3 s, and
            # then reads the origin.
            own_s = 5.0 if kind == "stop" else 0.0
            waiting = set(range(CLIENTS))
            while waiting:
                for client in list(waiting):
                    assert clients[client].is_alive(), f"a client died in round {number}, {kind}"
                    # The one that was under way and one more.
                    if reads[client].value < before[client] + 2:
                        continue
                    waiting.discard(client)
                    if not (own_s and client % NODES == node):
                        slowest = max(slowest, time.monotonic() - since)
                waited = time.monotonic() - since
                assert waited < soon_s + own_s, f"round {number}, {kind} {node}: {waiting} wait"
                time.sleep(0.005)
            mend(job, kind, node)
            eventually("all nodes are linked again", job.is_linked)
    finally:
        ends.value = 1
        for client in clients:
            client.join(PATIENCE_S)
            client.kill()
    assert [client.exitcode for client in clients] == [0] * CLIENTS
    return slowest


def test_nodes_that_die_stand_still_or_lose_their_link_cost_no_byte_and_no_error(job: Job) -> None:
    play(job, 3, PATIENCE_S)
    received = [
        member.get("received_bytes", 0) for node in job.nodes for member in node.status()["members"]
    ]
    assert sum(received) > 0, "nodes gave each other something"


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_hundred_faults_hold_no_client_up_for_long(job: Job) -> None:
    slowest = play(job, 200, SOON_S)
    print(f"held up for {slowest:.2f} s at most")
