"""Memory of a daemon while 64 clients ask it at once, over a small data set and a large one.

What the clients ask for is other nodes' for the most part, so that links to members are busy as
well. The peak is that of the daemon's resident set, with what it maps of its own files: indexes,
maps and checksums count, the page cache of block files does not.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forebay
from bench import data
from bench.remote import index_of_holes, running_job
from bench.row import Row
from bench.setting import Setting

_LINKS = 64
_NODES = 3
_ROWS = 150
_BATCH = 8
_MOST_BYTES = 256e6
_PATIENCE_S = 60.0


def measure_memory(setting: Setting) -> list[Row]:
    """The row `remote_memory`."""
    sizes = [setting.size(3, 1), setting.size(24, 2)]
    peaks = [_peak(setting, f"memory-{files}", files) for files in sizes]
    small, large = (max(each) for each in peaks)
    return [
        Row(
            name="remote_memory",
            ratio=max(small, large) / _MOST_BYTES,
            target=1.0,
            n=len(sizes),
            baseline="256 MB",
            spread=abs(large - small) / _MOST_BYTES,
            value=large / 1e6,
            unit="MB",
            conditions={
                "links": _LINKS,
                "nodes": _NODES,
                "data_bytes": [files * _ROWS * data.SAMPLE_BYTES for files in sizes],
                "peak_bytes_asked_daemon": [each[0] for each in peaks],
                "peak_bytes_other_daemons": [max(each[1:]) for each in peaks],
                "cpus": os.cpu_count(),
                "load_average": round(os.getloadavg()[0], 1),
            },
        )
    ]


def _peak(setting: Setting, name: str, files: int) -> list[int]:
    """The most that each node's daemon had resident; the clients are those of the first."""
    folder = setting.folder / name
    folder.mkdir()
    index = index_of_holes(folder, files, _ROWS)
    with running_job(folder, index, _NODES) as job:
        dataset = job.open(0)
        meet = threading.Barrier(_LINKS, timeout=_PATIENCE_S)

        def client(number: int) -> None:
            # A thread has a link of its own; all have theirs before one is busy.
            mine = range(number, len(dataset), _LINKS)
            dataset.stage(mine[:1])
            meet.wait()
            for first in range(0, len(mine), _BATCH):
                dataset.stage(mine[first : first + _BATCH])

        with ThreadPoolExecutor(_LINKS) as clients:
            list(clients.map(client, range(_LINKS)))
        return [_most_resident(cache) for cache in job.caches]


def _most_resident(cache: Path) -> int:
    status = Path(f"/proc/{forebay.status(cache)['pid']}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
