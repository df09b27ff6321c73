"""Samples of the shape that the fabric study reads, and how they are read without Forebay.

A sample is that of MILAN in size and in its two parts: 840 atoms with coordinates and features
(73,920 bytes) and 17,667 edges with their lengths (212,004 bytes), two ranges of one file. The
numbers are drawn, from the seed and the sample's number: they are shaped like molecules and are
none. Files are npz without compression, so that `forebay index` finds each sample where it lies.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.fabric import FabricError

ATOMS, COLUMNS = 840, 22
EDGES = 17_667
RAW_SHAPE, EDGES_SHAPE = (ATOMS, COLUMNS), (3, EDGES)
RAW_BYTES, EDGES_BYTES = 4 * ATOMS * COLUMNS, 4 * 3 * EDGES
SAMPLE_BYTES = RAW_BYTES + EDGES_BYTES
MANIFEST = "forebay-fabric.json"
_VERSION = 1
_SHARD_SAMPLES = 64
# Atoms that lie near each other come first, so that a part of a sample is a graph too.
_NEAR = 40

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Place:
    """Where one part of one sample lies."""

    file: str
    offset: int
    length: int


@dataclass(frozen=True)
class Manifest:
    """What a folder of samples holds."""

    version: int
    samples: int
    shard_samples: int
    seed: int
    raw_offset: int
    edges_offsets: tuple[int, ...]
    files: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, where: str) -> Manifest:
        """Read the text of a manifest.

        Raises:
            FabricError: it is none of this version, or contradicts itself.
        """
        try:
            found = json.loads(text)
            made = cls(
                version=int(found["version"]),
                samples=int(found["samples"]),
                shard_samples=int(found["shard_samples"]),
                seed=int(found["seed"]),
                raw_offset=int(found["raw_offset"]),
                edges_offsets=tuple(int(offset) for offset in found["edges_offsets"]),
                files=tuple(str(name) for name in found["files"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise FabricError(f"`{where}` is no manifest of samples: {error}") from None
        plain = all("/" not in name and not name.startswith(".") for name in made.files)
        shards = -(-made.samples // max(1, made.shard_samples))
        if made.version != _VERSION or made.samples < 1 or made.shard_samples < 1 or not plain:
            raise FabricError(f"`{where}` is a manifest that this version does not know")
        if len(made.files) != shards or len(made.edges_offsets) != shards:
            raise FabricError(f"`{where}` contradicts itself: make the samples again")
        return made

    def places(self, sample: int) -> tuple[Place, Place]:
        """The two parts of a sample: atoms, edges."""
        shard, row = divmod(sample, self.shard_samples)
        file = self.files[shard]
        return (
            Place(file, self.raw_offset + row * RAW_BYTES, RAW_BYTES),
            Place(file, self.edges_offsets[shard] + row * EDGES_BYTES, EDGES_BYTES),
        )


def sample(number: int, seed: int) -> tuple[Array, Array]:
    """The atoms and edges of one sample, the same whenever it is made."""
    random = np.random.default_rng((seed, number))
    raw = random.standard_normal(RAW_SHAPE, dtype=np.float32)
    raw[:, :3] *= 4
    edges = np.empty(EDGES_SHAPE, np.int32)
    inside = EDGES // 20
    edges[:2, :inside] = random.integers(0, _NEAR, (2, inside))
    edges[:2, inside:] = random.integers(0, ATOMS, (2, EDGES - inside))
    between = raw[edges[0], :3] - raw[edges[1], :3]
    edges[2] = np.linalg.norm(between, axis=1).astype(np.float32).view(np.int32)
    return raw, edges


def make(folder: Path, samples: int, seed: int) -> Manifest:
    """Make the samples in `folder`, which appears whole or not at all, unless they are there.

    Raises:
        FabricError: the folder is there and holds other things, or cannot be written.
    """
    found = find(folder)
    if found is not None:
        if found.samples < samples or found.seed != seed:
            raise FabricError(
                f"`{folder}` holds {found.samples} samples of seed {found.seed}, not {samples} of "
                f"seed {seed}: remove it, or name another"
            )
        return found
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FabricError(f"`{folder}` holds other things than samples: name a new folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.unfinished-", dir=folder.parent))
    except OSError as error:
        raise FabricError(f"cannot make samples in `{folder}`: {error.strerror}") from None
    try:
        _write(unfinished, samples, seed)
        unfinished.chmod(0o755)
        # Several ranks may make the same: the first to be done wins.
        with contextlib.suppress(OSError):
            unfinished.rename(folder)
    except OSError as error:
        wanted = f"{samples * SAMPLE_BYTES / 1e6:,.0f} MB"
        raise FabricError(
            f"cannot make {wanted} of samples in `{folder}`: {error.strerror}; "
            "make fewer with --samples-made, or free some room"
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    made = find(folder)
    if made is None:
        raise FabricError(f"cannot make samples in `{folder}`: something else took its place")
    return made


def find(folder: Path) -> Manifest | None:
    """The manifest of a folder of samples, `None` where there is none."""
    file = folder / MANIFEST
    try:
        return Manifest.parse(file.read_text(), str(file))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FabricError(f"cannot read `{file}`: {error.strerror}") from None


def _write(folder: Path, samples: int, seed: int) -> None:
    files, raw_offsets, edges_offsets = [], set(), []
    for start in range(0, samples, _SHARD_SAMPLES):
        made = [
            sample(number, seed) for number in range(start, min(start + _SHARD_SAMPLES, samples))
        ]
        file = folder / f"shard_{start // _SHARD_SAMPLES:04d}.npz"
        with file.open("xb") as out:
            np.savez(
                out, raw=np.stack([raw for raw, _ in made]), edges=np.stack([e for _, e in made])
            )
            out.flush()
            os.fsync(out.fileno())
            # What is read later is to come from the tier and not from memory.
            os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        offsets = _offsets(file)
        files.append(file.name)
        raw_offsets.add(offsets["raw"])
        edges_offsets.append(offsets["edges"])
    (raw_offset,) = raw_offsets
    manifest = Manifest(
        _VERSION, samples, _SHARD_SAMPLES, seed, raw_offset, tuple(edges_offsets), tuple(files)
    )
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest)) + "\n")


def _offsets(file: Path) -> dict[str, int]:
    """Where the elements of each array of an npz file begin."""
    found = {}
    with zipfile.ZipFile(file) as archive, file.open("rb") as bytes_of:
        for info in archive.infolist():
            bytes_of.seek(info.header_offset + 26)
            name_bytes = int.from_bytes(bytes_of.read(2), "little")
            extra_bytes = int.from_bytes(bytes_of.read(2), "little")
            bytes_of.seek(name_bytes + extra_bytes, os.SEEK_CUR)
            np.lib.format.read_magic(bytes_of)
            np.lib.format.read_array_header_1_0(bytes_of)
            found[info.filename.removesuffix(".npy")] = bytes_of.tell()
    return found


def arrays(raw: bytes, edges: bytes) -> dict[str, Array]:
    """The two parts of a sample as the fields that Forebay gives."""
    return {
        "raw": np.frombuffer(raw, np.float32).reshape(RAW_SHAPE),
        "edges": np.frombuffer(edges, np.int32).reshape(EDGES_SHAPE),
    }


class FolderSource:
    """Samples of a folder, read by one `pread` for each part."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self._files: dict[str, int] = {}
        self._opened_by = os.getpid()

    def __len__(self) -> int:
        return self._manifest.samples

    def read_batch(self, indices: Sequence[int], /) -> list[dict[str, Array]]:
        """The samples of `indices`.

        Raises:
            FabricError: the tier no longer gives them.
        """
        return [
            arrays(*(self._read(place) for place in self._manifest.places(index)))
            for index in indices
        ]

    def _read(self, place: Place) -> bytes:
        path = self._folder / place.file
        try:
            bytes_read = os.pread(self._file(place.file), place.length, place.offset)
        except OSError as error:
            raise FabricError(
                f"the tier was lost: cannot read `{path}`: {error.strerror}"
            ) from None
        if len(bytes_read) != place.length:
            raise FabricError(f"the tier was lost: `{path}` has become shorter")
        return bytes_read

    def _file(self, name: str) -> int:
        # A fork opens its own: the files of its parent are the parent's to close.
        if self._opened_by != os.getpid():
            self._files, self._opened_by = {}, os.getpid()
        if name not in self._files:
            self._files[name] = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
        return self._files[name]
