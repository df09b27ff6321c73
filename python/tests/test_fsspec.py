"""The files of an index through fsspec: the same bytes, names and errors, whoever asks."""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import pickle
import threading
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from node import Node
from worlds import World

import forebay
from forebay.fsspec import ForebayFileSystem

CONTENTS = {
    "a.bin": bytes(range(256)) * 2000,
    "empty": b"",
    "sub/b.txt": b"one\ntwo\nthree\n" * 10_000,
    "sub/deep/c.bin": b"\xff" * 70_000,
    "sub/deep/d.bin": b"d",
}


@pytest.fixture
def files(tmp_path: Path) -> World:
    return World.of_files(tmp_path / "origin", CONTENTS)


@pytest.fixture
def fs(files: World, node: Node) -> ForebayFileSystem:
    return ForebayFileSystem(files.index, cache=node.cache, skip_instance_cache=True)


def test_it_is_found_by_its_protocol(files: World, node: Node) -> None:
    assert fsspec.get_filesystem_class("forebay") is ForebayFileSystem
    url = f"forebay://{files.index}/sub/b.txt"
    with fsspec.open(url, "rt", cache=node.cache) as file:
        assert file.readline() == "one\n"
    fs, path = fsspec.url_to_fs(url, cache=node.cache)
    assert (fs.index, path) == (str(files.index), "sub/b.txt")
    assert fs.unstrip_protocol(path) == url
    assert fs is fsspec.url_to_fs(url, cache=node.cache)[0], "one for the same arguments"


def test_names_are_those_of_a_local_file_system(files: World, fs: ForebayFileSystem) -> None:
    local = LocalFileSystem()
    root = str(files.root)

    def below(paths: Any) -> list[str]:
        return sorted(path.removeprefix(root).strip("/") for path in paths)

    for path in ("", "sub", "sub/deep", "a.bin"):
        here, there = f"{root}/{path}".rstrip("/"), path
        assert fs.ls(there, detail=False) == below(local.ls(here, detail=False)), path
        for options in ({}, {"maxdepth": 1}, {"withdirs": True}, {"maxdepth": 2, "withdirs": True}):
            found = [each for each in fs.find(there, **options) if each]
            wanted = [each for each in below(local.find(here, **options)) if each]
            assert found == wanted, (path, options)
        assert fs.du(there) == local.du(here)
    for pattern in ("*", "**", "sub/*", "**/*.bin", "sub/**/c.*", "*/deep", "x*"):
        # The folder itself has no name of its own here.
        wanted = [each for each in below(local.glob(f"{root}/{pattern}")) if each]
        assert sorted(each for each in fs.glob(pattern) if each) == wanted, pattern
    for path in ("a.bin", "sub", "sub/deep/d.bin", "missing", "a.bin/x"):
        for ask in ("exists", "isfile", "isdir"):
            assert getattr(fs, ask)(path) == getattr(local, ask)(f"{root}/{path}"), (path, ask)
    mine, its = fs.info("sub/b.txt"), local.info(f"{root}/sub/b.txt")
    assert {key: mine[key] for key in ("size", "type")} == {"size": 140_000, "type": "file"}
    assert mine["mtime"] == pytest.approx(its["mtime"])
    assert [folder for folder, _, _ in fs.walk("")] == ["", "sub", "sub/deep"]


