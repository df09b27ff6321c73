"""The whole demonstration in small: it ends well, and it leaves no mount when it is stopped."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo import emulated, records
from demo.command import CommandError, forebay
from demo.run import parse

TREE = Path(__file__).parents[2]


def _is_built() -> bool:
    try:
        forebay()
    except CommandError:
        return False
    return importlib.util.find_spec("forebay") is not None and os.access("/dev/fuse", os.W_OK)


needs_build = pytest.mark.skipif(not _is_built(), reason="needs `make build` and /dev/fuse")


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """Output folder of a run; nothing stays mounted in it, whatever happens."""
    folder = tmp_path / "out"
    yield folder
    emulated.unmount(folder / "mnt")


Starter = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(out: Path) -> Iterator[Starter]:
    """Starts a quick run of 48 samples in `out`, which is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "demo", "--quick", "--samples", "48", "--workers", "2"]
        command += ["--out", str(out), *more]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=TREE, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        # Asked first, so that it takes its own children along.
        process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@needs_build
def test_a_quick_run_trains_on_both_paths_and_reports(out: Path, start: Starter) -> None:
    process = start()
    try:
        printed, said = process.communicate(timeout=270)
    except subprocess.TimeoutExpired:
        process.terminate()
        pytest.fail(f"not done after 270 s: {process.communicate(timeout=20)}")
    content = json.loads((out / "summary.json").read_text())
    assert content["identical"] is True, said
    assert content["samples"] == 48
    rows = [(row["path"], row["epoch"], row["iterations"]) for row in content["epochs"]]
    assert rows == [(path, epoch, 3) for path in ("direct", "forebay") for epoch in (1, 2)]
    assert content["speedup"].keys() == {"epoch1", "epoch2"}
    # Every block comes from the origin once, for two epochs that ask for it twice.
    assert 0 < content["origin_bytes_over_asked"] < 1
    assert "epoch 2: forebay is" in printed and "identical: True" in printed
    assert len(list(records.read(out / "records.jsonl"))) == 4 * 3 + 4
    assert "<html" in (out / "report.html").read_text()
    assert not emulated.is_mounted(out / "mnt") and not (out / "cache").exists()


def wait_for_first_epoch(process: subprocess.Popen[str], file: Path) -> None:
    """Wait until a run has recorded more than its manifest, for 200 s at most."""
    deadline = time.monotonic() + 200
    while not file.exists() or file.read_bytes().count(b"\n") < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs_build
@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_leaves_no_mount(
    out: Path, start: Starter, number: signal.Signals, status: int
) -> None:
    process = start("--epochs", "1000")
    wait_for_first_epoch(process, out / "records.jsonl")
    assert emulated.is_mounted(out / "mnt")
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == status
    assert not emulated.is_mounted(out / "mnt")
    assert not (out / "summary.json").exists()


@pytest.mark.parametrize(
    "words", [["--samples", "0"], ["--workers", "-1"], ["--scale", "-1"], ["--sampels", "9"]]
)
def test_wrong_usage_is_refused_by_name(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(words)
    assert stopped.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_quick_sets_only_what_was_not_given() -> None:
    assert parse(["--quick"]).samples < parse([]).samples
    assert parse(["--quick", "--samples", "500"]).samples == 500
