"""Orders announced to the daemon: staged ahead of need, harmless when wrong, unchanged for users."""

from __future__ import annotations

import os
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from node import Node, eventually
from tier import Tier
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)
from worlds import World

import forebay
import forebay.torch as fb
from forebay import _plan
from forebay._command import find_command
from forebay._plan import write_plan

SAMPLES = 40
SAMPLE_BYTES = 200_000


@pytest.fixture
def files(tmp_path: Path) -> World:
    """Files larger than a block, each a sample."""
    rng = np.random.default_rng(3)
    contents = {f"f{number:03}": rng.bytes(SAMPLE_BYTES) for number in range(SAMPLES)}
    return World.of_files(tmp_path / "origin", contents)


def resident_samples(node: Node) -> float:
    blocks = -(-SAMPLE_BYTES // 65536)
    return float(sum(each["resident_blocks"] for each in node.status()["datasets"]) / blocks)


def test_the_daemon_stages_before_anything_is_read(node: Node, files: World) -> None:
    dataset = node.open(files.index)
    sampler = fb.Sampler(dataset, seed=1, rank=0, world_size=1)
    order = iter(sampler)
    eventually("every sample is resident", lambda: resident_samples(node) == SAMPLES)
    assert node.status()["asked_bytes"] == 0
    assert node.status()["stager"]["plans"] == 1
    assert list(order) == sampler.order(0).tolist()


def test_staging_keeps_to_its_bound_and_follows_the_sampler(
    node: Node, files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 8
    monkeypatch.setenv("FOREBAY_LOOK_AHEAD", str(ahead * SAMPLE_BYTES))
    dataset = node.open(files.index)
    order = iter(fb.Sampler(dataset, seed=1, rank=0, world_size=1))
    eventually("staging has begun", lambda: resident_samples(node) >= ahead)
    assert resident_samples(node) == ahead
    taken = [next(order) for _ in range(SAMPLES // 2)]
    # How many more depends on where the stager found the sampler on its way: what was handed out
    # without being staged is left to its readers.
    eventually("staging has gone on", lambda: resident_samples(node) >= 2 * ahead)
    assert resident_samples(node) <= len(taken) + ahead
    for index in taken:
        assert dataset[index]["data"].tobytes() == files.samples[index]["data"].tobytes()


def test_the_status_shows_staging_live(node: Node, files: World) -> None:
    dataset = fb.Dataset(node.open(files.index))
    sampler = fb.Sampler(dataset, rank=0, world_size=1)
    batches = iter(fb.DataLoader(dataset, batch_size=4, sampler=sampler))
    next(batches)
    # The rest of this epoch and all of the next.
    eventually("all is ahead", lambda: node.status()["stager"]["ahead_iterations"] == 19)
    program = find_command()
    assert program is not None
    line = [program, "status", "--cache", str(node.cache), "--watch", "1"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(14)]
        watching.terminate()
    staging = [line for line in lines if line.startswith("staging along 1 order: 76 samples ahead")]
    assert len(staging) == 2, lines
    assert "(19 iterations of the rank least ahead)" in staging[0]
    assert len(list(batches)) == 9


def test_collectives_hold_up_staging_and_nobody_who_waits(
    node: Node, files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_LOOK_AHEAD", str(8 * SAMPLE_BYTES))
    dataset = node.open(files.index)
    order = iter(fb.Sampler(dataset, shuffle=False, rank=0, world_size=1))
    eventually("staging has begun", lambda: resident_samples(node) == 8)
    with fb.collectives():
        eventually("it yields", lambda: node.status()["stager"]["yields"])
        taken = [next(order) for _ in range(SAMPLES // 2)]
        assert dataset[39]["data"].tobytes() == files.samples[39]["data"].tobytes()
        assert resident_samples(node) == 9
    eventually("it goes on", lambda: resident_samples(node) >= 8 + 9)
    assert taken == list(range(SAMPLES // 2))
    assert not node.status()["stager"]["yields"]


@pytest.mark.parametrize("longest_s", [0, -1, 61, float("nan")])
def test_staging_is_not_held_up_for_ever(longest_s: float) -> None:
    with pytest.raises(ValueError, match="longest_s"), fb.collectives(longest_s=longest_s):
        pass


def test_a_daemon_that_comes_back_is_told_the_order_again(
    node: Node, files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_plan, "_LOOK_S", 0.0)
    monkeypatch.setenv("FOREBAY_LOOK_AHEAD", str(8 * SAMPLE_BYTES))
    dataset = node.open(files.index)
    order = iter(fb.Sampler(dataset, shuffle=False, rank=0, world_size=1))
    eventually("the plan is followed", lambda: plans(node) == 1)
    taken = [next(order)]
    node.kill()
    taken += [next(order) for _ in range(2)]
    eventually("the plan is followed again", lambda: plans(node) == 1)
    eventually("staging goes on", lambda: resident_samples(node) >= 8)
    assert [*taken, *order] == list(range(SAMPLES))


def test_a_plan_ends_with_the_thread_that_announced_it(node: Node, files: World) -> None:
    dataset = node.open(files.index)
    orders = []

    def announce() -> None:
        orders.append(iter(fb.Sampler(dataset, rank=0, world_size=1)))
        eventually("the plan is followed", lambda: node.status()["stager"]["plans"] == 1)

    thread = threading.Thread(target=announce)
    thread.start()
    thread.join()
    eventually("the plan is forgotten", lambda: node.status()["stager"]["plans"] == 0)


def test_ranks_of_a_node_are_followed_side_by_side(node: Node, files: World) -> None:
    dataset = node.open(files.index)
    samplers = [fb.Sampler(dataset, rank=rank, world_size=2) for rank in range(2)]
    orders = [iter(sampler) for sampler in samplers]
    eventually("both are followed", lambda: node.status()["stager"]["plans"] == 2)
    iter(samplers[0])
    eventually("the newer took the older's place", lambda: node.status()["stager"]["plans"] == 2)
    assert sorted([*orders[0], *orders[1]]) == list(range(SAMPLES))


def test_a_wrong_plan_costs_time_and_never_data(node: Node, files: World) -> None:
    dataset = node.open(files.index)
    beyond = np.array([SAMPLES, 3, 2**31, 0, 4_000_000_000], dtype=np.int64)
    plan = write_plan(dataset, beyond, epoch=0, rank=0, world_size=1)
    assert dataset.follow(plan.path, None) is not None
    eventually("what exists is staged", lambda: resident_samples(node) == 2)
    for index, sample in enumerate(files.samples):
        assert dataset[index]["data"].tobytes() == sample["data"].tobytes()


@pytest.mark.parametrize("at", [0, 8, 12, 16, 32])
def test_a_damaged_plan_is_refused(node: Node, files: World, at: int) -> None:
    dataset = node.open(files.index)
    plan = write_plan(dataset, np.arange(SAMPLES), epoch=0, rank=0, world_size=1)
    with plan.path.open("r+b") as file:
        file.seek(at)
        file.write(struct.pack("<I", 0xFFFF_FFFF))
    with pytest.raises(forebay.InvalidInputError, match="plan"):
        dataset.follow(plan.path, None)
    assert len(dataset[0]["data"]) == SAMPLE_BYTES


def plans(node: Node) -> int:
    followed: int = node.status()["stager"]["plans"]
    return followed


def test_a_second_loader_does_not_take_the_first_ones_place(node: Node, files: World) -> None:
    dataset = node.open(files.index)
    training = fb.LookAhead(SequentialSampler(range(30)), dataset, rank=0)
    steps = iter(training)
    first = next(steps)
    validation = fb.LookAhead(SequentialSampler(range(10)), dataset, rank=0)
    assert list(validation) == list(range(10))
    eventually("both are followed", lambda: plans(node) == 2)
    assert [first, *steps] == list(range(30))


def test_an_order_that_is_let_go_is_forgotten(node: Node, files: World) -> None:
    dataset = node.open(files.index)
    order = iter(fb.Sampler(dataset, rank=0, world_size=1))
    eventually("it is followed", lambda: plans(node) == 1)
    del order
    eventually("it is forgotten", lambda: plans(node) == 0)


def test_a_fork_does_not_end_its_parents_order(node: Node, files: World) -> None:
    dataset = node.open(files.index)
    plan = write_plan(dataset, np.arange(SAMPLES), epoch=0, rank=0, world_size=1)
    plan.take(7)
    child = os.fork()
    if child == 0:
        plan.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert struct.unpack("<Q", plan.path.read_bytes()[64:72]) == (7,)
    plan.close()
    assert struct.unpack("<Q", plan.path.read_bytes()[64:72]) == (2**64 - 1,)


def test_an_iteration_that_was_replaced_does_not_move_the_new_ones_place(
    node: Node, files: World
) -> None:
    sampler = fb.Sampler(node.open(files.index), shuffle=False, rank=0, world_size=1)
    old = iter(sampler)
    new = iter(sampler)
    assert next(new) == 0
    assert list(old) == list(range(SAMPLES))
    ahead = SAMPLES - 1
    eventually("all is looked at", lambda: node.status()["stager"]["ahead_samples"] >= ahead)
    assert list(new) == list(range(1, SAMPLES))


def test_a_wrapped_sampler_of_forebays_announces_nothing_of_its_own(
    node: Node, files: World
) -> None:
    dataset = node.open(files.index)
    sampler = fb.Sampler(dataset, shuffle=False, rank=0, world_size=1)
    steps = iter(fb.LookAhead(BatchSampler(sampler, 4, drop_last=False), dataset, rank=0))
    first = next(steps)
    eventually("the batches' order alone is followed", lambda: plans(node) == 1)
    assert [index for batch in [first, *steps] for index in batch] == list(range(SAMPLES))


def test_no_plan_is_left_behind(node: Node, files: World) -> None:
    dataset = node.open(files.index)
    sampler = fb.Sampler(dataset, rank=0, world_size=1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        list(sampler)
    assert list((node.cache / "plans").iterdir()) == []


def test_without_a_daemon_the_order_is_used_all_the_same(node: Node, files: World) -> None:
    dataset = node.open(files.index, start_daemon=False)
    sampler = fb.Sampler(dataset, seed=5, rank=0, world_size=1)
    assert list(sampler) == sampler.order(0).tolist()


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(11)


def stock_samplers() -> dict[str, Any]:
    items = range(SAMPLES)
    weights = torch.arange(1.0, SAMPLES + 1)
    distributed = DistributedSampler(items, num_replicas=2, rank=1, seed=4)  # type: ignore[arg-type, var-annotated]
    distributed.set_epoch(3)
    return {
        "sequential": SequentialSampler(items),
        "random": RandomSampler(items, generator=generator()),
        "weighted": WeightedRandomSampler(weights.tolist(), 70, generator=generator()),
        "distributed": distributed,
        "batches": BatchSampler(RandomSampler(items, generator=generator()), 7, drop_last=False),
    }


@pytest.mark.parametrize("name", list(stock_samplers()))
def test_stock_samplers_keep_their_order_and_are_staged(
    node: Node, files: World, name: str
) -> None:
    usual, wrapped = stock_samplers()[name], stock_samplers()[name]
    dataset = node.open(files.index)
    ahead = fb.LookAhead(wrapped, dataset)
    assert len(ahead) == len(usual)
    order = iter(ahead)
    first = next(order)
    eventually("the plan is followed", lambda: node.status()["stager"]["plans"] == 1)
    assert [first, *order] == list(usual)
    eventually("something was staged", lambda: node.status()["stager"]["staged_bytes"] > 0)


def test_a_loader_over_a_subset_is_staged_by_position(node: Node, files: World) -> None:
    positions = [31, 2, 17]
    ahead = fb.LookAhead(SequentialSampler(range(3)), node.open(files.index), positions=positions)
    order = iter(ahead)
    first = next(order)
    # The first may be handed out before the stager looks, and is its reader's to ask for then.
    eventually("the subset is resident", lambda: resident_samples(node) >= 2)
    assert [first, *order] == [0, 1, 2]


def test_what_is_not_forebays_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a Forebay data set: list"):
        fb.LookAhead(SequentialSampler(range(3)), [1, 2, 3])


def test_a_loader_with_workers_reads_what_was_staged(node: Node, files: World) -> None:
    dataset = fb.Dataset(node.open(files.index))
    sampler = fb.Sampler(dataset, seed=2, rank=0, world_size=1)
    loader = DataLoader(
        dataset, batch_size=8, sampler=sampler, num_workers=2, multiprocessing_context="fork"
    )
    read = torch.cat([batch["data"] for batch in loader])
    wanted = np.stack([files.samples[index]["data"] for index in sampler.order(0)])
    assert np.array_equal(read.numpy(), wanted)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[World, Tier]]:
    """Many files on a tier whose reads take some milliseconds."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("the emulated tier needs root and /dev/fuse")
    world = World.of_files(
        tmp_path / "origin", {f"f{number:03}": bytes([number]) * 5000 for number in range(120)}
    )
    tier = Tier.mount(world.root, tmp_path / "slow")
    tier.control("set", "scale=1", "read.median_ms=3", "read.p95_ms=5")
    yield world, tier
    tier.unmount()


def test_a_read_that_hangs_is_begun_once_more(node: Node, slow: tuple[World, Tier]) -> None:
    world, tier = slow
    dataset = node.open(world.index, root=tier.root, deadline_s=45)
    # Enough reads to know what is usual, and so what is late.
    for index in range(100):
        dataset[index]
    before = node.status()["metrics"]["hedged_reads"]
    tier.fault("hang", "--nth", 1)
    assert dataset[110]["data"].tobytes() == world.samples[110]["data"].tobytes()
    assert tier.held() == 1, "the first read still hangs"
    # A busy machine may have been late with one before.
    assert node.status()["metrics"]["hedged_reads"] > before
    tier.clear()
    assert dataset[111]["data"].tobytes() == world.samples[111]["data"].tobytes()


def test_hedging_can_be_turned_off(
    node: Node, slow: tuple[World, Tier], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_HEDGED_READS", "0")
    world, tier = slow
    dataset = node.open(world.index, root=tier.root, deadline_s=3)
    for index in range(100):
        dataset[index]
    tier.fault("hang", "--nth", 1)
    with pytest.raises(forebay.DeadlineError):
        dataset[110]
