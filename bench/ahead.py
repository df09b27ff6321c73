"""Training with look-ahead on a slow tier: iterations over the window, wall time, speed-up.

Two ranks, each with a loader of two workers, train for two epochs from an empty cache. Then they
start loaders anew over what is now resident, and one over nothing, to see what PyTorch itself costs;
and at last they read the beginning of the same order by h5py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import forebay
import forebay.torch as fb
from bench import row
from bench.loop import DirectDataset, MadeUpDataset, Steps, loader, side_by_side, train
from bench.rounds import Floats, centre
from bench.row import Row
from bench.scene import WINDOW_S, Scene, scene, served, why_not
from bench.setting import Setting

RANKS = 2
WORKERS = 2
# A loader asks for two batches of each worker before it gives the first.
_START_UP = 2 * WORKERS
_SHARE_ALLOWED = 0.001
_PARTS = 8
_STARTS = 3


@dataclass(frozen=True)
class Staged:
    """What one rank saw."""

    epochs: list[Steps]
    # What the daemon said when each epoch was over.
    after: list[dict[str, Any]]
    # The first waits of a new loader over resident data, in seconds: medians over some of them.
    start: list[float]
    # Of a loader over nothing.
    made_up: Steps


@dataclass(frozen=True)
class Measured:
    """For each rank what it saw through Forebay and directly."""

    staged: list[Staged]
    direct: list[Steps]

    def epoch(self, number: int) -> list[Steps]:
        """The steps of each rank."""
        return [rank.epochs[number] for rank in self.staged]


def measure(setting: Setting) -> list[Row]:
    """The rows `ahead_epoch1`, `ahead_epoch2`, `ahead_wall`, and two of `ahead_speedup`."""
    reason = why_not()
    if reason is not None:
        names = ("ahead_epoch1", "ahead_epoch2", "ahead_wall", "ahead_speedup")
        return [row.skipped(name, reason) for name in (*names, "ahead_speedup_epoch2")]
    stage = scene(setting)
    found = _train(setting, stage)
    return [
        _stalls(stage, "ahead_epoch1", 0, found, allowed=_SHARE_ALLOWED),
        _stalls(stage, "ahead_epoch2", 1, found, allowed=0.0),
        _wall(stage, found),
        _speedup(stage, "ahead_speedup", found.epoch(0), found.direct, 8.0),
        _speedup(stage, "ahead_speedup_epoch2", found.epoch(1), found.direct, 9.3),
    ]


def _train(setting: Setting, stage: Scene) -> Measured:
    settings = {"look-ahead": _look_ahead(stage)}
    with served(setting.folder / "cache-ahead", settings) as cache:
        work = functools.partial(_staged, stage, cache, setting)
        staged = side_by_side(work, RANKS)
    iterations = setting.size(40, 4)
    direct = side_by_side(functools.partial(_direct, stage, setting.seed, iterations), RANKS)
    return Measured(staged, direct)


def _look_ahead(stage: Scene) -> int:
    """Bytes for a rank; of both together a quarter of the data set."""
    return stage.data_bytes // (4 * RANKS)


def _staged(
    stage: Scene, cache: Path, setting: Setting, rank: int, meet: Callable[[], None]
) -> Staged:
    opened = forebay.open(stage.index, root=stage.slow, cache=cache, start_daemon=False)
    dataset = fb.Dataset(opened)
    sampler = fb.Sampler(opened, seed=setting.seed, rank=rank, world_size=RANKS)
    batches = loader(dataset, sampler, workers=WORKERS)
    epochs, after = [], []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        meet()
        epochs.append(train(batches))
        meet()
        after.append(forebay.status(cache))
    starts = []
    for _ in range(setting.size(_STARTS, 1)):
        meet()
        starts.append(train(loader(dataset, sampler, workers=WORKERS), _START_UP).wait)
    meet()
    made_up = train(
        loader(MadeUpDataset(stage.samples), None, workers=WORKERS), setting.size(60, 4)
    )
    return Staged(epochs, after, np.median(starts, axis=0).tolist(), made_up)


def _direct(stage: Scene, seed: int, iterations: int, rank: int, meet: Callable[[], None]) -> Steps:
    sampler = fb.Sampler(stage.samples, seed=seed, rank=rank, world_size=RANKS)
    batches = loader(DirectDataset(stage), sampler, workers=WORKERS)
    meet()
    return train(batches, iterations)


@dataclass(frozen=True)
class Late:
    """An iteration that waited longer than the window."""

    rank: int
    iteration: int
    wait: float
    # What the same iteration waits for after a start with everything resident.
    usual: float

    @property
    def is_start_up(self) -> bool:
        """True if without the loader's own start the wait would have been within the window."""
        return self.wait - self.usual <= WINDOW_S

    def __str__(self) -> str:
        ms, usual = self.wait * 1e3, self.usual * 1e3
        return (
            f"rank {self.rank} iteration {self.iteration}: {ms:.0f} ms, of these start {usual:.0f}"
        )


