"""A data set in the layout of SAIR, made of real molecules in synthetic placements.

Ligands and pockets are real. A pose is a rigid placement made here: the ligand is turned and
moved at random within the binding site, and of several tries the one that clashes least is kept.
Nothing is docked, and `affinity`, `rmsd` and `score` are computed from the geometry: they are
labels to train against, not measurements.

Layout, for file number NNN:

- `raw_NNN.h5`: `[pdbid]["dcomplex"][poseid]/coord` (N, 3) f32 and `feat` (N, 19) f32, LZF, with
  attributes `affinity`, `rmsd`, `score`, `ligand_atoms` and `placement` on the pose.
- `edges_NNN.h5`: `[pdbid][poseid]/edge_index` (2, E) i32 and `edge_attr` (E) f32, contiguous.
- `manifest.csv`: one row per pose. `dataset.json`: how the set was made, and its sizes.

Ligand atoms come first, then pocket atoms from the nearest to the farthest.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import shutil
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from demo.molecules import F32, F64, Components, Ligand, Pocket, pocket, pocket_names

LAYOUT_VERSION = 1
POSES_PER_ENTRY = 5
PLACEMENT = "synthetic: rigid placement by the demo, not docked"
MANIFEST_COLUMNS = ("fdir", "fn", "pdbid", "poseid", "affinity", "rmsd", "score")

# Å. Gives about 21 directed edges an atom, so 840 atoms come with about 212 KB of edges.
EDGE_REACH = 4.93
ATOMS_LEAST, ATOMS_MOST = 620, 1060
_TRIES = 16
_CLASH, _CONTACT = 3.0, 4.5


@dataclass(frozen=True)
class DataOptions:
    """What the data set depends on, and nothing else: equal options give equal samples."""

    samples: int = 1600
    shards: int = 6
    seed: int = 7


@dataclass(frozen=True)
class Pose:
    """One sample: arrays as stored, and its labels."""

    coord: F32
    feat: F32
    edge_index: NDArray[np.int32]
    edge_attr: F32
    ligand_atoms: int
    rmsd: float
    score: float


@dataclass(frozen=True)
class Row:
    """One line of the manifest."""

    fdir: str
    fn: str
    pdbid: str
    poseid: str
    affinity: float
    rmsd: float
    score: float

    @property
    def key(self) -> str:
        """The sample's key, as `forebay index` makes it."""
        return f"{self.pdbid}/{self.poseid}"


class DataError(Exception):
    """The data set cannot be made, or the folder is not one."""


def place(site: Pocket, tree: cKDTree, ligand: Ligand, rng: np.random.Generator) -> F64:
    """Positions of the ligand's atoms (n, 3) in Å after the least clashing of several tries."""
    turns = Rotation.random(_TRIES, rng=rng).as_matrix()
    moves = site.centre + np.clip(rng.normal(0, 2.5, (_TRIES, 3)), -6, 6)
    tries = ligand.coord @ turns.transpose(0, 2, 1) + moves[:, None, :]
    nearest = tree.query(tries)[0]
    clashes = (nearest < _CLASH).sum(axis=1)
    contacts = (nearest < _CONTACT).sum(axis=1)
    best: F64 = tries[np.lexsort((-contacts, clashes))[0]]
    return best


def radius_graph(coord: F64, reach: float = EDGE_REACH) -> tuple[NDArray[np.int32], F32]:
    """Directed edges (2, E) between atoms nearer than `reach` Å, sorted, and their lengths (E)."""
    pairs = cKDTree(coord).query_pairs(reach, output_type="ndarray")
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.argsort(both[:, 0] * len(coord) + both[:, 1])]
    lengths = np.linalg.norm(coord[both[:, 0]] - coord[both[:, 1]], axis=1)
    return np.ascontiguousarray(both.T.astype(np.int32)), lengths.astype(np.float32)


