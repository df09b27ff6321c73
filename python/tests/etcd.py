"""A real etcd, where one is installed."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import slurm
from node import eventually

needed = pytest.mark.skipif(
    shutil.which("etcd") is None, reason="needs an etcd: apt-get install etcd-server"
)


@dataclass
class Etcd:
    """One that runs, over a folder that outlives it."""

    folder: Path
    ports: tuple[int, int]
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.ports[0]}"

    def start(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in self.ports)
        words = ["--data-dir", str(self.folder), "--listen-client-urls", client]
        words += ["--advertise-client-urls", client, "--listen-peer-urls", peer]
        words += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(["etcd", *words], stdout=quiet, stderr=quiet)
        eventually("etcd listens", self._listens)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    @contextmanager
    def silent(self) -> Iterator[None]:
        """It accepts connections and says nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def put(self, key: bytes, value: bytes) -> None:
        self._ask("put", key=key, value=value)

    def keys(self) -> dict[bytes, bytes]:
        """All that is there."""
        found = self._ask("range", key=b"\0", range_end=b"\0").get("kvs", [])
        return {b64decode(pair["key"]): b64decode(pair["value"]) for pair in found}

    def _ask(self, what: str, **fields: bytes) -> Any:
        body = {name: b64encode(value).decode() for name, value in fields.items()}
        asked = urllib.request.Request(
            f"http://{self.endpoint}/v3/kv/{what}", data=json.dumps(body).encode()
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.ports[0])) == 0


@contextmanager
def running(folder: Path) -> Iterator[Etcd]:
    """An etcd for a test."""
    one, other = slurm.free_ports(2)
    etcd = Etcd(folder, (one, other))
    try:
        etcd.start()
        yield etcd
    finally:
        etcd.stop()
