"""`forebay.torch.StepTimer`: the stages of anybody's loop."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tier import command
from torch.nn.parallel import DistributedDataParallel

import forebay.torch
from forebay.torch import StepTimer

NAP_S = 0.02
STAGES = ("wait_s", "h2d_s", "forward_s", "backward_s", "optimizer_s")


class Slow(torch.nn.Module):
    """Takes its time in the forward pass, and calls itself inside: only the outermost counts."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(NAP_S)
        found: torch.Tensor = self.layer(batch)
        return found


def late(batches: int) -> Iterator[torch.Tensor]:
    for _ in range(batches):
        time.sleep(NAP_S)
        yield torch.ones(2, 4)


def train(
    model: torch.nn.Module, timer: StepTimer, optimizer: Any, loader: Any, epoch: int
) -> None:
    for batch in timer.batches(loader, epoch):
        time.sleep(NAP_S)  # the copy to a device
        loss = model(batch).sum()
        time.sleep(NAP_S)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def read(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.iterdir()
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_stage_gets_what_it_took(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    timer = StepTimer(model, optimizer, records=tmp_path / "records", path="lustre")
    for epoch in range(2):
        train(model, timer, optimizer, late(3), epoch)
    # What runs outside an iteration is nobody's stage.
    model(torch.ones(2, 4))
    timer.close()
    found = read(tmp_path / "records")
    kinds = [each["record"] for each in found]
    assert kinds == ["manifest", *(["iteration"] * 3), "epoch", *(["iteration"] * 3), "epoch"]
    steps = [each for each in found if each["record"] == "iteration"]
    assert [(each["epoch"], each["iteration"]) for each in steps] == [
        (epoch, step) for epoch in (1, 2) for step in range(3)
    ]
    for step in steps:
        assert step["path"] == "lustre"
        # Each nap is in the stage in which it was taken.
        assert all(step[stage] >= NAP_S for stage in STAGES[:4]), step
        assert sum(step[stage] for stage in STAGES) <= step["total_s"]
    # Both commands that read records take them.
    told = json.loads(command("fabric", "report", tmp_path / "records", "--json").stdout)
    (row,) = told["training"]
    assert (row["path"], row["iterations"], row["waits"]["times"]["n"]) == ("lustre", 6, 6)
    (file,) = (tmp_path / "records").iterdir()
    assert len(json.loads(command("report", file, "--json").stdout)["epochs"]) == 2


def test_accumulated_passes_are_summed_and_early_ends_leave_nothing_open(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    timer = StepTimer(model, optimizer, records=tmp_path / "records")
    for batch in timer.batches(late(5)):
        for _ in range(2):
            model(batch).sum().backward()
        optimizer.step()
        if timer.last is not None:
            break
    timer.close()
    # The loop left its second iteration in the middle: the first alone is whole.
    (step,) = [each for each in read(tmp_path / "records") if each["record"] == "iteration"]
    assert step["forward_s"] >= 2 * NAP_S
    # The hooks are gone: nothing more is written.
    train(model, timer, optimizer, late(1), 3)


def test_a_forward_pass_that_fails_does_not_shift_the_next_iteration(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    timer = StepTimer(model, optimizer)
    for number, batch in enumerate(timer.batches(late(3))):
        try:
            model(batch if number else torch.ones(2, 5)).sum().backward()
        except RuntimeError:
            continue
        optimizer.step()
    assert timer.last is not None
    assert timer.last["forward_s"] >= NAP_S and timer.last["backward_s"] > 0
    timer.close()


def test_under_ddp_the_backward_pass_holds_the_all_reduce(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        model = DistributedDataParallel(Slow())
        optimizer = torch.optim.AdamW(model.parameters())
        timer = StepTimer(model, optimizer, records=tmp_path / "records")
        train(model, timer, optimizer, late(2), 0)
        timer.close()
    finally:
        dist.destroy_process_group()
    steps = [each for each in read(tmp_path / "records") if each["record"] == "iteration"]
    assert len(steps) == 2
    for step in steps:
        assert all(step[stage] > 0 for stage in STAGES)
        assert step["forward_s"] >= NAP_S and step["backward_s"] >= NAP_S


def test_the_folder_of_records_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_RECORDS", str(tmp_path / "named"))
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    timer = StepTimer(model, optimizer)
    train(model, timer, optimizer, late(1), 0)
    timer.close()
    assert read(tmp_path / "named")[0]["record"] == "manifest"
    assert forebay.torch.StepTimer is StepTimer
