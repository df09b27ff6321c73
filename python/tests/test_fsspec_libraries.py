"""Libraries that take a URL of fsspec, or a file of it, read through the cache what they wrote."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from node import Node

import forebay
from forebay.fsspec import ForebayFileSystem

with warnings.catch_warnings():
    # Of two builds of numpy's headers; no concern of these tests.
    warnings.simplefilter("ignore")
    import xarray
    import zarr

VALUES = np.random.default_rng(5).standard_normal((300, 400))


def indexed(root: Path) -> str:
    """The URL of a folder's index, hidden files included."""
    index = root.parent / f"{root.name}.forebay"
    forebay.index(root, index, files=True, hidden=True)
    return f"forebay://{index}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "origin"
    root.mkdir()
    return root


@pytest.fixture
def options(node: Node) -> dict[str, Any]:
    return {"cache": str(node.cache)}


def test_pandas(root: Path, options: dict[str, Any]) -> None:
    frame = pandas.DataFrame({"n": range(5000), "t": [f"row {n}" for n in range(5000)]})
    frame.to_csv(root / "x.csv", index=False)
    frame.to_parquet(root / "x.parquet", row_group_size=700)
    url = indexed(root)
    for read, name in ((pandas.read_csv, "x.csv"), (pandas.read_parquet, "x.parquet")):
        pandas.testing.assert_frame_equal(read(f"{url}/{name}", storage_options=options), frame)
    some = pandas.read_parquet(f"{url}/x.parquet", columns=["n"], storage_options=options)
    assert some["n"].sum() == frame["n"].sum()


def test_pyarrow(root: Path, options: dict[str, Any]) -> None:
    table = pa.table({"n": np.arange(9000), "part": np.repeat([0, 1, 2], 3000)})
    pyarrow.dataset.write_dataset(table, root / "data", format="parquet", partitioning=["part"])
    indexed(root)
    fs = ForebayFileSystem(root.parent / "origin.forebay", **options)
    read = pyarrow.dataset.dataset("data", filesystem=fs, format="parquet", partitioning=["part"])
    assert sorted(read.to_table()["n"].to_pylist()) == list(range(9000))
    chosen = read.to_table(filter=pyarrow.dataset.field("part") == 1)
    assert chosen["n"].to_pylist() == list(range(3000, 6000))
    (first, *_) = fs.find("data/1")
    with fs.open(first) as file:
        assert pyarrow.parquet.read_table(file)["n"].to_pylist() == list(range(3000, 6000))


@pytest.mark.parametrize("version", [2, 3])
def test_zarr(root: Path, options: dict[str, Any], version: int) -> None:
    made = zarr.create_array(
        str(root / "a.zarr"),
        shape=VALUES.shape,
        chunks=(50, 70),
        dtype="f8",
        zarr_format=version,
    )
    made[:] = VALUES
    read = zarr.open_array(f"{indexed(root)}/a.zarr", mode="r", storage_options=options)
    np.testing.assert_array_equal(read[:], VALUES)
    np.testing.assert_array_equal(read[10:77, 5:300:7], VALUES[10:77, 5:300:7])


def test_xarray(root: Path, options: dict[str, Any]) -> None:
    grid = xarray.Dataset({"t": (("y", "x"), VALUES)}, coords={"x": np.arange(400)})
    grid.to_zarr(root / "grid.zarr", consolidated=False, zarr_format=3)
    url = indexed(root)
    read = xarray.open_zarr(f"{url}/grid.zarr", consolidated=False, storage_options=options)
    xarray.testing.assert_identical(read.load(), grid)


def test_h5py(root: Path, options: dict[str, Any]) -> None:
    with h5py.File(root / "x.h5", "w") as file:
        file.create_dataset("plain", data=VALUES)
        file.create_dataset("lzf", data=VALUES, chunks=(50, 70), compression="lzf")
    indexed(root)
    fs = ForebayFileSystem(root.parent / "origin.forebay", **options)
    for _ in range(2):
        with fs.open("x.h5") as opened, h5py.File(opened) as file:
            np.testing.assert_array_equal(file["plain"][()], VALUES)
            np.testing.assert_array_equal(file["lzf"][10:77, 5:300:7], VALUES[10:77, 5:300:7])
