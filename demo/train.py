"""Train the model for some epochs on one path, and record every step.

One process a path, so that nothing warmed by one path serves the other.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from demo import records
from demo.direct import DirectDataset
from demo.graphs import Batch, Example, collate
from demo.process_io import bytes_read_by_children
from demo.sair import Row, read_manifest
from forebay.fabric.egnn import Egnn

# A worker that has given nothing for so long is lost: fail, and never hang.
WORKER_TIMEOUT_SECONDS = 120


@dataclass
class Seen:
    """What one epoch delivered, in order: positions, digests, and the loss of every step."""

    index: list[NDArray[np.int64]] = field(default_factory=list)
    digest: list[NDArray[np.int64]] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    sample_bytes: int = 0
    # Time that workers spent on its batches, in seconds, summed over them.
    worker_s: float = 0.0

    def add(self, batch: Batch, loss: float) -> None:
        """Keep what identifies a batch."""
        self.index.append(batch.index)
        self.digest.append(batch.digest)
        self.loss.append(loss)
        self.sample_bytes += batch.sample_bytes
        self.worker_s += batch.worker_s


class _Timed(Dataset[Any]):
    """A data set that says of each batch when its worker began with it."""

    def __init__(self, dataset: Dataset[Example]) -> None:
        self._dataset: Any = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitems__(self, indices: list[int]) -> tuple[float, list[Example]]:
        began = time.perf_counter()
        if hasattr(self._dataset, "__getitems__"):
            return began, self._dataset.__getitems__(indices)
        return began, [self._dataset[index] for index in indices]


def _collate(begun: tuple[float, list[Example]]) -> Batch:
    began, examples = begun
    batch = collate(examples)
    batch.worker_s = time.perf_counter() - began
    return batch


class Trainer:
    """A model, its optimizer, and the loader that feeds it."""

    def __init__(self, options: argparse.Namespace, rows: list[Row]) -> None:
        self._options = options
        dataset: Dataset[Example]
        if options.path == "direct":
            dataset = DirectDataset(options.root, rows)
            self._sampler: Any = DistributedSampler(
                dataset, num_replicas=1, rank=0, shuffle=True, seed=options.seed
            )
        else:
            from demo.staged import StagedDataset, StagedSampler

            dataset = StagedDataset(options.index, options.root, options.cache, rows)
            self._sampler = StagedSampler(dataset, options.seed)
        workers = options.workers
        self._loader: DataLoader[Any] = DataLoader(
            _Timed(dataset),
            batch_size=options.batch,
            sampler=self._sampler,
            num_workers=workers,
            collate_fn=_collate,
            prefetch_factor=options.prefetch if workers else None,
            persistent_workers=workers > 0,
            multiprocessing_context="fork" if workers else None,
            timeout=WORKER_TIMEOUT_SECONDS if workers else 0,
        )
        torch.manual_seed(options.seed)
        self._model = Egnn()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-3)
        targets = torch.tensor([row.affinity for row in rows])
        self._mean, self._spread = targets.mean(), targets.std(correction=0).clamp(min=1e-6)

    def warm_up(self, batch: Batch) -> None:
        """Run a few steps on a batch of no account, so that epoch 1 does not pay for set-up."""
        fresh = {key: value.clone() for key, value in self._model.state_dict().items()}
        for _ in range(3):
            self._step(batch)
        self._model.load_state_dict(fresh)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-3)

    def epoch(self, number: int) -> tuple[list[records.Iteration], Seen, float]:
        """Train for one epoch, counted from 1: its steps, what it saw, and its wall time in s."""
        self._sampler.set_epoch(number - 1)
        steps: list[records.Iteration] = []
        seen = Seen()
        began = time.perf_counter()
        batches = iter(self._loader)
        for iteration in range(len(self._loader)):
            start = time.perf_counter()
            batch: Any = next(batches)
            arrived = time.perf_counter()
            forward, backward, optimizer, loss = self._step(batch)
            steps.append(
                records.Iteration(
                    path=self._options.path,
                    epoch=number,
                    iteration=iteration,
                    rank=0,
                    wait_s=arrived - start,
                    forward_s=forward,
                    backward_s=backward,
                    optimizer_s=optimizer,
                    total_s=time.perf_counter() - start,
                )
            )
            seen.add(batch, loss)
        return steps, seen, time.perf_counter() - began

    def _step(self, batch: Batch) -> tuple[float, float, float, float]:
        start = time.perf_counter()
        wanted = (batch.graphs.target - self._mean) / self._spread
        loss = nn.functional.mse_loss(self._model(batch.graphs), wanted)
        forward = time.perf_counter()
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        backward = time.perf_counter()
        self._optimizer.step()
        done = time.perf_counter()
        return forward - start, backward - forward, done - backward, loss.item()


def _traffic(options: argparse.Namespace) -> tuple[int, int] | None:
    """Bytes asked and bytes read from the origin until now; `None` where nothing counts them."""
    if options.path == "forebay":
        from demo.staged import traffic

        return traffic(options.cache)
    read = bytes_read_by_children()
    return None if read is None else (0, read)


def _made_up_batch(size: int) -> Batch:
    """A batch of the usual shape that no file holds."""
    from demo.graphs import CORE_ATOMS, example
    from demo.sair import radius_graph

    rng = np.random.default_rng(0)
    made = []
    for index in range(size):
        coord = rng.normal(0, 4, (CORE_ATOMS, 3))
        edges, lengths = radius_graph(coord)
        feat = rng.normal(0, 1, (CORE_ATOMS, 19)).astype(np.float32)
        arrays = {
            "coord": coord.astype(np.float32),
            "feat": feat,
            "edge_index": edges,
            "edge_attr": lengths,
        }
        made.append(example(index, arrays, 0.0))
    return collate(made)


def train(options: argparse.Namespace) -> None:
    """Train all epochs, append the records, and write what was seen to `options.seen`."""
    # More workers than cores is what a node with GPUs has; here they mostly wait for the origin.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    # One thread: the workers need the other cores, as they would beside a GPU.
    torch.set_num_threads(1)
    rows = read_manifest(options.data)
    trainer = Trainer(options, rows)
    trainer.warm_up(_made_up_batch(options.batch))
    orders, digests, losses, worker_s = [], [], [], []
    for number in range(1, options.epochs + 1):
        before = _traffic(options)
        steps, seen, wall = trainer.epoch(number)
        after = _traffic(options)
        asked, origin = seen.sample_bytes, None
        if before is not None and after is not None:
            origin = after[1] - before[1]
            asked = after[0] - before[0] or asked
        epoch = records.Epoch(options.path, number, wall, asked, origin)
        records.append(options.records, [*steps, epoch])
        orders.append(np.concatenate(seen.index))
        digests.append(np.concatenate(seen.digest))
        losses.append(seen.loss)
        worker_s.append(seen.worker_s)
    np.savez(options.seen, index=orders, digest=digests, loss=losses, worker_s=worker_s)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of one training run."""
    parser = argparse.ArgumentParser(prog="demo.train", description=__doc__)
    parser.add_argument("--path", choices=records.PATHS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder with manifest.csv")
    parser.add_argument("--root", type=Path, required=True, help="where the samples are read")
    parser.add_argument("--index", type=Path, help="sample index, for the path `forebay`")
    parser.add_argument("--cache", type=Path, help="cache folder, for the path `forebay`")
    parser.add_argument("--records", type=Path, required=True, help="JSON lines, appended to")
    parser.add_argument("--seen", type=Path, required=True, help="order, digests and losses (npz)")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--prefetch", type=int, default=2, help="batches ahead for each worker")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    if options.path == "forebay" and (options.index is None or options.cache is None):
        parser.error("the path `forebay` needs --index and --cache")
    return options


if __name__ == "__main__":
    train(parse())
