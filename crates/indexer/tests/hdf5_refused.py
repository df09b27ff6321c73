"""One file for each feature that is refused."""

import ctypes
from contextlib import contextmanager
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
from hdf5_cases import case, floats, low_level, smooth


@contextmanager
def refused_file(out, name, **options):
    with h5py.File(out / f"{name}.h5", "w", **options) as file:
        group = file.create_group("s")
        group["ok"] = floats(3)
        yield group


@case
def refused(out):
    """One file for each feature that is refused."""
    with refused_file(out, "vlen") as group:
        group.create_dataset("x", data=["a", "bb"])
    with refused_file(out, "vlen_ints") as group:
        group.create_dataset("x", (2,), h5py.vlen_dtype("i4"))
    with refused_file(out, "reference") as group:
        group.create_dataset("x", data=[group.ref], dtype=h5py.ref_dtype)
    with refused_file(out, "region_reference") as group:
        region = group["ok"].regionref[0:2]
        group.create_dataset("x", data=[region], dtype=h5py.regionref_dtype)
    with refused_file(out, "vlen_references") as group:
        kind = h5py.h5t.vlen_create(h5py.h5t.STD_REF_OBJ)
        h5py.h5d.create(group.id, b"x", kind, h5py.h5s.create_simple((2,)))
    with refused_file(out, "array_of_compounds") as group:
        part = h5py.h5t.py_create(np.dtype([("a", "i4"), ("b", "f4")]))
        kind = h5py.h5t.array_create(part, (2,))
        h5py.h5d.create(group.id, b"x", kind, h5py.h5s.create_simple((3,)))
    with refused_file(out, "blosc2") as group:
        group.create_dataset("x", data=smooth(100), chunks=(100,), **hdf5plugin.Blosc2())
    with refused_file(out, "bzip2") as group:
        group.create_dataset("x", data=smooth(100), chunks=(100,), **hdf5plugin.BZip2())
    with refused_file(out, "zfp") as group:
        group.create_dataset("x", data=floats(100), chunks=(100,), **hdf5plugin.Zfp(accuracy=0.1))
    with refused_file(out, "narrow_member") as group:
        kind = h5py.h5t.create(h5py.h5t.COMPOUND, 8)
        narrow = h5py.h5t.STD_I32LE.copy()
        narrow.set_precision(17)
        kind.insert(b"a", 0, narrow)
        kind.insert(b"b", 4, h5py.h5t.IEEE_F32LE)
        low_level(group, "x", (6,), kind, lambda p: p.set_filter(5), (6,))
    with refused_file(out, "virtual") as group:
        layout = h5py.VirtualLayout((2, 3), "f4")
        layout[0] = h5py.VirtualSource(group["ok"])
        group.create_virtual_dataset("x", layout)
    with refused_file(out, "virtual_growing") as group:
        group.create_dataset("y", data=floats(3), chunks=(2,), maxshape=(None,))
        layout = h5py.VirtualLayout((3,), "f4", maxshape=(None,))
        source = h5py.VirtualSource(group["y"])
        layout[0 : h5py.h5s.UNLIMITED] = source[0 : h5py.h5s.UNLIMITED]
        group.create_virtual_dataset("x", layout)
    with refused_file(out, "virtual_other_type") as group:
        layout = h5py.VirtualLayout((3,), "f8")
        layout[...] = h5py.VirtualSource(group["ok"])
        group.create_virtual_dataset("x", layout)
    with refused_file(out, "time") as group:
        h5py.h5d.create(group.id, b"x", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((3,)))
    with refused_file(out, "date") as group:
        group.create_dataset("x", data=np.zeros(3, "M8[ns]").astype(h5py.opaque_dtype("M8[ns]")))
    with refused_file(out, "null") as group:
        group["x"] = h5py.Empty("f4")
    refused_numbers(out)
    refused_links(out)
    refused_settings(out)


def library():
    """The HDF5 that h5py has loaded: for settings that h5py has no names for."""
    names = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    [loaded] = [name for name in names if Path(name).name.startswith(("libhdf5-", "libhdf5."))]
    return ctypes.CDLL(loaded)


def refused_settings(out):
    def edges_unfiltered(plist):
        plist.set_deflate(4)
        assert library().H5Pset_chunk_opts(ctypes.c_int64(plist.id), 2) == 0

    with refused_file(out, "edges", libver="latest") as group:
        low_level(group, "x", (5,), h5py.h5t.STD_I32LE, edges_unfiltered, (2,), smooth(5))
    # Only a type that is as long to describe as this one is shared.
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    types, own = 1 << 3, ctypes.c_int64(plist.id)
    assert library().H5Pset_shared_mesg_nindexes(own, 1) == 0
    assert library().H5Pset_shared_mesg_index(own, 0, types, 1000) == 0
    path = out / "shared_messages.h5"
    h5py.h5f.create(str(path).encode(), fcpl=plist).close()
    with h5py.File(path, "r+") as file:
        group = file.create_group("s")
        group["ok"] = floats(3)
        # The second that has it finds it in the heap.
        long = [(f"a member with a long name {n}", "<i4") for n in range(40)]
        group["a"], group["x"] = np.zeros(2, long), np.zeros(3, long)


def refused_numbers(out):
    with refused_file(out, "bits") as group:
        kind = h5py.h5t.STD_I32LE.copy()
        kind.set_precision(17)
        h5py.h5d.create(group.id, b"x", kind, h5py.h5s.create_simple((3,)))
    with refused_file(out, "bfloat") as group:
        kind = h5py.h5t.IEEE_F32LE.copy()
        kind.set_fields(15, 7, 8, 0, 7)
        kind.set_size(2)
        h5py.h5d.create(group.id, b"x", kind, h5py.h5s.create_simple((3,)))
    with refused_file(out, "never_filled") as group:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((2,))
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(group.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((6,)), plist)
    with refused_file(out, "uneven_fill") as group:
        pair = np.dtype([("a", "<i4", (2,))])
        fill = np.array(((1, 2),), pair)
        made = group.create_dataset("x", (4,), pair, chunks=(2,), fillvalue=fill)
        made[0:2] = np.zeros(2, pair)
    with refused_file(out, "bits_of_fill") as group:
        kind = h5py.h5t.STD_I32LE.copy()
        kind.set_precision(17)

        def set_up(plist):
            plist.set_filter(5)
            plist.set_fill_value(np.array(3, "<i4"))

        made = low_level(group, "x", (6,), kind, set_up, (2,))
        made[0:2] = [1, 2]
    with refused_file(out, "plugin") as group:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((2,))
        plist.set_filter(40000, h5py.h5z.FLAG_OPTIONAL, ())
        h5py.h5d.create(group.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((6,)), plist)


def refused_links(out):
    with refused_file(out, "dangling") as group:
        group["x"] = h5py.SoftLink("/nowhere")
    with refused_file(out, "soft_bomb") as group:
        group["l0"] = h5py.SoftLink("/s")
        for number in range(1, 15):
            group[f"l{number}"] = h5py.SoftLink("/s" + f"/l{number - 1}" * 20)
        group["x"] = h5py.SoftLink("/s/l14")
    with refused_file(out, "soft_circle") as group:
        group["x"] = h5py.SoftLink("/s/y")
        group["y"] = h5py.SoftLink("/s/x")
