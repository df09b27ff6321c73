"""Forks, threads and pickles: a data set is safe to use whatever the trainer does with processes."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from node import Node
from worlds import World, assert_same

import forebay


def in_fork(body: Callable[[], None]) -> Callable[[], None]:
    """Runs `body` in a child of `fork`; what is returned waits for it and expects it to succeed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            body()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def wait() -> None:
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, "the child failed; see its traceback"

    return wait


def test_parent_and_forked_child_both_read_on(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    # Some samples are resident before the fork, the rest are asked for after it, by both at once:
    # they must not take each other's answers.
    assert_same(dataset[0], world.samples[0])
    waits = [in_fork(lambda: world.read_by(dataset)) for _ in range(3)]
    world.read_by(dataset)
    for wait in waits:
        wait()
    world.read_by(dataset)
    assert len(node.daemons()) == 1


def test_a_child_of_a_child_reads_too(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    in_fork(lambda: in_fork(lambda: world.read_by(dataset))())()
    world.read_by(dataset)


def test_a_fork_amid_reading_threads_harms_nobody(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                world.read_by(dataset)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            in_fork(lambda: world.read_by(dataset))()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures


def test_eight_threads_read_the_same(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    failures: list[BaseException] = []
    begin = threading.Barrier(8)

    def read() -> None:
        try:
            begin.wait()
            for _ in range(3):
                world.read_by(dataset)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert node.status()["direct_bytes"] == 0


def test_a_childs_end_leaves_the_parents_views_alone(node: Node, tmp_path: Path) -> None:
    world = World.of_noise(tmp_path / "origin", files=40, size=150_000)
    dataset = node.open(world.index, capacity="2 MiB", policy="lru")
    held = dataset.view(3)
    (view,) = dataset.views(3)
    assert view.is_in_place

    def drop_them() -> None:
        nonlocal held, view
        del held, view
        gc.collect()

    in_fork(drop_them)()
    # Thrice the capacity: what nothing holds is evicted.
    for _ in range(2):
        world.read_by(dataset)
    assert node.status()["metrics"]["evicted_blocks"] > 0
    assert_same(held, world.samples[3])
    assert bytes(memoryview(view)) == world.samples[3]["data"].tobytes()


def test_a_data_set_pickles_as_where_it_is(node: Node, world: World) -> None:
    dataset = node.open(world.index, deadline_s=7.0)
    copy = pickle.loads(pickle.dumps(dataset))
    assert (copy.path, copy.root, copy.cache) == (dataset.path, dataset.root, dataset.cache)
    assert copy.generation == dataset.generation
    world.read_by(copy)
    assert len(pickle.dumps(dataset)) < 2000, "no bytes of the data go along"


def test_a_pickle_of_a_replaced_index_is_stale(node: Node, world: World) -> None:
    pickled = pickle.dumps(node.open(world.index))
    forebay.index(world.root / "part0.h5", world.index, root=world.root)
    with pytest.raises(forebay.StaleError, match=r"data.forebay"):
        pickle.loads(pickled)


OPENS = """
import sys, forebay
dataset = forebay.open(sys.argv[1], cache=sys.argv[2])
dataset[0]
print(forebay.status(sys.argv[2])["pid"])
"""


def test_processes_that_open_at_once_start_one_daemon(node: Node, world: World) -> None:
    line = [sys.executable, "-W", "error", "-c", OPENS, world.index, node.cache]
    started = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    pids = {process.communicate(timeout=120)[0].strip() for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert pids == {str(pid) for pid in node.daemons()}
    assert len(pids) == 1
