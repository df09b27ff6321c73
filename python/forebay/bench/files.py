"""The metadata and reading benchmarks through fsspec, as twins of the native ones.

Names, files, parameters and operations are those of the native benchmarks, so that what an
interface costs is one comparison: `--interface native` against `--interface fsspec`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Annotated, Any, Literal

from forebay.bench._measure import count, measured, sample, verified
from forebay.bench._rank import Rank, current
from forebay.bench._registry import benchable
from forebay.bench._values import BenchError

NumCopies = Annotated[int, "files of each rank"]
FileSize = Annotated[int, "bytes of each file"]
Shards = Annotated[int, "folders that the files are spread over"]

# The list of a data set's files, as the benchmark create_dataset leaves it: a line of JSON each.
LIST = "files.jsonl"

# Contents that are compared after an iteration; all files are counted.
_COMPARED = 256


def file_system() -> Any:
    """The local file system of fsspec, without a cache of listings.

    Raises:
        BenchError: fsspec is not installed.
    """
    try:
        import fsspec
    except ImportError as error:
        raise BenchError(
            "`--interface fsspec` needs the package fsspec: pip install fsspec"
        ) from error
    return fsspec.filesystem("file", use_listings_cache=False, skip_instance_cache=True)


def _content(size: int, seed: int, kind: str = "random") -> bytes:
    return bytes(size) if kind == "zero" else random.Random(seed).randbytes(size)


def _made(folder: Path, copies: int, content: bytes) -> list[str]:
    """Files that a benchmark finds, made by system calls outside the timed part."""
    if copies < 1:
        raise BenchError(f"`num_copies` must be at least 1: {copies}")
    folder.mkdir(parents=True)
    paths = [str(folder / f"file_{i}.dat") for i in range(copies)]
    for path in paths:
        Path(path).write_bytes(content)
    return paths


def _fresh(rank: Rank) -> Path:
    """A folder of this iteration; that of the one before is removed."""
    folder = rank.folder / f"iteration-{rank.iteration}"
    _removed(rank.folder / f"iteration-{rank.iteration - 1}")
    return folder


def _removed(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(folder)


@benchable(category="Metadata", interface="fsspec")
def create_files(
    seed: int,
    fsync: str,
    num_copies: NumCopies = 1000,
    file_size: FileSize = 4096,
    shared_dir: Annotated[bool, "all ranks create in one folder"] = False,
    bypass_cache: Annotated[Literal["none", "direct", "fadvise"], "only `none` here"] = "none",
    content: Annotated[Literal["random", "zero"], "what is written"] = "random",
) -> Iterator[None]:
    """Create files: open, write, close."""
    rank, fs = current(), file_system()
    if bypass_cache != "none":
        raise BenchError("fsspec has no way past the page cache: `bypass_cache` must be `none`")
    data = _content(file_size, seed + (rank.place.rank << 32), content)
    folder = _fresh(rank)
    prefix = "file_"
    if shared_dir:
        folder = rank.shared / f"iteration-{rank.iteration}"
        prefix = f"file_{rank.place.rank}_"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(folder / f"{prefix}{i}.dat") for i in range(num_copies)]
    yield
    for path in paths:
        with measured("file_total"):
            _create(fs, path, data, fsync)
    count(io_bytes=num_copies * file_size, ops=num_copies)
    yield
    bad = sum(os.stat(path).st_size != file_size for path in paths)
    bad += sum(Path(path).read_bytes() != data for path in paths[:_COMPARED])
    verified(num_copies, bad=min(bad, num_copies))


def _create(fs: Any, path: str, data: bytes, fsync: str) -> None:
    with measured("open"):
        file = fs.open(path, "wb")
    with measured("write"):
        file.write(data)
    if fsync != "none":
        with measured("fsync"):
            file.flush()
            os.fsync(file.fileno())
    with measured("close"):
        file.close()
    if fsync == "file+dir":
        with measured("fsync_dir"):
            _sync_folder(Path(path).parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@benchable(category="Metadata", interface="fsspec")
def list_files(
    seed: int,
    dataset: Annotated[Path, "folder to list with all below it; made where none is named"] = Path(),
    num_copies: NumCopies = 5000,
    file_size: FileSize = 4096,
    dir_shards: Shards = 1,
) -> Iterator[None]:
    """List a folder, then ask for each file's attributes."""
    rank, fs = current(), file_system()

    def make() -> dict[str, tuple[int, int]]:
        if dataset != Path():
            return _listed(dataset)
        data = _content(file_size, seed)
        folders = [rank.folder / f"shard-{shard:04}" for shard in range(dir_shards)]
        for shard, folder in enumerate(folders):
            start, end = (num_copies * one // dir_shards for one in (shard, shard + 1))
            _made(folder, end - start, data)
        return {path: held for one in folders for path, held in _listed(one).items()}

    wanted = rank.once("folders", make)
    found: dict[str, list[int]] = {}
    yield
    with measured("list_total"):
        for folder in wanted:
            with measured("readdir"):
                names = fs.ls(folder, detail=False)
            sizes = found.setdefault(folder, [])
            for name in names:
                with measured("stat"):
                    info = fs.info(name)
                is_file = info["type"] == "file" and not info.get("islink")
                sizes.append(info["size"] if is_file else 0)
    count(ops=sum(len(sizes) for sizes in found.values()) + len(found))
    yield
    for folder, (entries, size) in wanted.items():
        sizes = found[folder]
        bad = abs(len(sizes) - entries) + (sum(sizes) != size)
        verified(max(entries, len(sizes)), bad=min(bad, max(entries, 1)))


def _listed(root: Path) -> dict[str, tuple[int, int]]:
    """Every folder from this one on, with what is in it: entries, and the bytes of its files."""
    if not root.is_dir():
        raise BenchError(f"there is no folder `{root}`")
    found: dict[str, tuple[int, int]] = {}
    for folder, folders, files in os.walk(root):
        sizes = (os.lstat(os.path.join(folder, name)) for name in files)
        bytes_of_files = sum(one.st_size for one in sizes if stat.S_ISREG(one.st_mode))
        found[folder] = (len(folders) + len(files), bytes_of_files)
    return found


@benchable(category="Metadata", interface="fsspec")
def move_files(
    seed: int, fsync: str, num_copies: NumCopies = 1000, file_size: FileSize = 4096
) -> Iterator[None]:
    """Move files from one folder to another."""
    rank, fs = current(), file_system()
    folder = _fresh(rank)
    paths = _made(folder / "src", num_copies, _content(file_size, seed))
    target = folder / "dst"
    target.mkdir()
    moves = [(path, str(target / Path(path).name)) for path in paths]
    yield
    for source, destination in moves:
        with measured("rename"):
            fs.mv(source, destination)
    if fsync == "file+dir":
        with measured("fsync_dir"):
            _sync_folder(folder / "src")
            _sync_folder(target)
    count(ops=num_copies)
    yield
    left, there = len(os.listdir(folder / "src")), len(os.listdir(target))
    verified(num_copies, bad=min(num_copies, left + abs(num_copies - there)))


@benchable(category="Metadata", interface="fsspec")
def delete_files(
    seed: int, fsync: str, num_copies: NumCopies = 1000, file_size: FileSize = 4096
) -> Iterator[None]:
    """Delete files one by one."""
    rank, fs = current(), file_system()
    folder = _fresh(rank)
    paths = _made(folder, num_copies, _content(file_size, seed))
    yield
    for path in paths:
        with measured("unlink"):
            fs.rm_file(path)
    if fsync == "file+dir":
        with measured("fsync_dir"):
            _sync_folder(folder)
    count(ops=num_copies)
    yield
    verified(num_copies, bad=min(num_copies, len(os.listdir(folder))))


@benchable(category="Dataloading", interface="fsspec")
def md5_check(
    seed: int,
    dataset: Annotated[Path, "folder to read; one that is made where none is named"] = Path(),
    num_copies: NumCopies = 1000,
    file_size: FileSize = 32768,
    dir_shards: Shards = 1,
    chunk_size: Annotated[int, "bytes asked for by one read"] = 8192,
    pattern: Annotated[
        Literal["sequential", "random", "strided"], "order of the files"
    ] = "sequential",
    stride: Annotated[int, "files from one to the next, strided"] = 16,
    same_order: Annotated[bool, "all ranks in one order"] = True,
    hash: Annotated[Literal["md5", "sha256", "none"], "digest that is computed"] = "md5",
    bypass_cache: Annotated[bool, "drop each file from the page cache after it was read"] = False,
) -> Iterator[None]:
    """Read every file in chunks and compare its digest."""
    rank, fs = current(), file_system()
    if chunk_size < 1 or stride < 1:
        raise BenchError(f"`chunk_size` and `stride` must be at least 1: {chunk_size} and {stride}")
    root = None if dataset == Path() else dataset
    paths = rank.once("paths", lambda: _data_set(rank, root, num_copies, file_size, dir_shards))
    digests = rank.once("digests", lambda: _told(root, hash))
    order = _order(len(paths), pattern, stride, seed + (0 if same_order else rank.place.rank))
    rank.cache.drop(Path(path) for path in paths)
    found: dict[str, tuple[int, str]] = {}
    yield
    for place in order:
        path = paths[place]
        with measured("file_total"):
            found[path] = _digest(fs, path, chunk_size, hash, bypass_cache)
    count(io_bytes=sum(size for size, _ in found.values()), ops=len(found))
    yield
    bad = 0
    for path, (size, digest) in found.items():
        wanted = digests.setdefault(path, digest)
        bad += size != os.stat(path).st_size or digest != wanted
    verified(len(found), bad=bad)


def _data_set(rank: Rank, root: Path | None, copies: int, size: int, shards: int) -> list[str]:
    """Paths of the files: those of the folder named, or made by rank 0 for all."""
    if root is None:
        root = rank.shared / "dataset"
        if rank.place.rank == 0:
            for shard in range(shards):
                start, end = (copies * one // shards for one in (shard, shard + 1))
                _made(root / f"shard-{shard:04}", end - start, _content(size, rank.spec.seed))
        rank.group.barrier()
    if not root.is_dir():
        raise BenchError(f"there is no data set `{root}`")
    files = (path for path in root.rglob("*") if path.is_file() and path.name != LIST)
    paths = sorted(str(path) for path in files)
    if not paths:
        raise BenchError(f"the data set `{root}` has no file")
    return paths


def _told(root: Path | None, hash: str) -> dict[str, str]:
    """Digests that the data set's own list tells; others are those of the first reading."""
    listed = None if root is None else root / LIST
    if listed is None or not listed.is_file():
        return {}
    wanted: dict[str, str] = {}
    with listed.open() as lines:
        for line in lines:
            one = json.loads(line)
            if isinstance(one, dict) and "path" in one and one.get(hash):
                wanted[str(listed.parent / str(one["path"]))] = str(one[hash])
    return wanted


def _order(files: int, pattern: str, stride: int, seed: int) -> list[int]:
    if pattern == "random":
        order = list(range(files))
        random.Random(seed).shuffle(order)
        return order
    if pattern == "strided":
        return [
            place for first in range(min(stride, files)) for place in range(first, files, stride)
        ]
    return list(range(files))


def _digest(fs: Any, path: str, chunk_size: int, hash: str, bypass: bool) -> tuple[int, str]:
    digest = None if hash == "none" else hashlib.new(hash, usedforsecurity=False)
    with measured("open"):
        file = fs.open(path, "rb")
    size = reading = hashing = 0
    while True:
        began = perf_counter_ns()
        chunk = file.read(chunk_size)
        read = perf_counter_ns()
        reading += read - began
        if not chunk:
            break
        size += len(chunk)
        if digest is not None:
            digest.update(chunk)
            hashing += perf_counter_ns() - read
    sample("read", reading)
    sample("hash", hashing)
    if bypass:
        with measured("evict"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with measured("close"):
        file.close()
    return size, "" if digest is None else digest.hexdigest()
