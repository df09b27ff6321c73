"""Real molecules and real protein pockets, read from packages that ship them.

Ligands come from the Chemical Component Dictionary inside `biotite`, pockets from the docking
targets inside `dockstring`. Both are read as files: neither package needs its own dependencies.

Every atom gets 19 features, in this order: nine element classes (B, C, N, O, P, S, Se, halogen,
metal; all zero for any other), hybridisation, heavy neighbours, hetero neighbours, hydrophobic,
aromatic, acceptor, donor, in a ring, partial charge, and +1 for ligand or -1 for pocket.
"""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

FEATURES = 19
_CLASSES = ("B", "C", "N", "O", "P", "S", "SE", "halogen", "metal")
_HALOGENS = ("F", "CL", "BR", "I")
_METALS = ("ZN", "FE", "MG", "CA", "MN", "CU", "NI", "CO", "NA", "K", "PT", "RU")
_HYBRID, _HEAVY, _HETERO, _HYDROPHOBIC, _AROMATIC = 9, 10, 11, 12, 13
_ACCEPTOR, _DONOR, _RING, _CHARGE, _MOLECULE = 14, 15, 16, 17, 18

_ELECTRONEGATIVITY = {"C": 2.55, "N": 3.04, "O": 3.44, "S": 2.58, "P": 2.19, "F": 3.98, "CL": 3.16}
# Element of each AutoDock atom type in the target files: there `NA` is an acceptor nitrogen.
_AUTODOCK = {"A": "C", "OA": "O", "NA": "N", "SA": "S", "HD": "H"}
_RING_ATOMS = {
    "PRO": {"N", "CA", "CB", "CG", "CD"},
    "HIS": {"CG", "ND1", "CD2", "CE1", "NE2"},
    "PHE": {"CG", "CD1", "CD2", "CE1", "CE2", "CZ"},
    "TYR": {"CG", "CD1", "CD2", "CE1", "CE2", "CZ"},
    "TRP": {"CG", "CD1", "CD2", "NE1", "CE2", "CE3", "CZ2", "CZ3", "CH2"},
}
# Å. No two bonded heavy atoms of a protein are farther apart, no two others are nearer.
_BOND_REACH = 1.95
_HYDROGEN_REACH = 1.25
# Å. Between the longest aromatic or amide bond (1.40) and the shortest single one (1.43).
_DOUBLE_REACH = 1.42


@dataclass(frozen=True)
class Ligand:
    """One small molecule, heavy atoms only: `coord` (n, 3) in Å about its centre, `feat` (n, 19)."""

    name: str
    coord: F64
    feat: F32


@dataclass(frozen=True)
class Pocket:
    """One protein target, heavy atoms only, and the centre (3,) of its binding site in Å."""

    name: str
    coord: F64
    feat: F32
    centre: F64


class MoleculeError(Exception):
    """A package that ships the molecules is absent or does not hold what it should."""


def _package_folder(package: str) -> Path:
    # Found, not imported: `dockstring` imports docking programs that the demo does not need.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MoleculeError(f"cannot find the package `{package}`: install it into this Python")
    return Path(spec.origin).parent


def _element_classes(elements: NDArray[np.str_]) -> F32:
    classes = np.zeros((len(elements), len(_CLASSES)), np.float32)
    for column, symbol in enumerate(_CLASSES[:-2]):
        classes[:, column] = elements == symbol
    classes[:, -2] = np.isin(elements, _HALOGENS)
    classes[:, -1] = np.isin(elements, _METALS)
    return classes


def _neighbour_features(feat: F32, elements: NDArray[np.str_], bonds: I64) -> None:
    """Fill the columns that follow from elements and bonds (b, 2) alone."""
    both = np.concatenate([bonds, bonds[:, ::-1]])
    hetero = ~np.isin(elements, ("C", "H"))
    np.add.at(feat[:, _HEAVY], both[:, 0], 1)
    np.add.at(feat[:, _HETERO], both[:, 0], hetero[both[:, 1]].astype(np.float32))
    feat[:, _HYDROPHOBIC] = (elements == "C") & (feat[:, _HETERO] == 0)
    feat[:, _ACCEPTOR] = np.isin(elements, ("N", "O"))


