"""Files that other libraries write, read through `forebay.open` and compared byte for byte."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from node import Node
from tier import Tier, command

import forebay
import forebay.arrow
from forebay._command import find_command

MAKE = Path(__file__).parents[2] / "crates/indexer/tests/make_formats.py"
# Cases of that script; webdataset, numpy, safetensors and pyarrow write and read them, TFRecord
# and MDS files are written by the letter of their formats.
CASES = {
    "tar_webdataset": {},
    "tar_dialects": {},
    "tar_links": {},
    "npy_rows": {},
    "npy_files": {},
    "npz_stored": {},
    "npz_deflated": {},
    "npz_rows": {},
    "npz_rows_deflated": {},
    "safetensors_files": {},
    "safetensors_rows": {},
    "tfrecord": {"verify_data": True},
    "mds": {},
    "arrow_rows": {"sample": "rows", "fields": "code,count,half,small,vector,x"},
}


def written(name: str, folder: Path) -> list[tuple[str | None, dict[str, tuple[str, Any, bytes]]]]:
    """Makes the files of a case; returns key and dtype, shape, bytes of each field."""
    done = subprocess.run(
        [sys.executable, MAKE, name, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    values = folder.with_suffix(".bin").read_bytes()
    samples = []
    for sample in json.loads(folder.with_suffix(".json").read_text()):
        fields = {
            field["name"]: (
                field["dtype"],
                tuple(field["shape"]),
                values[field["offset"] : field["offset"] + field["len"]],
            )
            for field in sample["fields"]
        }
        samples.append((sample["key"], fields))
    return samples


@pytest.mark.parametrize("name", CASES)
def test_every_format_reads_as_its_own_library_has_it(
    name: str, tmp_path: Path, node: Node
) -> None:
    files = tmp_path / "files"
    expected = written(name, files)
    options: dict[str, Any] = CASES[name]
    forebay.index(files, tmp_path / "i", **options)
    ds = node.open(tmp_path / "i")
    assert len(ds) == len(expected)
    batch = ds.read_batch(range(len(ds)))
    for number, (key, fields) in enumerate(expected):
        assert ds.key(number) == key
        for found in (ds[number], batch[number], ds.view(number)):
            assert set(found) == set(fields)
            for field, (dtype, shape, value) in fields.items():
                array = found[field]
                assert array.dtype == np.dtype(dtype), field
                assert (array.shape, array.tobytes()) == (shape, value), field


def test_bfloat16_is_a_view_away(tmp_path: Path, node: Node) -> None:
    weights = torch.arange(24, dtype=torch.float32).reshape(6, 4) / 3
    tensors = {
        "b": weights.to(torch.bfloat16),
        "e": weights.to(torch.float8_e4m3fn),
    }
    safetensors.torch.save_file(tensors, tmp_path / "w.safetensors")
    forebay.index(tmp_path / "w.safetensors", tmp_path / "i", sample="/")
    sample = node.open(tmp_path / "i")[0]
    assert sample["b"].dtype == np.dtype("V2") and sample["e"].dtype == np.dtype("V1")
    found = sample["b"].view(ml_dtypes.bfloat16)
    assert np.array_equal(found.astype("f4"), tensors["b"].float().numpy())
    found = sample["e"].view(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(found.astype("f4"), tensors["e"].float().numpy())
    again = torch.frombuffer(sample["b"], dtype=torch.bfloat16).reshape(6, 4)
    assert torch.equal(again, tensors["b"])


def table(rows: int) -> pa.Table:
    rng = np.random.default_rng(rows)
    return pa.table(
        {
            "text": [None if row % 7 == 3 else f"row {row}" for row in range(rows)],
            "x": rng.standard_normal(rows),
            "n": pa.array(rng.integers(0, 9, rows)).dictionary_encode(),
            "list": [[row] * (row % 3) for row in range(rows)],
        }
    )


def test_record_batches_and_row_groups_are_tables_again(tmp_path: Path, node: Node) -> None:
    whole = table(100)
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(tmp_path / "a.arrow", whole.schema, options=packed) as writer:
        writer.write_table(whole, max_chunksize=30)
    with pa.ipc.new_stream(tmp_path / "b.arrow", whole.schema) as writer:
        writer.write_table(whole, max_chunksize=50)
    pq.write_table(whole, tmp_path / "c.parquet", row_group_size=40, compression="snappy")
    for names, sizes in (
        (["a.arrow", "b.arrow"], [30, 30, 30, 10, 50, 50]),
        (["c.parquet"], [40, 40, 20]),
    ):
        index = tmp_path / "i"
        made = forebay.index([tmp_path / name for name in names], index)
        assert made["samples"] == len(sizes)
        ds = node.open(index)
        tables = [forebay.arrow.table(ds[number]) for number in range(len(ds))]
        assert [len(part) for part in tables] == sizes
        again = pa.concat_tables(part.unify_dictionaries() for part in tables)
        assert again.to_pydict() == pa.concat_tables([whole] * (len(again) // 100)).to_pydict()
    with pytest.raises(forebay.InvalidInputError, match="no part of a table"):
        forebay.arrow.table({"x": np.zeros(3)})


def poses(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Two files of groups `PDB/POSE`; returns the coordinates by `FILE/PDB/POSE`."""
    rng = np.random.default_rng(3)
    found = {}
    folder.mkdir()
    for number in range(2):
        with h5py.File(folder / f"part{number}.h5", "w") as file:
            for pdb in ("1abc", "2xyz"):
                for pose in range(3):
                    coord = rng.standard_normal((pose + 2, 3)).astype("f4")
                    file[f"{pdb}/{pose}/coord"] = coord
                    found[f"part{number}/{pdb}/{pose}"] = coord
    return found


