"""What a sample costs a loader worker beside the origin's delays."""

from __future__ import annotations

import multiprocessing
import random
import time
from pathlib import Path

from demo.direct import DirectDataset
from demo.emulated import EmulatedTier
from demo.sair import read_manifest

_PROFILE = Path(__file__).absolute().with_name("none.toml")
_WARM_UP, _TIMED = 8, 60


def _read(root: Path, data: Path, seed: int) -> float:
    rows = read_manifest(data)
    samples = DirectDataset(root, rows)
    order = random.Random(seed).sample(range(len(rows)), _WARM_UP + _TIMED)
    for index in order[:_WARM_UP]:
        samples[index]
    began = time.perf_counter()
    for index in order[_WARM_UP:]:
        samples[index]
    return 1e3 * (time.perf_counter() - began) / _TIMED


def worker_ms(data: Path, mount: Path, workers: int) -> float:
    """Mean milliseconds of a sample, so many workers reading at one time through a mount without delays."""
    with (
        EmulatedTier(data, mount, mount.with_suffix(".log"), _PROFILE, 1.0, 1) as root,
        multiprocessing.get_context("spawn").Pool(workers) as pool,
    ):
        times = pool.starmap(_read, [(root, data, seed) for seed in range(workers)])
    return sum(times) / workers
