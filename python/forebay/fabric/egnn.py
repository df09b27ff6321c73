"""A small E(n)-equivariant graph network in plain PyTorch, for batches of ragged graphs.

With the default sizes it has 19,433 parameters in 6 layers, the size of the model that the
staging paper trains (19,473). Its output does not change when a complex is turned, moved or
mirrored, or when atoms are numbered anew.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# Å². Keeps the gradient of the distance finite for atoms at one place.
_DISTANCE_FLOOR = 1e-8


@dataclass
class GraphBatch:
    """Graphs of one batch, joined: atom numbers run on from graph to graph.

    `coord` (N, 3) in Å, `feat` (N, F), `edge_index` (2, E) int64, `edge_attr` (E), `graph` (N) the
    number of each atom's graph, `target` (B).
    """

    coord: Tensor
    feat: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    graph: Tensor
    target: Tensor


def _perceptron(*sizes: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width_in, width_out in itertools.pairwise(sizes):
        layers += [nn.Linear(width_in, width_out), nn.SiLU()]
    return layers


class Layer(nn.Module):
    """One round of messages. `moves` is false in the last layer: what it moved, nobody would read,
    and parameters without a gradient break distributed training."""

    def __init__(self, width: int, moves: bool) -> None:
        super().__init__()
        self.message = nn.Sequential(*_perceptron(2 * width + 2, width, width))
        self.attention = nn.Sequential(nn.Linear(width, 1), nn.Sigmoid())
        self.update = nn.Sequential(*_perceptron(2 * width, width), nn.Linear(width, width))
        self.move = nn.Linear(width, 1, bias=False) if moves else None
        if self.move is not None:
            nn.init.xavier_uniform_(self.move.weight, gain=1e-3)

    def forward(
        self, hidden: Tensor, coord: Tensor, edge_index: Tensor, edge_attr: Tensor, degree: Tensor
    ) -> tuple[Tensor, Tensor]:
        """New atom states (N, width) and positions (N, 3)."""
        source, sink = edge_index
        offset = coord[sink] - coord[source]
        squared = (offset * offset).sum(dim=1, keepdim=True)
        edge = torch.cat([hidden[sink], hidden[source], squared, edge_attr[:, None]], dim=1)
        message = self.message(edge)
        message = message * self.attention(message)
        gathered = torch.zeros_like(hidden).index_add(0, sink, message)
        if self.move is not None:
            unit = offset / (torch.sqrt(squared + _DISTANCE_FLOOR) + 1)
            pushes = torch.zeros_like(coord).index_add(0, sink, unit * self.move(message))
            coord = coord + pushes / degree
        return hidden + self.update(torch.cat([hidden, gathered], dim=1)), coord


class Egnn(nn.Module):
    """Predicts one number for each graph of a batch."""

    def __init__(self, features: int = 19, width: int = 22, layers: int = 6) -> None:
        super().__init__()
        self.embed = nn.Linear(features, width)
        self.layers = nn.ModuleList(Layer(width, moves=i + 1 < layers) for i in range(layers))
        self.readout = nn.Sequential(*_perceptron(width, width), nn.Linear(width, 1))

    def forward(self, batch: GraphBatch) -> Tensor:
        """Predictions (B)."""
        hidden, coord = self.embed(batch.feat), batch.coord
        ones = torch.ones_like(coord[:, :1])
        degree = torch.zeros_like(ones).index_add(0, batch.edge_index[1], ones[batch.edge_index[1]])
        degree = degree.clamp(min=1)
        for layer in self.layers:
            hidden, coord = layer(hidden, coord, batch.edge_index, batch.edge_attr, degree)
        graphs = len(batch.target)
        pooled = hidden.new_zeros(graphs, hidden.shape[1]).index_add(0, batch.graph, hidden)
        atoms = ones.new_zeros(graphs, 1).index_add(0, batch.graph, ones)
        predicted: Tensor = self.readout(pooled / atoms.clamp(min=1)).squeeze(1)
        return predicted


def parameter_count(model: nn.Module) -> int:
    """Numbers that training adjusts."""
    return sum(parameter.numel() for parameter in model.parameters())
