"""The data set has SAIR's layout and sizes, follows from its options, and is complete or absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from demo import molecules, sair

from .conftest import TINY


def poses(folder: Path) -> list[tuple[sair.Row, Any, Any]]:
    """Every row of the manifest with its two groups."""
    files = {path.name: h5py.File(path, "r") for path in folder.glob("*.h5")}
    return [
        (
            row,
            files[row.fn][row.pdbid]["dcomplex"][row.poseid],
            files[row.fn.replace("raw_", "edges_")][row.pdbid][row.poseid],
        )
        for row in sair.read_manifest(folder)
    ]


def test_every_sample_has_the_fields_of_sair(tiny: Path) -> None:
    for _, raw, edges in poses(tiny):
        atoms, count = raw["coord"].shape[0], edges["edge_attr"].shape[0]
        assert raw["coord"].shape == (atoms, 3) and raw["coord"].dtype == np.dtype("<f4")
        assert raw["feat"].shape == (atoms, 19) and raw["feat"].dtype == np.dtype("<f4")
        assert edges["edge_index"].shape == (2, count)
        assert edges["edge_index"].dtype == np.dtype("<i4")
        assert edges["edge_attr"].shape == (count,)
        assert edges["edge_attr"].dtype == np.dtype("<f4")
        assert set(raw) == {"coord", "feat"} and set(edges) == {"edge_index", "edge_attr"}


def test_raw_is_lzf_and_edges_are_contiguous(tiny: Path) -> None:
    for _, raw, edges in poses(tiny):
        assert raw["coord"].compression == raw["feat"].compression == "lzf"
        for name in ("edge_index", "edge_attr"):
            assert edges[name].chunks is None and edges[name].compression is None
            assert edges[name].id.get_offset() is not None


def test_attributes_label_the_pose_and_agree_with_the_manifest(tiny: Path) -> None:
    for row, raw, _ in poses(tiny):
        assert set(raw.attrs) == {"affinity", "rmsd", "score", "ligand_atoms", "placement"}
        assert "synthetic" in raw.attrs["placement"] and "not docked" in raw.attrs["placement"]
        for name in ("affinity", "rmsd", "score"):
            assert raw.attrs[name] == np.float32(getattr(row, name))
        assert (raw["feat"][:, -1] == 1).sum() == raw.attrs["ligand_atoms"]
        assert (raw["feat"][raw.attrs["ligand_atoms"] :, -1] == -1).all()


def test_samples_have_the_size_of_the_paper_and_vary(tiny: Path) -> None:
    sizes = [
        raw["coord"].nbytes
        + raw["feat"].nbytes
        + edges["edge_index"].nbytes
        + edges["edge_attr"].nbytes
        for _, raw, edges in poses(tiny)
    ]
    assert 0.8 * 286e3 < np.mean(sizes) < 1.2 * 286e3
    assert len(set(sizes)) > len(sizes) // 2


def test_edges_are_all_pairs_within_reach_and_nothing_else(tiny: Path) -> None:
    _, raw, edges = poses(tiny)[0]
    coord = raw["coord"][()].astype(np.float64)
    distance = np.linalg.norm(coord[:, None] - coord[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    dense = np.zeros_like(distance)
    source, sink = edges["edge_index"][()]
    dense[source, sink] = edges["edge_attr"][()]
    assert len(np.unique(source.astype(np.int64) * len(coord) + sink)) == len(source)
    # Positions are stored in f32, so a pair may cross the limit by as much.
    near, linked = distance < sair.EDGE_REACH, dense > 0
    assert np.abs(distance[near != linked] - sair.EDGE_REACH).max(initial=0) < 1e-4
    assert np.abs((distance - dense)[linked]).max() < 1e-4


def test_ligands_are_real_molecules_moved_rigidly(
    tiny: Path, components: molecules.Components
) -> None:
    row, raw, _ = poses(tiny)[7]
    ligand = components.ligand(row.pdbid.split("-", 1)[1])
    placed = raw["coord"][: raw.attrs["ligand_atoms"]].astype(np.float64)

    def distances(coord: Any) -> Any:
        return np.linalg.norm(coord[:, None] - coord[None], axis=2)

    assert np.abs(distances(placed) - distances(ligand.coord)).max() < 1e-3


def test_equal_options_give_equal_samples(tiny: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert sair.make(again, TINY)
    assert (tiny / "manifest.csv").read_bytes() == (again / "manifest.csv").read_bytes()
    # Not the files byte for byte: LZF's search starts from memory as it finds it, so equal
    # arrays may be compressed differently.
    for one, two in zip(poses(tiny), poses(again), strict=True):
        for first, second in zip(one[1:], two[1:], strict=True):
            assert dict(first.attrs) == dict(second.attrs)
            for name in first:
                assert np.array_equal(first[name], second[name]), (one[0].key, name)


def test_another_seed_gives_other_samples(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    sair.make(folder, sair.DataOptions(TINY.samples, TINY.shards, TINY.seed + 1))
    keys = {row.key for row in sair.read_manifest(tiny)}
    assert keys.isdisjoint(row.key for row in sair.read_manifest(folder))


def test_rows_are_in_the_order_of_their_keys_and_complete(tiny: Path) -> None:
    keys = [row.key for row in sair.read_manifest(tiny)]
    assert keys == sorted(set(keys)) and len(keys) == TINY.samples
    about = json.loads((tiny / "dataset.json").read_text())
    assert about["samples"] == TINY.samples and "not docked" in about["placement"]


def test_a_data_set_that_is_there_is_kept_and_another_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    small = sair.DataOptions(samples=2, shards=1, seed=1)
    assert sair.make(folder, small)
    assert not sair.make(folder, small)
    assert sair.make(folder, sair.DataOptions(samples=3, shards=1, seed=1))
    assert len(sair.read_manifest(folder)) == 3


def test_a_set_that_cannot_be_finished_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("device full")

    monkeypatch.setattr(sair, "_recipe", fail)
    monkeypatch.setattr(sair, "is_made", lambda *_: False)
    with pytest.raises(OSError, match="device full"):
        sair.make(tmp_path / "data", sair.DataOptions(samples=2, shards=1))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.txt").write_text("only copy")
    with pytest.raises(sair.DataError, match="is no data set of the demo"):
        sair.make(tmp_path / "data", sair.DataOptions(samples=2, shards=1))
    assert (tmp_path / "data" / "thesis.txt").read_text() == "only copy"


@pytest.mark.parametrize("samples, shards", [(0, 1), (1, 0), (10**9, 1)])
def test_impossible_sizes_are_refused(tmp_path: Path, samples: int, shards: int) -> None:
    with pytest.raises(sair.DataError, match="cannot make"):
        sair.make(tmp_path / "data", sair.DataOptions(samples, shards))
