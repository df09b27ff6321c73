"""Each error is of the class that says what to do, and names what it is about."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from node import Node
from tier import Tier
from worlds import World, assert_same

import forebay
from forebay.errors import make

BASES = {
    forebay.InvalidInputError: ValueError,
    forebay.NotFoundError: LookupError,
    forebay.DeadlineError: TimeoutError,
    forebay.UnsupportedError: NotImplementedError,
}


def test_both_halves_know_the_same_kinds() -> None:
    assert sorted(forebay.error_kinds()) == sorted(kind.value for kind in forebay.ErrorKind)


@pytest.mark.parametrize("kind", list(forebay.ErrorKind))
def test_errors_keep_class_kind_and_words_when_pickled(kind: forebay.ErrorKind) -> None:
    error = make(kind.value, "cannot do it")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert type(copy).__module__ == "forebay.errors"
    assert (copy.kind, str(copy)) == (kind, "cannot do it")
    assert isinstance(copy, forebay.ForebayError)
    assert isinstance(copy, BASES.get(type(copy), Exception))


@pytest.mark.parametrize("daemon", [True, False])
def test_a_changed_file_is_stale_and_named(node: Node, world: World, daemon: bool) -> None:
    changed = world.root / "part1.h5"
    os.utime(changed, ns=(0, 0))
    dataset = node.open(world.index, start_daemon=daemon)
    assert_same(dataset[0], world.samples[0])
    with pytest.raises(forebay.StaleError, match=f"{changed}.*index it again") as caught:
        dataset[-1]
    assert caught.value.kind == forebay.ErrorKind.STALE == "stale"
    with pytest.raises(forebay.StaleError):
        dataset.read_batch([0, -1])
    with pytest.raises(forebay.StaleError):
        dataset.view(-1)


@pytest.mark.parametrize("daemon", [True, False])
def test_a_missing_file_is_not_found_and_named(node: Node, world: World, daemon: bool) -> None:
    missing = world.root / "part1.h5"
    missing.unlink()
    dataset = node.open(world.index, start_daemon=daemon)
    assert_same(dataset[0], world.samples[0])
    with pytest.raises(forebay.NotFoundError, match=str(missing)):
        dataset[-1]


def test_a_damaged_chunk_is_corrupt_and_named(node: Node, tmp_path: Path) -> None:
    path = tmp_path / "origin" / "part.h5"
    path.parent.mkdir()
    with h5py.File(path, "w") as file:
        for name in ("a", "b"):
            field = file.create_dataset(
                f"{name}/curve", data=np.arange(4000), chunks=(1000,), compression="lzf"
            )
        chunk = field.id.get_chunk_info(1)
    with path.open("r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff" * chunk.size)
    forebay.index(path, tmp_path / "x.forebay")
    dataset = node.open(tmp_path / "x.forebay")
    assert dataset[0]["curve"].tolist() == list(range(4000))
    with pytest.raises(forebay.CorruptError, match=r"`curve` of sample 1 from `.*part.h5`"):
        dataset[1]
    assert dataset[0]["curve"].tolist() == list(range(4000)), "the other is well"


def test_an_index_that_is_none_is_refused(node: Node, world: World, tmp_path: Path) -> None:
    with pytest.raises(forebay.NotFoundError, match=r"nothing.forebay"):
        node.open(tmp_path / "nothing.forebay")
    text = tmp_path / "text.forebay"
    text.write_text("not an index, but long enough to hold a header\n" * 99)
    with pytest.raises(forebay.InvalidInputError, match=r"text.forebay"):
        node.open(text)
    text.write_text("")
    with pytest.raises((forebay.InvalidInputError, forebay.CorruptError), match=r"text.forebay"):
        node.open(text)
    for at, wanted, words in (
        (8, forebay.UnsupportedError, "version 5 is unknown: this build reads version"),
        (60, forebay.CorruptError, "checksum"),
        (400, forebay.CorruptError, "checksum"),
    ):
        content = bytearray(world.index.read_bytes())
        content[at] ^= 4
        text.write_bytes(content)
        with pytest.raises(wanted, match=f"text.forebay.*{words}"):
            node.open(text)
    assert not node.daemons()


def test_a_deadline_that_is_no_time_is_refused(node: Node, world: World) -> None:
    for deadline in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="deadline_s"):
            node.open(world.index, deadline_s=deadline)


def test_a_hanging_origin_ends_at_the_deadline(tier: Tier, node: Node, world: World) -> None:
    dataset = node.open(world.index, root=tier.root, deadline_s=2.0)
    assert_same(dataset[0], world.samples[0])
    tier.fault("hang", "--path", "part1.h5")
    words = r"bytes \[\d+, \d+\) of `part1.h5` did not become resident within 2 s"
    with pytest.raises(forebay.DeadlineError, match=words):
        dataset[-1]
    # A second reader follows the fill that hangs, and gets the same words.
    with pytest.raises(forebay.DeadlineError, match=words):
        dataset.read_batch([-1])
    with pytest.raises(TimeoutError):
        dataset.view(-1)
    assert_same(dataset[0], world.samples[0])
    tier.clear()
    world.read_by(dataset)


def test_ctrl_c_ends_a_wait(tier: Tier, node: Node, world: World) -> None:
    dataset = node.open(world.index, root=tier.root, deadline_s=3000)
    tier.fault("hang", "--path", "part1.h5", "--max-hang", "200")
    main = threading.get_ident()
    reading = True

    def interrupt() -> None:
        while not tier.held():
            time.sleep(0.02)
        while reading:
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(1)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            dataset[-1]
        reading = False
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert tier.held() > 0, "the read still hangs: the signal ended the wait, and nothing else"
    tier.clear()
    world.read_by(dataset)


def test_a_handler_that_reads_does_not_disturb_the_wait(
    tier: Tier, node: Node, world: World
) -> None:
    dataset = node.open(world.index, root=tier.root)
    tier.fault("hang", "--path", "part1.h5")
    handled = []

    def handle(*_: object) -> None:
        assert_same(dataset[1], world.samples[1])
        handled.append(True)
        tier.clear()

    def send() -> None:
        while not tier.held():
            time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGUSR1)

    main = threading.get_ident()
    thread = threading.Thread(target=send)
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        thread.start()
        assert_same(dataset[-1], world.samples[-1])
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert handled == [True]


def test_an_unavailable_origin_works_again_once_it_is_back(
    tier: Tier, node: Node, world: World
) -> None:
    dataset = node.open(world.index, root=tier.root)
    tier.fault("eio", "--path", "part0.h5")
    with pytest.raises(forebay.UnavailableError, match=r"bytes \[\d+, \d+\) of .*part0.h5"):
        dataset[0]
    assert_same(dataset[-1], world.samples[-1])
    assert node.status()["metrics"]["origin_errors"] > 0
    tier.clear()
    world.read_by(dataset)
    assert node.status()["direct_bytes"] == 0


def test_short_reads_of_the_origin_are_finished(tier: Tier, node: Node, world: World) -> None:
    tier.fault("short", "--probability", "0.5")
    world.read_by(node.open(world.index, root=tier.root))


def test_a_file_that_changes_under_the_daemon_is_stale(
    tier: Tier, node: Node, world: World
) -> None:
    dataset = node.open(world.index, root=tier.root)
    assert_same(dataset[-1], world.samples[-1])
    os.utime(world.root / "part0.h5", ns=(0, 0))
    time.sleep(1.1)  # the kernel keeps a tier's attributes for a second
    with pytest.raises(forebay.StaleError, match=r"part0.h5"):
        for number in range(4):
            dataset[number]
    assert_same(dataset[-1], world.samples[-1])
