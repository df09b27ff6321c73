"""Resuming in the middle of an epoch: how late the first batch is, from an empty cache.

A loader takes time to start its workers however near the data is, so each resume is compared with
the same start over data that is all resident.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

import forebay
import forebay.torch as fb
from bench import data, row
from bench.loop import loader, side_by_side, train
from bench.rounds import centre
from bench.row import Row
from bench.scene import WINDOW_S, Scene, scene, served, why_not
from bench.setting import Setting

_RANKS = 2
_WORKERS = 2
_ITERATIONS = 2


def measure(setting: Setting) -> list[Row]:
    """The row `resume`."""
    reason = why_not()
    if reason is not None:
        return [row.skipped("resume", reason)]
    stage = scene(setting)
    resumes = setting.size(8, 1)
    with served(setting.folder / "cache-resident", {}) as cache:
        data.stage_all(forebay.open(stage.index, root=stage.plain, cache=cache))
        warm = [_first_waits(stage, cache, stage.plain, setting, n) for n in range(resumes)]
    # As in training on a large data set, most of it lies beyond the look-ahead.
    settings = {"look-ahead": stage.data_bytes // (4 * _RANKS)}
    cold = []
    for number in range(resumes):
        with served(setting.folder / f"cache-resume-{number}", settings) as cache:
            cold.append(_first_waits(stage, cache, stage.slow, setting, number))
    usual = float(np.median(warm))
    # Of the slower rank, for that is what the other waits for.
    late = np.array([max(waits) for waits in cold]) - usual
    middle, spread = centre(late)
    return [
        Row(
            name="resume",
            ratio=float(late.max()) / WINDOW_S,
            target=1.0,
            n=resumes,
            baseline="the same start with everything resident; the worst of all resumes",
            spread=spread / WINDOW_S,
            value=float(late.max()) * 1e3,
            unit="ms late",
            conditions=stage.conditions(
                ranks=_RANKS,
                workers=_RANKS * _WORKERS,
                cache="empty, a new daemon for each resume; the place is at half of the epoch",
                resident_first_wait_ms=round(usual * 1e3, 1),
                late_ms=[round(each * 1e3, 1) for each in late],
                late_median_ms=round(middle * 1e3, 1),
                over_a_window=int((late > WINDOW_S).sum()),
            ),
        )
    ]


def _first_waits(
    stage: Scene, cache: Path, root: Path, setting: Setting, number: int
) -> list[float]:
    """How long each rank waits for the first batch, of another epoch for each `number`."""
    work = functools.partial(_resume, stage, cache, root, setting.seed, number)
    return side_by_side(work, _RANKS)


def _resume(
    stage: Scene,
    cache: Path,
    root: Path,
    seed: int,
    epoch: int,
    rank: int,
    meet: Callable[[], None],
) -> float:
    dataset = forebay.open(stage.index, root=root, cache=cache, start_daemon=False)
    sampler = fb.Sampler(dataset, seed=seed, rank=rank, world_size=_RANKS)
    sampler.set_epoch(epoch)
    sampler.load_state_dict(sampler.state_dict(consumed=len(sampler) // 2))
    batches = loader(fb.Dataset(dataset), sampler, workers=_WORKERS)
    meet()
    return train(batches, min(_ITERATIONS, sampler.remaining // 32)).wait[0]