def test_bytes_are_those_of_the_files(fs: ForebayFileSystem) -> None:
    for path, content in CONTENTS.items():
        assert fs.cat_file(path) == content
        for start, end in [(0, 10), (5, None), (-7, None), (10, -3), (60_000, 70_001), (9, 5)]:
            assert fs.cat_file(path, start, end) == content[start:end], (path, start, end)
        with fs.open(path) as file:
            assert file.size == len(content)
            assert file.read() == content
            for at in (0, 1, len(content) // 2, len(content)):
                assert file.seek(at) == file.tell() == at
                assert file.read(1000) == content[at : at + 1000]
            file.seek(-min(3, len(content)), 2)
            assert file.read() == content[-3:]
    assert fs.cat(["a.bin", "empty"]) == {"a.bin": CONTENTS["a.bin"], "empty": b""}
    assert fs.cat("sub", recursive=True) == {
        path: content for path, content in CONTENTS.items() if path.startswith("sub/")
    }
    assert fs.head("a.bin", 10) == CONTENTS["a.bin"][:10]
    with fs.open("sub/b.txt", "rt") as text:
        assert list(text)[:3] == ["one\n", "two\n", "three\n"]


def test_ranges_come_in_one_batch(fs: ForebayFileSystem, node: Node) -> None:
    paths = ["a.bin", "sub/deep/c.bin", "a.bin", "empty"]
    found = fs.cat_ranges(paths, [0, 5, -9, 0], [10, None, None, 4])
    a, c = CONTENTS["a.bin"], CONTENTS["sub/deep/c.bin"]
    assert found == [a[:10], c[5:], a[-9:], b""]
    assert fs.cat_ranges(["a.bin", "a.bin"], 3, 5) == [a[3:5]] * 2
    assert fs.cat_ranges(paths, 0, 4) == [a[:4], c[:4], a[:4], b""]
    # All of it is resident by now: no daemon is needed.
    node.stop()
    assert fs.cat_ranges(paths, 0, 4) == [a[:4], c[:4], a[:4], b""]
    assert not node.daemons()
    broken = fs.cat_ranges(["a.bin", "missing"], 0, 4)
    assert broken[0] == a[:4] and isinstance(broken[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["a.bin", "missing"], 0, 4, on_error="raise")
    with pytest.raises(ValueError, match="one length"):
        fs.cat_ranges(["a.bin"], [1, 2], [3, 4])


def test_files_are_copied_out(fs: ForebayFileSystem, tmp_path: Path) -> None:
    fs.get("sub", str(tmp_path / "copy"), recursive=True)
    for path, content in CONTENTS.items():
        if path.startswith("sub/"):
            assert (tmp_path / "copy" / path.removeprefix("sub/")).read_bytes() == content
    fs.get_file("a.bin", str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == CONTENTS["a.bin"]


def test_nothing_can_be_written_and_what_is_missing_is_named(fs: ForebayFileSystem) -> None:
    for write in (
        lambda: fs.open("new", "wb"),
        lambda: fs.pipe_file("new", b"x"),
        lambda: fs.rm("a.bin"),
        lambda: fs.mkdir("folder"),
        lambda: fs.mv("a.bin", "b.bin"),
        lambda: asyncio.run(fs._pipe_file("new", b"x")),
    ):
        with pytest.raises(OSError) as caught:
            write()
        assert caught.value.errno == errno.EROFS
    for ask in (fs.info, fs.ls, fs.open, fs.cat_file):
        with pytest.raises(FileNotFoundError, match="missing"):
            ask("missing")
    with pytest.raises(IsADirectoryError):
        fs.open("sub")
    with pytest.raises(forebay.InvalidInputError, match="FOREBAY_INDEX"):
        ForebayFileSystem()


def test_a_changed_file_is_stale(files: World, node: Node, fs: ForebayFileSystem) -> None:
    (files.root / "a.bin").write_bytes(b"other")
    with pytest.raises(forebay.StaleError, match=r"a\.bin"):
        fs.cat_file("a.bin")
    with pytest.raises(forebay.StaleError), fs.open("a.bin") as file:
        file.read()


def test_the_asynchronous_twin_reads_the_same(files: World, node: Node) -> None:
    async def read() -> list[Any]:
        fs = ForebayFileSystem(files.index, cache=node.cache, asynchronous=True)
        many = [fs._cat_file(path) for path in CONTENTS]
        return [
            await asyncio.gather(*many),
            await fs._cat_ranges(["a.bin", "empty"], [1, 0], [3, 1]),
            (await fs._info("a.bin"))["size"],
            await fs._ls("sub", detail=False),
            await fs._find("sub/deep"),
            await fs._glob("**/*.bin"),
            await fs._exists("missing"),
            await fs._cat(["a.bin"]),
        ]

    found = asyncio.run(read())
    a = CONTENTS["a.bin"]
    assert found == [
        list(CONTENTS.values()),
        [a[1:3], b""],
        len(a),
        ["sub/b.txt", "sub/deep"],
        ["sub/deep/c.bin", "sub/deep/d.bin"],
        ["a.bin", "sub/deep/c.bin", "sub/deep/d.bin"],
        False,
        {"a.bin": a},
    ]


def _read(file: Any, fs: ForebayFileSystem, results: Any) -> None:
    results.put((file.read(10), fs.cat_file("sub/deep/d.bin")))


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_it_pickles_and_works_in_children(fs: ForebayFileSystem, start: str) -> None:
    copy = pickle.loads(pickle.dumps(fs))
    assert copy.cat_file("a.bin") == CONTENTS["a.bin"]
    with fs.open("a.bin") as file:
        file.seek(100)
        context = multiprocessing.get_context(start)
        results = context.Queue()
        child = context.Process(target=_read, args=(file, fs, results))
        child.start()
        assert results.get(timeout=60) == (CONTENTS["a.bin"][100:110], b"d")
        child.join()
        assert file.read(10) == CONTENTS["a.bin"][100:110]


def test_eight_threads_read_the_same(fs: ForebayFileSystem) -> None:
    wrong: list[str] = []

    def read() -> None:
        for _ in range(5):
            for path, content in CONTENTS.items():
                with fs.open(path) as file:
                    if file.read() != content or fs.cat_file(path) != content:
                        wrong.append(path)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_the_daemon_bytes_come_from_the_origin(files: World, node: Node) -> None:
    fs = ForebayFileSystem(files.index, cache=node.cache, start_daemon=False)
    assert fs.cat("**/*.bin") == {
        path: content for path, content in CONTENTS.items() if path.endswith(".bin")
    }
    assert not node.daemons()


def test_a_daemon_that_dies_costs_a_reader_nothing(
    files: World, node: Node, fs: ForebayFileSystem
) -> None:
    with fs.open("a.bin") as file:
        assert file.read(1000) == CONTENTS["a.bin"][:1000]
        node.kill()
        assert file.read() == CONTENTS["a.bin"][1000:]
    assert fs.cat("**/*.bin").keys() == {path for path in CONTENTS if path.endswith(".bin")}


@pytest.mark.parametrize("policy", ["pin", "lru"])
def test_a_full_cache_costs_a_reader_nothing(files: World, node: Node, policy: str) -> None:
    fs = ForebayFileSystem(files.index, cache=node.cache, capacity="128KiB", policy=policy)
    for _ in range(2):
        for path, content in CONTENTS.items():
            assert fs.cat_file(path) == content


@pytest.mark.parametrize("hidden", [True, False])
def test_hidden_files_are_there_if_they_were_asked_for(
    node: Node, tmp_path: Path, hidden: bool
) -> None:
    root, index = tmp_path / "hidden", tmp_path / "hidden.forebay"
    (root / ".folder").mkdir(parents=True)
    (root / ".folder/file").write_bytes(b"f")
    (root / ".zarray").write_bytes(b"{}")
    (root / "seen").write_bytes(b"s")
    forebay.index(root, index, files=True, hidden=hidden)
    fs = ForebayFileSystem(index, cache=node.cache)
    assert fs.find("") == ([".folder/file", ".zarray", "seen"] if hidden else ["seen"])
    assert not hidden or fs.cat_file(".folder/file") == b"f"
