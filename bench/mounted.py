"""The mount against the file system under it: random reads, and a listing of a slow origin."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench import data, scene
from bench.rounds import alternate, centre, rounds_with_warm_up
from bench.row import Row, skipped
from bench.setting import Setting
from demo.emulated import EmulatedTier
from forebay._command import find_command

_READ = 256 << 10
# Reads of one round; each round has others.
_UNITS = 64


@contextmanager
def mounted(source: Path, root: Path, cache: Path, *options: str) -> Iterator[dict[str, Any]]:
    """A mount of `source` on `root`, and what it said of itself."""
    command = find_command()
    if command is None:
        raise RuntimeError("the `forebay` command is not installed")
    root.mkdir(exist_ok=True)
    line = [command, "mount", str(source), str(root), "--cache", str(cache), "--json", *options]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        if not first:
            raise RuntimeError(f"cannot mount `{source}`")
        yield json.loads(first)
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
        data.stop_daemon(cache)


def measure_reads(setting: Setting) -> list[Row]:
    """The rows `mount_read_resident` and `mount_read_partly`."""
    names = ("mount_read_resident", "mount_read_partly")
    reason = scene.why_not()
    if reason is not None:
        return [skipped(name, reason) for name in names]
    folder = setting.folder / "mount_reads"
    origin, cache, root = folder / "origin", folder / "cache", folder / "mount"
    origin.mkdir(parents=True)
    size = setting.size(1 << 30, 64 << 20)
    for name in ("whole.bin", "partly.bin"):
        with (origin / name).open("wb") as out:
            for _ in range(size >> 20):
                out.write(setting.random.bytes(1 << 20))
        data.sync(origin / name)
    half = size // 2
    with mounted(origin, root, cache):
        _read_through(root / "whole.bin", size)
        _read_through(root / "partly.bin", half)
        # A file is what it was when it was opened: closed by now, as the mount knows a moment later.
        time.sleep(1)
        kinds = (("whole.bin", size, 1.1, True), ("partly.bin", half, 6.0, False))
        return [
            _reads(setting, name, (root / file, origin / file), upto, target, passes)
            for name, (file, upto, target, passes) in zip(names, kinds, strict=True)
        ]


def _reads(
    setting: Setting, name: str, files: tuple[Path, Path], upto: int, target: float, passes: bool
) -> Row:
    rounds = setting.size(300, 6)
    total = rounds_with_warm_up(rounds)
    places = setting.random.integers(0, upto - _READ, (2, total, _UNITS)).tolist()
    out = memoryview(data.buffer(_READ))
    descriptors = [os.open(file, os.O_RDONLY) for file in files]
    try:
        ours, theirs = descriptors
        for place in places[0][0]:
            if os.pread(ours, _READ, place) != os.pread(theirs, _READ, place):
                raise RuntimeError("the mount gives other bytes than the file")

        def subject(number: int) -> None:
            for place in places[0][number]:
                os.preadv(ours, [out], place)

        def baseline(number: int) -> None:
            for place in places[1][number]:
                os.preadv(theirs, [out], place)

        found = alternate(
            subject, baseline, rounds=rounds, units=_UNITS, ping_pong=setting.ping_pong
        )
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    ratio, spread = centre(found.subject / found.baseline)
    return Row(
        name=name,
        ratio=ratio,
        target=target,
        n=rounds,
        baseline="os.preadv of the file itself",
        spread=spread,
        conditions=found.conditions(
            read_bytes=_READ,
            file_bytes=upto,
            order="random",
            passthrough=passes,
            page_cache="everything in it",
        ),
    )


def _read_through(file: Path, upto: int) -> None:
    with file.open("rb", 0) as opened:
        left = upto
        while left > 0:
            left -= len(opened.read(min(left, 1 << 20)))


def measure_listing(setting: Setting) -> list[Row]:
    """The row `mount_listing`."""
    reason = scene.why_not()
    if reason is not None:
        return [skipped("mount_listing", reason)]
    folder = setting.folder / "mount_listing"
    origin, slow, cache, root = (folder / n for n in ("origin", "slow", "cache", "mount"))
    count = setting.size(100_000, 1000)
    for number in range(count):
        file = origin / f"{number % 100:03}" / f"{number:06}.bin"
        if number < 100:
            file.parent.mkdir(parents=True)
        with file.open("wb") as out:
            out.truncate(number)
    rounds = setting.size(2, 1)
    times = np.zeros((2, rounds))
    slow.mkdir()
    with EmulatedTier(origin, slow, folder / "slow.log", Path("lustre"), 1.0, setting.seed):
        for number in range(rounds):
            # A mount of its own, of which the kernel knows nothing yet.
            with mounted(slow, root, cache) as said:
                times[0, number] = _listed(root)
            # The kernel keeps for a second what the walk was told.
            time.sleep(1.5)
            times[1, number] = _listed(slow)
    ratio, spread = centre(times[1] / times[0])
    return [
        Row(
            name="mount_listing",
            ratio=ratio,
            target=50.0,
            better="higher",
            n=rounds,
            baseline="ls -lR of the slow origin itself",
            spread=spread,
            conditions={
                "subject_us": round(float(np.median(times[0])) * 1e6),
                "baseline_us": round(float(np.median(times[1])) * 1e6),
                "files": count,
                "folders": 100,
                "tier": "emulated `lustre`, scale 1",
                "walk_seconds": said["walk_seconds"],
                "load_average": round(os.getloadavg()[0], 1),
                "cpus": os.cpu_count(),
            },
        )
    ]


def _listed(place: Path) -> float:
    began = time.perf_counter()
    line = ["ls", "-lR", str(place)]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
