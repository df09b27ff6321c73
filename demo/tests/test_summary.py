"""The figures follow from the records, and a difference between the paths is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demo import records, summary
from demo.records import Epoch, Iteration

WAITS = {
    ("direct", 1): [0.5, 0.01, 0.9, 0.01],
    ("direct", 2): [0.2, 0.2, 0.2, 0.2],
    ("forebay", 1): [0.3, 0.0, 0.0, 0.0],
    ("forebay", 2): [0.0, 0.0, 0.0, 0.01],
}


def run() -> list[Iteration | Epoch]:
    """Two epochs on each path; every step computes for 40 ms."""
    made: list[Iteration | Epoch] = []
    for (path, epoch), waits in WAITS.items():
        made += [
            Iteration(path, epoch, number, 0, wait, 0.01, 0.02, 0.01, wait + 0.04)
            for number, wait in enumerate(waits)
        ]
        origin = 110 if epoch == 1 else 0
        made.append(Epoch(path, epoch, sum(waits) + 0.16, 100, origin))
    return made


def test_the_summary_has_exactly_the_fields_that_readers_expect() -> None:
    content = summary.summary(summary.figures(run()), True, 64, 7)
    assert list(content) == [
        "epochs",
        "speedup",
        "origin_bytes_over_asked",
        "identical",
        "samples",
        "seed",
    ]
    for epoch in content["epochs"]:
        assert list(epoch) == [
            "path",
            "epoch",
            "wall_s",
            "iterations",
            "wait_median_ms",
            "wait_p95_ms",
            "wait_max_ms",
            "over_window_share",
        ]
    assert [(row["path"], row["epoch"]) for row in content["epochs"]] == list(WAITS)
    assert list(content["speedup"]) == ["epoch1", "epoch2"]
    assert json.loads(json.dumps(content)) == content


def test_figures_follow_from_the_records() -> None:
    content = summary.summary(summary.figures(run()), True, 64, 7)
    first = content["epochs"][0]
    assert first["iterations"] == 4
    assert first["wait_median_ms"] == pytest.approx(255)
    assert first["wait_max_ms"] == pytest.approx(900)
    assert [row["over_window_share"] for row in content["epochs"]] == [0.5, 1.0, 0.25, 0.0]
    assert content["speedup"]["epoch1"] == pytest.approx(1.58 / 0.46)
    assert content["speedup"]["epoch2"] == pytest.approx(0.96 / 0.17)
    assert content["origin_bytes_over_asked"] == pytest.approx(110 / 200)


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "records.jsonl"
    records.start(file, records.manifest({"samples": 64}, ["synthetic"]))
    records.append(file, run()[:5])
    records.append(file, run()[5:])
    first = json.loads(file.read_text().splitlines()[0])
    assert first["record"] == "manifest" and first["tool"] == "forebay-demo"
    assert {"version", "started_unix_ns", "host", "inputs", "conditions"} <= set(first)
    assert list(records.read(file)) == run()


def seen(file: Path, **changes: Any) -> Path:
    """What a path delivered in two epochs of four samples."""
    content: dict[str, Any] = {
        "index": np.array([[0, 1, 2, 3], [3, 1, 0, 2]]),
        "digest": np.arange(32).reshape(2, 4, 4),
        "loss": np.array([[0.5, 0.25], [0.2, 0.1]]),
    }
    for name, (place, value) in changes.items():
        content[name][place] = value
    np.savez(file, **content)
    return file


def test_equal_deliveries_have_no_difference(tmp_path: Path) -> None:
    assert summary.differences(seen(tmp_path / "a.npz"), seen(tmp_path / "b.npz"), 4) == []


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"digest": ((1, 3, 2), -1)}, "bytes"),
        ({"index": ((0, slice(0, 2)), [1, 0])}, "order"),
        ({"loss": ((1, 1), 0.11)}, "losses"),
    ],
)
def test_any_difference_is_named(tmp_path: Path, changes: dict[str, Any], word: str) -> None:
    found = summary.differences(seen(tmp_path / "a.npz"), seen(tmp_path / "b.npz", **changes), 4)
    assert len(found) == 1 and word in found[0]


def test_a_sample_left_out_on_both_paths_is_found(tmp_path: Path) -> None:
    repeated = {"index": ((1, 0), 1)}
    one, two = seen(tmp_path / "a.npz", **repeated), seen(tmp_path / "b.npz", **repeated)
    assert summary.differences(one, two, 4) == ["epoch 2 did not deliver each of 4 samples once"]
