"""Checkpoints as PyTorch writes and reads them: one file of one rank, or a shard of each rank.

Each benchmark trains a real model: `DistributedDataParallel` with `torch.save` and `torch.load`, or
`fully_shard` with `torch.distributed.checkpoint`. Parameters are compared by checksum with what was
saved. The engine `native` writes the same sizes without PyTorch, which parts storage from the rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from forebay.bench import _dcp
from forebay.bench._measure import apart, count, measured, untimed, verified
from forebay.bench._models import Model, Training, checksum, group_of, make, plain_model
from forebay.bench._rank import Rank, barrier, current
from forebay.bench._registry import benchable
from forebay.bench._values import BenchError

Checkpoint = Annotated[
    Path,
    "checkpoint to load, kept by a save benchmark with --keep-data; one that is made where none is named",
]
_NONE = Path()


@benchable(category="Checkpointing", engine="torch")
def ddp_save(seed: int, fsync: str, model: Model) -> Iterator[None]:
    """One training iteration, then one rank writes the model's state to one file."""
    rank = current()
    training = rank.once("training", lambda: make(model, rank, seed, "ddp"))
    path = rank.shared / "ckpt.pt"
    if rank.place.rank == 0:
        path.unlink(missing_ok=True)
    yield
    with apart():
        _train(rank, training)
        barrier()
    if rank.place.rank == 0:
        _save_file(training, path, fsync)
        _counted([path])
    yield
    if rank.is_last and rank.place.rank == 0:
        _write_sidecar(path.with_suffix(".json"), _tensors(training))
        _compare(_read_file(path)["model"], path.with_suffix(".json"))


@benchable(category="Checkpointing", engine="torch")
def ddp_load(seed: int, model: Model, checkpoint: Checkpoint = _NONE) -> Iterator[None]:
    """All ranks read the same file, then train one iteration."""
    rank = current()
    # Other weights than those of the file, so that what is not loaded shows.
    training = rank.once("training", lambda: make(model, rank, seed + 1, "ddp"))
    path = rank.once("path", lambda: _ddp_checkpoint(rank, model, seed, checkpoint))
    rank.cache.drop([path])
    yield
    with measured("load_total"):
        state = _read_file(path)
        _plain(training.model).load_state_dict(state["model"])
        for optimizer, one in zip(training.optimizers, state["optimizers"], strict=False):
            optimizer.load_state_dict(one)
        group_of(rank).synchronize()
    _counted([path])
    barrier()
    with untimed():
        _compare(_tensors(training), path.with_suffix(".json"))
        rank.group.barrier()
    with apart():
        _train(rank, training)


@benchable(category="Checkpointing", engine="torch")
def fsdp_save(
    seed: int,
    fsync: str,
    model: Model,
    thread_count: Annotated[int, "threads of each rank that write"] = 1,
    single_file_per_rank: Annotated[bool, "one file of each rank; else one for each tensor"] = True,
    sync_files: Annotated[bool, "write files through before the save is over"] = True,
) -> Iterator[None]:
    """One training iteration, then all ranks write their shards."""
    rank = current()
    training = rank.once("training", lambda: make(model, rank, seed, "fsdp"))
    folder = rank.shared / f"fsdp-{rank.iteration}"
    layout = _dcp.Layout(thread_count, single_file_per_rank, sync_files and fsync != "none")
    yield
    with apart():
        _train(rank, training)
        barrier()
    with measured("save_total"):
        _dcp.save(_dcp.state_of(training), folder, layout)
    _counted(folder.glob(f"__{rank.place.rank}_*.distcp"))
    yield
    if rank.is_last:
        _write_shards(rank, training, folder)
        _dcp.load(_dcp.state_of(training), folder, training)
        _compare_shard(training, folder, _dcp.Readers.of(rank, 0, 0))
    elif rank.place.rank == 0:
        _dcp.remove(folder)


