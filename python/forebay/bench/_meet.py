"""How ranks wait for each other: through rank 0, through a folder, or through PyTorch.

Every wait ends at the run's deadline, and soon after another rank failed.
"""

from __future__ import annotations

import json
import os
import socket
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from forebay.bench._spec import Place, Spec

_POLL_S = 0.005
_MAX_HELLO = 4096


class MeetError(Exception):
    """Other ranks did not come, failed, or are of another run."""


class Group(ABC):
    """The ranks of a run."""

    backend: str | None = None

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def barrier(self) -> None:
        """Wait until every rank is here.

        Raises:
            MeetError: another rank failed, or the run's time is over.
        """

    @abstractmethod
    def close(self, *, failed: bool) -> None:
        """Leave the others; with `failed`, let them know."""


class Alone(Group):
    """The only rank."""

    def barrier(self) -> None:
        pass

    def close(self, *, failed: bool) -> None:
        pass


class TcpGroup(Group):
    """Ranks that meet at a socket of rank 0: each sends a byte, and gets one when all are there."""

    def __init__(self, place: Place, run_id: str, deadline: float) -> None:
        super().__init__(place)
        self._deadline = deadline
        self._run_id = run_id
        self._peers: dict[int, socket.socket] = {}
        try:
            address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        except (KeyError, ValueError) as error:
            raise MeetError(
                f"cannot meet {place.world_size - 1} other ranks: `MASTER_ADDR` and `MASTER_PORT` must say where"
            ) from error
        if place.rank == 0:
            self._receive(address)
        else:
            self._join(address)

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise MeetError(
                f"rank {self.place.rank} waited for others until the run's time was over"
            )
        return left

    def _receive(self, address: tuple[str, int]) -> None:
        with socket.create_server(address, backlog=self.place.world_size) as server:
            while len(self._peers) < self.place.world_size - 1:
                server.settimeout(self._left())
                try:
                    peer, _ = server.accept()
                except TimeoutError:
                    continue
                rank = self._welcome(peer)
                if rank is None or rank in self._peers:
                    peer.close()
                else:
                    self._peers[rank] = peer

    def _welcome(self, peer: socket.socket) -> int | None:
        """The rank of a peer, if it is one of this run."""
        peer.settimeout(min(10.0, self._left()))
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hello = b""
        try:
            while not hello.endswith(b"\n") and len(hello) < _MAX_HELLO:
                part = peer.recv(1)
                if not part:
                    return None
                hello += part
            told = json.loads(hello)
            ours = isinstance(told, dict) and told.get("run") == self._run_id
            rank = told.get("rank") if ours else None
        except (OSError, ValueError):
            return None
        return rank if isinstance(rank, int) and 0 < rank < self.place.world_size else None

    def _join(self, address: tuple[str, int]) -> None:
        while True:
            try:
                peer = socket.create_connection(address, timeout=self._left())
                break
            except OSError:
                # Rank 0 may be later than this one.
                time.sleep(0.05)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hello = {"run": self._run_id, "rank": self.place.rank}
        peer.sendall(json.dumps(hello).encode() + b"\n")
        self._peers[0] = peer

    def barrier(self) -> None:
        if self.place.rank != 0:
            self._say(0, b"B")
            self._hear(0)
            return
        for rank in self._peers:
            self._hear(rank)
        for rank in self._peers:
            self._say(rank, b"G")

    def _say(self, rank: int, word: bytes) -> None:
        try:
            self._peers[rank].settimeout(self._left())
            self._peers[rank].sendall(word)
        except OSError as error:
            raise MeetError(f"rank {rank} has left: {error}") from error

    def _hear(self, rank: int) -> None:
        try:
            self._peers[rank].settimeout(self._left())
            word = self._peers[rank].recv(1)
        except TimeoutError:
            self._left()
            raise MeetError(f"rank {rank} did not come in time") from None
        except OSError as error:
            raise MeetError(f"rank {rank} has left: {error}") from error
        if word not in (b"B", b"G"):
            raise MeetError(f"rank {rank} failed or has left")

    def close(self, *, failed: bool) -> None:
        # Who waits hears the end of the stream in place of a word.
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()


