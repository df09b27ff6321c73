"""Cases of data that lies elsewhere: other files, virtual data sets, the global heap."""

import h5py
import numpy as np
from hdf5_cases import case, floats, groups, row_samples, smooth


@case
def external_links(out):
    (out / "data").mkdir()
    with h5py.File(out / "data/one.h5", "w", userblock_size=512) as file:
        file["deep/v"] = floats(4, 3)
        file.create_dataset("packed", data=smooth(40, 3), chunks=(16, 3), compression="lzf")
        file["up/back"] = h5py.ExternalLink("../main.h5", "/s")
    with h5py.File(out / "data/two.h5", "w", libver="latest") as file:
        file["g/sub/x"] = smooth(5)
        file["g/packed"] = h5py.ExternalLink("one.h5", "/packed")
        file["g/soft"] = h5py.SoftLink("/g/sub/x")
        file["g/loop"] = h5py.ExternalLink("../main.h5", "/t")
    with h5py.File(out / "main.h5", "w") as file:
        file["s/own"] = floats(2)
        file["s/x"] = h5py.ExternalLink("data/one.h5", "/deep/v")
        file["s/group"] = h5py.ExternalLink("data/two.h5", "g")
        file["s/group2"] = h5py.SoftLink("/s/group/sub")
        file["t"] = h5py.ExternalLink("data/two.h5", "/g")
    with h5py.File(out / "main.h5", "r") as file:
        names = ["group/packed", "group/soft", "group/sub/x", "group2/x", "own", "x"]
        found = {name: file[f"s/{name}"][()] for name in names}
    return [("s", found)]


@case
def external_data(out):
    (out / "raw").mkdir()
    (out / "raw/a.bin").write_bytes(bytes(100) + floats(6, 5).tobytes() + b"more")
    (out / "raw/b.bin").write_bytes(smooth(9).tobytes())
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        group.create_dataset("x", (6, 5), "<f4", external=[("raw/a.bin", 100, 120)])
        group.create_dataset("y", (9,), "<i4", external=[("raw/b.bin", 0, h5py.h5f.UNLIMITED)])
    x = np.frombuffer((out / "raw/a.bin").read_bytes()[100:220], "<f4").reshape(6, 5)
    return [("s", {"x": x, "y": np.frombuffer((out / "raw/b.bin").read_bytes(), "<i4")})]


@case
def external_data_parts(out):
    """Data in two files, which no one range holds."""
    data = smooth(10, 3)
    (out / "a.bin").write_bytes(data.tobytes()[:50])
    (out / "b.bin").write_bytes(b"before" + data.tobytes()[50:])
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        external = [("a.bin", 0, 50), ("b.bin", 6, 70)]
        group.create_dataset("x", (10, 3), "<i4", external=external)
    return [("s", {"x": data})]


@case
def virtual_whole(out):
    """Virtual data sets that show all of one other."""
    with h5py.File(out / "source.h5", "w") as file:
        file["plain"] = floats(6, 4)
        file.create_dataset("packed", data=smooth(30, 4), chunks=(8, 4), compression="gzip")
    for name, libver in [("old", "earliest"), ("new", "latest")]:
        (out / name).mkdir()
        with h5py.File(out / name / "a.h5", "w", libver=libver) as file:
            file["s/own"] = smooth(7)
            for name_of, shape, kind in [("plain", (6, 4), "<f4"), ("packed", (30, 4), "<i4")]:
                layout = h5py.VirtualLayout(shape, kind)
                layout[...] = h5py.VirtualSource("../source.h5", name_of, shape)
                file["s"].create_virtual_dataset(name_of, layout)
            layout = h5py.VirtualLayout((7,), "<i4")
            layout[...] = h5py.VirtualSource(file["s/own"])
            file["s"].create_virtual_dataset("mine", layout)
            layout = h5py.VirtualLayout((7,), "<i4")
            layout[...] = h5py.VirtualSource(file["s/mine"])
            file["s"].create_virtual_dataset("twice", layout)
    return [
        (f"{name}/a/s", fields)
        for name in ["new", "old"]
        for _, fields in groups(out / name / "a.h5", ["s"])
    ]


