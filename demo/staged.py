"""Reading samples through Forebay: the file of the demo that reads by its Python package."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset, Sampler

import forebay
import forebay.torch
from demo.graphs import FIELDS, Example, example
from demo.sair import Row


class StagedDataset(Dataset[Example]):
    """Samples of the index at `index`, whose origin lies under `root`, staged in `cache`."""

    def __init__(self, index: Path, root: Path, cache: Path, rows: list[Row]) -> None:
        with warnings.catch_warnings():
            # Without a daemon Forebay reads on without a cache, and says so: no demonstration.
            warnings.simplefilter("error", RuntimeWarning)
            source = forebay.open(index, root=root, cache=cache)
        if len(source) != len(rows):
            raise ValueError(f"index `{index}` has {len(source)} samples, manifest {len(rows)}")
        # The index has its samples in the order of the files, the manifest in that of the keys.
        found = [source.find(row.key) for row in rows]
        for position, row in zip(found, rows, strict=True):
            if position is None:
                raise ValueError(f"index `{index}` has no sample `{row.key}`")
        self.source = source
        self.positions = np.array(found, dtype=np.int64)
        self._samples: Any = forebay.torch.Dataset(source)
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Example:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[Example]:
        """One call into Forebay for the whole batch."""
        samples = self._samples.__getitems__(self.positions[indices].tolist())
        return [
            example(
                index,
                {name: np.asarray(sample[name]) for name in FIELDS},
                self._rows[index].affinity,
            )
            for index, sample in zip(indices, samples, strict=True)
        ]


class StagedSampler(Sampler[int]):
    """Forebay's sampler with the seed of the run; its order is staged ahead of need."""

    def __init__(self, dataset: StagedDataset, seed: int) -> None:
        order = forebay.torch.Sampler(len(dataset), seed=seed, rank=0, world_size=1)
        self._sampler: Any = forebay.torch.LookAhead(
            order, dataset.source, rank=0, positions=dataset.positions
        )

    def set_epoch(self, epoch: int) -> None:
        """Shuffle for `epoch`, counted from 0."""
        self._sampler.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sampler)


def traffic(cache: Path) -> tuple[int, int]:
    """Bytes asked by trainers and bytes read from the origin, since the daemon started.

    A client that cannot wait for the daemon reads the origin itself: those bytes count too.
    """
    status = forebay.status(cache=cache)
    return int(status["asked_bytes"]), int(status["origin_bytes"]) + int(status["direct_bytes"])
