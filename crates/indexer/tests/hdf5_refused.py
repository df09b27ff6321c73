"""One file for each feature that is refused."""

from contextlib import contextmanager

import h5py
import hdf5plugin
import numpy as np
from hdf5_cases import case, floats, low_level, smooth


@contextmanager
def refused_file(out, name):
    with h5py.File(out / f"{name}.h5", "w") as file:
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
    with refused_file(out, "array_of_compounds") as group:
        part = h5py.h5t.py_create(np.dtype([("a", "i4"), ("b", "f4")]))
        kind = h5py.h5t.array_create(part, (2,))
        h5py.h5d.create(group.id, b"x", kind, h5py.h5s.create_simple((3,)))
    with refused_file(out, "snappy") as group:
        plugin = hdf5plugin.Blosc(cname="snappy")
        group.create_dataset("x", data=smooth(100), chunks=(100,), **plugin)
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
    with refused_file(out, "space_padded") as group:
        kind = h5py.h5t.FORTRAN_S1.copy()
        kind.set_size(4)
        h5py.h5d.create(group.id, b"x", kind, h5py.h5s.create_simple((3,)))
    with refused_file(out, "never_filled") as group:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((2,))
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(group.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((6,)), plist)
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
