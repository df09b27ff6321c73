"""Benchmarks of storage in Python, run and judged by `forebay bench`.

    from pathlib import Path
    from forebay.bench import benchable, measurable

    @measurable
    def read(path: Path) -> bytes:
        return path.read_bytes()

    @benchable
    def read_all(dataset_path: Path, pattern: str = "*") -> None:
        \"\"\"Read every file of a folder.\"\"\"
        for path in sorted(dataset_path.glob(pattern)):
            read(path)

`forebay bench run read_all --module FILE --pattern '*.h5'` runs it: warm-ups, iterations, ranks,
manifests and statistics are those of the built-in benchmarks. `docs/BENCH_PYTHON.md` has the rest.
"""

from __future__ import annotations

from forebay.bench._measure import count, measurable, measured, sample, untimed, verified
from forebay.bench._meet import MeetError
from forebay.bench._rank import Rank, barrier, current
from forebay.bench._registry import BenchError, Benchmark, Parameter, benchable

__all__ = [
    "BenchError",
    "Benchmark",
    "MeetError",
    "Parameter",
    "Rank",
    "barrier",
    "benchable",
    "count",
    "current",
    "measurable",
    "measured",
    "sample",
    "untimed",
    "verified",
]
