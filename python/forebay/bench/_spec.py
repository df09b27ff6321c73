"""What a run is: `run.json`, written by the runner before the start, and who this rank is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forebay.bench._values import BenchError

_MAX_BYTES = 1 << 20

# Who a process is, as launchers tell it: rank, world size, local rank. The runner's own words come
# first: it may itself have been started by one of the others.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)


@dataclass(frozen=True)
class Spec:
    """The parts of `run.json` that a Python rank needs."""

    benchmark: str
    run_id: str
    # Where manifests go: the folder of `run.json`.
    folder: Path
    argv: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    engine: str = "python"
    iterations: int = 10
    warmup: int = 1
    seed: int = 0
    interface: str = "native"
    drop_cache: str = "none"
    fsync: str = "none"
    timeout_s: float = 3600.0
    dataset_path: str = ""
    work_dir: str = ""
    backend: str = "auto"
    dist_init: str = "env"
    module: str | None = None
    keep_data: bool = False
    # By the clock of the machine that started the run; 0 where nobody says.
    started_unix_ns: int = 0

    def comparable(self) -> dict[str, Any]:
        """All that must be equal for two runs to be comparable."""
        common = ("engine", "interface", "drop_cache", "fsync", "seed")
        return {**self.params, **{name: getattr(self, name) for name in common}}


def read(path: Path) -> Spec:
    """Read `run.json`.

    Raises:
        BenchError: it is not there, or is none.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise BenchError(f"`{path}` has more than {_MAX_BYTES} bytes")
        found = json.loads(path.read_text())
    except OSError as error:
        raise BenchError(f"cannot read `{path}`: {error.strerror}") from error
    except ValueError as error:
        raise BenchError(f"`{path}` is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BenchError(f"`{path}` must hold an object")
    if found.get("schema", 1) != 1:
        raise BenchError(
            f"version {found['schema']} of a run's settings is not known; this package has 1"
        )
    names = [name for name in Spec.__dataclass_fields__ if name != "folder"]
    values = {name: found[name] for name in names if found.get(name) is not None}
    for name in ("benchmark", "run_id"):
        if not isinstance(values.get(name), str):
            raise BenchError(f"`{path}` must name its `{name}`")
    spec = Spec(folder=path.resolve().parent, **values)
    for name in ("iterations", "warmup", "timeout_s"):
        if not isinstance(getattr(spec, name), (int, float)) or getattr(spec, name) < 0:
            raise BenchError(f"`{name}` must be 0 or more: `{getattr(spec, name)}`")
    return spec


@dataclass(frozen=True)
class Place:
    """Which of the ranks this process is."""

    rank: int
    world_size: int
    local_rank: int


def place(environment: Mapping[str, str] | None = None) -> Place:
    """Find out which rank this process is; the only one where nothing says so.

    Raises:
        BenchError: the environment says something that cannot be.
    """
    environment = os.environ if environment is None else environment
    for names in _LAUNCHERS:
        if names[0] not in environment or names[1] not in environment:
            continue
        try:
            rank, size = int(environment[names[0]]), int(environment[names[1]])
            local = int(environment.get(names[2], rank))
        except ValueError as error:
            raise BenchError(f"`{names[0]}` and its like must be numbers: {error}") from error
        if not 0 <= rank < size:
            raise BenchError(f"`{names[0]}` must be below `{names[1]}`: {rank} and {size}")
        return Place(rank, size, local)
    return Place(0, 1, 0)
