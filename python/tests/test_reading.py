"""What a reader gets is what h5py gives, whichever way it is asked for."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from node import Node
from tier import command
from worlds import World, assert_same

import forebay


def test_arrays_equal_those_of_h5py(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    for _ in ("staged", "resident"):
        world.read_by(dataset)


def test_a_data_set_is_a_sequence(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    count = len(world.samples)
    assert len(dataset) == count
    for found, wanted in zip(dataset, world.samples, strict=True):
        assert_same(found, wanted)
    assert_same(dataset[-1], world.samples[-1])
    assert_same(dataset[-count], world.samples[0])
    assert_same(dataset[np.int64(2)], world.samples[2])
    for index in (count, -count - 1, 2**62, -(2**62)):
        with pytest.raises(IndexError, match=f"no sample {index}: the data set has {count}"):
            dataset[index]
    with pytest.raises(TypeError):
        dataset["s001"]  # type: ignore[index]


def test_keys_find_their_samples(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    keys = [dataset.key(number) for number in range(len(dataset))]
    assert len(set(keys)) == len(dataset)
    assert keys[1] is not None and "s001" in keys[1]
    for number, key in enumerate(keys):
        assert key is not None
        assert dataset.find(key) == number
    assert dataset.key(-1) == keys[-1]
    assert dataset.find("nothing") is None


def test_fields_say_what_samples_hold(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    named = {field.name: field.dtype for field in dataset.fields}
    assert named == {name: array.dtype for name, array in world.samples[0].items()}
    assert repr(dataset) == f"<forebay.Dataset `{world.index}`: {len(world.samples)} samples>"


def test_each_file_of_a_tree_is_a_sample(node: Node, tmp_path: Path) -> None:
    contents = {"a/x.bin": b"first", "a/y/z.bin": b"", "b.bin": bytes(200_000), "c": b"\0"}
    world = World.of_files(tmp_path / "tree", contents)
    dataset = node.open(world.index)
    (field,) = dataset.fields
    assert field.dtype == np.uint8
    found = {dataset.key(number): dataset[number][field.name] for number in range(4)}
    assert {key: array.tobytes() for key, array in found.items()} == contents
    assert all(view.is_in_place for view in dataset.views(2))


def test_a_batch_is_one_buffer_and_equals_single_reads(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    order = [3, 0, -1, 3, 3]
    batch = dataset.read_batch(order)
    assert len(batch) == len(order)
    for found, number in zip(batch, order, strict=True):
        assert_same(found, world.samples[number])
        assert_same(found, dataset[number])
    arrays = [array for sample in batch for array in sample.values() if array.size]
    # Views of one buffer, apart from each other: writing to one changes no other.
    starts = sorted((array.ctypes.data, array.nbytes) for array in arrays)
    assert all(start + size <= after for (start, size), (after, _) in pairwise(starts))
    size, _ = dataset.batch_layout(order)
    assert starts[-1][0] + starts[-1][1] - starts[0][0] <= size
    batch[0]["contiguous"][:] = 0
    assert_same(batch[3], world.samples[3])
    assert dataset.read_batch([]) == []
    with pytest.raises(IndexError):
        dataset.read_batch([0, len(dataset)])


def test_what_is_read_belongs_to_the_reader(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    for sample in (dataset[1], *dataset.read_batch([1])):
        for array in sample.values():
            array[...] = np.zeros((), array.dtype)
    assert_same(dataset[1], world.samples[1])


def test_buffers_that_do_not_fit_are_refused(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    size, _ = dataset.layout(0)
    with pytest.raises(forebay.InvalidInputError, match=f"{size - 1} bytes, {size} are needed"):
        dataset.read_into(0, np.empty(size - 1, np.uint8))
    fixed = np.empty(size, np.uint8)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="writable, contiguous"):
        dataset.read_into(0, fixed)
    with pytest.raises(ValueError, match="writable, contiguous"):
        dataset.read_into(0, np.empty(2 * size, np.uint8)[::2])
    with pytest.raises(TypeError):
        dataset.read_into(0, "text")  # type: ignore[arg-type]
    with pytest.raises((BufferError, ValueError)):
        dataset.read_into(0, bytes(size))
    size, _ = dataset.batch_layout([0, 1])
    with pytest.raises(forebay.InvalidInputError):
        dataset.read_batch_into([0, 1], bytearray(size - 1))


def test_any_writable_buffer_will_do_and_its_rest_is_left_alone(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    size, layout = dataset.layout(2)
    out = bytearray(b"\xaa" * (size + 9))
    assert dataset.read_into(2, out) == size
    assert out[size:] == b"\xaa" * 9
    names = [field.name for field in dataset.fields]
    for name, (offset, shape) in zip(names, layout, strict=True):
        wanted = world.samples[2][name]
        assert list(wanted.shape) == shape
        assert out[offset : offset + wanted.nbytes] == wanted.tobytes(), name


def test_views_are_the_cache_itself_where_that_is_possible(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    in_place = dict(
        zip(
            [field.name for field in dataset.fields],
            [view.is_in_place for view in dataset.views(1)],
            strict=True,
        )
    )
    assert in_place["contiguous"] and in_place["big_endian"] and in_place["mask"]
    assert not in_place["lzf"] and not in_place["gzip"] and not in_place["chunked"]
    for number, wanted in enumerate(world.samples):
        sample = dataset.view(number)
        assert_same(sample, wanted)
        for array in sample.values():
            assert not array.flags.writeable or not array.size


def test_a_view_outlives_its_data_set(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    sample = dataset.view(5)
    del dataset
    node.stop()
    assert_same(sample, world.samples[5])


def test_a_flattened_data_set_equals_its_source(node: Node, world: World, tmp_path: Path) -> None:
    done = command("flatten", world.index, "--output", tmp_path / "flat")
    assert done.returncode == 0, done.stderr
    source = node.open(world.index)
    dataset = node.open(tmp_path / "flat" / "index.forebay")
    for number in range(len(world.samples)):
        assert dataset.key(number) == source.key(number)
    world.read_by(dataset)
    assert all(view.is_in_place for view in dataset.views(0) if len(view))


def test_all_resident_no_message_is_sent(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    assert dataset.stage(range(len(dataset)))
    node.stop()
    # Neither daemon nor origin is there any more.
    gone = world.root.rename(world.root.with_name("elsewhere"))
    for reader in (dataset, node.open(world.index, start_daemon=False)):
        world.read_by(reader)
        for found, wanted in zip(reader.read_batch(range(len(reader))), world.samples, strict=True):
            assert_same(found, wanted)
        assert_same(reader.view(0), world.samples[0])
    assert gone.exists() and not node.daemons()


def test_the_counters_of_bytes_add_up(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    world.read_by(dataset)
    cold = node.status()
    assert cold["direct_bytes"] == 0
    assert 0 < cold["origin_bytes"] <= sum(file.stat().st_size for file in world.root.iterdir())
    assert 0 <= cold["local_bytes"] < cold["asked_bytes"]
    world.read_by(dataset)
    warm = node.status()
    assert warm["asked_bytes"] == 2 * cold["asked_bytes"]
    assert warm["local_bytes"] == cold["local_bytes"] + cold["asked_bytes"]
    assert warm["origin_bytes"] == cold["origin_bytes"], "each block is read once"
    (shown,) = warm["datasets"]
    assert shown["generation"] == dataset.generation
    assert shown["samples"] == len(dataset)


def test_the_index_may_lie_elsewhere_than_its_root(
    node: Node, world: World, tmp_path: Path
) -> None:
    moved = world.root.rename(tmp_path / "moved")
    dataset = node.open(world.index, root=moved)
    assert dataset.root == moved
    assert dataset.cache == node.cache
    assert dataset.path == world.index
    world.read_by(dataset)


def test_python_runs_the_index_command(world: World, tmp_path: Path) -> None:
    output = tmp_path / "some.forebay"
    summary = forebay.index(
        [world.root / "part0.h5"], output, sample="*", root=world.root, fields=["lzf", "s*"]
    )
    assert summary["samples"] == 4
    assert sorted(field["name"] for field in summary["fields"]) == ["lzf", "scalar"]
    with pytest.raises(forebay.InvalidInputError, match="nothing/"):
        forebay.index(world.root, output, sample="nothing/*")
