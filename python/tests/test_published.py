"""Files that are published by name and consumed, on a node alone and between nodes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from node import Node, eventually
from test_nodes import free_port, members_up

import forebay
from forebay._command import find_command


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    """Two nodes of one job."""
    monkeypatch.setenv("FOREBAY_SECRET", "a secret of this test alone")
    members = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    nodes, daemons = [], []
    for number, member in enumerate(members):
        nodes.append(Node(tmp_path / f"cache{number}"))
        words = [find_command(), "serve", "--cache", str(nodes[-1].cache), "--listen", member]
        daemons.append(psutil.Popen([*words, "--members", ",".join(members)]))
    for each in nodes:
        eventually("it listens", lambda each=each: (each.cache / "daemon.sock").exists())
        eventually("it is linked", lambda each=each: members_up(each) == 1)
    yield nodes
    for daemon in daemons:
        daemon.kill()
        daemon.wait()


def test_a_published_file_is_read_by_ranges_on_another_node(
    tmp_path: Path, pair: list[Node]
) -> None:
    path = tmp_path / "a.npy"
    array = np.arange(700_000, dtype="<f8")
    np.save(path, array)
    made = forebay.publish("arrays/1", path, cache=pair[0].cache)
    with forebay.consume("arrays/1", timeout=30, cache=pair[1].cache) as found:
        whole = path.read_bytes()
        assert (found.name, found.size, found.generation) == (
            "arrays/1",
            len(whole),
            made.generation,
        )
        assert found.node == made.node == pair[0].status()["plan"]["listen"]
        # Over the bound of one message.
        assert found.read_at(100, 3_000_000) == whole[100:3_000_100]
        assert found.read_at(len(whole) - 5, 100) == whole[-5:]
        assert found.read_at(len(whole), 5) == found.read_at(len(whole) + 7, 5) == b""
        out = bytearray(10)
        assert found.read_into(len(whole) - 3, out) == 3
        assert bytes(out[:3]) == whole[-3:]
    sent = pair[1].status()["published"]["read_bytes"]
    assert sent == 3_000_000 + 5 + 3, "only what was asked for"
    with forebay.consume("arrays/1", timeout=30, cache=pair[1].cache) as found:
        assert np.array_equal(np.load(io.BufferedReader(found)), array)


def test_a_published_file_is_a_binary_file(tmp_path: Path, node: Node) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(200)))
    forebay.publish("x", path, cache=node.cache)
    found = forebay.consume("x", cache=node.cache)
    assert isinstance(found, io.RawIOBase) and found.readable() and found.seekable()
    assert (len(found), bool(found), found.tell()) == (200, True, 0)
    assert found.read(3) == bytes([0, 1, 2]) and found.tell() == 3
    assert found.seek(-5, os.SEEK_END) == 195
    assert found.read() == bytes(range(195, 200)) and found.read() == b""
    assert found.seek(500) == 500 and found.read() == b""
    for wrong in (
        lambda: found.seek(-1),
        lambda: found.read_at(-1, 5),
        lambda: found.read_at(0, -5),
    ):
        with pytest.raises(ValueError):
            wrong()
    found.close()
    with pytest.raises(ValueError):
        found.read(1)


def test_an_empty_file_is_published_and_consumed(tmp_path: Path, pair: list[Node]) -> None:
    path = tmp_path / "empty"
    path.touch()
    forebay.publish("empty", path, cache=pair[1].cache)
    for each in pair:
        with forebay.consume("empty", timeout=30, cache=each.cache) as found:
            assert found.size == 0 and found.read() == b"" and found


def test_a_consumer_is_woken_or_ends_at_its_timeout(tmp_path: Path, pair: list[Node]) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"at last")
    came: list[bytes] = []
    waiting = threading.Thread(
        target=lambda: came.append(forebay.consume("late", 60, cache=pair[1].cache).read())
    )
    waiting.start()
    eventually("it waits", lambda: pair[1].status()["published"]["waiting"] > 0)
    forebay.publish("late", path, cache=pair[0].cache)
    waiting.join()
    assert came == [b"at last"]
    before = time.monotonic()
    with pytest.raises(forebay.DeadlineError, match="`never` was not published within"):
        forebay.consume("never", timeout=0.5, cache=pair[1].cache)
    assert time.monotonic() - before >= 0.5
    with pytest.raises(forebay.DeadlineError):
        forebay.consume("never", timeout=0, cache=pair[1].cache)


def test_names_are_replaced_listed_and_unpublished(tmp_path: Path, pair: list[Node]) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, each in zip(paths, pair, strict=True):
        path.write_text(f"of {path.name}")
        forebay.publish("x", path, cache=each.cache)
    forebay.publish("y", paths[0], cache=pair[0].cache)
    for each in pair:
        assert forebay.consume("x", 30, cache=each.cache).read() == b"of b"
        listed = forebay.published(cache=each.cache)
        assert [name.name for name in listed] == ["x", "y"]
    forebay.unpublish("x", cache=pair[0].cache)
    with pytest.raises(forebay.NotFoundError):
        forebay.unpublish("x", cache=pair[0].cache)
    assert [name.name for name in forebay.published(cache=pair[1].cache)] == ["y"]
    assert paths[1].read_text() == "of b", "the file is left alone"


def test_what_cannot_be_published_is_named(tmp_path: Path, node: Node) -> None:
    with pytest.raises(forebay.NotFoundError, match="none"):
        forebay.publish("x", tmp_path / "none", cache=node.cache)
    with pytest.raises(forebay.InvalidInputError, match="no regular file"):
        forebay.publish("x", tmp_path, cache=node.cache)
    for name in ("", "a\nb", "x" * 513):
        with pytest.raises(forebay.InvalidInputError):
            forebay.publish(name, __file__, cache=node.cache)


def test_a_published_file_that_changes_is_stale(tmp_path: Path, node: Node) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    forebay.publish("x", path, cache=node.cache)
    found = forebay.consume("x", cache=node.cache)
    assert found.read_at(0, 6) == b"before"
    path.write_bytes(b"after!")
    with pytest.raises(forebay.StaleError):
        found.read_at(0, 6)
    forebay.publish("x", path, cache=node.cache)
    assert forebay.consume("x", cache=node.cache).read() == b"after!"


def test_without_a_daemon_names_are_unavailable(tmp_path: Path) -> None:
    calls: list[Callable[[], object]] = [
        lambda: forebay.publish("x", __file__, cache=tmp_path / "c", start_daemon=False),
        lambda: forebay.consume("x", 1, cache=tmp_path / "c", start_daemon=False),
        lambda: forebay.published(cache=tmp_path / "c"),
    ]
    for call in calls:
        with pytest.raises(forebay.UnavailableError):
            call()


def test_ctrl_c_ends_a_wait_for_a_name(node: Node, tmp_path: Path) -> None:
    program = (
        "import forebay, sys\n"
        "try:\n"
        f"    forebay.consume('never', 600, cache={str(node.cache)!r})\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(7)\n"
    )
    forebay.publish("x", __file__, cache=node.cache)
    child = subprocess.Popen([sys.executable, "-c", program])
    eventually("it waits", lambda: node.status()["published"]["waiting"] > 0)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 7


def test_children_of_fork_read_what_their_parent_consumed(tmp_path: Path, pair: list[Node]) -> None:
    path = tmp_path / "a"
    path.write_bytes(os.urandom(100_000))
    forebay.publish("x", path, cache=pair[0].cache)
    found = forebay.consume("x", 30, cache=pair[1].cache)
    assert found.read_at(0, 10) == path.read_bytes()[:10]
    child = os.fork()
    if child == 0:
        same = found.read_at(5, 90_000) == path.read_bytes()[5:90_005]
        os._exit(0 if same else 1)
    assert found.read_at(7, 90_000) == path.read_bytes()[7:90_007]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_command_publishes_consumes_and_lists(tmp_path: Path, node: Node) -> None:
    def forebay_command(*words: str, code: int = 0) -> bytes:
        command = find_command()
        assert command
        where = ["--cache", str(node.cache)]
        done = subprocess.run([command, *words, *where], capture_output=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout

    path = tmp_path / "a"
    path.write_bytes(os.urandom(5_000_000))
    forebay_command("publish", "step 1", str(path))
    assert forebay_command("consume", "step 1") == path.read_bytes()
    out = tmp_path / "out"
    forebay_command("consume", "step 1", "--output", str(out))
    assert out.read_bytes() == path.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "cache", "out"]
    assert forebay_command("ls", "--published") == b"step 1\t5000000\there\n"
    (line,) = forebay_command("ls", "--published", "--json").splitlines()
    assert json.loads(line)["name"] == "step 1"
    forebay_command("unpublish", "step 1")
    forebay_command("consume", "step 1", "--timeout", "0.2", code=1)
    forebay_command("ls", "--published", "index", code=2)
    assert forebay_command("ls", "--published") == b""
