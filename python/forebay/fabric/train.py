"""The real loop: a graph network under DDP, each iteration split into its stages."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import forebay.torch
from forebay._records import RecordFile
from forebay.fabric import FabricError, data, recording, tiers
from forebay.fabric.allreduce import hold
from forebay.fabric.egnn import Egnn, GraphBatch, parameter_count
from forebay.fabric.options import Options
from forebay.fabric.world import World, lost_ranks
from forebay.torch.timer import StepTimer, _Step

# Name of the path whose batches lie in memory.
BASELINE = "no I/O"
# On a CPU the model sees the nearest atoms only, so that a step is as short as one on a GPU.
_CPU_ATOMS = 40
# The part of a padded window that the forward pass takes: the backward pass with its all-reduce
# then comes while a loader still reads, as it does in the study's training.
_FORWARD_SHARE = 0.35

Arrays = dict[str, Any]


def run(options: Options, world: World) -> None:
    """Train on every tier, with phases whose batches lie in memory between.

    Raises:
        FabricError: a tier or a rank was lost, has other samples, or nothing can be written.
    """
    trainer = _Trainer(options, world)
    file: RecordFile | None = None
    for named in options.tiers:
        if named.name == BASELINE:
            raise FabricError(f"`{BASELINE}` is the name of the baseline: name the tier otherwise")
        with tiers.opened(named, options, world) as tier:
            if file is None:
                file = recording.begin(options, world, trainer.conditions())
            recording.write(file, "note", text=tier.condition)
            _check_fields(tier)
            loader, sampler = tiers.loader(
                tier, trainer.example, collate, batch=options.batch, options=options, world=world
            )
            trainer.on_tier(tier.name, tiers.Batches(loader, sampler), file)
            file.flush()


def _check_fields(tier: tiers.Tier) -> None:
    if isinstance(tier.source, forebay.Dataset):
        names = {field.name for field in tier.source.fields}
        if not {"raw", "edges"} <= names:
            raise FabricError(
                f"tier `{tier.name}` has fields {', '.join(sorted(names))}, not the samples that "
                "`forebay fabric data` makes: time your own loop with `forebay.torch.StepTimer`"
            )


class _Padded(nn.Module):
    """The model; its forward pass takes at least the window, asleep where a GPU would compute."""

    def __init__(self, model: nn.Module, window_s: float) -> None:
        super().__init__()
        self.model = model
        self._window_s = window_s

    def forward(self, batch: GraphBatch) -> torch.Tensor:
        began = time.perf_counter()
        predicted: torch.Tensor = self.model(batch)
        time.sleep(max(0.0, self._window_s - (time.perf_counter() - began)))
        return predicted


class _Timer(StepTimer):
    """Writes the measured iterations into the file of the study."""

    file: RecordFile
    path: str
    warm_up: int
    walls: list[float]

    def _keep(self, step: _Step, seconds: dict[str, float]) -> None:
        place = step.iteration - self.warm_up
        if place < 0:
            return
        self.walls.append(seconds["total_s"])
        recorded = {name: value for name, value in seconds.items() if name != "rest_s"}
        about = {"path": self.path, "epoch": step.epoch, "iteration": place, "rank": self._rank}
        recording.write(self.file, "iteration", **about, **recorded)


class _Trainer:
    """The model of one rank, its optimizer and its timer."""

    def __init__(self, options: Options, world: World) -> None:
        self._options = options
        self._world = world
        on_gpu = world.device.type == "cuda"
        self._atoms = options.atoms or (data.ATOMS if on_gpu else _CPU_ATOMS)
        torch.manual_seed(options.seed)
        model = Egnn(features=data.COLUMNS - 3, width=options.width, layers=options.layers)
        self._parameters = parameter_count(model)
        padded = _Padded(model, _FORWARD_SHARE * options.window_s).to(world.device)
        with lost_ranks():
            self._model = DistributedDataParallel(
                padded, device_ids=[world.device.index] if on_gpu else None
            )
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-3)
        self._timer = _Timer(self._model, self._optimizer)
        self._baselines = 0
        numbers = range(options.batch)
        samples = [data.sample(number, options.seed) for number in numbers]
        made = [self.example({"raw": raw, "edges": edges}) for raw, edges in samples]
        self._made = collate(made)

    def conditions(self) -> list[str]:
        options = self._options
        padded = (
            f", at least {1e3 * options.window_s:g} ms an iteration: asleep for {_FORWARD_SHARE:.0%} of it in "
            "the forward pass, and for what is left after the optimizer's step"
        )
        return [
            f"EGNN of {self._parameters:,} parameters ({4 * self._parameters / 1e3:.0f} KB of gradients) "
            f"under DDP with {self._world.backend}, batch {options.batch} a rank, {self._atoms} atoms of a "
            f"sample seen by the model{padded if options.window_s else ''}.",
            f"{options.workers} loader workers on each rank, {options.prefetch} batches ahead for each.",
            "Samples are shaped like those of MILAN (286 KB in two ranges); their numbers are drawn.",
            f"Phases with batches in memory (`{BASELINE}`) and with I/O take turns {options.rounds} times; "
            f"{options.warm_up // options.rounds} iterations before each are not measured.",
            *recording.machine_conditions(options),
        ]

    def example(self, sample: Mapping[str, data.Array]) -> Arrays:
        """What the model sees of a sample."""
        raw, edges = np.asarray(sample["raw"]), np.asarray(sample["edges"])
        ends = edges[:2]
        inside = (ends < self._atoms).all(axis=0)
        core = raw[: self._atoms]
        return {
            "coord": np.array(core[:, :3]),
            "feat": np.array(core[:, 3:]),
            "edge_index": ends[:, inside].astype(np.int64),
            "edge_attr": np.array(edges[2, inside].view(np.float32)),
            "target": np.float32(core[:, 3:].mean()),
        }

    def on_tier(self, name: str, batches: tiers.Batches, file: RecordFile) -> None:
        """All rounds on one tier."""
        options = self._options
        rounds, warm_up = options.rounds, options.warm_up // options.rounds
        for number in range(rounds):
            measured = options.iterations // rounds + (number < options.iterations % rounds)
            hold(True)
            self._baselines += 1
            made = itertools.repeat(self._made, warm_up + measured)
            self._phase(BASELINE, self._baselines, made, file, staged=False)
            hold(False)
            taken = itertools.islice(_endless(batches), warm_up + measured)
            self._phase(name, number + 1, taken, file, staged=True)

    def _phase(
        self, path: str, epoch: int, batches: Iterable[Arrays], file: RecordFile, staged: bool
    ) -> None:
        timer = self._timer
        timer.file, timer.path, timer.walls = file, path, []
        timer.warm_up = self._options.warm_up // self._options.rounds
        for batch in timer.batches(batches, epoch - 1):
            if not staged:
                hold(True)
            self._step(batch, gate=self._options.gate_s is not None and staged)
        asked = len(timer.walls) * self._options.batch * data.SAMPLE_BYTES if staged else 0
        wall = sum(timer.walls)
        recording.write(file, "epoch", path=path, epoch=epoch, wall_s=wall, asked_bytes=asked)

    def _step(self, batch: Arrays, gate: bool) -> None:
        device = self._world.device
        began = time.perf_counter()
        graphs = GraphBatch(
            **{name: torch.from_numpy(each).to(device) for name, each in batch.items()}
        )
        with lost_ranks():
            loss = nn.functional.mse_loss(self._model(graphs), graphs.target)
            if gate:
                with forebay.torch.collectives():
                    loss.backward()  # type: ignore[no-untyped-call]
            else:
                loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            self._optimizer.zero_grad()
        time.sleep(max(0.0, self._options.window_s - (time.perf_counter() - began)))


def _endless(batches: tiers.Batches) -> Iterator[Arrays]:
    while True:
        yield next(batches)


def collate(examples: Sequence[Arrays]) -> Arrays:
    """Join examples into the arrays of one batch; atom numbers run on from graph to graph."""
    sizes = np.array([len(each["coord"]) for each in examples])
    starts = np.cumsum(sizes) - sizes
    edges = [each["edge_index"] + start for each, start in zip(examples, starts, strict=True)]
    return {
        "coord": np.concatenate([each["coord"] for each in examples]),
        "feat": np.concatenate([each["feat"] for each in examples]),
        "edge_index": np.concatenate(edges, axis=1),
        "edge_attr": np.concatenate([each["edge_attr"] for each in examples]),
        "graph": np.repeat(np.arange(len(examples)), sizes),
        "target": np.array([each["target"] for each in examples], dtype=np.float32),
    }
