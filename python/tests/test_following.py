"""Members that come and go while daemons run, and names that an etcd keeps: real processes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import etcd
import numpy as np
import psutil
import pytest
from node import Node, eventually
from test_nodes import free_port
from tier import command

import forebay
from forebay._command import find_command

# Two such files do not fit into one region, so each has an owner of its own.
ROWS, ROW, USED, FILES = 3200, 64 * 1024, 4, 8


@dataclass
class Job:
    """Daemons of one job on this machine."""

    folder: Path
    flags: list[str]
    daemons: dict[str, psutil.Popen] = field(default_factory=dict)

    def node(self, name: str) -> Node:
        return Node(self.folder / name)

    def start(self, name: str, *more: str) -> Node:
        node = self.node(name)
        words = [find_command(), "serve", "--cache", str(node.cache), "--capacity", "1GiB"]
        words += ["--exports", str(self.folder), "--peer-silence-ms", "60000", "--hedged-reads"]
        self.daemons[name] = psutil.Popen([*words, "0", *self.flags, *more])
        eventually(f"{name} listens", lambda: (node.cache / "daemon.sock").exists())
        return node

    def end(self, name: str, *, kill: bool = False) -> None:
        daemon = self.daemons.pop(name)
        daemon.kill() if kill else daemon.terminate()
        daemon.wait(60)

    def see_each_other(self, *names: str) -> bool:
        """True if these nodes are the members, and all of them say so."""
        for name in names:
            try:
                members = self.node(name).status()["members"]
            except forebay.ForebayError:
                return False
            states = sorted(member["state"] for member in members)
            if states != ["this node"] + ["up"] * (len(names) - 1):
                return False
        return True


@contextmanager
def running(folder: Path, *flags: str) -> Iterator[Job]:
    job = Job(folder, list(flags))
    try:
        yield job
    finally:
        for name in list(job.daemons):
            job.end(name, kill=True)


def rows_of(folder: Path) -> Path:
    """An index of files that are holes for the most part."""
    origin = folder / "origin"
    origin.mkdir()
    for file in range(FILES):
        array = np.lib.format.open_memmap(
            origin / f"{file}.npy", mode="w+", dtype=np.uint8, shape=(ROWS, ROW)
        )
        array[:USED] = np.random.default_rng(file).integers(0, 256, (USED, ROW), dtype=np.uint8)
        array.flush()
    index = folder / "rows.forebay"
    forebay.index(origin, index, sample="rows")
    return index


def reads_all(node: Node, index: Path) -> None:
    dataset = node.open(index, start_daemon=False)
    for file in range(FILES):
        wanted = np.random.default_rng(file).integers(0, 256, (USED, ROW), dtype=np.uint8)
        for row in range(USED):
            assert np.array_equal(dataset[file * ROWS + row]["data"], wanted[row])


def come_and_go(job: Job, tmp_path: Path) -> None:
    index = rows_of(tmp_path)
    a = job.start("a")
    reads_all(a, index)
    b = job.start("b")
    eventually("two see each other", lambda: job.see_each_other("a", "b"))
    (tmp_path / "note").write_bytes(b"of a")
    forebay.publish("note", tmp_path / "note", cache=a.cache)
    job.start("c")
    eventually("three see each other", lambda: job.see_each_other("a", "b", "c"))
    # What the newcomer owns it reads itself; the rest it has from those who were there before.
    c = job.node("c")
    reads_all(c, index)
    metrics = c.status()["metrics"]
    most = -(-FILES * 13 // (3 * 12))
    assert 0 < metrics["origin_bytes"] <= (most + 1) * USED * ROW * 2
    assert metrics["peer_blocks"] > 0
    with forebay.consume("note", timeout=30, cache=c.cache) as found:
        assert found.read_at(0, 9) == b"of a"
    assert "note" in command("ls", "--published", "--cache", c.cache).stdout
    # One that dies is missed, one that leaves is gone; neither costs anybody anything.
    job.end("b", kill=True)
    eventually("two are left", lambda: job.see_each_other("a", "c"))
    reads_all(c, index)
    with forebay.consume("note", timeout=30, cache=c.cache) as found:
        assert found.read_at(0, 9) == b"of a"
    job.end("a")
    eventually("one is left", lambda: job.see_each_other("c"))
    reads_all(c, index)
    assert b.cache.exists()


def test_nodes_that_come_to_a_folder_and_leave_are_followed(tmp_path: Path) -> None:
    place = tmp_path / "meet"
    place.mkdir()
    with running(tmp_path, "--members", f"file:{place}", "--host", "127.0.0.1") as job:
        come_and_go(job, tmp_path)
        job.end("c")
    assert list(place.iterdir()) == [], "the last one clears up, whoever has died"


@etcd.needed
def test_nodes_that_come_to_an_etcd_and_leave_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_SECRET", "a secret of this test alone")
    with etcd.running(tmp_path / "etcd") as place:
        members = ("--members", f"etcd://{place.endpoint}/t", "--host", "127.0.0.1")
        with running(tmp_path, *members) as job:
            come_and_go(job, tmp_path)


@contextmanager
def named(tmp_path: Path, place: etcd.Etcd) -> Iterator[Job]:
    """Two nodes whose names are in an etcd."""
    ports = [free_port(), free_port()]
    members = [f"127.0.0.1:{port}" for port in ports]
    names = ("--names", f"etcd://{place.endpoint}/names")
    with running(tmp_path, "--members", ",".join(members), *names) as job:
        for name, member in zip("ab", members, strict=True):
            job.start(name, "--listen", member)
        eventually("they see each other", lambda: job.see_each_other("a", "b"))
        yield job


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_SECRET", "a secret of this test alone")


@etcd.needed
@pytest.mark.usefixtures("secret")
def test_names_in_an_etcd_are_published_found_replaced_and_withdrawn(tmp_path: Path) -> None:
    files = [tmp_path / "first", tmp_path / "second"]
    for file in files:
        file.write_text(f"bytes of {file.name}")
    with etcd.running(tmp_path / "etcd") as place, named(tmp_path, place) as job:
        a, b = (job.node(name).cache for name in "ab")
        assert job.node("a").status()["published"]["directory"]
        forebay.publish("step 1/x", files[0], cache=a)
        with forebay.consume("step 1/x", timeout=30, cache=b) as found:
            assert found.read_at(0, 99) == files[0].read_bytes()
            forebay.publish("step 1/x", files[1], cache=b)
            with pytest.raises(forebay.StaleError):
                found.read_at(0, 99)
        with forebay.consume("step 1/x", timeout=30, cache=a) as found:
            assert found.read_at(0, 99) == files[1].read_bytes()
        for number in range(3):
            forebay.publish(f"more/{number}", files[0], cache=a)
        said = command("ls", "--published", "--json", "--cache", a).stdout.splitlines()
        names = [json.loads(line)["name"] for line in said]
        assert names == ["more/0", "more/1", "more/2", "step 1/x"]
        # Of whichever node it is.
        forebay.unpublish("step 1/x", cache=a)
        forebay.unpublish("more/0", cache=a)
        for cache in (a, b):
            for name in ("step 1/x", "more/0"):
                with pytest.raises(forebay.DeadlineError):
                    forebay.consume(name, timeout=0, cache=cache)
        with pytest.raises(forebay.NotFoundError):
            forebay.unpublish("never was", cache=b)


@etcd.needed
@pytest.mark.usefixtures("secret")
def test_an_entry_that_is_no_file_stays_until_its_name_is_published(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"there")
    with etcd.running(tmp_path / "etcd") as place, named(tmp_path, place) as job:
        a, b = (job.node(name).cache for name in "ab")
        forebay.publish("known", tmp_path / "file", cache=a)
        held = place.keys()
        (known,) = (key for key in held if key.endswith(b"/known"))
        later = known.removesuffix(b"known") + b"later"
        place.put(later, b"of another version")
        with pytest.raises(forebay.DeadlineError):
            forebay.consume("later", timeout=0.2, cache=b)
        assert place.keys()[later] == b"of another version", "who only asks removes nothing"
        forebay.publish("later", tmp_path / "file", cache=a)
        with forebay.consume("later", timeout=30, cache=b) as found:
            assert found.read_at(0, 99) == b"there"


@etcd.needed
@pytest.mark.usefixtures("secret")
def test_who_waits_for_a_name_in_an_etcd_is_woken_or_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"awaited")
    with etcd.running(tmp_path / "etcd") as place, named(tmp_path, place) as job:
        a, b = (job.node(name).cache for name in "ab")
        with pytest.raises(forebay.DeadlineError, match="`nothing` was not published within"):
            forebay.consume("nothing", timeout=0.2, cache=b)
        came: list[bytes] = []

        def wait() -> None:
            with forebay.consume("late", timeout=60, cache=b) as found:
                came.append(found.read_at(0, 99))

        waits = threading.Thread(target=wait)
        waits.start()
        eventually("it waits", lambda: job.node("b").status()["published"]["waiting"] > 0)
        forebay.publish("late", tmp_path / "file", cache=a)
        waits.join(60)
        assert came == [b"awaited"]


@etcd.needed
@pytest.mark.usefixtures("secret")
def test_an_etcd_that_is_gone_is_told_and_taken_back(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"there")
    with etcd.running(tmp_path / "etcd") as place, named(tmp_path, place) as job:
        a, b = (job.node(name).cache for name in "ab")
        forebay.publish("kept", tmp_path / "file", cache=a)
        place.stop()
        with pytest.raises(forebay.UnavailableError, match="etcd"):
            forebay.publish("more", tmp_path / "file", cache=a)
        with pytest.raises(forebay.UnavailableError, match="etcd"):
            forebay.consume("kept", timeout=0.5, cache=b)
        with forebay.consume("kept", timeout=30, cache=a) as found:
            assert found.read_at(0, 9) == b"there", "a node's own files need no directory"
        place.start()
        with forebay.consume("kept", timeout=60, cache=b) as found:
            assert found.read_at(0, 9) == b"there"
        forebay.publish("more", tmp_path / "file", cache=a)
        # A node that leaves takes its names along, and brings them back.
        job.end("a")
        with pytest.raises(forebay.DeadlineError):
            forebay.consume("kept", timeout=0, cache=b)
        began = time.monotonic()
        listen = job.node("b").status()["members"]
        member = next(each["name"] for each in listen if each["state"] != "this node")
        job.start("a", "--listen", member)
        with forebay.consume("kept", timeout=60, cache=b) as found:
            assert found.read_at(0, 9) == b"there"
        assert time.monotonic() - began < 60.0


@etcd.needed
@pytest.mark.usefixtures("secret")
def test_an_etcd_that_says_nothing_holds_up_nobody_past_the_deadline(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"there")
    with etcd.running(tmp_path / "etcd") as place, named(tmp_path, place) as job:
        a, b = (job.node(name).cache for name in "ab")
        forebay.publish("kept", tmp_path / "file", cache=a)
        with place.silent():
            with pytest.raises(forebay.UnavailableError, match="etcd"):
                forebay.publish("more", tmp_path / "file", cache=a)
            with pytest.raises(forebay.UnavailableError, match="etcd"):
                forebay.consume("kept", timeout=0.5, cache=b)
            # The etcd is told in the background, once it hears.
            forebay.unpublish("kept", cache=a)
            with pytest.raises(forebay.UnavailableError, match="etcd"):
                forebay.consume("kept", timeout=0.5, cache=a)

        def has_heard() -> bool:
            held = place.keys()
            return not any(key.endswith(b"/kept") for key in held)

        eventually("the etcd has heard", has_heard)
        forebay.publish("more", tmp_path / "file", cache=a)
        with forebay.consume("more", timeout=30, cache=b) as found:
            assert found.read_at(0, 9) == b"there"


@etcd.needed
@pytest.mark.usefixtures("secret")
def test_wrong_places_for_names_are_refused_in_words(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    alone = command("serve", "--cache", cache, "--names", "etcd://127.0.0.1:1/x")
    assert (alone.returncode, "`names` needs `members`" in alone.stderr) == (2, True)
    members = ("--members", "127.0.0.1:7999", "--listen", "127.0.0.1:7999")
    wrong = command("serve", "--cache", cache, *members, "--names", "file:/x")
    assert (wrong.returncode, "`names` must be" in wrong.stderr) == (2, True)
    nobody = command("serve", "--cache", cache, *members, "--names", "etcd://127.0.0.1:1/x")
    assert (nobody.returncode, "cannot use etcd at `127.0.0.1:1`" in nobody.stderr) == (1, True)