@case
def virtual_rows(out):
    """Rows that lie in several files, which each row lies in one of."""
    layout = h5py.VirtualLayout((30, 4), "<f4")
    single = h5py.VirtualLayout((30,), "<i8")
    frames = h5py.VirtualLayout((30, 2, 2), "<i4")
    for part in range(3):
        with h5py.File(out / f"part{part}.h5", "w") as file:
            data = floats(12, 4)
            file.create_dataset("x", data=data, chunks=(5, 4) if part else None)
            file["label"] = np.arange(10) + 100 * part
            for row in range(10):
                frame = smooth(2, 2) + row + 100 * part
                packing = {"compression": "lzf"} if row % 2 else {}
                file.create_dataset(f"frame{row}", data=frame, **packing)
        rows = slice(10 * part, 10 * part + 10)
        name = f"part{part}.h5"
        layout[rows] = h5py.VirtualSource(name, "x", (12, 4))[1:11]
        single[rows] = h5py.VirtualSource(name, "label", (10,))
        for row in range(10):
            frames[10 * part + row] = h5py.VirtualSource(name, f"frame{row}", (2, 2))
    with h5py.File(out / "all.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("x", layout)
        file.create_virtual_dataset("label", single)
        file.create_virtual_dataset("frame", frames)
    return row_samples(out / "all.h5", ["frame", "label", "x"])


@case
def virtual_parts(out):
    """Virtual data sets that only decoding can give: parts, strides, gaps."""
    with h5py.File(out / "one.h5", "w") as file:
        file.create_dataset("x", data=smooth(20, 6), chunks=(7, 4), compression="gzip")
        file["y"] = smooth(10, 12)
    for name, libver in [("new", "latest"), ("old", "earliest")]:
        with h5py.File(out / f"{name}.h5", "w", libver=libver) as file:
            layout = h5py.VirtualLayout((20, 12), "<i4")
            source = h5py.VirtualSource("one.h5", "x", (20, 6))
            layout[:, 0:6] = source
            layout[::2, 6:12] = h5py.VirtualSource("one.h5", "y", (10, 12))[:, 3:9]
            file.create_virtual_dataset("s/x", layout, fillvalue=-7)
            layout = h5py.VirtualLayout((3, 4), "<i4")
            layout[1:3, 1:3] = source[4:8:2, 1:3]
            file.create_virtual_dataset("s/y", layout)
    return [
        (f"{name}/s", fields)
        for name in ["new", "old"]
        for _, fields in groups(out / f"{name}.h5", ["s"])
    ]


def flat(name, value, elements):
    """Elements of variable length as the index has them."""
    lengths = np.array([len(element) for element in elements], "<i8")
    joined = np.concatenate(elements) if elements else np.zeros(0, "|u1")
    found = {name: joined}
    if value.ndim:
        found[f"{name}/lengths"] = lengths.reshape(value.shape)
    return found


def texts(name, value):
    raw = [text if isinstance(text, bytes) else text.encode() for text in value.ravel()]
    return flat(name, value, [np.frombuffer(text, "|u1") for text in raw])


@case
def variable(out):
    """Text and sequences of variable length, in members too."""
    words = np.array([["water", ""], ["ethanol", "käse"]], object)
    ragged = [np.arange(n, dtype="<i4") for n in [3, 0, 5]]
    kind = np.dtype([("id", "<i4"), ("name", h5py.string_dtype())])
    rows = np.array([(1, "a"), (2, "bcd")], kind)
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        group["title"] = "a title"
        group.create_dataset("words", data=words, dtype=h5py.string_dtype())
        options = {"chunks": (2,), "compression": "gzip"}
        made = group.create_dataset("ragged", (3,), h5py.vlen_dtype("<i4"), **options)
        for at, values in enumerate(ragged):
            made[at] = values
        group.create_dataset("table", data=rows, dtype=kind)
        group.create_dataset("unwritten", (3,), h5py.string_dtype())
        group["numbers"] = smooth(4)
    unwritten = np.zeros(3, object)
    return [
        (
            "s",
            {
                **texts("title", np.array("a title", object)),
                **texts("words", words),
                **flat("ragged", np.zeros(3), ragged),
                "table/id": rows["id"],
                **texts("table/name", rows["name"]),
                **flat("unwritten", unwritten, [np.zeros(0, "|u1")] * 3),
                "numbers": smooth(4),
            },
        )
    ]


@case
def variable_rows(out):
    words = np.array(["one", "", "three", "four"], object)
    pairs = np.array([["a", "bc"], ["", ""], ["d", "e"], ["fgh", "i"]], object)
    with h5py.File(out / "a.h5", "w") as file:
        file.create_dataset("word", data=words, dtype=h5py.string_dtype())
        file.create_dataset("pair", data=pairs, dtype=h5py.string_dtype())
        file["x"] = smooth(4, 3)
    return [
        (
            None,
            {
                **texts("pair", pairs[row]),
                "word": np.frombuffer(words[row].encode(), "|u1"),
                "word/lengths": np.int64(len(words[row])),
                "x": smooth(4, 3)[row],
            },
        )
        for row in range(4)
    ]


@case
def references(out):
    """References to objects, as the paths that h5py gives for them."""
    kind = np.dtype([("to", h5py.ref_dtype), ("n", "<i4")])
    found = []
    for name, libver in [("a", "earliest"), ("b", "latest")]:
        with h5py.File(out / f"{name}.h5", "w", libver=libver, userblock_size=512) as file:
            group = file.create_group("s")
            group["x"] = floats(3)
            file["other/deep/y"] = smooth(2)
            file["other/loop"] = file["other"]
            # The shortest of its paths, and of those the first.
            file["zz"] = file["other/deep/y"]
            file["z"] = file["other/deep/y"]
            file["kind"] = np.dtype("<i4")
            to = [["/s", "/s/x", "/"], ["/other/deep", "/z", "/kind"]]
            made = group.create_dataset("grid", (3, 3), h5py.ref_dtype)
            for at, path in np.ndenumerate(np.array(to, object)):
                made[at] = file[path].ref
            group.create_dataset("one", data=file["other"].ref, dtype=h5py.ref_dtype)
            options = {"chunks": (2,), "compression": "gzip"}
            packed = group.create_dataset("packed", (5,), h5py.ref_dtype, **options)
            packed[3] = group.ref
            rows = np.array([(group.ref, 1), (file["z"].ref, 2)], kind)
            group.create_dataset("table", data=rows, dtype=kind)
            for path in ["/s/x", "/other/deep", "/kind"]:
                assert file[file[path].ref].name == path
        found.append((f"{name}/s", with_paths(out / f"{name}.h5", to, rows["n"])))
    return found


def with_paths(path, to, numbers):
    with h5py.File(path, "r") as file:
        x = file["s/x"][()]
    return {
        "x": x,
        **texts("grid", np.array([*to, ["", "", ""]], object)),
        **texts("one", np.array("/other", object)),
        **texts("packed", np.array(["", "", "", "/s", ""], object)),
        "table/n": numbers,
        **texts("table/to", np.array(["/s", "/z"], object)),
    }


@case
def reference_rows(out):
    with h5py.File(out / "a.h5", "w") as file:
        file["#refs#/first"] = smooth(2)
        file["#refs#/second"] = smooth(3)
        made = file.create_dataset("cell", (3, 1), h5py.ref_dtype)
        made[0, 0], made[2, 0] = file["#refs#/second"].ref, file["#refs#/first"].ref
        file["x"] = smooth(3, 2)
    cells = ["/#refs#/second", "", "/#refs#/first"]
    return [
        (None, {**texts("cell", np.array([cell], object)), "x": smooth(3, 2)[row]})
        for row, cell in enumerate(cells)
    ]


@case
def lost_reference(out):
    """A reference to an object that no group holds."""
    with h5py.File(out / "a.h5", "w") as file:
        file["s/ok"] = floats(3)
        file["gone"] = smooth(2)
        file["s"].create_dataset("x", data=[file["gone"].ref], dtype=h5py.ref_dtype)
        del file["gone"]


@case
def missing(out):
    """Each leads to a file that is not there, or not to a data set in it."""
    for name in ["link", "virtual", "data", "short", "other"]:
        (out / name).mkdir()
        with h5py.File(out / name / "a.h5", "w") as file:
            group = file.create_group("s")
            group["ok"] = floats(3)
            layout = h5py.VirtualLayout((3,), "<f4")
            if name == "link":
                group["x"] = h5py.ExternalLink("gone.h5", "/v")
            elif name == "virtual":
                layout[...] = h5py.VirtualSource("gone.h5", "v", (3,))
                group.create_virtual_dataset("x", layout)
            elif name == "data":
                group.create_dataset("x", (3,), "<f4", external=[("gone.bin", 0, 12)])
            elif name == "short":
                (out / name / "short.bin").write_bytes(b"12345678")
                group.create_dataset("x", (3,), "<f4", external=[("short.bin", 0, 12)])
            else:
                layout[...] = h5py.VirtualSource(".", "gone", (3,))
                group.create_virtual_dataset("x", layout)
    (out / "inside").mkdir()
    with h5py.File(out / "inside/a.h5", "w") as file:
        file["s/ok"] = floats(3)
        file["s/x"] = h5py.ExternalLink("../outside.h5", "/v")
    with h5py.File(out / "outside.h5", "w") as file:
        file["v"] = floats(3)


@case
def virtual_text(out):
    """Text of variable length, shown in a file that does not hold it."""
    with h5py.File(out / "one.h5", "w") as file:
        file.create_dataset("x", data=["a", "bc", "d"], dtype=h5py.string_dtype())
    with h5py.File(out / "a.h5", "w") as file:
        file["s/ok"] = floats(3)
        layout = h5py.VirtualLayout((3,), h5py.string_dtype())
        layout[...] = h5py.VirtualSource("one.h5", "x", (3,))
        file["s"].create_virtual_dataset("x", layout)
