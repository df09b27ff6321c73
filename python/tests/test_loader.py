"""`DataLoader` over a data set on disk, with every start method of its workers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from node import Node
from torch.utils.data import DataLoader
from worlds import World

import forebay.torch as fb

FIELDS = ("contiguous", "lzf", "gzip", "mask", "big_endian")


def as_list(batch: list[Any]) -> list[Any]:
    """Samples as they are: the fields differ in length, so torch cannot stack them."""
    return batch


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_loader_gives_every_sample_once_and_right(node: Node, world: World, method: str) -> None:
    dataset = fb.Dataset(world.index, cache=node.cache, fields=FIELDS)
    # The parent has links and maps of its own before there are workers.
    assert dataset[0]["mask"].tolist() == world.samples[0]["mask"].tolist()
    sampler = fb.Sampler(dataset, seed=4, rank=0, world_size=1)
    loader: Any = DataLoader(
        dataset,
        batch_size=3,
        sampler=sampler,
        num_workers=2 if method == "fork" else 1,
        multiprocessing_context=method,
        collate_fn=as_list,
    )
    found = [sample for batch in loader for sample in batch]
    assert len(found) == len(world.samples)
    for sample, number in zip(found, list(sampler), strict=True):
        assert tuple(sample) == FIELDS
        for name in FIELDS:
            wanted = world.samples[number][name]
            assert isinstance(sample[name], torch.Tensor)
            assert sample[name].numpy().tolist() == wanted.tolist(), (number, name)
    # The parent reads on.
    assert dataset[-1]["lzf"].tolist() == world.samples[-1]["lzf"].tolist()
    assert len(node.daemons()) == 1
