"""PyTorch's loader, which also writes down what each iteration waited for."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch.utils.data

from forebay import _native
from forebay._plan import Announced, Planner
from forebay._records import RecordFile
from forebay.torch._place import place_in_world
from forebay.torch.look_ahead import samplers_in

_VARIABLE = "FOREBAY_RECORDS"


class DataLoader(torch.utils.data.DataLoader[Any]):
    """`torch.utils.data.DataLoader`, the same for its user but for the records that it can leave.

    It also tells the daemon how far its workers read behind the sampler, so that eviction from a
    cache that is smaller than the data set spares what they are about to read.

    With `records`, or where the environment says `FOREBAY_RECORDS`, each rank writes a file of raw
    records there: for every iteration how long the trainer was blocked on the loader, who answered
    the reads of its batch and how long they took, and how long before its need the batch had been
    staged. `forebay report FILE…` makes tables and a page of them, `forebay tiers classes FILE…`
    the classes of I/O. The batches and their order are as without.

    Args:
        records: folder for the files. Default: `FOREBAY_RECORDS`, or no records.
        others: as of PyTorch's loader.

    Raises:
        OSError: the folder cannot be written (when an iteration begins).
    """

    def __init__(
        self,
        dataset: Any,
        *args: Any,
        records: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dataset, *args, **kwargs)
        self.records = os.environ.get(_VARIABLE) or None if records is None else records
        self._recorder: _Recorder | None = None

    def __iter__(self) -> Any:
        for planner in self._planners():
            planner.batch = self.batch_size or 0
        if self.records is None:
            batches = super().__iter__()
            self._tell_read_ahead(self._announced())
            return batches
        # Workers take the function along when they start; nobody else gets to see it.
        collate = self.collate_fn
        self.collate_fn = _Answering(collate)
        try:
            batches = super().__iter__()
        finally:
            self.collate_fn = collate
        announced = self._announced()
        self._tell_read_ahead(announced)
        if self._recorder is None:
            self._recorder = _Recorder(self, self.records)
        return self._recorder.epoch(batches, announced)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recorder": None}

    def _tell_read_ahead(self, announced: Announced | None) -> None:
        """Let eviction know how far the workers' reads may be behind the sampler."""
        if announced is not None and self.num_workers:
            batches = self.num_workers * (self.prefetch_factor or 0) + 1
            announced.may_be_unread(batches * (self.batch_size or 1))

    def _announced(self) -> Announced | None:
        """The order being handed out, if the daemon was told."""
        for planner in self._planners():
            if planner.current is not None:
                return planner.current
        return None

    def _planners(self) -> Iterator[Planner]:
        """What announces the orders of the samplers."""
        for sampler in samplers_in(self.batch_sampler or self.sampler):
            planner = sampler.__dict__.get("_planner")
            if planner is not None:
                yield planner


@dataclass(frozen=True)
class _Answer:
    """Who answered the reads of a batch, and how long they took."""

    worker: int
    local_bytes: int
    staged_bytes: int
    # Of whole blocks, so that it may be more than was asked for.
    peer_bytes: int
    direct_bytes: int
    reading_s: float
    waited_s: float
    local_meta_s: float
    # Of waits, as if all of what was waited for came from the origin.
    origin_meta_s: float

    @property
    def from_peers_bytes(self) -> int:
        """What of `staged_bytes` other nodes gave."""
        return min(self.peer_bytes, self.staged_bytes)

    def seconds(self) -> dict[str, float]:
        """The time of the reads by class of I/O; waits are shared among those waited for by bytes."""
        absent = self.staged_bytes + self.direct_bytes
        from_peers = self.from_peers_bytes / absent if absent else 0.0
        origin_meta = min(self.origin_meta_s, self.waited_s)
        found = {
            "origin-read": (self.waited_s - origin_meta) * (1 - from_peers),
            "origin-meta": origin_meta * (1 - from_peers),
            "local-read": max(0.0, self.reading_s - self.waited_s),
            "local-meta": self.local_meta_s,
        }
        if from_peers:
            found["peer-read"] = self.waited_s * from_peers
        return found