@benchable(category="Checkpointing", engine="torch")
def fsdp_load(
    seed: int,
    model: Model,
    checkpoint: Checkpoint = _NONE,
    single_file_per_rank: Annotated[bool, "of the checkpoint that is made"] = True,
    full_state_dict: Annotated[bool, "every rank puts the whole state together"] = False,
    reshard_to: Annotated[int, "ranks that the state is loaded for; 0: as many as there are"] = 0,
    reader_shift: Annotated[int, "each rank reads the shard of the rank so many places on"] = 0,
) -> Iterator[None]:
    """All ranks read their shards, then train one iteration."""
    rank = current()
    folder = rank.once(
        "folder", lambda: _fsdp_checkpoint(rank, model, seed, checkpoint, single_file_per_rank)
    )
    readers = rank.once("readers", lambda: _dcp.Readers.of(rank, reshard_to, reader_shift))
    training = rank.once("training", lambda: _reader(model, rank, seed + 1, readers))
    rank.cache.drop(_shards(folder, rank if readers.group is None else None))
    yield
    if training is not None:
        with measured("load_total"):
            _dcp.load(_dcp.state_of(training), folder, training)
            if full_state_dict:
                with measured("consolidate"):
                    _dcp.full_model(training, cpu_offload=False)
            group_of(rank).synchronize()
        count(ops=1)
    barrier()
    with untimed():
        if training is not None:
            _compare_shard(training, folder, readers)
        rank.group.barrier()
    if training is not None:
        with apart():
            _train(rank, training)


def _reader(model: Model, rank: Rank, seed: int, readers: _dcp.Readers) -> Training | None:
    """The model of a rank that reads; None for one that does not."""
    if readers.place is None:
        if model.model_name:
            # A model of Hugging Face is downloaded by one rank, and all of them wait for it.
            plain_model(model, rank)
        return None
    return make(model, rank, seed, "fsdp", readers.group)


@benchable(category="Checkpointing", engine="torch")
def rl_load(
    seed: int,
    model: Model,
    checkpoint: Checkpoint = _NONE,
    single_file_per_rank: Annotated[bool, "of the checkpoint that is made"] = True,
    consolidate: Annotated[
        Literal["allgather", "read_all"],
        "the full model by exchange between ranks, or by reading all shards",
    ] = "allgather",
    cpu_offload: Annotated[bool, "the full model goes to the memory of rank 0's host"] = False,
) -> Iterator[None]:
    """All ranks read shards and put the full model together, as inference workers do."""
    rank = current()
    training = rank.once("training", lambda: make(model, rank, seed + 1, "fsdp"))
    folder = rank.once(
        "folder", lambda: _fsdp_checkpoint(rank, model, seed, checkpoint, single_file_per_rank)
    )
    plain = None
    if consolidate == "read_all":
        plain = rank.once("plain", lambda: plain_model(model, rank)[0].to(dtype=_dtype(model)))
    rank.cache.drop(_shards(folder, rank if plain is None else None))
    yield
    with measured("rl_total"):
        if plain is None:
            _dcp.load_model(training, folder)
            with measured("consolidate"):
                full = _dcp.full_model(training, cpu_offload=cpu_offload)
        else:
            full = _dcp.read_all(plain, folder)
            with measured("consolidate"):
                plain.load_state_dict(full)
        group_of(rank).synchronize()
    count(ops=1)
    yield
    if full:
        _compare(full, folder.with_suffix(".json"))


def _train(rank: Rank, training: Training) -> None:
    with measured("train_iter"):
        training.step()
        group_of(rank).synchronize()


def _dtype(model: Model) -> Any:
    import torch

    return getattr(torch, model.dtype)


def _plain(model: Any) -> Any:
    """The model below `DistributedDataParallel`."""
    return getattr(model, "module", model)


def _tensors(training: Training) -> dict[str, Any]:
    return dict(_plain(training.model).state_dict())


def _save_file(training: Training, path: Path, fsync: str) -> None:
    """Write the state to a file that is there whole or not at all."""
    import torch

    state = {
        "model": _plain(training.model).state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in training.optimizers],
    }
    partial = path.with_suffix(".partial")
    with measured("save_total"):
        with measured("open"):
            file = partial.open("wb")
        with file:
            with measured("write"):
                torch.save(state, file)
                file.flush()
            if fsync != "none":
                with measured("fsync"):
                    os.fsync(file.fileno())
        with measured("rename"):
            partial.replace(path)
        if fsync == "file+dir":
            with measured("fsync_dir"):
                _dcp.sync_folder(path.parent)


