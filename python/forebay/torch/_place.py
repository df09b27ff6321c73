"""Numbers that users give, and where a rank is in its job."""

from __future__ import annotations

import operator
import os
from typing import Any

import torch


def count(name: str, value: Any) -> int:
    """`value` as a Python int, if it is a whole number and not negative."""
    try:
        count = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = -1
    if count < 0:
        raise ValueError(f"`{name}` is {value!r}, but must be a whole number, 0 or more")
    return count


def place_in_world(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if rank is None or world_size is None:
        found_rank, found_size = _surroundings()
        rank = found_rank if rank is None else rank
        world_size = found_size if world_size is None else world_size
    rank, world_size = count("rank", rank), count("world_size", world_size)
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
