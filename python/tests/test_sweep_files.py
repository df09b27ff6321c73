"""Files that `forebay tiers sweep` makes are what other programs take them for."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from forebay._command import find_command

SAMPLES, BYTES = 3, 1000
FOREBAY = find_command() or "forebay"


def made(tmp_path: Path, file_format: str) -> list[Path]:
    """The files of a small data set in one format."""
    tiers = [tmp_path / "gfs", tmp_path / "lfs"]
    for tier in tiers:
        tier.mkdir()
    words = ["--gfs", str(tiers[0]), "--lfs", str(tiers[1]), "--format", file_format]
    words += ["--set", f"a:4:{BYTES}:{SAMPLES}", "--processes", "2", "--only", "make"]
    subprocess.run([FOREBAY, "tiers", "sweep", *words], check=True, timeout=60)
    files = sorted(tiers[0].glob("forebay-sweep-a/*/*"))
    assert len(files) == 4
    for file in files:
        assert (tiers[1] / file.relative_to(tiers[0])).read_bytes() == file.read_bytes()
    return files


def raw(tmp_path: Path) -> list[np.ndarray]:
    """The payloads of the same data set in the plainest format: one array a file."""
    (tmp_path / "raw").mkdir()
    files = made(tmp_path / "raw", "raw")
    return [np.frombuffer(file.read_bytes(), np.uint8).reshape(SAMPLES, BYTES) for file in files]


def test_numpy_reads_npz(tmp_path: Path) -> None:
    for file, payloads in zip(made(tmp_path, "npz"), raw(tmp_path), strict=True):
        with np.load(file) as arrays:
            assert sorted(arrays) == ["x", "y"]
            assert np.array_equal(arrays["x"], payloads)
            assert arrays["y"].tolist() == [0, 1, 2]


def test_h5py_reads_hdf5(tmp_path: Path) -> None:
    for file, payloads in zip(made(tmp_path, "hdf5"), raw(tmp_path), strict=True):
        with h5py.File(file) as opened:
            assert list(opened) == ["records"]
            assert np.array_equal(opened["records"][()], payloads)


def crc32c(data: bytes) -> int:
    """The checksum of TFRecord, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_tfrecords_are_framed_examples(tmp_path: Path) -> None:
    for file, payloads in zip(made(tmp_path, "tfrecord"), raw(tmp_path), strict=True):
        data, at = file.read_bytes(), 0
        for payload in payloads:
            (length,) = struct.unpack_from("<Q", data, at)
            assert struct.unpack_from("<I", data, at + 8)[0] == crc32c(data[at : at + 8])
            body = data[at + 12 : at + 12 + length]
            assert struct.unpack_from("<I", data, at + 12 + length)[0] == crc32c(body)
            assert features(body) == {"image": payload.tobytes(), "size": BYTES}
            at += 16 + length
        assert at == len(data)


def fields(message: bytes) -> list[tuple[int, bytes | int]]:
    """Fields of a message of protocol buffers: numbers and values."""
    found: list[tuple[int, bytes | int]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 2:
            size = varint()
            found.append((tag >> 3, message[at : at + size]))
            at += size
        else:
            assert tag & 7 == 0
            found.append((tag >> 3, varint()))
    return found


def only(message: bytes | int, number: int) -> bytes:
    """The one field of a message."""
    assert isinstance(message, bytes)
    ((found, value),) = fields(message)
    assert found == number
    assert isinstance(value, bytes)
    return value


def features(example: bytes) -> dict[str, bytes | int]:
    """Features of an `Example`, by name."""
    values: dict[str, bytes | int] = {}
    for _, entry in fields(only(example, 1)):
        assert isinstance(entry, bytes)
        (_, key), (_, feature) = fields(entry)
        assert isinstance(key, bytes)
        assert isinstance(feature, bytes)
        ((kind, listed),) = fields(feature)
        if kind == 1:
            values[key.decode()] = only(listed, 1)
        else:
            packed = only(listed, 1)
            values[key.decode()] = sum(byte % 128 << 7 * i for i, byte in enumerate(packed))
    return values


@pytest.mark.parametrize("file_format", ["raw", "tfrecord", "npz", "hdf5"])
def test_what_is_made_can_be_read(tmp_path: Path, file_format: str) -> None:
    made(tmp_path, file_format)
    words = ["--gfs", str(tmp_path / "gfs"), "--lfs", str(tmp_path / "lfs")]
    words += ["--format", file_format, "--set", f"a:4:{BYTES}:{SAMPLES}", "--processes", "2"]
    words += ["--only", "run", "--epochs", "1", "--rates", "0,50,100", "--json"]
    words += ["--output", str(tmp_path / "records.jsonl")]
    subprocess.run([FOREBAY, "tiers", "sweep", *words], check=True, timeout=60)
    shown = subprocess.run(
        [FOREBAY, "tiers", "classes", str(tmp_path / "records.jsonl")],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert "LFS-READ" in shown.stdout
