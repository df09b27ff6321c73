"""Reading 100 Darshan logs: `forebay tiers darshan` as a process against PyDarshan in this one."""

from __future__ import annotations

import os
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.rounds import centre, no_collection
from bench.row import Row
from bench.setting import Setting
from forebay._command import find_command

_LOGS = 100
_TARGET = 20.0
_OURS = Path(__file__).parents[1] / "crates/darshan/tests/logs"


def measure(setting: Setting) -> list[Row]:
    """The row `darshan_read`."""
    command = find_command()
    if command is None:
        raise FileNotFoundError("the `forebay` command is not installed")
    with warnings.catch_warnings():
        # Its dependencies warn of each other when they are imported.
        warnings.simplefilter("ignore")
        import darshan
    wheel = sorted(Path(darshan.__file__).parent.rglob("*.darshan"))
    sources = sorted(_OURS.glob("*.darshan")) + wheel
    logs = [
        _copy(setting.folder, sources[n % len(sources)], n) for n in range(setting.size(_LOGS, 10))
    ]

    def ours() -> None:
        subprocess.run(
            [command, "tiers", "darshan", "--json", *logs], stdout=subprocess.DEVNULL, check=True
        )

    def theirs() -> None:
        for log in logs:
            with darshan.DarshanReport(str(log), read_all=True):
                pass

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
            baseline="PyDarshan, `DarshanReport(read_all=True)`, already imported",
            spread=spread,
            better="higher",
            conditions={
                "logs": len(logs),
                "log_bytes": sum(log.stat().st_size for log in logs),
                "subject": "one process of `forebay tiers darshan --json`, its start included",
                "subject_ms": round(float(np.median(times[:, 1])) * 1e3, 1),
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
