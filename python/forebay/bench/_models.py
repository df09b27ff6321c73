"""Models to train and to save: a synthetic one of any size, or one of Hugging Face."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from forebay.bench._meet import TorchGroup
from forebay.bench._rank import Rank
from forebay.bench._values import BenchError

if TYPE_CHECKING:
    import torch

# Tokens of each text that a language model is trained on.
_TOKENS = 32
# Prefix of a model that is made with random weights.
_CONFIG = "config:"


@dataclass(frozen=True)
class Model:
    """What is trained and saved."""

    layers: Annotated[int, "linear layers of the synthetic model"] = 4
    input_dim: Annotated[int, "its inputs and outputs"] = 1024
    hidden_dim: Annotated[int, "width of its hidden layers"] = 1024
    optimizer: Annotated[Literal["adam", "none"], "whose state is saved too"] = "adam"
    dtype: Annotated[Literal["float32", "bfloat16", "float16"], "of the parameters"] = "float32"
    model_name: Annotated[
        str,
        "a model of Hugging Face in place of the synthetic one: a folder, a name, or `config:` and a "
        "type or file for random weights",
    ] = ""
    cache_dir: Annotated[str, "where its files are kept"] = ""
    batch_per_rank: Annotated[int, "samples of the training iteration"] = 8
    chunk_size: Annotated[int, "engine native only"] = 8 << 20
    train_ms: Annotated[float, "engine native only"] = 0.0

    def parameters(self) -> int:
        """Parameters of the synthetic model."""
        inner, outer = self.hidden_dim, self.input_dim
        return 2 * outer * inner + inner + outer + (self.layers - 2) * (inner * inner + inner)


@dataclass
class Training:
    """A model with its optimizer, wrapped for its kind of parallelism."""

    model: torch.nn.Module
    optimizers: list[torch.optim.Optimizer]
    loss: Callable[[], Any]
    # The ranks that have it, where those are not all.
    group: Any = None

    def step(self) -> None:
        """One iteration: forward, backward, update."""
        self.loss().backward()
        for optimizer in self.optimizers:
            optimizer.step()
        self.model.zero_grad(set_to_none=True)


def group_of(rank: Rank) -> TorchGroup:
    """The ranks of a benchmark of the engine torch."""
    if not isinstance(rank.group, TorchGroup):
        raise BenchError("this benchmark needs the engine torch")
    return rank.group


def make(
    model: Model, rank: Rank, seed: int, wrap: Literal["ddp", "fsdp"], group: Any = None
) -> Training:
    """A model with weights that follow from the seed, and one training iteration behind it.

    It is that of all ranks, or of those of `group`, in the group's order.

    After that iteration the optimizer has all its state, so that every save is of one size.

    Raises:
        BenchError: the model cannot be made.
    """
    import torch

    device = group_of(rank).device
    torch.manual_seed(seed)
    plain, loss_of = plain_model(model, rank)
    plain = plain.to(device=device, dtype=getattr(torch, model.dtype))
    wrapped = _wrapped(plain, rank, wrap, group)
    optimizers: list[torch.optim.Optimizer] = []
    if model.optimizer == "adam":
        optimizers.append(torch.optim.Adam(wrapped.parameters(), lr=1e-4))
    training = Training(wrapped, optimizers, lambda: loss_of(wrapped, device), group)
    training.step()
    return training


def _wrapped(plain: torch.nn.Module, rank: Rank, wrap: str, group: Any) -> torch.nn.Module:
    import torch
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    device = group_of(rank).device
    if wrap == "ddp":
        on = [device.index] if device.type == "cuda" else None
        return DistributedDataParallel(plain, device_ids=on)
    if group is None:
        mesh = init_device_mesh(device.type, (rank.place.world_size,))
    else:
        mesh = DeviceMesh.from_group(group, device.type)
    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    blocks = [child for module in plain.modules() if isinstance(module, lists) for child in module]
    for block in blocks:
        if any(True for _ in block.parameters()):
            fully_shard(block, mesh=mesh)
    fully_shard(plain, mesh=mesh)
    return plain


LossOf = Callable[[Any, Any], Any]


def plain_model(model: Model, rank: Rank) -> tuple[torch.nn.Module, LossOf]:
    """The model itself, and how its loss is computed."""
    if model.model_name:
        return _hugging_face(model, rank)
    return _synthetic(model)


def _synthetic(model: Model) -> tuple[torch.nn.Module, LossOf]:
    import torch

    if model.layers < 2 or model.input_dim < 1 or model.hidden_dim < 1 or model.batch_per_rank < 1:
        raise BenchError(
            "the synthetic model needs at least 2 layers, and dimensions and a batch of at least 1: "
            f"{model.layers}, {model.input_dim}, {model.hidden_dim}, {model.batch_per_rank}"
        )
    inner = [torch.nn.Linear(model.hidden_dim, model.hidden_dim) for _ in range(model.layers - 2)]
    first = torch.nn.Linear(model.input_dim, model.hidden_dim)
    last = torch.nn.Linear(model.hidden_dim, model.input_dim)
    made = torch.nn.Sequential(first, *inner, last)

    def loss(wrapped: Any, device: Any) -> Any:
        shape = (model.batch_per_rank, model.input_dim)
        batch = torch.ones(shape, device=device, dtype=getattr(torch, model.dtype))
        return wrapped(batch).float().square().mean()

    return made, loss


def _hugging_face(model: Model, rank: Rank) -> tuple[torch.nn.Module, LossOf]:
    import torch

    try:
        import transformers
    except ImportError as error:
        raise BenchError(
            f"`model_name` {model.model_name} needs the package transformers: pip install transformers"
        ) from error
    try:
        made = _loaded(transformers, model, rank)
    except (OSError, ValueError, KeyError) as error:
        raise BenchError(f"cannot make the model `{model.model_name}`: {error}") from error
    vocabulary = int(made.config.vocab_size)

    def loss(wrapped: Any, device: Any) -> Any:
        shape = (model.batch_per_rank, _TOKENS)
        tokens = torch.arange(shape[0] * shape[1], device=device).reshape(shape) % vocabulary
        return wrapped(input_ids=tokens, labels=tokens).loss.float()

    return made, loss


def _loaded(transformers: Any, model: Model, rank: Rank) -> Any:
    name, cache_dir = model.model_name, model.cache_dir or None
    if name.startswith(_CONFIG):
        kind = name.removeprefix(_CONFIG)
        if Path(kind).exists():
            config = transformers.AutoConfig.from_pretrained(kind, local_files_only=True)
        else:
            config = transformers.AutoConfig.for_model(kind)
        return transformers.AutoModelForCausalLM.from_config(config)

    def load(**more: Any) -> Any:
        return transformers.AutoModelForCausalLM.from_pretrained(name, cache_dir=cache_dir, **more)

    if Path(name).is_dir():
        return load(local_files_only=True)
    # Rank 0 downloads while the others wait; then all read what it left.
    first = load() if rank.place.rank == 0 else None
    rank.group.barrier()
    return first if first is not None else load(local_files_only=True)


def checksum(tensors: Mapping[str, Any]) -> str:
    """SHA-256 over the tensors by name: their raw little-endian bytes, in order."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        for chunk in _bytes_of(tensors[name]):
            digest.update(chunk)
    return digest.hexdigest()


def _bytes_of(tensor: Any) -> Iterable[memoryview]:
    import torch

    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    if local.numel():
        flat = local.detach().to("cpu").contiguous().view(-1).view(torch.uint8)
        yield memoryview(flat.numpy())
