"""Data sets in stores of objects: indexed where they lie, trained from through the daemon."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from mounted import Mounted
from node import Node, eventually
from stores import S3, Authority, s3_server, web_server
from worlds import World, assert_same

import forebay
from forebay._command import find_command
from forebay.fsspec import ForebayFileSystem


def run(*words: str | Path) -> subprocess.CompletedProcess[bytes]:
    command = find_command()
    assert command is not None
    return subprocess.run([command, *map(str, words)], capture_output=True, check=False)


def succeed(*words: str | Path) -> bytes:
    done = run(*words)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """A bucket, and an environment that leads to it with a signature."""
    with s3_server() as s3:
        for name in list(os.environ):
            if name.startswith("AWS_"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield s3


def in_bucket(s3: S3, world: World, output: Path) -> Path:
    s3.put_folder(world.root, "train")
    forebay.index(f"s3://{s3.bucket}/train", output)
    return output


def test_hdf5_in_a_bucket_reads_as_h5py_reads_it(
    s3: S3, node: Node, world: World, tmp_path: Path
) -> None:
    index = in_bucket(s3, world, tmp_path / "s3.forebay")
    dataset = node.open(index)
    assert dataset.root == "s3://bucket/train"
    world.read_by(dataset)
    for wanted, found in zip(world.samples, dataset.read_batch(range(len(dataset))), strict=True):
        assert_same(found, wanted)
    status = node.status()
    assert status["direct_bytes"] == 0
    assert status["metrics"]["origin_bytes"] > 0
    # The index that was made of the files themselves has the same samples.
    local = forebay.open(world.index, cache=tmp_path / "other", start_daemon=False)
    assert [dataset.key(n) for n in range(len(dataset))] == [
        local.key(n) for n in range(len(local))
    ]


def test_a_bucket_is_a_file_system(s3: S3, node: Node, world: World, tmp_path: Path) -> None:
    s3.put_folder(world.root, "train")
    index = tmp_path / "files.forebay"
    forebay.index(f"s3://{s3.bucket}/train", index, files=True)
    fs = ForebayFileSystem(index, cache=node.cache, skip_instance_cache=True)
    wanted = {path.name: path.read_bytes() for path in sorted(world.root.iterdir())}
    assert fs.cat(fs.ls("", detail=False)) == wanted
    mounted = Mounted.make(index, tmp_path / "mount", node.cache)
    assert {path.name: path.read_bytes() for path in sorted(mounted.root.iterdir())} == wanted
    assert mounted.end()["failed_reads"] == 0


def test_the_command_reads_a_bucket(s3: S3, world: World, tmp_path: Path) -> None:
    index = in_bucket(s3, world, tmp_path / "s3.forebay")
    succeed("verify", "--data", index)
    assert b"s001" in succeed("ls", index)
    wanted = world.samples[1]["contiguous"].tobytes()
    assert succeed("cat", index, "1", "--field", "contiguous") == wanted
    succeed("flatten", index, "--output", tmp_path / "flat")
    flat = forebay.open(tmp_path / "flat" / "index.forebay", cache=tmp_path / "c")
    try:
        world.read_by(flat)
    finally:
        forebay.stop(tmp_path / "c")


def test_an_index_of_a_bucket_grows_and_is_merged(s3: S3, node: Node, tmp_path: Path) -> None:
    for number in range(2):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            file.create_group(f"s{number}")["x"] = np.arange(9) + number
        s3.put(f"grown/{number}/{path.name}", path.read_bytes())
    parts = [tmp_path / f"part{number}.forebay" for number in range(2)]
    for number, part in enumerate(parts):
        succeed("index", f"s3://{s3.bucket}/grown/{number}", "--output", part)
    merged = tmp_path / "merged.forebay"
    succeed("index", "merge", *parts, "--output", merged)
    succeed("index", f"s3://{s3.bucket}/grown", "--append", parts[0])
    for index in (merged, parts[0]):
        dataset = node.open(index)
        assert dataset.root == "s3://bucket/grown"
        assert [dataset.key(number) for number in range(2)] == ["s0", "s1"]
        for number in range(2):
            assert_same(dataset[number], {"x": np.arange(9) + number})
        succeed("verify", "--data", index)


def test_a_link_out_of_an_object_is_refused_by_name(s3: S3, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_group("s")["x"] = h5py.ExternalLink("other.h5", "/x")
    s3.put("links/a.h5", path.read_bytes())
    words = ["index", f"s3://{s3.bucket}/links", "--sample", "s*"]
    done = run(*words, "--output", tmp_path / "x.forebay")
    said = done.stderr.decode()
    assert done.returncode == 1, said
    for part in ("links/a.h5", "`s/x`", "a link out of an object of a store", "--fields"):
        assert part in said, said


def test_a_changed_object_is_stale_and_never_mixed(s3: S3, node: Node, tmp_path: Path) -> None:
    old, new = bytes(3_000_000), bytes([1]) * 3_000_000
    s3.put("x/a.bin", old)
    s3.put("x/b.bin", old)
    index = tmp_path / "x.forebay"
    forebay.index(f"s3://{s3.bucket}/x", index)
    dataset = node.open(index)
    assert dataset[0]["data"].tobytes() == old
    s3.put("x/b.bin", new)
    with pytest.raises(forebay.StaleError, match=r"s3://bucket/x/b\.bin"):
        dataset[1]
    # What is resident is of the version that was indexed.
    assert dataset[0]["data"].tobytes() == old
    done = run("verify", index)
    assert done.returncode == 1
    assert b"s3://bucket/x/b.bin" in done.stdout
    assert b"x/a.bin" not in done.stdout


def test_public_objects_need_no_credentials_and_private_ones_do(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put("public/a.bin", b"everybody's", public=True)
    s3.put("private/a.bin", b"nobody's")
    index = tmp_path / "x.forebay"
    forebay.index(f"s3://{s3.bucket}/private", index)
    assert succeed("cat", index, "a.bin") == b"nobody's"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    forebay.index(f"s3://{s3.bucket}/public", tmp_path / "public.forebay")
    assert succeed("cat", tmp_path / "public.forebay", "a.bin") == b"everybody's"
    done = run("cat", index, "a.bin")
    assert done.returncode == 1
    assert b"access denied" in done.stderr and b"AWS_ACCESS_KEY_ID" in done.stderr


def test_a_killed_daemon_comes_back_for_what_it_alone_can_read(
    s3: S3, node: Node, world: World, tmp_path: Path
) -> None:
    index = in_bucket(s3, world, tmp_path / "s3.forebay")
    dataset = node.open(index)
    assert_same(dataset[0], world.samples[0])
    node.kill()
    world.read_by(dataset)
    assert len(node.daemons()) == 1
    assert node.status()["direct_bytes"] == 0


def test_without_a_daemon_a_store_says_who_reads_it(
    s3: S3, node: Node, world: World, tmp_path: Path
) -> None:
    index = in_bucket(s3, world, tmp_path / "s3.forebay")
    with pytest.raises(forebay.UnavailableError, match="forebay serve"):
        node.open(index, start_daemon=False)


def test_a_batch_larger_than_the_cache_is_read_through_it(
    s3: S3, node: Node, tmp_path: Path
) -> None:
    bodies = [bytes([number]) * 3_000_000 for number in range(8)]
    for number, body in enumerate(bodies):
        s3.put(f"x/{number}.bin", body)
    forebay.index(f"s3://{s3.bucket}/x", tmp_path / "x.forebay")
    dataset = node.open(tmp_path / "x.forebay", capacity="10MiB")
    for found, body in zip(dataset.read_batch(range(8)), bodies, strict=True):
        assert found["data"].tobytes() == body


def test_datasets_in_a_store_travel_to_workers(
    s3: S3, node: Node, world: World, tmp_path: Path
) -> None:
    index = in_bucket(s3, world, tmp_path / "s3.forebay")
    again = pickle.loads(pickle.dumps(node.open(index)))
    assert again.root == "s3://bucket/train"
    world.read_by(again)


def test_files_of_a_web_server_are_named_one_by_one_or_in_a_list(
    node: Node, world: World, tmp_path: Path
) -> None:
    with web_server(world.root) as web:
        urls = [f"{web.url}/{path.name}" for path in sorted(world.root.glob("*.h5"))]
        list_file = tmp_path / "list.txt"
        list_file.write_text("\n".join(urls) + "\n")
        succeed("index", "--list", list_file, "--output", tmp_path / "list.forebay")
        summary = forebay.index(urls, tmp_path / "web.forebay")
        assert summary["samples"] == len(world.samples)
        dataset = node.open(tmp_path / "web.forebay")
        listed = node.open(tmp_path / "list.forebay")
        assert listed.generation == dataset.generation
        world.read_by(dataset)
        (world.root / "part0.h5").write_bytes(b"another file")
        node.stop()
        (tmp_path / "cache2").mkdir()
        fresh = forebay.open(tmp_path / "web.forebay", cache=tmp_path / "cache2")
        try:
            with pytest.raises(forebay.StaleError, match=r"part0\.h5"):
                fresh[0]
        finally:
            forebay.stop(tmp_path / "cache2")


def test_a_server_behind_tls_is_read_where_its_authority_is_named(
    node: Node, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.make(tmp_path)
    with web_server(world.root, tls=authority.server) as web:
        urls = [f"{web.url}/{path.name}" for path in sorted(world.root.glob("*.h5"))]
        done = run("index", *urls, "--output", tmp_path / "x.forebay")
        said = done.stderr.decode()
        assert done.returncode == 1 and "`SSL_CERT_FILE`" in said, said
        # Nothing was asked of a server that nobody vouches for.
        assert web.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        forebay.index(urls, tmp_path / "web.forebay")
        world.read_by(node.open(tmp_path / "web.forebay"))
        assert node.status()["metrics"]["origin_bytes"] > 0
        other = Node(tmp_path / "other")
        line = [find_command(), "serve", "--cache", other.cache, "--dscp", "10"]
        with subprocess.Popen([str(word) for word in line]) as daemon:
            try:
                eventually("the daemon serves", (other.cache / "daemon.sock").exists)
                world.read_by(other.open(tmp_path / "web.forebay", start_daemon=False))
                assert other.status()["metrics"]["origin_bytes"] > 0
            finally:
                daemon.terminate()


def test_a_web_server_that_knows_no_ranges_is_refused_when_indexing(
    world: World, tmp_path: Path
) -> None:
    with (
        web_server(world.root, ranges=False) as web,
        pytest.raises(forebay.ForebayError, match="ignores ranges"),
    ):
        forebay.index(f"{web.url}/part0.h5", tmp_path / "x.forebay")


def test_a_large_file_is_indexed_without_being_downloaded(tmp_path: Path) -> None:
    root = tmp_path / "origin"
    root.mkdir()
    with h5py.File(root / "big.h5", "w") as file:
        for number in range(20):
            file.create_group(f"s{number}")["x"] = np.zeros(250_000, "<f4")
    size = (root / "big.h5").stat().st_size
    with web_server(root, tags=False) as web:
        summary = forebay.index(f"{web.url}/big.h5", tmp_path / "x.forebay")
        assert summary["samples"] == 20
        assert web.sent < size / 2, web.requests
