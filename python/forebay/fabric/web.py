"""Samples of a web server, read by ranges over connections of a traffic class of their own."""

from __future__ import annotations

import functools
import http.client
import os
import socket
import urllib.parse
from collections.abc import Sequence

from forebay.fabric import FabricError
from forebay.fabric.data import MANIFEST, Array, Manifest, Place, arrays

_MANIFEST_BYTES = 1 << 20


class WebSource:
    """Samples below a URL, one request with a range for each part.

    Each process has a connection of its own, which it keeps; it serves one thread.
    """

    def __init__(self, url: str, dscp: int | None, timeout_s: float) -> None:
        self._url = url.rstrip("/")
        parts = urllib.parse.urlsplit(self._url)
        if parts.scheme != "http" or parts.hostname is None or parts.query:
            raise FabricError(f"`{url}` must be http://HOST[:PORT]/FOLDER")
        self._base = parts.path
        self._open = functools.partial(
            _Connection, (parts.hostname, parts.port or 80), dscp, timeout_s
        )
        self._connection: _Connection | None = None
        self._opened_by = 0
        status, found = self._ask(MANIFEST, None, _MANIFEST_BYTES)
        if status != 200:
            raise FabricError(f"`{self._url}/{MANIFEST}`: status {status}; are the samples there?")
        self._manifest = Manifest.parse(found.decode(errors="replace"), f"{self._url}/{MANIFEST}")

    def __len__(self) -> int:
        return self._manifest.samples

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_connection": None, "_opened_by": 0}

    def read_batch(self, indices: Sequence[int], /) -> list[dict[str, Array]]:
        """The samples of `indices`.

        Raises:
            FabricError: the server does not give them.
        """
        return [
            arrays(*(self._read(place) for place in self._manifest.places(index)))
            for index in indices
        ]

    def _read(self, place: Place) -> bytes:
        end = place.offset + place.length - 1
        status, found = self._ask(place.file, f"bytes={place.offset}-{end}", place.length)
        if status != 206 or len(found) != place.length:
            raise FabricError(
                f"the tier was lost: `{self._url}/{place.file}` gave status {status} and "
                f"{len(found)} of {place.length} bytes"
            )
        return found

    def _ask(self, name: str, ranges: str | None, most: int) -> tuple[int, bytes]:
        # A server may close a connection that it has kept for long: that is asked once more.
        kept = self._connection is not None and self._opened_by == os.getpid()
        for may_fail in [True, False] if kept else [False]:
            try:
                return self._ask_once(name, ranges, most)
            except (OSError, http.client.HTTPException) as error:
                self._connection = None
                if not may_fail:
                    what = f"`{self._url}/{name}`: {error}"
                    raise FabricError(f"the tier was lost: {what}") from None
        raise AssertionError("unreachable")

    def _ask_once(self, name: str, ranges: str | None, most: int) -> tuple[int, bytes]:
        # A fork leaves its parent's connection alone.
        if self._connection is None or self._opened_by != os.getpid():
            self._connection, self._opened_by = self._open(), os.getpid()
        headers = {} if ranges is None else {"Range": ranges}
        self._connection.request("GET", f"{self._base}/{name}", headers=headers)
        answer = self._connection.getresponse()
        found = answer.read(most + 1)
        if not answer.isclosed():
            self._connection = None
        return answer.status, found


class _Connection(http.client.HTTPConnection):
    """A connection in a traffic class."""

    def __init__(self, address: tuple[str, int], dscp: int | None, timeout_s: float) -> None:
        super().__init__(*address, timeout=timeout_s)
        self._made = functools.partial(connected, address, dscp, timeout_s)

    def connect(self) -> None:
        self.sock = self._made()


def connected(address: tuple[str, int], dscp: int | None, timeout_s: float) -> socket.socket:
    """A connection whose packets carry the class from the first on, that of the handshake too.

    A server whose kernel reflects the class (`net.ipv4.tcp_reflect_tos`) answers in it.
    """
    fault: OSError = OSError(f"`{address[0]}` has no address")
    for family, kind, protocol, _, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(timeout_s)
            if dscp is not None:
                mark(made, dscp)
            made.connect(place)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        except OSError as error:
            made.close()
            fault = error
    raise fault


def mark(made: socket.socket, dscp: int) -> None:
    """Set the code point (0 to 63) of what a socket sends."""
    if made.family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
    else:
        made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
