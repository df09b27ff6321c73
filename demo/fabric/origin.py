"""The storage host's server: files of one folder over HTTP, by ranges, with a tail of slow reads.

Its sockets answer in the traffic class that they are asked in, where the kernel reflects it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import socket
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})")
# Shorter reads look things up: they are as fast as the network.
_SMALL = 32 << 10


class Tail:
    """Every so many reads one is slow: a Pareto distribution between two bounds, seeded."""

    def __init__(self, probability: float, least_s: float, most_s: float, seed: int) -> None:
        self._probability = probability
        self._least_s, self._most_s = least_s, most_s
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def next_s(self) -> float:
        """Seconds by which the next read is late; mostly 0."""
        with self._lock:
            hit, place = self._random.random() < self._probability, self._random.random()
        # Alpha 0.5, as the published waits on a parallel file system have it.
        cut = 1 - (self._least_s / self._most_s) ** 0.5
        return self._least_s / (1 - place * cut) ** 2 if hit else 0.0


class Server(ThreadingHTTPServer):
    """Serves `folder`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], folder: Path, tail: Tail) -> None:
        self.folder = folder
        self.tail = tail
        super().__init__(address, Answer)


class Answer(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a line for each of thousands of reads."""

    def _answer(self, with_body: bool) -> None:
        name = self.path.lstrip("/")
        if "/" in name or name.startswith(".") or not (self.server.folder / name).is_file():
            self.send_error(404)
            return
        with (self.server.folder / name).open("rb") as file:
            stat = os.fstat(file.fileno())
            start, end = 0, stat.st_size
            asked = self.headers.get("Range")
            found = _RANGE.fullmatch(asked) if asked else None
            if found:
                start, end = int(found[1]), min(int(found[2]) + 1, stat.st_size)
            if start >= end:
                self.send_error(416)
                return
            if end - start > _SMALL:
                time.sleep(self.server.tail.next_s())
            self.send_response(206 if found else 200)
            if found:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{stat.st_size}")
            self.send_header("Content-Length", str(end - start))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", f'"{stat.st_size:x}-{stat.st_mtime_ns:x}"')
            self.send_header("Last-Modified", formatdate(stat.st_mtime, usegmt=True))
            self.end_headers()
            if with_body:
                self.wfile.flush()
                while start < end:
                    sent = os.sendfile(self.connection.fileno(), file.fileno(), start, end - start)
                    if sent == 0:
                        raise ConnectionError("the file became shorter")
                    start += sent

    def handle(self) -> None:
        # A reader that has enough goes away in the middle.
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True


def main() -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser(prog="demo.fabric.origin", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--tail", type=float, default=0.0, help="share of reads that are slow")
    parser.add_argument("--tail-ms", type=float, nargs=2, default=[500.0, 4000.0], help="bounds")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    least, most = (bound / 1e3 for bound in options.tail_ms)
    server = Server(
        (options.address, options.port),
        options.folder,
        Tail(options.tail, least, most, options.seed),
    )
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print("serving", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
