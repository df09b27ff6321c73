"""Loaders and trainers of others around Forebay's samplers: the order is theirs and is staged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from node import Node, eventually
from torch.utils.data import BatchSampler, DataLoader, RandomSampler
from worlds import World

import forebay.torch as fb

# What these packages warn of is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

SAMPLES = 24
BATCH = 4


@pytest.fixture
def files(tmp_path: Path) -> World:
    contents = {f"{number:02}": bytes([number]) * 3000 for number in range(SAMPLES)}
    return World.of_files(tmp_path / "origin", contents)


@pytest.fixture
def dataset(node: Node, files: World) -> fb.Dataset:
    return fb.Dataset(node.open(files.index), transform=lambda sample: sample["data"][0])


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def samplers() -> dict[str, Callable[[fb.Dataset], Any]]:
    return {
        "forebay": lambda dataset: fb.Sampler(dataset, seed=7, rank=0, world_size=1),
        "wrapped": lambda dataset: fb.LookAhead(
            RandomSampler(range(SAMPLES), generator=seeded()), dataset, rank=0
        ),
    }


def plans(node: Node) -> int:
    followed: int = node.status()["stager"]["plans"]
    return followed


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("name", list(samplers()))
def test_a_stateful_loader_resumes_exactly(
    node: Node, dataset: fb.Dataset, name: str, batched: bool, workers: int
) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader() -> Any:
        sampler = samplers()[name](dataset)
        order: dict[str, Any] = {"sampler": sampler, "batch_size": BATCH}
        if batched:
            batches = BatchSampler(sampler, BATCH, drop_last=False)
            order = {"batch_sampler": fb.LookAhead(batches, dataset, rank=0)}
        return stateful.StatefulDataLoader(
            dataset,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
            **order,
        )

    def rows(batches: Iterator[torch.Tensor]) -> list[int]:
        return [int(row) for batch in batches for row in batch]

    first = loader()
    batches = iter(first)
    head = rows(iter([next(batches), next(batches)]))
    eventually("the order is followed", lambda: plans(node) == 1)
    state = first.state_dict()
    tail = rows(batches)
    assert sorted(head + tail) == list(range(SAMPLES))
    second = loader()
    second.load_state_dict(state)
    assert rows(iter(second)) == tail
    assert sorted(rows(iter(second))) == list(range(SAMPLES)), "the next epoch is whole"


def test_lightning_trains_on_the_order_that_was_announced(
    node: Node, dataset: fb.Dataset, tmp_path: Path
) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    seen: list[int] = []
    followed: list[int] = []

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
            seen.extend(batch.tolist())
            followed.append(plans(node))
            with fb.collectives():
                return (self.weight * batch.float()).mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    sampler = fb.Sampler(dataset, seed=7, rank=0, world_size=1)
    loader = fb.DataLoader(dataset, batch_size=BATCH, sampler=sampler, records=tmp_path / "records")
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(Model(), loader)
    # Lightning tells samplers the epoch itself.
    assert seen == [*sampler.order(0).tolist(), *sampler.order(1).tolist()]
    assert followed[-1] == 1


def test_accelerate_keeps_the_order_and_it_is_followed(node: Node, dataset: fb.Dataset) -> None:
    accelerate = pytest.importorskip("accelerate")
    sampler = fb.Sampler(dataset, seed=7, rank=0, world_size=1)
    loader: Any = DataLoader(dataset, batch_size=BATCH, sampler=sampler)
    prepared = accelerate.Accelerator(cpu=True).prepare(loader)
    batches = iter(prepared)
    seen = next(batches).tolist()
    eventually("the order is followed", lambda: plans(node) == 1)
    for batch in batches:
        seen += batch.tolist()
    assert seen == sampler.order(0).tolist()
