"""A sweep under a profiler that is preloaded, as Darshan is."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

from staged import compiled

from forebay._command import find_command

FOREBAY = find_command() or "forebay"
FILES, BYTES, PROCESSES = 12, 3000, 2


def run(*words: str | Path, **variables: str) -> str:
    done = subprocess.run(
        [FOREBAY, "tiers", *map(str, words)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_processes_of_a_sweep_leave_logs_where_a_profiler_is_preloaded(tmp_path: Path) -> None:
    library = compiled("profiler.c", tmp_path, "-shared", "-fPIC")
    tiers = {name: tmp_path / name for name in ("gfs", "lfs", "logs")}
    for folder in tiers.values():
        folder.mkdir()
    sweep: list[str | Path] = ["sweep", "--gfs", tiers["gfs"], "--lfs", tiers["lfs"]]
    sweep += ["--set", f"a:{FILES}:{BYTES}", "--format", "raw", "--processes", str(PROCESSES)]
    sweep += ["--rates", "50", "--epochs", "1", "--output", tmp_path / "sweep.jsonl"]
    run(*sweep, "--only", "make")
    variables = {"DARSHAN_LOGPATH": str(tiers["logs"]), "DARSHAN_ENABLE_NONMPI": "1"}
    run(*sweep, "--only", "run", LD_PRELOAD=str(library), **variables)

    logs = sorted(tiers["logs"].glob("*.darshan"))
    # One of each process that reads, and one of the command that starts them.
    assert len(logs) == PROCESSES + 1
    read: dict[str, int] = defaultdict(int)
    for line in run("darshan", "--json", *logs).splitlines():
        for record in json.loads(line)["records"].get("POSIX", []):
            tier = next((name for name in ("gfs", "lfs") if below(record, tiers[name])), "other")
            read[tier] += record["counters"]["POSIX_BYTES_READ"]
    assert (read["gfs"], read["lfs"]) == (FILES * BYTES // 2, FILES * BYTES // 2)

    prefixes = ["--gfs", tiers["gfs"], "--lfs", tiers["lfs"]]
    classes = json.loads(run("classes", *logs, *prefixes, "--json"))
    rows = classes["points"][0]["processes"]
    assert sum(row["total_s"] > 0 for row in rows) == PROCESSES
    names = {name for row in rows for name, seconds in row["seconds"].items() if seconds > 0}
    assert names == {"GFS-READ", "GFS-META", "LFS-READ", "LFS-META"}


def below(record: dict[str, Any], tier: Path) -> bool:
    """Whether it is of a file of the data set, and not of what describes the set."""
    path = Path(record["file"])
    return path.is_relative_to(tier) and path.name.startswith("img_")
