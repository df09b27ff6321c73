"""The same files by system calls, through a mount of Forebay and through its client: the same
records, so that what an interface costs is one comparison."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mounted import Mounted
from node import Node
from tier import command

FILES = 24
# Enough values a side for a verdict.
ITERATIONS = 5


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of files in folders, and a link."""
    rng = random.Random(3)
    root = tmp_path / "data"
    for n in range(FILES):
        path = root / f"part-{n % 3}" / f"{n:03}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(20_000 + 77 * n))
    (root / "latest").symlink_to("part-2/023.bin")
    return root


@pytest.fixture
def mount(tmp_path: Path, data: Path, node: Node) -> Iterator[Path]:
    made = Mounted.make(data, tmp_path / "mount", node.cache)
    yield made.root
    made.end()


class Runs:
    """Runs of benchmarks in a folder, by their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "work").mkdir()

    def run(self, name: str, *words: object, ranks: int = 1) -> list[dict[str, Any]]:
        """A run that must pass; the manifests of its ranks."""
        done = self.tried(name, *words, "--ranks", ranks)
        assert done.returncode == 0, done.stderr
        (of_run,) = self.out(name).iterdir()
        assert not list((self.folder / "work").iterdir())
        return [json.loads(path.read_text()) for path in sorted(of_run.glob("rank-*.json"))]

    def out(self, name: str) -> Path:
        """The folder of the runs of a name."""
        return self.folder / f"out-{name}"

    def tried(self, name: str, *words: object) -> Any:
        where = ["--dataset-path", self.folder / "work", "--output-dir", self.out(name)]
        return command("bench", "run", *words, "--iterations", ITERATIONS, *where)


@pytest.fixture
def runs(tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("FOREBAY_CACHE", str(node.cache))
    return Runs(tmp_path)


def judged(runs: Runs, base: str, candidate: str) -> dict[str, Any]:
    """What `compare` says of two interfaces: how they differ, and its operations by name."""
    folders = (runs.out(base), runs.out(candidate))
    refused = command("bench", "compare", *folders)
    assert refused.returncode == 2
    assert "`params.interface`" in refused.stderr
    done = command("bench", "compare", *folders, "--force", "--json")
    assert done.returncode in (0, 1), done.stderr
    (group,) = json.loads(done.stdout)["groups"]
    unlike = {one["field"] for one in group["unlike"]}
    assert "params.interface" in unlike
    return {op["op"]: op for op in group["ops"]}


def test_a_client_reads_the_same_files_with_the_same_records(data: Path, runs: Runs) -> None:
    read = ("md5_check", "--dataset", data, "--chunk-size", "4KiB", "--pattern", "random")
    (native,) = runs.run("native", *read)
    both = runs.run("client", *read, "--interface", "client", ranks=2)
    for one in both:
        assert sorted(one["timing"]) == sorted([*native["timing"], "barrier_wait"])
        assert one["verify"] == native["verify"]
        assert one["iterations"][-1]["io_bytes"] == native["iterations"][-1]["io_bytes"]
        assert one["fs"]["path"] == native["fs"]["path"] == str(data)
        told = one["cache"]["not_cold"][-1]
        assert "Forebay's cache" in told
        assert told.endswith("0 came from the origin"), told
    (alone,) = runs.run("alone", *read, "--interface", "client")
    # Nothing was left to be staged.
    assert " 0 were staged first" in alone["cache"]["not_cold"][-1]
    assert judged(runs, "native", "alone")["read"]["p"] is not None


def test_a_mount_reads_the_same_files_with_the_same_records(
    data: Path, mount: Path, runs: Runs
) -> None:
    read = ("md5_check", "--chunk-size", "4KiB", "--dataset")
    (native,) = runs.run("native", *read, data)
    (through,) = runs.run("mount", *read, mount, "--interface", "mount")
    assert sorted(through["timing"]) == sorted(native["timing"])
    assert through["verify"] == native["verify"]
    assert through["fs"]["source"] == "forebay"
    assert judged(runs, "native", "mount")["read"]["p"] is not None
    # The same words for a path that is on no mount.
    refused = runs.tried("refused", *read, data, "--interface", "mount")
    assert refused.returncode == 1
    assert "`--interface mount` is for files on a mount of Forebay" in refused.stderr


def test_a_folder_is_listed_through_each_interface(data: Path, mount: Path, runs: Runs) -> None:
    counts = []
    for interface, root in [
        ("native", data),
        ("mount", mount),
        ("client", data),
        ("fsspec", data),
    ]:
        words = ("list_files", "--dataset", root, "--interface", interface)
        (one,) = runs.run(interface, *words)
        timing = one["timing"]
        assert set(timing) >= {"readdir", "stat", "list_total"}, interface
        assert one["verify"]["bad"] == 0
        counts.append((timing["readdir"]["count"], timing["stat"]["count"]))
    # The root and three folders; in them these three, the files and the link.
    assert set(counts) == {(4 * ITERATIONS, (3 + FILES + 1) * ITERATIONS)}
    (made,) = runs.run("made", "list_files", "--num-copies", 30, "--interface", "client")
    assert made["timing"]["stat"]["count"] == 30 * ITERATIONS


def test_a_folder_is_packed_through_a_client(data: Path, runs: Runs) -> None:
    (native,) = runs.run("native", "run_tar", "--src", data)
    (client,) = runs.run("client", "run_tar", "--src", data, "--interface", "client")
    assert client["verify"] == native["verify"]
    assert client["verify"]["checked"] == (ITERATIONS + 1) * (3 + FILES + 1)
    assert sorted(client["timing"]) == sorted(native["timing"])


def test_what_a_client_cannot_do_is_refused_by_name(
    data: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = runs.tried("write", "create_files", "--interface", "client")
    assert refused.returncode == 2
    assert "`create_files` has no interface `client`" in refused.stderr
    bypass = ("md5_check", "--dataset", data, "--interface", "client", "--bypass-cache")
    refused = runs.tried("bypass", *bypass)
    assert refused.returncode == 1
    assert "`bypass_cache` must be `false`" in refused.stderr
    # A file stands where the daemon's folder should.
    (tmp_path / "file").touch()
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path / "file"))
    refused = runs.tried("no-daemon", "md5_check", "--dataset", data, "--interface", "client")
    assert refused.returncode == 1
    assert "`--interface client` needs a daemon for the cache folder" in refused.stderr
