"""Reading samples the usual way: h5py on the shared file system."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
from torch.utils.data import Dataset

from demo.graphs import Example, example
from demo.sair import Row


class DirectDataset(Dataset[Example]):
    """Samples of `folder`, in the order of `rows`, by h5py with its defaults.

    Files are opened at first use in each process and stay open, as a careful user would do it.
    """

    def __init__(self, folder: Path, rows: list[Row]) -> None:
        self._folder = folder
        self._rows = rows
        self._files: dict[str, h5py.File] = {}
        self._opened_by = os.getpid()

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Example:
        row = self._rows[index]
        raw = self._file(row.fn)[row.pdbid]["dcomplex"][row.poseid]
        edges = self._file(row.fn.replace("raw_", "edges_"))[row.pdbid][row.poseid]
        arrays = {
            "coord": raw["coord"][()],
            "feat": raw["feat"][()],
            "edge_index": edges["edge_index"][()],
            "edge_attr": edges["edge_attr"][()],
        }
        return example(index, arrays, row.affinity)

    def _file(self, name: str) -> h5py.File:
        # A handle of the parent process would share its file position and HDF5's state.
        if self._opened_by != os.getpid():
            self._files = {}
            self._opened_by = os.getpid()
        if name not in self._files:
            self._files[name] = h5py.File(self._folder / name, "r")
        return self._files[name]
