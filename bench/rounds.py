"""Many short rounds, each of which times the baseline, the subject and a wake-up of the machine.

A machine that is busy with other things slows whatever runs at that moment. Rounds are short and
alternate which of the two goes first, and a figure is the median of what each round gave, so a
disturbance that outlasts a round meets both, and one that does not spoils a round and no more.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.memory import BackedMemory
from bench.ping_pong import PingPong

Floats = npt.NDArray[np.float64]
# Rounds that are run and not counted: first touches, lazy opening.
_WARM_UP = 3
# Ping-pongs in a round; the round has their median.
_PINGS = 3


@dataclass(frozen=True)
class Rounds:
    """Microseconds for each round: of the subject, of the baseline, of one ping-pong."""

    subject: Floats
    baseline: Floats
    ping_pong: Floats
    # Runnable tasks of the machine over the last minute, when the rounds were over.
    load: float

    def __len__(self) -> int:
        return len(self.subject)

    def conditions(self, **more: Any) -> dict[str, Any]:
        """The median times and `more`, for a row."""
        return {
            "subject_us": round(float(np.median(self.subject)), 3),
            "baseline_us": round(float(np.median(self.baseline)), 3),
            "ping_pong_us": round(float(np.median(self.ping_pong)), 3),
            "load_average": round(self.load, 1),
            "cpus": os.cpu_count(),
            **more,
        }


def centre(values: Floats) -> tuple[float, float]:
    """Median, and distance between the quartiles."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(middle), float(high - low)


def alternate(
    subject: Callable[[int], None],
    baseline: Callable[[int], None],
    *,
    rounds: int,
    units: int,
    ping_pong: PingPong,
    memory: BackedMemory | None = None,
    rest_s: float = 0.0,
) -> Rounds:
    """Time `subject(r)` and `baseline(r)` for each round r; both do `units` units of work.

    They are called with `rounds + 3` round numbers, the first of which are not counted. Times are
    for one unit. `memory` is renewed between rounds. Before each of the three there is a rest, for
    what one of them leaves to be done behind it.
    """
    total = rounds + _WARM_UP
    times = np.zeros((3, total))
    with no_collection():
        for number in range(total):
            if memory is not None:
                memory.renew()
            order = [(0, subject), (1, baseline)]
            for row, work in order if number % 2 else reversed(order):
                time.sleep(rest_s)
                began = time.perf_counter_ns()
                work(number)
                times[row, number] = (time.perf_counter_ns() - began) / units
            time.sleep(rest_s)
            times[2, number] = np.median([ping_pong.time_ns() for _ in range(_PINGS)])
    counted = times[:, _WARM_UP:] / 1e3
    return Rounds(counted[0], counted[1], counted[2], os.getloadavg()[0])


def rounds_with_warm_up(rounds: int) -> int:
    """Round numbers that `alternate` uses for so many counted rounds."""
    return rounds + _WARM_UP


@contextmanager
def no_collection() -> Iterator[None]:
    """Python's collector of cycles stays off meanwhile."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
