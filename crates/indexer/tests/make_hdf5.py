"""Writes HDF5 files for the tests, and what h5py reads from them.

`make_hdf5.py CASE FOLDER` writes the files of a case into FOLDER. Cases that can be indexed also
write `FOLDER.json` and `FOLDER.bin` beside it: for each sample its key and, for each field, name,
dtype, shape and the bytes of the value as h5py reads it.
"""

import json
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

CASES = {}
RANDOM = np.random.default_rng(7)


def case(make):
    CASES[make.__name__] = make
    return make


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("<f4")


def smooth(*shape):
    """Values that compress."""
    return (np.arange(np.prod(shape, dtype=int)) // 7 % 50).reshape(shape).astype("<i4")


def groups(path, keys, prefix="", fields=None):
    """What h5py reads from the groups of a file: one sample for each key."""
    samples = []
    with h5py.File(path, "r") as file:
        for key in keys:
            group = file[prefix + key]
            found = {}
            names = []
            group.visit(names.append)
            for name in sorted(n for n in names if isinstance(group[n], h5py.Dataset)):
                if fields is None or name in fields:
                    found[name] = np.asarray(group[name][...])
            samples.append((key, found))
    return samples


@case
def contiguous(out):
    with h5py.File(out / "a.h5", "w") as file:
        for molecule in ["1abc", "2xyz"]:
            for pose in ["0", "1", "10", "2"]:
                group = file.create_group(f"{molecule}/{pose}")
                n = int(RANDOM.integers(1, 50))
                group["coord"] = floats(n, 3)
                group["feat"] = floats(n, 19)
                group["label"] = np.int64(n)
                group.attrs["score"] = 1.5
    return groups(
        out / "a.h5", [f"{m}/{p}" for m in ["1abc", "2xyz"] for p in ["0", "1", "10", "2"]]
    )


@case
def dtypes(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        for name in [
            "i1",
            "u1",
            "<i2",
            ">i2",
            "<u2",
            "<i4",
            ">i4",
            ">u8",
            "<i8",
            "<f2",
            ">f2",
            "<f4",
            ">f4",
            "<f8",
            ">f8",
        ]:
            group[name.replace("<", "l").replace(">", "b")] = (
                np.arange(12).reshape(3, 4).astype(name)
            )
        group["bool"] = np.array([True, False, True, True])
        group["text"] = np.array([b"abc", b"", b"twelve bytes"], dtype="S12")
        group["raw"] = np.array([b"\0\1\2", b"\3\4\5"], dtype="V3")
        group["scalar"] = np.float64(2.5)
        group["scalar_text"] = np.array(b"one", dtype="S5")
        group["empty"] = np.zeros((0, 3), "<f4")
        group["empty_chunked"] = file.create_dataset("x", (0, 3), "<f4", maxshape=(None, 3))
    return groups(out / "a.h5", ["s"])


def fill_with_filters(file):
    """Data sets of one group, with every filter chain that is read."""
    group = file.create_group("s")
    chains = {
        "plain": {},
        "deflate": {"compression": "gzip", "compression_opts": 6},
        "shuffle": {"shuffle": True},
        "lzf": {"compression": "lzf"},
        "fletcher": {"fletcher32": True},
        "all": {"compression": "gzip", "shuffle": True, "fletcher32": True},
        "lzf_all": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    }
    for name, options in chains.items():
        # Edge chunks are partial on both axes.
        group.create_dataset(f"{name}", data=smooth(37, 23), chunks=(8, 10), **options)
        group.create_dataset(f"{name}_noise", data=floats(37, 23), chunks=(16, 7), **options)
        group.create_dataset(
            f"{name}_grow", data=smooth(37, 23), chunks=(8, 10), maxshape=(None, 23), **options
        )
        group.create_dataset(
            f"{name}_grow_both",
            data=smooth(37, 23),
            chunks=(8, 10),
            maxshape=(None, None),
            **options,
        )
        group.create_dataset(f"{name}_one", data=smooth(9, 5), chunks=(9, 5), **options)
        sparse = group.create_dataset(
            f"{name}_sparse", (40, 30), ">i2", chunks=(8, 10), fillvalue=-3, **options
        )
        sparse[17:20, 5:12] = 7
        late = group.create_dataset(
            f"{name}_never", (40, 30), "<f4", chunks=(8, 10), fillvalue=1.5, **options
        )
        assert late.id.get_num_chunks() == 0
    shrunk = group.create_dataset(
        "shrunk", data=smooth(40, 30), chunks=(8, 10), maxshape=(None, None)
    )
    shrunk.resize((20, 11))
    many = group.create_dataset("many", (3000,), "<i4", chunks=(1,), maxshape=(None,))
    many[...] = np.arange(3000)
    many_fixed = group.create_dataset("many_fixed", (3000,), "<i4", chunks=(1,), compression="lzf")
    many_fixed[...] = np.arange(3000)


@case
def chunked_earliest(out):
    with h5py.File(out / "a.h5", "w", libver="earliest") as file:
        fill_with_filters(file)
    return groups(out / "a.h5", ["s"])


@case
def chunked_v108(out):
    with h5py.File(out / "a.h5", "w", libver=("v108", "v108")) as file:
        fill_with_filters(file)
    return groups(out / "a.h5", ["s"])


@case
def chunked_v110(out):
    with h5py.File(out / "a.h5", "w", libver=("v110", "v110")) as file:
        fill_with_filters(file)
    return groups(out / "a.h5", ["s"])


@case
def chunked_latest(out):
    with h5py.File(out / "a.h5", "w", libver="latest") as file:
        fill_with_filters(file)
        # Allocated at once and without filters: the implicit index.
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4, 4))
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple((10, 10))
        made = h5py.h5d.create(file["s"].id, b"implicit", h5py.h5t.STD_I32LE, space, plist)
        h5py.Dataset(made)[...] = smooth(10, 10)
    return groups(out / "a.h5", ["s"])


