"""From the arrays of one sample to the batch that the model sees, alike on both paths.

The digest covers every byte of every field. The model then sees the core of the complex: the
ligand and the nearest pocket atoms, which are the first atoms of a sample. That keeps a training
step on a CPU as short as one on a GPU; every byte has been read all the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from forebay.fabric.egnn import GraphBatch

FIELDS = ("coord", "feat", "edge_index", "edge_attr")
# The largest ligand has 40 atoms, so a core always holds the whole of it.
CORE_ATOMS = 40

Arrays = Mapping[str, NDArray[Any]]


@dataclass
class Example:
    """One sample in a worker: what it is, its digest, and the graph for the model."""

    index: int
    digest: tuple[int, ...]
    sample_bytes: int
    coord: NDArray[np.float32]
    feat: NDArray[np.float32]
    edge_index: NDArray[np.int64]
    edge_attr: NDArray[np.float32]
    target: float


@dataclass
class Batch:
    """What a worker hands to the trainer.

    `index` (B) positions in the data set, `digest` (B, 4) one CRC-32 a field, `sample_bytes` the
    decoded size of all samples, `arrays` the fields of a `GraphBatch`.

    Arrays and not tensors: a worker sends each tensor by a descriptor and a connection of its own,
    which for arrays as small as these costs more than to copy them.
    """

    index: NDArray[np.int64]
    digest: NDArray[np.int64]
    sample_bytes: int
    arrays: dict[str, NDArray[Any]]
    # Time that its worker spent on it, in seconds.
    worker_s: float = 0.0

    @cached_property
    def graphs(self) -> GraphBatch:
        """The batch as the model takes it."""
        return GraphBatch(**{name: torch.from_numpy(array) for name, array in self.arrays.items()})


def digest(arrays: Arrays) -> tuple[int, ...]:
    """One CRC-32 for each field over its type, shape and bytes."""
    values = []
    for name in FIELDS:
        array = np.ascontiguousarray(arrays[name])
        label = f"{array.dtype.str}{array.shape}".encode()
        values.append(zlib.crc32(array.data, zlib.crc32(label)))
    return tuple(values)


def example(index: int, arrays: Arrays, target: float, core_atoms: int = CORE_ATOMS) -> Example:
    """Digest a sample and cut out the core that the model sees."""
    edge_index = arrays["edge_index"]
    inside = (edge_index < core_atoms).all(axis=0)
    return Example(
        index=index,
        digest=digest(arrays),
        sample_bytes=sum(arrays[name].nbytes for name in FIELDS),
        coord=np.array(arrays["coord"][:core_atoms]),
        feat=np.array(arrays["feat"][:core_atoms]),
        edge_index=edge_index[:, inside].astype(np.int64),
        edge_attr=arrays["edge_attr"][inside],
        target=target,
    )


def collate(examples: list[Example]) -> Batch:
    """Join examples into one batch; atom numbers run on from graph to graph."""
    sizes = np.array([len(item.coord) for item in examples])
    starts = np.cumsum(sizes) - sizes
    edges = [item.edge_index + start for item, start in zip(examples, starts, strict=True)]
    return Batch(
        index=np.array([item.index for item in examples]),
        digest=np.array([item.digest for item in examples]),
        sample_bytes=sum(item.sample_bytes for item in examples),
        arrays={
            "coord": np.concatenate([item.coord for item in examples]),
            "feat": np.concatenate([item.feat for item in examples]),
            "edge_index": np.concatenate(edges, axis=1),
            "edge_attr": np.concatenate([item.edge_attr for item in examples]),
            "graph": np.repeat(np.arange(len(examples)), sizes),
            "target": np.array([item.target for item in examples], dtype=np.float32),
        },
    )
