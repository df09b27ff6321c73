"""Training delivers every sample once an epoch, in the order of the seed, and records each step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data.distributed import DistributedSampler

from demo import records, sair
from demo.graphs import digest
from demo.train import parse, train

from .conftest import TINY


def direct(tiny: Path, out: Path, *more: str) -> Any:
    """Train directly and give back what was seen."""
    out.mkdir()
    words = {"path": "direct", "data": tiny, "root": tiny, "batch": 4, "epochs": 2, "seed": 5}
    words |= {"records": out / "records.jsonl", "seen": out / "seen.npz"}
    train(
        parse([*[word for key, value in words.items() for word in (f"--{key}", str(value))], *more])
    )
    with np.load(out / "seen.npz") as seen:
        return {name: seen[name] for name in seen}


def usual_sampler() -> DistributedSampler[int]:
    """What everybody uses, for the data set and seed of these tests."""
    samples: Any = range(TINY.samples)
    return DistributedSampler(samples, 1, 0, shuffle=True, seed=5)


@pytest.fixture(scope="module")
def trained(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """One run with two workers: its folder, and what it saw."""
    out = tmp_path_factory.mktemp("train") / "out"
    return out, direct(tiny, out, "--workers", "2")


def test_the_order_is_that_of_the_distributed_sampler(trained: tuple[Path, Any]) -> None:
    _, seen = trained
    sampler = usual_sampler()
    for epoch, order in enumerate(seen["index"]):
        sampler.set_epoch(epoch)
        assert order.tolist() == list(sampler)
    assert seen["index"][0].tolist() != seen["index"][1].tolist()


def test_the_time_of_workers_is_kept_epoch_by_epoch(trained: tuple[Path, Any]) -> None:
    _, seen = trained
    assert seen["worker_s"].shape == (2,)
    assert seen["worker_s"].min() > 0


def test_digests_are_those_of_the_stored_samples(trained: tuple[Path, Any], tiny: Path) -> None:
    import h5py

    _, seen = trained
    rows = sair.read_manifest(tiny)
    for index, found in zip(seen["index"][1], seen["digest"][1], strict=True):
        row = rows[index]
        with (
            h5py.File(tiny / row.fn, "r") as raw,
            h5py.File(tiny / row.fn.replace("raw", "edges"), "r") as edges,
        ):
            fields = {**raw[f"{row.pdbid}/dcomplex/{row.poseid}"], **edges[row.key]}
            assert digest({name: field[()] for name, field in fields.items()}) == tuple(found)


def test_every_step_is_recorded(trained: tuple[Path, Any], tiny: Path) -> None:
    out, _ = trained
    made = list(records.read(out / "records.jsonl"))
    steps = [record for record in made if isinstance(record, records.Iteration)]
    ends = [record for record in made if isinstance(record, records.Epoch)]
    assert [(s.epoch, s.iteration) for s in steps] == [(e, i) for e in (1, 2) for i in range(6)]
    for step in steps:
        parts = step.wait_s + step.forward_s + step.backward_s + step.optimizer_s
        assert 0 <= parts <= step.total_s and step.compute_s > 0
    decoded = sum(part for part in _decoded(tiny))
    for end in ends:
        assert end.path == "direct" and end.asked_bytes == decoded
        mine = [step.total_s for step in steps if step.epoch == end.epoch]
        assert sum(mine) <= end.wall_s


def _decoded(tiny: Path) -> list[int]:
    import json

    decoded: dict[str, int] = json.loads((tiny / "dataset.json").read_text())["decoded_bytes"]
    return list(decoded.values())


def test_losses_do_not_depend_on_the_workers(
    trained: tuple[Path, Any], tiny: Path, tmp_path: Path
) -> None:
    _, seen = trained
    alone = direct(tiny, tmp_path / "alone", "--workers", "0")
    assert np.array_equal(alone["loss"], seen["loss"])
    assert np.array_equal(alone["digest"], seen["digest"])


def test_training_lowers_the_loss(tiny: Path, tmp_path: Path) -> None:
    seen = direct(tiny, tmp_path / "long", "--workers", "0", "--epochs", "12")
    assert seen["loss"][-1].mean() < seen["loss"][0].mean()


def test_forebays_sampler_gives_the_same_order() -> None:
    fb = pytest.importorskip("forebay.torch", exc_type=ImportError)
    sampler = fb.Sampler(TINY.samples, seed=5, rank=0, world_size=1)
    usual = usual_sampler()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        usual.set_epoch(epoch)
        assert list(sampler) == list(usual) and len(sampler) == len(usual)


def test_the_forebay_path_needs_index_and_cache(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--path", "forebay", "--data", ".", "--root", ".", "--records", "r", "--seen", "s"]
    with pytest.raises(SystemExit):
        parse(words)
    assert "needs --index and --cache" in capsys.readouterr().err
