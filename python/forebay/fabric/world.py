"""What the ranks of a study do together."""

from __future__ import annotations

import os
import uuid
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from forebay.fabric import FabricError
from forebay.fabric.place import Place, meeting


class World:
    """The ranks together, while this is entered."""

    def __init__(self, at: Place, backend: str, meet: Path | None, timeout_s: float) -> None:
        self.rank, self.size = at.rank, at.size
        self.launcher = at.launcher
        # Makes what one process of each node makes.
        self.is_first_here = at.local_rank == 0
        gpus = torch.cuda.device_count()
        if backend == "auto":
            backend = "nccl" if gpus and dist.is_nccl_available() else "gloo"
        if backend == "nccl" and not gpus:
            raise FabricError("NCCL needs GPUs, and this node shows none: use --backend gloo")
        self.backend = backend
        on_gpu = backend == "nccl"
        self.device = torch.device("cuda", at.local_rank % gpus) if on_gpu else torch.device("cpu")
        self._meet = meeting(os.environ, meet)
        self._timeout = timedelta(seconds=max(1.0, timeout_s))
        self._control: Any = None

    def __enter__(self) -> World:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        with lost_ranks():
            dist.init_process_group(
                self.backend,
                init_method=self._meet,
                rank=self.rank,
                world_size=self.size,
                timeout=self._timeout,
            )
            # Words and barriers go over the CPU, so that they do not take part in what is timed.
            self._control = dist.new_group(backend="gloo") if self.backend != "gloo" else None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After a fault the others may never come: to wait for them would hang.
        if kind is None:
            dist.destroy_process_group()

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        with lost_ranks():
            dist.barrier(group=self._control)

    def all_or_none(self, fault: str | None) -> None:
        """Go on only if no rank has a fault.

        Raises:
            FabricError: the first fault that one of them has.
        """
        for each in self.gathered(fault):
            if each is not None:
                raise FabricError(each)

    def gathered(self, value: Any) -> list[Any]:
        """What each rank has, in their order."""
        found: list[Any] = [None] * self.size
        with lost_ranks():
            dist.all_gather_object(found, value, group=self._control)
        return found

    def run_id(self) -> str:
        """A name for this run that no other has, the same on all ranks."""
        name: str = self.gathered(uuid.uuid4().hex[:12])[0]
        return name


class lost_ranks:
    """Says in words that a rank has ended, where a collective fails."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, RuntimeError):
            first = str(error).strip().splitlines()[0] if str(error).strip() else kind
            raise FabricError(
                f"a collective failed, as it does when a rank has ended: {first}"
            ) from error
