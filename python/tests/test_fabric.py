"""`forebay fabric`: its loops on two ranks, and what they say when something is amiss."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from node import Node, eventually
from tier import command

import forebay
from forebay._command import find_command
from forebay.fabric import FabricError, data, tiers
from forebay.fabric.options import Options, parse, size
from forebay.fabric.place import Place, meeting, place

SAMPLES = 96


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tier") / "samples"
    data.make(folder, SAMPLES, seed=7)
    return folder


class Alone:
    """The one rank of a world that needs no collectives."""

    rank, size, is_first_here = 0, 1, True

    def barrier(self) -> None:
        pass

    def all_or_none(self, fault: str | None) -> None:
        if fault is not None:
            raise FabricError(fault)


def options(*words: object) -> Options:
    found = parse(["allreduce", "--samples-made", "64", *map(str, words)])
    assert isinstance(found, Options)
    return found


@contextmanager
def opened(where: object, *words: object) -> Iterator[tiers.Tier]:
    asked = options("--tier", f"tier={where}", *words)
    world: Any = Alone()
    with tiers.opened(asked.tiers[0], asked, world) as tier:
        yield tier


def run(*words: object, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    program = find_command()
    assert program is not None
    line = [program, "fabric", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, timeout=timeout, check=False)


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(command("fabric", "report", folder, "--json").stdout)
    return found


def test_all_reduces_are_measured_without_and_with_the_io_of_each_tier(
    samples: Path, node: Node, tmp_path: Path
) -> None:
    index = tmp_path / "samples.forebay"
    forebay.index(samples, index, sample="rows")
    out, page = tmp_path / "out", tmp_path / "page.html"
    words = ["--ranks", 2, "--backend", "gloo", "--out", out, "--cache", node.cache]
    words += ["--tier", "shm=shm", "--tier", f"folder={samples}", "--tier", f"staged={index}"]
    words += ["--iterations", 12, "--warm-up", 2, "--rounds", 2, "--window-ms", 1]
    words += ["--workers", 2, "--samples", 2, "--samples-made", 64, "--message", "4KB,64KB"]
    done = run("allreduce", *words, "--note", "a test")
    assert done.returncode == 0, done.stderr
    assert "staged" in done.stdout, done.stdout
    rows = report(out)["allreduce"]
    asked = [(tier, size) for tier in ("shm", "folder", "staged") for size in (4_000, 64_000)]
    assert [(row["tier"], row["message_bytes"]) for row in rows] == asked
    for row in rows:
        assert (row["ranks"], row["rounds"], row["incomplete"]) == (2, 2, 0)
        assert (row["baseline"]["n"], row["loaded"]["n"]) == (12, 12)
        # Of too few values nothing is said by the 99th percentile.
        assert row["p99"]["ratio"] is None and "100" in row["p99"]["refused"]
        assert row["waits"]["times"]["n"] == 24
        # Every cycle of every measured iteration on both ranks.
        assert row["read_bytes"] == 24 * 4 * data.SAMPLE_BYTES
    assert forebay.status(node.cache)["origin_bytes"] > 0
    assert not Path("/dev/shm", tiers.FOLDER).exists(), "what was made is gone"
    command("fabric", "report", out, "--output", page)
    assert "a test" in page.read_text()


def test_training_is_split_into_its_stages(samples: Path, tmp_path: Path) -> None:
    words = ["--ranks", 2, "--backend", "gloo", "--out", tmp_path, "--tier", f"folder={samples}"]
    words += ["--iterations", 12, "--warm-up", 2, "--rounds", 2, "--batch", 2, "--workers", 1]
    done = run("train", *words)
    assert done.returncode == 0, done.stderr
    rows = {row["path"]: row for row in report(tmp_path)["training"]}
    assert set(rows) == {"no I/O", "folder"}
    for row in rows.values():
        assert (row["ranks"], row["iterations"]) == (2, 12)
        names = [stage["stage"] for stage in row["stages"]]
        assert names == [
            "DataLoader wait", "H2D copy", "forward", "backward + all-reduce", "optimizer", "rest",
        ]  # fmt: skip
        assert sum(stage["share_of_excess"] for stage in row["stages"]) == pytest.approx(1)
    assert rows["folder"]["backward_median"]["baseline_n"] == 12


def test_a_rank_that_dies_ends_the_others_and_is_named(tmp_path: Path) -> None:
    program = find_command()
    assert program is not None
    words = ["--ranks", "2", "--backend", "gloo", "--out", str(tmp_path), "--tier", "shm=shm"]
    words += ["--samples-made", "64", "--iterations", "100000", "--workers", "1", "--samples", "1"]
    process = subprocess.Popen(
        [program, "fabric", "allreduce", *words, "--window-ms", "1"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually("both ranks measure", lambda: len(list(tmp_path.glob("*.jsonl"))) == 2)
        ranks = {
            each.environ().get("RANK"): each for each in psutil.Process(process.pid).children()
        }
        ranks["1"].kill()
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "rank 1 was ended by signal 9" in said or "a collective failed" in said, said
    assert not ranks["0"].is_running()
    shutil.rmtree(Path("/dev/shm", tiers.FOLDER), ignore_errors=True)


def test_a_stop_reaches_the_ranks(tmp_path: Path) -> None:
    # The launcher alone: what it starts is a program that waits for its end.
    waits = "import time, sys; time.sleep(1000)"
    script = (
        "import sys; from forebay.fabric import launch; import subprocess as s\n"
        "popen = s.Popen\n"
        f"s.Popen = lambda c, **k: popen([sys.executable, '-c', {waits!r}], **k)\n"
        "sys.exit(launch.start([], 2))"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    eventually("both run", lambda: len(psutil.Process(process.pid).children()) == 2)
    ranks = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert not any(each.is_running() for each in ranks)


def test_a_tier_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FabricError, match="there is no folder"), opened(tmp_path / "none"):
        pass
    with pytest.raises(FabricError, match=r"tier `tier`: .*none\.forebay"), opened("none.forebay"):
        pass
    with pytest.raises(FabricError, match="lost"), opened("http://127.0.0.1:1/x"):
        pass
    done = run("allreduce", "--ranks", 1, "--tier", f"a={tmp_path}/none", "--out", tmp_path / "o")
    assert done.returncode == 1 and f"there is no folder `{tmp_path}/none`" in done.stderr


@contextmanager
def tmpfs(folder: Path, *flags: str) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("to mount a file system needs root")
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", *flags, "tmpfs", folder], check=False)
    if made.returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_tier_is_named_and_left_as_it_was(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "full", "-o", "size=1M") as full:
        with pytest.raises(FabricError, match="No space left"), opened(full):
            pass
        assert list(full.iterdir()) == []


def test_a_read_only_tier_serves_the_samples_it_has(samples: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "frozen") as frozen:
        shutil.copytree(samples, frozen / tiers.FOLDER)
        subprocess.run(["mount", "-o", "remount,ro", frozen], check=True)
        with opened(frozen) as tier:
            assert len(tier.source) == SAMPLES
        assert (frozen / tiers.FOLDER).exists(), "what was there stays"
    refused = pytest.raises(FabricError, match="forebay fabric data")
    with tmpfs(tmp_path / "empty", "-o", "ro") as empty, refused, opened(empty):
        pass


def test_a_tier_that_is_lost_in_the_middle_is_an_error(tmp_path: Path) -> None:
    with opened(tmp_path) as tier:
        tier.source.read_batch([0])
        for file in (tmp_path / tiers.FOLDER).glob("*.npz"):
            os.truncate(file, 1000)
        with pytest.raises(FabricError, match="the tier was lost"):
            tier.source.read_batch([1])
    assert not (tmp_path / tiers.FOLDER).exists(), "what was made is gone"


def test_samples_read_alike_by_every_way_and_are_those_that_were_made(
    samples: Path, node: Node, tmp_path: Path
) -> None:
    index = tmp_path / "samples.forebay"
    forebay.index(samples, index, sample="rows")
    manifest = data.find(samples)
    assert manifest is not None
    ways = [data.FolderSource(samples, manifest), node.open(index)]
    for number in (0, 1, SAMPLES - 1):
        raw, edges = data.sample(number, seed=7)
        for way in ways:
            (found,) = way.read_batch([number])
            assert np.array_equal(found["raw"], raw) and np.array_equal(found["edges"], edges)
            assert sum(each.nbytes for each in found.values()) == data.SAMPLE_BYTES


def test_samples_appear_whole_or_not_at_all(samples: Path, tmp_path: Path) -> None:
    # The same again is nothing to do; another set, or other things, are not touched.
    assert data.make(samples, SAMPLES, seed=7).samples == SAMPLES
    with pytest.raises(FabricError, match="of seed 8"):
        data.make(samples, SAMPLES, seed=8)
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FabricError, match="other things"):
        data.make(tmp_path, 1, seed=7)
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"samples": 0},
        {"files": ["../../etc/passwd", "b"]},
        {"edges_offsets": []},
        {"raw_offset": "x"},
    ],
)
def test_a_manifest_of_something_else_is_refused(samples: Path, change: dict[str, Any]) -> None:
    found = json.loads((samples / data.MANIFEST).read_text())
    with pytest.raises(FabricError, match="where"):
        data.Manifest.parse(json.dumps(found | change), "where")


def test_ranks_find_their_place_in_what_launchers_say(tmp_path: Path) -> None:
    torchrun = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "9"}
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    assert place({}) is None
    assert place(torchrun) == Place(3, 4, 1, "torchrun")
    assert place(slurm) is None, "a shell in an allocation is no task"
    assert place(slurm | {"SLURM_STEP_ID": "0"}) == Place(0, 2, 0, "Slurm")
    assert place(mpi) == Place(1, 2, 0, "Open MPI")
    with pytest.raises(FabricError, match="must be a number"):
        place(torchrun | {"RANK": "x"})
    with pytest.raises(FabricError, match="rank 4 of 4"):
        place(torchrun | {"RANK": "4"})
    assert meeting({"MASTER_ADDR": "a", "MASTER_PORT": "1"}, None) == "env://"
    met = meeting(slurm | {"SLURM_STEP_ID": "0"}, tmp_path / "meet")
    assert met == f"file://{tmp_path}/meet/forebay-fabric-9-0"
    with pytest.raises(FabricError, match="--meet"):
        meeting({}, None)


@pytest.mark.parametrize(
    ("text", "found"), [("76KB", 76_000), ("64 KiB", 65_536), ("1.5MB", 1_500_000), ("12", 12)]
)
def test_sizes_have_units(text: str, found: int) -> None:
    assert size(text) == found


@pytest.mark.parametrize("text", ["", "KB", "1 parsec", "-1", "1e3"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        size(text)


@pytest.mark.parametrize(
    "words",
    [
        ["allreduce"],
        ["allreduce", "--tier", "noname"],
        ["allreduce", "--tier", "a=b", "--tier", "a=c"],
        ["allreduce", "--tier", "a=b", "--message", "1"],
        ["allreduce", "--tier", "a=b", "--iterations", "2", "--rounds", "3"],
        ["train", "--tier", "a=b", "--batch", "0"],
        ["train", "--tier", "a=b", "--dscp", "64"],
    ],
)
def test_wrong_usage_is_said_before_anything_is_done(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2 and "error" in capsys.readouterr().err
