"""`torch.distributed.checkpoint` with clocks in it, and files that count the time of their reads."""

from __future__ import annotations

import io
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from forebay.bench._measure import count, measured, sample
from forebay.bench._models import Training
from forebay.bench._rank import Rank
from forebay.bench._values import BenchError


@dataclass(frozen=True)
class Readers:
    """Which ranks read a checkpoint, and whose shard each reads.

    A checkpoint in as many shards as there are ranks is read by `reshard_to` of them, each of which
    gets the shard of the rank `shift` places on: what one node wrote lies in its page cache, and
    another has to read it.
    """

    # The ranks that read, in the order of their shards.
    order: tuple[int, ...]
    # Of these alone; None where all ranks read in their own order.
    group: Any
    # This rank's place among them; None where it reads nothing.
    place: int | None

    @classmethod
    def of(cls, rank: Rank, reshard_to: int, shift: int) -> Readers:
        """As many readers as are asked for, 0 for all. Every rank must call it.

        Raises:
            BenchError: there are not so many ranks, or PyTorch cannot put them in this order.
        """
        import torch.distributed as dist

        world = rank.place.world_size
        if not 0 <= reshard_to <= world or shift < 0:
            raise BenchError(
                f"`reshard_to` must be at most the number of ranks, and `reader_shift` 0 or more: "
                f"{reshard_to} of {world}, and {shift}"
            )
        readers = reshard_to or world
        order = tuple((place - shift % readers) % world for place in range(readers))
        place = order.index(rank.place.rank) if rank.place.rank in order else None
        if order == tuple(range(world)):
            return cls(order, None, place)
        # Before it could be told not to, PyTorch put the ranks of a group in their own order.
        more: dict[str, Any] = {} if list(order) == sorted(order) else {"sort_ranks": False}
        try:
            return cls(order, dist.new_group(list(order), **more), place)
        except TypeError as error:
            raise BenchError(
                "`reader_shift` needs a PyTorch whose `new_group` knows `sort_ranks`: take a later one, "
                "or the engine native"
            ) from error


@dataclass(frozen=True)
class Layout:
    """How shards are written."""

    thread_count: int
    single_file_per_rank: bool
    sync_files: bool


def state_of(training: Training) -> dict[str, Any]:
    """What a checkpoint holds: the parameters and the optimizer's state, in shards."""
    from torch.distributed.checkpoint.state_dict import get_state_dict

    model, optimizers = get_state_dict(training.model, training.optimizers)
    return {"model": model, "optimizers": optimizers} if training.optimizers else {"model": model}


def local_model(training: Training) -> dict[str, Any]:
    """This rank's shards of the parameters."""
    return dict(training.model.state_dict())


def full_model(training: Training, *, cpu_offload: bool) -> dict[str, Any]:
    """The whole parameters, by exchange between all ranks; with `cpu_offload` on rank 0 alone."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=cpu_offload)
    return dict(get_model_state_dict(training.model, options=options))


def save(state: dict[str, Any], folder: Path, layout: Layout) -> None:
    """Write a checkpoint: operations `plan`, `write`, `fsync` and, on rank 0, `metadata`."""
    from torch.distributed.checkpoint import state_dict_saver as dcp

    writer = _writer_class()(
        folder,
        single_file_per_rank=layout.single_file_per_rank,
        sync_files=layout.sync_files,
        thread_count=layout.thread_count,
    )
    writer.began = time.perf_counter_ns()
    with _timed_fsync():
        dcp.save(state, storage_writer=writer)


def load(state: dict[str, Any], folder: Path, training: Training) -> None:
    """Read a checkpoint into a model: operations `read_metadata`, `read_shards`."""
    from torch.distributed.checkpoint import state_dict_loader as dcp
    from torch.distributed.checkpoint.state_dict import set_state_dict

    dcp.load(state, storage_reader=_reader_class()(folder), process_group=training.group)
    set_state_dict(
        training.model,
        training.optimizers,
        model_state_dict=state["model"],
        optim_state_dict=state.get("optimizers", {}),
    )


def load_model(training: Training, folder: Path) -> None:
    """Read the parameters alone into a model."""
    from torch.distributed.checkpoint import state_dict_loader as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    state = {"model": get_model_state_dict(training.model)}
    dcp.load(state, storage_reader=_reader_class()(folder))
    set_model_state_dict(training.model, state["model"])


def read_all(model: Any, folder: Path) -> dict[str, Any]:
    """The whole parameters, by reading every shard on this rank."""
    import torch
    from torch.distributed.checkpoint import state_dict_loader as dcp

    state = {"model": {name: torch.empty_like(one) for name, one in model.state_dict().items()}}
    with warnings.catch_warnings():
        # That it loads in a single process is what is wanted.
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp.load(state, storage_reader=_reader_class()(folder), no_dist=True)
    return state["model"]


def remove(folder: Path) -> None:
    """Remove a checkpoint of this run and what is told beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    for beside in folder.parent.glob(f"{folder.name}.*json"):
        with suppress(OSError):
            beside.unlink()


@cache
def _writer_class() -> Any:
    """PyTorch's writer with clocks. A function, since PyTorch takes seconds to import."""
    from torch.distributed.checkpoint.filesystem import FileSystemWriter

    class Writer(FileSystemWriter):
        """Writes as its base does, and measures what comes before and the writing."""

        began = 0

        def write_data(self, plan: Any, planner: Any) -> Any:
            sample("plan", time.perf_counter_ns() - self.began)
            with measured("write"):
                written = super().write_data(plan, planner)
                written.wait()
            return written

        def finish(self, metadata: Any, results: Any) -> None:
            with measured("metadata"):
                super().finish(metadata, results)

    return Writer


@cache
def _reader_class() -> Any:
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    class Reader(FileSystemReader):
        """Reads as its base does, and measures metadata and shards apart."""

        def read_metadata(self, *arguments: Any, **named: Any) -> Any:
            with measured("read_metadata"):
                return super().read_metadata(*arguments, **named)

        def read_data(self, plan: Any, planner: Any) -> Any:
            wanted = {item.storage_index for item in plan.items}
            count(io_bytes=sum(self.storage_data[one].length for one in wanted))
            with measured("read_shards"):
                read = super().read_data(plan, planner)
                read.wait()
            return read

    return Reader


@contextmanager
def _timed_fsync() -> Iterator[None]:
    """Time what PyTorch's writer writes through; it calls `os.fsync` from its own threads."""
    real = os.fsync

    def timed(fd: Any) -> None:
        with measured("fsync"):
            real(fd)

    os.fsync = timed
    try:
        yield
    finally:
        os.fsync = real


def sync_folder(folder: Path) -> None:
    """Write a folder's names through."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class TimedReader(io.RawIOBase):
    """A file whose reads are timed; at the end `read` is their sum and `deserialize` the rest."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._began = time.perf_counter_ns()
        self._file = path.open("rb", buffering=0)
        self._reading = 0
        sample("open", time.perf_counter_ns() - self._began)

    def readinto(self, buffer: Any) -> int:
        began = time.perf_counter_ns()
        count = self._file.readinto(buffer)
        self._reading += time.perf_counter_ns() - began
        return count or 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if error is None:
            whole = time.perf_counter_ns() - self._began
            sample("read", self._reading)
            sample("deserialize", whole - self._reading)
        super().__exit__(kind, error, trace)
