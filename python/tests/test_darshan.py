"""`forebay tiers darshan` against PyDarshan, on the logs that its wheel ships and on our own.

PyDarshan is wrong in a few places; those are listed here one by one.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tier import command

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import darshan
    import darshan.backend.cffi_backend as oracle

OUR_LOGS = Path(__file__).parents[2] / "crates/darshan/tests/logs"
LOGS = sorted(Path(darshan.__file__).parent.rglob("*.darshan")) + sorted(OUR_LOGS.glob("*.darshan"))

# Counters that PyDarshan loses when it brings POSIX records of version 3 into the newest form.
LOST = {"POSIX_F_VARIANCE_RANK_TIME", "POSIX_F_VARIANCE_RANK_BYTES"}


@pytest.fixture(scope="module")
def logs() -> dict[Path, dict[str, Any]]:
    """What the command says about each log."""
    done = command("tiers", "darshan", "--json", *LOGS)
    assert done.returncode == 0, done.stderr
    return dict(zip(LOGS, map(json.loads, done.stdout.splitlines()), strict=True))


def theirs(log: Any, module: str, dtype: str) -> Iterator[dict[str, Any]]:
    """PyDarshan's records of a module."""
    while (record := oracle.log_get_record(log, module, dtype)) is not None:
        yield record


def test_there_are_logs_of_all_sources() -> None:
    assert len(LOGS) == 18 + 24


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem[-40:])
def test_job_and_names_equal_those_of_pydarshan(
    logs: dict[Path, dict[str, Any]], path: Path
) -> None:
    ours, log = logs[path], oracle.log_open(str(path))
    job = oracle.log_get_job(log)
    assert ours["faults"] == []
    assert ours["version"] == job["log_ver"]
    # PyDarshan subtracts seconds since 1970 as doubles, which are 0.24 µs apart.
    assert math.isclose(ours["run_s"], job["run_time"], abs_tol=1e-6)
    for name in ("uid", "nprocs", "jobid", "metadata"):
        assert ours["job"][name] == job[name]
    start = job["start_time_sec"] * 10**9 + job["start_time_nsec"]
    assert ours["job"]["start_unix_ns"] == start
    # PyDarshan finds no command where no mounts follow it.
    assert oracle.log_get_exe(log) in (ours["job"]["exe"], "")
    mounts = [(mount["path"], mount["fs_type"]) for mount in ours["job"]["mounts"]]
    assert sorted(mounts) == sorted(oracle.log_get_mounts(log))
    versions = {name: found["ver"] for name, found in oracle.log_get_modules(log).items()}
    assert {module["module"]: module["version"] for module in ours["modules"]} == versions
    names = oracle.log_get_name_records(log)
    for records in ours["records"].values():
        assert all(record["file"] == names.get(record["id"]) for record in records)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem[-40:])
def test_records_equal_those_of_pydarshan(logs: dict[Path, dict[str, Any]], path: Path) -> None:
    ours, log = logs[path], oracle.log_open(str(path))
    versions = {module["module"]: module["version"] for module in ours["modules"]}
    for module in ("POSIX", "STDIO"):
        if module in versions:
            found = list(theirs(log, module, "numpy"))
            for record, wanted in zip(ours["records"].get(module, []), found, strict=True):
                assert (record["id"], record["rank"]) == (wanted["id"], wanted["rank"])
                counters = zip(oracle.counter_names(module), wanted["counters"], strict=True)
                assert record["counters"] == {name: int(value) for name, value in counters}
                times = zip(oracle.fcounter_names(module), wanted["fcounters"], strict=True)
                lost = LOST if module == "POSIX" and versions[module] == 3 else set()
                kept = {name: float(value) for name, value in times if name not in lost}
                assert record["times"].items() >= kept.items()
    if "LUSTRE" in versions:
        found = list(theirs(log, "LUSTRE", "dict"))
        for record, wanted in zip(ours["records"]["LUSTRE"], found, strict=True):
            for part, whole in zip(record["components"], wanted["components"], strict=True):
                assert part["counters"] == {k: int(v) for k, v in whole["counters"].items()}
                assert (part["osts"], part["pool"]) == (list(whole["ost_ids"]), whole["pool_name"])
    if "HEATMAP" in versions:
        found = list(theirs(log, "HEATMAP", "numpy"))
        for record, wanted in zip(ours["records"]["HEATMAP"], found, strict=True):
            assert record["bin_s"] == wanted["bin_width_seconds"]
            assert record["read"] == wanted["read_bins"].tolist()
            assert record["written"] == wanted["write_bins"].tolist()


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem[-40:])
def test_traces_equal_those_of_pydarshan(logs: dict[Path, dict[str, Any]], path: Path) -> None:
    ours, log = logs[path], oracle.log_open(str(path))
    for module in {"DXT_POSIX", "DXT_MPIIO"} & set(ours["records"]):
        found = list(theirs(log, module, "dict"))
        for record, wanted in zip(ours["records"][module], found, strict=True):
            assert (record["id"], record["rank"]) == (wanted["id"], wanted["rank"])
            assert record["host"] == wanted["hostname"]
            for kind in ("write", "read"):
                segments = [
                    (one["offset"], one["length"], one["start_time"], one["end_time"])
                    for one in wanted[f"{kind}_segments"]
                ]
                assert segments == [
                    (one["offset"], one["bytes"], one["start_s"], one["end_s"])
                    for one in record[f"{kind}s"]
                ]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem[-40:])
def test_classes_are_the_sums_of_pydarshans_records(path: Path) -> None:
    log = oracle.log_open(str(path))
    names = oracle.log_get_name_records(log)
    nprocs = oracle.log_get_job(log)["nprocs"]
    sums: dict[int, list[float]] = {}
    for record in theirs(log, "POSIX", "dict") if "POSIX" in oracle.log_get_modules(log) else []:
        # All files but streams lie below the root.
        if names[record["id"]].startswith("/") and (record["rank"] >= 0 or nprocs == 1):
            of_rank = sums.setdefault(max(record["rank"], 0), [0.0, 0.0])
            # Rounding leaves some microseconds below 0.
            of_rank[0] += max(0.0, record["fcounters"]["POSIX_F_READ_TIME"])
            of_rank[1] += max(0.0, record["fcounters"]["POSIX_F_META_TIME"])
    done = command("tiers", "classes", path, "--gfs", "/", "--json")
    if not sums:
        assert done.returncode == 1
        assert "sum over all ranks" in done.stderr or "lies under a prefix" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    slowest = json.loads(done.stdout)["slowest"][0]
    assert slowest["total_s"] == pytest.approx(max(map(sum, sums.values())), rel=1e-9)
