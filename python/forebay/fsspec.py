"""The files of an index as a file system of fsspec, read through the node's cache.

    import pandas

    table = pandas.read_parquet("forebay:///p/sair.forebay/train/part-0.parquet")

    from forebay.fsspec import ForebayFileSystem

    fs = ForebayFileSystem("/p/sair.forebay", cache="/local/nvme/forebay")
    fs.cat_ranges(["a.bin", "b.bin"], [0, 4096], [100, 8192])  # one request for what is absent

`docs/FSSPEC.md` describes URLs and options. Importing this module needs fsspec.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import warnings
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from fsspec.asyn import AsyncFileSystem, get_loop

from forebay import _native
from forebay._command import find_command
from forebay.dataset import _daemon_arguments, _folder_or_url
from forebay.errors import make

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ForebayFile", "ForebayFileSystem"]

PathLike: TypeAlias = str | os.PathLike[str]
Info: TypeAlias = dict[str, Any]

_PROTOCOL = "forebay://"
# How the name of an index ends that is part of a URL.
_ENDING = ".forebay"
# Bytes that a file object reads at least, and that `get` copies at a time.
_BUFFER = 1 << 16
_PIECE = 8 << 20


class ForebayFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """Files below the root of an index, read-only. Paths are relative to that root.

    Listings come from the index alone, bytes from the node's cache. Instances pickle as their
    arguments, and work in threads and in worker processes, whatever their start method. Methods
    without an underscore block and need no event loop; those with one are their asynchronous twins.
    """

    protocol = "forebay"
    # The blocking methods below do without an event loop, which would not survive a fork.
    mirror_sync_methods = False

    def __init__(
        self,
        index: PathLike | None = None,
        *,
        root: PathLike | None = None,
        cache: PathLike | None = None,
        deadline_s: float = 60.0,
        capacity: int | str | None = None,
        policy: str | None = None,
        start_daemon: bool = True,
        asynchronous: bool = False,
        **options: Any,
    ) -> None:
        """Open the index file `index`, or the one that `FOREBAY_INDEX` names.

        Args:
            index: made by `forebay index`; with `--files` each file of a folder is in it.
            root: folder or URL of the origin files, if not the one that the index records.
            cache: cache folder on the node's own device; its daemon stages the bytes.
            deadline_s: longest wait for the daemon, in seconds.
            capacity, policy: of a daemon that this starts.
            start_daemon: start a daemon where none serves the cache folder.
            asynchronous: used from an event loop.

        Raises:
            ForebayError: the index cannot be used.
        """
        # Asynchronous for the base class, which else would start the thread of an event loop.
        super().__init__(asynchronous=True, **options)
        self.asynchronous = asynchronous
        named = index if index is not None else os.environ.get("FOREBAY_INDEX")
        if not named:
            message = "no index: name one in the URL, as `index`, or in FOREBAY_INDEX"
            raise make("invalid-input", message)
        self.index = os.path.abspath(named)
        self._files = _native.Files(
            self.index,
            _folder_or_url(root),
            None if cache is None else os.path.abspath(cache),
            deadline_s,
            find_command() if start_daemon else None,
            _daemon_arguments(capacity, policy),
        )
        if self._files.warning is not None and start_daemon:
            message = (
                f"reading the origin directly, without a cache: no daemon for cache folder "
                f"`{self._files.cache}`: {self._files.warning}"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    @property
    def loop(self) -> Any:
        """The event loop for callers that run the asynchronous methods from outside."""
        return None if self.asynchronous else get_loop()

    @property
    def fsid(self) -> str:
        """The same for the same content."""
        return f"forebay-{self._files.generation}"

    # URLs

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = os.fspath(path)
        return _parted(text)[1].strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        index = _parted(path)[0]
        return {} if index is None else {"index": index}

    def unstrip_protocol(self, name: str) -> str:
        """A URL that leads to the same file in any process, if the index is named `*.forebay`."""
        below = self._strip_protocol(name)
        return _PROTOCOL + (f"{self.index}/{below}" if self.index.endswith(_ENDING) else below)

    # Names

    def info(self, path: str, **_: Any) -> Info:
        """Name, size in bytes, type (`file` or `directory`) and modification time (`mtime`)."""
        name = self._strip_protocol(path)
        return _info(name, self._find_one(name))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What lies in a folder, by name; a file lists itself."""
        name = self._strip_protocol(path)
        found = self._find_one(name)
        if found[1] == "directory":
            listed = [
                _info(_joined(name, child), of) for child, of in self._files.children(found[0])
            ]
        else:
            listed = [_info(name, found)]
        return listed if detail else [info["name"] for info in listed]

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **_: Any,
    ) -> Any:
        """All files below a folder, `maxdepth` levels of them or all; itself for a file."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError(f"`maxdepth` must be at least 1: {maxdepth}")
        name = self._strip_protocol(path)
        found = self._files.find(name)
        infos: Iterable[Info] = []
        if found is not None and found[1] == "directory":
            below = self._files.below(found[0], maxdepth)
            infos = [_info(_joined(name, child), of) for child, of in below]
            if withdirs and name:
                infos = [_info(name, found), *infos]
        elif found is not None:
            infos = [_info(name, found)]
        kept = {info["name"]: info for info in infos if withdirs or info["type"] != "directory"}
        kept = dict(sorted(kept.items()))
        return kept if detail else list(kept)

    def exists(self, path: str, **_: Any) -> bool:
        """True if something has this name."""
        return self._files.find(self._strip_protocol(path)) is not None

    def isfile(self, path: str) -> bool:
        """True if it is a file."""
        found = self._files.find(self._strip_protocol(path))
        return found is not None and found[1] == "file"

    def isdir(self, path: str) -> bool:
        """True if it is a folder."""
        found = self._files.find(self._strip_protocol(path))
        return found is not None and found[1] == "directory"

    def modified(self, path: str) -> datetime:
        """When the file was last modified, as the index has it."""
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def ukey(self, path: str) -> str:
        """Changes when the file does and it was indexed again."""
        return f"{self.fsid}-{self._strip_protocol(path)}"

    # Bytes

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Bytes `[start, end)` of a file; negative numbers count from its end."""
        (found,) = self._files.read_many([self._range(path, start, end)])
        return found

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Sequence[int | None] | int | None,
        ends: Sequence[int | None] | int | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Ranges of files in one batch: what is not resident is asked of the daemon in one request.

        `on_error`: `return` puts an exception in the place of what cannot be read, `raise` raises it.
        """
        if max_gap is not None:
            raise NotImplementedError("`max_gap`: blocks are staged whole as it is")
        many = len(paths)
        starts = [starts] * many if starts is None or isinstance(starts, int) else starts
        ends = [ends] * many if ends is None or isinstance(ends, int) else ends
        if len(starts) != many or len(ends) != many:
            raise ValueError("`paths`, `starts` and `ends` must have one length")
        asked = list(zip(paths, starts, ends, strict=True))
        try:
            return list(self._files.read_many([self._range(*each) for each in asked]))
        except Exception:
            if on_error == "raise":
                raise
        return [self._cat_or_error(*each) for each in asked]

    def cat(
        self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any
    ) -> Any:
        """Whole files: the bytes of one, or a dict of those of several, read in one batch."""
        paths = self.expand_path(path, recursive=recursive)
        paths = [each for each in paths if not (recursive and self.isdir(each))]
        many = len(paths) > 1 or isinstance(path, list) or paths[0] != self._strip_protocol(path)
        if not many:
            return self.cat_file(paths[0], **kwargs)
        on = "raise" if on_error == "raise" else "return"
        found = dict(zip(paths, self.cat_ranges(paths, 0, None, on_error=on), strict=True))
        if on_error == "omit":
            return {name: each for name, each in found.items() if isinstance(each, bytes)}
        return found

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, **_: Any) -> None:
        """Copy a file to a local path or into an open local file; make a folder for a folder."""
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        number, _kind, size, _time = self._file(rpath)
        if callback is not None:
            callback.set_size(size)
        piece = bytearray(min(size, _PIECE))
        is_open = hasattr(lpath, "write")
        with contextlib.nullcontext(lpath) if is_open else open(lpath, "wb") as out:
            for start in range(0, size, _PIECE):
                length = self._files.read_into(number, start, piece)
                out.write(memoryview(piece)[:length])
                if callback is not None:
                    callback.relative_update(length)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> ForebayFile:
        if mode not in ("rb", "r"):
            raise _read_only(path)
        return ForebayFile(self, path)

    # Asynchronous twins: what is in memory is answered at once, what may wait is read by a thread.

    async def _info(self, path: str, **kwargs: Any) -> Info:
        return self.info(path, **kwargs)

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        return self.ls(path, detail=detail, **kwargs)

    async def _find(self, path: str, **kwargs: Any) -> Any:
        return self.find(path, **kwargs)

    async def _exists(self, path: str, **_: Any) -> bool:
        return self.exists(path)

    async def _isfile(self, path: str) -> bool:
        return self.isfile(path)

    async def _isdir(self, path: str) -> bool:
        return self.isdir(path)

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        return await asyncio.to_thread(self.cat_file, path, start, end)

    async def _cat_ranges(
        self, paths: Any, starts: Any, ends: Any, max_gap: int | None = None, **kwargs: Any
    ) -> list[Any]:
        on_error = kwargs.get("on_error", "return")
        return await asyncio.to_thread(
            self.cat_ranges, paths, starts, ends, max_gap=max_gap, on_error=on_error
        )

    async def _get_file(self, rpath: str, lpath: Any, **kwargs: Any) -> None:
        await asyncio.to_thread(self.get_file, rpath, lpath, **kwargs)

    # Nothing can be written.

    def _refuse(self, path: Any = "", *_: Any, **__: Any) -> NoReturn:
        raise _read_only(path)

    async def _refuse_soon(self, path: Any = "", *_: Any, **__: Any) -> NoReturn:
        raise _read_only(path)

    mkdir = makedirs = rmdir = rm = rm_file = mv = cp_file = pipe_file = put_file = touch = _refuse
    _mkdir = _makedirs = _rmdir = _rm = _rm_file = _cp_file = _pipe_file = _put_file = _refuse_soon

    # Shared

    def _find_one(self, name: str) -> tuple[int, str, int, int]:
        found = self._files.find(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return found

    def _file(self, path: str) -> tuple[int, str, int, int]:
        name = self._strip_protocol(path)
        found = self._find_one(name)
        if found[1] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        return found

    def _range(self, path: str, start: int | None, end: int | None) -> tuple[int, int, int]:
        """A range as fsspec writes it, as number of the file, first byte, and bytes."""
        number, _kind, size, _time = self._file(path)
        first, last, _ = slice(start, end).indices(size)
        return number, first, max(0, last - first)

    def _cat_or_error(self, path: str, start: int | None, end: int | None) -> Any:
        try:
            return self.cat_file(path, start, end)
        except Exception as error:
            return error


class ForebayFile(io.BufferedReader):
    """One file, open for reading. Pickles as its place, and the position in it."""

    def __init__(self, fs: ForebayFileSystem, path: str) -> None:
        self.fs = fs
        self.path: str = fs._strip_protocol(path)
        number, _kind, self.size, _time = fs._file(self.path)
        super().__init__(_Raw(fs._files, number, self.size), _BUFFER)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _reopen, (self.fs, self.path, self.tell())


def _reopen(fs: ForebayFileSystem, path: str, position: int) -> ForebayFile:
    file = ForebayFile(fs, path)
    file.seek(position)
    return file


class _Raw(io.RawIOBase):
    """The reads under a `ForebayFile`."""

    def __init__(self, files: _native.Files, number: int, size: int) -> None:
        self._files = files
        self._number = number
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = start + offset
        return self._at

    def readinto(self, out: Buffer, /) -> int:
        length = self._files.read_into(self._number, self._at, out)
        self._at += length
        return length


def _parted(url: str) -> tuple[str | None, str]:
    """The index in a URL, if it names one, and the path behind it."""
    if not url.startswith(_PROTOCOL):
        return None, url
    parts = url.removeprefix(_PROTOCOL).split("/")
    for at, part in enumerate(parts, start=1):
        if part.endswith(_ENDING):
            return "/".join(parts[:at]), "/".join(parts[at:])
    return None, "/".join(parts)


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _info(name: str, found: tuple[int, str, int, int]) -> Info:
    _number, kind, size, mtime_ns = found
    size = 0 if kind == "directory" else size
    return {"name": name, "size": size, "type": kind, "mtime": mtime_ns / 1e9}


def _read_only(path: Any) -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS), path if isinstance(path, str) else None)
