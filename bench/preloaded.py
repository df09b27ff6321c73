"""The preload library: what a call costs that it serves, what one costs that it does not, and an epoch
of h5py on a slow tier."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

import forebay
from bench import data, scene
from bench.rounds import Floats, centre
from bench.row import Row, skipped
from bench.setting import Setting
from forebay._command import find_preload

_READ = 256 << 10
# Reads of one round.
_READS = 64
_FOREIGN = 20_000
_ALLOWED_NS = 50.0
_PARTS = 8

# Reads fields of samples in a random order, each from its file, once an epoch; says what each took.
_EPOCHS = """
import json, random, sys, time
import h5py
root, each, samples, epochs, seed = sys.argv[1], *map(int, sys.argv[2:])
files = {}
for epoch in range(epochs):
    order = random.Random(seed).sample(range(samples), samples)
    times, total = [], 0
    for sample in order:
        began = time.perf_counter()
        for name in ("edges", "raw"):
            path = f"{root}/{name}_{sample // each:02}.h5"
            if path not in files:
                files[path] = h5py.File(path)
            total += int(files[path][f"s{sample:06}"][name][()].sum() & 0xFFFF)
        times.append(time.perf_counter() - began)
    print(json.dumps({"times": times, "total": total}))
"""


def _served(root: Path, index: Path, cache: Path) -> dict[str, str]:
    """The environment of a program whose files below `root` are staged."""
    library = find_preload()
    if library is None:
        raise RuntimeError("the preload library is not installed")
    return {
        **os.environ,
        "LD_PRELOAD": str(library),
        "FOREBAY_ROOTS": f"{root}={index}",
        "FOREBAY_CACHE": str(cache),
    }


class _Program:
    """The C program of this folder: a round for each line that it is given."""

    def __init__(self, program: Path, words: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [str(program), *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def round(self) -> float:
        """Nanoseconds of one call."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate(timeout=60)


@contextmanager
def _compiled(folder: Path) -> Iterator[Path]:
    program = folder / "pread"
    source = Path(__file__).with_name("pread.c")
    subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    yield program


def measure_calls(setting: Setting) -> list[Row]:
    """The rows `preload_pread` and `preload_foreign`."""
    if shutil.which("cc") is None:
        return [skipped(name, "there is no `cc`") for name in ("preload_pread", "preload_foreign")]
    folder = setting.folder / "preload"
    root, cache, index = folder / "origin", folder / "cache", folder / "files.forebay"
    root.mkdir(parents=True)
    size = setting.size(256 << 20, 4 << 20)
    for path in (root / "file", folder / "foreign"):
        path.write_bytes(setting.random.bytes(size))
        data.sync(path)
    forebay.index(root, index, files=True, root=root)
    with ExitStack() as until_end:
        program = until_end.enter_context(_compiled(folder))
        data.stage_all(until_end.enter_context(data.opened(index, cache)))
        served, plain = _served(root, index, cache), dict(os.environ)
        reads = [str(_READ), str(_READS), str(setting.seed)]
        # The same pages: the plain side reads the file that the cache reads.
        (block_file,) = cache.glob("blocks/*/shard-*.blocks")
        blocks = _alternate(
            _Program(program, ["pread", str(root / "file"), *reads], served),
            _Program(program, ["pread", str(block_file), *reads], plain),
            setting.size(300, 6),
        )
        calls = ["foreign", str(folder / "foreign"), str(setting.size(_FOREIGN, 200))]
        foreign = _alternate(
            _Program(program, calls, served), _Program(program, calls, plain), setting.size(300, 6)
        )
    ratio, spread = centre(blocks[0] / blocks[1])
    added, added_spread = centre(foreign[0] - foreign[1])
    return [
        Row(
            name="preload_pread",
            ratio=ratio,
            target=1.15,
            n=len(blocks[0]),
            baseline="the same program on the block file itself",
            spread=spread,
            conditions=_conditions(blocks, read_bytes=_READ, file_bytes=size),
        ),
        Row(
            name="preload_foreign",
            ratio=added / _ALLOWED_NS,
            target=1.0,
            n=len(foreign[0]),
            baseline="the same program without the library",
            spread=added_spread / _ALLOWED_NS,
            value=added,
            unit="ns",
            conditions=_conditions(foreign, call="pread of one byte"),
        ),
    ]


def _alternate(subject: _Program, baseline: _Program, rounds: int) -> Floats:
    """Nanoseconds of a call in each round, of both."""
    times = np.zeros((2, rounds))
    sides = [subject, baseline]
    try:
        for number in range(-3, rounds):
            for row in (0, 1) if number % 2 else (1, 0):
                took = sides[row].round()
                if number >= 0:
                    times[row, number] = took
    finally:
        for side in sides:
            side.end()
    return times


def _conditions(times: Floats, **more: object) -> dict[str, object]:
    return {
        "subject_us": round(float(np.median(times[0])) / 1e3, 3),
        "baseline_us": round(float(np.median(times[1])) / 1e3, 3),
        "load_average": round(os.getloadavg()[0], 1),
        "cpus": os.cpu_count(),
        "page_cache": "everything in it",
        **more,
    }


def measure_epoch(setting: Setting) -> list[Row]:
    """The row `preload_epoch`."""
    reason = scene.why_not()
    if reason is not None:
        return [skipped("preload_epoch", reason)]
    stage = scene.scene(setting)
    each, samples = stage.samples // stage.pairs, setting.size(400, 16)
    index = setting.folder / "preload-tier.forebay"
    forebay.index(stage.slow, index, files=True, root=stage.slow)
    with scene.served(setting.folder / "cache-preload", {}) as cache:
        served = _epochs(stage.slow, each, samples, 2, _served(stage.slow, index, cache))
    direct = _epochs(stage.slow, each, samples, 1, dict(os.environ))
    if len({total for _, total in [*served, *direct]}) != 1:
        raise RuntimeError("h5py reads other bytes through the library")
    epoch_2, straight = served[1][0], direct[0][0]
    parts = [
        float(theirs.mean() / ours.mean())
        for ours, theirs in zip(
            np.array_split(epoch_2, _PARTS), np.array_split(straight, _PARTS), strict=True
        )
    ]
    return [
        Row(
            name="preload_epoch",
            ratio=float(straight.mean() / epoch_2.mean()),
            target=5.0,
            n=samples,
            baseline="h5py on the same tier, the same order",
            spread=centre(np.array(parts))[1],
            better="higher",
            conditions=stage.conditions(
                read_samples=samples,
                subject_us=round(float(epoch_2.mean()) * 1e6, 1),
                baseline_us=round(float(straight.mean()) * 1e6, 1),
                epoch_1_us=round(float(served[0][0].mean()) * 1e6, 1),
            ),
        )
    ]


def _epochs(
    root: Path, each: int, samples: int, epochs: int, environment: dict[str, str]
) -> list[tuple[Floats, int]]:
    """For each epoch, the seconds of each sample, and a sum over all that was read."""
    numbers = map(str, (each, samples, epochs, 7))
    done = subprocess.run(
        [sys.executable, "-c", _EPOCHS, str(root), *numbers],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return [(np.array(epoch["times"]), int(epoch["total"])) for epoch in said]