class _Answering:
    """Collates, and tells beside each batch who answered the reads for it.

    The numbers are those of the process since its batch before. A forked worker begins with its
    parent's numbers, a spawned one at 0.
    """

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self._collate = collate
        self._before = _native.answered()

    def __call__(self, samples: Any) -> tuple[Any, tuple[Any, ...]]:
        now = _native.answered()
        since = [each - before for each, before in zip(now, self._before, strict=True)]
        self._before = now
        worker = torch.utils.data.get_worker_info()
        return self._collate(samples), (0 if worker is None else worker.id, *since)

    def __getstate__(self) -> dict[str, Any]:
        return {"_collate": self._collate, "_before": (0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)}


class _Recorder:
    """Writes the records of one rank."""

    def __init__(self, loader: DataLoader, folder: str | os.PathLike[str]) -> None:
        self._loader = loader
        self._rank, world_size = place_in_world(None, None)
        inputs = {
            "rank": self._rank,
            "world_size": world_size,
            "batch_size": loader.batch_size,
            "workers": loader.num_workers,
            "prefetch_factor": loader.prefetch_factor,
        }
        self._file = RecordFile(folder, rank=self._rank, inputs=inputs)
        self._epochs = 0

    def epoch(self, batches: Iterator[Any], announced: Announced | None) -> Iterator[Any]:
        try:
            yield from self._epoch(batches, announced)
        finally:
            # Of a loop that ends early, too.
            self._file.flush()

    def _epoch(self, batches: Iterator[Any], announced: Announced | None) -> Iterator[Any]:
        self._epochs += 1
        # Of whichever epoch comes, so that the numbers go on after a resume.
        number = max(self._epochs, getattr(self._loader.sampler, "epoch", 0) + 1)
        self._epochs = number
        lead = _Lead(announced)
        asked = 0
        began = asked_for = time.perf_counter()
        for iteration, (batch, answer) in enumerate(batches):
            arrived = time.perf_counter()
            answered = _Answer(*answer)
            taken = (iteration + 1) * (self._loader.batch_size or 0)
            ahead = lead.of(taken, arrived)
            yield batch
            done = time.perf_counter()
            times = (arrived - asked_for, done - asked_for)
            self._iteration(number, iteration, times, answered, ahead)
            asked += answered.local_bytes + answered.staged_bytes + answered.direct_bytes
            asked_for = time.perf_counter()
        if asked_for > began:
            wall = time.perf_counter() - began
            self._file.write("epoch", path="forebay", epoch=number, wall_s=wall, asked_bytes=asked)

    def _iteration(
        self,
        epoch: int,
        iteration: int,
        times: tuple[float, float],
        answered: _Answer,
        ahead: float | None,
    ) -> None:
        wait, total = times
        about = {"epoch": epoch, "iteration": iteration}
        lead = {} if ahead is None else {"lead_s": ahead}
        self._file.write(
            "iteration",
            path="forebay",
            **about,
            rank=self._rank,
            wait_s=wait,
            total_s=total,
            local_bytes=answered.local_bytes,
            peer_bytes=answered.from_peers_bytes,
            staged_bytes=answered.staged_bytes - answered.from_peers_bytes,
            direct_bytes=answered.direct_bytes,
            late_s=answered.waited_s,
            **lead,
        )
        process = f"rank {self._rank} worker {answered.worker}"
        self._file.write("io", process=process, **about, seconds=answered.seconds())


class _Lead:
    """How long before its need a batch had been staged."""

    def __init__(self, announced: Announced | None) -> None:
        self._announced = announced
        # When the daemon was first seen to be so far.
        self._seen: deque[tuple[int, float]] = deque(maxlen=65536)

    def of(self, taken: int, now: float) -> float | None:
        """Seconds since the first `taken` samples were staged; None if they are not, or unknown."""
        plan = None if self._announced is None else self._announced.plan
        if plan is None or taken == 0:
            return None
        staged = plan.staged
        if not self._seen or staged > self._seen[-1][0]:
            self._seen.append((staged, now))
        while self._seen and self._seen[0][0] < taken:
            self._seen.popleft()
        return now - self._seen[0][1] if self._seen else None
