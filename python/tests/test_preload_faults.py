"""What fails under the preload library costs time, and never a byte or the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from node import Node, eventually
from staged import Staged, library
from test_nodes import free_port
from tier import command

from forebay._command import find_command

FILES = 12
SIZE = 300_000

# Reads all files again and again, by every way, and says what it found after each round.
READER = """
import hashlib, mmap, os, sys
root = sys.argv[1]
names = sorted(os.listdir(root))
held = [os.open(root + '/' + name, os.O_RDONLY) for name in names]
for line in sys.stdin:
    found = hashlib.sha256()
    for name, file in zip(names, held):
        found.update(os.pread(file, 1 << 20, 0))
        with open(root + '/' + name, 'rb') as stream:
            found.update(stream.read())
            with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                found.update(mapped)
    print(found.hexdigest(), flush=True)
"""

# Maps some of them once and looks at these mappings again and again.
MAPPER = """
import hashlib, mmap, os, sys
mapped = []
for name in sorted(os.listdir(sys.argv[1]))[:2]:
    with open(sys.argv[1] + '/' + name, 'rb') as file:
        mapped.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
os.closerange(3, 1000)
for line in sys.stdin:
    print(hashlib.sha256(b''.join(mapped)).hexdigest(), flush=True)
"""


class Reader:
    """A program that runs on while things go wrong."""

    def __init__(self, staged: Staged, *, face: bool, code: str = READER) -> None:
        variables = {**os.environ, **staged.environment, "FOREBAY_CACHE": str(staged.node.cache)}
        if face:
            variables["LD_PRELOAD"] = str(library())
            variables["FOREBAY_ROOTS"] = f"{staged.root}={staged.index}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(staged.root)],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def end(self) -> None:
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0


def _fill(root: Path, seed: int = 0) -> None:
    root.mkdir(exist_ok=True)
    for number in range(FILES):
        (root / f"{number:02}").write_bytes(np.random.default_rng(seed + number).bytes(SIZE))


@pytest.fixture
def staged(tmp_path: Path, node: Node) -> Staged:
    _fill(tmp_path / "root")
    return Staged(tmp_path / "root", node, tmp_path / "files.forebay")


def wanted(staged: Staged) -> str:
    reader = Reader(staged, face=False)
    found = reader.read()
    reader.end()
    assert len(found) == 65
    return found


def test_a_daemon_that_is_killed_is_not_missed(staged: Staged) -> None:
    staged.take()
    right = wanted(staged)
    reader = Reader(staged, face=True)
    assert reader.read() == right
    staged.node.kill()
    assert reader.read() == right
    with staged.taken_away():
        assert reader.read() == right, "what is resident needs no daemon"
    cold = Reader(staged, face=True)
    assert cold.read() == right
    cold.end()
    assert command("serve", "--detach", "--cache", staged.node.cache).returncode == 0
    assert reader.read() == right, "and a new one may come"
    reader.end()


def test_without_a_daemon_or_an_index_the_origin_is_read(staged: Staged) -> None:
    right = wanted(staged)
    for _ in range(2):
        reader = Reader(staged, face=True)
        assert reader.read() == right
        reader.end()
        staged.take()
        staged.node.stop()
    assert staged.node.daemons() == [], "no program is given a child that it did not start"


def test_a_daemon_that_is_stopped_holds_nobody_up_for_long(staged: Staged) -> None:
    staged.take()
    right = wanted(staged)
    (pid,) = staged.node.daemons()
    os.kill(pid, signal.SIGSTOP)
    try:
        reader = Reader(staged, face=True)
        begun = time.monotonic()
        assert reader.read() == right
        assert time.monotonic() - begun < 60.0, "far less than the deadline of every read"
        reader.end()
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("policy", ["pin", "lru"])
def test_a_full_cache_serves_what_it_has(
    staged: Staged, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setenv("FOREBAY_CAPACITY", str(FILES * SIZE // 3))
    monkeypatch.setenv("FOREBAY_POLICY", policy)
    staged.take()
    right = wanted(staged)
    readers = [Reader(staged, face=True) for _ in range(2)]
    for _ in range(3):
        assert {reader.read() for reader in readers} == {right}
    for reader in readers:
        reader.end()


def test_what_is_mapped_outlives_evictions(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_CAPACITY", str(FILES * SIZE // 2))
    monkeypatch.setenv("FOREBAY_POLICY", "lru")
    staged.take()
    direct = Reader(staged, face=False, code=MAPPER)
    right = direct.read()
    direct.end()
    mapper = Reader(staged, face=True, code=MAPPER)
    assert mapper.read() == right
    others = Reader(staged, face=True)
    for _ in range(3):
        others.read()
    assert staged.node.status()["metrics"]["evicted_blocks"] > 0
    with staged.taken_away():
        assert mapper.read() == right
    for each in (mapper, others):
        each.end()


def test_what_changed_is_read_anew(staged: Staged) -> None:
    staged.take()
    old = wanted(staged)
    reader = Reader(staged, face=True)
    assert reader.read() == old
    _fill(staged.root, seed=100)
    new = wanted(staged)
    assert new != old
    assert reader.read() == new, "by descriptors that were open, too"
    other = Reader(staged, face=True)
    assert other.read() == new
    for path in staged.root.iterdir():
        # In place of the file: who has the old one open keeps it.
        path.with_suffix(".new").write_bytes(bytes(SIZE))
        path.with_suffix(".new").replace(path)
    fresh = Reader(staged, face=True)
    assert fresh.read() == wanted(staged) != new
    for each in (reader, other, fresh):
        each.end()


@pytest.fixture
def pair(
    tmp_path: Path, staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[psutil.Popen]]:
    """The staging node, and another, in one job."""
    staged.node = Node(tmp_path / "this")
    monkeypatch.setenv("FOREBAY_SECRET", "a secret of this test alone")
    members = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    caches = [staged.node.cache, tmp_path / "other"]
    daemons = []
    for cache, member in zip(caches, members, strict=True):
        words = [find_command(), "serve", "--cache", str(cache), "--listen", member]
        words += ["--members", ",".join(members), "--exports", str(tmp_path)]
        daemons.append(psutil.Popen([*words, "--peer-silence-ms", "500"]))
    for cache in caches:
        eventually("it listens", lambda cache=cache: (cache / "daemon.sock").exists())
    yield daemons
    for daemon in daemons:
        daemon.kill()
        daemon.wait()


@pytest.mark.parametrize("blocks", [4096, 65536])
def test_an_owner_that_is_gone_is_passed_over(
    staged: Staged, pair: list[psutil.Popen], blocks: int
) -> None:
    import forebay

    # Two indexes: their owners are drawn apart.
    forebay.index(staged.root, staged.index, files=True, block_size=blocks)
    right = wanted(staged)
    reader = Reader(staged, face=True)
    pair[1].send_signal(signal.SIGSTOP)
    pair[1].kill()
    assert reader.read() == right
    reader.end()


PRODUCE = """
import os, sys
import numpy as np
root = sys.argv[1]
os.makedirs(root + '/step')
np.save(root + '/step/1.npy', np.arange(400_000))
with open(root + '/step/2.txt', 'w') as file: file.write('words')
file = os.open(root + '/empty', os.O_CREAT | os.O_RDWR)
if os.fork() == 0: os.close(file), os._exit(0)
os.wait(), os.close(file)
"""
CONSUME = """
import os, sys
import numpy as np
root = sys.argv[1]
print(np.load(root + '/step/1.npy').sum(), np.load(root + '/step/1.npy', mmap_mode='r')[-1])
print(open(root + '/step/2.txt').read(), os.path.getsize(root + '/step/2.txt'))
os.close(os.open(root + '/empty', os.O_RDONLY))
print(sorted(os.listdir(root)), sorted(os.listdir(root + '/step')))
"""


def exchanging(code: str, folder: Path, variable: str, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        env={
            **os.environ,
            "LD_PRELOAD": str(library()),
            "FOREBAY_CACHE": str(cache),
            variable: str(folder),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("pair")
def test_files_are_published_at_close_and_consumed_at_open(staged: Staged, tmp_path: Path) -> None:
    produced, consumed = tmp_path / "produced", tmp_path / "consumed"
    consumer = exchanging(CONSUME, consumed, "FOREBAY_CONSUME", tmp_path / "other")
    producer = exchanging(PRODUCE, produced, "FOREBAY_PUBLISH", staged.node.cache)
    assert producer.communicate(timeout=120) == ("", "")
    out, err = consumer.communicate(timeout=120)
    total = 400_000 * 399_999 // 2
    assert out.splitlines() == [
        f"{total} 399999",
        "words 5",
        "['empty', 'step'] ['1.npy', '2.txt']",
    ], err


LOOK = """
import os, subprocess, sys, time
root = sys.argv[1]
assert not os.path.exists(root + '/nothing') and not os.access(root + '/nothing', os.R_OK)
while not os.path.exists(root + '/step/2.txt'): time.sleep(0.01)
print(os.stat(root + '/step/2.txt').st_size, os.path.isfile(root + '/step/1.npy'))
while not os.access(root + '/empty', os.R_OK): time.sleep(0.01)
print(os.lstat(root + '/empty').st_size, os.path.isdir(root + '/step'))
line = 'test -f $1/again && cat $1/again; ls $1/nothing || stat -c %s $1/more'
subprocess.run(['sh', '-c', line, 'sh', root], stderr=subprocess.DEVNULL)
"""
AGAIN = """
import ctypes, os, sys
root = sys.argv[1].encode()
libc = ctypes.CDLL(None)
for call in (libc.fopen, libc.freopen): call.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(root + b'/again', b'w'))
libc.fputs(b'first', stream)
# A stream that goes over to another file closes the one that it had.
stream = ctypes.c_void_p(libc.freopen(root + b'/more', b'w', stream))
libc.fputs(b'second', stream), libc.fclose(stream)
"""


@pytest.mark.usefixtures("pair")
def test_who_asks_for_a_file_gets_it_once_it_is_published(staged: Staged, tmp_path: Path) -> None:
    produced, consumed = tmp_path / "produced", tmp_path / "consumed"
    produced.mkdir()
    again = exchanging(AGAIN, produced, "FOREBAY_PUBLISH", staged.node.cache)
    assert again.communicate(timeout=120) == ("", "")
    consumer = exchanging(LOOK, consumed, "FOREBAY_CONSUME", tmp_path / "other")
    producer = exchanging(PRODUCE, produced, "FOREBAY_PUBLISH", staged.node.cache)
    assert producer.communicate(timeout=120) == ("", "")
    out, err = consumer.communicate(timeout=120)
    assert out.splitlines() == ["5 True", "0 True", "first6"], err


def test_a_consumer_of_nothing_fails_at_its_deadline(
    staged: Staged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_CONSUME_SECONDS", "0.2")
    staged.take()
    consumer = exchanging(CONSUME, tmp_path / "in", "FOREBAY_CONSUME", staged.node.cache)
    out, err = consumer.communicate(timeout=120)
    assert (out, "FileNotFoundError" in err) == ("", True)
