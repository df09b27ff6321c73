"""The model does not see where a complex lies, how it is turned, or how its atoms are numbered."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from forebay.fabric.egnn import Egnn, GraphBatch, Layer, parameter_count


def made_up(graphs: int = 3, seed: int = 0) -> GraphBatch:
    """Ragged random graphs in float64."""
    random = torch.Generator().manual_seed(seed)
    sizes = [5 + 3 * number for number in range(graphs)]
    atoms, starts = sum(sizes), np.cumsum([0, *sizes[:-1]])
    edges = [
        torch.randint(0, size, (2, 4 * size), generator=random) + start
        for size, start in zip(sizes, starts, strict=True)
    ]
    coord = 3 * torch.randn(atoms, 3, generator=random, dtype=torch.float64)
    edge_index = torch.cat(edges, dim=1)
    return GraphBatch(
        coord=coord,
        feat=torch.randn(atoms, 19, generator=random, dtype=torch.float64),
        edge_index=edge_index,
        edge_attr=(coord[edge_index[0]] - coord[edge_index[1]]).norm(dim=1),
        graph=torch.repeat_interleave(torch.arange(graphs), torch.tensor(sizes)),
        target=torch.zeros(graphs, dtype=torch.float64),
    )


def model() -> Egnn:
    """A model whose position updates are large enough to matter."""
    torch.manual_seed(1)
    made = Egnn().double()
    for layer in made.layers:
        if isinstance(layer, Layer) and layer.move is not None:
            torch.nn.init.normal_(layer.move.weight)
    return made


def test_turning_moving_and_mirroring_change_nothing() -> None:
    turn = torch.from_numpy(Rotation.random(rng=np.random.default_rng(4)).as_matrix())
    mirror = torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64))
    before, net = made_up(), model()
    for change in (turn, mirror, turn @ mirror):
        after = made_up()
        after.coord = before.coord @ change.T + torch.tensor([4.0, -7.0, 11.0])
        assert (net(before) - net(after)).abs().max() < 1e-9


def test_position_updates_take_part() -> None:
    # Else the test above would hold for a model that ignores geometry.
    before, after, net = made_up(), made_up(), model()
    after.coord = before.coord * 1.1
    assert (net(before) - net(after)).abs().max() > 1e-6


def test_new_numbers_for_atoms_and_edges_change_nothing() -> None:
    before, after = made_up(), made_up()
    random = torch.Generator().manual_seed(9)
    order = torch.randperm(len(before.coord), generator=random)
    shuffle = torch.randperm(before.edge_index.shape[1], generator=random)
    after.coord, after.feat, after.graph = (
        before.coord[order],
        before.feat[order],
        before.graph[order],
    )
    after.edge_index = torch.argsort(order)[before.edge_index][:, shuffle]
    after.edge_attr = before.edge_attr[shuffle]
    net = model()
    assert (net(before) - net(after)).abs().max() < 1e-9


def test_a_graph_is_predicted_alike_alone_and_in_a_batch() -> None:
    batch, net = made_up(), model()
    together, start = net(batch), 0
    for number in range(3):
        atoms = batch.graph == number
        edges = atoms[batch.edge_index[0]]
        alone = GraphBatch(
            coord=batch.coord[atoms],
            feat=batch.feat[atoms],
            edge_index=batch.edge_index[:, edges] - start,
            edge_attr=batch.edge_attr[edges],
            graph=torch.zeros(int(atoms.sum()), dtype=torch.int64),
            target=batch.target[:1],
        )
        assert (net(alone)[0] - together[number]).abs() < 1e-9
        start += int(atoms.sum())


def test_every_parameter_is_trained() -> None:
    net = model()
    net(made_up()).sum().backward()
    idle = [name for name, weight in net.named_parameters() if weight.grad is None]
    assert idle == []


def test_atoms_at_one_place_give_finite_gradients() -> None:
    batch, net = made_up(), model()
    batch.coord = torch.zeros_like(batch.coord).requires_grad_()
    net(batch).sum().backward()
    assert batch.coord.grad is not None and batch.coord.grad.isfinite().all()
    for weight in net.parameters():
        assert weight.grad is not None and weight.grad.isfinite().all()


@pytest.mark.parametrize("layers, width, least, most", [(6, 22, 19_400, 19_550), (2, 8, 0, 2_000)])
def test_the_size_is_that_of_the_paper(layers: int, width: int, least: int, most: int) -> None:
    assert least < parameter_count(Egnn(layers=layers, width=width)) < most
