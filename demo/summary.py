"""From raw records to the figures of the demo."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from demo.records import Epoch, Iteration


@dataclass(frozen=True)
class EpochFigures:
    """One epoch on one path. The window is the median compute time of its own iterations."""

    path: str
    epoch: int
    wall_s: float
    iterations: int
    wait_median_ms: float
    wait_p95_ms: float
    wait_max_ms: float
    over_window_share: float
    window_ms: float
    asked_bytes: int
    origin_bytes: int | None

    def as_json(self) -> dict[str, Any]:
        """The fields that `summary.json` has for an epoch."""
        names = (
            "path",
            "epoch",
            "wall_s",
            "iterations",
            "wait_median_ms",
            "wait_p95_ms",
            "wait_max_ms",
            "over_window_share",
        )
        return {name: getattr(self, name) for name in names}


def figures(run: Iterable[Iteration | Epoch]) -> list[EpochFigures]:
    """One row for each epoch that ended, in the order of the records."""
    steps: dict[tuple[str, int], list[Iteration]] = {}
    rows = []
    for record in run:
        key = (record.path, record.epoch)
        if isinstance(record, Iteration):
            steps.setdefault(key, []).append(record)
        else:
            rows.append(_epoch_figures(record, steps[key]))
    return rows


def _epoch_figures(end: Epoch, steps: list[Iteration]) -> EpochFigures:
    waits = np.array([step.wait_s for step in steps])
    window = float(np.median([step.compute_s for step in steps]))
    return EpochFigures(
        path=end.path,
        epoch=end.epoch,
        wall_s=end.wall_s,
        iterations=len(steps),
        wait_median_ms=1e3 * float(np.median(waits)),
        wait_p95_ms=1e3 * float(np.quantile(waits, 0.95)),
        wait_max_ms=1e3 * float(waits.max()),
        over_window_share=float((waits > window).mean()),
        window_ms=1e3 * window,
        asked_bytes=end.asked_bytes,
        origin_bytes=end.origin_bytes,
    )


def speedups(rows: list[EpochFigures]) -> dict[str, float]:
    """Wall time of direct over that of Forebay, for each epoch that both have."""
    walls = {(row.path, row.epoch): row.wall_s for row in rows}
    return {
        f"epoch{epoch}": walls["direct", epoch] / wall
        for (path, epoch), wall in walls.items()
        if path == "forebay" and ("direct", epoch) in walls
    }


def origin_bytes_over_asked(rows: list[EpochFigures]) -> float | None:
    """Bytes that Forebay read from the origin over bytes asked of it, all epochs together."""
    staged = [row for row in rows if row.path == "forebay" and row.origin_bytes is not None]
    asked = sum(row.asked_bytes for row in staged)
    return sum(row.origin_bytes or 0 for row in staged) / asked if asked else None


def differences(direct: Path, staged: Path, samples: int) -> list[str]:
    """What differs between what the two paths delivered; empty if every sample was identical.

    Compares the order, the digest of every field of every sample of every epoch, and the loss of
    every step, and that each epoch delivered every sample exactly once.
    """
    with np.load(direct) as first, np.load(staged) as second:
        one = {name: first[name] for name in ("index", "digest", "loss")}
        two = {name: second[name] for name in ("index", "digest", "loss")}
    found = []
    for name, label in (("index", "order of samples"), ("digest", "bytes"), ("loss", "losses")):
        if one[name].shape != two[name].shape:
            found.append(f"{label}: {one[name].shape} values against {two[name].shape}")
        elif not np.array_equal(one[name], two[name]):
            where = np.argwhere(one[name] != two[name])[0].tolist()
            found.append(f"{label}: first difference at {where}")
    every = np.arange(samples)
    for epoch, order in enumerate(one["index"], 1):
        if not np.array_equal(np.sort(order), every):
            found.append(f"epoch {epoch} did not deliver each of {samples} samples once")
    return found


def summary(rows: list[EpochFigures], identical: bool, samples: int, seed: int) -> dict[str, Any]:
    """The content of `summary.json`."""
    return {
        "epochs": [row.as_json() for row in rows],
        "speedup": speedups(rows),
        "origin_bytes_over_asked": origin_bytes_over_asked(rows),
        "identical": identical,
        "samples": samples,
        "seed": seed,
    }


def write(file: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, complete or not at all."""
    unfinished = file.with_name(f"{file.name}.unfinished")
    unfinished.write_text(json.dumps(content, indent=2) + "\n")
    unfinished.replace(file)
