"""Any sampler, its order told to the daemon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch.utils.data

from forebay._plan import Announced, planner_of
from forebay.torch._place import place_in_world
from forebay.torch.sampler import Sampler


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
        planner = planner_of(dataset)
        if planner is None:
            raise TypeError(f"`dataset` must be a Forebay data set: {type(dataset).__name__}")
        self.sampler = sampler
        self._planner = planner
        self._positions = None if positions is None else np.asarray(positions, dtype=np.int64)
        self._rank, self._world_size = place_in_world(rank, None if rank is None else rank + 1)

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
        announced = self._planner.begin(
            self._mapped(order), following, epoch=0, batch=sizes[0] if batched else 0, **about
        )
        return _handed_out(drawn, sizes, announced)

    def _mapped(self, order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return order if self._positions is None else self._positions[order]


def _silence(sampler: Any) -> None:
    """Let the wrapped sampler's own announcement go: its order was only drawn, and nothing taken."""
    while sampler is not None:
        if isinstance(sampler, Sampler) and sampler._planner is not None:
            sampler._planner.end()
        sampler = getattr(sampler, "sampler", None)


def _handed_out(drawn: list[Any], sizes: list[int], announced: Announced) -> Iterator[Any]:
    taken = 0
    for item, size in zip(drawn, sizes, strict=True):
        taken += size
        announced.take(taken)
        yield item
