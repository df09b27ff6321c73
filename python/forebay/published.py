"""Files that producers publish by name, for consumers on every node of a job."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import Any, TypeAlias

from typing_extensions import Buffer

from forebay._command import find_command
from forebay._native import Published as _Published
from forebay._native import publish as _publish
from forebay._native import published_after as _published_after
from forebay._native import unpublish as _unpublish

__all__ = ["PublishedFile", "PublishedName", "consume", "publish", "published", "unpublish"]

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class PublishedName:
    """What is known of a published file: `node` has it; later versions have a greater `generation`."""

    name: str
    node: str
    generation: int
    size: int


class PublishedFile(io.RawIOBase):
    """A published file, open for reading. Made by `forebay.consume`.

    A raw binary file: `read`, `readinto`, `seek`. It reads only what is asked for, from this node
    where the file lies here, else from the node that has it. `read_at` and `read_into` use and move
    no position, so threads may share the object.
    """

    def __init__(self, native: _Published) -> None:
        super().__init__()
        self._native = native
        self._entry = PublishedName(*native.entry())
        self._position = 0

    @property
    def name(self) -> str:
        """What it was published as."""
        return self._entry.name

    @property
    def node(self) -> str:
        """The member of the job that has it; empty for a node alone."""
        return self._entry.node

    @property
    def generation(self) -> int:
        """Later versions of a name have greater ones."""
        return self._entry.generation

    @property
    def size(self) -> int:
        """Bytes of it."""
        return self._entry.size

    def __len__(self) -> int:
        return self.size

    # A file object is true, whatever its length.
    def __bool__(self) -> bool:
        return True

    def read_into(self, start: int, out: Buffer) -> int:
        """Read from byte `start` into `out`; returns how many bytes, fewer only at the end.

        Raises:
            StaleError: the file was changed, replaced or unpublished.
            UnavailableError: its node could not be reached.
        """
        if start < 0:
            raise ValueError(f"`start` must be 0 or more: {start}")
        if start >= self.size:
            return 0
        return self._native.read_into(start, out)

    def read_at(self, start: int, length: int) -> bytes:
        """The bytes from `start`, at most `length` of them; fewer only at the end.

        Raises:
            StaleError: the file was changed, replaced or unpublished.
            UnavailableError: its node could not be reached.
        """
        if length < 0:
            raise ValueError(f"`length` must be 0 or more: {length}")
        out = bytearray(max(0, min(length, self.size - start)))
        read = self.read_into(start, out) if out else 0
        return bytes(out[:read])

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The position of the next `read`."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move the position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}.get(whence)
        if base is None:
            raise ValueError(f"`whence` must be 0, 1 or 2: {whence}")
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}, before the start")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Read at the position."""
        if self.closed:
            raise ValueError("the file is closed")
        read = self.read_into(self._position, memoryview(buffer).cast("B"))
        self._position += read
        return read

    def readall(self) -> bytes:
        """All bytes from the position on."""
        rest = self.read_at(self._position, max(0, self.size - self._position))
        self._position += len(rest)
        return rest


def publish(
    name: str,
    path: PathLike,
    *,
    cache: PathLike | None = None,
    timeout: float = 60.0,
    start_daemon: bool = True,
) -> PublishedName:
    """Publish a complete file by a name, in place of what had the name before.

    The file stays where it is and must be left as it is; close it before. From then on
    `forebay.consume` finds it on every node of the job.

    Args:
        name: at most 512 bytes of text without control characters.
        path: the file, on storage of this node or any other that this node sees.
        cache: cache folder of the node's daemon, as for `forebay.open`.
        timeout: longest wait, in seconds.
        start_daemon: start the node's daemon where none serves the cache folder.

    Raises:
        NotFoundError: there is no such file.
        InvalidInputError: the name is none, or the file is no regular file.
        UnavailableError: the file is being written to, or there is no daemon.
    """
    program = find_command() if start_daemon else None
    return PublishedName(*_publish(name, os.fspath(path), _folder(cache), timeout, program))


def unpublish(name: str, *, cache: PathLike | None = None, timeout: float = 60.0) -> None:
    """Let nobody find a name any more, whichever node published it. The file is left where it is.

    Raises:
        NotFoundError: nothing is published by this name.
        UnavailableError: the node that published it, or the daemon, cannot be reached.
    """
    _unpublish(name, _folder(cache), timeout, None)


def consume(
    name: str,
    timeout: float = 60.0,
    *,
    cache: PathLike | None = None,
    start_daemon: bool = True,
) -> PublishedFile:
    """Open the file of a name, waiting until some node has published it.

    Args:
        name: what it is published as.
        timeout: longest wait in seconds, for it to be published and then for each read.
        cache: cache folder of the node's daemon, as for `forebay.open`.
        start_daemon: start the node's daemon where none serves the cache folder.

    Raises:
        DeadlineError: it was not published in time.
        UnavailableError: the node that published it, or the daemon, cannot be reached.
        StaleError: the file is not what it was when it was published.
    """
    program = find_command() if start_daemon else None
    return PublishedFile(_Published(name, _folder(cache), timeout, program))


def published(*, cache: PathLike | None = None, timeout: float = 10.0) -> list[PublishedName]:
    """All published files that the nodes of the job know, by name.

    Raises:
        UnavailableError: there is no daemon.
    """
    found: list[PublishedName] = []
    while more := _published_after(found[-1].name if found else "", _folder(cache), timeout, None):
        found += [PublishedName(*entry) for entry in more]
    return found


def _folder(cache: PathLike | None) -> str | None:
    return None if cache is None else os.path.abspath(cache)
