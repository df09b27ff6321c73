"""PyTorch face of Forebay: a map-style `Dataset` and a `Sampler` that resumes exactly.

    from torch.utils.data import DataLoader
    import forebay.torch as fb

    dataset = fb.Dataset("sair.forebay", root="/lustre/sair")
    sampler = fb.Sampler(dataset, seed=7)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler, num_workers=4)

`torch` is needed only by this module; the rest of the package works without it.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.utils.data

import forebay
from forebay._plan import Plan, Planner, track

__all__ = ["Dataset", "LookAhead", "SampleSource", "Sampler"]

Array: TypeAlias = npt.NDArray[Any]
Sample: TypeAlias = dict[str, Any]

_STATE_VERSION = 1
_STATE_KEYS = frozenset({"version", "seed", "epoch", "position", "length", "shuffle", "drop_last"})
# Indices are turned into Python ints this many at a time, so that an epoch of millions of samples
# costs one int64 array and not a list of objects.
_INDEX_RUN = 8192


class Sampler(torch.utils.data.Sampler[int]):
    """The order in which one rank takes samples: a pure function of seed, epoch, rank, world size.

    The order equals that of `torch.utils.data.DistributedSampler` for the same arguments: without
    `drop_last` the order is padded from its own head until the ranks share it evenly, with
    `drop_last` its tail is cut.

    Args:
        source: the data set, or its number of samples. A `Dataset` of this module (or one from
            `forebay.open`) is told the order of each epoch when its iteration begins, and that of
            the epoch after it, so that its daemon stages ahead of need; see `look_ahead`.
        seed: seed of the shuffle; epoch `e` is shuffled with `seed + e`.
        rank: this rank, in `[0, world_size)`. Default: that of `torch.distributed` if it is
            initialised, else `RANK` in the environment, else 0.
        world_size: number of ranks. Default: found the same way (`WORLD_SIZE`), else 1.
        shuffle: whether to shuffle; without it samples come in index order.
        drop_last: cut the tail instead of padding.
        look_ahead: tell the data set's daemon the order, if `source` is such a data set.

    Raises:
        ValueError: a count is negative, `rank` is outside `[0, world_size)`, or `RANK` or
            `WORLD_SIZE` is not a number.

    Resume is owned by the consumer, because only it knows what it has trained on; loader workers
    run ahead of it. See `state_dict`.
    """

    def __init__(
        self,
        source: Sized | int,
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
        look_ahead: bool = True,
    ) -> None:
        self._planner = _planner(source) if look_ahead else None
        self.length = _count("source", len(source) if isinstance(source, Sized) else source)
        self.seed = _count("seed", seed)
        self.rank, self.world_size = _place_in_world(rank, world_size)
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.epoch = 0
        # Where in the epoch's order the iteration under way began. Not 0 only after a resume.
        self._start = 0
        # A state was loaded and no iteration has used it yet.
        self._resuming = False

    def __len__(self) -> int:
        """Samples this rank takes in a whole epoch. A resume leaves it as it is."""
        return self._share(self.length)

    @property
    def remaining(self) -> int:
        """Samples of the iteration that is next after a resume, or else under way."""
        return self._share(self.length - self._start)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration.

        Naming the epoch of a state just loaded keeps the place in it; another epoch is whole.

        Raises:
            ValueError: `epoch` is negative.
        """
        epoch = _count("epoch", epoch)
        if epoch != self.epoch:
            self._start, self._resuming = 0, False
        self.epoch = epoch

    def order(self, epoch: int, *, start: int = 0) -> npt.NDArray[np.int64]:
        """Indices that this rank takes in `epoch`, in order, as one int64 array.

        Args:
            epoch: the epoch.
            start: samples at the head of the epoch's order, counted over all ranks, to leave out.

        Raises:
            ValueError: `epoch` is negative or `start` outside `[0, number of samples]`.
        """
        if _count("start", start) > self.length:
            raise ValueError(f"`start` is {start}, but there are {self.length} samples")
        everything = self._permutation(_count("epoch", epoch))
        share = np.arange(self._share(self.length - start), dtype=np.int64)
        # Positions past the end wrap round: that is the padding from the head of the order.
        positions = start + self.rank + self.world_size * share
        return everything[positions % max(self.length, 1)]

    def __iter__(self) -> Iterator[int]:
        if not self._resuming:
            self._start = 0
        self._resuming = False
        order = self.order(self.epoch, start=self._start)
        if self._planner is None:
            return _as_ints(order)
        about = {"epoch": self.epoch, "rank": self.rank, "world_size": self.world_size}
        plan = self._planner.begin(order, self.order(self.epoch + 1), **about)
        return track(_as_ints(order), plan)

    def state_dict(self, *, consumed: int) -> dict[str, Any]:
        """A place in the epoch, as a plain dict that JSON can hold.

        Args:
            consumed: samples that this rank has trained on since its current iteration began (for
                a resumed iteration: since the resume). Samples that loader workers have fetched
                but the training loop has not seen do not count. All ranks must have consumed
                equally many, as they have at the end of an iteration of data-parallel training:
                the place is `consumed * world_size` samples into the order, so every rank gets
                the same state and one of them may write it.

        Raises:
            ValueError: `consumed` is negative or more than this iteration holds.
        """
        if _count("consumed", consumed) > self.remaining:
            raise ValueError(
                f"`consumed` is {consumed}, but this iteration has {self.remaining} samples a rank: "
                "count samples, not batches of full size; the last batch may be smaller"
            )
        position = self._start + consumed * self.world_size
        if consumed == self.remaining:
            # Padding lies past the end of the order, a cut tail before it: both end the epoch.
            position = self.length
        return {
            "version": _STATE_VERSION,
            "seed": self.seed,
            "epoch": self.epoch,
            "position": position,
            "length": self.length,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a place that `state_dict` returned.

        The next iteration gives exactly what remained of that epoch; later epochs are whole
        again. Seed and epoch are taken from the state. The world size may differ: the rest is
        shared among the ranks there are now, with no sample lost and none repeated but for the
        padding (or cut) at the very end that any world size brings. A state of a finished epoch
        leaves an empty iteration. The number of loader workers plays no part.

        Raises:
            ValueError: the state has another version or a broken field, or is of a sampler with
                another number of samples, `shuffle` or `drop_last`. The sampler is unchanged.
        """
        _check_state(state)
        for name in ("length", "shuffle", "drop_last"):
            if state[name] != getattr(self, name):
                raise ValueError(
                    f"sampler state has `{name}` {state[name]}, this sampler has "
                    f"{getattr(self, name)}: resume with the data set and options it was saved with"
                )
        self.seed, self.epoch = state["seed"], state["epoch"]
        self._start, self._resuming = state["position"], True

    def _share(self, samples: int) -> int:
        """One rank's part of `samples`, padded or cut to be equal on all ranks."""
        return samples // self.world_size if self.drop_last else -(-samples // self.world_size)

    def _permutation(self, epoch: int) -> npt.NDArray[np.int64]:
        """The order of the whole epoch, over all ranks."""
        if not self.shuffle:
            return np.arange(self.length, dtype=np.int64)
        generator = torch.Generator()
        generator.manual_seed(self.seed + epoch)
        drawn: npt.NDArray[np.int64] = torch.randperm(self.length, generator=generator).numpy()
        return drawn


class LookAhead(torch.utils.data.Sampler[Any]):
    """Any other sampler or batch sampler, its order unchanged, told to the data set's daemon.

    The whole epoch is drawn from `sampler` when the iteration begins (one int64 a sample), so that
    the daemon stages ahead of need. Works with PyTorch's own samplers, seeded or not. Everything
    else (`set_epoch`, `state_dict`, attributes) is the wrapped sampler's.

        batches = fb.LookAhead(BatchSampler(RandomSampler(ds), 32, drop_last=True), ds)
        loader = DataLoader(ds, batch_sampler=batches, num_workers=4)

    Args:
        sampler: gives sample positions, or lists of them.
        dataset: the `Dataset` of this module, or one from `forebay.open`.
        rank: this rank, where several of a node have the same data set open. Default: found as
            `Sampler` does.
        positions: for a loader over a data set of your own (a subset, a join) in front of Forebay's:
            `positions[i]` is the position, in `dataset`, of what the sampler calls `i`.

    Raises:
        TypeError: `dataset` is not a Forebay data set.
    """

    def __init__(
        self,
        sampler: Any,
        dataset: Any,
        *,
        rank: int | None = None,
        positions: Sequence[int] | npt.NDArray[np.int64] | None = None,
    ) -> None:
        planner = _planner(dataset)
        if planner is None:
            raise TypeError(f"`dataset` must be a Forebay data set: {type(dataset).__name__}")
        self.sampler = sampler
        self._planner = planner
        self._positions = None if positions is None else np.asarray(positions, dtype=np.int64)
        self._rank, self._world_size = _place_in_world(rank, None if rank is None else rank + 1)

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        if name == "sampler":
            raise AttributeError(name)
        return getattr(self.sampler, name)

    def __iter__(self) -> Iterator[Any]:
        drawn = list(self.sampler)
        _silence(self.sampler)
        batched = bool(drawn) and isinstance(drawn[0], (list, tuple))
        sizes = [len(batch) for batch in drawn] if batched else [1] * len(drawn)
        flat = (index for batch in drawn for index in batch) if batched else iter(drawn)
        order = np.fromiter(flat, dtype=np.int64, count=sum(sizes))
        following = None
        if isinstance(self.sampler, Sampler):
            following = self._mapped(self.sampler.order(self.sampler.epoch + 1))
        about = {"rank": self._rank, "world_size": self._world_size}
        plan = self._planner.begin(
            self._mapped(order), following, epoch=0, batch=sizes[0] if batched else 0, **about
        )
        return _handed_out(drawn, sizes, plan)

    def _mapped(self, order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return order if self._positions is None else self._positions[order]


def _silence(sampler: Any) -> None:
    """Let the wrapped sampler's own announcement go: its order was only drawn, and nothing taken."""
    while sampler is not None:
        if isinstance(sampler, Sampler) and sampler._planner is not None:
            sampler._planner.end()
        sampler = getattr(sampler, "sampler", None)


def _handed_out(drawn: list[Any], sizes: list[int], plan: Plan | None) -> Iterator[Any]:
    taken = 0
    for item, size in zip(drawn, sizes, strict=True):
        taken += size
        if plan is not None:
            plan.take(taken)
        yield item


class SampleSource(Protocol):
    """What `Dataset` reads from: `forebay.Dataset`, or anything that looks like it."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Mapping[str, Array]: ...

    def read_batch(self, indices: Sequence[int], /) -> Sequence[Mapping[str, Array]]: ...


class Dataset(torch.utils.data.Dataset[Any]):
    """A map-style data set whose samples are dicts of tensors, one per field.

    A `DataLoader` asks for a whole batch in one call (`__getitems__`), so that the bytes of the
    batch land in one buffer; the tensors are views into it. Give `num_workers` and any start
    method (fork, forkserver, spawn): a worker opens its own connections.

    Args:
        source: path of a sample index (opened with `forebay.open`), or an opened data set.
        root: folder that holds the origin files, if not the one written in the index.
        cache: cache folder on node-local storage, if not the default.
        transform: called with each sample; its result is what the data set returns. Under spawn
            and forkserver it must pickle.
        fields: name or names of the fields to return, if not all.
        as_tensor: `False` returns numpy arrays.

    Samples of one batch may differ in size, as atoms, images and texts do. PyTorch's own
    `default_collate` stacks equal sizes only and fails on others: decode, pad or crop them in
    `transform`, or give the loader a `collate_fn`.

    Tensors share memory with the arrays that were read. An array that is read-only is copied
    first, because writing to a tensor over it would crash; fields that torch has no type for
    (text, for one) stay numpy arrays.

    Raises:
        ForebayError: the index cannot be opened.
        TypeError: `root` or `cache` is given with a data set that is already open.
        KeyError: a sample has no field of a name in `fields` (when the sample is read).
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | SampleSource,
        *,
        root: str | os.PathLike[str] | None = None,
        cache: str | os.PathLike[str] | None = None,
        transform: Callable[[Sample], Any] | None = None,
        fields: str | Sequence[str] | None = None,
        as_tensor: bool = True,
    ) -> None:
        self.source = _opened(source, root, cache)
        self.transform = transform
        self.fields = _names(fields)
        self.as_tensor = as_tensor

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        """Sample `index`, after `transform`."""
        return self._finish(self.source[index])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples of `indices`, in that order, read by one call."""
        return [self._finish(arrays) for arrays in self.source.read_batch(indices)]

    def _finish(self, arrays: Mapping[str, Array]) -> Any:
        if self.fields is not None:
            arrays = _chosen(arrays, self.fields)
        sample = {
            name: _tensor(array) if self.as_tensor else array for name, array in arrays.items()
        }
        return sample if self.transform is None else self.transform(sample)


def _planner(source: Any) -> Planner | None:
    """What announces orders to the daemon of `source`, if it has one."""
    if isinstance(source, Dataset):
        source = source.source
    return Planner(source) if isinstance(source, forebay.Dataset) else None


def _opened(
    source: str | os.PathLike[str] | SampleSource,
    root: str | os.PathLike[str] | None,
    cache: str | os.PathLike[str] | None,
) -> SampleSource:
    if isinstance(source, (str, os.PathLike)):
        opened: SampleSource = forebay.open(source, root=root, cache=cache)
        return opened
    if root is not None or cache is not None:
        raise TypeError("`root` and `cache` go with a path: this data set is already open")
    return source


def _chosen(arrays: Mapping[str, Array], names: Sequence[str]) -> Mapping[str, Array]:
    try:
        return {name: arrays[name] for name in names}
    except KeyError as error:
        raise KeyError(f"samples have no field {error}: they have {', '.join(arrays)}") from None


def _names(fields: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Names of fields; a lone name is not a sequence of letters."""
    if fields is None:
        return None
    return (fields,) if isinstance(fields, str) else tuple(fields)


def _tensor(array: Array) -> torch.Tensor | Array:
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    elif not array.flags.writeable:
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except TypeError:
        return array


def _as_ints(order: npt.NDArray[np.int64]) -> Iterator[int]:
    for start in range(0, len(order), _INDEX_RUN):
        yield from order[start : start + _INDEX_RUN].tolist()


def _count(name: str, value: Any) -> int:
    """`value` as a Python int, if it is a whole number and not negative."""
    try:
        count = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = -1
    if count < 0:
        raise ValueError(f"`{name}` is {value!r}, but must be a whole number, 0 or more")
    return count


def _place_in_world(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if rank is None or world_size is None:
        found_rank, found_size = _surroundings()
        rank = found_rank if rank is None else rank
        world_size = found_size if world_size is None else world_size
    rank, world_size = _count("rank", rank), _count("world_size", world_size)
    if rank >= world_size:
        raise ValueError(f"`rank` is {rank}, but must be below `world_size`, which is {world_size}")
    return rank, world_size


def _surroundings() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return _from_environment("RANK", 0), _from_environment("WORLD_SIZE", 1)


def _from_environment(name: str, otherwise: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return otherwise
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"environment variable `{name}` is `{text}`, not a number") from None


def _check_state(state: Any) -> None:
    if not isinstance(state, Mapping):
        raise ValueError(f"sampler state is {state!r}, but must be what `state_dict` returned")
    version = state.get("version")
    if version != _STATE_VERSION:
        raise ValueError(
            f"sampler state has version {version!r}, this forebay reads version {_STATE_VERSION}"
        )
    if set(state) != _STATE_KEYS:
        odd = sorted(set(state) ^ _STATE_KEYS)
        raise ValueError(f"sampler state has missing or unknown fields: {', '.join(odd)}")
    for name in ("seed", "epoch", "position", "length"):
        _count(name, state[name])
    for name in ("shuffle", "drop_last"):
        if not isinstance(state[name], bool):
            raise ValueError(f"`{name}` is {state[name]!r}, but must be true or false")
    if state["position"] > state["length"]:
        raise ValueError(
            f"sampler state has position {state['position']} of {state['length']} samples"
        )
