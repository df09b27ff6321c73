"""Cases of files that others wrote: those that Python packages ship, and kerchunk's view of some."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import h5py
import numpy as np
from hdf5_cases import case, floats, smooth
from hdf5_types import split

# netCDF-4, h5ad, NeXus, LIGO, PyTables with MATLAB 7.3 and old flavours, h5py's own.
PACKAGES = ["iris_sample_data", "scanpy", "nexusformat", "gwpy", "tables", "h5py"]
ENDINGS = {".nc", ".h5ad", ".nxs", ".hdf", ".h5", ".mat"}


def real_files():
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        if found is None:
            print(f"skipped: `{package}` is not installed", file=sys.stderr)
            continue
        folder = Path(found.submodule_search_locations[0])
        yield from sorted(p for p in folder.rglob("*") if p.suffix in ENDINGS and p.is_file())


def plain(dtype):
    """Whether numpy has the type as bytes, or as a compound of such."""
    if dtype.names is None:
        return dtype.base.kind in "biufcSV"
    return all(plain(dtype[name]) for name in dtype.names)


def data_sets(file):
    """Paths of the data sets, without those behind links that lead nowhere."""
    found = []
    file.visititems(
        lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None
    )
    return found


@case
def real(out):
    """Each data set of each file is a sample here. One without fields is refused in place."""
    samples = []
    for number, path in enumerate(real_files()):
        if not h5py.is_hdf5(path):
            continue
        copy = out / f"{number:03}" / path.name
        copy.parent.mkdir()
        # All of its folder that it may lead to.
        for other in path.parent.glob("elink*"):
            shutil.copy(other, copy.parent)
        shutil.copy(path, copy)
        with h5py.File(path, "r") as file:
            for name in data_sets(file):
                try:
                    value = np.asarray(file[name][()])
                    read = file[name].shape is not None and plain(file[name].dtype)
                except (OSError, TypeError, ValueError):
                    # Compressions without a plug-in, types without a numpy type.
                    read = False
                key = f"{copy.relative_to(out)}:{name}"
                samples += split([(key, {name: value} if read else {})])
    return samples


@case
def kerchunk(out):
    """Writes `refs.json`: where kerchunk finds each chunk, or why it was not asked."""
    from_kerchunk = importlib.util.find_spec("kerchunk")
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        group["plain"] = floats(30, 7)
        for name, options in [
            ("chunks", {}),
            ("gzip", {"compression": "gzip", "shuffle": True}),
            ("grow", {"compression": "gzip", "maxshape": (None, None)}),
        ]:
            group.create_dataset(name, data=smooth(50, 20), chunks=(16, 7), **options)
        sparse = group.create_dataset("sparse", (50, 20), "<i2", chunks=(16, 7), compression="gzip")
        sparse[20:30] = 1
    if from_kerchunk is None:
        refs = {"skipped": "kerchunk is not installed"}
    else:
        from kerchunk.hdf import SingleHdf5ToZarr

        refs = SingleHdf5ToZarr(str(out / "a.h5"), inline_threshold=0).translate()["refs"]
    found = {name: ref for name, ref in refs.items() if not isinstance(ref, (bytes, dict))}
    (out / "refs.json").write_text(json.dumps(found))
