"""A digest covers every byte of every field; a batch holds the core of each of its samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from demo.graphs import FIELDS, collate, digest, example
from demo.sair import radius_graph


def arrays(seed: int, atoms: int = 60) -> dict[str, NDArray[Any]]:
    """The fields of a made-up sample."""
    rng = np.random.default_rng(seed)
    coord = rng.normal(0, 5, (atoms, 3))
    edges, lengths = radius_graph(coord)
    return {
        "coord": coord.astype(np.float32),
        "feat": rng.normal(0, 1, (atoms, 19)).astype(np.float32),
        "edge_index": edges,
        "edge_attr": lengths,
    }


@pytest.mark.parametrize("place", range(4))
def test_one_flipped_bit_anywhere_changes_the_digest(place: int) -> None:
    sample = arrays(1)
    before, name = digest(sample), FIELDS[place]
    rng = np.random.default_rng(place)
    for _ in range(50):
        changed = sample[name].copy()
        flat = changed.reshape(-1).view(np.uint8)
        flat[rng.integers(len(flat))] ^= 1 << int(rng.integers(8))
        after = digest(sample | {name: changed})
        assert [a != b for a, b in zip(before, after, strict=True)] == [n == name for n in FIELDS]


def test_type_and_shape_belong_to_the_digest() -> None:
    sample = arrays(2)
    turned = sample["coord"].reshape(3, -1)
    relabelled = sample["edge_attr"].view(np.int32)
    assert digest(sample | {"coord": turned}) != digest(sample)
    assert digest(sample | {"edge_attr": relabelled}) != digest(sample)


def test_a_batch_holds_the_core_of_each_sample() -> None:
    samples = [arrays(3, 60), arrays(4, 12), arrays(5, 40)]
    made = [example(9 - i, fields, float(i), core_atoms=20) for i, fields in enumerate(samples)]
    batch = collate(made)
    assert batch.index.tolist() == [9, 8, 7]
    assert batch.graphs.target.tolist() == [0.0, 1.0, 2.0]
    assert batch.graphs.graph.bincount().tolist() == [20, 12, 20]
    assert batch.sample_bytes == sum(field.nbytes for item in samples for field in item.values())
    assert batch.digest.tolist() == [list(digest(item)) for item in samples]
    start = 0
    for number, (item, atoms) in enumerate(zip(samples, (20, 12, 20), strict=True)):
        mine = batch.graphs.graph.numpy() == number
        assert np.array_equal(batch.graphs.coord.numpy()[mine], item["coord"][:atoms])
        source, sink = batch.graphs.edge_index.numpy()
        inside = mine[source]
        assert (mine[sink] == inside).all(), "no edge leaves its graph"
        wanted = {
            (int(a), int(b)): float(length)
            for a, b, length in zip(*item["edge_index"], item["edge_attr"], strict=True)
            if a < atoms and b < atoms
        }
        found = zip(
            source[inside] - start,
            sink[inside] - start,
            batch.graphs.edge_attr.numpy()[inside],
            strict=True,
        )
        assert {(int(a), int(b)): float(length) for a, b, length in found} == wanted
        start += atoms
