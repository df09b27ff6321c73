"""How each rank of a study finds its place among the others. Needs no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forebay.fabric import FabricError

# Set by `launch` for the ranks that it starts, and by nobody else.
MEET = "FOREBAY_FABRIC_MEET"

# Variables of rank, world size and rank on the node, by launcher.
_LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID"),
)
# What names the run, for those who meet in a folder.
_RUNS = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
    ("PALS_APID",),
    ("FLUX_JOB_ID",),
)


@dataclass(frozen=True)
class Place:
    """Where this process is among the ranks."""

    rank: int
    size: int
    local_rank: int
    launcher: str


def place(env: Mapping[str, str]) -> Place | None:
    """What a launcher says; `None` if none started this process.

    Raises:
        FabricError: what it says are no numbers, or they contradict each other.
    """
    for launcher, *names in _LAUNCHERS:
        if names[0] not in env or names[1] not in env:
            continue
        # A shell inside an allocation has these too, without being a task of a step.
        if launcher == "Slurm" and "SLURM_STEP_ID" not in env:
            continue
        values = []
        for name in names:
            text = env.get(name, "0")
            if not re.fullmatch(r"\d{1,9}", text):
                raise FabricError(f"`{name}` must be a number: `{text}`")
            values.append(int(text))
        rank, size, local_rank = values
        if rank >= size:
            raise FabricError(
                f"this is rank {rank} of {size}, as `{names[0]}` and `{names[1]}` say"
            )
        return Place(rank, size, local_rank, "forebay fabric" if MEET in env else launcher)
    return None


def meeting(env: Mapping[str, str], folder: Path | None) -> str:
    """How the ranks find each other, as `torch.distributed` takes it.

    Raises:
        FabricError: nothing says where.
    """
    own = env.get(MEET)
    if own:
        return f"file://{own}"
    if folder is not None:
        run = next(
            (
                "-".join(env[name] for name in names)
                for names in _RUNS
                if all(env.get(n) for n in names)
            ),
            "run",
        )
        plain = re.sub(r"[^\w.-]", "-", run)[:100]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FabricError(f"cannot meet in `{folder}`: {error.strerror}") from None
        return f"file://{folder.absolute()}/forebay-fabric-{plain}"
    if env.get("MASTER_ADDR") and env.get("MASTER_PORT"):
        return "env://"
    raise FabricError(
        "the launcher names no address at which the ranks meet: set MASTER_ADDR and MASTER_PORT, or "
        "name a new folder that all see with --meet"
    )