def _read_file(path: Path) -> dict[str, Any]:
    """Read a state to the host; the time in reads of the file is `read`, the rest `deserialize`."""
    import torch

    with _dcp.TimedReader(path) as reader:
        file: Any = reader
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    return state


def _ddp_checkpoint(rank: Rank, model: Model, seed: int, checkpoint: Path) -> Path:
    """The file to load: the one that was named, or one that rank 0 makes for all."""
    if checkpoint != _NONE:
        if not checkpoint.is_file():
            raise BenchError(f"there is no checkpoint `{checkpoint}`")
        return checkpoint
    path = rank.shared / "ckpt.pt"
    training = make(model, rank, seed, "ddp")
    if rank.place.rank == 0:
        _save_file(training, path, "file")
        _write_sidecar(path.with_suffix(".json"), _tensors(training))
    rank.group.barrier()
    return path


def _fsdp_checkpoint(rank: Rank, model: Model, seed: int, checkpoint: Path, single: bool) -> Path:
    """The folder to load: the one that was named, or one that all ranks make."""
    if checkpoint != _NONE:
        if not (checkpoint / ".metadata").is_file():
            raise BenchError(
                f"`{checkpoint}` is no checkpoint of torch.distributed: it has no `.metadata`"
            )
        return checkpoint
    folder = rank.shared / "fsdp"
    training = make(model, rank, seed, "fsdp")
    _dcp.save(_dcp.state_of(training), folder, _dcp.Layout(1, single, True))
    _write_shards(rank, training, folder)
    rank.group.barrier()
    return folder


def _shards(folder: Path, rank: Rank | None) -> list[Path]:
    """Files of a checkpoint: all, or those that this rank wrote, where their names say so."""
    paths = sorted(folder.glob("*.distcp"))
    if rank is None:
        return paths
    return [path for path in paths if path.name.startswith(f"__{rank.place.rank}_")] or paths


def _counted(paths: Iterable[Path]) -> None:
    """Count the bytes of files that were written or read, while the clock stands."""
    with untimed():
        count(io_bytes=sum(path.stat().st_size for path in paths), ops=1)


def _write_sidecar(path: Path, tensors: dict[str, Any]) -> None:
    told = {"parameters_sha256": checksum(tensors), "tensors": len(tensors)}
    path.write_text(json.dumps(told))


def _write_shards(rank: Rank, training: Training, folder: Path) -> None:
    """What the checkpoint holds: of each rank its shard, of the whole model the sum."""
    place = rank.place
    beside = folder.with_suffix(f".{place.rank}-of-{place.world_size}.json")
    _write_sidecar(beside, _dcp.local_model(training))
    full = _dcp.full_model(training, cpu_offload=False)
    if place.rank == 0:
        _write_sidecar(folder.with_suffix(".json"), full)


def _compare_shard(training: Training, folder: Path, readers: _dcp.Readers) -> None:
    """This rank's own parameters where as many ranks saved; the whole model's where not."""
    shards = len(readers.order)
    # All readers must decide alike, since putting the model together takes all.
    if folder.with_suffix(f".0-of-{shards}.json").is_file():
        beside = folder.with_suffix(f".{readers.place}-of-{shards}.json")
        _compare(_dcp.local_model(training), beside)
    else:
        _compare(_dcp.full_model(training, cpu_offload=False), folder.with_suffix(".json"))


def _compare(tensors: dict[str, Any], sidecar: Path) -> None:
    """Compare parameters with what the checkpoint's sidecar says of them."""
    if not sidecar.is_file():
        raise BenchError(f"the checkpoint has no `{sidecar.name}` to compare its parameters with")
    told = json.loads(sidecar.read_text())
    same = told.get("parameters_sha256") == checksum(tensors)
    verified(len(tensors), bad=0 if same else len(tensors))