def test_a_manifest_of_parquet_keeps_types(tmp_path: Path, node: Node) -> None:
    coords = poses(tmp_path / "data")
    keys = list(coords)[::-2]
    rows = [key.split("/") for key in keys]
    columns = {
        "fn": [row[0] for row in rows],
        "pdbid": [row[1] for row in rows],
        "poseid": pa.array([int(row[2]) for row in rows], pa.int32()),
        "affinity": pa.array([None, *np.arange(len(rows) - 1) / 7], pa.float32()),
        "active": [n % 2 == 0 for n in range(len(rows))],
        "count": pa.array(range(len(rows)), pa.uint16()),
        "smiles": ["C" * (n + 1) for n in range(len(rows))],
        "tags": [[n] for n in range(len(rows))],
    }
    manifest = tmp_path / "poses.parquet"
    pq.write_table(pa.table(columns), manifest, row_group_size=2)
    options: dict[str, Any] = {"sample": "{fn}.h5={pdbid}/{poseid}", "manifest": manifest}
    with pytest.raises(forebay.InvalidInputError, match=r"`tags.*lists"):
        forebay.index(tmp_path / "data", tmp_path / "i", **options)
    kept = "coord,affinity,active,count,smiles"
    made = forebay.index(tmp_path / "data", tmp_path / "i", fields=kept, **options)
    assert made["samples"] == len(keys)
    ds = node.open(tmp_path / "i")
    kinds = {field.name: str(field.dtype) for field in ds.fields}
    assert kinds == {
        "coord": "float32",
        "affinity": "float32",
        "active": "bool",
        "count": "uint16",
        "smiles": f"|S{len(keys)}",
    }
    # Keys of two files are alike, so the file stands before them.
    for number, key in enumerate(keys):
        assert ds.key(number) == key
        sample = ds[number]
        assert np.array_equal(sample["coord"], coords[key])
        assert sample["count"] == number and sample["active"] == (number % 2 == 0)
        assert sample["smiles"] == b"C" * (number + 1)
    assert np.isnan(ds[0]["affinity"]) and ds[2]["affinity"] == np.float32(1 / 7)
    assert ds.view(1)["count"].tobytes() == b"\1\0"


