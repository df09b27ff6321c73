"""Writes files of the formats that are not HDF5, and what their own libraries read from them.

`make_formats.py CASE FOLDER` does what `make_hdf5.py` does. Tar archives are read by webdataset,
arrays by numpy and safetensors; TFRecord and MDS files are written and read here, by the letter of
their formats.
"""

import io
import itertools
import json
import struct
import sys
import tarfile
import zipfile

import numpy as np
import safetensors.numpy
from make_hdf5 import RANDOM, case, floats, main, smooth


def webdataset():
    """The library, imported where it is used, and without torch: that takes seconds."""
    sys.modules["torch"] = None
    import webdataset

    return webdataset


def raw(data):
    return np.frombuffer(bytes(data), dtype="u1")


def from_tar(paths):
    """What webdataset reads, field names sorted, keys with the shard where they repeat."""
    samples = []
    for sample in webdataset().WebDataset([str(path) for path in paths], shardshuffle=False):
        fields = {name: raw(sample[name]) for name in sorted(sample) if not name.startswith("__")}
        samples.append((sample["__key__"], fields))
    return samples


@case
def tar_webdataset(out):
    """Shards as webdataset writes them."""
    (out / "train").mkdir()
    paths = [out / f"train/shard-{number:03}.tar" for number in range(2)]
    for number, path in enumerate(paths):
        with webdataset().TarWriter(str(path)) as writer:
            for at in range(20):
                writer.write(
                    {
                        "__key__": f"{number}/pose{at:04}",
                        "jpg": RANDOM.bytes(int(RANDOM.integers(0, 3000))),
                        "cls": str(at).encode(),
                        "seg.png": RANDOM.bytes(at),
                    }
                )
    (out / "train/sizes.json").write_text("{}")
    return from_tar(paths)


def add(tar, name, data=b"", kind=tarfile.REGTYPE, link="", pax=None):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, link
    info.pax_headers = pax or {}
    tar.addfile(info, io.BytesIO(data) if data else None)


@case
def tar_dialects(out):
    """One data set in every dialect: long names, folders, files that belong to no sample."""
    paths = []
    for dialect in ["USTAR", "GNU", "PAX"]:
        paths.append(out / f"{dialect.lower()}.tar")
        with tarfile.open(paths[-1], "w", format=getattr(tarfile, f"{dialect}_FORMAT")) as tar:
            add(tar, dialect, kind=tarfile.DIRTYPE)
            add(tar, f"{dialect}/README", b"no extension")
            add(tar, "__info__/a.txt", b"metadata")
            for at, stem in enumerate(["a", "b" * 90, "d" * 90 + "/" + "c" * 60]):
                stem = f"{dialect}/{stem}"
                add(tar, f"{stem}.JPG", RANDOM.bytes(600 + at))
                add(tar, f"{stem}.txt", b"x" * at)
            if dialect != "USTAR":
                stem = f"{dialect}/" + "long/" * 100 + "é"
                add(tar, f"{stem}.jpg", b"long name")
                add(tar, f"{stem}.txt", b"long name, too")
    return from_tar(sorted(paths))


