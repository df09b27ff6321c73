"""Caches smaller than the data set: hits against the best that is possible, over three epochs."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import forebay
import forebay.torch as fb
from bench import belady, data, row
from bench.loop import loader, side_by_side, train
from bench.row import Row
from bench.scene import scene, served, why_not
from bench.setting import Setting

_SHARES = (25, 50, 75)
_PIN_SHARE = 50
_EPOCHS = 3
_WORKERS = 4
_BATCH = 4
# As short as lets the emulator keep up: no figure here is about time.
_WINDOW_S = 0.012
_PLAN_POINTS = 2.0
_PIN_POINTS = 1.0


@dataclass(frozen=True)
class Rows:
    """Samples that are rows of one array, each of which covers some blocks of its file."""

    index: Path
    root: Path
    blocks: list[list[int]]

    @property
    def block_count(self) -> int:
        """Blocks that hold samples."""
        return len(set().union(*self.blocks))


@dataclass(frozen=True)
class Ran:
    """Of each epoch the order, and the blocks that were read from the origin by its end."""

    orders: list[list[int]]
    origin: list[float]
    longest_wait_s: list[float]
    status: dict[str, Any]


def measure(setting: Setting) -> list[Row]:
    """The rows `evict_plan_25`, `evict_plan_50`, `evict_plan_75` and `evict_pin`."""
    reason = why_not()
    if reason is not None:
        names = [f"evict_plan_{share}" for share in _SHARES]
        return [row.skipped(name, reason) for name in (*names, "evict_pin")]
    rows = _write(setting)
    return [*(_plan(setting, rows, share) for share in _SHARES), _pin(setting, rows)]


def _write(setting: Setting) -> Rows:
    stage = scene(setting)
    folder = stage.plain / "evict"
    folder.mkdir()
    count = setting.size(1600, 80)
    extents = data.write_rows(folder / "rows.h5", count, data.SAMPLE_BYTES, setting.seed)
    index = setting.folder / "evict.forebay"
    forebay.index(folder / "rows.h5", index, sample="rows")
    blocks = []
    for extent in extents:
        covering = extent.covering()
        first = covering.start // data.BLOCK_BYTES
        blocks.append(list(range(first, first + covering.length // data.BLOCK_BYTES)))
    return Rows(index, stage.slow / "evict", blocks)


def _plan(setting: Setting, rows: Rows, share: int) -> Row:
    capacity, ran = _run(setting, rows, "plan", share)
    order = [rows.blocks[sample] for epoch in ran.orders for sample in epoch]
    accesses = sum(map(len, order))
    best = 100 * belady.hits(order, capacity) / accesses
    # What was read once was no hit, whoever asked for it: a sample or the stager.
    reached = 100 * (1 - ran.origin[-1] / accesses)
    behind = best - reached
    return Row(
        name=f"evict_plan_{share}",
        ratio=behind / _PLAN_POINTS,
        target=1.0,
        n=accesses,
        baseline="exact Belady on the same order of blocks",
        spread=0.0,
        value=behind,
        unit="points below",
        conditions=_conditions(
            setting,
            ran,
            capacity_blocks=capacity,
            blocks=rows.block_count,
            hit_rate_percent=round(reached, 2),
            belady_percent=round(best, 2),
        ),
    )


def _pin(setting: Setting, rows: Rows) -> Row:
    capacity, ran = _run(setting, rows, "pin", _PIN_SHARE)
    later = [rows.blocks[sample] for epoch in ran.orders[1:] for sample in epoch]
    accesses = sum(map(len, later))
    share = 100 * capacity / rows.block_count
    reached = 100 * (1 - (ran.origin[-1] - ran.origin[0]) / accesses)
    away = abs(share - reached)
    return Row(
        name="evict_pin",
        ratio=away / _PIN_POINTS,
        target=1.0,
        n=accesses,
        baseline="the share of the blocks that fit",
        spread=0.0,
        value=away,
        unit="points away",
        conditions=_conditions(
            setting,
            ran,
            capacity_blocks=capacity,
            blocks=rows.block_count,
            hit_rate_percent=round(reached, 2),
            share_percent=round(share, 2),
        ),
    )


def _run(setting: Setting, rows: Rows, policy: str, share: int) -> tuple[int, Ran]:
    """Capacity in blocks, and what three epochs with it were."""
    capacity = rows.block_count * share // 100
    settings = {"capacity": capacity * data.BLOCK_BYTES, "policy": policy}
    with served(setting.folder / f"cache-{policy}-{share}", settings) as cache:
        work = functools.partial(_train, rows, cache, setting.seed)
        (ran,) = side_by_side(work, 1)
    return capacity, ran


def _train(rows: Rows, cache: Path, seed: int, rank: int, meet: Callable[[], None]) -> Ran:
    dataset = forebay.open(rows.index, root=rows.root, cache=cache, start_daemon=False)
    origin: list[float] = []
    longest: list[float] = []

    def epochs(sampler: Any, numbers: range) -> None:
        batches = loader(fb.Dataset(dataset), sampler, workers=_WORKERS, batch=_BATCH)
        for epoch in numbers:
            if isinstance(sampler, fb.Sampler):
                sampler.set_epoch(epoch)
            steps = train(batches, window_s=_WINDOW_S)
            origin.append(_origin_blocks(rows, forebay.status(cache)))
            longest.append(max(steps.wait))

    def sampler() -> fb.Sampler:
        return fb.Sampler(dataset, seed=seed, rank=rank, world_size=1)

    orders = [sampler().order(epoch).tolist() for epoch in range(_EPOCHS)]
    epochs(sampler(), range(_EPOCHS - 1))
    # A sampler that lives on would go on announcing the epoch that it thinks comes next.
    gc.collect()
    # After the last epoch nothing follows, as Belady knows: it is announced alone.
    epochs(fb.LookAhead(orders[-1], dataset, rank=rank), range(_EPOCHS - 1, _EPOCHS))
    return Ran(orders, origin, longest, forebay.status(cache))


def _origin_blocks(rows: Rows, status: dict[str, Any]) -> float:
    """Blocks that were read from the origin, by the daemon or by a client for itself.

    A client reads a sample whole if one of its blocks is absent and there is no room.
    """
    blocks_a_sample = sum(map(len, rows.blocks)) / len(rows.blocks)
    direct = status["direct_bytes"] / data.SAMPLE_BYTES * blocks_a_sample
    return float(status["origin_bytes"] / data.BLOCK_BYTES + direct)


def _conditions(setting: Setting, ran: Ran, **more: Any) -> dict[str, Any]:
    plan = ran.status["plan"]
    return scene(setting).conditions(
        **more,
        epochs=_EPOCHS,
        workers=_WORKERS,
        ranks=1,
        batch=_BATCH,
        compute=f"synthetic: a sleep of {_WINDOW_S * 1e3:g} ms",
        sample_bytes=data.SAMPLE_BYTES,
        samples=len(ran.orders[0]),
        block_bytes=data.BLOCK_BYTES,
        look_ahead_bytes=plan["look_ahead_bytes"],
        origin_blocks_an_epoch=np.diff([0, *ran.origin]).round(1).tolist(),
        direct_bytes=ran.status["direct_bytes"],
        longest_wait_ms=[round(wait * 1e3, 1) for wait in ran.longest_wait_s],
        stager=ran.status["stager"],
        metrics=ran.status["metrics"],
    )
