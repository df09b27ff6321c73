"""Libraries that open files read the same from a mount, and train from it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import kinds
import pytest
import torch
from mounted import Mounted, need_fuse
from node import Node

SAMPLES = 200


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kinds") / "origin"
    kinds.write(root)
    with h5py.File(root / "samples.h5", "w") as file:
        for number in range(SAMPLES):
            values = torch.full((40, 50), number, dtype=torch.float32).numpy()
            file.create_dataset(f"s{number:04}/x", data=values, compression="lzf")
    return root


@pytest.fixture
def mounted(written: Path, tmp_path: Path, node: Node) -> Iterator[Mounted]:
    need_fuse()
    made = Mounted.make(written, tmp_path / "mount", node.cache)
    yield made
    made.end()


def test_every_library_reads_what_it_wrote(written: Path, mounted: Mounted) -> None:
    for _ in range(2):
        for name, read in kinds.READERS.items():
            wanted = kinds.digest(read(written / name))
            assert kinds.digest(read(mounted.root / name)) == wanted, name
    served = mounted.end()
    assert served["direct_bytes"] == served["failed_reads"] == 0
    assert served["local_bytes"] > 0


@pytest.mark.parametrize("line", [["h5dump", "-d", "group/gzip", "v108.h5"], ["ncdump", "grid.nc"]])
def test_dumps_are_the_same(written: Path, mounted: Mounted, line: list[str]) -> None:
    if shutil.which(line[0]) is None:
        pytest.skip(f"no {line[0]}")
    here, there = (
        subprocess.run(line, cwd=root, capture_output=True, timeout=120, check=True).stdout
        for root in (mounted.root, written)
    )
    assert here == there


class Direct(torch.utils.data.Dataset[tuple[int, torch.Tensor]]):
    """As a user writes it: the file is opened in the worker, when it is first needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: Any = None

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        if self.file is None:
            self.file = h5py.File(self.path)
        return index, torch.from_numpy(self.file[f"s{index:04}/x"][()])


# Of more workers than this machine has processors.
@pytest.mark.filterwarnings("ignore")
def test_a_loader_of_four_workers_trains_two_epochs(mounted: Mounted) -> None:
    loader = torch.utils.data.DataLoader(
        Direct(mounted.root / "samples.h5"),
        batch_size=10,
        shuffle=True,
        num_workers=4,
    )
    for _ in range(2):
        seen = []
        for indices, values in loader:
            wanted = indices.to(torch.float32)[:, None, None].expand(-1, 40, 50)
            assert torch.equal(values, wanted)
            seen += indices.tolist()
        assert sorted(seen) == list(range(SAMPLES))
