"""Every row runs in small and says what a reader needs; nothing is said about speed."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import belady, row, scene
from bench.ping_pong import PingPong
from bench.rounds import alternate, centre
from bench.row import Row
from bench.run import ROWS, parse
from bench.setting import prepared

TREE = Path(__file__).parents[2]
SCHEMA = {
    "name": str,
    "ratio": float,
    "target": float,
    "better": str,
    "n": int,
    "baseline": str,
    "spread": float,
    "conditions": dict,
}
# A benchmark may have variants, each of them a row.
VARIANTS = {
    "cold_sample": {"cold_sample", "cold_sample_two_extents"},
    "ahead": {
        "ahead_epoch1",
        "ahead_epoch2",
        "ahead_wall",
        "ahead_speedup",
        "ahead_speedup_epoch2",
    },
    "evict": {"evict_plan_25", "evict_plan_50", "evict_plan_75", "evict_pin"},
    "stager_cpu": {"stager_cpu", "stager_cpu_cold"},
    "hdf5_index": {"hdf5_index_kerchunk", "hdf5_index_h5py"},
    "mount_read": {"mount_read_resident", "mount_read_partly"},
    "preload": {"preload_pread", "preload_foreign"},
    "suite_python": {"suite_python_list", "suite_python_fsspec"},
    "suite_measuring": {"suite_measuring_create", "suite_measuring_list"},
    "remote_fabric": {
        "remote_fabric_tcp",
        "remote_fabric_tcp_one",
        "remote_fabric_shm",
        "remote_fabric_shm_one",
    },
    "big_index": {"index_open", "index_memory", "key_lookup"},
}
EXPECTED = {name for row in ROWS for name in VARIANTS.get(row, {row})}
# Those on the emulated tier; where none can be mounted they are skipped and say why.
ON_TIER = (
    "ahead",
    "evict",
    "resume",
    "stager_cpu",
    "mount_read",
    "mount_listing",
    "preload_epoch",
)
TIER = {name for row in ON_TIER for name in VARIANTS.get(row, {row})}
# Measured only where the other side is installed.
OPTIONAL = {"hdf5_index_kerchunk"} | VARIANTS["remote_fabric"]
SUITE = {name for name in EXPECTED if name.startswith("suite_")}
INDEXING = VARIANTS["big_index"] | {"files_index"}
SECONDS = INDEXING | {"hdf5_index_kerchunk", "hdf5_index_h5py", "flatten_lzf", "plan_cluster"}
LATENCIES = (
    EXPECTED
    - TIER
    - SECONDS
    - SUITE
    - VARIANTS["preload"]
    - VARIANTS["remote_fabric"]
    - {"origin_bytes", "darshan_read", "remote_clients", "remote_memory"}
)


def bench(out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "--quick", "--out", str(out), *words]
    return subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Summary of one quick run of everything."""
    out = tmp_path_factory.mktemp("bench")
    done = bench(out)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads((out / "summary.json").read_text())
    for found in rows:
        assert found["name"] in done.stdout
    assert [path.name for path in out.iterdir()] == ["summary.json"], "files are left behind"
    return rows


def test_every_row_is_in_the_summary(summary: list[dict[str, Any]]) -> None:
    assert sorted(found["name"] for found in summary) == sorted(EXPECTED)


def test_rows_have_the_documented_fields(summary: list[dict[str, Any]]) -> None:
    for found in summary:
        if "skipped" in found:
            assert found["name"] in TIER | OPTIONAL
            assert found["name"] in OPTIONAL or scene.why_not() == found["skipped"]
            continue
        extra = {"value", "unit"} & set(found)
        assert set(found) - extra == set(SCHEMA)
        assert extra in (set(), {"value", "unit"})
        for name, kind in SCHEMA.items():
            assert isinstance(found[name], kind), name
        assert all(math.isfinite(found[name]) for name in ("ratio", "target", "spread"))
        assert found["better"] in ("lower", "higher")
        assert found["n"] > 0
        assert found["spread"] >= 0


def test_latencies_stand_beside_the_wake_up_cost(summary: list[dict[str, Any]]) -> None:
    for found in summary:
        if found["name"] in LATENCIES:
            assert all(found["conditions"][name] > 0 for name in row.TIMES)


