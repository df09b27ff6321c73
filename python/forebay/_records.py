"""Raw records of a training run, one file for each rank (`docs/RECORDS.md`)."""

from __future__ import annotations

import json
import os
import platform
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forebay._native import __version__

# Lines are written out after so many seconds, so that a run can be looked at while it goes on.
_FLUSH_S = 1.0


class RecordFile:
    """Where one rank of one run writes down what it measured, line by line."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        rank: int,
        inputs: dict[str, Any],
        tool: str = "forebay.torch",
        conditions: Sequence[str] = (),
    ) -> None:
        """Begin a file of its own in `folder`, which is made if need be.

        Raises:
            OSError: it cannot be written.
        """
        Path(folder).mkdir(parents=True, exist_ok=True)
        started = time.time_ns()
        self.path = Path(folder) / f"rank-{rank}-{started}-{os.getpid()}.jsonl"
        self.path.touch(exist_ok=False)
        # No open file that somebody would have to close: lines are kept until they are due.
        self._lines: list[str] = []
        self._flushed = time.monotonic()
        weakref.finalize(self, _append, self.path, self._lines, os.getpid())
        self.write(
            "manifest",
            format=1,
            tool=tool,
            version=__version__,
            started_unix_ns=started,
            host={
                "name": platform.node(),
                "kernel": platform.release(),
                "cpus": len(os.sched_getaffinity(0)),
                "python": platform.python_version(),
            },
            inputs=inputs,
            conditions=list(conditions),
        )

    def write(self, kind: str, **fields: Any) -> None:
        """Append one record."""
        self._lines.append(json.dumps({"record": kind, **fields}) + "\n")
        if time.monotonic() >= self._flushed + _FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Let others see what was written."""
        _append(self.path, self._lines, os.getpid())
        self._flushed = time.monotonic()


def _append(path: Path, lines: list[str], process: int) -> None:
    # A fork has a copy of what its parent has not written yet.
    if lines and process == os.getpid():
        with path.open("a") as file:
            file.write("".join(lines))
        lines.clear()
