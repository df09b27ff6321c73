"""Telling the daemon an order before it is used, so that it stages ahead of need.

A plan is a file of sample positions in the cache folder (`docs/FORMAT.md`): written whole, opened
by the daemon, and unlinked at once. The place in it, how many entries have been handed out, is kept
in its header, which the daemon reads.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import struct
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from forebay.dataset import Dataset
from forebay.errors import ForebayError

_HEADER_BYTES = 4096
_TAKEN_AT = 64
_YIELDS_UNTIL_AT = 72
_STAGED_AT = 80
_UNREAD_AT = 88
_GIVEN_UP = (1 << 64) - 1
# The daemon believes no longer a time.
_LONGEST_YIELD_S = 60.0
# How often it is looked whether the daemon still follows, and how seldom where it cannot be had.
_LOOK_S, _LOOK_AT_MOST_S = 1.0, 64.0
# Tells the samplers of a process apart.
_NUMBERS = itertools.count(1)
# Entries are written this many at a time, so that an epoch costs no second copy of itself.
_RUN = 1 << 20
# Positions are turned into Python ints this many at a time, so that an epoch of millions of samples
# costs one int64 array and not a list of objects.
_OUT_RUN = 8192

Array: TypeAlias = npt.NDArray[np.int64]


class Plan:
    """The order of one epoch of one rank, and how far it has been handed out."""

    def __init__(self, file: Any, path: Path) -> None:
        # The map keeps the file; nothing is left open that a forgotten plan would have to close.
        self._map = mmap.mmap(file.fileno(), _HEADER_BYTES)
        # A fork shares the map; the order is still its parent's.
        self._process = os.getpid()
        self.path = path
        _OPEN[id(self)] = weakref.ref(self)

    def take(self, taken: int) -> None:
        """Note that so many entries have been handed out, unless the plan was closed."""
        self._write(_TAKEN_AT, taken)

    def yield_until(self, monotonic_ns: int) -> None:
        """Let staging pause until then, or go on at once with 0."""
        self._write(_YIELDS_UNTIL_AT, monotonic_ns)

    def may_be_unread(self, entries: int) -> None:
        """Note how many of those handed out may not have been read yet."""
        self._write(_UNREAD_AT, entries)

    @property
    def staged(self) -> int:
        """Entries that the daemon has staged, from the first on without a gap."""
        if self._map.closed:
            return 0
        (staged,) = struct.unpack_from("<Q", self._map, _STAGED_AT)
        return int(staged)

    def close(self) -> None:
        """Give the order up and let go of the file; the daemon forgets its own."""
        self.take(_GIVEN_UP)
        self._map.close()
        _OPEN.pop(id(self), None)

    def _write(self, at: int, word: int) -> None:
        if not self._map.closed and self._process == os.getpid():
            struct.pack_into("<Q", self._map, at, word)

    def __del__(self) -> None:
        # Not made whole if the file could not be mapped.
        if hasattr(self, "_process"):
            self.close()


# The plans of this process that are not closed.
_OPEN: dict[int, weakref.ref[Plan]] = {}


@contextlib.contextmanager
def collectives(longest_s: float = 10.0) -> Iterator[None]:
    """While this runs, staging ahead of need pauses on this node.

    For the phase of a training step that uses the fabric, the backward pass with its all-reduce:

        with forebay.torch.collectives():
            loss.backward()

    Reads that are in progress end; what a reader waits for is fetched as ever.

    Args:
        longest_s: seconds after which staging goes on in any case, so that a rank that hangs here
            does not hold up its node; above 0 and at most 60.

    Raises:
        ValueError: `longest_s` is outside its bounds.
    """
    if not 0 < longest_s <= _LONGEST_YIELD_S:
        raise ValueError(
            f"`longest_s` is {longest_s}, but must be above 0 and at most {_LONGEST_YIELD_S:g}"
        )
    _yield_until(time.monotonic_ns() + int(longest_s * 1e9))
    try:
        yield
    finally:
        _yield_until(0)


def _yield_until(monotonic_ns: int) -> None:
    # A copy, taken at once: other threads open and close plans meanwhile.
    for each in list(_OPEN.values()):
        plan = each()
        if plan is not None:
            plan.yield_until(monotonic_ns)


def write_plan(
    dataset: Dataset,
    order: Array,
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


class Announced:
    """An order that is being handed out, and told to the daemon as long as there is one."""

    def __init__(
        self, dataset: Dataset, order: Array, following: Callable[[], Array] | None, **about: int
    ) -> None:
        self._dataset = dataset
        self._order = order
        self._following = following
        self._about = about
        self._process = os.getpid()
        self._pause = _LOOK_S
        self._look_at = 0.0
        self._unread = 0
        self.plan: Plan | None = None
        self._link: int | None = None
        self._announce(0)

    def take(self, taken: int) -> None:
        """So many entries have been handed out."""
        if self.plan is None or self._process != os.getpid():
            return
        self.plan.take(taken)
        if time.monotonic() >= self._look_at:
            if self._link is not None and self._dataset.is_linked(self._link):
                self._look_at = time.monotonic() + _LOOK_S
            else:
                self._announce(taken)

    def may_be_unread(self, entries: int) -> None:
        """So many of the entries handed out last may not have been read yet: a loader's read-ahead.

        Until they are, their blocks are needed in this epoch and are not evicted as done with.
        """
        self._unread = entries
        if self.plan is not None:
            self.plan.may_be_unread(entries)

    def close(self) -> None:
        """The daemon need not follow any more."""
        if self.plan is not None:
            self.plan.close()
            self.plan = None

    def _announce(self, taken: int) -> None:
        """Writes the plans anew and lets the daemon that there is follow them."""
        plans: list[Plan] = []
        try:
            plans.append(write_plan(self._dataset, self._order, **self._about))
            plans[0].take(taken)
            plans[0].may_be_unread(self._unread)
            if self._following is not None:
                about = {**self._about, "epoch": self._about["epoch"] + 1}
                plans.append(write_plan(self._dataset, self._following(), **about))
            paths = [plan.path for plan in plans]
            self._link = self._dataset.follow(paths[0], paths[1] if len(paths) > 1 else None)
        except (OSError, ForebayError):
            # No daemon, no room: the order is used all the same, and read as it comes.
            self._link = None
        finally:
            for plan in plans:
                plan.path.unlink(missing_ok=True)
        self._pause = _LOOK_S if self._link is not None else min(2 * self._pause, _LOOK_AT_MOST_S)
        self._look_at = time.monotonic() + self._pause
        # Only now: the daemon goes on with the order before until it has this one.
        self.close()
        self.plan = plans[0] if plans else None


class Planner:
    """Announces the orders of a data set to its daemon. Failure costs time, never data."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._number = next(_NUMBERS) & 0xFFFF_FFFF
        # Samples in one iteration, where a loader has said so; 0 if unknown.
        self.batch = 0
        self.current: Announced | None = None

    def __reduce__(self) -> tuple[type[Planner], tuple[Dataset]]:
        return Planner, (self._dataset,)

    def begin(
        self,
        order: Array,
        following: Callable[[], Array] | None,
        *,
        epoch: int,
        rank: int,
        world_size: int,
        batch: int = 0,
    ) -> Announced:
        """An epoch begins with this order; `following` makes the next one's,
        where it is known; it is not kept, so that an epoch costs the memory of one order.

        Whoever hands the order out notes its place in what is returned. A newer epoch closes it.
        """
        about = {"rank": rank, "world_size": world_size, "sampler": self._number}
        about["batch"] = batch or self.batch
        begun = Announced(self._dataset, order, following, epoch=epoch, **about)
        self.end()
        self.current = begun
        return begun

    def end(self) -> None:
        """The epoch is over."""
        if self.current is not None:
            self.current.close()
            self.current = None


