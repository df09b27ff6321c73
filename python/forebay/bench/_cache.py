"""Dropping files from the page cache, and looking whether it helped."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Pages of a file that are looked at together.
_WINDOW = 1 << 30

_libc = ctypes.CDLL(None, use_errno=True)


class CacheError(Exception):
    """Files stay in the page cache though they must not."""


@dataclass
class Cache:
    """What was done so that reads would come from storage, over all iterations of a rank."""

    policy: str = "none"
    resident_bytes: int | None = None
    looked_at_bytes: int | None = None
    unknown: list[str] = field(default_factory=list)

    def drop(self, paths: Iterable[Path]) -> None:
        """Write files back and drop them, as the policy says, and look what is resident.

        Raises:
            CacheError: the policy is `verify` and pages stay.
            OSError: a file cannot be opened.
        """
        resident = looked_at = 0
        for path in paths:
            size = path.stat().st_size
            if self.policy != "none":
                _drop(path)
            found = resident_bytes(path, size)
            if found is None:
                reason = "residency cannot be measured here"
                if reason not in self.unknown:
                    self.unknown.append(reason)
                continue
            resident += found
            looked_at += size
        self.resident_bytes = (self.resident_bytes or 0) + resident
        self.looked_at_bytes = (self.looked_at_bytes or 0) + looked_at
        if self.policy == "verify" and resident > 0:
            raise CacheError(
                f"{resident} of {looked_at} bytes stay in the page cache after they were dropped: "
                "another process has them mapped, or the file system keeps them"
            )

    def described(self) -> dict[str, Any]:
        """As manifests have it."""
        looked = self.looked_at_bytes is not None
        cold = ["file data"] if looked and self.resident_bytes == 0 and not self.unknown else []
        not_cold = ["names and attributes", "caches of servers and devices", *self.unknown]
        if not cold:
            not_cold.insert(0, "file data")
        return {
            "policy": self.policy,
            "resident_before_bytes": self.resident_bytes,
            "looked_at_bytes": self.looked_at_bytes,
            "cold": cold,
            "not_cold": not_cold,
        }


def _drop(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # Only clean pages can be dropped.
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def resident_bytes(path: Path, size: int) -> int | None:
    """Bytes of a file in the page cache; None where the kernel does not say."""
    if size == 0:
        return 0
    descriptor = os.open(path, os.O_RDONLY)
    try:
        resident = 0
        for start in range(0, size, _WINDOW):
            length = min(_WINDOW, size - start)
            pages = _pages(descriptor, start, length)
            if pages is None:
                return None
            resident += min(length, pages * mmap.PAGESIZE)
        return resident
    finally:
        os.close(descriptor)


def _pages(descriptor: int, start: int, length: int) -> int | None:
    """Resident pages of a part of a file."""
    try:
        # Copy-on-write, so that its address can be taken; nothing is written or touched.
        mapped = mmap.mmap(descriptor, length, access=mmap.ACCESS_COPY, offset=start)
    except OSError:
        return None
    first = ctypes.c_char.from_buffer(mapped)
    try:
        answers = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
        address = ctypes.c_void_p(ctypes.addressof(first))
        if _libc.mincore(address, ctypes.c_size_t(length), answers) != 0:
            return None
        return sum(answer & 1 for answer in bytes(answers))
    finally:
        del first
        mapped.close()
