"""Cases of data types."""

import h5py
import hdf5plugin
import numpy as np
from hdf5_cases import case, floats, groups, low_level, row_samples, smooth


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


def split(samples):
    """Compound values as the index has them: a field for each member."""
    found = []
    for key, fields in samples:
        parts = {}
        for name, value in fields.items():
            split_into(parts, name, value)
        found.append((key, parts))
    return found


def split_into(parts, name, value):
    if value.dtype.names is None:
        parts[name] = value
        return
    for member in value.dtype.names:
        split_into(parts, f"{name}/{member}", value[member])


ATOM = np.dtype(
    [
        ("id", "<i4"),
        ("charge", ">f8"),
        ("name", "S5"),
        ("spin", "<c8"),
        ("at", [("x", "<f4"), ("cell", "<i2", (2, 3))]),
        ("alive", "?"),
    ],
    align=True,
)


def atoms(*shape):
    made = np.zeros(shape, ATOM)
    made["id"] = np.arange(made.size).reshape(shape)
    made["charge"] = made["id"] * 0.5
    made["name"] = b"C"
    made["spin"] = 1 + 2j
    made["at"]["x"] = made["id"] / 3
    made["at"]["cell"] = made["id"][..., None, None] + np.arange(6).reshape(2, 3)
    made["alive"] = made["id"] % 2 == 0
    return made


@case
def compounds(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        group["contiguous"] = atoms(31)
        group["large"] = atoms(100, 60)
        group["scalar"] = atoms(1)[0]
        group.create_dataset("deflate", data=atoms(40, 3), chunks=(16, 2), compression="gzip")
        group.create_dataset(
            "shuffled", data=atoms(40), chunks=(16,), compression="lzf", shuffle=True
        )
        group.create_dataset("zstd", data=atoms(40), chunks=(40,), **hdf5plugin.Zstd())
        sparse = group.create_dataset("sparse", (40,), ATOM, chunks=(16,), fillvalue=atoms(3)[2])
        del group["sparse"]
        some = np.dtype([("a", "<i2"), ("b", "<f4")])
        fill = np.array((7, 1.5), some)
        sparse = group.create_dataset("sparse", (40,), some, chunks=(16,), fillvalue=fill)
        sparse[20] = (1, 2)
        group.create_dataset("unwritten", (9, 2), some, fillvalue=fill)
        made = group.create_dataset(
            "masked", (32,), some, chunks=(16,), compression="gzip", shuffle=True
        )
        made[0:16] = np.zeros(16, some)
        data = np.ones(16, some)
        made.id.write_direct_chunk((16,), data.tobytes(), filter_mask=0b11)
    return split(groups(out / "a.h5", ["s"]))


@case
def compound_rows(out):
    for name, libver in [("a", "earliest"), ("b", "latest")]:
        with h5py.File(out / f"{name}.h5", "w", libver=libver) as file:
            file["table"] = atoms(70)
            file.create_dataset("more", data=atoms(70), chunks=(9,), compression="lzf")
    found = []
    for name in ["a", "b"]:
        found += split(row_samples(out / f"{name}.h5", ["more", "table"]))
    return found


@case
def more_types(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        colours = h5py.enum_dtype({"RED": -1, "BLUE": 300}, ">i2")
        group.create_dataset("enum", data=np.array([-1, 300, 300], ">i2"), dtype=colours)
        group.create_dataset("complex", data=np.arange(6).reshape(2, 3) * (1 - 2j), dtype=">c16")
        kind = h5py.h5t.array_create(h5py.h5t.IEEE_F32LE, (2, 5))
        made = h5py.h5d.create(group.id, b"array", kind, h5py.h5s.create_simple((3,)))
        h5py.Dataset(made)[...] = floats(3, 2, 5)
        set_up = lambda p: p.set_deflate(4)  # noqa: E731
        low_level(group, "packed", (9,), kind, set_up, (4,), floats(9, 2, 5))
        kind = h5py.h5t.STD_B16BE
        made = low_level(group, "bits", (4,), kind, lambda p: None)
        raw = np.array([1, 2, 300, 65535], ">u2")
        made.id.write(h5py.h5s.create_simple((4,)), made.id.get_space(), raw, mtype=kind)
        group.create_dataset(
            "fixed", data=np.array(["ä".encode(), b"b"], h5py.string_dtype("utf-8", 4))
        )
    return groups(out / "a.h5", ["s"])


def padded(group, name, texts, size, set_up=lambda p: None, chunk=None):
    """Text that is filled up with spaces, as Fortran writes it."""
    kind = h5py.h5t.FORTRAN_S1.copy()
    kind.set_size(size)
    data = np.array(texts, f"S{size}")
    return low_level(group, name, data.shape, kind, set_up, chunk, data)


@case
def space_padded(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        padded(group, "plain", [b"ab  ", b"", b"    ", b"full", b" c d", b"e\0f "], 4)
        padded(group, "scalar", b"one", 5)
        padded(group, "letters", [b"x", b" "], 1)
        texts = [[b"a", b"bc"], [b"", b"d e"], [b"fgh", b" "]]
        padded(group, "packed", texts, 3, lambda p: p.set_deflate(4), (2, 2))
        fill = lambda p: p.set_fill_value(np.array(b"no", "S6"))  # noqa: E731
        kind = h5py.h5t.FORTRAN_S1.copy()
        kind.set_size(6)
        made = low_level(group, "sparse", (9,), kind, fill, (4,))
        made[5:6] = np.array([b"yes"], "S6")
        member = h5py.h5t.create(h5py.h5t.COMPOUND, 10)
        member.insert(b"n", 0, h5py.h5t.STD_I32LE)
        member.insert(b"name", 4, kind)
        data = np.array([(1, b"C"), (2, b"He  "), (3, b"")], [("n", "<i4"), ("name", "S6")])
        low_level(group, "table", (3,), member, lambda p: None, None, data)
        low_level(group, "chunked_table", (3,), member, lambda p: p.set_deflate(1), (2,), data)
    return split(groups(out / "a.h5", ["s"]))


@case
def space_padded_rows(out):
    with h5py.File(out / "a.h5", "w") as file:
        padded(file, "name", [[f"{row}", f"a{row}"] for row in range(11)], 7)
        file["x"] = smooth(11, 2)
    return row_samples(out / "a.h5", ["name", "x"])


@case
def committed_type(out):
    with h5py.File(out / "a.h5", "w") as file:
        file["kind"] = np.dtype(">f4")
        file.create_dataset("s/x", data=np.arange(5), dtype=file["kind"])
    return groups(out / "a.h5", ["s"])
