"""Raw records of a run as JSON lines: written as measured, summarised elsewhere."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

TOOL = "forebay-demo"
FORMAT = 1
# How the trainer reads its samples, in the order in which the demo runs them.
PATHS = ("direct", "forebay")


@dataclass(frozen=True)
class Iteration:
    """One training step; all times in seconds. `total_s` is the time to the end of the step."""

    path: str
    epoch: int
    iteration: int
    rank: int
    wait_s: float
    forward_s: float
    backward_s: float
    optimizer_s: float
    total_s: float

    @property
    def compute_s(self) -> float:
        """The window in which the next batch can be read unnoticed."""
        return self.total_s - self.wait_s


@dataclass(frozen=True)
class Epoch:
    """One pass over the data.

    `asked_bytes`: what the trainer asked for. `origin_bytes`: what was read from the origin for
    it; `None` where nothing counts them.
    """

    path: str
    epoch: int
    wall_s: float
    asked_bytes: int
    origin_bytes: int | None


def package_version(package: str) -> str | None:
    """Version of an installed package, `None` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def manifest(inputs: dict[str, Any], conditions: list[str]) -> dict[str, Any]:
    """The first record of a run: what was run, where, and under which conditions."""
    packages = ("forebay", "torch", "h5py", "numpy")
    return {
        "record": "manifest",
        "format": FORMAT,
        "tool": TOOL,
        "version": package_version("forebay") or "unknown",
        "started_unix_ns": time.time_ns(),
        "host": {
            "name": platform.node(),
            "kernel": platform.release(),
            "machine": platform.machine(),
            "cpus": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
            "packages": {package: package_version(package) for package in packages},
        },
        "inputs": inputs,
        "conditions": conditions,
    }


def start(file: Path, first: dict[str, Any]) -> None:
    """Begin a file of records with its manifest, in place of an older file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(first) + "\n")


def append(file: Path, records: list[Iteration | Epoch]) -> None:
    """Add records at the end of a file."""
    with file.open("a") as out:
        for record in records:
            kind = {"record": type(record).__name__.lower()}
            out.write(json.dumps(kind | asdict(record)) + "\n")


def read(file: Path) -> Iterator[Iteration | Epoch]:
    """The iterations and epochs of a file, in the order they were written."""
    kinds: dict[str, type[Iteration] | type[Epoch]] = {"iteration": Iteration, "epoch": Epoch}
    with file.open() as lines:
        for line in lines:
            fields = json.loads(line)
            kind = kinds.get(fields.pop("record"))
            if kind is not None:
                yield kind(**fields)
