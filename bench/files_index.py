"""Indexing a tree of small files, against `find` printing their sizes."""

from __future__ import annotations

import os
import subprocess
import time

import numpy as np

import forebay
from bench.rounds import centre
from bench.row import Row
from bench.setting import Setting
from forebay._command import find_command

_FOLDERS = 200


def measure(setting: Setting) -> list[Row]:
    """The row `files_index`."""
    folder = setting.folder / "files"
    count = setting.size(200_000, 1000)
    for number in range(_FOLDERS):
        below = folder / f"{number:03}"
        below.mkdir(parents=True)
        for name in range(number, count, _FOLDERS):
            # Sizes are what is read: the bytes take no room.
            with (below / f"{name:07}.bin").open("wb") as file:
                file.truncate(10_000)
    index = setting.folder / "files.forebay"
    command = find_command()
    if command is None:
        raise RuntimeError("the `forebay` command is not installed")
    ours = [command, "index", str(folder), "-o", str(index), "--files"]
    theirs = ["find", str(folder), "-type", "f", "-printf", "%s\n"]
    rounds = setting.size(7, 2)
    times = np.zeros((2, rounds))
    for number in range(-1, rounds):
        order = [(0, ours), (1, theirs)]
        for row, line in order if number % 2 else reversed(order):
            began = time.perf_counter()
            subprocess.run(line, check=True, capture_output=True)
            if number >= 0:
                times[row, number] = time.perf_counter() - began
    ratio, spread = centre(times[0] / times[1])
    if len(forebay.open(index, start_daemon=False)) != count:
        raise RuntimeError("the index has another number of samples")
    return [
        Row(
            name="files_index",
            ratio=ratio,
            target=1.5,
            n=rounds,
            baseline="find -printf %s",
            spread=spread,
            conditions={
                "subject_us": round(float(np.median(times[0])) * 1e6),
                "baseline_us": round(float(np.median(times[1])) * 1e6),
                "files": count,
                "folders": _FOLDERS,
                "load_average": round(os.getloadavg()[0], 1),
                "cpus": os.cpu_count(),
                "page_cache": "all names and attributes are in it",
            },
        )
    ]
