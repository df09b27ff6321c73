"""Writes HDF5 files for the tests, and what h5py reads from them.

`make_hdf5.py CASE FOLDER` writes the files of a case into FOLDER. Cases that can be indexed also
write `FOLDER.json` and `FOLDER.bin` beside it: for each sample its key and, for each field, name,
dtype, shape and the bytes of the value as h5py reads it.
"""

import json
import os
import sys
from pathlib import Path

import h5py
import hdf5_filters
import hdf5_links
import hdf5_real
import hdf5_refused
import hdf5_types
import numpy as np
from hdf5_cases import CASES, RANDOM, case, floats, groups, row_samples, smooth

# Their cases are listed as they are imported.
MODULES = [hdf5_filters, hdf5_links, hdf5_real, hdf5_refused, hdf5_types]


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


def with_old_layouts(path):
    """Rewrites the layouts of a file as HDF5 before 1.6.3 wrote them. Returns how many."""
    raw = bytearray(path.read_bytes())
    changed = 0
    with h5py.File(path, "r") as file:
        sets = [file["s"][name] for name in file["s"]]
        wanted = [(made.id.get_offset(), made.shape, made.chunks, made.dtype) for made in sets]
    at = 0
    # Version 1 headers: kind, length, flags, three zeros, then the layout.
    while (at := raw.find(b"\x08\x00\x18\x00\x00\x00\x00\x00\x03", at + 1)) > 0:
        kind, body = raw[at + 9], at + 8
        if kind == 1:
            address, length = bytes(raw[body + 2 : body + 10]), raw[body + 10]
            rows = [
                shape for offset, shape, *_ in wanted if offset == int.from_bytes(address, "little")
            ]
            dims = rows[0] if rows else (length,)
            sizes = b"".join(n.to_bytes(4, "little") for n in dims)
        elif kind == 2:
            rank = raw[body + 2]
            address = bytes(raw[body + 3 : body + 11])
            sizes = bytes(raw[body + 11 : body + 11 + 4 * rank])
            dims = [0] * rank
        else:
            continue
        old = bytes([1 + changed % 2, len(dims), kind, 0, 0, 0, 0, 0]) + address + sizes
        assert len(old) <= 24, "no room for the old form"
        raw[body : body + 24] = old.ljust(24, b"\0")
        changed += 1
    path.write_bytes(raw)
    return changed


@case
def old_layouts(out):
    with h5py.File(out / "a.h5", "w", libver="earliest") as file:
        group = file.create_group("s")
        group["one"] = floats(9)
        group["two"] = smooth(7, 3)
        group.create_dataset("chunked", data=smooth(40), chunks=(16,), compression="gzip")
        group.create_dataset("sparse", (40,), "<i2", chunks=(16,), fillvalue=4)[20:22] = 1
    assert with_old_layouts(out / "a.h5") == 4
    return groups(out / "a.h5", ["s"])


@case
def swmr(out):
    """A file whose writer lets others read; it stays marked, since its writer never closes it."""
    child = os.fork()
    if child == 0:
        file = h5py.File(out / "a.h5", "w", libver="latest")
        made = file.create_dataset("s/x", (0, 3), "<f4", maxshape=(None, 3), chunks=(4, 3))
        file.create_dataset("s/y", data=smooth(5))
        file.swmr_mode = True
        made.resize((10, 3))
        made[...] = np.arange(30).reshape(10, 3)
        file.flush()
        os._exit(0)
    os.waitpid(child, 0)
    with h5py.File(out / "a.h5", "r", libver="latest", swmr=True) as file:
        return [("s", {name: file["s"][name][()] for name in ["x", "y"]})]


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
