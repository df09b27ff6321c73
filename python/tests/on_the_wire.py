"""Watches the loopback of a network namespace of its own while something sends there.

Run as `unshare --net python on_the_wire.py WHAT FOLDER`; prints, as JSON, the code points of the TCP
packets with data by direction: `{"to 7000": [8], "from 7000": [8]}`, the port being the server's.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import forebay
from forebay._command import find_command
from forebay.fabric import data
from forebay.fabric.web import WebSource

DSCP = 10
# Ports below are servers'; the kernel gives clients higher ones.
SERVERS = range(7000, 7100)
_ALL = 0x0003


class Capture:
    """Every TCP packet of the loopback, while it is entered."""

    def __init__(self) -> None:
        self.seen: dict[str, set[int]] = defaultdict(set)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.2)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Capture:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ends.is_set():
            try:
                packet = self._socket.recv(1 << 17)
            except TimeoutError:
                continue
            self._note(packet)

    def _note(self, packet: bytes) -> None:
        (kind,) = struct.unpack_from("!H", packet, 12)
        network = packet[14:]
        if kind == 0x0800 and network[9] == socket.IPPROTO_TCP:
            tos, segment = network[1], network[4 * (network[0] & 0xF) :]
        elif kind == 0x86DD and network[6] == socket.IPPROTO_TCP:
            tos, segment = (network[0] & 0xF) << 4 | network[1] >> 4, network[40:]
        else:
            return
        sender, receiver = struct.unpack_from("!HH", segment)
        has_data = len(segment) > 4 * (segment[12] >> 4)
        if has_data and receiver in SERVERS:
            self.seen[f"to {receiver}"].add(tos >> 2)
        if has_data and sender in SERVERS:
            self.seen[f"from {sender}"].add(tos >> 2)


class Ranges(BaseHTTPRequestHandler):
    """Parts of the files of the working folder."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        content = Path(self.path.lstrip("/")).read_bytes()
        start, end = 0, len(content)
        asked = self.headers.get("Range")
        if asked:
            first, last = asked.removeprefix("bytes=").split("-")
            start, end = int(first), min(int(last) + 1, end)
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.send_header("Content-Length", str(end - start))
        self.send_header("ETag", f'"{len(content)}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[start:end])

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """At an address of either family."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Ranges)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def direct() -> None:
    """The study's own reads, by both families."""
    for host, port in (("127.0.0.1", 7004), ("[::1]", 7006)):
        WebSource(f"http://{host}:{port}", DSCP, 20).read_batch([0, 1])


def staged(folder: Path) -> None:
    """A daemon's reads of web servers, by both families."""
    program = find_command()
    assert program is not None
    for host, port in (("127.0.0.1", 7004), ("[::1]", 7006)):
        index, cache = folder / f"{port}.forebay", folder / f"cache-{port}"
        # Indexing is another process, whose packets are not looked at: another port.
        url = f"http://{host}:{port + 1}/shard_0000.npz"
        forebay.index(url, index, sample="rows")
        words = ["serve", "--cache", str(cache), "--dscp", str(DSCP), "--capacity", "64 MB"]
        daemon = subprocess.Popen([program, *words], stderr=subprocess.DEVNULL)
        try:
            while not (cache / "daemon.sock").exists():
                time.sleep(0.02)
            root = f"http://{host}:{port}"
            dataset = forebay.open(index, root=root, cache=cache, start_daemon=False)
            found = dataset.read_batch([0, 1])
            raw, _ = data.sample(1, 7)
            assert (found[1]["raw"] == raw).all()
        finally:
            daemon.terminate()
            daemon.wait()


def members(folder: Path) -> None:
    """Two daemons of a job, by both families."""
    program = find_command()
    assert program is not None
    env = {**os.environ, "FOREBAY_SECRET": "a secret of this test"}
    for host, port in (("127.0.0.1", 7010), ("[::1]", 7020)):
        names = [f"{host}:{port}", f"{host}:{port + 1}"]
        daemons = []
        for name in names:
            cache = folder / f"cache-{name.rpartition(':')[2]}"
            words = ["serve", "--cache", str(cache), "--members", ",".join(names)]
            words += ["--listen", name, "--dscp", str(DSCP), "--capacity", "64 MB"]
            process = subprocess.Popen([program, *words], env=env, stderr=subprocess.DEVNULL)
            daemons.append((cache, process))
        try:
            while not all(is_joined(cache) for cache, _ in daemons):
                time.sleep(0.05)
        finally:
            for _, process in daemons:
                process.terminate()
                process.wait()


def is_joined(cache: Path) -> bool:
    """Whether a daemon has found the other one."""
    try:
        found = forebay.status(cache)["members"]
    except forebay.UnavailableError:
        return False
    return any(member["state"] == "up" for member in found)


WAYS = {"direct": lambda _: direct(), "staged": staged, "members": members}


def main(what: str, folder: Path) -> None:
    """Serve, watch, read, and print."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("/proc/sys/net/ipv4/tcp_reflect_tos").write_text("1")
    os.chdir(folder / "samples")
    servers = [Server("127.0.0.1", 7004), Server("127.0.0.1", 7005)]
    servers += [Server("::1", 7006), Server("::1", 7007)]
    with Capture() as capture:
        WAYS[what](folder)
        # What was sent last is seen, too.
        time.sleep(0.5)
    print(json.dumps({name: sorted(seen) for name, seen in capture.seen.items()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
