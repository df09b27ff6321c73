"""The node's daemon comes and goes without a reader noticing more than a wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from node import Node, eventually
from worlds import World, assert_same

import forebay


def test_a_killed_daemon_costs_no_byte_and_a_new_one_comes(node: Node, tmp_path: Path) -> None:
    world = World.of_noise(tmp_path / "origin", files=30, size=100_000)
    dataset = node.open(world.index)
    for epoch in range(3):
        for step in range(30):
            if step == 10:
                node.kill()
            number = (step * 7 + epoch) % 30
            assert_same(dataset[number], world.samples[number])
            if not node.daemons():
                # Everything is resident: no read needs a daemon, but the next kill does.
                node.open(world.index)
    # Reads of what was resident need no daemon; the next miss starts one.
    more = World.of_noise(tmp_path / "more" / "origin", files=2, size=100, seed=2)
    more.read_by(node.open(more.index))
    assert len(node.daemons()) == 1
    world.read_by(dataset)
    assert node.status()["metrics"]["corrupt_blocks"] == 0


def test_a_miss_after_a_kill_starts_a_new_daemon(node: Node, world: World) -> None:
    dataset = node.open(world.index)
    (first,) = node.daemons()
    node.kill()
    world.read_by(dataset)
    (second,) = node.daemons()
    assert first != second
    assert node.status()["direct_bytes"] == 0


def test_an_idle_daemon_leaves_nothing_running(
    node: Node, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_IDLE_EXIT_SECONDS", "1")
    # A thread's link ends with it.
    reader = threading.Thread(target=lambda: world.read_by(node.open(world.index)))
    reader.start()
    reader.join()
    eventually("an idle daemon leaves", lambda: not node.daemons())
    assert not (node.cache / "daemon.sock").exists()
    with pytest.raises(forebay.UnavailableError, match="no daemon serves"):
        node.status()
    # What it left is found by the next.
    world.read_by(node.open(world.index))
    assert node.status()["origin_bytes"] == 0


def test_without_the_command_reads_come_from_the_origin_with_a_warning(
    node: Node, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_COMMAND", "/nonexistent")
    with pytest.warns(RuntimeWarning, match="reading the origin directly") as caught:
        dataset = node.open(world.index)
    assert caught[0].filename == __file__.replace("test_daemon", "node"), "the caller's own line"
    world.read_by(dataset)
    assert_same(dataset.view(2), world.samples[2])
    assert not dataset.stage([0])
    assert not node.daemons()


def test_a_daemon_that_cannot_start_says_where_to_look(node: Node, world: World) -> None:
    with pytest.warns(RuntimeWarning, match="forebay serve") as caught:
        dataset = node.open(world.index, capacity="much")
    assert dataset.warning is not None and dataset.warning in str(caught[0].message)
    world.read_by(dataset)


def test_no_daemon_is_started_unless_wanted(node: Node, world: World) -> None:
    dataset = node.open(world.index, start_daemon=False)
    world.read_by(dataset)
    assert not node.daemons()
    assert not node.cache.exists()


TRAINS = """
import sys, time, forebay
dataset = forebay.open(sys.argv[1], cache=sys.argv[2])
dataset[0]
print("ready", flush=True)
time.sleep(600)
"""


def test_ctrl_c_at_the_trainer_does_not_reach_the_daemon(node: Node, world: World) -> None:
    line = [sys.executable, "-c", TRAINS, world.index, node.cache]
    trainer = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == "ready\n"
    daemons = node.daemons()
    os.killpg(trainer.pid, signal.SIGINT)
    trainer.communicate(timeout=60)
    assert trainer.returncode == -signal.SIGINT
    assert node.daemons() == daemons != []
    assert node.status()["pid"] == daemons[0]


def test_stop_is_heard_and_status_says_what_runs(node: Node, world: World) -> None:
    dataset = node.open(world.index, capacity="3 GiB", policy="pin")
    status = node.status()
    assert [status["pid"]] == node.daemons()
    assert status["version"] == forebay.__version__
    assert status["plan"]["capacity_bytes"] == 3 << 30
    assert status["plan"]["policy"] == "pin"
    assert status["plan"]["sources"]["policy"] == "command-line"
    forebay.stop(node.cache)
    eventually("it stops", lambda: not node.daemons())
    with pytest.raises(forebay.UnavailableError):
        forebay.stop(node.cache)
    world.read_by(dataset)


def test_the_default_folder_is_that_of_the_environment(
    node: Node, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_CACHE", str(node.cache))
    dataset = forebay.open(world.index)
    assert dataset.cache == node.cache
    assert forebay.status()["plan"]["cache"] == str(node.cache)
    forebay.stop()
    eventually("it stops", lambda: not node.daemons())