@case
def filter_masks(out):
    """Chunks that say of themselves that a filter was not applied."""
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        data = smooth(32, 8)
        made = group.create_dataset(
            "x", data.shape, "<i4", chunks=(8, 8), compression="gzip", shuffle=True
        )
        made[0:8] = data[0:8]
        # Neither filter; then only the shuffle (filter 0) left out.
        made.id.write_direct_chunk((8, 0), data[8:16].tobytes(), filter_mask=0b11)
        made.id.write_direct_chunk((16, 0), zlib.compress(data[16:24].tobytes()), filter_mask=0b01)
        made[24:32] = data[24:32]
        assert (made[...] == data).all()
    return groups(out / "a.h5", ["s"])


@case
def unwritten(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        group.create_dataset("zeros", (5, 2), "<f4")
        group.create_dataset("fives", (5, 2), "<f4", fillvalue=5)
        group.create_dataset("scalar", (), "<i2", fillvalue=9)
    return groups(out / "a.h5", ["s"])


@case
def compact(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((7, 3))
        made = h5py.h5d.create(group.id, b"small", h5py.h5t.IEEE_F32LE, space, plist)
        h5py.Dataset(made)[...] = floats(7, 3)
        for number in range(40):
            group.attrs[f"note{number}"] = "text that pushes messages into a continuation"
    return groups(out / "a.h5", ["s"])


@case
def user_block(out):
    with h5py.File(out / "a.h5", "w", userblock_size=2048) as file:
        file["a/x"] = floats(10, 3)
        file["b/x"] = floats(4, 3)
        file.create_dataset("a/y", data=smooth(20, 3), chunks=(6, 3), compression="gzip")
        file.create_dataset("b/y", data=smooth(20, 3), chunks=(6, 3), compression="gzip")
    with open(out / "a.h5", "r+b") as raw:
        raw.write(b"user block")
    return groups(out / "a.h5", ["a", "b"])


@case
def links(out):
    """Soft and hard links, in circles too, in old groups and new, small and large."""
    for name, libver in [("new", "latest"), ("old", "earliest")]:
        (out / name).mkdir()
        with h5py.File(out / name / "a.h5", "w", libver=libver) as file:
            file["real/x"] = smooth(3, 3)
            file["s/a/x"] = h5py.SoftLink("/real/x")
            file["s/a/sub/y"] = smooth(2)
            file["s/a/loop"] = h5py.SoftLink("/s")
            file["s/a/sub/up"] = file["s/a"]
            file["s/b"] = h5py.SoftLink("a")
            file["s/c/x"] = file["real/x"]
            file["s/c/sub/y"] = file["s/a/sub/y"]
            file["ring/one/x"] = smooth(3)
            file["ring/one/again"] = file["ring"]
            for number in range(300):
                file[f"many/{number:04}/x"] = np.int32(number)
            file.create_dataset("committed", data=[1])
            file["a type"] = np.dtype("<i4")
    with h5py.File(out / "new/a.h5", "r") as file:
        value = {"sub/y": file["s/a/sub/y"][()], "x": file["real/x"][()]}
    return [("a", value), ("b", value), ("c", value)]


@case
def many_groups(out):
    for name, libver in [("new", "latest"), ("old", "earliest")]:
        with h5py.File(out / f"{name}.h5", "w", libver=libver) as file:
            for number in range(1000):
                file[f"{number:04}/x"] = np.int32(number)
    keys = [f"{number:04}" for number in range(1000)]
    found = []
    for name in ["new", "old"]:
        found += [(f"{name}/{key}", fields) for key, fields in groups(out / f"{name}.h5", keys)]
    return found


@case
def committed_type(out):
    with h5py.File(out / "a.h5", "w") as file:
        file["kind"] = np.dtype(">f4")
        file.create_dataset("s/x", data=np.arange(5), dtype=file["kind"])
    return groups(out / "a.h5", ["s"])


def row_samples(path, names):
    with h5py.File(path, "r") as file:
        arrays = {name: file[name][()] for name in names}
    rows = len(next(iter(arrays.values())))
    return [(None, {name: np.asarray(a[row]) for name, a in arrays.items()}) for row in range(rows)]


@case
def rows(out):
    with h5py.File(out / "a.h5", "w") as file:
        file["x"] = floats(50, 4, 5)
        file.create_dataset("chunked", data=smooth(50, 9), chunks=(8, 4), compression="lzf")
        file["label"] = np.arange(50)
        sparse = file.create_dataset("sparse", (50, 3), "<i2", chunks=(10, 2), fillvalue=4)
        sparse[20:25] = 1
        file.create_dataset("unwritten", (50,), "<f4", fillvalue=3)
    return row_samples(out / "a.h5", ["chunked", "label", "sparse", "unwritten", "x"])


@case
def rows_below(out):
    for name in ["a", "b"]:
        with h5py.File(out / f"{name}.h5", "w") as file:
            file["train/x"] = floats(5, 2)
            file["train/y"] = smooth(5)
            file["other"] = floats(3)
    return [s for n in ["a", "b"] for s in row_samples(out / f"{n}.h5", ["train/y", "train/x"])]


@case
def sair(out):
    """Raw and edge files, joined by their keys."""
    return [sample for part in range(2) for sample in sair_part(out, part)]


def sair_part(out, part):
    keys = [f"{part}m{number}/{pose}" for number in range(5) for pose in range(3)]
    with (
        h5py.File(out / f"raw_{part}.h5", "w") as raw,
        h5py.File(out / f"edges_{part}.h5", "w") as edges,
    ):
        for key in keys:
            n, e = (int(v) for v in RANDOM.integers(2, 400, 2))
            group = raw.create_group(key.replace("/", "/dcomplex/"))
            group.create_dataset("coord", data=floats(n, 3), compression="lzf")
            group.create_dataset("feat", data=floats(n, 19).round(0), compression="lzf")
            group.attrs["affinity"] = 3.0
            group = edges.create_group(key)
            group["edge_index"] = RANDOM.integers(0, n, (2, e)).astype("<i4")
            group["edge_attr"] = floats(e)
    found = groups(out / f"edges_{part}.h5", keys)
    with h5py.File(out / f"raw_{part}.h5", "r") as raw:
        for key, fields in found:
            group = raw[key.replace("/", "/dcomplex/")]
            fields.update({name: group[name][()] for name in ["coord", "feat"]})
    return found


@case
def whole_files(out):
    """Each file is a sample."""
    for name in ["b", "a"]:
        with h5py.File(out / f"{name}.h5", "w") as file:
            file["x"] = floats(4)
            file["sub/y"] = floats(2, 2)
    return [(name, groups(out / f"{name}.h5", [""], "/")[0][1]) for name in ["a", "b"]]


@case
def uneven(out):
    with h5py.File(out / "a.h5", "w") as file:
        for number in range(6):
            file[f"{number}/x"] = floats(3)
            if number != 2:
                file[f"{number}/y"] = floats(3)
        file["4/x"].parent.move("x", "z")
        file["4/x"] = np.arange(3)
        del file["4/z"]
    return groups(out / "a.h5", ["0", "1", "3", "5"])


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
    with refused_file(out, "compound") as group:
        group["x"] = np.zeros(3, [("a", "i4"), ("b", "f4")])
    with refused_file(out, "complex") as group:
        group["x"] = np.zeros(3, "c8")
    with refused_file(out, "reference") as group:
        group.create_dataset("x", data=[group.ref], dtype=h5py.ref_dtype)
    with refused_file(out, "enum") as group:
        group.create_dataset("x", (3,), h5py.enum_dtype({"RED": 0, "BLUE": 1}, "i1"))
    with refused_file(out, "array") as group:
        group.create_dataset("x", (3,), np.dtype(("f4", (2,))))
        space = h5py.h5s.create_simple((3,))
        kind = h5py.h5t.array_create(h5py.h5t.IEEE_F32LE, (2,))
        del group["x"]
        h5py.h5d.create(group.id, b"x", kind, space)
    with refused_file(out, "scale_offset") as group:
        group.create_dataset("x", (30,), "i4", chunks=(10,), scaleoffset=0)
    with refused_file(out, "date") as group:
        group.create_dataset("x", data=np.zeros(3, "M8[ns]").astype(h5py.opaque_dtype("M8[ns]")))
    with refused_file(out, "null") as group:
        group["x"] = h5py.Empty("f4")
    with refused_file(out, "external_link") as group:
        group["x"] = h5py.ExternalLink("vlen.h5", "/s/ok")
    with refused_file(out, "external_data") as group:
        group.create_dataset("x", (3,), "f4", external=[(str(out / "raw.bin"), 0, 12)])
    with refused_file(out, "virtual") as group:
        layout = h5py.VirtualLayout((3,), "f4")
        layout[...] = h5py.VirtualSource(group["ok"])
        group.create_virtual_dataset("x", layout)
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
        plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        h5py.h5d.create(group.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((6,)), plist)
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


@case
def large(out):
    """40,000 contiguous data sets in 20,000 groups."""
    with h5py.File(out / "a.h5", "w") as file:
        for number in range(20000):
            group = file.create_group(f"m{number // 10:05}/{number % 10}")
            group["coord"] = np.zeros((20, 3), "<f4")
            group["feat"] = np.zeros((20, 19), "<f4")


def plain(value):
    """The stored bytes, in the order of the stored type."""
    return np.ascontiguousarray(value).tobytes()


def name_of(dtype):
    return dtype.str if dtype.kind != "V" else f"|V{dtype.itemsize}"


def main():
    make, out = CASES[sys.argv[1]], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    samples = make(out)
    if samples is None:
        return
    listed, offset = [], 0
    with open(f"{out}.bin", "wb") as values:
        for key, fields in samples:
            entry = {"key": key, "fields": []}
            for name, value in fields.items():
                raw = plain(value)
                values.write(raw)
                entry["fields"].append(
                    {
                        "name": name,
                        "dtype": name_of(value.dtype),
                        "shape": list(value.shape),
                        "offset": offset,
                        "len": len(raw),
                    }
                )
                offset += len(raw)
            listed.append(entry)
    Path(f"{out}.json").write_text(json.dumps(listed))


if __name__ == "__main__":
    main()
