"""A cache folder and the daemon that serves it, as tests need them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import forebay

# A hang, and not slowness, is a failure: as long as nothing else ends the test.
PATIENCE_S = 60.0


def eventually(what: str, happened: Callable[[], Any]) -> None:
    """Returns once `happened` is true; fails if that does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"it did not come: {what}"
        time.sleep(0.02)


@dataclass
class Node:
    """One cache folder."""

    cache: Path

    def open(self, index: Path, **options: Any) -> forebay.Dataset:
        return forebay.open(index, cache=self.cache, **options)

    def status(self) -> dict[str, Any]:
        return forebay.status(self.cache)

    def daemons(self) -> list[int]:
        """Process ids of the daemons that serve this folder; in the end, one at most."""
        return [
            process.pid
            for process in psutil.process_iter(["cmdline", "status"])
            if _serves(process.info["cmdline"], self.cache)
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ]

    def stop(self) -> None:
        """Stops the daemon, if there is one, and sees it end and take its socket along."""
        try:
            forebay.stop(self.cache)
        except forebay.UnavailableError:
            pass
        eventually("the daemon ends", lambda: not self.daemons())
        assert not (self.cache / "daemon.sock").exists()

    def kill(self) -> None:
        """Ends the daemon as the kernel does when memory runs out."""
        (pid,) = self.daemons()
        psutil.Process(pid).kill()
        eventually("the daemon is dead", lambda: not self.daemons())


def _serves(command: list[str] | None, cache: Path) -> bool:
    return bool(command) and command[1:2] == ["serve"] and str(cache) in command
