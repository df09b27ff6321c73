"""Telling the daemon an order before it is used, so that it stages ahead of need.

A plan is a file of sample positions in the cache folder (`docs/FORMAT.md`): written whole, opened
by the daemon, and unlinked at once. The place in it, how many entries have been handed out, is kept
in its header, which the daemon reads.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.dataset import Dataset
from forebay.errors import ForebayError

_HEADER_BYTES = 4096
_TAKEN_AT = 64
_GIVEN_UP = (1 << 64) - 1
# Tells the samplers of a process apart.
_NUMBERS = itertools.count(1)
# Entries are written this many at a time, so that an epoch costs no second copy of itself.
_RUN = 1 << 20


class Plan:
    """The order of one epoch of one rank, and how far it has been handed out."""

    def __init__(self, file: Any, path: Path) -> None:
        # The map keeps the file; nothing is left open that a forgotten plan would have to close.
        self._map = mmap.mmap(file.fileno(), _HEADER_BYTES)
        # A fork shares the map; the order is still its parent's.
        self._process = os.getpid()
        self.path = path

    def take(self, taken: int) -> None:
        """Note that so many entries have been handed out, unless the plan was closed."""
        if not self._map.closed and self._process == os.getpid():
            struct.pack_into("<Q", self._map, _TAKEN_AT, taken)

    def close(self) -> None:
        """Give the order up and let go of the file; the daemon forgets its own."""
        self.take(_GIVEN_UP)
        self._map.close()

    def __del__(self) -> None:
        # Not made whole if the file could not be mapped.
        if hasattr(self, "_process"):
            self.close()


def write_plan(
    dataset: Dataset,
    order: npt.NDArray[np.int64],
    *,
    epoch: int,
    rank: int,
    world_size: int,
    batch: int = 0,
    sampler: int = 0,
) -> Plan:
    """Write the order of an epoch where the daemon can open it.

    Raises:
        OSError: the cache folder cannot be written.
    """
    folder = dataset.cache / "plans"
    folder.mkdir(mode=0o700, exist_ok=True)
    entry: type[np.unsignedinteger[Any]] = np.uint32 if len(dataset) <= 1 << 32 else np.uint64
    generation = int(dataset.generation, 16)
    handle, name = tempfile.mkstemp(suffix=".plan", prefix=f"{os.getpid()}-", dir=folder)
    try:
        with os.fdopen(handle, "r+b") as file:
            file.write(b"FBPLAN\0\0" + struct.pack("<II", 1, np.dtype(entry).itemsize))
            file.write(generation.to_bytes(16, "little"))
            file.write(struct.pack("<QQIIII", len(order), epoch, rank, world_size, batch, sampler))
            file.truncate(_HEADER_BYTES)
            file.seek(_HEADER_BYTES)
            for start in range(0, len(order), _RUN):
                order[start : start + _RUN].astype(entry).tofile(file)
            file.flush()
            return Plan(file, Path(name))
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class Planner:
    """Announces the orders of a data set to its daemon. Failure costs time, never data."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._number = next(_NUMBERS) & 0xFFFF_FFFF
        self._current: Plan | None = None

    def __reduce__(self) -> tuple[type[Planner], tuple[Dataset]]:
        return Planner, (self._dataset,)

    def begin(
        self,
        order: npt.NDArray[np.int64],
        following: npt.NDArray[np.int64] | None,
        *,
        epoch: int,
        rank: int,
        world_size: int,
        batch: int = 0,
    ) -> Plan | None:
        """An epoch begins with this order; `following` is the next one's, where it is known.

        Whoever hands the order out notes its place in the plan returned. A newer epoch closes it.
        """
        about = {"rank": rank, "world_size": world_size, "batch": batch, "sampler": self._number}
        plans: list[Plan] = []
        try:
            plans.append(write_plan(self._dataset, order, epoch=epoch, **about))
            if following is not None:
                plans.append(write_plan(self._dataset, following, epoch=epoch + 1, **about))
            paths = [plan.path for plan in plans]
            self._dataset.follow(paths[0], paths[1] if len(paths) > 1 else None)
        except (OSError, ForebayError):
            # No daemon, no room: the order is used all the same, and read as it comes.
            pass
        finally:
            for plan in plans:
                plan.path.unlink(missing_ok=True)
        # Only now: the daemon goes on with the order before until it has this one.
        self.end()
        self._current = plans[0] if plans else None
        return self._current

    def end(self) -> None:
        """The epoch is over."""
        if self._current is not None:
            self._current.close()
            self._current = None


def track(indices: Iterator[int], plan: Plan | None) -> Iterator[int]:
    """The same indices, noting in the plan each as it is handed out."""
    if plan is None:
        yield from indices
        return
    for taken, index in enumerate(indices, start=1):
        plan.take(taken)
        yield index