def planner_of(source: Any) -> Planner | None:
    """What announces orders to the daemon of `source`, if it has one.

    `source`: a data set, or one of `forebay.torch` around it.
    """
    source = getattr(source, "source", source)
    return Planner(source) if isinstance(source, Dataset) else None


class HandedOut(Iterator[Any]):
    """What a sampler gives, noting in the plan how far that is.

    Its place can be kept and found again, as `torchdata.stateful_dataloader` asks of iterators.

    Args:
        items: the whole order, positions or lists of them.
        sizes: positions in each item; 1 in each where that is None.
    """

    def __init__(
        self, items: Sequence[Any] | Array, sizes: list[int] | None, announced: Announced | None
    ) -> None:
        self._items = items
        self._sizes = sizes
        self._announced = announced
        self._run: list[Any] = []
        self._at = 0
        self._taken = 0

    def __next__(self) -> Any:
        within = self._at % _OUT_RUN
        if within == 0 or not self._run:
            start = self._at - within
            run = self._items[start : start + _OUT_RUN]
            self._run = run.tolist() if isinstance(run, np.ndarray) else list(run)
        if within >= len(self._run):
            raise StopIteration
        self._taken += 1 if self._sizes is None else self._sizes[self._at]
        self._at += 1
        if self._announced is not None:
            self._announced.take(self._taken)
        return self._run[within]

    def state_dict(self) -> dict[str, Any]:
        """How many items were handed out."""
        return {"handed_out": self._at}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after as many items."""
        at = min(int(state["handed_out"]), len(self._items))
        self._at, self._run = at, []
        self._taken = at if self._sizes is None else sum(self._sizes[:at])
