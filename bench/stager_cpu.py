"""What the daemon costs while it follows an order: CPU time at 3,300 samples a second."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path

import forebay
import forebay.torch as fb
from bench import data, row
from bench.row import Row
from bench.scene import scene, served, why_not
from bench.setting import Setting

_PACE = 3300
_SAMPLE_BYTES = 4096
_BATCH = 33
_ALLOWED_SHARE = 0.05


def measure(setting: Setting) -> list[Row]:
    """The rows `stager_cpu`, all resident, and `stager_cpu_cold`, from an empty cache."""
    reason = why_not()
    if reason is not None:
        return [row.skipped(name, reason) for name in ("stager_cpu", "stager_cpu_cold")]
    stage = scene(setting)
    folder = stage.plain / "small"
    folder.mkdir()
    count = _PACE * setting.size(12, 1)
    data.write_rows(folder / "rows.h5", count, _SAMPLE_BYTES, setting.seed)
    index = setting.folder / "small.forebay"
    forebay.index(folder / "rows.h5", index, sample="rows")
    root = stage.slow / "small"
    # As in training on a large data set, most of it lies beyond the look-ahead.
    settings = {"look-ahead": count * _SAMPLE_BYTES // 4}
    with served(setting.folder / "cache-cpu", settings) as cache:
        dataset = forebay.open(index, root=root, cache=cache, start_daemon=False)
        cold = _row(setting, "stager_cpu_cold", dataset)
        data.stage_all(dataset)
        return [_row(setting, "stager_cpu", dataset), cold]


def _row(setting: Setting, name: str, dataset: forebay.Dataset) -> Row:
    before = forebay.status(dataset.cache)
    pid = int(before["pid"])
    used, began = _cpu_seconds(pid), time.perf_counter()
    samples = _read(dataset, setting.seed)
    wall = time.perf_counter() - began
    spent = {
        thread: round((seconds - used.get(thread, 0.0)) / wall, 4)
        for thread, seconds in _cpu_seconds(pid).items()
    }
    status = forebay.status(dataset.cache)
    share = sum(spent.values())
    return Row(
        name=name,
        ratio=share / _ALLOWED_SHARE,
        target=1.0,
        n=samples,
        baseline=f"{_ALLOWED_SHARE:.0%} of one core",
        spread=0.0,
        value=100 * share,
        unit="% of a core",
        conditions=scene(setting).conditions(
            samples=len(dataset),
            sample_bytes=_SAMPLE_BYTES,
            batch=_BATCH,
            compute=f"synthetic: a reader at {_PACE} samples a second",
            ranks=1,
            workers=0,
            samples_a_second=round(samples / wall),
            wall_s=round(wall, 2),
            look_ahead_bytes=status["plan"]["look_ahead_bytes"],
            core_share_of_threads={name: each for name, each in spent.items() if each},
            origin_bytes=status["origin_bytes"] - before["origin_bytes"],
            origin_reads=status["metrics"]["origin_reads"] - before["metrics"]["origin_reads"],
        ),
    )


def _read(dataset: forebay.Dataset, seed: int) -> int:
    """Read the samples of an epoch in batches, at the pace. Returns how many."""
    order = iter(fb.Sampler(dataset, seed=seed, rank=0, world_size=1))
    batches = len(dataset) // _BATCH
    began = time.perf_counter()
    for number in range(batches):
        dataset.read_batch([next(order) for _ in range(_BATCH)])
        ahead = began + (number + 1) * _BATCH / _PACE - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
    return batches * _BATCH


def _cpu_seconds(pid: int) -> dict[str, float]:
    """Seconds that the threads of a process have used, by their name without a number.

    Those of threads that have ended are under `ended`.
    """
    process = Path(f"/proc/{pid}")
    seconds: dict[str, float] = defaultdict(float)
    for task in (process / "task").iterdir():
        name = (task / "comm").read_text().strip().rstrip("-0123456789")
        # Nanoseconds on a processor: single threads may have used less than a clock tick.
        seconds[name] += int((task / "schedstat").read_text().split()[0]) / 1e9
    # utime and stime, the 14th and 15th field of proc_pid_stat(5), counted behind the name.
    used = (process / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
    whole = sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
    seconds["ended"] = whole - sum(seconds.values())
    return seconds
