"""The hits that a cache gives at best, where the whole order is known. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import chain

_NEVER = 1 << 62


def hits(order: Sequence[Iterable[int]], capacity: int) -> int:
    """Hits of Belady's policy on accesses to blocks.

    A block that is needed later than all that are kept is not kept: it is read through.

    Args:
        order: the blocks of each sample, in the order in which the samples are read.
        capacity: blocks that the cache holds.
    """
    accesses = list(chain.from_iterable(order))
    following = _next_uses(accesses)
    kept: dict[int, int] = {}
    # Latest next use first. An entry whose next use is not that in `kept` is outdated.
    latest: list[tuple[int, int]] = []
    found = 0
    for block, after in zip(accesses, following, strict=True):
        if block in kept:
            found += 1
        elif len(kept) >= capacity:
            while latest and kept.get(latest[0][1]) != -latest[0][0]:
                heapq.heappop(latest)
            if not latest or -latest[0][0] <= after:
                continue
            del kept[heapq.heappop(latest)[1]]
        kept[block] = after
        heapq.heappush(latest, (-after, block))
    return found


def _next_uses(accesses: Sequence[int]) -> list[int]:
    """For each access, when its block is needed next."""
    following = [_NEVER] * len(accesses)
    seen: dict[int, int] = {}
    for time in range(len(accesses) - 1, -1, -1):
        following[time] = seen.get(accesses[time], _NEVER)
        seen[accesses[time]] = time
    return following