def _ring_atoms(count: int, bonds: I64) -> Bool:
    """Atoms with a bond whose loss would not split the molecule."""
    graph = networkx.Graph(bonds.tolist())
    bridges = {frozenset(pair) for pair in networkx.bridges(graph)}
    inside = np.zeros(count, bool)
    for a, b in graph.edges:
        if frozenset((a, b)) not in bridges:
            inside[[a, b]] = True
    return inside


class Components:
    """The Chemical Component Dictionary, as columns."""

    def __init__(self) -> None:
        # A plain BinaryCIF read of the file, so that nothing depends on how biotite caches it.
        from biotite.structure.io.pdbx import BinaryCIFFile

        path = _package_folder("biotite") / "structure" / "info" / "components.bcif"
        block = BinaryCIFFile.read(path).block
        atoms, bonds = block["chem_comp_atom"], block["chem_comp_bond"]
        self.comp = atoms["comp_id"].as_array()
        self.atom = atoms["atom_id"].as_array()
        self.element = np.char.upper(atoms["type_symbol"].as_array())
        self.charge = atoms["charge"].as_array()
        self.aromatic = atoms["pdbx_aromatic_flag"].as_array() == "Y"
        axes = [atoms[f"pdbx_model_Cartn_{axis}_ideal"] for axis in "xyz"]
        self.coord = np.stack([axis.as_array() for axis in axes], axis=1).astype(np.float64)
        known = np.ones(len(self.comp), bool)
        for axis in axes:
            if axis.mask is not None:
                known &= axis.mask.array == 0
        self.known = known & np.isfinite(self.coord).all(axis=1)
        self.bond_comp = bonds["comp_id"].as_array()
        self.bond = np.stack([bonds["atom_id_1"].as_array(), bonds["atom_id_2"].as_array()], axis=1)
        self.bond_order = bonds["value_order"].as_array()
        self._atom_rows = _runs(self.comp)
        self._bond_rows = _runs(self.bond_comp)

    def drug_like(self, least: int = 16, most: int = 40) -> NDArray[np.str_]:
        """Names of molecules with so many heavy atoms, carbon among them, and every position known."""
        names = np.array(list(self._atom_rows))
        first = np.array([rows.start for rows in self._atom_rows.values()])
        heavy = ~np.isin(self.element, ("H", "D"))
        usual = _element_classes(self.element).any(axis=1) | ~heavy
        usual &= ~np.isin(self.element, _METALS)
        counts = np.add.reduceat(heavy.astype(np.int64), first)
        carbons = np.add.reduceat((self.element == "C").astype(np.int64), first)
        whole = np.logical_and.reduceat(self.known & usual, first)
        return names[(counts >= least) & (counts <= most) & (carbons >= 8) & whole]

    def ligand(self, name: str) -> Ligand:
        """One molecule by its component identifier."""
        at = self._atom_rows[name]
        elements = self.element[at]
        heavy = ~np.isin(elements, ("H", "D"))
        place = {atom: i for i, atom in enumerate(self.atom[at])}
        rows = self._bond_rows.get(name, slice(0, 0))
        bonds = np.array([[place[a], place[b]] for a, b in self.bond[rows]], np.int64).reshape(
            -1, 2
        )
        coord = self.coord[at]
        feat = _ligand_features(
            elements, bonds, self.bond_order[rows], self.charge[at], self.aromatic[at]
        )
        centred = coord[heavy] - coord[heavy].mean(axis=0)
        return Ligand(name, centred, feat[heavy])


def _runs(column: NDArray[np.str_]) -> dict[str, slice]:
    # Rows of one component are consecutive in the dictionary.
    edges = np.flatnonzero(column[1:] != column[:-1]) + 1
    bounds = [0, *edges.tolist(), len(column)]
    return {str(column[a]): slice(a, b) for a, b in itertools.pairwise(bounds)}


