"""An index of millions of samples: how long a worker takes to open it, and to find a key.

The samples are the empty members of one tar archive under ten names: what is measured reads the
index and no sample.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

import forebay
from bench import data
from bench.rounds import centre, no_collection
from bench.row import Row
from bench.setting import Setting

_NAMES = 10
_ALLOWED_OPEN_MS = 50.0
_ALLOWED_PRIVATE_MB = 20.0
_ALLOWED_FIND_US = 1.0
_FINDS = 2000

# Run in a process of its own, as a loader's worker is: what opening costs it. It stays until its
# input ends, since pages of the index are shared only while another worker has them too.
_WORKER = """
import json, sys, time
import forebay

def private_bytes():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * 1024

before = private_bytes()
began = time.perf_counter()
dataset = forebay.open(sys.argv[1], cache=sys.argv[2])
seconds = time.perf_counter() - began
for position in range(0, len(dataset), max(len(dataset) // 1000, 1)):
    dataset.find(dataset.key(position))
print(json.dumps({"seconds": seconds, "private_bytes": private_bytes() - before}), flush=True)
sys.stdin.read()
"""


def measure(setting: Setting) -> list[Row]:
    """The rows `index_open`, `index_memory` and `key_lookup`."""
    folder = setting.folder / "big"
    members = setting.size(520_000, 2000)
    archives = write_archives(folder / "data", members)
    index = folder / "big.forebay"
    began = time.perf_counter()
    made = forebay.index(archives, index)
    build_s = time.perf_counter() - began
    with data.opened(index, folder / "cache") as dataset:
        conditions = {
            "samples": made["samples"],
            "index_bytes": made["index_bytes"],
            "build_s": round(build_s, 1),
            "load_average": round(os.getloadavg()[0], 1),
            "cpus": os.cpu_count(),
            "page_cache": "the index is in it",
        }
        return [
            *_opened(setting, index, folder / "cache", conditions),
            _found(setting, dataset, conditions),
        ]


def write_archives(folder: Path, members: int) -> list[Path]:
    """One archive of empty members, under several names."""
    folder.mkdir(parents=True)
    first = folder / "0.tar"
    header = tarfile.TarInfo("0000000.cls").tobuf(tarfile.USTAR_FORMAT)
    blocks = np.tile(np.frombuffer(header, np.uint8), (members, 1))
    names = np.char.zfill(np.arange(members).astype("S7"), 7)
    blocks[:, :7] = names.view(np.uint8).reshape(members, 7)
    # The checksum is the sum of all bytes with blanks in its own place.
    blocks[:, 148:156] = ord(" ")
    sums = blocks.sum(axis=1, dtype=np.int64)
    digits = np.array([b"%06o\0 " % value for value in sums], "S8")
    blocks[:, 148:156] = np.frombuffer(digits.tobytes(), np.uint8).reshape(members, -1)[:, :8]
    with first.open("wb") as file:
        file.write(blocks.tobytes())
        file.write(bytes(1024))
    with tarfile.open(fileobj=io.BytesIO(blocks[-1].tobytes() + bytes(1024))) as check:
        assert check.getnames() == [f"{members - 1:07}.cls"]
    others = [folder / f"{number}.tar" for number in range(1, _NAMES)]
    for other in others:
        other.hardlink_to(first)
    return [first, *others]


def _opened(setting: Setting, index: Path, cache: Path, conditions: dict[str, object]) -> list[Row]:
    rounds = setting.size(20, 3)
    line = [sys.executable, "-c", _WORKER, str(index), str(cache)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        done = [
            subprocess.run(line, input="", capture_output=True, check=True, text=True)
            for _ in range(rounds)
        ]
        other.communicate()
    found = [json.loads(worker.stdout) for worker in done]
    conditions = {**conditions, "workers": "another has the index open and has read the same of it"}
    rows = []
    for name, key, scale, allowed, unit in (
        ("index_open", "seconds", 1e3, _ALLOWED_OPEN_MS, "ms"),
        ("index_memory", "private_bytes", 1e-6, _ALLOWED_PRIVATE_MB, "MB private"),
    ):
        value, spread = centre(np.array([one[key] * scale for one in found]))
        rows.append(
            Row(
                name=name,
                ratio=value / allowed,
                target=1.0,
                n=rounds,
                baseline=f"{allowed:g} {unit}",
                spread=spread / allowed,
                value=value,
                unit=unit,
                conditions=conditions,
            )
        )
    return rows


def _found(setting: Setting, dataset: forebay.Dataset, conditions: dict[str, object]) -> Row:
    rounds = setting.size(50, 3)
    times: npt.NDArray[np.float64] = np.zeros(rounds)
    # Read before, so that what is timed is the look-up alone.
    orders = setting.orders(rounds, _FINDS, len(dataset))
    with no_collection():
        for number, order in enumerate(orders):
            keys = [dataset.key(position) for position in order]
            find = dataset.find
            began = time.perf_counter_ns()
            for key in keys:
                find(key)
            times[number] = (time.perf_counter_ns() - began) / _FINDS / 1e3
            if [find(key) for key in keys[:9]] != order[:9]:
                raise RuntimeError("a key leads to another sample")
    value, spread = centre(times)
    return Row(
        name="key_lookup",
        ratio=value / _ALLOWED_FIND_US,
        target=1.0,
        n=rounds,
        baseline=f"{_ALLOWED_FIND_US:g} µs, the call from Python included",
        spread=spread / _ALLOWED_FIND_US,
        value=value,
        unit="µs",
        conditions=conditions,
    )
