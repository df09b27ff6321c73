"""A data set as a map: position → dict of numpy arrays."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from forebay import _native
from forebay._command import find_command
from forebay.errors import make

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Dataset", "Field"]

Array: TypeAlias = npt.NDArray[Any]
Sample: TypeAlias = dict[str, Array]
PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Field:
    """One field of every sample: its name and the type of its elements."""

    name: str
    dtype: np.dtype[Any]


class Dataset(_native.Dataset):
    """An open data set: `len(ds)` samples, each a dict of numpy arrays by field name.

    Made by `forebay.open`. Reads go to the node's cache; what is not there yet is staged by the
    node's daemon. Safe to use from threads and in worker processes, whatever their start method;
    pickles as its path and generation.
    """

    fields: tuple[Field, ...]

    def __new__(
        cls,
        index: PathLike,
        *,
        root: PathLike | None = None,
        cache: PathLike | None = None,
        deadline_s: float = 60.0,
        capacity: int | str | None = None,
        policy: str | None = None,
        start_daemon: bool = True,
    ) -> Dataset:
        program = find_command() if start_daemon else None
        made = super().__new__(
            cls,
            os.fspath(index),
            _folder_or_url(root),
            None if cache is None else os.path.abspath(cache),
            deadline_s,
            program,
            _daemon_arguments(capacity, policy),
        )
        made._options = (deadline_s, capacity, policy, start_daemon)
        made.fields = tuple(Field(name, np.dtype(kind)) for name, kind in made.field_types())
        made._kinds = [(field.name, field.dtype, field.dtype.itemsize) for field in made.fields]
        if made.warning is not None and start_daemon:
            message = (
                f"reading the origin directly, without a cache: no daemon for cache folder "
                f"`{made.cache}`: {made.warning}"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=3)
        return made

    _options: tuple[float, int | str | None, str | None, bool]
    _kinds: list[tuple[str, np.dtype[Any], int]]

    def __getitem__(self, index: int, /) -> Sample:
        """Sample `index` as a dict of arrays of its own.

        Raises:
            IndexError: there is no such sample.
            ForebayError: it cannot be read; see `forebay.errors`.
        """
        size, layout = self.layout(index)
        out = np.empty(size, np.uint8)
        self.read_into(index, out)
        return self._arrays(out, layout)

    def read_batch(self, indices: Sequence[int], /) -> list[Sample]:
        """The samples of `indices`, in that order; their arrays are views into one buffer.

        What is not resident is asked of the daemon in one request.

        Raises:
            IndexError: there is no such sample.
            ForebayError: one of them cannot be read; see `forebay.errors`.
        """
        positions = [int(index) for index in indices]
        size, layouts = self.batch_layout(positions)
        out = np.empty(size, np.uint8)
        self.read_batch_into(positions, out)
        return [self._arrays(out, layout) for layout in layouts]

    def view(self, index: int, /) -> Sample:
        """Sample `index` without a copy: read-only arrays in the pages of the cache itself.

        The blocks under them are not evicted while the arrays live. A field that has to be
        decoded, or for which there is no room, is a copy. The arrays belong to this process: a
        child of `fork` must read its own.

        Raises:
            IndexError: there is no such sample.
            ForebayError: it cannot be read; see `forebay.errors`.
        """
        _, layout = self.layout(index)
        views = zip(self.views(index), self._kinds, layout, strict=True)
        return {
            name: np.frombuffer(memoryview(cast("Buffer", view)), dtype).reshape(shape)
            if len(view)
            else np.empty(shape, dtype)
            for view, (name, dtype, _), (_, shape) in views
        }

    def _arrays(
        self, out: npt.NDArray[np.uint8], layout: Sequence[tuple[int, list[int]]]
    ) -> Sample:
        arrays: Sample = {}
        for (name, dtype, size), (offset, shape) in zip(self._kinds, layout, strict=True):
            end = offset + size * math.prod(shape)
            arrays[name] = out[offset:end].view(dtype).reshape(shape)
        return arrays

    def __repr__(self) -> str:
        return f"<forebay.Dataset `{self.path}`: {len(self)} samples>"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _reopen, (self.path, self.root, self.cache, self.generation, *self._options)


def _folder_or_url(root: PathLike | None) -> str | None:
    """A folder as an absolute path; the URL of a store as it is."""
    if root is None:
        return None
    text = os.fspath(root)
    return text if "://" in text else os.path.abspath(text)


def _daemon_arguments(capacity: int | str | None, policy: str | None) -> list[str]:
    words = []
    if capacity is not None:
        words += ["--capacity", str(capacity)]
    if policy is not None:
        words += ["--policy", policy]
    return words


def _reopen(
    path: Path,
    root: Path | str,
    cache: Path,
    generation: str,
    deadline_s: float,
    capacity: int | str | None,
    policy: str | None,
    start_daemon: bool,
) -> Dataset:
    dataset = Dataset(
        path,
        root=root,
        cache=cache,
        deadline_s=deadline_s,
        capacity=capacity,
        policy=policy,
        start_daemon=start_daemon,
    )
    if dataset.generation != generation:
        raise make("stale", f"index `{path}` was replaced since this data set was pickled")
    return dataset
