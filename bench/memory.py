"""Free memory that costs nobody a first touch.

A virtual machine gives free memory back to its host, and the first write to each page of it later
costs a fault in the host: several times what the copy of the page costs. A cache that takes in
blocks writes to free pages all the time, and a bare read into one buffer never does, so without
this a comparison of the two tells of the host.
"""

from __future__ import annotations

import mmap
import time
from contextlib import suppress

_MIB = 1 << 20
_AMOUNT = 512 * _MIB
# The kernel reports free memory to the host two seconds after it became free.
_EVERY_S = 0.5


class BackedMemory:
    """Writes to as much free memory as a second of work takes, again and again."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._page = b"\1" * _MIB

    def renew(self) -> None:
        """Take memory, write to it, and give it back, unless that was done just now."""
        if time.monotonic() < self._since + _EVERY_S:
            return
        with mmap.mmap(-1, _AMOUNT, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            # Small pages come out of what is scattered, which the host never takes; a cache's come
            # out of the large pieces, as huge pages do.
            with suppress(OSError):
                memory.madvise(mmap.MADV_HUGEPAGE)
            for _ in range(_AMOUNT // _MIB):
                memory.write(self._page)
        self._since = time.monotonic()