def _ligand_features(
    elements: NDArray[np.str_], bonds: I64, orders: NDArray[np.str_], charge: Any, aromatic: Bool
) -> F32:
    feat = np.zeros((len(elements), FEATURES), np.float32)
    feat[:, : len(_CLASSES)] = _element_classes(elements)
    heavy = ~np.isin(elements, ("H", "D"))
    skeleton = heavy[bonds].all(axis=1)
    _neighbour_features(feat, elements, bonds[skeleton])
    unsaturation = np.zeros(len(elements), np.int64)
    np.add.at(
        unsaturation, bonds.ravel(), np.repeat((orders == "DOUB") + 2 * (orders == "TRIP"), 2)
    )
    feat[:, _HYBRID] = 3 - np.minimum(np.maximum(unsaturation, aromatic), 2)
    feat[:, _AROMATIC] = aromatic
    for a, b in bonds[~skeleton]:
        parent = a if heavy[a] else b
        feat[parent, _DONOR] = elements[parent] in ("N", "O")
    feat[:, _RING] = _ring_atoms(len(elements), bonds[skeleton])
    # Formal charge, and a sixth of the electronegativity difference along each bond.
    pull = np.array([_ELECTRONEGATIVITY.get(e, 2.2) for e in elements])
    partial = np.asarray(charge, np.float64).copy()
    np.add.at(partial, bonds[:, 0], (pull[bonds[:, 1]] - pull[bonds[:, 0]]) / 6)
    np.add.at(partial, bonds[:, 1], (pull[bonds[:, 0]] - pull[bonds[:, 1]]) / 6)
    feat[:, _CHARGE] = partial
    feat[:, _MOLECULE] = 1
    return feat


def pocket_names() -> list[str]:
    """Names of every target that has a structure and a binding site, sorted."""
    folder = _package_folder("dockstring") / "resources" / "targets"
    names = sorted(
        path.name.removesuffix("_target.pdbqt") for path in folder.glob("*_target.pdbqt")
    )
    if not names:
        raise MoleculeError(f"no target structure in `{folder}`: reinstall `dockstring`")
    return names


def pocket(name: str) -> Pocket:
    """One protein target by name."""
    folder = _package_folder("dockstring") / "resources" / "targets"
    lines = [
        line
        for line in (folder / f"{name}_target.pdbqt").read_text().splitlines()
        if line.startswith(("ATOM", "HETATM"))
    ]
    coord = np.array([[line[30:38], line[38:46], line[46:54]] for line in lines], np.float64)
    charge = np.array([line[68:76] for line in lines], np.float32)
    kinds = np.array([line[76:].strip() for line in lines])
    elements = np.array([_AUTODOCK.get(kind, kind.upper()) for kind in kinds])
    ring = np.array([line[12:16].strip() in _RING_ATOMS.get(line[17:20], ()) for line in lines])
    heavy = elements != "H"
    feat = _pocket_features(coord[heavy], elements[heavy], kinds[heavy] == "A", coord[~heavy])
    feat[:, _RING] = ring[heavy]
    feat[:, _CHARGE] = charge[heavy]
    return Pocket(name, coord[heavy], feat, _binding_site(folder / f"{name}_conf.txt"))


def _pocket_features(coord: F64, elements: NDArray[np.str_], aromatic: Bool, hydrogens: F64) -> F32:
    feat = np.zeros((len(coord), FEATURES), np.float32)
    feat[:, : len(_CLASSES)] = _element_classes(elements)
    tree = cKDTree(coord)
    bonds = tree.query_pairs(_BOND_REACH, output_type="ndarray")
    _neighbour_features(feat, elements, bonds)
    lengths = np.linalg.norm(coord[bonds[:, 0]] - coord[bonds[:, 1]], axis=1)
    feat[:, _HYBRID] = 3
    feat[bonds[lengths < _DOUBLE_REACH].ravel(), _HYBRID] = 2
    feat[:, _AROMATIC] = aromatic
    if len(hydrogens):
        distance, parent = tree.query(hydrogens)
        parent = parent[distance < _HYDROGEN_REACH]
        feat[parent, _DONOR] = np.isin(elements[parent], ("N", "O"))
    feat[:, _MOLECULE] = -1
    return feat


def _binding_site(path: Path) -> F64:
    values = dict(line.split("=") for line in path.read_text().splitlines() if "=" in line)
    fields = {key.strip(): float(value) for key, value in values.items()}
    return np.array([fields["center_x"], fields["center_y"], fields["center_z"]])
