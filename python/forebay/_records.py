"""Raw records of a training run, one file for each rank (`docs/RECORDS.md`)."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from forebay._native import __version__

# Lines are written out after so many seconds, so that a run can be looked at while it goes on.
_FLUSH_S = 1.0


class RecordFile:
    """Where one rank of one run writes down what it measured, line by line."""

    def __init__(self, folder: str | os.PathLike[str], *, rank: int, inputs: dict[str, Any]) -> None:
        """Begin a file of its own in `folder`, which is made if need be.

        Raises:
            OSError: it cannot be written.
        """
        Path(folder).mkdir(parents=True, exist_ok=True)
        started = time.time_ns()
        self.path = Path(folder) / f"rank-{rank}-{started}-{os.getpid()}.jsonl"
        self._file = self.path.open("x")
        self._flushed = time.monotonic()
        self.write(
            "manifest",
            format=1,
            tool="forebay.torch",
            version=__version__,
            started_unix_ns=started,
            host={
                "name": platform.node(),
                "kernel": platform.release(),
                "cpus": len(os.sched_getaffinity(0)),
                "python": platform.python_version(),
            },
            inputs=inputs,
            conditions=[],
        )

    def write(self, kind: str, **fields: Any) -> None:
        """Append one record."""
        self._file.write(json.dumps({"record": kind, **fields}) + "\n")
        now = time.monotonic()
        if now >= self._flushed + _FLUSH_S:
            self._flushed = now
            self._file.flush()

    def flush(self) -> None:
        """Let others see what was written."""
        self._file.flush()
