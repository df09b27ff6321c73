"""The order in which a rank takes samples, and exact places in it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.utils.data

from forebay._plan import HandedOut, planner_of
from forebay.torch._place import count, place_in_world

_STATE_VERSION = 1
_STATE_KEYS = frozenset({"version", "seed", "epoch", "position", "length", "shuffle", "drop_last"})


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
        self._planner = planner_of(source) if look_ahead else None
        self.length = count("source", len(source) if isinstance(source, Sized) else source)
        self.seed = count("seed", seed)
        self.rank, self.world_size = place_in_world(rank, world_size)
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
        epoch = count("epoch", epoch)
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
        if count("start", start) > self.length:
            raise ValueError(f"`start` is {start}, but there are {self.length} samples")
        return self._orders().of(count("epoch", epoch), start)

    def following(self) -> Callable[[], npt.NDArray[np.int64]]:
        """What makes the order of the epoch after this one. It does not hold the sampler."""
        return functools.partial(self._orders().of, self.epoch + 1)

    def __iter__(self) -> Iterator[int]:
        if not self._resuming:
            self._start = 0
        self._resuming = False
        order = self.order(self.epoch, start=self._start)
        if self._planner is None:
            return HandedOut(order, None, None)
        about = {"epoch": self.epoch, "rank": self.rank, "world_size": self.world_size}
        announced = self._planner.begin(order, self.following(), **about)
        return HandedOut(order, None, announced)

    def state_dict(self, *, consumed: int | None = None) -> dict[str, Any]:
        """A place in the epoch, as a plain dict that JSON can hold.

        Args:
            consumed: samples that this rank has trained on since its current iteration began (for
                a resumed iteration: since the resume). Samples that loader workers have fetched
                but the training loop has not seen do not count. All ranks must have consumed
                equally many, as they have at the end of an iteration of data-parallel training:
                the place is `consumed * world_size` samples into the order, so every rank gets
                the same state and one of them may write it. Without it, the place where the
                iteration began: for loaders that keep the place in it themselves, as
                `torchdata.stateful_dataloader.StatefulDataLoader` does.

        Raises:
            ValueError: `consumed` is negative or more than this iteration holds.
        """
        if consumed is None:
            consumed = 0
        if count("consumed", consumed) > self.remaining:
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
        return self._orders().share(samples)

    def _orders(self) -> _Orders:
        return _Orders(
            self.length, self.seed, self.rank, self.world_size, self.shuffle, self.drop_last
        )


@dataclass(frozen=True)
class _Orders:
    """The orders of all epochs of one rank."""

    length: int
    seed: int
    rank: int
    world_size: int
    shuffle: bool
    drop_last: bool

    def of(self, epoch: int, start: int = 0) -> npt.NDArray[np.int64]:
        """Of an epoch, without the first `start` samples of all ranks."""
        everything = self._permutation(epoch)
        share = self.share(self.length - start)
        own = everything[start + self.rank :: self.world_size][:share]
        if len(own) < share:
            # Positions past the end wrap round: that is the padding from the head of the order.
            padding = np.arange(len(own), share, dtype=np.int64)
            positions = (start + self.rank + self.world_size * padding) % max(self.length, 1)
            return np.concatenate([own, everything[positions]])
        # A part of the whole order would keep all of it in memory.
        return everything if len(own) == len(everything) else own.copy()

    def share(self, samples: int) -> int:
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
        count(name, state[name])
    for name in ("shuffle", "drop_last"):
        if not isinstance(state[name], bool):
            raise ValueError(f"`{name}` is {state[name]!r}, but must be true or false")
    if state["position"] > state["length"]:
        raise ValueError(
            f"sampler state has position {state['position']} of {state['length']} samples"
        )