def test_added_times_are_in_proportion_to_their_target(summary: list[dict[str, Any]]) -> None:
    added = [found for found in summary if "value" in found and found["name"] in LATENCIES]
    assert {found["name"] for found in added} >= {"small_sample", "cold_sample"}
    for found in added:
        allowed = found["conditions"]["allowed_us"]
        assert found["target"] == 1.0
        assert found["ratio"] == pytest.approx(found["value"] / allowed)


def test_rows_of_a_fabric_measure_it_and_no_fallback(summary: list[dict[str, Any]]) -> None:
    for name in VARIANTS["remote_fabric"]:
        conditions = measured(summary, name)
        assert conditions["failed_reads"] == 0
        # Whatever lies at the end of a file may be too little for it.
        assert conditions["fabric_bytes"] > conditions["peer_bytes"] / 2


def test_cold_samples_come_through_the_daemon(summary: list[dict[str, Any]]) -> None:
    for found in summary:
        if found["name"].startswith("cold_sample"):
            # Of one extent 5 or 6 blocks; each sample once, those of the warm-up too.
            fills, extents = found["conditions"]["origin_reads"], found["conditions"]["extents"]
            assert fills == (found["n"] + 3) * extents
            assert found["conditions"]["filled_blocks"] >= 5 * (found["n"] + 3)


def test_whole_blocks_are_fetched_and_each_once(summary: list[dict[str, Any]]) -> None:
    (found,) = (found for found in summary if found["name"] == "origin_bytes")
    # 286,000 bytes lie in 5 or 6 blocks of 65,536.
    assert 5 * 65_536 / 286_000 <= found["ratio"] <= 6 * 65_536 / 286_000
    assert 1.0 <= found["conditions"]["whole_epoch_two_extents_ratio"] < found["ratio"]