def make_pose(
    site: Pocket, tree: cKDTree, ligand: Ligand, first: F64 | None, rng: np.random.Generator
) -> tuple[Pose, F64]:
    """One pose, and where its ligand lies; `rmsd` is taken against `first`, the entry's first pose."""
    placed = place(site, tree, ligand, rng)
    wanted = int(rng.integers(ATOMS_LEAST, ATOMS_MOST + 1)) - len(placed)
    reach = cKDTree(placed).query(site.coord)[0]
    nearest = np.argsort(reach, kind="stable")[:wanted]
    coord = np.concatenate([placed, site.coord[nearest]])
    edges, lengths = radius_graph(coord)
    contacts = int((reach < _CONTACT).sum())
    clashes = int((reach < _CLASH).sum())
    rmsd = 0.0 if first is None else float(np.sqrt(((placed - first) ** 2).sum(axis=1).mean()))
    pose = Pose(
        coord=coord.astype(np.float32),
        feat=np.concatenate([ligand.feat, site.feat[nearest]]),
        edge_index=edges,
        edge_attr=lengths,
        ligand_atoms=len(placed),
        rmsd=rmsd,
        score=(0.35 * clashes - 0.1 * contacts) / 4,
    )
    return pose, placed


def make_entry(
    site: Pocket, ligand: Ligand, poses: int, seed: tuple[int, int]
) -> tuple[float, list[Pose]]:
    """The affinity of one complex, shared by its poses as in SAIR, and the poses."""
    tree = cKDTree(site.coord)
    made: list[Pose] = []
    first: F64 | None = None
    for number in range(poses):
        pose, placed = make_pose(site, tree, ligand, first, np.random.default_rng([*seed, number]))
        first = placed if first is None else first
        made.append(pose)
    best = min(pose.score for pose in made)
    return float(np.clip(6.0 - best + 0.02 * len(ligand.coord), 2.0, 12.0)), made


def _write_pose(raw: h5py.Group, edges: h5py.Group, pose: Pose, affinity: float) -> None:
    raw.create_dataset("coord", data=pose.coord, compression="lzf")
    raw.create_dataset("feat", data=pose.feat, compression="lzf")
    raw.attrs["affinity"] = np.float32(affinity)
    raw.attrs["rmsd"] = np.float32(pose.rmsd)
    raw.attrs["score"] = np.float32(pose.score)
    raw.attrs["ligand_atoms"] = np.int32(pose.ligand_atoms)
    raw.attrs["placement"] = PLACEMENT
    edges.create_dataset("edge_index", data=pose.edge_index)
    edges.create_dataset("edge_attr", data=pose.edge_attr)


@dataclass(frozen=True)
class _Shard:
    folder: Path
    number: int
    seed: int
    # (number of the entry, target, ligand, count of poses)
    entries: list[tuple[int, Pocket, Ligand, int]]


def _write_shard(shard: _Shard) -> tuple[list[Row], int, int]:
    rows: list[Row] = []
    atoms = edge_count = 0
    raw_name, edges_name = f"raw_{shard.number:03d}.h5", f"edges_{shard.number:03d}.h5"
    with (
        h5py.File(shard.folder / raw_name, "x") as raw,
        h5py.File(shard.folder / edges_name, "x") as edges,
    ):
        for number, site, ligand, poses in shard.entries:
            pdbid = f"{site.name}-{ligand.name}"
            affinity, made = make_entry(site, ligand, poses, (shard.seed, number))
            raw_entry = raw.create_group(f"{pdbid}/dcomplex")
            edges_entry = edges.create_group(pdbid)
            for position, pose in enumerate(made):
                poseid = str(position)
                groups = raw_entry.create_group(poseid), edges_entry.create_group(poseid)
                _write_pose(*groups, pose, affinity)
                row = Row(".", raw_name, pdbid, poseid, affinity, pose.rmsd, pose.score)
                rows.append(row)
                atoms += len(pose.coord)
                edge_count += len(pose.edge_attr)
    return rows, atoms, edge_count