@case
def tar_links(out):
    """Hard links have the bytes that they lead to. (webdataset leaves them out.)"""
    with tarfile.open(out / "a.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        add(tar, "1.jpg", b"image")
        add(tar, "1.cls", b"7")
        add(tar, "2.cls", kind=tarfile.LNKTYPE, link="1.cls")
        add(tar, "2.jpg", b"other")
        add(tar, "3.cls", kind=tarfile.LNKTYPE, link="2.cls")
        add(tar, "3.jpg", kind=tarfile.LNKTYPE, link="1.jpg")
    images = [b"image", b"other", b"image"]
    return [
        (str(at), {"cls": raw(b"7"), "jpg": raw(image)}) for at, image in enumerate(images, start=1)
    ]


@case
def tar_incomplete(out):
    with tarfile.open(out / "a.tar", "w") as tar:
        for at in range(5):
            add(tar, f"{at}.jpg", b"image")
            if at != 3:
                add(tar, f"{at}.cls", b"7")
    return [(str(at), {"cls": raw(b"7"), "jpg": raw(b"image")}) for at in range(5) if at != 3]


@case
def tar_refused(out):
    def archive(name, *members, **options):
        with tarfile.open(out / f"{name}.tar", "w", **options) as tar:
            add(tar, "0.txt", b"fine")
            for member in members:
                add(tar, **member)

    archive("symlink", {"name": "1.txt", "kind": tarfile.SYMTYPE, "link": "0.txt"})
    archive("pipe", {"name": "1.txt", "kind": tarfile.FIFOTYPE})
    archive("gnu_sparse", {"name": "1.txt", "kind": b"S", "data": b"x" * 512})
    archive("pax_sparse", {"name": "1.txt", "data": b"x", "pax": {"GNU.sparse.major": "1"}})
    archive("lost_link", {"name": "1.txt", "kind": tarfile.LNKTYPE, "link": "9.txt"})
    archive("twice", {"name": "0.txt", "data": b"again"})
    archive("scattered", {"name": "1.txt", "data": b"x"}, {"name": "0.jpg", "data": b"x"})
    archive("global", pax_headers={"path": "same"}, format=tarfile.PAX_FORMAT)
    archive("first")
    (out / "joined.tar").write_bytes((out / "first.tar").read_bytes() * 2)
    with tarfile.open(out / "gzip.tar", "w:gz") as tar:
        add(tar, "0.txt", b"x" * 100)
    (out / "packed.tar.gz").write_bytes((out / "gzip.tar").read_bytes())
    whole = (out / "first.tar").read_bytes()
    (out / "cut.tar").write_bytes(whole[:1024])
    (out / "cut_data.tar").write_bytes(whole[:600])


@case
def npy_rows(out):
    array = floats(23, 4, 3)
    np.save(out / "a.npy", array)
    return [(None, {"data": row}) for row in array]


@case
def npy_files(out):
    samples = []
    for at, dtype in enumerate(["<f4"] * 5):
        array = floats(at, 3).astype(dtype)
        np.save(out / f"{at}.npy", array)
        samples.append((str(at), {"data": array}))
    return samples


@case
def npy_types(out):
    """Every type, each a file of rows."""
    names = ["|b1", "|u1", "|i1", "<u2", ">u2", "<i4", ">i4", "<u8", "<i8"]
    names += ["<f2", "<f4", ">f4", "<f8", "<c8", "<c16", "|S5", "|V3"]
    for at, name in enumerate(names):
        array = np.frombuffer(RANDOM.bytes(6 * np.dtype(name).itemsize), dtype=name)
        with open(out / f"{at:02}.npy", "wb") as file:
            np.lib.format.write_array(file, array.reshape(3, 2), version=(1 + at % 2, 0))
    return [("all", {"names": np.array(names, dtype="S4")})]


@case
def npy_refused(out):
    np.save(out / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    np.save(out / "text.npy", np.array(["é"]))
    np.save(out / "fortran.npy", np.asfortranarray(floats(3, 2)))
    np.save(out / "structured.npy", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))
    np.save(out / "time.npy", np.zeros(2, dtype="<M8[ns]"))
    with open(out / "several.npy", "wb") as file:
        np.save(file, floats(3))
        np.save(file, floats(3))
    whole = io.BytesIO()
    np.save(whole, floats(3))
    (out / "cut.npy").write_bytes(whole.getvalue()[:-1])
    (out / "scalar.npy").write_bytes(whole.getvalue().replace(b"(3,)", b"()  "))


def arrays(at):
    return {
        "coord": floats(at + 1, 3),
        "feat": smooth(at + 1, 19),
        "label": np.int64(at),
        "none": floats(0, 3),
    }


@case
def npz_stored(out):
    samples = []
    for at in range(5):
        np.savez(out / f"{at}.npz", **arrays(at))
        with np.load(out / f"{at}.npz") as file:
            samples.append((str(at), {name: file[name] for name in sorted(file)}))
    return samples


@case
def npz_deflated(out):
    samples = []
    for at in range(5):
        np.savez_compressed(out / f"{at}.npz", **arrays(at))
        with np.load(out / f"{at}.npz") as file:
            samples.append((str(at), {name: file[name] for name in sorted(file)}))
    return samples


def rows_of(file):
    return [
        (None, {name: file[name][row] for name in sorted(file)})
        for row in range(len(file[sorted(file)[0]]))
    ]


@case
def npz_rows(out):
    np.savez(out / "a.npz", x=floats(7, 3), y=smooth(7), z=floats(7, 2, 2))
    with np.load(out / "a.npz") as file:
        return rows_of(file)


@case
def npz_rows_deflated(out):
    np.savez_compressed(out / "a.npz", x=smooth(7, 300), y=smooth(7), z=floats(7, 2, 2))
    with np.load(out / "a.npz") as file:
        return rows_of(file)


@case
def npz_refused(out):
    np.savez(out / "objects.npz", x=np.array([{}], dtype=object), ok=floats(3))
    with zipfile.ZipFile(out / "stranger.npz", "w") as archive:
        archive.writestr("x.txt", "text")
        archive.writestr("ok.npy", npy_bytes(floats(3)))
    with zipfile.ZipFile(out / "lzma.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", npy_bytes(floats(3)))
        archive.writestr("ok.npy", npy_bytes(floats(3)), compress_type=zipfile.ZIP_STORED)
    np.savez(out / "first.npz", x=floats(50))
    (out / "cut.npz").write_bytes((out / "first.npz").read_bytes()[:-30])
    whole = bytearray((out / "first.npz").read_bytes())
    whole[200] ^= 1
    (out / "flipped.npz").write_bytes(whole)
    np.savez_compressed(out / "big.npz", x=np.zeros((9, 1 << 20), "<f8"), ok=floats(9))
    np.savez_compressed(out / "second.npz", x=floats(500))
    whole = bytearray((out / "second.npz").read_bytes())
    whole[600] ^= 255
    (out / "flipped_deflated.npz").write_bytes(whole)


def npy_bytes(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@case
def safetensors_files(out):
    samples = []
    for at in range(4):
        tensors = {name: np.asarray(value) for name, value in arrays(at).items()}
        tensors["flag"] = np.array([True, False])
        safetensors.numpy.save_file(tensors, out / f"{at}.safetensors", metadata={"format": "np"})
        read = safetensors.numpy.load_file(out / f"{at}.safetensors")
        samples.append((str(at), {name: read[name] for name in sorted(read)}))
    return samples


@case
def safetensors_rows(out):
    tensors = {"x": floats(9, 4), "b/y": smooth(9, 2, 2), "half": floats(9, 3).astype("<f2")}
    safetensors.numpy.save_file(tensors, out / "a.safetensors")
    return rows_of(safetensors.numpy.load_file(out / "a.safetensors"))


def tensor_file(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@case
def safetensors_odd(out):
    """Types that numpy has not, and headers that contradict themselves."""
    entry = {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}
    tensor_file(out / "bf16.safetensors", {"x": entry}, b"abcdef")
    tensor_file(out / "unknown.safetensors", {"x": {**entry, "dtype": "F4"}}, b"abcdef")
    tensor_file(out / "shape.safetensors", {"x": {**entry, "shape": [4]}}, b"abcdef")
    tensor_file(out / "gap.safetensors", {"x": {**entry, "data_offsets": [1, 7]}}, b"abcdefg")
    tensor_file(out / "cut.safetensors", {"x": entry}, b"abcde")
    tensor_file(out / "more.safetensors", {"x": entry}, b"abcdefg")
    text = json.dumps(entry)
    empty = json.dumps({**entry, "shape": [0], "data_offsets": [6, 6]})
    tensor_file(out / "twice.safetensors", f'{{"x":{text},"x":{empty}}}'.encode(), b"abcdef")
    (out / "long.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
    tensor_file(out / "json.safetensors", b"{not json")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


@case
def tfrecord(out):
    samples = []
    for number in range(2):
        records = [RANDOM.bytes(int(size)) for size in RANDOM.integers(0, 400, 15)]
        path = out / f"train.tfrecord-{number:05}-of-00002"
        path.write_bytes(b"".join(map(record, records)))
        samples += [(None, {"data": raw(data)}) for data in records]
    return samples


@case
def tfrecord_refused(out):
    import gzip
    import zlib

    whole = b"".join(record(bytes([at]) * 50) for at in range(3))
    (out / "cut.tfrecord").write_bytes(whole[:-3])
    (out / "length.tfrecord").write_bytes(whole[:66] + b"\x33" + whole[67:])
    (out / "data.tfrecord").write_bytes(whole[:90] + b"\x33" + whole[91:])
    (out / "gzip.tfrecord").write_bytes(gzip.compress(whole))
    (out / "zlib.tfrecord").write_bytes(zlib.compress(whole))


MDS_SIZES = {"int": 8, "float32": 4, "ndarray:float32:2,3": 24}
MDS_ENCODE = {
    "int": lambda value: np.int64(value).tobytes(),
    "float32": lambda value: np.float32(value).tobytes(),
    "ndarray:float32:2,3": lambda value: value.tobytes(),
    "str": lambda value: value.encode(),
    "bytes": bytes,
}


class Mds:
    """The writer of MDS shards, by the letter of the format."""

    def __init__(self, out, columns):
        self.out, self.columns, self.shards = out, dict(sorted(columns.items())), []
        out.mkdir(exist_ok=True, parents=True)

    def config(self):
        return {
            "column_encodings": list(self.columns.values()),
            "column_names": list(self.columns),
            "column_sizes": [MDS_SIZES.get(encoding) for encoding in self.columns.values()],
            "compression": None,
            "format": "mds",
            "hashes": [],
            "size_limit": 1 << 26,
            "version": 2,
        }

    def sample(self, values):
        sizes, data = [], []
        for name, encoding in self.columns.items():
            data.append(MDS_ENCODE[encoding](values[name]))
            if encoding not in MDS_SIZES:
                sizes.append(len(data[-1]))
        return np.array(sizes, np.uint32).tobytes() + b"".join(data)

    def shard(self, samples):
        samples = [self.sample(values) for values in samples]
        config = json.dumps(self.config(), sort_keys=True).encode()
        offsets = np.array([0] + [len(sample) for sample in samples]).cumsum().astype(np.uint32)
        offsets += 4 + 4 * len(offsets) + len(config)
        data = b"".join([np.uint32(len(samples)).tobytes(), offsets.tobytes(), config, *samples])
        name = f"shard.{len(self.shards):05}.mds"
        (self.out / name).write_bytes(data)
        raw_data = {"basename": name, "bytes": len(data), "hashes": {}}
        self.shards.append(
            {**self.config(), "raw_data": raw_data, "samples": len(samples), "zip_data": None}
        )

    def finish(self, **changes):
        index = {"version": 2, "shards": self.shards, **changes}
        (self.out / "index.json").write_text(json.dumps(index, sort_keys=True))


COLUMNS = {
    "id": "int",
    "weight": "float32",
    "text": "str",
    "image": "bytes",
    "box": "ndarray:float32:2,3",
}


def mds_values(at):
    return {
        "id": at,
        "weight": at / 2,
        "text": "é" * at,
        "image": RANDOM.bytes(int(RANDOM.integers(0, 500))),
        "box": floats(2, 3),
    }


def mds_fields(values):
    text, image = raw(values["text"].encode()), raw(values["image"])
    fields = {
        "id": np.int64(values["id"]),
        "weight": np.float32(values["weight"]),
        "text": text,
        "image": image,
        "box": values["box"],
    }
    return (None, dict(sorted(fields.items())))


@case
def mds(out):
    samples = []
    for folder in ["a", "b"]:
        writer = Mds(out / folder, COLUMNS)
        shards = []
        for shard in range(2):
            values = [mds_values(at + shard) for at in range(8)]
            writer.shard(values)
            shards.append([mds_fields(each) for each in values])
        if folder == "b":
            # Samples are in the order of the list, whatever the shards are called.
            writer.shards.reverse()
            shards.reverse()
        writer.finish()
        samples += itertools.chain(*shards)
    return samples


@case
def mds_refused(out):
    def written(name):
        writer = Mds(out / name, COLUMNS)
        writer.shard([mds_values(at) for at in range(4)])
        return writer

    writer = written("missing")
    writer.shards.append({**writer.shards[0], "raw_data": {"basename": "gone.mds", "bytes": 1}})
    writer.finish()
    writer = written("compressed")
    packed = {**writer.shards[0], "compression": "zstd"}
    packed["raw_data"] = {"basename": "shard.00001.mds", "bytes": 1}
    writer.shards.append(packed)
    writer.finish()
    writer = written("stranger")
    (out / "stranger/old.mds").write_bytes(b"")
    writer.finish()
    written("version").finish(version=3)
    writer = written("json")
    writer.shards[0]["format"] = "json"
    writer.finish()
    writer = written("size")
    writer.shards[0]["raw_data"]["bytes"] += 1
    writer.finish()
    writer = written("count")
    writer.shards[0]["samples"] += 1
    writer.finish()
    writer = written("width")
    writer.shards[0]["column_sizes"][0] = 9
    writer.finish()
    written("unlisted")
    writer = written("table")
    path = out / "table/shard.00000.mds"
    whole = bytearray(path.read_bytes())
    whole[8:12] = struct.pack("<I", 5)
    path.write_bytes(whole)
    writer.finish()


def arrow_table(rows):
    """Columns of every kind that has values of one length, and one that has not."""
    import pyarrow as pa

    vectors = pa.array(RANDOM.standard_normal(rows * 3).astype("f4"))
    columns = {
        "text": pa.array([f"row {row}" for row in range(rows)]),
        "count": pa.array(RANDOM.integers(0, 1 << 40, rows)),
        "half": pa.array(RANDOM.standard_normal(rows).astype("f2")),
        "small": pa.array(RANDOM.integers(-9, 9, rows).astype("i1")),
        "vector": pa.FixedSizeListArray.from_arrays(vectors, 3),
        "code": pa.array([RANDOM.bytes(5) for _ in range(rows)], pa.binary(5)),
        "list": pa.array([[row] * (row % 3) for row in range(rows)]),
        "kind": pa.array([f"{row % 2}" for row in range(rows)]).dictionary_encode(),
        "x": pa.array(floats(rows).astype("f8")),
    }
    return pa.table(columns)


FIXED = ["code", "count", "half", "small", "vector", "x"]


def write_arrow(path, table, stream, rows):
    """Record batches of so many rows, as pyarrow writes them."""
    import pyarrow as pa

    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


@case
def arrow_rows(out):
    samples = []
    for stream, name in [(False, "a.arrow"), (True, "b.arrow")]:
        table = arrow_table(23)
        write_arrow(out / name, table, stream, 10)
        for row in range(23):
            fields = {}
            for column in FIXED:
                value = table[column][row].as_py()
                dtype = {"half": "f2", "small": "i1", "vector": "f4", "count": "i8"}.get(column)
                fields[column] = raw(value) if column == "code" else np.asarray(value, dtype)
            samples.append((None, fields))
    (out / "dataset_info.json").write_text("{}")
    return samples


@case
def arrow_refused(out):
    import pyarrow as pa

    for name, column in [
        ("nulls", pa.array([1, None, 3])),
        ("bits", pa.array([True, False])),
        ("text", pa.array(["a", "b"])),
    ]:
        write_arrow(out / f"{name}.arrow", pa.table({"x": column}), False, 10)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    table = pa.table({"x": pa.array([1.5] * 100)})
    with pa.ipc.new_file(str(out / "packed.arrow"), table.schema, options=options) as writer:
        writer.write_table(table)
    write_arrow(out / "whole.arrow", table, True, 10)
    whole = (out / "whole.arrow").read_bytes()
    (out / "cut.arrow").write_bytes(whole[:-8])
    (out / "old.arrow").write_bytes(b"FEA1" + bytes(100))


@case
def parquet_refused(out):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1, 2]}), out / "whole.parquet")
    whole = (out / "whole.parquet").read_bytes()
    (out / "cut.parquet").write_bytes(whole[:-3])
    (out / "secret.parquet").write_bytes(whole[:-4] + b"PARE")
    (out / "long.parquet").write_bytes(whole[:-8] + b"\xff\xff\xff\x7fPAR1")
    (footer,) = struct.unpack("<I", whole[-8:-4])
    (out / "short.parquet").write_bytes(whole[:6] + whole[-8 - footer :])


if __name__ == "__main__":
    main()
