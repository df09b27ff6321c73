"""Runs the rows, prints them, and writes `summary.json`."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from bench import (
    ahead,
    big_index,
    cold_sample,
    darshan_read,
    evict,
    files_index,
    fsspec_ranges,
    hdf5,
    mounted,
    origin_bytes,
    plan_cluster,
    preloaded,
    remote,
    remote_fabric,
    remote_memory,
    resume,
    row,
    small_sample,
    stager_cpu,
    suite,
    warm_batch,
    warm_sample,
    warm_view_sum,
)
from bench.row import Row
from bench.setting import Setting, prepared

# Each measures one row, or the variants of one.
ROWS: dict[str, Callable[[Setting], list[Row]]] = {
    "warm_sample": warm_sample.measure,
    "warm_view_sum": warm_view_sum.measure,
    "small_sample": small_sample.measure,
    "warm_batch": warm_batch.measure,
    "cold_sample": cold_sample.measure,
    "origin_bytes": origin_bytes.measure,
    "big_index": big_index.measure,
    "files_index": files_index.measure,
    "mount_read": mounted.measure_reads,
    "mount_listing": mounted.measure_listing,
    "fsspec_cat_ranges": fsspec_ranges.measure,
    "ahead": ahead.measure,
    "evict": evict.measure,
    "resume": resume.measure,
    "stager_cpu": stager_cpu.measure,
    "darshan_read": darshan_read.measure,
    "plan_cluster": plan_cluster.measure,
    "hdf5_index": hdf5.measure_index,
    "hdf5_warm_sample": hdf5.measure_warm,
    "lzf_sample": hdf5.measure_lzf,
    "flatten_lzf": hdf5.measure_flatten,
    "remote_sample": remote.measure_sample,
    "remote_clients": remote.measure_clients,
    "remote_batch": remote.measure_batch,
    "remote_fabric": remote_fabric.measure,
    "replica_epoch": remote.measure_replicas,
    "remote_memory": remote_memory.measure_memory,
    "preload": preloaded.measure_calls,
    "preload_epoch": preloaded.measure_epoch,
    "suite_create": suite.measure_create,
    "suite_list": suite.measure_list,
    "suite_delete": suite.measure_delete,
    "suite_python": suite.measure_python,
    "suite_md5": suite.measure_md5,
    "suite_measuring": suite.measure_measuring,
}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the benchmarks."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="NAME",
        type=_benchmark,
        help=f"one of {', '.join(ROWS)}, or a row of one; other rows of the summary stay",
    )
    parser.add_argument("--quick", action="store_true", help="a tiny run, to see that it works")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is missed")
    parser.add_argument("--seed", type=int, default=7, help="of data and order (7)")
    parser.add_argument(
        "--flatten-mib", type=int, default=1024, help="size of the file to flatten (1024)"
    )
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="output folder")
    options = parser.parse_args(arguments)
    options.out = options.out.absolute()
    return options


def _benchmark(name: str) -> str:
    """The benchmark that measures a row of this name: `ahead` for `ahead_epoch1`."""
    found = [each for each in ROWS if name == each or name.startswith(f"{each}_")]
    if not found:
        raise argparse.ArgumentTypeError(f"no row `{name}`: one of {', '.join(ROWS)}")
    return max(found, key=len)


def run(setting: Setting, names: list[str], summary: Path) -> tuple[list[Row], list[str]]:
    """The rows of the benchmarks of these names, and the names of those that failed.

    Each is in the summary as soon as it is measured, so a run that is ended keeps what it has.
    """
    rows: list[Row] = []
    failed = []
    for name in names:
        began = time.perf_counter()
        try:
            measured = ROWS[name](setting)
            row.write(summary, measured)
            rows += measured
        except Exception:
            # One that fails must not take the others along.
            traceback.print_exc()
            failed.append(name)
        say(f"{name}: {time.perf_counter() - began:.1f} s")
    return rows, failed


def say(text: str) -> None:
    """Progress goes to stderr: stdout is for the figures."""
    print(text, file=sys.stderr, flush=True)


def _terminated(number: int, _frame: object) -> NoReturn:
    # As an exception, so that every `finally` runs: daemons stop and files go.
    raise SystemExit(128 + number)


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: all ran; 1: one failed, or missed with `--strict`; 2: wrong usage."""
    options = parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    names = [options.only] if options.only else list(ROWS)
    summary = options.out / "summary.json"
    try:
        with prepared(options.out, quick=options.quick, seed=options.seed) as setting:
            setting.flatten_mib = options.flatten_mib
            if options.only is None or not summary.exists():
                summary.write_text("[]\n")
            rows, failed = run(setting, names, summary)
    except KeyboardInterrupt:
        say("stopped")
        return 130
    print(row.table(rows))
    print(summary)
    for name in failed:
        say(f"error: `{name}` failed")
    missed = [found.name for found in rows if not found.is_met]
    return 1 if failed or (options.strict and missed) else 0