def measured(summary: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Conditions of a row on the tier."""
    (found,) = (found for found in summary if found["name"] == name)
    if "skipped" in found:
        pytest.skip(found["skipped"])
    conditions: dict[str, Any] = found["conditions"]
    return conditions | {"n": found["n"], "ratio": found["ratio"]}


def test_late_iterations_are_named(summary: list[dict[str, Any]]) -> None:
    for name in ("ahead_epoch1", "ahead_epoch2"):
        found = measured(summary, name)
        assert found["n"] == found["samples"] // found["batch"]
        counted = found["over_window"] - found["over_window_for_the_start_of_workers"]
        assert found["ratio"] == pytest.approx(counted / found["n"])
        assert len(found["late"]) == min(found["over_window"], 20)
        assert found["data_bytes"] >= 4 * found["ranks"] * found["look_ahead_bytes_a_rank"]


def test_an_epoch_is_read_from_the_origin_once(summary: list[dict[str, Any]]) -> None:
    first, second = (measured(summary, f"ahead_epoch{epoch}") for epoch in (1, 2))
    reads = [each["metrics"]["filled_blocks"] for each in (first, second)]
    assert reads[0] == reads[1] >= first["data_bytes"] // 65_536


def test_no_cache_hits_more_than_is_possible(summary: list[dict[str, Any]]) -> None:
    for share in (25, 50, 75):
        found = measured(summary, f"evict_plan_{share}")
        assert found["hit_rate_percent"] <= found["belady_percent"] < 100
        assert sum(found["origin_blocks_an_epoch"]) >= found["blocks"]


def test_pinned_blocks_are_not_evicted(summary: list[dict[str, Any]]) -> None:
    assert measured(summary, "evict_pin")["metrics"]["evicted_blocks"] == 0


def test_the_daemon_works_while_its_cpu_time_is_taken(summary: list[dict[str, Any]]) -> None:
    cold, resident = (measured(summary, name) for name in ("stager_cpu_cold", "stager_cpu"))
    assert cold["origin_bytes"] > 0 == resident["origin_bytes"]
    assert cold["core_share_of_threads"]["stager"] > 0


def test_without_a_tier_rows_say_why_they_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with prepared(tmp_path, quick=True, seed=1) as setting:
        found = [found for name in ON_TIER for found in ROWS[name](setting)]
    assert {each.name for each in found} == TIER
    assert all(each.is_met and "/dev/fuse" in row.table([each]) for each in found)
    assert all("/dev/fuse" in each.as_json()["skipped"] for each in found)


def best_hits(order: list[int], capacity: int) -> int:
    """The most hits there can be, by trying every choice."""

    def best(at: int, kept: frozenset[int]) -> int:
        if at == len(order):
            return 0
        block = order[at]
        if block in kept:
            return 1 + best(at + 1, kept)
        choices = [kept]
        if len(kept) < capacity:
            choices.append(kept | {block})
        choices += [kept - {victim} | {block} for victim in kept]
        return max(best(at + 1, choice) for choice in choices)

    return best(0, frozenset())


@pytest.mark.parametrize("seed", range(20))
def test_belady_is_the_best_there_is(seed: int) -> None:
    order = np.random.default_rng(seed).integers(0, 5, 9).tolist()
    for capacity in (1, 2, 3):
        assert belady.hits([[block] for block in order], capacity) == best_hits(order, capacity)


def test_one_row_can_be_run_alone_and_leaves_the_others(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    summary.write_text(json.dumps([{"name": "small_sample", "ratio": 9}, {"name": "other"}]))
    done = bench(tmp_path, "--only", "small_sample")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(summary.read_text())
    assert first == {"name": "other"}
    assert second["name"] == "small_sample" and second["ratio"] != 9


def test_a_row_is_found_by_its_own_name() -> None:
    assert parse(["--only", "ahead_epoch1"]).only == "ahead"
    with pytest.raises(SystemExit):
        parse(["--only", "aheadepoch1"])


def test_a_row_that_cannot_run_is_an_error(tmp_path: Path) -> None:
    shutil.copy("/bin/false", tmp_path / "no-daemon")
    environment = os.environ | {"FOREBAY_COMMAND": str(tmp_path / "no-daemon")}
    out = tmp_path / "out"
    command = [sys.executable, "-m", "bench", "--quick", "--only", "small_sample"]
    command += ["--out", str(out)]
    done = subprocess.run(
        command, cwd=TREE, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "`small_sample` failed" in done.stderr
    assert json.loads((out / "summary.json").read_text()) == []


@pytest.mark.parametrize(
    ("better", "ratio", "is_met"),
    [("lower", 1.0, True), ("lower", 1.01, False), ("higher", 1.0, True), ("higher", 0.99, False)],
)
def test_a_missed_target_shows(better: Any, ratio: float, is_met: bool) -> None:
    found = Row("x", ratio, 1.0, n=1, baseline="y", spread=0.0, better=better)
    assert found.is_met == is_met
    assert ("MISSED" in row.table([found])) == (not is_met)


def test_rounds_alternate_and_leave_the_warm_up_out() -> None:
    calls: list[tuple[str, int]] = []
    with PingPong() as ping_pong:
        found = alternate(
            lambda number: calls.append(("subject", number)),
            lambda number: calls.append(("baseline", number)),
            rounds=4,
            units=1,
            ping_pong=ping_pong,
        )
    assert len(found) == len(found.baseline) == len(found.ping_pong) == 4
    assert sorted({number for _, number in calls}) == list(range(7))
    assert [who for who, _ in calls[::2]] == ["baseline", "subject"] * 3 + ["baseline"]


def test_a_rest_stands_before_each_side(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr("bench.rounds.time.sleep", lambda seconds: done.append(f"rest {seconds}"))
    with PingPong() as ping_pong:
        alternate(
            lambda _: done.append("subject"),
            lambda _: done.append("baseline"),
            rounds=1,
            units=1,
            ping_pong=ping_pong,
            rest_s=0.25,
        )
    assert done[:5] == ["rest 0.25", "baseline", "rest 0.25", "subject", "rest 0.25"]


def test_a_disturbed_round_does_not_move_the_figure() -> None:
    values = np.array([1.0, 1.1, 1.2, 50.0, 1.1, 1.0, 1.2])
    middle, spread = centre(values)
    assert middle == pytest.approx(1.1)
    assert spread < 0.2
