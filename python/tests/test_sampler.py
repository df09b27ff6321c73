"""The sampler's order and its resume, and what the torch `Dataset` does with what it reads."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler

from forebay.torch import Dataset, Sampler

COUNTS = st.integers(0, 300)
WORLDS = st.integers(1, 9)
SEEDS = st.integers(0, 2**40)
EPOCHS = st.integers(0, 50)


class Numbers:
    """A source whose sample `i` says `i`, in place of the native data set."""

    fields = ("index", "pair")

    def __init__(self, length: int) -> None:
        self.length = length
        self.batches: list[list[int]] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        return {"index": np.array(index), "pair": np.array([index, -index], dtype=np.float32)}

    def read_batch(self, indices: Sequence[int]) -> list[dict[str, np.ndarray]]:
        self.batches.append(list(indices))
        buffer = np.repeat(np.array(indices, dtype=np.float32), 2).reshape(-1, 2) * [1, -1]
        pairs = buffer.astype(np.float32)
        return [{"index": np.array(i), "pair": pairs[n]} for n, i in enumerate(indices)]


def ranks(length: int, world: int, **options: Any) -> list[Sampler]:
    return [Sampler(length, rank=rank, world_size=world, **options) for rank in range(world)]


def dealt_in_turn(shares: Sequence[Sequence[int]]) -> list[int]:
    """The order over all ranks, as lockstep training takes it."""
    return [index for step in zip(*shares, strict=True) for index in step]


@given(COUNTS, WORLDS, SEEDS, EPOCHS, st.booleans(), st.booleans(), st.data())
def test_order_equals_that_of_distributed_sampler(
    length: int,
    world: int,
    seed: int,
    epoch: int,
    shuffle: bool,
    drop_last: bool,
    data: st.DataObject,
) -> None:
    rank = data.draw(st.integers(0, world - 1))
    options = {"shuffle": shuffle, "seed": seed, "drop_last": drop_last}
    theirs = DistributedSampler(range(length), num_replicas=world, rank=rank, **options)
    theirs.set_epoch(epoch)
    ours = Sampler(length, rank=rank, world_size=world, **options)
    ours.set_epoch(epoch)

    assert list(ours) == list(theirs)
    assert len(ours) == len(theirs)
    assert ours.order(epoch).tolist() == list(theirs)
    assert ours.order(epoch).dtype == np.int64


def test_an_order_longer_than_one_run_of_indices_is_whole() -> None:
    theirs = DistributedSampler(range(20_001), num_replicas=1, rank=0, seed=3)
    ours = list(Sampler(20_001, seed=3, rank=0, world_size=1))
    assert ours == list(theirs)
    assert type(ours[0]) is int


def test_any_sized_source_or_its_length_gives_the_same_order() -> None:
    by_length = Sampler(17, seed=1, rank=0, world_size=1)
    assert list(Sampler(Numbers(17), seed=1, rank=0, world_size=1)) == list(by_length)
    assert list(Sampler(np.int64(17), seed=1, rank=0, world_size=1)) == list(by_length)


@given(COUNTS, WORLDS, SEEDS, EPOCHS, st.booleans(), st.booleans(), st.data())
def test_resume_gives_exactly_what_remained_then_whole_epochs(
    length: int,
    world: int,
    seed: int,
    epoch: int,
    shuffle: bool,
    drop_last: bool,
    data: st.DataObject,
) -> None:
    options = {"shuffle": shuffle, "drop_last": drop_last, "world_size": world}
    rank = data.draw(st.integers(0, world - 1))
    whole = Sampler(length, seed=seed, rank=rank, **options)
    whole.set_epoch(epoch)
    order = list(whole)
    consumed = data.draw(st.integers(0, len(order)))
    state = json.loads(json.dumps(whole.state_dict(consumed=consumed)))

    resumed = Sampler(length, seed=seed + 1, rank=rank, **options)
    resumed.load_state_dict(state)
    assert resumed.remaining == len(order) - consumed
    assert len(resumed) == len(order)
    if data.draw(st.booleans(), label="the loop names its epoch"):
        resumed.set_epoch(epoch)
    assert list(resumed) == order[consumed:]

    # Nothing of the resume is left behind: this epoch again, and the next, are whole.
    assert list(resumed) == order
    resumed.set_epoch(epoch + 1)
    assert resumed.order(epoch + 1).tolist() == list(resumed)
    assert len(list(resumed)) == len(order)


@given(st.integers(1, 200), st.lists(WORLDS, min_size=2, max_size=4), SEEDS, st.data())
def test_changed_world_sizes_lose_no_sample_and_repeat_only_the_padding(
    length: int, worlds: list[int], seed: int, data: st.DataObject
) -> None:
    taken: list[int] = []
    state: dict[str, Any] | None = None
    for leg, world in enumerate(worlds):
        samplers = ranks(length, world, seed=seed)
        for sampler in samplers:
            if state is not None:
                sampler.load_state_dict(state)
        shares = [list(sampler) for sampler in samplers]
        last = leg == len(worlds) - 1
        steps = len(shares[0]) if last else data.draw(st.integers(0, len(shares[0])))
        taken += dealt_in_turn([share[:steps] for share in shares])
        states = [sampler.state_dict(consumed=steps) for sampler in samplers]
        assert all(other == states[0] for other in states), "one rank may write it for all"
        state = states[0]

    everything = Sampler(length, seed=seed, rank=0, world_size=1).order(0).tolist()
    assert taken[:length] == everything
    padding = taken[length:]
    assert len(padding) < max(worlds)
    assert padding == list(itertools.islice(itertools.cycle(everything), len(padding)))


@given(st.integers(0, 100), WORLDS, WORLDS, st.booleans())
def test_a_finished_epoch_resumes_empty_on_any_world(
    length: int, world: int, other: int, drop_last: bool
) -> None:
    done = Sampler(length, rank=0, world_size=world, drop_last=drop_last)
    state = done.state_dict(consumed=len(done))
    for sampler in ranks(length, other, drop_last=drop_last):
        sampler.load_state_dict(state)
        assert list(sampler) == []


@given(st.integers(1, 100), WORLDS, st.data())
def test_a_resumed_iteration_can_be_saved_again(
    length: int, world: int, data: st.DataObject
) -> None:
    sampler = Sampler(length, rank=0, world_size=world)
    order = list(sampler)
    first = data.draw(st.integers(0, len(order)))
    sampler.load_state_dict(sampler.state_dict(consumed=first))
    assert list(sampler) == order[first:]
    second = data.draw(st.integers(0, len(order) - first))
    sampler.load_state_dict(sampler.state_dict(consumed=second))
    assert list(sampler) == order[first + second :]


def test_another_epoch_forgets_the_place_that_was_loaded() -> None:
    sampler = Sampler(20, seed=1, rank=0, world_size=2)
    sampler.load_state_dict(sampler.state_dict(consumed=4))
    sampler.set_epoch(1)
    assert list(sampler) == sampler.order(1).tolist()

    sampler.load_state_dict(sampler.state_dict(consumed=4))
    assert len(list(sampler)) == 6
    sampler.set_epoch(2)
    assert sampler.state_dict(consumed=3)["position"] == 6


def collated(dataset: Dataset, sampler: Sampler, workers: int) -> list[list[int]]:
    options: dict[str, Any] = {"num_workers": workers}
    if workers:
        options["multiprocessing_context"] = "fork"
    loader: Any = DataLoader(dataset, batch_size=4, sampler=sampler, **options)
    return [batch["index"].tolist() for batch in loader]


@pytest.mark.parametrize("workers_before", [0, 2])
@pytest.mark.parametrize("workers_after", [0, 2])
def test_a_data_loader_continues_exactly_whatever_its_workers(
    workers_before: int, workers_after: int
) -> None:
    dataset = Dataset(Numbers(53))
    sampler = Sampler(dataset, seed=11, rank=1, world_size=2)
    sampler.set_epoch(3)
    whole = collated(dataset, sampler, 0)

    # Stop in the middle of an epoch, while workers have read ahead.
    loader: Any = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=workers_before)
    seen = [batch["index"].tolist() for batch in itertools.islice(loader, 3)]
    state = sampler.state_dict(consumed=sum(map(len, seen)))

    resumed = Sampler(dataset, seed=0, rank=1, world_size=2)
    resumed.load_state_dict(state)
    assert seen + collated(dataset, resumed, workers_after) == whole


@given(st.integers(0, 60), st.integers(0, 60))
@settings(max_examples=30)
def test_an_impossible_place_is_refused(length: int, extra: int) -> None:
    sampler = Sampler(length, rank=0, world_size=1)
    with pytest.raises(ValueError, match="`consumed`"):
        sampler.state_dict(consumed=length + 1 + extra)
    with pytest.raises(ValueError, match="`consumed`"):
        sampler.state_dict(consumed=-1 - extra)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version 2, this forebay reads version 1"),
        ({"version": None}, "version None"),
        ({"length": 11}, "`length` 11, this sampler has 10"),
        ({"shuffle": False}, "`shuffle` False"),
        ({"drop_last": True}, "`drop_last` True"),
        ({"position": 11}, "position 11 of 10"),
        ({"position": -1}, "`position` is -1"),
        ({"seed": "7"}, "`seed` is '7'"),
        ({"epoch": True}, "`epoch` is True"),
        ({"shuffle": 1}, "`shuffle` is 1"),
        ({"colour": "red"}, "missing or unknown fields: colour"),
    ],
)
def test_a_foreign_state_is_refused_and_changes_nothing(change: dict[str, Any], words: str) -> None:
    sampler = Sampler(10, seed=5, rank=0, world_size=1)
    before, order = sampler.state_dict(consumed=0), list(sampler)
    with pytest.raises(ValueError, match=words):
        sampler.load_state_dict({**sampler.state_dict(consumed=2), **change})
    assert sampler.state_dict(consumed=0) == before
    assert list(sampler) == order


def test_a_state_without_a_field_is_refused() -> None:
    sampler = Sampler(10, rank=0, world_size=1)
    state = sampler.state_dict(consumed=2)
    del state["epoch"]
    with pytest.raises(ValueError, match="missing or unknown fields: epoch"):
        sampler.load_state_dict(state)


def test_rank_and_world_size_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert list(Sampler(50)) == list(Sampler(50, rank=2, world_size=5))
    monkeypatch.setenv("WORLD_SIZE", "five")
    with pytest.raises(ValueError, match="`WORLD_SIZE` is `five`"):
        Sampler(50)
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert list(Sampler(50)) == list(Sampler(50, rank=0, world_size=1))


def test_an_initialised_process_group_goes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 3)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    assert list(Sampler(50)) == list(Sampler(50, rank=3, world_size=4))


@pytest.mark.parametrize(("rank", "world"), [(3, 3), (-1, 2), (0, 0)])
def test_a_rank_outside_its_world_is_refused(rank: int, world: int) -> None:
    with pytest.raises(ValueError, match="`rank`"):
        Sampler(10, rank=rank, world_size=world)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=20))
def test_a_batch_is_one_read_and_its_tensors_share_its_buffer(indices: list[int]) -> None:
    source = Numbers(100)
    batch = Dataset(source).__getitems__(indices)
    assert source.batches == [indices]
    assert [int(sample["index"]) for sample in batch] == indices
    storages = {sample["pair"].untyped_storage().data_ptr() for sample in batch}
    starts = [sample["pair"].data_ptr() - batch[0]["pair"].data_ptr() for sample in batch]
    assert starts == [8 * n for n in range(len(indices))], "views, side by side in one buffer"
    assert len(storages) == len(indices)


def test_one_sample_equals_the_same_sample_of_a_batch() -> None:
    dataset = Dataset(Numbers(10))
    one, (other,) = dataset[7], dataset.__getitems__([7])
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_transform_and_fields_shape_every_sample() -> None:
    dataset = Dataset(Numbers(5), fields=["pair"], transform=lambda sample: (sample, "seen"))
    assert list(dataset[3][0]) == ["pair"]
    assert [mark for _, mark in dataset.__getitems__([1, 2])] == ["seen", "seen"]
    assert list(Dataset(Numbers(5), fields="pair", transform=None)[3]) == ["pair"]
    with pytest.raises(KeyError, match=r"no field 'colour': they have .*pair"):
        Dataset(Numbers(5), fields=["colour"])[0]


def test_arrays_stay_arrays_on_request() -> None:
    sample = Dataset(Numbers(5), as_tensor=False)[2]
    assert isinstance(sample["pair"], np.ndarray)


class Odd(Numbers):
    """Fields that torch cannot take as they are."""

    kept = np.arange(3)
    kept.flags.writeable = False

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        return {
            "read_only": self.kept,
            "big_endian": np.arange(3, dtype=">i4"),
            "text": np.array([b"C", b"N"]),
        }


@pytest.mark.filterwarnings("error")
def test_odd_arrays_are_copied_or_left_and_never_shared_unsafely() -> None:
    sample = Dataset(Odd(1))[0]
    sample["read_only"][0] = 9
    assert Odd.kept.tolist() == [0, 1, 2]
    assert sample["big_endian"].tolist() == [0, 1, 2]
    assert isinstance(sample["text"], np.ndarray)


def test_an_open_data_set_takes_no_folders() -> None:
    with pytest.raises(TypeError, match="already open"):
        Dataset(Numbers(1), root="/somewhere")


def test_data_set_and_sampler_survive_the_trip_to_a_worker() -> None:
    dataset: Dataset = pickle.loads(pickle.dumps(Dataset(Numbers(9), fields=["index"])))
    sampler = Sampler(dataset, seed=2, rank=0, world_size=1)
    sampler.load_state_dict(sampler.state_dict(consumed=4))
    copy: Sampler = pickle.loads(pickle.dumps(sampler))
    assert dataset[5]["index"] == 5
    assert list(copy) == list(sampler)