def _plan_shards(folder: Path, options: DataOptions) -> list[_Shard]:
    entries = -(-options.samples // POSES_PER_ENTRY)
    components = Components()
    names = components.drug_like()
    if entries > len(names):
        most = len(names) * POSES_PER_ENTRY
        raise DataError(f"cannot make {options.samples} samples: the molecules give {most}")
    chosen = np.random.default_rng(options.seed).permutation(names)[:entries]
    sites = [pocket(name) for name in pocket_names()[: max(1, min(58, entries))]]
    shards = [_Shard(folder, number, options.seed, []) for number in range(options.shards)]
    left = options.samples
    for number, name in enumerate(chosen):
        poses = min(POSES_PER_ENTRY, left)
        left -= poses
        site = sites[number % len(sites)]
        shards[number % options.shards].entries.append(
            (number, site, components.ligand(str(name)), poses)
        )
    return shards


def _recipe(options: DataOptions) -> dict[str, object]:
    return {
        "layout_version": LAYOUT_VERSION,
        "options": asdict(options),
        "edge_reach": EDGE_REACH,
        "packages": {name: version(name) for name in ("biotite", "dockstring", "h5py", "numpy")},
    }


def _write_all(folder: Path, options: DataOptions) -> None:
    shards = _plan_shards(folder, options)
    workers = min(len(shards), os.cpu_count() or 1)
    # Forked, so that the molecules read above are shared and not read again.
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        written = pool.map(_write_shard, shards, chunksize=1)
    rows = sorted((row for part, _, _ in written for row in part), key=lambda row: row.key)
    with (folder / "manifest.csv").open("x", newline="") as file:
        table = csv.writer(file)
        table.writerow(MANIFEST_COLUMNS)
        table.writerows([getattr(row, column) for column in MANIFEST_COLUMNS] for row in rows)
    atoms = sum(part[1] for part in written)
    edges = sum(part[2] for part in written)
    count = len(rows)
    stored = {
        kind: sum(path.stat().st_size for path in folder.glob(f"{kind}_*.h5"))
        for kind in ("raw", "edges")
    }
    about = _recipe(options) | {
        "placement": PLACEMENT,
        "samples": count,
        "mean_atoms": atoms / count,
        "mean_edges": edges / count,
        "decoded_bytes": {"raw": 88 * atoms, "edges": 12 * edges},
        "stored_bytes": stored,
    }
    (folder / "dataset.json").write_text(json.dumps(about, indent=2) + "\n")


def is_made(folder: Path, options: DataOptions) -> bool:
    """Whether `folder` holds the data set that `options` ask for."""
    try:
        about = json.loads((folder / "dataset.json").read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return all(about.get(key) == value for key, value in _recipe(options).items())


def make(folder: Path, options: DataOptions) -> bool:
    """Make the data set at `folder` unless it is there. True if it had to be made.

    The folder appears complete or not at all; one made by other options is replaced.
    """
    if options.samples < 1 or options.shards < 1:
        raise DataError(f"cannot make {options.samples} samples in {options.shards} shards")
    if is_made(folder, options):
        return False
    if folder.exists() and not (folder / "dataset.json").exists() and any(folder.iterdir()):
        raise DataError(f"`{folder}` is not empty and is no data set of the demo: move it away")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        _write_all(unfinished, options)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    return True


def read_manifest(folder: Path) -> list[Row]:
    """Rows of the manifest in the order of their keys: the order of the sample index."""
    with (folder / "manifest.csv").open(newline="") as file:
        rows = [
            Row(
                fdir=line["fdir"],
                fn=line["fn"],
                pdbid=line["pdbid"],
                poseid=line["poseid"],
                affinity=float(line["affinity"]),
                rmsd=float(line["rmsd"]),
                score=float(line["score"]),
            )
            for line in csv.DictReader(file)
        ]
    return sorted(rows, key=lambda row: row.key)
