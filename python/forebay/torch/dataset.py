"""Samples as tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt
import torch
import torch.utils.data

import forebay

Array: TypeAlias = npt.NDArray[Any]
Sample: TypeAlias = dict[str, Any]


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
