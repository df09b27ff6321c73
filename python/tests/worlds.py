"""Small data sets made with h5py, and what h5py itself reads from them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

import forebay

Array = npt.NDArray[Any]
Sample = dict[str, Array]


def write_sample(group: h5py.Group, number: int) -> None:
    """One field of every kind of storage, with bytes that differ from sample to sample."""
    rng = np.random.default_rng(number)
    group["contiguous"] = rng.standard_normal(900 + 7 * number).astype("<f4")
    group["big_endian"] = rng.integers(-9999, 9999, 50).astype(">i2")
    group["mask"] = rng.random((4, 5)) < 0.5
    group["scalar"] = rng.random()
    group["text"] = np.array([b"CA", b"HG21", b""], dtype="S5")
    group["empty"] = np.zeros((0, 3), "<i4")
    group.create_dataset("chunked", data=rng.integers(0, 99, (33, 9)), chunks=(8, 4))
    smooth = np.repeat(rng.standard_normal(80), 25).reshape(100, 20)
    group.create_dataset("lzf", data=smooth, chunks=(30, 20), compression="lzf")
    group.create_dataset(
        "gzip",
        data=np.arange(number, number + 5000).reshape(500, 10),
        chunks=(128, 7),
        compression="gzip",
        shuffle=True,
        fletcher32=True,
    )
    group.create_dataset("unwritten", (6, 6), "<f8", chunks=(4, 4), fillvalue=number + 0.5)


@dataclass
class World:
    """A data set: the folder of its files, its index, and its samples in order."""

    root: Path
    index: Path
    samples: list[Sample]

    @classmethod
    def make(cls, root: Path, files: int = 2, each: int = 4) -> World:
        root.mkdir(parents=True)
        samples = []
        for number in range(files):
            path = root / f"part{number}.h5"
            with h5py.File(path, "w") as file:
                for within in range(each):
                    write_sample(file.create_group(f"s{within:03}"), number * each + within)
            with h5py.File(path) as file:
                for group in file.values():
                    samples.append({name: field[()] for name, field in group.items()})
        index = root.parent / "data.forebay"
        forebay.index(root, index)
        return cls(root, index, [_arrays(sample) for sample in samples])

    @classmethod
    def of_files(cls, root: Path, contents: Mapping[str, bytes]) -> World:
        """Each file is one sample."""
        for name, content in contents.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        index = root.parent / "files.forebay"
        forebay.index(root, index, files=True)
        arrays = [np.frombuffer(contents[name], np.uint8) for name in sorted(contents)]
        return cls(root, index, [{"data": array} for array in arrays])

    @classmethod
    def of_noise(cls, root: Path, files: int, size: int, seed: int = 1) -> World:
        """Files of `size` bytes that no two samples have in common."""
        rng = random.Random(seed)
        return cls.of_files(root, {f"{n:04}.bin": rng.randbytes(size) for n in range(files)})

    def read_by(self, dataset: forebay.Dataset) -> None:
        """Reads every sample and compares it."""
        assert len(dataset) == len(self.samples)
        for number, sample in enumerate(self.samples):
            assert_same(dataset[number], sample)


def _arrays(sample: Mapping[str, Any]) -> Sample:
    return {name: np.asarray(value) for name, value in sample.items()}


def assert_same(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    """Same names, types, shapes and bytes."""
    assert sorted(found) == sorted(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].shape == array.shape, name
        assert found[name].tobytes() == array.tobytes(), name
