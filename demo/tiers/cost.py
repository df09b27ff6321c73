"""What a sample cost a loader worker in a run of the demonstration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from demo.run import Places


@dataclass(frozen=True)
class SampleCost:
    """Of the run itself: what a worker takes depends on what else its processors do meanwhile.

    `direct_ms`: a worker's time for a sample that it reads from the origin, less the delays of the
    emulated tier. `staged_ms`: its time for one that is resident. `reads`: reads of a sample.
    """

    direct_ms: float
    staged_ms: float
    reads: float

    @classmethod
    def of(cls, places: Places, samples: int) -> SampleCost:
        """From what the workers and the tier have counted, over epochs of so many samples."""
        direct, staged = (_worker_s(places, path) for path in ("direct", "forebay"))
        tier: dict[str, Any] = json.loads(places.tier("direct").read_text())
        delays_s = sum(_delays_s(tier[kind]) for kind in ("read", "metadata"))
        every = samples * len(direct)
        return cls(
            direct_ms=1e3 * max(0.0, sum(direct) - delays_s) / every,
            # In the last epoch nothing is waited for.
            staged_ms=1e3 * staged[-1] / samples,
            reads=tier["read"]["ok"] / every,
        )


def _worker_s(places: Places, path: str) -> list[float]:
    """Seconds of all workers, epoch by epoch."""
    with np.load(places.seen(path)) as seen:
        return [float(seconds) for seconds in seen["worker_s"]]


def _delays_s(served: dict[str, Any]) -> float:
    """What the tier made requests of one kind wait, in seconds."""
    of_one_ms: float = served["delay"]["mean_ms"] + served["queued"]["mean_ms"]
    return served["ok"] * of_one_ms / 1e3