def _late(ranks: Sequence[Steps], starts: Sequence[list[float]]) -> list[Late]:
    return [
        Late(rank, number, wait, starts[rank][number] if number < len(starts[rank]) else 0.0)
        for rank, steps in enumerate(ranks)
        for number, wait in enumerate(steps.wait)
        if wait > WINDOW_S
    ]


def _stalls(stage: Scene, name: str, epoch: int, found: Measured, *, allowed: float) -> Row:
    ranks = found.epoch(epoch)
    # Workers are started in the first epoch only.
    starts = [rank.start if epoch == 0 else [] for rank in found.staged]
    late = _late(ranks, starts)
    start_up = sum(each.is_start_up for each in late)
    iterations = sum(len(steps.wait) for steps in ranks)
    direct = _late(found.direct, [[]] * RANKS)
    direct_count = sum(len(steps.wait) for steps in found.direct)
    waits = np.concatenate([steps.wait for steps in ranks]) * 1e3
    status = found.staged[0].after[epoch]
    return Row(
        name=name,
        ratio=(len(late) - start_up) / iterations,
        target=allowed,
        n=iterations,
        baseline=f"a window of {WINDOW_S * 1e3:g} ms; the start of workers is not counted",
        spread=0.0,
        conditions=_conditions(
            stage,
            over_window=len(late),
            over_window_for_the_start_of_workers=start_up,
            late=[str(each) for each in late[:20]],
            first_wait_ms=[round(steps.wait[0] * 1e3, 1) for steps in ranks],
            wait_ms={
                "median": round(float(np.median(waits)), 2),
                "p99": round(float(np.quantile(waits, 0.99)), 2),
                "max": round(float(waits.max()), 1),
            },
            direct_over_window_share=round(len(direct) / direct_count, 3),
            stager=status["stager"],
            metrics=status["metrics"],
            asked_bytes=status["asked_bytes"],
            local_bytes=status["local_bytes"],
        ),
    )


def _wall(stage: Scene, found: Measured) -> Row:
    first, second = found.epoch(0), found.epoch(1)
    ratios = np.array([steps.wall / sum(steps.compute) for steps in first])
    _, spread = centre(ratios)
    made_up = [rank.made_up for rank in found.staged]
    return Row(
        name="ahead_wall",
        ratio=float(ratios.max()),
        target=1.05,
        n=sum(len(steps.wait) for steps in first),
        baseline="the sleeps alone, in the slower rank",
        spread=spread,
        conditions=_conditions(
            stage,
            wall_s=[round(steps.wall, 2) for steps in first],
            compute_s=[round(sum(steps.compute), 2) for steps in first],
            first_wait_ms=[round(steps.wait[0] * 1e3, 1) for steps in first],
            resident_start_ms=[round(rank.start[0] * 1e3, 1) for rank in found.staged],
            epoch2_ratio=round(max(steps.wall / sum(steps.compute) for steps in second), 4),
            # Without its start, which weighs more in few iterations.
            loader_alone_ratio=round(
                max(1 + sum(steps.wait[1:]) / sum(steps.compute[1:]) for steps in made_up), 4
            ),
        ),
    )


def _speedup(
    stage: Scene, name: str, ranks: list[Steps], direct: list[Steps], target: float
) -> Row:
    staged, slow = _iterations(ranks), _iterations(direct)
    parts = np.array_split(slow, min(_PARTS, slow.shape[1]), axis=1)
    _, spread = centre(np.array([part.mean() for part in parts]) / staged.mean())
    # Where ranks wait for each other in every iteration, each is as long as the slowest makes it.
    together = float(slow.max(axis=0).mean() / staged.max(axis=0).mean())
    return Row(
        name=name,
        ratio=float(slow.mean() / staged.mean()),
        target=target,
        better="higher",
        n=slow.size,
        baseline="h5py on the same tier, the first iterations of the same order",
        spread=spread,
        conditions=_conditions(
            stage,
            staged_iteration_ms=round(float(staged.mean()) * 1e3, 2),
            direct_iteration_ms=round(float(slow.mean()) * 1e3, 1),
            direct_over_window_share=round(len(_late(direct, [[]] * RANKS)) / slow.size, 3),
            ratio_of_the_slower_rank=round(together, 2),
        ),
    )


def _iterations(ranks: Sequence[Steps]) -> Floats:
    """Seconds of each iteration, a row for each rank."""
    return np.array([np.add(steps.wait, steps.compute) for steps in ranks])


def _conditions(stage: Scene, **more: Any) -> dict[str, Any]:
    return stage.conditions(
        ranks=RANKS,
        workers=RANKS * WORKERS,
        look_ahead_bytes_a_rank=_look_ahead(stage),
        data_bytes=stage.data_bytes,
        start_up_iterations_a_rank=_START_UP,
        **more,
    )
