"""Samples that lie on other nodes: several daemons of one job on this machine, over TCP on loopback.

Each sample is resident at its owner and not where it is read, and is read there once: its replica
would be read the next time. The bare side asks a process for as many bytes of a file by a request
of 16 bytes over one connection, and gets them by `sendfile`.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import forebay
from bench import data
from bench.bare import Bare, connect, read_bare
from bench.rounds import Floats, alternate, centre, rounds_with_warm_up
from bench.row import Row
from bench.scene import served
from bench.setting import Setting

_TREE = Path(__file__).absolute().parent.parent
CLIENTS = 8
_BATCH = 64
_OWNERS = 3
_PATIENCE = 60.0


@dataclass(frozen=True)
class Job:
    """The caches of the nodes of a job, and the index that all have open."""

    caches: list[Path]
    index: Path

    def open(self, node: int) -> forebay.Dataset:
        """The data set as a client of a node has it."""
        return forebay.open(self.index, cache=self.caches[node], start_daemon=False)

    def asks(self, node: int) -> list[int]:
        """Requests that a node has sent to each member."""
        members = forebay.status(self.caches[node])["members"]
        return [member.get("asks", 0) for member in members]


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


@contextmanager
def running_job(folder: Path, index: Path, nodes: int, transport: str = "tcp") -> Iterator[Job]:
    """Daemons of so many nodes that are linked to each other."""
    secret = folder / "secret"
    secret.touch(0o600)
    secret.write_text(secrets.token_hex(16))
    members = [f"127.0.0.1:{_free_port()}" for _ in range(nodes)]
    job = Job([folder / f"cache{node}" for node in range(nodes)], index)
    with ExitStack() as daemons:
        for cache, member in zip(job.caches, members, strict=True):
            settings = {"members": ",".join(members), "listen": member, "secret-file": secret}
            # A node whose processor is busy with the other side is not to be given up.
            settings |= {"exports": folder, "peer-silence-ms": 60_000, "hedged-reads": 0}
            settings |= {"transport": transport}
            daemons.enter_context(served(cache, settings))
        deadline = time.monotonic() + _PATIENCE
        while any(_links(cache, transport) < nodes - 1 for cache in job.caches):
            if time.monotonic() > deadline:
                raise TimeoutError("the nodes of the job are not linked")
            time.sleep(0.01)
        yield job


def _links(cache: Path, transport: str) -> int:
    members = forebay.status(cache)["members"]
    if transport != "tcp":
        return sum((member.get("fabric") or {}).get("open", False) for member in members)
    return sum(member["state"] == "up" for member in members)


@contextmanager
def pair(
    setting: Setting, name: str, count: int, transport: str = "tcp"
) -> Iterator[tuple[Job, int, Path]]:
    """Two nodes, the one of them that owns nothing, and a file of all samples' bytes."""
    folder = setting.folder / name
    folder.mkdir()
    origin, index = folder / "rows.h5", folder / "rows.forebay"
    data.write_rows(origin, count + 1, data.SAMPLE_BYTES, setting.seed)
    forebay.index(origin, index, sample="rows")
    with running_job(folder, index, 2, transport) as job:
        # So small a data set has one owner: the one that the other asks.
        for node in range(2):
            job.open(node).stage([count])
        reader = 0 if any(job.asks(0)) else 1
        if not job.open(1 - reader).stage(range(count)):
            raise RuntimeError("the owner has no room")
        yield job, reader, origin