def listed(index: Path) -> list[dict[str, Any]]:
    done = command("ls", index, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_row_of_a_chunked_data_set_touches_only_its_chunks(tmp_path: Path, node: Node) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = np.arange(100 * 8).reshape(100, 8)
        file.create_dataset("x", data=data, chunks=(10, 4), compression="lzf")
    forebay.index(tmp_path / "a.h5", tmp_path / "i", sample="rows")
    rows = listed(tmp_path / "i")
    assert [row["fields"][0]["chunks"] for row in rows] == [2] * 100
    assert np.array_equal(node.open(tmp_path / "i")[57]["x"], data[57])


def test_an_index_is_exported_as_a_table(tmp_path: Path) -> None:
    poses(tmp_path / "data")
    index, output = tmp_path / "i", tmp_path / "i.parquet"
    forebay.index(tmp_path / "data", index, sample="*/*")
    done = command("export", index, "-o", output)
    assert done.returncode == 0, done.stderr
    assert "wrote 12 rows" in done.stderr
    rows = pq.read_table(output).to_pylist()
    fields = [
        {
            "sample": sample["sample"],
            "key": sample["key"],
            "field": field["name"],
            "file": field["segment"],
            "offset": field["offset"],
            "length": field["bytes"],
            "dtype": field["dtype"],
            "shape": field["shape"],
            "chunks": field["chunks"],
        }
        for sample in listed(index)
        for field in sample["fields"]
    ]
    assert rows == fields
    refused = command("export", index, "-o", index)
    assert refused.returncode == 2 and "no Parquet file" in refused.stderr


def test_indexes_grow_and_merge_on_the_command_line(tmp_path: Path, node: Node) -> None:
    coords = poses(tmp_path / "data")
    parts = []
    for number in range(2):
        part = tmp_path / f"{number}.forebay"
        source = tmp_path / f"data/part{number}.h5"
        words = ("--root", tmp_path / "data", "--sample", "/", "--fields", "1abc/0/coord")
        assert command("index", source, "-o", part, *words).returncode == 0
        parts.append(part)
    merged = tmp_path / "merged"
    done = command("index", "merge", *parts, "-o", merged, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["samples"] == 2
    ds = node.open(merged)
    assert np.array_equal(ds[1]["1abc/0/coord"], coords["part1/1abc/0"])

    grown = tmp_path / "grown"
    options: dict[str, Any] = {"sample": "/", "fields": "1abc/0/coord"}
    forebay.index(tmp_path / "data/part0.h5", grown, **options)
    made = forebay.index(tmp_path / "data", grown, append=grown, **options)
    assert made["samples"] == 2
    assert node.open(grown).find("part1") == 1


def test_small_files_share_cache_files_and_are_opened_once(
    tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often they are read, by however many processes, and whatever their number."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("the emulated tier needs root and /dev/fuse")
    # A read that a busy machine holds up would be begun once more, with an open of its own.
    monkeypatch.setenv("FOREBAY_HEDGED_READS", "0")
    data, trace = tmp_path / "data", tmp_path / "trace"
    data.mkdir()
    count = 1500
    for number in range(count):
        (data / f"{number:04}.bin").write_bytes(b"%d" % number * 500)
    forebay.index(data, tmp_path / "i", files=True)
    program = find_command()
    assert program is not None
    slow = tmp_path / "slow"
    slow.mkdir()
    line = [program, "emulate", data, slow, "--profile", "nvme", "--scale", "0.01"]
    process = subprocess.Popen([*line, "--trace", trace], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("mounted on")
    tier = Tier(slow, process)
    try:
        ds = node.open(tmp_path / "i", root=slow)
        read = (
            "import sys, forebay; ds = forebay.open(sys.argv[1], root=sys.argv[2],"
            " cache=sys.argv[3]); print(sum(ds[n]['data'].size for n in range(len(ds))))"
        )
        arguments = [sys.executable, "-c", read, tmp_path / "i", slow, node.cache]
        readers = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        size = sum(path.stat().st_size for path in data.iterdir())
        assert [int(reader.communicate()[0]) for reader in readers] == [size] * 2
        assert all(bytes(ds[n]["data"]) == b"%d" % n * 500 for n in range(count))
        (daemon,) = node.daemons()
        assert len(os.listdir(f"/proc/{daemon}/fd")) < count / 2
        assert len(list((node.cache / "blocks").rglob("*.blocks"))) == 1
        tier.control("status")
        seen = [json.loads(line) for line in trace.read_text().splitlines()]
        opens = Counter(entry["path"] for entry in seen if entry["op"] == "open")
        assert len(opens) == count
        assert max(opens.values()) == 1, opens.most_common(3)
    finally:
        tier.unmount()


# Names that sort differently as whole paths, folder by folder, by number, and by case.
_IMAGES = (
    "10/a.jpg",
    "9/b.jpg",
    "Zebra/z.jpg",
    "ant/b/1.jpg",
    "ant/b-1.jpg",
    "ant/b.jpg",
    "ant/B/2.jpg",
    "ant/c/d/10.jpg",
    "ant/c/d/9.jpg",
    "ant/c/é.jpg",
)


def test_class_folders_have_the_order_and_the_labels_of_image_folder(tmp_path: Path) -> None:
    folders = pytest.importorskip("torchvision.datasets")
    for name in _IMAGES:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    theirs = folders.ImageFolder(tmp_path / "data")
    made = forebay.index(tmp_path / "data", tmp_path / "x.forebay", files=True, labels="folders")
    assert made["classes"] == theirs.classes
    ours = forebay.open(tmp_path / "x.forebay", start_daemon=False)
    samples = [(bytes(sample["data"]).decode(), int(sample["label"])) for sample in ours]
    folder = f"{tmp_path / 'data'}/"
    assert samples == [(path.removeprefix(folder), label) for path, label in theirs.samples]


def _hdf5(folder: Path) -> Path:
    folder.mkdir()
    with h5py.File(folder / "a.h5", "w") as file:
        file["s0/x"] = np.arange(5)
    return folder / "a.h5"


def test_files_are_indexed_however_others_have_locked_them(tmp_path: Path) -> None:
    file = _hdf5(tmp_path / "data")
    with file.open("r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        fcntl.lockf(other, fcntl.LOCK_EX)
        made = forebay.index(file, tmp_path / "x.forebay", sample="*")
        dataset = forebay.open(tmp_path / "x.forebay", start_daemon=False)
        assert dataset[0]["x"].tolist() == [0, 1, 2, 3, 4]
    assert made["samples"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a folder read-only, which takes root")
def test_files_of_a_read_only_mount_are_indexed_where_they_lie(tmp_path: Path) -> None:
    file = _hdf5(tmp_path / "data")
    index = tmp_path / "x.forebay"
    script = """
        set -eu
        mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"
        if touch "$1/written" 2> /dev/null; then exit 3; fi
        "$3" index "$1" --sample '*' -o "$2"
        "$3" cat "$2" s0 --field x
    """
    words = [script, "sh", file.parent, index, find_command() or "forebay"]
    line = ["unshare", "--mount", "sh", "-c", *map(str, words)]
    done = subprocess.run(line, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.endswith(np.arange(5).tobytes())
