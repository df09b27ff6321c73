"""The capacity is a bound, and a device that is full costs speed and nothing else."""

from __future__ import annotations

import os
import random
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from node import Node
from worlds import World, assert_same

from forebay._plan import write_plan

MIB = 1 << 20


@pytest.fixture
def noise(tmp_path: Path) -> World:
    """6 MiB in 48 samples."""
    return World.of_noise(tmp_path / "noise", files=48, size=MIB // 8)


@pytest.mark.parametrize("policy", ["lru", "pin"])
def test_reads_are_right_and_the_capacity_is_kept(node: Node, noise: World, policy: str) -> None:
    dataset = node.open(noise.index, capacity="2 MiB", policy=policy)
    order = list(range(len(noise.samples)))
    for epoch in range(3):
        random.Random(epoch).shuffle(order)
        for start in range(0, len(order), 8):
            numbers = order[start : start + 8]
            for number, found in zip(numbers, dataset.read_batch(numbers), strict=True):
                assert_same(found, noise.samples[number])
            assert_same(dataset.view(numbers[0]), noise.samples[numbers[0]])
            assert node.status()["used_bytes"] <= 2 * MIB
            assert on_disk(node.cache / "blocks") <= 2 * MIB
    status = node.status()
    assert status["local_bytes"] > 0, "what fits is served"
    assert (status["metrics"]["evicted_blocks"] > 0) == (policy == "lru")
    if policy == "pin":
        assert status["direct_bytes"] > 0, "what does not fit is read through"


def test_a_capacity_of_nothing_reads_through(node: Node, world: World) -> None:
    dataset = node.open(world.index, capacity=0)
    world.read_by(dataset)
    assert node.status()["used_bytes"] == 0
    assert not dataset.stage([0])


def test_the_first_opener_decides_the_capacity(node: Node, world: World) -> None:
    node.open(world.index, capacity=5 * MIB)
    world.read_by(node.open(world.index, capacity=9 * MIB))
    assert node.status()["plan"]["capacity_bytes"] == 5 * MIB


@pytest.fixture
def small_device(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    folder = tmp_path / "device"
    folder.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(line, capture_output=True, check=False).returncode:
        pytest.skip("a small file system needs root and the right to mount")
    yield folder
    # Views that a test still holds keep files open; the mount goes when they do.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_reads_are_right_on_a_full_device(
    small_device: Path, noise: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Neither the capacity nor the floor stops the daemon before the device does.
    monkeypatch.setenv("FOREBAY_FREE_FLOOR", "0")
    node = Node(small_device / "cache")
    try:
        dataset = node.open(noise.index, capacity="1 GiB")
        for number in range(8):
            assert_same(dataset[number], noise.samples[number])
        fill_up(small_device / "ballast")
        for _ in range(2):
            noise.read_by(dataset)
            assert_same(dataset.view(-1), noise.samples[-1])
        (small_device / "ballast").unlink()
        noise.read_by(dataset)
        assert node.status()["metrics"]["corrupt_blocks"] == 0
    finally:
        node.stop()


def test_a_plan_that_cannot_be_written_leaves_nothing_behind(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
    try:
        with pytest.raises(OSError):
            write_plan(dataset, np.zeros(99_999, np.int64), epoch=0, rank=0, world_size=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((node.cache / "plans").iterdir()) == []


def fill_up(path: Path) -> None:
    with path.open("wb", buffering=0) as ballast, pytest.raises(OSError, match="No space left"):
        while ballast.write(bytes(MIB // 4)):
            pass


def on_disk(folder: Path) -> int:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_blocks * 512 for path in files)
