"""Training loops that only wait and sleep: ranks as processes, each with a loader and workers."""

from __future__ import annotations

import multiprocessing
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import h5py  # type: ignore[import-untyped]
import torch
from torch.utils.data import DataLoader, Dataset

from bench.scene import BATCH, EDGES_BYTES, RAW_BYTES, WINDOW_S, Scene

T = TypeVar("T")
# A rank that has said nothing for so long is lost: fail, and never hang.
_PATIENCE_S = 240.0
_WORKER_S = 120


@dataclass(frozen=True)
class Steps:
    """What one rank saw of one epoch, in seconds."""

    wait: list[float]
    compute: list[float]
    # From before the loader was asked for its first batch.
    wall: float


class DirectDataset(Dataset[Any]):
    """Samples by h5py with its defaults, from files that stay open in each process."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._files: dict[Path, Any] = {}

    def __len__(self) -> int:
        return self._scene.samples

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: self._field(name, index) for name in ("edges", "raw")}

    def _field(self, name: str, index: int) -> torch.Tensor:
        pair = index // (self._scene.samples // self._scene.pairs)
        file = self._scene.slow / f"{name}_{pair:02}.h5"
        if file not in self._files:
            self._files[file] = h5py.File(file, "r")
        return torch.from_numpy(self._files[file][f"s{index:06}"][name][()])


class MadeUpDataset(Dataset[Any]):
    """Samples of the same shape out of nothing: what the loader itself costs."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        sizes = {"edges": EDGES_BYTES, "raw": RAW_BYTES}
        return {name: torch.zeros(size // 8, dtype=torch.int64) for name, size in sizes.items()}


def loader(dataset: Any, sampler: Any, *, workers: int, batch: int = BATCH) -> DataLoader[Any]:
    """A loader as a user would make it."""
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    return DataLoader(
        dataset,
        batch_size=batch,
        sampler=sampler,
        drop_last=True,
        num_workers=workers,
        persistent_workers=True,
        multiprocessing_context="fork",
        timeout=_WORKER_S,
    )


def train(
    batches: DataLoader[Any], iterations: int | None = None, *, window_s: float = WINDOW_S
) -> Steps:
    """One epoch, or its first iterations: wait for a batch, sleep, and so on."""
    wait, compute = [], []
    began = time.perf_counter()
    source = iter(batches)
    for _ in range(len(batches) if iterations is None else iterations):
        start = time.perf_counter()
        next(source)
        arrived = time.perf_counter()
        time.sleep(window_s)
        wait.append(arrived - start)
        compute.append(time.perf_counter() - arrived)
    return Steps(wait, compute, time.perf_counter() - began)


def side_by_side(work: Callable[[int, Callable[[], None]], T], world_size: int) -> list[T]:
    """What `work(rank, meet)` returns for each rank, each in a process of its own.

    `meet` waits for the other ranks, so that epochs begin together.

    Raises:
        RuntimeError: a rank failed, or said nothing for too long.
    """
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(world_size, timeout=_PATIENCE_S)

    def run(rank: int, answer: Connection) -> None:
        torch.set_num_threads(1)
        try:
            answer.send((True, work(rank, lambda: void(barrier.wait()))))
        except Exception:
            barrier.abort()
            answer.send((False, traceback.format_exc()))

    ranks = []
    for rank in range(world_size):
        here, there = context.Pipe()
        process = context.Process(target=run, args=(rank, there))
        process.start()
        there.close()
        ranks.append((process, here))
    try:
        return [_answer(here) for _, here in ranks]
    finally:
        for process, here in ranks:
            here.close()
            process.terminate()
            process.join()


def void(_: object) -> None:
    """Nothing of it."""


def _answer(here: Any) -> Any:
    if not here.poll(_PATIENCE_S):
        raise RuntimeError(f"a rank said nothing for {_PATIENCE_S:g} s")
    try:
        went_well, answer = here.recv()
    except EOFError:
        raise RuntimeError("a rank ended early") from None
    if not went_well:
        raise RuntimeError(f"a rank failed:\n{answer}")
    return answer
