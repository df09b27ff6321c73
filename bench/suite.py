"""The storage suite's own cost: its benchmarks against the same work done with nothing around it.

The files lie in memory: that is where the suite's own cost shows most, and a disk's file system
makes a file the slower, the more files it has lately seen deleted, whoever deleted them.

Every time is that of the timed part alone, as each side takes it. A round has one process of each
side, and each does its work twice: the second counts.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np

from bench.rounds import centre, no_collection
from bench.row import Row, skipped
from bench.setting import Setting
from forebay._command import find_command

_MEMORY = Path("/dev/shm")
# More than any row writes: a container's memory for files is small, unless somebody said otherwise.
_ROOM = 2 << 30
_SOURCE = Path(__file__).with_name("suite_loop.c")
_FILE_BYTES = 4096
_MD5_BYTES = 256 << 10


class Suite:
    """The command, on a file system in memory where there is one with room."""

    def __init__(self, setting: Setting) -> None:
        command = find_command()
        if command is None:
            raise FileNotFoundError("the `forebay` command is not installed")
        self._command = command
        self._temporary = tempfile.TemporaryDirectory(
            dir=_MEMORY if _has_room(_MEMORY) else setting.folder
        )
        self.folder = Path(self._temporary.name)

    def __enter__(self) -> Suite:
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()

    def new(self) -> Path:
        """A new folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def wall_ns(self, *words: str) -> int:
        """Time of the one measured iteration of a benchmark."""
        run = self.run(*words)
        return int(run["summary"]["last_done_ns"][0])

    def run(self, *words: str) -> dict[str, Any]:
        """One run with one measured iteration."""
        out = self.new()
        common = ["--dataset-path", str(self.folder), "--output-dir", str(out)]
        done = subprocess.run(
            [self._command, "bench", "run", *words, *common, "--iterations", "1", "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        found = json.loads(done.stdout)
        if found["status"] != "pass":
            raise RuntimeError(f"`bench run {' '.join(words)}` failed: {found}")
        shutil.rmtree(out)
        run: dict[str, Any] = found["runs"][0]
        return run


def _has_room(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > _ROOM


def _with_suite(measure: Callable[[Setting, Suite], list[Row]]) -> Callable[[Setting], list[Row]]:
    """The rows of `measure`, whose files are gone when they are known."""

    @functools.wraps(measure)
    def measured(setting: Setting) -> list[Row]:
        with Suite(setting) as suite:
            return measure(setting, suite)

    return measured


@_with_suite
def measure_create(setting: Setting, suite: Suite) -> list[Row]:
    """The row `suite_create`."""
    return _against_c(setting, suite, "create")


@_with_suite
def measure_list(setting: Setting, suite: Suite) -> list[Row]:
    """The row `suite_list`."""
    return _against_c(setting, suite, "list")


@_with_suite
def measure_delete(setting: Setting, suite: Suite) -> list[Row]:
    """The row `suite_delete`."""
    return _against_c(setting, suite, "delete")


def _rounds(
    rounds: int, subject: Callable[[], int], baseline: Callable[[], int]
) -> tuple[Any, dict[str, Any]]:
    """Nanoseconds of each side, by round; the first to go alternates."""
    times = np.zeros((rounds, 2))
    with no_collection():
        for number in range(rounds):
            order = [(0, subject), (1, baseline)]
            for side, work in order if number % 2 else reversed(order):
                times[number, side] = work()
    conditions = {
        "subject_ms": round(float(np.median(times[:, 0])) / 1e6, 2),
        "baseline_ms": round(float(np.median(times[:, 1])) / 1e6, 2),
        "load_average": round(os.getloadavg()[0], 1),
        "cpus": os.cpu_count(),
    }
    return times, conditions


def _row(name: str, ratios: Any, target: float, baseline: str, conditions: dict[str, Any]) -> Row:
    ratio, spread = centre(ratios)
    better = "higher" if name.startswith("suite_python_") else "lower"
    return Row(name, ratio, target, len(ratios), baseline, spread, better, conditions=conditions)  # type: ignore[arg-type]


def _against_c(setting: Setting, suite: Suite, name: str) -> list[Row]:
    compiler = shutil.which("cc")
    if compiler is None:
        return [skipped(f"suite_{name}", "no C compiler, `cc`, is installed")]
    loop = suite.folder / "loop"
    subprocess.run([compiler, "-O2", "-o", loop, _SOURCE], check=True)
    files = setting.size(20_000, 200)

    def ours() -> int:
        return suite.wall_ns(f"{name}_files", "--num-copies", str(files))

    def theirs() -> int:
        folder = suite.new()
        words = [str(loop), name, str(folder), str(files), str(_FILE_BYTES)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        folder.rmdir() if name == "delete" else shutil.rmtree(folder)
        return int(done.stdout.split()[1])

    times, conditions = _rounds(setting.size(15, 2), ours, theirs)
    conditions |= {"files": files, "file_bytes": _FILE_BYTES, "page_cache": "warm"}
    words = "the same system calls from a loop in C"
    return [_row(f"suite_{name}", times[:, 0] / times[:, 1], 1.05, words, conditions)]


@_with_suite
def measure_python(setting: Setting, suite: Suite) -> list[Row]:
    """The rows `suite_python_list` and `suite_python_fsspec`."""
    files = setting.size(5_000, 200)
    folder = suite.new()
    for number in range(files):
        (folder / f"file_{number}.dat").write_bytes(bytes(_FILE_BYTES))
    local = fsspec.filesystem("file", skip_instance_cache=True)

    def ours() -> int:
        return suite.wall_ns("list_files", "--num-copies", str(files))

    def bare() -> int:
        began = time.perf_counter_ns()
        for name in os.listdir(folder):
            os.stat(os.path.join(folder, name))
        return time.perf_counter_ns() - began

    def by_fsspec() -> int:
        began = time.perf_counter_ns()
        for name in local.ls(str(folder), detail=False):
            local.info(name)
        return time.perf_counter_ns() - began

    rows = []
    for name, baseline, words in (
        ("list", bare, "os.listdir and os.stat in Python"),
        ("fsspec", by_fsspec, "fsspec's ls and info of a local file system"),
    ):
        baseline()
        times, conditions = _rounds(setting.size(15, 2), ours, baseline)
        conditions |= {"files": files, "page_cache": "warm"}
        rows.append(_row(f"suite_python_{name}", times[:, 1] / times[:, 0], 1.0, words, conditions))
    return rows


@_with_suite
def measure_md5(setting: Setting, suite: Suite) -> list[Row]:
    """The row `suite_md5`."""
    files = setting.size(2_000, 20)
    made = suite.run(
        *("create_dataset", "--sizes", str(_MD5_BYTES), "--copies-per-size", str(files)),
        *("--warmup", "0", "--keep-data"),
    )
    dataset = Path(made["work_dir"], "shared", "dataset-00000")
    paths = sorted(dataset.glob("*.dat"))

    def ours() -> int:
        return suite.wall_ns("md5_check", "--dataset", str(dataset), "--chunk-size", "32KiB")

    def theirs() -> int:
        began = time.perf_counter_ns()
        subprocess.run(["md5sum", *paths], stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter_ns() - began

    theirs()
    times, conditions = _rounds(setting.size(9, 2), ours, theirs)
    conditions |= {"files": files, "file_bytes": _MD5_BYTES, "page_cache": "warm"}
    words = "md5sum of the same files, its start included"
    return [_row("suite_md5", times[:, 0] / times[:, 1], 1.1, words, conditions)]


@_with_suite
def measure_measuring(setting: Setting, suite: Suite) -> list[Row]:
    """Rows `suite_measuring_*`: clocks around every operation, against one around all of them."""
    files = setting.size(20_000, 200)
    rows = []
    for name in ("create", "list"):
        words = (f"{name}_files", "--num-copies", str(files))
        times, conditions = _rounds(
            setting.size(25, 2),
            lambda words=words: suite.wall_ns(*words),  # type: ignore[misc]
            lambda words=words: suite.wall_ns(*words, "--no-op-times"),  # type: ignore[misc]
        )
        rows.append(
            _row(
                f"suite_measuring_{name}",
                times[:, 0] / times[:, 1],
                1.02,
                "the same benchmark with --no-op-times",
                conditions | {"files": files, "page_cache": "warm"},
            )
        )
    return rows
