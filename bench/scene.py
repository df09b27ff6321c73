"""A slow tier with samples on it, and daemons with settings of their own.

The tier is the emulator's `lustre`. All its times are multiplied so that the published window of
176 ms becomes `WINDOW_S`, and its tail is made as frequent as it takes for a batch of ours, read by
h5py, to meet as many slow reads as a published batch does: the calculation is in docs/EMULATE.md.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]

import forebay
from bench import data
from bench.setting import Setting
from demo.command import forebay as command
from demo.emulated import EmulatedTier

# What a sleep stands for in place of computing, and its published counterpart.
WINDOW_S = 0.1
_PUBLISHED_WINDOW_S = 0.176
SCALE = WINDOW_S / _PUBLISHED_WINDOW_S
BATCH = 16
# Slow reads that an iteration of 64 samples with 30 reads each meets in the built-in profile.
_SLOW_READS = 64 * 30 * 0.0002

# A sample has two fields in two files, in the proportion of the reference data set.
EDGES_BYTES = 16_000
RAW_BYTES = 48_000
SAMPLE_BYTES = EDGES_BYTES + RAW_BYTES

_PROBED = 200
_SECONDS = 60.0


def why_not() -> str | None:
    """Why no tier can be emulated here, if none can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "cannot open `/dev/fuse`: the slow tier is emulated with FUSE"
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        return "cannot mount: run as root or install `fusermount3`"
    return None


@dataclass(frozen=True)
class Scene:
    """Samples of two fields in pairs of files, seen through the slow tier."""

    # The files as they are; the same ones through the tier.
    plain: Path
    slow: Path
    index: Path
    pairs: int
    samples: int
    # Reads that h5py makes of the tier for a sample.
    reads_a_sample: float
    tail: float

    @property
    def data_bytes(self) -> int:
        """Bytes of all samples."""
        return self.samples * SAMPLE_BYTES

    def conditions(self, **more: Any) -> dict[str, Any]:
        """What a reader of a row must know of the tier and the loop."""
        return {
            "tier": "emulated `lustre`, no page cache",
            "tier_scale": round(SCALE, 4),
            "tail_probability": round(self.tail, 6),
            "h5py_reads_a_sample": round(self.reads_a_sample, 1),
            "compute": f"synthetic: a sleep of {WINDOW_S * 1e3:g} ms",
            "batch": BATCH,
            "sample_bytes": SAMPLE_BYTES,
            "samples": self.samples,
            "cpus": os.cpu_count(),
            "load_average": round(os.getloadavg()[0], 1),
            **more,
        }


@functools.cache
def scene(setting: Setting) -> Scene:
    """Made when a row first asks for it; the tier is unmounted when the benchmarks end."""
    plain, mount = setting.folder / "tier", setting.folder / "slow"
    plain.mkdir()
    pairs = setting.size(16, 2)
    each = setting.size(1000, 96)
    for pair in range(pairs):
        for name, size, seed in (("edges", EDGES_BYTES, 0), ("raw", RAW_BYTES, 1)):
            file = plain / f"{name}_{pair:02}.h5"
            values = setting.seed + 2 * pair + seed
            data.write_groups(file, name, each, size, values, first=pair * each)
    index = setting.folder / "tier.forebay"
    _run("index", plain, "--sample", "edges_*.h5=*", "--sample", "raw_*.h5=*", "-o", index)
    tier = EmulatedTier(
        plain, mount, setting.folder / "tier.log", Path("lustre"), SCALE, setting.seed
    )
    slow = setting.enter(tier)
    reads = _reads_a_sample(slow, pairs, each)
    tail = min(0.1, _SLOW_READS / (BATCH * reads))
    control(slow, "set", f"read.tail.probability={tail}")
    return Scene(plain, slow, index, pairs, pairs * each, reads, tail)


def _reads_a_sample(slow: Path, pairs: int, each: int) -> float:
    """Reads that h5py makes of the tier for a sample, over some in random order."""
    control(slow, "set", "read.tail.probability=0")
    before = requests(slow)
    samples = [7919 * number % (pairs * each) for number in range(_PROBED)]
    opened: dict[Path, Any] = {}
    try:
        for sample in samples:
            for name in ("edges", "raw"):
                file = slow / f"{name}_{sample // each:02}.h5"
                if file not in opened:
                    opened[file] = h5py.File(file, "r")
                opened[file][f"s{sample:06}"][name][()]
    finally:
        for file in opened.values():
            file.close()
    return (requests(slow) - before) / len(samples)


def control(slow: Path, *words: str) -> dict[str, Any]:
    """Adjust or ask the tier."""
    answer: dict[str, Any] = json.loads(_run("emulate", "ctl", slow, *words))
    return answer


def requests(slow: Path) -> int:
    """Reads that the tier has answered."""
    return int(control(slow, "status")["read"]["ok"])


@contextmanager
def served(cache: Path, settings: Mapping[str, object]) -> Iterator[Path]:
    """A daemon for the new folder `cache` with these settings; it and the folder go at the end."""
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    cache.mkdir()
    try:
        _run("serve", "--detach", "--cache", cache, *words)
        _wait_for_daemon(cache)
        yield cache
    finally:
        data.stop_daemon(cache)
        shutil.rmtree(cache)


def _wait_for_daemon(cache: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            forebay.status(cache)
        except forebay.UnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _run(*words: object) -> str:
    line = [command(), *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(line)}` failed: {done.stderr.strip()}")
    return done.stdout
