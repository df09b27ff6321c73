"""What a training run writes down of itself, and that the commands read it."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from node import Node
from worlds import World

import forebay.torch as fb
from forebay._command import run_command
from forebay.torch.loader import _Answer, _Lead

SIZE = 5000
SAMPLES = 24
BATCH = 4


@pytest.fixture
def files(tmp_path: Path) -> World:
    return World.of_noise(tmp_path / "origin", SAMPLES, SIZE)


def train(node: Node, files: World, records: Path | None, **options: Any) -> list[list[bytes]]:
    """Two epochs; what each delivered."""
    dataset = fb.Dataset(node.open(files.index))
    sampler = fb.Sampler(dataset, seed=3, rank=0, world_size=1, look_ahead=False)
    loader = fb.DataLoader(dataset, batch_size=BATCH, sampler=sampler, records=records, **options)
    seen = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        seen.append([row.numpy().tobytes() for batch in loader for row in batch["data"]])
    return seen


def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    (file,) = folder.iterdir()
    found = defaultdict(list)
    for line in file.read_text().splitlines():
        record = json.loads(line)
        found[record.pop("record")].append(record)
    return found


def workers(method: str | None) -> dict[str, Any]:
    if method is None:
        return {}
    return {"num_workers": 2, "multiprocessing_context": method, "persistent_workers": True}


@pytest.mark.parametrize("method", [None, "fork", "spawn"])
def test_every_iteration_says_who_answered_it(
    node: Node, files: World, tmp_path: Path, method: str | None
) -> None:
    folder = tmp_path / "records"
    seen = train(node, files, folder, **workers(method))
    assert seen == train(node, files, None), "the batches are as without records"
    found = read(folder)
    iterations = found["iteration"]
    assert [(each["epoch"], each["iteration"]) for each in iterations] == [
        (epoch, number) for epoch in (1, 2) for number in range(SAMPLES // BATCH)
    ]
    for each in iterations:
        answered = [each[f"{who}_bytes"] for who in ("local", "peer", "staged", "direct")]
        assert sum(answered) == BATCH * SIZE, each
        assert 0 <= each["wait_s"] <= each["total_s"]
        assert (each["late_s"] > 0) == (each["local_bytes"] < BATCH * SIZE), each
    assert sum(each["staged_bytes"] for each in iterations[:6]) > 0
    assert {each["local_bytes"] for each in iterations[6:]} == {BATCH * SIZE}
    assert [each["asked_bytes"] for each in found["epoch"]] == 2 * [SAMPLES * SIZE]
    assert len(found["manifest"]) == 1


def test_the_commands_read_the_records(node: Node, files: World, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    train(node, files, folder)
    (file,) = folder.iterdir()
    summary = json.loads(run_command(["report", str(file), "--json"]))
    first, second = summary["epochs"]
    assert first["iterations"] == second["iterations"] == SAMPLES // BATCH
    assert first["local_share"] < 1
    assert (second["local_share"], second["late"]) == (1, 0)
    assert not any("unknown" in sentence for sentence in summary["unread"])
    classes = json.loads(run_command(["tiers", "classes", str(file), "--json"]))
    assert "local-read" in json.dumps(classes)


def test_a_run_has_every_class_of_its_reads(node: Node, files: World, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    train(node, files, folder, **workers("fork"))
    found = read(folder)
    for io, iteration in zip(found["io"], found["iteration"], strict=True):
        seconds = io["seconds"]
        assert set(seconds) == {"origin-read", "origin-meta", "local-read", "local-meta"}
        assert min(seconds.values()) >= 0
        waited = seconds["origin-read"] + seconds["origin-meta"]
        assert waited == pytest.approx(iteration["late_s"])
    epochs = [[io["seconds"] for io in found["io"] if io["epoch"] == each] for each in (1, 2)]
    # The daemon opens the file of each sample; what is resident needs nothing of the origin.
    assert sum(seconds["origin-meta"] for seconds in epochs[0]) > 0
    assert sum(seconds["origin-meta"] for seconds in epochs[1]) == 0
    assert sum(seconds["local-meta"] for seconds in epochs[0]) > 0
    (file,) = folder.iterdir()
    shown = run_command(["tiers", "classes", str(file)])
    for name in ("origin-read", "origin-meta", "local-read", "local-meta"):
        assert name in shown


def test_waits_are_shared_among_those_waited_for() -> None:
    answer = _Answer(
        worker=0,
        local_bytes=1,
        staged_bytes=100,
        peer_bytes=25,
        direct_bytes=0,
        reading_s=3.0,
        waited_s=2.0,
        local_meta_s=0.25,
        origin_meta_s=0.5,
    )
    assert answer.seconds() == {
        "origin-read": 1.125,
        "origin-meta": 0.375,
        "local-read": 1.0,
        "local-meta": 0.25,
        "peer-read": 0.5,
    }


def test_the_environment_asks_for_records(
    node: Node, files: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_RECORDS", str(tmp_path / "records"))
    train(node, files, None)
    train(node, files, None)
    assert len(list((tmp_path / "records").iterdir())) == 2, "each run has a file of its own"


def test_the_numbers_go_on_after_a_resume(node: Node, files: World, tmp_path: Path) -> None:
    dataset = fb.Dataset(node.open(files.index))
    sampler = fb.Sampler(dataset, rank=0, world_size=1)
    sampler.set_epoch(4)
    loader = fb.DataLoader(dataset, sampler=sampler, batch_size=BATCH, records=tmp_path / "records")
    assert len([batch for batch in loader for _ in batch["data"]]) == SAMPLES
    assert {each["epoch"] for each in read(tmp_path / "records")["iteration"]} == {5}


def test_a_loop_that_ends_early_leaves_what_it_had(
    node: Node, files: World, tmp_path: Path
) -> None:
    loader = fb.DataLoader(fb.Dataset(node.open(files.index)), records=tmp_path / "records")
    for number, _ in enumerate(loader):
        if number == 3:
            break
    del loader
    found = read(tmp_path / "records")
    assert len(found["iteration"]) == 3
    assert found["epoch"] == []


def test_the_daemon_is_told_how_far_the_workers_may_be_behind(node: Node, files: World) -> None:
    dataset = fb.Dataset(node.open(files.index))
    sampler = fb.Sampler(dataset, rank=0, world_size=1)
    loader = fb.DataLoader(dataset, sampler=sampler, batch_size=BATCH, **workers("fork"))
    batches = iter(loader)
    announced = loader._announced()
    assert announced is not None and announced.plan is not None
    (batch,) = struct.unpack_from("<I", announced.plan._map, 56)
    assert batch == BATCH
    (unread,) = struct.unpack_from("<Q", announced.plan._map, 88)
    assert unread == (2 * 2 + 1) * BATCH
    assert len(list(batches)) == SAMPLES // BATCH


def test_the_collate_function_is_left_as_it_was(node: Node, files: World, tmp_path: Path) -> None:
    dataset = fb.Dataset(node.open(files.index))
    loader = fb.DataLoader(dataset, collate_fn=len, records=tmp_path / "records", batch_size=BATCH)
    assert list(loader) == [BATCH] * (SAMPLES // BATCH)
    assert loader.collate_fn is len


def test_a_batch_is_staged_before_its_need_by_the_time_it_was_first_seen() -> None:
    plan: Any = SimpleNamespace(staged=0)
    lead = _Lead(SimpleNamespace(plan=plan))  # type: ignore[arg-type]
    assert lead.of(4, 1.0) is None, "not staged"
    plan.staged = 12
    assert lead.of(8, 2.0) == 0.0
    assert lead.of(12, 5.0) == 3.0
    plan.staged = 15
    assert lead.of(16, 6.0) is None
    assert _Lead(None).of(4, 1.0) is None


def test_pinned_batches_are_recorded_as_well(node: Node, files: World, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("pinned memory needs a GPU")
    seen = train(node, files, tmp_path / "records", pin_memory=True, **workers("fork"))
    assert seen == train(node, files, None)
