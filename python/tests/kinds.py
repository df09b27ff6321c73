"""Files of many formats, each written by its own library, and what that library reads from them."""

from __future__ import annotations

import io
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import torch
from PIL import Image
from safetensors.numpy import load_file, save_file

with warnings.catch_warnings():
    # Of two builds of numpy's headers; no concern of these tests.
    warnings.simplefilter("ignore")
    import netCDF4

_RNG = np.random.default_rng(3)
_SMOOTH = np.repeat(_RNG.standard_normal(4000), 50).reshape(400, 500)

# The filters of h5py and some of hdf5plugin, by the name of the data set.
FILTERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "chunked": {"chunks": (50, 100)},
    "gzip": {"chunks": (50, 100), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"chunks": (64, 64), "compression": "lzf"},
    "zstd": {"chunks": (50, 100), **hdf5plugin.Zstd()},
    "blosc": {"chunks": (50, 100), **hdf5plugin.Blosc()},
}


def write(root: Path) -> None:
    """One file of each kind, and one of HDF5 for each range of versions."""
    root.mkdir(parents=True)
    for version in ("earliest", "v108", "v110", "latest"):
        with h5py.File(root / f"{version}.h5", "w", libver=(version, "latest")) as file:
            for name, options in FILTERS.items():
                file.create_dataset(f"group/{name}", data=_SMOOTH, **options)
            file["group"].attrs["words"] = "a turbine"
    with netCDF4.Dataset(root / "grid.nc", "w") as grid:
        grid.createDimension("y", 400)
        grid.createDimension("x", 500)
        values = grid.createVariable("t", "f8", ("y", "x"), zlib=True)
        values[:] = _SMOOTH
    np.save(root / "array.npy", _SMOOTH)
    np.savez_compressed(root / "arrays.npz", a=_SMOOTH, b=np.arange(10))
    _SMOOTH.tofile(root / "raw.bin")
    table = pa.table({"n": np.arange(50_000), "t": [f"row {n}" for n in range(50_000)]})
    pyarrow.parquet.write_table(table, root / "table.parquet", row_group_size=7000)
    with (
        pa.OSFile(str(root / "table.arrow"), "wb") as out,
        pa.ipc.new_file(out, table.schema) as to,
    ):
        to.write_table(table, max_chunksize=9000)
    Image.fromarray((_SMOOTH * 40 + 128).clip(0, 255).astype(np.uint8)).save(root / "image.png")
    torch.save({"w": torch.from_numpy(_SMOOTH), "n": [1, 2]}, root / "model.pt")
    save_file({"a": _SMOOTH, "b": np.arange(3)}, root / "model.safetensors")
    with sqlite3.connect(root / "rows.db") as rows:
        rows.execute("create table t(a, b)")
        rows.executemany("insert into t values (?, ?)", [(n, str(n)) for n in range(5000)])
    rows.close()


def _hdf5(path: Path) -> Any:
    with h5py.File(path) as file:
        # At random and whole.
        some = [file[f"group/{name}"][17:350:3, 5:77] for name in FILTERS]
        return [
            *some,
            *(file[f"group/{name}"][()] for name in FILTERS),
            file["group"].attrs["words"],
        ]


def _netcdf(path: Path) -> Any:
    with netCDF4.Dataset(path) as grid:
        return grid["t"][:].data


def _table(path: Path) -> Any:
    table = pyarrow.dataset.dataset(str(path)).to_table()
    return [table["n"].to_numpy(), ",".join(table["t"].to_pylist())]


def _arrow(path: Path) -> Any:
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()["n"].to_numpy().copy()


def _image(path: Path) -> Any:
    with Image.open(path) as image:
        return np.asarray(image)


def _tensors(path: Path) -> Any:
    loaded = torch.load(path)
    return [loaded["w"].numpy(), loaded["n"], torch.load(path, mmap=True)["w"].numpy().copy()]


def _rows(path: Path) -> Any:
    rows = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        return rows.execute("select count(*), sum(a), max(b) from t").fetchall()
    finally:
        rows.close()


# How each file is read, by its name.
READERS: dict[str, Callable[[Path], Any]] = {
    **{f"{version}.h5": _hdf5 for version in ("earliest", "v108", "v110", "latest")},
    "grid.nc": _netcdf,
    "array.npy": lambda path: [np.load(path), np.load(path, mmap_mode="r")[100:200].copy()],
    "arrays.npz": lambda path: list(np.load(path).values()),
    "raw.bin": lambda path: [np.fromfile(path, "f8", 500, offset=800), np.memmap(path, "f8", "r")],
    "table.parquet": _table,
    "table.arrow": _arrow,
    "image.png": _image,
    "model.pt": _tensors,
    "model.safetensors": lambda path: [load_file(path)["a"], load_file(path)["b"]],
    "rows.db": _rows,
}


def digest(value: Any) -> bytes:
    """The same for the same types, shapes and bytes."""
    out = io.BytesIO()
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, np.ndarray):
            out.write(f"{each.dtype} {each.shape} ".encode() + np.ascontiguousarray(each).tobytes())
        else:
            out.write(repr(each).encode())
    return out.getvalue()
