"""The records of one rank of a study."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from forebay._records import RecordFile
from forebay.fabric import FabricError
from forebay.fabric.options import Options
from forebay.fabric.world import World


def begin(options: Options, world: World, conditions: Sequence[str]) -> RecordFile:
    """A file for this rank in the folder of the study.

    Raises:
        FabricError: it cannot be written.
    """
    inputs = {
        "kind": options.command,
        "run": world.run_id(),
        "rank": world.rank,
        "world_size": world.size,
        "backend": world.backend,
        "device": _device(world),
        "launcher": world.launcher,
        **options.inputs(),
    }
    try:
        return RecordFile(
            options.out,
            rank=world.rank,
            inputs=inputs,
            tool=f"forebay fabric {options.command}",
            conditions=[*options.note, *conditions],
        )
    except OSError as error:
        raise FabricError(f"cannot write records in `{options.out}`: {error.strerror}") from None


def _device(world: World) -> str:
    if world.device.type == "cuda":
        return torch.cuda.get_device_name(world.device)
    return f"CPU, {len(os.sched_getaffinity(0))} cores"


def machine_conditions(options: Options) -> list[str]:
    """What the machine was doing when the run began."""
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    found = [f"Load of the machine at the start: {load:.1f} on {cores} cores."]
    if load > 0.7 * cores:
        found.append(
            "The machine was busy with other work at the start: repeat the run on an idle one."
        )
    return found


def write(file: RecordFile, kind: str, **fields: Any) -> None:
    """Append a record, and say a full disk in words.

    Raises:
        FabricError: it cannot be written.
    """
    try:
        file.write(kind, **fields)
    except OSError as error:
        raise FabricError(f"cannot write records `{file.path}`: {error.strerror}") from None