class FolderGroup(Group):
    """Ranks that meet in a shared folder: each leaves a file for each barrier."""

    def __init__(self, place: Place, run_id: str, folder: Path, deadline: float) -> None:
        super().__init__(place)
        self._deadline = deadline
        self._folder = folder / f"meet-{run_id}"
        self._count = 0
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MeetError(f"cannot meet in `{self._folder}`: {error.strerror}") from error

    def barrier(self) -> None:
        self._count += 1
        (self._folder / f"{self._count}-{self.place.rank}").touch()
        waiting = {f"{self._count}-{rank}" for rank in range(self.place.world_size)}
        while waiting:
            here = {entry.name for entry in os.scandir(self._folder)}
            failed = sorted(name for name in here if name.startswith("failed-"))
            if failed:
                raise MeetError(f"rank {failed[0].removeprefix('failed-')} failed")
            waiting -= here
            if waiting and time.monotonic() > self._deadline:
                absent = ", ".join(sorted(name.split("-")[1] for name in waiting))
                raise MeetError(f"ranks {absent} did not come before the run's time was over")
            if waiting:
                time.sleep(_POLL_S)
        # All are past the barrier before this one, so nobody looks for its files any more.
        with suppress(OSError):
            (self._folder / f"{self._count - 1}-{self.place.rank}").unlink()

    def close(self, *, failed: bool) -> None:
        if failed:
            with suppress(OSError):
                (self._folder / f"failed-{self.place.rank}").touch()


class TorchGroup(Group):
    """Ranks that meet through `torch.distributed`: Gloo, or NCCL where each rank has a GPU."""

    def __init__(self, place: Place, spec: Spec) -> None:
        super().__init__(place)
        import torch
        import torch.distributed as dist

        cuda = torch.cuda.is_available() and torch.cuda.device_count() > 0
        self.backend = spec.backend if spec.backend != "auto" else ("nccl" if cuda else "gloo")
        self.device = torch.device("cpu")
        if self.backend == "nccl":
            self.device = torch.device("cuda", _gpu(place, torch.cuda.device_count()))
            torch.cuda.set_device(self.device)
        timeout = timedelta(seconds=max(1.0, spec.timeout_s))
        common: dict[str, Any] = {
            "rank": place.rank,
            "world_size": place.world_size,
            "timeout": timeout,
        }
        try:
            if spec.dist_init.startswith("file:"):
                folder = Path(spec.dist_init.removeprefix("file:")).resolve()
                folder.mkdir(parents=True, exist_ok=True)
                store = f"file://{folder / f'torch-{spec.run_id}'}"
                dist.init_process_group(self.backend, init_method=store, **common)
            elif place.world_size == 1:
                dist.init_process_group(
                    self.backend, store=torch._C._distributed_c10d.HashStore(), **common
                )
            else:
                dist.init_process_group(self.backend, init_method="env://", **common)
        except (RuntimeError, ValueError) as error:
            raise MeetError(
                f"cannot meet the other ranks through {self.backend}: {error}"
            ) from error

    def barrier(self) -> None:
        import torch.distributed as dist

        try:
            if self.device.type == "cuda":
                dist.barrier(device_ids=[self.device.index])
            else:
                dist.barrier()
        except RuntimeError as error:
            raise MeetError(f"another rank failed or did not come: {error}") from error

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def close(self, *, failed: bool) -> None:
        import torch.distributed as dist

        # After a failure the others may never answer: the end of the process tells them.
        alone = self.place.world_size == 1
        if (alone or not failed) and dist.is_initialized():
            dist.destroy_process_group()


def _gpu(place: Place, count: int) -> int:
    """The GPU of a rank: one for each, whether it sees those of all ranks of its node or its own.

    Raises:
        MeetError: there is none.
    """
    if count == 1:
        return 0
    if place.local_rank < count:
        return place.local_rank
    raise MeetError(
        f"NCCL needs a GPU for each rank, and rank {place.local_rank} of this node has none of its "
        f"{count}: start fewer ranks, or take `--backend gloo`"
    )


def meet(spec: Spec, place: Place, engine: str) -> Group:
    """Find the other ranks.

    Raises:
        MeetError: they cannot be found.
    """
    if engine == "torch":
        return TorchGroup(place, spec)
    if place.world_size == 1:
        return Alone(place)
    deadline = time.monotonic() + spec.timeout_s
    if spec.dist_init.startswith("file:"):
        folder = Path(spec.dist_init.removeprefix("file:"))
        return FolderGroup(place, spec.run_id, folder, deadline)
    return TcpGroup(place, spec.run_id, deadline)
