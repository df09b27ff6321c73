"""Reading 100 Darshan logs: `forebay tiers darshan` against a program that uses PyDarshan.

Both are processes from their start to their end. Of the second, the time that reading takes once
PyDarshan is imported stands in the conditions.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench import row
from bench.rounds import centre, no_collection
from bench.row import Row
from bench.setting import Setting
from forebay._command import find_command

_LOGS = 100
_TARGET = 20.0
_OURS = Path(__file__).parents[1] / "crates/darshan/tests/logs"
# Reads every record of every module, and says how long that took without the import.
_THEIRS = """
import sys, time, warnings
warnings.simplefilter("ignore")
import darshan
began = time.perf_counter()
for log in sys.argv[1:]:
    with darshan.DarshanReport(log, read_all=True):
        pass
print(time.perf_counter() - began)
"""


def measure(setting: Setting) -> list[Row]:
    """The row `darshan_read`."""
    command = find_command()
    if command is None:
        raise FileNotFoundError("the `forebay` command is not installed")
    wheel = importlib.util.find_spec("darshan")
    if wheel is None or wheel.origin is None:
        return [row.skipped("darshan_read", "PyDarshan is not installed")]
    sources = sorted(_OURS.glob("*.darshan")) + sorted(Path(wheel.origin).parent.rglob("*.darshan"))
    logs = [
        _copy(setting.folder, sources[n % len(sources)], n) for n in range(setting.size(_LOGS, 10))
    ]
    imported = []

    def ours() -> None:
        # Every record is read, as theirs are; neither prints them.
        words = [command, "tiers", "darshan", "--top", "0", *logs]
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)

    def theirs() -> None:
        words = [sys.executable, "-c", _THEIRS, *logs]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        imported.append(float(done.stdout))

    rounds = setting.size(5, 1)
    with no_collection():
        times = np.array([[_timed(theirs), _timed(ours)] for _ in range(rounds)])
    ratio, spread = centre(times[:, 0] / times[:, 1])
    return [
        Row(
            name="darshan_read",
            ratio=ratio,
            target=_TARGET,
            n=rounds,
            baseline="a Python process, `DarshanReport(read_all=True)` of PyDarshan, its import included",
            spread=spread,
            better="higher",
            conditions={
                "logs": len(logs),
                "log_bytes": sum(log.stat().st_size for log in logs),
                "subject": "one process of `forebay tiers darshan --top 0`",
                "subject_ms": round(float(np.median(times[:, 1])) * 1e3, 1),
                "baseline_imported_ms": round(float(np.median(imported)) * 1e3, 1),
                "baseline_ms": round(float(np.median(times[:, 0])) * 1e3, 1),
                "page_cache": "warm",
                "load_average": round(os.getloadavg()[0], 1),
                "cpus": os.cpu_count(),
            },
        )
    ]


def _copy(folder: Path, source: Path, number: int) -> Path:
    copy = folder / f"{number:03}.darshan"
    copy.write_bytes(source.read_bytes())
    return copy


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