def measure_sample(setting: Setting) -> list[Row]:
    """The row `remote_sample`."""
    rounds = setting.size(400, 6)
    count = rounds_with_warm_up(rounds)
    with pair(setting, "remote-one", count) as (job, reader, origin), Bare(origin) as bare:
        dataset = job.open(reader)
        out = data.buffer(dataset.layout(0)[0])
        space = memoryview(data.buffer(data.SAMPLE_BYTES))
        order = setting.random.permutation(count).tolist()

        def subject(number: int) -> None:
            dataset.read_into(order[number], out)

        def baseline(number: int) -> None:
            bare.read(order[number] * data.SAMPLE_BYTES, space)

        # The daemon writes behind its reply: not while the other side is timed.
        found = setting.arriving(subject, baseline, rounds, rest_s=0.001)
        status = forebay.status(job.caches[reader])
    ratio, spread = centre(found.subject / (found.baseline + found.ping_pong))
    return [
        Row(
            name="remote_sample",
            ratio=ratio,
            target=2.0,
            n=rounds,
            baseline="request and sendfile of the same bytes over TCP, and one local ping-pong",
            spread=spread,
            conditions=found.conditions(
                sample_bytes=data.SAMPLE_BYTES,
                peer_blocks=status["metrics"]["peer_blocks"],
                origin_reads=status["metrics"]["origin_reads"],
                order="random, each sample once",
            ),
        )
    ]


def measure_clients(setting: Setting) -> list[Row]:
    """The row `remote_clients`."""
    each = setting.size(100, 4)
    rounds = setting.size(5, 1)
    count = CLIENTS * each * rounds
    with pair(setting, "remote-eight", count) as (job, reader, origin), Bare(origin) as bare:
        ours: list[object] = ["read", job.index, job.caches[reader]]
        theirs: list[object] = ["bare", bare.port, data.SAMPLE_BYTES]
        seconds = in_turn(setting, ours, theirs, rounds, each)
        status = forebay.status(job.caches[reader])
    ratio, spread = centre(seconds[:, 1] / seconds[:, 0])
    return [
        Row(
            name="remote_clients",
            ratio=ratio,
            target=0.5,
            better="higher",
            n=rounds,
            baseline=f"{CLIENTS} processes that ask a bare server over a connection each",
            spread=spread,
            conditions={
                "clients": CLIENTS,
                "samples_a_client": each,
                "sample_bytes": data.SAMPLE_BYTES,
                "peer_blocks": status["metrics"]["peer_blocks"],
                "cpus": os.cpu_count(),
                "load_average": round(os.getloadavg()[0], 1),
            },
        )
    ]


def in_turn(
    setting: Setting, ours: list[object], theirs: list[object], rounds: int, each: int
) -> Floats:
    """Seconds that clients of either side take for each round's samples.

    The side that goes first finds other caches of the processor: they take turns in it.
    """
    seconds = np.zeros((rounds, 2))
    for number in range(rounds):
        sides = [(0, ours), (1, theirs)]
        for side, words in sides if number % 2 == 0 else reversed(sides):
            setting.memory.renew()
            seconds[number, side] = _all_at_once(words, number * CLIENTS * each, each)
    return seconds


def _all_at_once(words: list[object], first: int, each: int) -> float:
    """Seconds until the slowest of eight clients is done that begin together."""
    clients = []
    for client in range(CLIENTS):
        line = [sys.executable, "-m", "bench.remote", *words, first + client * each, each]
        clients.append(
            subprocess.Popen(
                [str(word) for word in line],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=_TREE,
            )
        )
    try:
        for client in clients:
            assert client.stdout and client.stdout.readline() == "ready\n"
        for client in clients:
            assert client.stdin
            client.stdin.write("\n")
            client.stdin.flush()
        return max(float(client.stdout.readline()) for client in clients if client.stdout)
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def index_of_holes(folder: Path, files: int, rows: int) -> Path:
    """An index of files that take no room: their bytes are zeros, which travel as any others do."""
    for file in range(files):
        data.sparse_rows(folder / f"{file:02}.h5", rows, data.SAMPLE_BYTES)
    index = folder / "rows.forebay"
    forebay.index(sorted(folder.glob("*.h5")), index, sample="rows")
    return index


