"""Any sampler, its order told to the daemon."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.utils.data

from forebay._plan import HandedOut, planner_of
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
        return _Drawn(self)

    def _draw(self) -> HandedOut:
        drawn = list(self.sampler)
        _silence(self.sampler)
        batched = bool(drawn) and isinstance(drawn[0], (list, tuple))
        sizes = [len(batch) for batch in drawn] if batched else None
        flat = (index for batch in drawn for index in batch) if batched else iter(drawn)
        length = len(drawn) if sizes is None else sum(sizes)
        order = np.fromiter(flat, dtype=np.int64, count=length)
        following = None
        if isinstance(self.sampler, Sampler):
            following = functools.partial(_mapped, self._positions, self.sampler.following())
        announced = self._planner.begin(
            order if self._positions is None else self._positions[order],
            following,
            epoch=0,
            rank=self._rank,
            world_size=self._world_size,
            batch=sizes[0] if sizes else 0,
        )
        return HandedOut(drawn, sizes, announced)


def _mapped(
    positions: npt.NDArray[np.int64] | None, order: Callable[[], npt.NDArray[np.int64]]
) -> npt.NDArray[np.int64]:
    return order() if positions is None else positions[order()]


def _silence(sampler: Any) -> None:
    """Let a wrapped sampler's own announcement go: its order was only drawn, and nothing taken."""
    for each in samplers_in(sampler):
        planner = each.__dict__.get("_planner")
        if planner is not None:
            planner.end()


def _generator(sampler: Any) -> torch.Generator | None:
    """What a sampler, or one inside it, draws from, if that is its own."""
    for each in samplers_in(sampler):
        generator = each.__dict__.get("generator")
        if isinstance(generator, torch.Generator):
            return generator
    return None


def samplers_in(sampler: Any) -> Iterator[Any]:
    """A sampler, and those that it takes its positions from, from the outermost on."""
    while hasattr(sampler, "__dict__"):
        yield sampler
        sampler = sampler.__dict__.get("sampler")


class _Drawn(Iterator[Any]):
    """An order that is drawn when its first item is asked for, as generators of PyTorch are.

    Its place can be kept and found again, with the state that its random generator had.
    """

    def __init__(self, sampler: LookAhead) -> None:
        self._sampler = sampler
        self._order: HandedOut | None = None
        self._generator: torch.Tensor | None = None

    def __next__(self) -> Any:
        return next(self._begun())

    def _begun(self) -> HandedOut:
        if self._order is None:
            generator = _generator(self._sampler)
            self._generator = None if generator is None else generator.get_state()
            self._order = self._sampler._draw()
        return self._order

    def state_dict(self) -> dict[str, Any]:
        """Which order it is, as far as that is in a generator, and how much was handed out."""
        if self._order is None:
            return {"handed_out": 0, "generator": None}
        return {**self._order.state_dict(), "generator": self._generator}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        generator = _generator(self._sampler)
        if generator is not None and state["generator"] is not None:
            generator.set_state(state["generator"])
        self._order = None
        if state["handed_out"]:
            self._begun().load_state_dict(state)
