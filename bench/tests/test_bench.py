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

from bench import row
from bench.ping_pong import PingPong
from bench.rounds import alternate, centre
from bench.row import Row
from bench.run import ROWS

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
EXPECTED = {*ROWS, "cold_sample_two_extents"}


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
        if found["name"] != "origin_bytes":
            assert all(found["conditions"][name] > 0 for name in row.TIMES)


def test_added_times_are_in_proportion_to_their_target(summary: list[dict[str, Any]]) -> None:
    added = [found for found in summary if "value" in found]
    assert {found["name"] for found in added} >= {"small_sample", "cold_sample"}
    for found in added:
        allowed = found["conditions"]["allowed_us"]
        assert found["target"] == 1.0
        assert found["ratio"] == pytest.approx(found["value"] / allowed)


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


def test_one_row_can_be_run_alone(tmp_path: Path) -> None:
    done = bench(tmp_path, "--only", "small_sample")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "summary.json").read_text())
    assert [found["name"] for found in rows] == ["small_sample"]


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


def test_a_disturbed_round_does_not_move_the_figure() -> None:
    values = np.array([1.0, 1.1, 1.2, 50.0, 1.1, 1.0, 1.2])
    middle, spread = centre(values)
    assert middle == pytest.approx(1.1)
    assert spread < 0.2
