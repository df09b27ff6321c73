"""Bytes of a file over a TCP connection, with nothing around them: what a peer is compared with.

A request is 16 bytes, and its answer is sent by `sendfile`.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

_TREE = Path(__file__).absolute().parent.parent
_PATIENCE = 60.0
_REQUEST = struct.Struct("<QQ")


class Bare:
    """A process that answers requests for bytes of a file, and a connection to it."""

    def __init__(self, file: Path) -> None:
        command = [sys.executable, "-m", "bench.bare", str(file)]
        self._partner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_TREE)
        assert self._partner.stdout
        self.port = int(self._partner.stdout.readline())
        self._socket = connect(self.port)

    def read(self, start: int, out: memoryview) -> None:
        """Fill `out` with the bytes from `start`."""
        read_bare(self._socket, start, out)

    def __enter__(self) -> Bare:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._partner.kill()
        self._partner.wait()


def connect(port: int) -> socket.socket:
    """A connection to a bare server."""
    made = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def read_bare(link: socket.socket, start: int, out: memoryview) -> None:
    """Ask for bytes and take them."""
    link.sendall(_REQUEST.pack(start, len(out)))
    filled = 0
    while filled < len(out):
        came = link.recv_into(out[filled:])
        if came == 0:
            raise ConnectionError("the bare server is gone")
        filled += came


def serve(file: Path) -> None:
    """Answer each connection on a thread, until killed."""
    descriptor = os.open(file, os.O_RDONLY)
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)

    def answer(link: socket.socket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with link:
            while request := link.recv(_REQUEST.size, socket.MSG_WAITALL):
                start, left = _REQUEST.unpack(request)
                while left:
                    sent = os.sendfile(link.fileno(), descriptor, start, left)
                    start, left = start + sent, left - sent

    while True:
        threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
