"""The tiers of a study: what `--tier NAME=WHERE` names, opened for reading."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch.utils.data

import forebay
import forebay.torch
from forebay.fabric import FabricError, data
from forebay.fabric.options import Options, TierName
from forebay.fabric.web import WebSource
from forebay.fabric.world import World

# The folder that is made below a tier's path.
FOLDER = "forebay-fabric-samples"
_SHM = Path("/dev/shm")


class Source(Protocol):
    """Where samples are read."""

    def __len__(self) -> int: ...

    def read_batch(self, indices: Sequence[int], /) -> Sequence[Mapping[str, data.Array]]: ...


@dataclass(frozen=True)
class Tier:
    """A tier that is open: its name, its samples, and what a reader must know of it."""

    name: str
    source: Source
    condition: str

    @property
    def is_staged(self) -> bool:
        """Whether Forebay reads it."""
        return isinstance(self.source, forebay.Dataset)


@contextmanager
def opened(named: TierName, options: Options, world: World) -> Iterator[Tier]:
    """The tier on every rank, its samples made where it is a path without any.

    Raises:
        FabricError: it is missing, read-only without samples, or full.
    """
    where = named.where
    if where.startswith("http://"):
        source = WebSource(where, options.dscp, options.timeout_s)
        yield Tier(named.name, source, f"tier `{named.name}`: `{where}`, by ranges of a web server")
    elif where == "shm":
        with _made(named.name, _SHM, options, world) as tier:
            yield tier
    elif Path(where).suffix == ".forebay":
        yield _staged(named.name, Path(where), options)
    else:
        with _made(named.name, Path(where), options, world) as tier:
            yield tier


def _staged(name: str, index: Path, options: Options) -> Tier:
    try:
        with warnings.catch_warnings():
            # Without a daemon nothing would be staged, and the tier would be another one.
            warnings.simplefilter("error", RuntimeWarning)
            source = forebay.open(index, root=options.root, cache=options.cache)
    except (forebay.ForebayError, RuntimeWarning) as error:
        raise FabricError(f"tier `{name}`: {error}") from None
    return Tier(name, source, f"tier `{name}`: `{index}` through Forebay, cache `{source.cache}`")


@contextmanager
def _made(name: str, path: Path, options: Options, world: World) -> Iterator[Tier]:
    if not path.is_dir():
        raise FabricError(f"tier `{name}`: there is no folder `{path}`")
    # Samples may lie in the folder itself, where it is read-only for instance.
    found = data.find(path)
    folder, is_ours = path, False
    if found is None:
        folder = path / FOLDER
        found = data.find(folder)
        is_ours = found is None and not options.keep
        if found is None:
            found = _make(name, folder, options, world)
    elif found.samples < options.samples_made:
        found.places(0)
    world.barrier()
    try:
        yield Tier(
            name,
            data.FolderSource(folder, found),
            f"tier `{name}`: `{path}`, {found.samples} samples by one pread for each part",
        )
    finally:
        if is_ours and world.is_first_here:
            shutil.rmtree(folder, ignore_errors=True)


def _make(name: str, folder: Path, options: Options, world: World) -> data.Manifest:
    """One rank of each node makes them; on a shared tier the first to be done wins."""
    fault = None
    if world.is_first_here:
        try:
            _check_writable(folder.parent)
            data.make(folder, options.samples_made, options.seed)
        except FabricError as error:
            fault = f"tier `{name}`: {error}"
    world.all_or_none(fault)
    found = data.find(folder)
    if found is None:
        raise FabricError(f"tier `{name}`: the samples in `{folder}` are not seen by this rank")
    return found


def _check_writable(path: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise FabricError(
            f"`{path}` has no samples and cannot be written: {error.strerror}; make them where it "
            "can be, with `forebay fabric data`"
        ) from None


class Reading(torch.utils.data.Dataset[Any]):
    """The samples of a tier as a loader's workers read them.

    `finish` is called in the worker with the fields of each sample.
    """

    def __init__(self, source: Source, finish: Any) -> None:
        self._source = source
        self._finish = finish

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return [self._finish(sample) for sample in self._source.read_batch(indices)]


def size_of(sample: Mapping[str, data.Array]) -> int:
    """Bytes of a sample, all of which were read."""
    return sum(np.asarray(field).nbytes for field in sample.values())


def loader(
    tier: Tier, finish: Any, collate: Any, *, batch: int, options: Options, world: World
) -> tuple[Any, Any]:
    """A loader over a tier, and its sampler; Forebay's, where it reads, tells its daemon the order.

    Raises:
        FabricError: the tier has too few samples for one batch of each rank.
    """
    samples = min(len(tier.source), options.use or len(tier.source))
    if samples < batch * world.size:
        raise FabricError(
            f"tier `{tier.name}` has {samples} samples to read, fewer than one batch of {batch} for "
            f"each of {world.size} ranks"
        )
    sampler: Any = forebay.torch.Sampler(
        samples, seed=options.seed, rank=world.rank, world_size=world.size, drop_last=True
    )
    if options.order == "kept":
        sampler = Kept(sampler.order(0).tolist())
    if tier.is_staged:
        # Tells the daemon the order.
        sampler = forebay.torch.LookAhead(sampler, tier.source, rank=world.rank)
    workers = options.workers
    made = forebay.torch.DataLoader(
        Reading(tier.source, finish),
        batch_size=batch,
        sampler=sampler,
        drop_last=True,
        num_workers=workers,
        collate_fn=collate,
        prefetch_factor=options.prefetch if workers else None,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,
        timeout=options.timeout_s if workers else 0,
    )
    return made, sampler


class Kept(torch.utils.data.Sampler[int]):
    """The same samples in the same order in every epoch."""

    def __init__(self, order: list[int]) -> None:
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)

    def set_epoch(self, epoch: int) -> None:
        """Change nothing."""


class Batches:
    """Batches of a loader without end: epochs follow each other."""

    def __init__(self, made: Any, sampler: Any) -> None:
        self._loader = made
        self._sampler = sampler
        self._batches: Iterator[Any] | None = None
        self.epochs = 0

    def __next__(self) -> Any:
        while True:
            if self._batches is None:
                self._sampler.set_epoch(self.epochs)
                self._batches = iter(self._loader)
                self.epochs += 1
            for batch in self._batches:
                return batch
            self._batches = None