def measure_batch(setting: Setting) -> list[Row]:
    """The row `remote_batch`."""
    folder = setting.folder / "remote-batch"
    folder.mkdir()
    # So many that nobody is without one: a node owns its share of them and a twelfth, at most.
    files, rows = 24, 700
    index = index_of_holes(folder, files, rows)
    rounds = setting.size(10, 2)
    with running_job(folder, index, _OWNERS + 1) as job:
        dataset = job.open(0)
        owners = _owners(job, dataset, files, rows)
        if len(owners) < _OWNERS:
            raise RuntimeError(f"{len(owners)} members own files, {_OWNERS} are needed")
        total = rounds_with_warm_up(rounds)
        # Of one file of each owner, in turn.
        samples = [
            file * rows + 1 + number
            for number in range(2 * total * -(-_BATCH // _OWNERS))
            for file in owners.values()
        ]
        for member, file in owners.items():
            of_file = [sample for sample in samples if sample // rows == file]
            job.open(member).stage(of_file)
        ours, theirs = samples[0::2], samples[1::2]
        size = dataset.batch_layout(ours[:_BATCH])[0]
        out, one = data.buffer(size), data.buffer(dataset.layout(0)[0])

        def subject(number: int) -> None:
            dataset.read_batch_into(ours[number * _BATCH : (number + 1) * _BATCH], out)

        def baseline(number: int) -> None:
            for sample in theirs[number * _BATCH : (number + 1) * _BATCH]:
                dataset.read_into(sample, one)

        # The daemon writes behind its reply: not while the other side is timed.
        found = setting.arriving(subject, baseline, rounds, rest_s=0.001)
    ratio, spread = centre(found.baseline / found.subject)
    return [
        Row(
            name="remote_batch",
            ratio=ratio,
            target=3.0,
            better="higher",
            n=rounds,
            baseline=f"{_BATCH} single reads of such samples",
            spread=spread,
            conditions=found.conditions(
                batch=_BATCH, owners=_OWNERS, sample_bytes=data.SAMPLE_BYTES
            ),
        )
    ]


def _owners(job: Job, dataset: forebay.Dataset, files: int, rows: int) -> dict[int, int]:
    """For members that own a file as seen from node 0, one of their files."""
    owners: dict[int, int] = {}
    for file in range(files):
        before = job.asks(0)
        dataset.stage([file * rows])
        grown = [after > old for after, old in zip(job.asks(0), before, strict=True)]
        if any(grown):
            owners.setdefault(grown.index(True), file)
    return owners


def measure_replicas(setting: Setting) -> list[Row]:
    """The row `replica_epoch`."""
    count = setting.size(200, 8)
    rounds = setting.size(400, 6)
    with pair(setting, "replicas", count) as (job, reader, _):
        replicas, owned = job.open(reader), job.open(1 - reader)
        # The first epoch.
        if not replicas.stage(range(count)):
            raise RuntimeError("there is no room for replicas")
        out = data.buffer(replicas.layout(0)[0])
        total = rounds_with_warm_up(rounds)
        ours, theirs = (setting.orders(total, 1, count) for _ in range(2))

        def subject(number: int) -> None:
            replicas.read_into(ours[number][0], out)

        def baseline(number: int) -> None:
            owned.read_into(theirs[number][0], out)

        found = alternate(subject, baseline, rounds=rounds, units=1, ping_pong=setting.ping_pong)
    ratio, spread = centre(found.subject / found.baseline)
    return [
        Row(
            name="replica_epoch",
            ratio=ratio,
            target=1.1,
            n=rounds,
            baseline="the same read on the node that owns the sample",
            spread=spread,
            conditions=found.conditions(sample_bytes=data.SAMPLE_BYTES, samples=count),
        )
    ]


def client(words: list[str]) -> None:
    """Get ready, begin when told, and say how long it took."""
    kind, where, how, first, each = words
    samples = range(int(first), int(first) + int(each))
    if kind == "read":
        dataset = forebay.open(where, cache=how, start_daemon=False)
        out = data.buffer(dataset.layout(0)[0])

        def read(sample: int) -> None:
            dataset.read_into(sample, out)
    else:
        link, size = connect(int(where)), int(how)
        space = memoryview(data.buffer(size))

        def read(sample: int) -> None:
            read_bare(link, sample * size, space)

    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    for sample in samples:
        read(sample)
    print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    client(sys.argv[1:])
