"""Files to measure on, their index, and a cache folder with a daemon of its own."""

from __future__ import annotations

import os
import select
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np

import forebay

# A sample of the reference data set: edges and raw arrays, 286 KB in all. Multiples of 8.
EDGES_BYTES = 74_000
RAW_BYTES = 212_000
SAMPLE_BYTES = EDGES_BYTES + RAW_BYTES
BLOCK_BYTES = 65_536
# Where Forebay puts the second field in the buffer of a sample: fields begin on multiples of 64.
RAW_AT = (EDGES_BYTES + 63) // 64 * 64
BUFFER_BYTES = RAW_AT + RAW_BYTES

_DAEMON_PATIENCE = 30.0
_WRITE_ROWS = 64


@dataclass(frozen=True)
class Extent:
    """Bytes `[start, start + length)` of a file."""

    start: int
    length: int

    def covering(self) -> Extent:
        """The blocks that hold it."""
        first = self.start // BLOCK_BYTES * BLOCK_BYTES
        end = -(-(self.start + self.length) // BLOCK_BYTES) * BLOCK_BYTES
        return Extent(first, end - first)


def write_groups(
    file: Path, field: str, count: int, length: int, seed: int, *, first: int = 0
) -> list[Extent]:
    """An HDF5 file of `count` groups, each with one contiguous array of `length` bytes.

    Their names count from `first`.
    """
    random = np.random.default_rng(seed)
    extents = []
    with h5py.File(file, "w") as out:
        for number in range(first, first + count):
            values = random.integers(0, 1 << 62, length // 8, dtype=np.uint64)
            array = out.create_dataset(f"s{number:06}/{field}", data=values)
            extents.append(Extent(array.id.get_offset(), length))
    sync(file)
    return extents


def write_rows(file: Path, count: int, length: int, seed: int) -> list[Extent]:
    """An HDF5 file with one contiguous array of `count` rows of `length` bytes."""
    random = np.random.default_rng(seed)
    with h5py.File(file, "w") as out:
        rows = _contiguous(out, count, length)
        for first in range(0, count, _WRITE_ROWS):
            some = min(_WRITE_ROWS, count - first)
            rows[first : first + some] = random.integers(
                0, 1 << 62, (some, length // 8), dtype=np.uint64
            )
        start = rows.id.get_offset()
    sync(file)
    return [Extent(start + number * length, length) for number in range(count)]


def sparse_rows(file: Path, count: int, length: int) -> list[Extent]:
    """The same with holes for content: it takes no room on the device."""
    with h5py.File(file, "w") as out:
        start = _contiguous(out, count, length).id.get_offset()
    return [Extent(start + number * length, length) for number in range(count)]


def _contiguous(out: Any, count: int, length: int) -> Any:
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple((count, length // 8))
    made = h5py.h5d.create(out.id, b"x", h5py.h5t.NATIVE_UINT64, space, settings)
    return h5py.Dataset(made)


def sync(file: Path) -> None:
    """Write a file's pages to the device, so that it is not done while something is timed."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def buffer(size: int) -> Any:
    """An array of `size` bytes whose pages are there, so that no fault is timed."""
    return np.ones(size, np.uint8)


@contextmanager
def opened(index: Path, cache: Path) -> Iterator[forebay.Dataset]:
    """The data set of an index, with a daemon of its own that leaves at the end."""
    with warnings.catch_warnings():
        # Without a daemon Forebay reads on without a cache, and says so: nothing to measure.
        warnings.simplefilter("error", RuntimeWarning)
        dataset = forebay.open(index, cache=cache)
    try:
        yield dataset
    finally:
        stop_daemon(cache)


def stop_daemon(cache: Path) -> None:
    """Ask the daemon of `cache` to leave, and wait until it has."""
    with suppress(forebay.UnavailableError, ProcessLookupError):
        process = os.pidfd_open(int(forebay.status(cache)["pid"]))
        try:
            forebay.stop(cache)
            if not select.select([process], [], [], _DAEMON_PATIENCE)[0]:
                raise TimeoutError(f"the daemon of `{cache}` did not leave")
        finally:
            os.close(process)


def stage_all(dataset: forebay.Dataset) -> None:
    """Make every sample resident.

    Raises:
        RuntimeError: there is no room for all of them.
    """
    if not dataset.stage(range(len(dataset))):
        raise RuntimeError(f"cannot stage all samples in `{dataset.cache}`: is the device full?")


class BlockFiles:
    """The block files of a cache, open for bare reads: the very pages that Forebay reads."""

    def __init__(self, cache: Path) -> None:
        files = sorted(cache.glob("blocks/*/shard-*.blocks"))
        for file in files:
            sync(file)
        self._open = [os.open(file, os.O_RDONLY) for file in files]

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._open:
            os.close(descriptor)

    def locate(self, origin: Path, extents: Sequence[Extent]) -> list[tuple[int, int]]:
        """Descriptor and offset of each extent of an origin file in the block files.

        Raises:
            RuntimeError: they are not there, or not all with the same bytes.
        """
        with origin.open("rb") as file:
            wanted = [os.pread(file.fileno(), e.length, e.start) for e in extents]
        for descriptor in self._open:
            for base in range(0, os.fstat(descriptor).st_size, BLOCK_BYTES):
                begins = os.pread(descriptor, 64, base + extents[0].start)
                if begins == wanted[0][:64]:
                    places = [(descriptor, base + extent.start) for extent in extents]
                    for (at, start), bytes_ in zip(places, wanted, strict=True):
                        if os.pread(at, len(bytes_), start) != bytes_:
                            raise RuntimeError(f"the cache has other bytes than `{origin}`")
                    return places
        raise RuntimeError(f"`{origin}` is not in the cache")
